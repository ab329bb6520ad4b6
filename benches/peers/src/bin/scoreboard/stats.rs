//! Medians and ratios.

/// Median, least and greatest of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

/// Tells the spread of `values`, if there are any.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    let half = sorted.len() / 2;
    let median = if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[half - 1], sorted[half])
    } else {
        sorted[half]
    };
    Some(Spread { median, min, max })
}

/// `value` over `floor`, if both are there and the floor isn't zero.
pub fn ratio(value: Option<f64>, floor: Option<f64>) -> Option<f64> {
    match (value, floor) {
        (Some(value), Some(floor)) if floor > 0.0 => Some(value / floor),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_odd_number_is_the_middle_one() {
        let spread = spread(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!(
            spread,
            Spread {
                median: 2.0,
                min: 1.0,
                max: 3.0
            }
        );
    }

    #[test]
    fn median_of_an_even_number_lies_between_the_middle_ones() {
        assert_eq!(spread(&[4.0, 1.0, 2.0, 10.0]).unwrap().median, 3.0);
    }

    #[test]
    fn nothing_has_no_median() {
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn ratio_needs_a_floor_above_zero() {
        assert_eq!(ratio(Some(6.0), Some(4.0)), Some(1.5));
        assert_eq!(ratio(Some(6.0), Some(0.0)), None);
        assert_eq!(ratio(Some(6.0), None), None);
        assert_eq!(ratio(None, Some(4.0)), None);
    }
}
