//! Read-side critical sections, and the readers that enter them quickly.
//!
//! # Invariants
//!
//! - I1: the record outlives the guard: a domain's handle is borrowed, the global domain is never freed.
//! - I2: the record's word counts this guard, so the record is nobody else's meanwhile, also after its thread gave it
//!   back at exit.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::reclaim::ReadSection;

use super::clock::Clock;
use super::global::Global;
use super::record::Record;

/// A read-side critical section: what a load finds while it lives stays valid until it goes.
///
/// Made by [`enter`](crate::enter), [`Domain::enter`](crate::Domain::enter) or [`Reader::enter`]. Guards nest, to a depth
/// of 16,382 on a thread (one deeper aborts), and may be dropped in any order. A guard never waits and runs nobody's
/// code. It stays on its thread.
///
/// A guard that is leaked, with [`mem::forget`](std::mem::forget) or in a thread that never ends, holds back every later
/// grace period of its domain, for ever on the global one.
///
/// The results of loads borrow the guard, so this doesn't compile:
///
/// ```compile_fail,E0505
/// let cell = graceperiod::RcuCell::new(1);
/// let guard = graceperiod::enter();
/// let one = cell.load(&guard);
/// drop(guard);
/// assert_eq!(*one, 1);
/// ```
///
/// and this does:
///
/// ```
/// let cell = graceperiod::RcuCell::new(1);
/// let guard = graceperiod::enter();
/// let one = cell.load(&guard);
/// assert_eq!(*one, 1);
/// drop(guard);
/// ```
///
/// A guard can't leave its thread:
///
/// ```compile_fail,E0277
/// let guard = graceperiod::enter();
/// std::thread::spawn(move || drop(guard));
/// ```
///
/// but a thread can have one of its own:
///
/// ```
/// std::thread::spawn(move || drop(graceperiod::enter())).join().unwrap();
/// ```
#[doc(alias = "rcu_read_lock")]
#[doc(alias = "rcu_read_unlock")]
#[must_use = "the read-side critical section ends when the guard is dropped"]
pub struct Guard<'d, D: ReadSection = Global> {
    record: NonNull<Record>,
    _borrow: PhantomData<&'d D>,
}

impl<D: ReadSection> Guard<'_, D> {
    /// Wraps a guard that the record already counts.
    ///
    /// # Safety
    ///
    /// 1. The record was entered once for this guard, by the calling thread, and lives for `'d`.
    /// 2. The record belongs to a domain of type `D`.
    #[inline]
    pub(super) unsafe fn entered(record: NonNull<Record>) -> Self {
        Self {
            record,
            _borrow: PhantomData,
        }
    }

    #[inline]
    fn record(&self) -> &Record {
        // SAFETY: I1.
        unsafe { self.record.as_ref() }
    }

    /// Moves the section to the present, as if the guard had been dropped and entered anew, so that a long scan doesn't
    /// hold grace periods back. Returns whether it did: not while the thread has another guard of the domain.
    ///
    /// What was loaded before is given up, which the exclusive borrow sees to:
    ///
    /// ```
    /// let cell = graceperiod::RcuCell::new(1);
    /// let mut guard = graceperiod::enter();
    /// assert_eq!(*cell.load(&guard), 1);
    /// let period = graceperiod::start_grace_period();
    /// while !period.has_elapsed() {
    ///     assert!(guard.refresh());
    /// }
    /// ```
    ///
    /// Never waits, and runs nobody's code.
    pub fn refresh(&mut self) -> bool {
        self.record().refresh()
    }

    /// As [`refresh`](Self::refresh), for an owned guard.
    pub(super) fn refresh_owned(&mut self) {
        self.record().refresh_owned();
    }

    /// The identity of the guard's domain.
    #[inline]
    pub(super) fn domain(&self) -> u64 {
        self.record().domain()
    }
}

impl<D: ReadSection> Clone for Guard<'_, D> {
    /// Enters once more. The section ends when the last of the guards has gone.
    #[inline]
    fn clone(&self) -> Self {
        let record = self.record();
        if record.is_nobodys() {
            // Lent by an owned guard, perhaps to several threads at once (owned I1).
            return Self {
                record: record.enter_another(),
                ..*self
            };
        }
        record.nest();
        Self { ..*self }
    }
}

impl<D: ReadSection> Drop for Guard<'_, D> {
    #[inline]
    fn drop(&mut self) {
        self.record().leave();
    }
}

impl<D: ReadSection> fmt::Debug for Guard<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("domain", &self.domain())
            .finish_non_exhaustive()
    }
}

/// The calling thread's own way into a domain, without a thread-local look-up at each [`enter`](Self::enter).
///
/// Made by [`reader`](crate::reader) or [`Domain::reader`](crate::Domain::reader). It stays on its thread, and borrows
/// the domain.
///
/// ```
/// let reader = graceperiod::reader();
/// let cell = graceperiod::RcuCell::new("hello");
/// for _ in 0..3 {
///     assert_eq!(*cell.load(&reader.enter()), "hello");
/// }
/// ```
pub struct Reader<'d, D: ReadSection = Global> {
    record: NonNull<Record>,
    clock: &'d Clock,
    _borrow: PhantomData<&'d D>,
}

impl<'d, D: ReadSection> Reader<'d, D> {
    /// Wraps a reader that the record already counts.
    ///
    /// # Safety
    ///
    /// 1. The record counts this reader, is the calling thread's, and lives for `'d`.
    /// 2. `clock` is that of the record's domain, which is of type `D`.
    pub(super) unsafe fn counted(record: NonNull<Record>, clock: &'d Clock) -> Self {
        Self {
            record,
            clock,
            _borrow: PhantomData,
        }
    }

    #[inline]
    fn record(&self) -> &Record {
        // SAFETY: I1; the record counts this reader, so it is nobody else's.
        unsafe { self.record.as_ref() }
    }

    /// Enters a read-side critical section. Never waits, and runs nobody's code.
    #[inline]
    pub fn enter(&self) -> Guard<'_, D> {
        self.record().enter(self.clock);
        // SAFETY: just entered, by the thread that the reader never leaves, and as long-lived as the reader.
        unsafe { Guard::entered(self.record) }
    }
}

impl<D: ReadSection> Drop for Reader<'_, D> {
    fn drop(&mut self) {
        self.record().remove_reader();
    }
}

impl<D: ReadSection> fmt::Debug for Reader<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("domain", &self.record().domain())
            .finish_non_exhaustive()
    }
}
