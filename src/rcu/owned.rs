//! Guards that may go from thread to thread.
//!
//! # Protocol
//!
//! - *enter owned*: claim a record that no thread's map knows, store `(E, S, 1)` (Release), full fence, and give the node up
//!   as an orphan, which nobody claims before its word is idle.
//! - *refresh owned*: `(E, S, 1)` (Release), full fence.
//! - *leave owned*: `word - 1` (Release), by whoever drops the guard.
//!
//! The word carries `S` always, so that drivers pass it once the guard has gone, and no later enter from it goes without a
//! fence.
//!
//! # Invariants
//!
//! - I1: an owned guard's record counts it alone: its word is stored by whoever has the guard by value or exclusively. Many
//!   threads may have it by reference, so a clone of the guard that it lends takes a record of its own.
//! - I2: the guard that is lent has the lifetime of the loan, so that nothing outlives the handle that an owned guard may
//!   hold.
//!
//! # Orderings
//!
//! - O31: handing the guard to another thread is the user's, and orders whatever the one did before with what the other
//!   does after; so the word has one writer at a time.
//! - The last leave (Release) -> claiming the orphan (Acquire): O23.

use std::fmt;
use std::ptr::NonNull;

use crate::reclaim::ReadSection;
use crate::thread::Registry;

use super::clock::Clock;
use super::global::Global;
use super::guard::Guard;
use super::record::Record;

/// A read-side critical section that may go from thread to thread, and be looked at by several at once: for `async` code,
/// whose tasks wander.
///
/// Made by [`enter_owned`](crate::enter_owned), [`Domain::enter_owned`](crate::Domain::enter_owned), or, so that it borrows
/// nothing, [`Domain::into_guard`](crate::Domain::into_guard). Each has a record of its own and makes a full fence, so
/// entering costs about 50 ns where a [`Guard`] costs one. Like any guard it holds back every later grace period of its
/// domain while it lives, also across an `.await` that takes its time; a barrier can't see that it waits for the very task
/// that holds one.
///
/// ```
/// use graceperiod::RcuCell;
/// use std::sync::Arc;
///
/// let cell = Arc::new(RcuCell::new(String::from("hello")));
/// let guard = graceperiod::enter_owned();
/// let other = Arc::clone(&cell);
/// std::thread::spawn(move || {
///     assert_eq!(other.load(guard.as_guard()), "hello");
/// })
/// .join()
/// .unwrap();
/// ```
///
/// What was loaded borrows it, so this doesn't compile:
///
/// ```compile_fail,E0505
/// let cell = graceperiod::RcuCell::new(1);
/// let guard = graceperiod::enter_owned();
/// let one = cell.load(guard.as_guard());
/// drop(guard);
/// assert_eq!(*one, 1);
/// ```
#[must_use = "the read-side critical section ends when the guard is dropped"]
pub struct OwnedGuard<'d, D: ReadSection = Global> {
    // Before the handle: a field is dropped after those above it.
    guard: Guard<'d, D>,
    /// Holds the domain open, if the guard borrows none.
    _handle: Option<D>,
}

// SAFETY: the record is the guard's alone, and its word is stored only by whoever has the guard exclusively (I1, O31);
// handles are `Send`.
unsafe impl<D: ReadSection> Send for OwnedGuard<'_, D> {}
// SAFETY: by reference it only lends a guard, whose clones take other records (I1), and of which only fields are read that
// never change while it lives.
unsafe impl<D: ReadSection> Sync for OwnedGuard<'_, D> {}

impl<'d, D: ReadSection> OwnedGuard<'d, D> {
    /// Wraps a guard on a record of its own.
    ///
    /// # Safety
    ///
    /// 1. `guard` came from [`enter`], in a domain that `'d` or the handle keeps open.
    pub(super) unsafe fn over(guard: Guard<'d, D>, handle: Option<D>) -> Self {
        Self {
            guard,
            _handle: handle,
        }
    }

    /// Lends the guard, for loads on this thread.
    ///
    /// A clone of it enters once more, on its own.
    pub fn as_guard(&self) -> &Guard<'_, D> {
        &self.guard
    }

    /// Moves the section to the present, as if the guard had been dropped and entered anew. What was loaded before is given
    /// up, which the exclusive borrow sees to. Never waits, and runs nobody's code.
    pub fn refresh(&mut self) {
        self.guard.refresh_owned();
    }
}

impl<D: ReadSection> fmt::Debug for OwnedGuard<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnedGuard").field(&self.guard).finish()
    }
}

/// Enters on a record that is no thread's. The record stays in use until the guard that is made of it leaves.
pub(super) fn enter(records: &Registry<Record>, domain: u64, clock: &Clock) -> NonNull<Record> {
    let node = records.claim(
        || Record::new(domain, clock, records),
        |record| record.is_unused() && !record.own.backlog.is_revoked(),
    );
    node.value.note_nobody();
    node.value.enter_owned(clock);
    let record = NonNull::from(&node.value);
    node.give_up(true);
    record
}
