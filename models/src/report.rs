//! Runs cases on several threads and prints what they came to.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::cases::{Case, Expected};
use crate::explore::{Explored, Verdict, explore};
use crate::memory::Model;

/// How long between two lines about what runs.
const PROGRESS: Duration = Duration::from_secs(10);

/// A case under one model.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The case.
    pub case: &'a Case,
    /// The model.
    pub model: Model,
}

/// How to run jobs.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// States of a run at most.
    pub bound: usize,
    /// Runs at a time.
    pub jobs: usize,
    /// Whether counterexamples that were expected are printed as well.
    pub traces: bool,
}

/// What all jobs came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// States seen.
    pub states: usize,
    /// Runs that came to what they must.
    pub right: usize,
    /// Runs that reached the bound with nothing wrong so far, as most of the largest do.
    pub bounded: usize,
    /// Runs that came to something else.
    pub wrong: usize,
}

/// Runs every job and prints a row for each as it ends.
pub fn run_all(jobs: &[Job<'_>], options: Options) -> Summary {
    println!(
        "{:<44} {:<6} {:>11} {:>8}  {:<9} got",
        "case", "memory", "states", "seconds", "expected"
    );
    let next = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    let summary = Mutex::new(Summary::default());
    let progress: Vec<Lane> = (0..options.jobs).map(|_| Lane::default()).collect();
    thread::scope(|scope| {
        let workers: Vec<_> = progress
            .iter()
            .map(|lane| scope.spawn(|| work(jobs, &next, lane, options, &summary)))
            .collect();
        let watch = scope.spawn(|| tell_progress(jobs, &progress, &is_over));
        for worker in workers {
            worker.join().expect("a worker that doesn't panic");
        }
        // Relaxed: nothing but the flag is told.
        is_over.store(true, Relaxed);
        watch.thread().unpark();
    });
    summary.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// What a worker is at: the number of its job plus one, and the states that it has seen.
#[derive(Debug, Default)]
struct Lane {
    job: AtomicUsize,
    states: AtomicU64,
}

fn work(
    jobs: &[Job<'_>],
    next: &AtomicUsize,
    lane: &Lane,
    options: Options,
    summary: &Mutex<Summary>,
) {
    loop {
        // Relaxed: each number goes out once, and carries nothing.
        let at = next.fetch_add(1, Relaxed);
        let Some(job) = jobs.get(at) else {
            // Relaxed: only shown.
            lane.job.store(0, Relaxed);
            return;
        };
        // Relaxed: only shown.
        lane.job.store(at + 1, Relaxed);
        let begin = Instant::now();
        let explored = explore(&job.case.run(), job.model, options.bound, &lane.states);
        let is_right = job.case.expected.is(&explored.verdict);
        let is_bounded = is_bounded(*job, &explored);
        let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
        print_row(*job, &explored, begin.elapsed(), options.traces);
        summary.states += explored.states;
        summary.right += usize::from(is_right);
        summary.bounded += usize::from(is_bounded);
        summary.wrong += usize::from(!is_right && !is_bounded);
    }
}

/// Whether a run that must find nothing has found nothing up to its bound.
fn is_bounded(job: Job<'_>, explored: &Explored) -> bool {
    job.case.expected == Expected::Holds && explored.verdict == Verdict::Bounded
}

fn print_row(job: Job<'_>, explored: &Explored, time: Duration, traces: bool) {
    let is_right = job.case.expected.is(&explored.verdict) || is_bounded(job, explored);
    println!(
        "{:<44} {:<6} {:>11} {:>8.1}  {:<9} {}{}",
        job.case.name,
        job.model.name(),
        explored.states,
        time.as_secs_f64(),
        job.case.expected.name(),
        got(&explored.verdict),
        if is_right { "" } else { "  <== WRONG" },
    );
    if let Verdict::Fails(trace) = &explored.verdict
        && (traces || !is_right)
    {
        for (number, line) in (1..).zip(trace) {
            println!("  {number:>3}  {line}");
        }
    }
}

fn got(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Holds => "holds".to_owned(),
        Verdict::Fails(trace) => format!("fails in {} steps", trace.len()),
        Verdict::Stuck(states) => format!("stuck in {states} states"),
        Verdict::NeverEnds => "never ends".to_owned(),
        Verdict::Bounded => "nothing up to the bound".to_owned(),
    }
}

fn tell_progress(jobs: &[Job<'_>], lanes: &[Lane], is_over: &AtomicBool) {
    // Relaxed, here and below: only shown.
    while !is_over.load(Relaxed) {
        thread::park_timeout(PROGRESS);
        for lane in lanes {
            let Some(at) = lane.job.load(Relaxed).checked_sub(1) else {
                continue;
            };
            let job = jobs[at];
            let states = lane.states.load(Relaxed);
            eprintln!(
                "      {} of {}: {}, {}: {states} states",
                at + 1,
                jobs.len(),
                job.case.name,
                job.model.name()
            );
        }
    }
}
