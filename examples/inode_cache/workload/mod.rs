//! What is run against the strategies, and what all of it has in common.

pub(crate) mod create_unlink;
pub(crate) mod mass_delete;
pub(crate) mod walk;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::cache::{Counters, DropMode};
use crate::store::Store;
use crate::workload::walk::Findings;

/// A workload with its sizes, ready to be set up over any strategy.
pub(crate) trait Plan {
    fn prepare<S: Store>(&self, drop: DropMode) -> Box<dyn Run>;
}

/// A workload that is set up over one strategy.
pub(crate) trait Run {
    /// Works for about this long, and leaves nothing waiting.
    fn sample(&mut self, length: Duration) -> Sample;

    /// Checks the counters, now that nothing runs.
    fn check(&self) -> Result<(), String>;

    /// Takes the cache down and says what was found.
    fn finish(self: Box<Self>) -> End;
}

/// What one measurement says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) operations: u64,
    pub(crate) elapsed: Duration,
    pub(crate) peak_waiting: u64,
}

/// What the end says.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) counters: Result<Counters, String>,
    pub(crate) findings: Option<Findings>,
}

/// Tells workers when the time is over.
pub(crate) struct Stop(AtomicBool);

impl Stop {
    pub(crate) fn requested(&self) -> bool {
        // Relaxed: only says when to stop; the joins order everything else.
        self.0.load(Ordering::Relaxed)
    }

    fn request(&self) {
        // Relaxed: as above.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How long the caller sleeps between two looks at what waits.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A look that took longer was preempted half-way, and what it adds up never was at one time.
const LOOK_AT_MOST: Duration = Duration::from_micros(100);

/// Runs `work` on several threads at once, until the time is over or, without a `length`, until they are done. Adds up
/// the operations that they return, and watches how many objects wait meanwhile.
pub(crate) fn run_threads(
    threads: usize,
    length: Option<Duration>,
    waiting: impl Fn() -> u64,
    work: impl Fn(usize, &Stop) -> u64 + Sync,
) -> Sample {
    let stop = Stop(AtomicBool::new(false));
    let start = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let worker = |index| {
            let (work, stop, start) = (&work, &stop, &start);
            scope.spawn(move || {
                start.wait();
                // By the worker's own clock: who watches may be late, with all CPUs at work.
                let began = Instant::now();
                let operations = work(index, stop);
                (operations, began, Instant::now())
            })
        };
        let workers: Vec<_> = (0..threads).map(worker).collect();
        start.wait();
        let peak_waiting = watch(length, &stop, waiting, || {
            workers.iter().all(|worker| worker.is_finished())
        });
        let done = workers.into_iter().map(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let (operations, began, ended) = done
            .reduce(|a, b| (a.0 + b.0, a.1.min(b.1), a.2.max(b.2)))
            .expect("there is at least one thread");
        Sample {
            operations,
            elapsed: ended - began,
            peak_waiting,
        }
    })
}

/// Asks the workers to stop when the time is over, and returns the most that was seen waiting until they had.
fn watch(
    length: Option<Duration>,
    stop: &Stop,
    waiting: impl Fn() -> u64,
    finished: impl Fn() -> bool,
) -> u64 {
    let began = Instant::now();
    let mut peak = 0;
    while !finished() {
        if length.is_some_and(|length| began.elapsed() >= length) {
            stop.request();
        }
        thread::sleep(LOOK_EVERY);
        let look = Instant::now();
        let seen = waiting();
        if look.elapsed() < LOOK_AT_MOST {
            peak = peak.max(seen);
        }
    }
    peak
}
