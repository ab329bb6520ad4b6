//! Looks at how many objects wait, and leaves out the looks that can't be trusted.

use std::time::{Duration, Instant};

use crate::payload::{self, Delay};

/// A look that takes longer was interrupted: what it read belongs to two moments.
const QUICK: Duration = Duration::from_micros(20);

/// What one run showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// The most objects that waited at any trusted look.
    pub peak: u64,
    /// From retire to drop.
    pub delay: Delay,
}

/// Looks at one run's counted objects.
pub struct Watch {
    /// Objects that are in use and don't wait.
    in_use: u64,
    lanes: Vec<u64>,
    every_lane: bool,
    peak: u64,
}

impl Watch {
    /// Begins a run of `lanes` threads in which `in_use` objects are in use at any time.
    ///
    /// With `every_lane`, a look counts only if every lane has made an object since the last one: a thread that was
    /// preempted inside a section holds others' objects back, and that is the scheduler's doing.
    pub fn begin(lanes: usize, in_use: u64, every_lane: bool) -> Self {
        payload::begin();
        Self {
            in_use,
            lanes: vec![0; lanes],
            every_lane,
            peak: 0,
        }
    }

    /// Looks once.
    pub fn look(&mut self) {
        let begun = Instant::now();
        let waiting = payload::alive().saturating_sub(self.in_use);
        let is_quick = begun.elapsed() < QUICK;
        let mut all_ran = true;
        for (index, before) in self.lanes.iter_mut().enumerate() {
            let made = payload::made(index);
            all_ran &= made != *before;
            *before = made;
        }
        if is_quick && (all_ran || !self.every_lane) {
            self.peak = self.peak.max(waiting);
        }
    }

    /// Ends the run.
    pub fn end(self) -> Held {
        Held {
            peak: self.peak,
            delay: payload::delay(),
        }
    }
}
