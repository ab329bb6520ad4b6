//! Measures a section's entries in turn, and turns the samples into rows.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::args::Options;
use crate::backlog::Held;
use crate::lanes::Round;
use crate::row::{self, Row};
use crate::stats;

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// For the clock, with plain payloads.
    Timed,
    /// For backlog and delay, with counted ones.
    Counted,
}

/// What one run gave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Nanoseconds per operation and thread.
    pub ns: Option<f64>,
    /// What waited meanwhile.
    pub held: Option<Held>,
}

type Run = Box<dyn Fn(Pass, Round) -> Sample>;

/// One contender with one number of threads.
pub struct Entry {
    /// Its name in the row.
    pub contender: String,
    /// Told in the row.
    pub threads: usize,
    /// Whether it gets a process of its own.
    pub apart: bool,
    /// Whether it has a counted pass besides the timed one.
    pub counted: bool,
    /// Whether one sample is enough, since it lasts as long as a stall.
    pub once: bool,
    /// Whether its time is told as a ratio to the floor's, which then runs in the same process.
    pub beside_floor: bool,
    /// Takes one sample.
    pub run: Run,
}

impl Entry {
    /// An entry that is timed in this process.
    pub fn timed(contender: &str, threads: usize, run: impl Fn(Round) -> f64 + 'static) -> Self {
        let run = move |_, round| Sample {
            ns: Some(run(round)),
            held: None,
        };
        Self {
            contender: contender.to_owned(),
            threads,
            apart: false,
            counted: false,
            once: false,
            beside_floor: true,
            run: Box::new(run),
        }
    }

    fn is_floor(&self) -> bool {
        row::family(&self.contender) == "floor"
    }
}

/// One section with what it measures.
pub struct Card {
    pub section: &'static str,
    pub entries: Vec<Entry>,
}

/// Why a section gave no rows.
pub type Failure = Box<dyn std::error::Error>;

impl Card {
    /// Measures the entries that the options name: here, interleaved, or in processes of their own.
    pub fn measure(mut self, options: &Options) -> Result<Vec<Row>, Failure> {
        let order: Vec<String> = self
            .entries
            .iter()
            .map(|entry| entry.contender.clone())
            .collect();
        let has_seize = order.iter().any(|name| row::family(name) == "seize");
        self.entries.retain(|entry| {
            options
                .row_threads
                .is_none_or(|threads| entry.threads == threads)
                && (entry.is_floor() || options.names(&entry.contender))
        });
        let mut apart = Vec::new();
        if !options.in_process {
            let is_apart = |entry: &mut Entry| entry.apart && !entry.is_floor();
            apart.extend(self.entries.extract_if(.., is_apart));
        }
        if options.in_process || !options.contenders.is_empty() {
            self.drop_lonely_floors();
        }
        let mut rows = self.interleave(options);
        for entry in &apart {
            progress(
                self.section,
                &format!("{}, in a process of its own", entry.contender),
            );
            let program = std::env::current_exe()?;
            rows.extend(self.ask_child(
                &program,
                &entry.contender,
                Some(entry.threads),
                options,
            )?);
        }
        if let (true, Some(program)) = (has_seize, &options.second_build) {
            progress(self.section, "the second build");
            rows.extend(self.ask_child(program, "seize", None, options)?);
        }
        progress(self.section, "");
        let place = |row: &Row| {
            let exactly = order.iter().position(|name| *name == row.contender);
            let akin = || {
                order
                    .iter()
                    .position(|name| row::family(name) == row::family(&row.contender))
            };
            exactly.or_else(akin).unwrap_or(order.len())
        };
        rows.sort_by_key(|row| (row.threads, place(row)));
        Ok(rows)
    }

    /// Takes out the floors beside which nothing is left, unless only floors were asked for.
    fn drop_lonely_floors(&mut self) {
        let others = self.entries.iter().filter(|entry| !entry.is_floor());
        let (beside, alone): (Vec<_>, Vec<_>) = others.partition(|entry| entry.beside_floor);
        let beside: Vec<usize> = beside.iter().map(|entry| entry.threads).collect();
        if !beside.is_empty() || !alone.is_empty() {
            self.entries
                .retain(|entry| !entry.is_floor() || beside.contains(&entry.threads));
        }
    }

    fn interleave(&self, options: &Options) -> Vec<Row> {
        let mut samples: Vec<Vec<Sample>> = self.entries.iter().map(|_| Vec::new()).collect();
        let passes = [
            (Pass::Timed, options.repeats()),
            (Pass::Counted, options.counted_repeats()),
        ];
        for (pass, repeats) in passes {
            for repeat in 0..repeats {
                for (entry, samples) in self.entries.iter().zip(&mut samples) {
                    let skip = match pass {
                        Pass::Timed => entry.once && repeat > 0,
                        // Only its time is wanted beside one that is measured apart.
                        Pass::Counted => !entry.counted || (options.in_process && entry.is_floor()),
                    };
                    if skip {
                        continue;
                    }
                    let told = format!("{pass:?} {}/{repeats} {}", repeat + 1, entry.contender);
                    progress(self.section, &told);
                    samples.push((entry.run)(pass, options.round()));
                }
            }
        }
        self.rows(&samples)
    }

    fn rows(&self, samples: &[Vec<Sample>]) -> Vec<Row> {
        let median =
            |samples: &[Sample]| stats::spread(&times(samples)).map(|spread| spread.median);
        let all = || self.entries.iter().zip(samples);
        let row = |(entry, own): (&Entry, &Vec<Sample>)| {
            let is_floor = |(other, _): &(&Entry, _)| {
                other.contender == "floor" && other.threads == entry.threads
            };
            let floor = all()
                .find(is_floor)
                .and_then(|(_, samples)| median(samples));
            self.row(entry, own, floor.filter(|_| entry.beside_floor))
        };
        all().map(row).collect()
    }

    fn row(&self, entry: &Entry, samples: &[Sample], floor: Option<f64>) -> Row {
        let spread = stats::spread(&times(samples));
        let held: Vec<Held> = samples.iter().filter_map(|sample| sample.held).collect();
        let count: u64 = held.iter().map(|held| held.delay.count).sum();
        let sum: u64 = held.iter().map(|held| held.delay.sum).sum();
        let max = held.iter().map(|held| held.delay.max).max();
        let has_delay = count > 0;
        let rounded = |value: f64| (value * 1e3).round() / 1e3;
        let median = spread.map(|spread| spread.median);
        Row {
            section: self.section.to_owned(),
            contender: entry.contender.clone(),
            threads: entry.threads,
            ns_median: median.map(rounded),
            ns_min: spread.map(|spread| rounded(spread.min)),
            ns_max: spread.map(|spread| rounded(spread.max)),
            ratio_to_floor: stats::ratio(median, floor).map(rounded),
            peak_backlog: held.iter().map(|held| held.peak).max(),
            delay_us_mean: has_delay.then(|| rounded(sum as f64 / count as f64 / 1e3)),
            delay_us_max: max
                .filter(|_| has_delay)
                .map(|max| rounded(max as f64 / 1e3)),
        }
    }

    /// Has another process measure one contender beside the floors: one row if so many threads are given.
    fn ask_child(
        &self,
        program: &Path,
        contender: &str,
        threads: Option<usize>,
        options: &Options,
    ) -> Result<Vec<Row>, Failure> {
        let mut command = Command::new(program);
        command.args([
            "--json",
            "-",
            "--section",
            self.section,
            "--contender",
            contender,
        ]);
        command.args(options.for_child(threads));
        let output = command.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("{contender} in a process of its own: {}", output.status).into());
        }
        let mut rows = row::from_json(std::str::from_utf8(&output.stdout)?)?;
        rows.retain(|row| !row.is_floor());
        Ok(rows)
    }
}

fn times(samples: &[Sample]) -> Vec<f64> {
    samples.iter().filter_map(|sample| sample.ns).collect()
}

/// Tells on the terminal what is being measured.
fn progress(section: &str, what: &str) {
    let mut terminal = io::stderr();
    if terminal.is_terminal() {
        let line = if what.is_empty() {
            String::new()
        } else {
            format!("{section}: {what}")
        };
        // A terminal that is gone is no reason to stop.
        let _written = write!(terminal, "\r\x1b[K{line}").and_then(|()| terminal.flush());
    }
}
