//! Draws section `mix`: the cost of an operation over the share of updates.

use std::path::Path;

use plotters::prelude::*;

use crate::board::Failure;
use crate::lanes;
use crate::row::Row;
use crate::sections::READS;

const SIZE: (u32, u32) = (840, 540);

/// One contender's points: reads per update, nanoseconds.
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

/// The lines of so many threads, in the order of the rows.
fn lines(rows: &[Row], threads: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows
        .iter()
        .filter(|row| row.section == "mix" && row.threads == threads)
    {
        let Some((name, reads)) = split(&row.contender) else {
            continue;
        };
        let Some(ns) = row.ns_median else { continue };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push((reads, ns)),
            None => lines.push(Line {
                name: name.to_owned(),
                points: vec![(reads, ns)],
            }),
        }
    }
    lines
}

/// The contender and the reads per update of a row of `mix`.
fn split(contender: &str) -> Option<(&str, f64)> {
    let at = contender.rfind("reads-")?;
    let reads = contender[at..].trim_start_matches("reads-").parse().ok()?;
    Some((contender[..at].trim_end_matches([':', '-']), reads))
}

/// Writes one SVG per number of threads.
pub fn draw(rows: &[Row], directory: &Path) -> Result<(), Failure> {
    let mut threads: Vec<usize> = rows
        .iter()
        .filter(|row| row.section == "mix")
        .map(|row| row.threads)
        .collect();
    threads.dedup();
    for threads in threads {
        let path = directory.join(format!("mix-{threads}.svg"));
        draw_one(&lines(rows, threads), threads, &path)?;
    }
    Ok(())
}

fn draw_one(lines: &[Line], threads: usize, path: &Path) -> Result<(), Failure> {
    let values = || {
        lines
            .iter()
            .flat_map(|line| line.points.iter().map(|point| point.1))
    };
    let low = values().fold(f64::INFINITY, f64::min) / 1.5;
    let high = values().fold(0.0, f64::max) * 1.5;
    let most = f64::from(*READS.last().expect("there are ratios"));
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let many = if threads == 1 { "thread" } else { "threads" };
    let mut chart = ChartBuilder::on(&root)
        .caption(
            format!("One shared pointer, {threads} {many}"),
            ("sans-serif", 22),
        )
        .margin(12)
        .x_label_area_size(52)
        .y_label_area_size(72)
        .build_cartesian_2d((0.8..most * 1.3).log_scale(), (low..high).log_scale())?;
    let time = if lanes::is_oversubscribed(threads) {
        "processor time"
    } else {
        "time"
    };
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .label_style(("sans-serif", 16))
        .axis_desc_style(("sans-serif", 18))
        .x_desc("reads per update")
        .y_desc(format!("{time} per operation and thread (ns)"))
        .x_label_formatter(&|reads| format!("{reads:.0}"))
        .y_label_formatter(&|ns| format!("{ns}"))
        .draw()?;
    for (index, line) in lines.iter().enumerate() {
        let style = style(index);
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), style))?
            .label(&line.name)
            .legend(move |(x, y)| {
                let path = PathElement::new([(x, y), (x + 24, y)], style);
                EmptyElement::at((0, 0)) + path + marker(index, (x + 12, y), style)
            });
        let markers = line.points.iter().map(|&point| marker(index, point, style));
        chart.draw_series(markers)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(("sans-serif", 16))
        .legend_area_size(32)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}

/// Shades that keep their order in grey; the markers tell them apart.
fn style(index: usize) -> ShapeStyle {
    const SHADES: [RGBColor; 6] = [
        RGBColor(0, 0, 0),
        RGBColor(0, 70, 150),
        RGBColor(170, 60, 0),
        RGBColor(0, 120, 80),
        RGBColor(120, 120, 120),
        RGBColor(150, 120, 170),
    ];
    let width = if index == 0 { 2 } else { 1 };
    SHADES[index % SHADES.len()].stroke_width(width)
}

/// Forms of markers.
const FORMS: usize = 4;

/// The corners of a form of its own for each line.
fn corners(index: usize) -> Vec<(i32, i32)> {
    match index % FORMS {
        0 => vec![(-4, -4), (4, -4), (4, 4), (-4, 4)],
        1 => vec![(0, -5), (5, 4), (-5, 4)],
        2 => vec![(0, -6), (6, 0), (0, 6), (-6, 0)],
        _ => vec![(-5, -4), (5, -4), (0, 5)],
    }
}

type Corner = (i32, i32);
type Marker<C, B> = plotters::element::ComposedElement<C, B, Polygon<Corner>, PathElement<Corner>>;

/// A line's marker: of its own form, filled in every second round.
fn marker<C, B: DrawingBackend>(index: usize, at: C, style: ShapeStyle) -> Marker<C, B> {
    let mut corners = corners(index);
    let fill = if (index / FORMS).is_multiple_of(2) {
        style.filled()
    } else {
        WHITE.filled()
    };
    let inside = Polygon::new(corners.clone(), fill);
    corners.push(corners[0]);
    EmptyElement::at(at) + inside + PathElement::new(corners, style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contender_of_a_mix_row_is_told_from_its_ratio() {
        assert_eq!(split("graceperiod:reads-100"), Some(("graceperiod", 100.0)));
        assert_eq!(
            split("rwlock:parking-lot-reads-1"),
            Some(("rwlock:parking-lot", 1.0))
        );
        assert_eq!(split("kovan"), None);
    }
}
