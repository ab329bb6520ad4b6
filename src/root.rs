//! The global domain's methods as functions, for the front page.

use std::ptr::NonNull;

#[cfg(not(loom))]
use crate::rcu::BarrierFuture;
use crate::rcu::{
    AtLimit, DomainStats, Drained, Global, GracePeriod, Guard, OwnedGuard, Permit, Reader,
};
use crate::thread::NoReclaim;

/// Enters a read-side critical section of the global domain. See [`Domain::enter`](crate::Domain::enter).
#[doc(alias = "rcu_read_lock")]
#[inline]
pub fn enter() -> Guard<'static> {
    Global.enter()
}

/// Enters a read-side critical section of the global domain that may go from thread to thread. See
/// [`Domain::enter_owned`](crate::Domain::enter_owned).
pub fn enter_owned() -> OwnedGuard<'static> {
    Global.enter_owned()
}

/// Returns the calling thread's own way into the global domain. See [`Domain::reader`](crate::Domain::reader).
#[must_use]
pub fn reader() -> Reader<'static> {
    Global.reader()
}

/// Waits for one grace period of the global domain. See [`Domain::synchronize`](crate::Domain::synchronize).
///
/// # Panics
///
/// Panics inside a guard of the global domain on this thread.
#[doc(alias = "synchronize_rcu")]
pub fn synchronize() {
    Global.synchronize();
}

/// Waits for all destructors of what the global domain was given so far. See [`Domain::barrier`](crate::Domain::barrier).
///
/// # Panics
///
/// Panics inside a guard, destructor, handler or hook of the global domain; resumes a destructor's panic.
#[doc(alias = "rcu_barrier")]
pub fn barrier() {
    Global.barrier();
}

/// As [`barrier`], for tasks. See [`Domain::barrier_async`](crate::Domain::barrier_async).
///
/// # Panics
///
/// As [`Domain::barrier_async`](crate::Domain::barrier_async).
#[cfg(not(loom))]
#[doc(alias = "rcu_barrier")]
pub fn barrier_async() -> BarrierFuture {
    Global.barrier_async()
}

/// Makes barriers until nothing is pending. See [`Domain::drain`](crate::Domain::drain).
///
/// # Panics
///
/// As [`barrier`].
pub fn drain() -> Drained {
    Global.drain()
}

/// Takes a cookie for a grace period of the global domain. See
/// [`Domain::start_grace_period`](crate::Domain::start_grace_period).
#[doc(alias = "start_poll_synchronize_rcu")]
pub fn start_grace_period() -> GracePeriod {
    Global.start_grace_period()
}

/// Drops a box later, after a grace period of the global domain. See [`Domain::retire`](crate::Domain::retire).
///
/// The value may be dropped on any thread:
///
/// ```compile_fail,E0277
/// graceperiod::retire(Box::new(std::rc::Rc::new(1)));
/// ```
///
/// ```
/// graceperiod::retire(Box::new(std::sync::Arc::new(1)));
/// ```
#[inline]
pub fn retire<T: ?Sized + Send + 'static>(value: Box<T>) {
    Global.retire(value);
}

/// Drops a box that readers may still see, after a grace period of the global domain. See
/// [`Domain::retire_ptr`](crate::Domain::retire_ptr).
///
/// # Safety
///
/// 1. `ptr` came from [`Box::into_raw`] and is retired once.
/// 2. No reader that enters from now on can reach it.
/// 3. Whoever still reads it does so through a guard of the global domain.
#[doc(alias = "kfree_rcu")]
#[doc(alias = "rcu_retire")]
pub unsafe fn retire_ptr<T: ?Sized + Send + 'static>(ptr: NonNull<T>) {
    // SAFETY: the caller's promises are passed on.
    unsafe { Global.retire_ptr(ptr) };
}

/// Calls `drop(ptr)` after a grace period of the global domain. See [`Domain::retire_raw`](crate::Domain::retire_raw).
///
/// # Safety
///
/// 1. `drop(ptr)` may be called once, at any later time, on any thread.
/// 2. No reader that enters from now on can reach what `ptr` points to.
/// 3. Whoever still reads it does so through a guard of the global domain.
#[doc(alias = "call_rcu")]
pub unsafe fn retire_raw(ptr: NonNull<()>, drop: unsafe fn(NonNull<()>), bytes: usize) {
    // SAFETY: the caller's promises are passed on.
    unsafe { Global.retire_raw(ptr, drop, bytes) };
}

/// Calls a closure after a grace period of the global domain. See [`Domain::defer`](crate::Domain::defer).
#[doc(alias = "call_rcu")]
pub fn defer(f: impl FnOnce() + Send + 'static) {
    Global.defer(f);
}

/// Asks for room to retire `objects` more in the global domain. See
/// [`Domain::try_permit`](crate::Domain::try_permit).
///
/// # Errors
///
/// Fails if the thread would pass its limit.
pub fn try_permit(objects: usize) -> Result<Permit<'static>, AtLimit> {
    Global.try_permit(objects)
}

/// Begins a stretch in which calls of this thread run nobody's destructors and don't wait at limits. See [`NoReclaim`].
pub fn no_reclaim() -> NoReclaim {
    NoReclaim::begin()
}

/// Returns the global domain's counters. See [`Domain::stats`](crate::Domain::stats).
#[must_use]
pub fn stats() -> DomainStats {
    Global.stats()
}
