//! Counters that one thread writes and anybody sums.
//!
//! A [`Local`] sits in a thread's own record; its owner adds without a read-modify-write. A [`Shared`] counts the rare
//! events of threads that have no record. Sums are exact when nothing runs.

use crate::sync::{AtomicU64, Relaxed};

/// A count with one writer at a time.
#[derive(Debug, Default)]
pub(crate) struct Local(AtomicU64);

impl Local {
    crate::sync::const_fn! {
        pub(crate) fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    /// Adds `n`; only the counter's present owner may call it.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        // Relaxed: one writer; readers only sum, and are exact once something else ordered them after the writer.
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: as in `add`.
        self.0.load(Relaxed)
    }
}

/// A count with many writers.
#[derive(Debug, Default)]
pub(crate) struct Shared(AtomicU64);

impl Shared {
    crate::sync::const_fn! {
        pub(crate) fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    pub(crate) fn add(&self, n: u64) {
        // Relaxed: only the sum matters.
        self.0.fetch_add(n, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: only the sum matters.
        self.0.load(Relaxed)
    }
}
