//! Waiting for another thread, politely.

#[cfg(not(loom))]
use std::time::Duration;

use crate::sync::thread;

#[cfg(not(loom))]
use crate::tuning::{SNOOZE_MAX, SNOOZE_MIN, SNOOZE_YIELDS};

/// Spins, then yields, then sleeps for longer and longer.
#[derive(Debug, Default)]
pub(crate) struct Snooze {
    #[cfg(not(loom))]
    spin: crossbeam_utils::Backoff,
    #[cfg(not(loom))]
    yields: u32,
}

impl Snooze {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Waits one step longer than the last time.
    #[cfg(not(loom))]
    pub(crate) fn wait(&mut self) {
        self.wait_by(thread::sleep);
    }

    /// As [`wait`](Self::wait), until the thread is unparked.
    #[cfg(not(loom))]
    pub(crate) fn wait_parked(&mut self) {
        self.wait_by(thread::park_timeout);
    }

    #[cfg(not(loom))]
    fn wait_by(&mut self, sleep: impl FnOnce(Duration)) {
        if !self.spin.is_completed() {
            self.spin.snooze();
        } else if self.yields < SNOOZE_YIELDS {
            self.yields += 1;
            thread::yield_now();
        } else {
            let doublings = (self.yields - SNOOZE_YIELDS).min(16);
            self.yields = self.yields.saturating_add(1);
            sleep(SNOOZE_MIN.saturating_mul(1 << doublings).min(SNOOZE_MAX));
        }
    }

    /// Lets another thread run.
    #[cfg(loom)]
    pub(crate) fn wait(&mut self) {
        thread::yield_now();
    }
}
