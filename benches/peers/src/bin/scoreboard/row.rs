//! The rows of the board, as JSON and as a table.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// One contender at one section with one number of threads. What doesn't apply is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub section: String,
    pub contender: String,
    pub threads: usize,
    /// Per operation and thread; of processor time where there are more threads than processors.
    pub ns_median: Option<f64>,
    pub ns_min: Option<f64>,
    pub ns_max: Option<f64>,
    /// Median over that of the floor's row in the same process.
    pub ratio_to_floor: Option<f64>,
    /// Objects retired and not yet dropped, at most.
    pub peak_backlog: Option<u64>,
    pub delay_us_mean: Option<f64>,
    pub delay_us_max: Option<f64>,
}

impl Row {
    /// Whether it is a floor's.
    pub fn is_floor(&self) -> bool {
        family(&self.contender) == "floor"
    }
}

/// A contender's name without its variant.
pub fn family(contender: &str) -> &str {
    contender.split(':').next().unwrap_or(contender)
}

/// A contender's name with one more variant.
pub fn variant(contender: &str, variant: &str) -> String {
    let mark = if contender.contains(':') { '-' } else { ':' };
    format!("{contender}{mark}{variant}")
}

/// The rows as a JSON array, one row a line.
pub fn to_json(rows: &[Row]) -> String {
    let line = |row: &Row| serde_json::to_string(row).expect("rows are plain data");
    let lines: Vec<String> = rows.iter().map(line).collect();
    if lines.is_empty() {
        return "[]\n".to_owned();
    }
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// Reads what [`to_json`] wrote.
pub fn from_json(text: &str) -> serde_json::Result<Vec<Row>> {
    serde_json::from_str(text)
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value < 1_000.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.0}"),
    }
}

/// One section's rows as a table for people.
pub fn to_table(rows: &[Row], is_cpu: impl Fn(usize) -> bool) -> String {
    let wide = rows
        .iter()
        .map(|row| row.contender.len())
        .max()
        .unwrap_or(0)
        .max(9);
    let mut text = format!(
        "{:<wide$} {:>7} {:>10} {:>10} {:>10} {:>8} {:>12} {:>12} {:>12}\n",
        "contender",
        "threads",
        "ns median",
        "min",
        "max",
        "x floor",
        "peak backlog",
        "delay us",
        "delay max"
    );
    for row in rows {
        let mark = if row.ns_median.is_some() && is_cpu(row.threads) {
            "*"
        } else {
            ""
        };
        writeln!(
            text,
            "{:<wide$} {:>7} {:>10} {:>10} {:>10} {:>8} {:>12} {:>12} {:>12}",
            row.contender,
            format!("{}{mark}", row.threads),
            number(row.ns_median),
            number(row.ns_min),
            number(row.ns_max),
            number(row.ratio_to_floor),
            row.peak_backlog
                .map_or("-".to_owned(), |peak| peak.to_string()),
            number(row.delay_us_mean),
            number(row.delay_us_max),
        )
        .expect("a string takes all");
    }
    if rows
        .iter()
        .any(|row| row.ns_median.is_some() && is_cpu(row.threads))
    {
        text.push_str("* more threads than processors: processor time per operation\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            section: "guard".to_owned(),
            contender: "floor:seqcst".to_owned(),
            threads: 2,
            ns_median: Some(1.5),
            ns_min: Some(1.0),
            ns_max: Some(2.0),
            ratio_to_floor: None,
            peak_backlog: None,
            delay_us_mean: None,
            delay_us_max: None,
        }
    }

    #[test]
    fn json_has_every_field_and_null_where_it_does_not_apply() {
        let value: serde_json::Value = serde_json::from_str(&to_json(&[row()])).unwrap();
        let fields: Vec<&String> = value[0].as_object().unwrap().keys().collect();
        let mut expected = [
            "section",
            "contender",
            "threads",
            "ns_median",
            "ns_min",
            "ns_max",
            "ratio_to_floor",
            "peak_backlog",
            "delay_us_mean",
            "delay_us_max",
        ];
        expected.sort_unstable();
        assert_eq!(fields, expected);
        assert!(value[0]["peak_backlog"].is_null());
        assert_eq!(value[0]["ns_median"], 1.5);
    }

    #[test]
    fn json_comes_back_as_it_went() {
        let rows = [row(), row()];
        assert_eq!(from_json(&to_json(&rows)).unwrap(), rows);
        assert_eq!(from_json(&to_json(&[])).unwrap(), []);
    }

    #[test]
    fn second_variant_is_joined_to_the_first() {
        assert_eq!(variant("kovan", "idle-thread"), "kovan:idle-thread");
        assert_eq!(variant("liburcu:memb", "alone"), "liburcu:memb-alone");
        assert_eq!(family("liburcu:memb-alone"), "liburcu");
        assert!(row().is_floor());
    }

    #[test]
    fn table_marks_processor_time() {
        assert!(to_table(&[row()], |threads| threads > 1).contains("2*"));
        assert!(!to_table(&[row()], |_| false).contains('*'));
    }
}
