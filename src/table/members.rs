//! How many members a table has, counted without one word that all writers share.

use std::cell::Cell;

use crossbeam_utils::CachePadded;

use crate::counter::Shared;
use crate::sync::{next_id, plain_local};
use crate::tuning::TABLE_COUNTERS;

plain_local! {
    /// The thread's number, which chooses its counter; 0: none yet.
    static NUMBER: Cell<u64> = Cell::new(0);
}

/// The number of members, in parts.
#[derive(Debug)]
pub(super) struct Members([CachePadded<Shared>; TABLE_COUNTERS]);

impl Members {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| CachePadded::default()))
    }

    /// Counts an object that went in.
    #[inline]
    pub(super) fn add(&self) {
        self.own().add(1);
    }

    /// Counts an object that went out.
    #[inline]
    pub(super) fn subtract(&self) {
        self.own().add(u64::MAX);
    }

    /// The sum: exact when nothing runs.
    pub(super) fn get(&self) -> usize {
        let sum = self.sum().cast_signed();
        // A sum that was taken while objects came and went may see a departure without its arrival.
        usize::try_from(sum.max(0)).unwrap_or(usize::MAX)
    }

    /// Sets the number, in the child of a fork.
    pub(super) fn set(&self, members: usize) {
        self.0[0].add((members as u64).wrapping_sub(self.sum()));
    }

    fn sum(&self) -> u64 {
        self.0
            .iter()
            .map(|part| part.get())
            .fold(0, u64::wrapping_add)
    }

    #[inline]
    fn own(&self) -> &Shared {
        let number = NUMBER.with(|number| {
            if number.get() == 0 {
                number.set(next_id());
            }
            number.get()
        });
        &self.0[number as usize % TABLE_COUNTERS]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_comes_on_one_thread_and_goes_on_another_cancels_out() {
        let members = Members::new();
        members.add();
        members.add();
        assert_eq!(members.get(), 2);
        std::thread::scope(|scope| {
            scope.spawn(|| members.subtract());
        });
        assert_eq!(members.get(), 1);
        members.subtract();
        members.subtract();
        assert_eq!(members.get(), 0);
    }
}
