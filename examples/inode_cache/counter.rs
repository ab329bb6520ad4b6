//! Counters that many threads change: one cell per thread, added up by whoever asks.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// How many cells there are; with more threads than this, some share one.
pub(crate) const SHARDS: usize = 16;

/// Keeps what different threads write on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

/// Returns the calling thread's place among the shards.
pub(crate) fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<Option<usize>> = const { Cell::new(None) };
    }
    MINE.with(|mine| match mine.get() {
        Some(shard) => shard,
        None => {
            // Relaxed: threads only have to get different numbers.
            let shard = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
            mine.set(Some(shard));
            shard
        }
    })
}

/// A sum over all threads; exact whenever nobody is changing it.
#[derive(Debug, Default)]
pub(crate) struct Counter([Padded<AtomicI64>; SHARDS]);

impl Counter {
    /// Adds `n`, and returns what the calling thread's own cell says now.
    pub(crate) fn add(&self, n: i64) -> i64 {
        // Relaxed: a number, guards nothing.
        self.0[shard()].0.fetch_add(n, Ordering::Relaxed) + n
    }

    pub(crate) fn sum(&self) -> i64 {
        // Relaxed: exact once the other threads have been joined, which orders their writes.
        self.0
            .iter()
            .map(|cell| cell.0.load(Ordering::Relaxed))
            .sum()
    }
}
