//! Fair measuring: the contenders take turns in short samples and the median of each counts, so that a slow moment of the
//! machine meets them all.

use std::time::Duration;

use clap::ValueEnum;

use crate::cache::DropMode;
use crate::progress::Progress;
use crate::report::Row;
use crate::strategy::Strategy;
use crate::workload::{Plan, Run};

/// Samples per contender. Odd, so that there is one in the middle.
pub(crate) const SAMPLES: usize = 7;

/// Who runs in one workload.
pub(crate) struct Field<'a> {
    pub(crate) workload: &'static str,
    pub(crate) strategies: &'a [Strategy],
    pub(crate) drops: &'a [DropMode],
    /// How long each contender is measured in all.
    pub(crate) length: Duration,
}

struct Contender {
    strategy: Strategy,
    drop: DropMode,
    run: Box<dyn Run>,
    samples: Vec<f64>,
    peak_waiting: u64,
    problems: Vec<String>,
}

impl Field<'_> {
    /// Runs the workload over every strategy and drop mode.
    pub(crate) fn measure(&self, plan: &impl Plan) -> Vec<Row> {
        let mut rows = Vec::new();
        for &drop in self.drops {
            let first = rows.len();
            rows.extend(self.measure_drop(plan, drop));
            tell_ratios(&mut rows[first..], self.strategies);
        }
        rows
    }

    fn measure_drop(&self, plan: &impl Plan, drop: DropMode) -> Vec<Row> {
        let length = self.length / SAMPLES as u32;
        let label = format!("{}, {}", self.workload, name(&drop));
        let mut progress = Progress::new(label, self.strategies.len() * (SAMPLES + 1));
        let mut contenders: Vec<_> = self
            .strategies
            .iter()
            .map(|&strategy| {
                let mut run = strategy.prepare(plan, drop);
                // The first time, memory is fresh and tables grow.
                run.sample(length / 4);
                progress.advance(1);
                Contender {
                    strategy,
                    drop,
                    run,
                    samples: Vec::new(),
                    peak_waiting: 0,
                    problems: Vec::new(),
                }
            })
            .collect();
        for _ in 0..SAMPLES {
            for contender in &mut contenders {
                contender.take_sample(length);
                progress.advance(1);
            }
            // Who ran behind whom must not matter, either.
            contenders.reverse();
        }
        // An odd number of turns.
        contenders.reverse();
        contenders
            .into_iter()
            .map(|contender| contender.into_row(self.workload))
            .collect()
    }
}

impl Contender {
    fn take_sample(&mut self, length: Duration) {
        let sample = self.run.sample(length);
        self.samples
            .push(sample.operations as f64 / sample.elapsed.as_secs_f64());
        self.peak_waiting = self.peak_waiting.max(sample.peak_waiting);
        self.problems.extend(self.run.check().err());
    }

    fn into_row(mut self, workload: &'static str) -> Row {
        let end = self.run.finish();
        let at_end = end
            .counters
            .map_err(|problem| self.problems.push(problem))
            .ok();
        self.problems
            .extend(end.findings.iter().flat_map(|walk| walk.problems()));
        // A counter that is wrong once stays wrong.
        self.problems.dedup();
        Row {
            workload,
            drop: name(&self.drop),
            strategy: name(&self.strategy),
            operations_per_second: median(&self.samples),
            samples: self.samples,
            ratio_to_better_lock: None,
            peak_waiting: self.peak_waiting,
            at_end,
            walk: end.findings,
            problems: self.problems,
        }
    }
}

fn tell_ratios(rows: &mut [Row], strategies: &[Strategy]) {
    let locks = rows
        .iter()
        .zip(strategies)
        .filter(|(_, strategy)| strategy.is_lock());
    let Some(best) = locks
        .map(|(row, _)| row.operations_per_second)
        .reduce(f64::max)
    else {
        return;
    };
    for row in rows {
        row.ratio_to_better_lock = Some(row.operations_per_second / best);
    }
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The name that the command line knows.
fn name(value: &impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or(String::new(), |value| value.get_name().to_owned())
}
