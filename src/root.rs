//! The global domain's methods as functions, for the front page.

use std::ptr::NonNull;

#[cfg(not(loom))]
use crate::rcu::BarrierFuture;
use crate::rcu::{
    AtLimit, DomainStats, Drained, Global, GracePeriod, Guard, OwnedGuard, Permit, Reader,
    forkable_global,
};
use crate::thread::{ForkGuard, NoReclaim};

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

/// Holds everything of this crate still, all domains, slabs, tables and queues, so that the process can fork.
///
/// A child has one thread, and finds locks of the others locked and their work half done. Under this guard none of that is
/// this crate's:
///
/// ```
/// # #[cfg(unix)] {
/// let cell = graceperiod::RcuCell::new(1);
/// // SAFETY: nothing of the crate is used before the guard has gone, in the parent as in the child.
/// let guard = unsafe { graceperiod::prepare_fork() };
/// // SAFETY: the child goes on with what may be used there.
/// match unsafe { libc::fork() } {
///     0 => {
///         guard.child();
///         cell.replace(2);
///         graceperiod::barrier();
///         // SAFETY: ends the child, without the parent's exit handlers.
///         unsafe { libc::_exit(0) };
///     }
///     child => {
///         drop(guard);
///         let mut status = 0;
///         // SAFETY: writes to `status` only.
///         unsafe { libc::waitpid(child, &raw mut status, 0) };
///         assert_eq!(status, 0);
///     }
/// }
/// # }
/// ```
///
/// Waits for the sections and locks of other threads, all of them short, and for no guard and nobody's code. While the
/// guard lives, other threads enter and read, unless it is their first use of a domain; those that retire, reserve, or
/// build or close something wait for it. Dropping it may run what the drop of a slab or queue runs, if its last handle went
/// meanwhile. A child that only calls `exec` or `_exit` need do nothing.
///
/// # In the child
///
/// - Guards, readers and permits of this thread stay. Those of others have gone; grace periods don't wait for them.
/// - Owned guards stay. One that only a vanished thread could have dropped holds grace periods back for ever.
/// - Futures of grace periods and barriers that were waiting never complete; drop them. New ones do.
/// - What others had retired, freed or pushed is this thread's to drop: at its next occasion, or by a barrier.
/// - What others had in hand is leaked, and no longer counted as pending: destructors and batches that were running, slots
///   and references that they held, an object on its way into or out of a table (which then is not a member), and what was
///   left of a domain, slab or queue that another thread was closing.
/// - Workers start anew if there is something to do.
/// - Threads may fail to start if others were starting or ending during the fork: the standard library's lock for that
///   then stays locked, in about one of a thousand forks beside threads that do nothing else.
/// - Locks of your own that others held stay locked, also for destructors and handlers that want them.
///
/// # Safety
///
/// 1. Until the guard is dropped, or [`child`](ForkGuard::child) has returned, this thread calls nothing of this crate, nor
///    drops anything of it. It may fork, more than once.
/// 2. A child is made by `fork`, or by what copies the whole address space in the same way: not by `vfork`, and not by
///    `clone` with shared memory.
/// 3. In the child nothing of this crate is used before `child` has returned, by handlers of signals or forks either.
/// 4. In the child nothing is used that the guard of another thread protected: a reference or candidate that was loaded
///    under it and lent to this thread, or leaked.
/// 5. If the child goes on with this crate, its system lets it allocate and start threads, as glibc and macOS do.
///
/// # Panics
///
/// Panics inside a destructor, constructor, handler or hook that this crate runs, and if this thread has such a guard
/// already.
pub unsafe fn prepare_fork() -> ForkGuard {
    // SAFETY: the caller's promises are passed on.
    unsafe { ForkGuard::prepare(forkable_global()) }
}

/// Returns the global domain's counters. See [`Domain::stats`](crate::Domain::stats).
#[must_use]
pub fn stats() -> DomainStats {
    Global.stats()
}
