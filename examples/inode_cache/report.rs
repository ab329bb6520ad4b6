//! What is told in the end: one table, what the walks found, and the same as JSON.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::thread;

use serde::Serialize;

use crate::cache::Counters;
use crate::measure::SAMPLES;
use crate::workload::walk::Findings;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) version: &'static str,
    pub(crate) os: &'static str,
    pub(crate) arch: &'static str,
    pub(crate) cpus: usize,
    pub(crate) threads: usize,
    pub(crate) rows: Vec<Row>,
}

/// One workload over one strategy.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) workload: &'static str,
    pub(crate) drop: String,
    pub(crate) strategy: String,
    /// The median of the samples.
    pub(crate) operations_per_second: f64,
    /// In the order in which they were taken.
    pub(crate) samples: Vec<f64>,
    /// Against the better lock in the same workload, if one was run.
    pub(crate) ratio_to_better_lock: Option<f64>,
    pub(crate) peak_waiting: u64,
    pub(crate) at_end: Option<Counters>,
    pub(crate) walk: Option<Findings>,
    /// What went wrong; nothing, if all is well.
    pub(crate) problems: Vec<String>,
}

const HEADINGS: [&str; 9] = [
    "workload",
    "drop",
    "strategy",
    "ops/s",
    "to lock",
    "spread",
    "peak waiting",
    "inodes, unused, waiting",
    "checks",
];

/// Columns from here on are numbers, and end where their heading ends.
const FIRST_NUMBER: usize = 3;

impl Report {
    pub(crate) fn new(threads: usize, rows: Vec<Row>) -> Self {
        Report {
            version: env!("CARGO_PKG_VERSION"),
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            cpus: thread::available_parallelism().map_or(1, usize::from),
            threads,
            rows,
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.rows.iter().all(|row| row.problems.is_empty())
    }

    /// Returns the table, and below it what the walks found.
    pub(crate) fn table(&self) -> String {
        let mut lines = vec![HEADINGS.map(str::to_owned)];
        lines.extend(self.rows.iter().map(Row::cells));
        let widths: [usize; HEADINGS.len()] = std::array::from_fn(|column| {
            lines
                .iter()
                .map(|line| line[column].chars().count())
                .max()
                .unwrap_or(0)
        });
        let mut text = format!(
            "threads: {}, CPUs: {}, median of {SAMPLES} samples\n\n",
            self.threads, self.cpus
        );
        for (number, line) in lines.iter().enumerate() {
            // A gap between workloads.
            if number > 1 && lines[number - 1][..2] != line[..2] {
                text.push('\n');
            }
            let mut padded = String::new();
            for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                // Writing to a string never fails.
                let _ = match column < FIRST_NUMBER {
                    true => write!(padded, "{gap}{cell:<width$}"),
                    false => write!(padded, "{gap}{cell:>width$}"),
                };
            }
            text.push_str(padded.trim_end());
            text.push('\n');
        }
        for row in &self.rows {
            if let Some(walk) = &row.walk {
                let _ = writeln!(text, "walk, {}: {walk}", row.strategy);
            }
        }
        text
    }

    /// Says what went wrong, a line each.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        self.rows.iter().flat_map(|row| {
            row.problems
                .iter()
                .map(move |problem| format!("{}, {}: {problem}", row.workload, row.strategy))
        })
    }

    /// Writes the results, instead of what is in the file.
    pub(crate) fn write_json(&self, file: &mut File) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        // A pipe or a device has no length.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
            file.rewind()?;
        }
        file.write_all(&text)
    }
}

impl Row {
    fn cells(&self) -> [String; HEADINGS.len()] {
        let ratio = self
            .ratio_to_better_lock
            .map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let (low, high) = self
            .samples
            .iter()
            .fold((f64::MAX, 0.0f64), |(low, high), &s| {
                (low.min(s), high.max(s))
            });
        let at_end = self.at_end.map_or("-".to_owned(), |end| {
            format!("{}, {}, {}", end.nr_inodes, end.nr_unused, end.waiting)
        });
        [
            self.workload.to_owned(),
            self.drop.clone(),
            self.strategy.clone(),
            thousands(self.operations_per_second as u64),
            ratio,
            format!("{:.0} %", 100.0 * (high - low) / self.operations_per_second),
            thousands(self.peak_waiting),
            at_end,
            if self.problems.is_empty() {
                "ok"
            } else {
                "FAILED"
            }
            .to_owned(),
        ]
    }
}

/// Writes a number with a comma after every three digits.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
