//! Pinned threads that begin together and are stopped together.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::{machine, payload};

/// Time between two looks at the backlog.
const LOOK_EVERY: Duration = Duration::from_micros(250);

/// Time between two looks at whether all lanes are warm.
const WARM_EVERY: Duration = Duration::from_micros(100);

/// One sample's shape.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// How long it is measured.
    pub duration: Duration,
    /// How long the lanes run before.
    pub warm_up: Duration,
}

/// What is shared by the lanes of one sample.
struct Track {
    round: Round,
    /// Measures processor time, since there are more lanes than processors.
    cpu: bool,
    warm: AtomicUsize,
    begun: AtomicBool,
    stop: AtomicBool,
    spent: Mutex<(Duration, u64)>,
}

/// One pinned thread of a sample.
pub struct Lane<'a> {
    /// From 0.
    pub index: usize,
    track: &'a Track,
}

impl Lane<'_> {
    /// Repeats `batch`, which does `step` operations, until the sample ends. The time counts.
    pub fn measure(&self, step: u32, mut batch: impl FnMut(u32)) {
        let warm = Instant::now();
        while warm.elapsed() < self.track.round.warm_up {
            batch(step);
        }
        // Without a warm-up nothing runs before the sample; else the lane stays warm.
        if self.track.round.warm_up.is_zero() {
            self.begin();
        } else {
            self.begin_with(|| batch(step));
        }
        let (wall, cpu) = (Instant::now(), machine::cpu_time());
        let mut operations = 0_u64;
        while self.goes_on() {
            batch(step);
            operations += u64::from(step);
        }
        let took = if self.track.cpu {
            machine::cpu_time() - cpu
        } else {
            wall.elapsed()
        };
        let mut spent = self.track.spent.lock().expect("no lane panics");
        spent.0 += took;
        spent.1 += operations;
    }

    /// Repeats `batch` until the sample ends. The time doesn't count.
    pub fn accompany(&self, mut batch: impl FnMut()) {
        self.begin_with(&mut batch);
        while self.goes_on() {
            batch();
        }
    }

    /// Waits for the other lanes without doing anything.
    pub fn begin(&self) {
        self.begin_with(|| thread::sleep(WARM_EVERY));
    }

    /// Repeats `meanwhile` until every lane is warm. Lanes that pause would hold up peers that wait for each thread.
    fn begin_with(&self, mut meanwhile: impl FnMut()) {
        // Relaxed, here and below: the counts order nothing; what the lanes share was there before they began.
        self.track.warm.fetch_add(1, Relaxed);
        while !self.track.begun.load(Relaxed) {
            meanwhile();
            // Lanes that have no processor yet come first.
            thread::yield_now();
        }
    }

    /// Whether the sample hasn't ended.
    pub fn goes_on(&self) -> bool {
        !self.track.stop.load(Relaxed)
    }
}

/// Returns whether so many lanes are told in processor time.
pub fn is_oversubscribed(lanes: usize) -> bool {
    lanes > machine::processors().len()
}

/// Returns whether a row of so many threads tells processor time.
///
/// A row beside parked threads has one that runs.
pub fn is_oversubscribed_row(threads: usize) -> bool {
    is_oversubscribed(threads) && threads <= payload::MOST_LANES
}

/// Runs `work` on `lanes` pinned threads, and `look` on this one meanwhile. Returns nanoseconds per operation and lane.
pub fn run(
    lanes: usize,
    round: Round,
    mut look: Option<&mut dyn FnMut()>,
    work: impl Fn(&Lane<'_>) + Sync,
) -> f64 {
    let track = Track {
        round,
        cpu: is_oversubscribed(lanes),
        warm: AtomicUsize::new(0),
        begun: AtomicBool::new(false),
        stop: AtomicBool::new(false),
        spent: Mutex::default(),
    };
    thread::scope(|scope| {
        for index in 0..lanes {
            let lane = Lane {
                index,
                track: &track,
            };
            let work = &work;
            scope.spawn(move || {
                machine::pin(index);
                payload::count_on(index);
                work(&lane);
            });
        }
        while track.warm.load(Relaxed) < lanes {
            thread::sleep(WARM_EVERY);
        }
        track.begun.store(true, Relaxed);
        let begun = Instant::now();
        while let Some(left) = round.duration.checked_sub(begun.elapsed()) {
            match look.as_mut() {
                Some(look) => {
                    thread::sleep(LOOK_EVERY.min(left));
                    look();
                }
                None => thread::sleep(left),
            }
        }
        track.stop.store(true, Relaxed);
    });
    let (time, operations) = *track.spent.lock().expect("no lane panics");
    time.as_secs_f64() * 1e9 / operations.max(1) as f64
}
