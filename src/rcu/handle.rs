//! What a user does with a domain, the global one and owned ones alike.

use std::any::Any;
use std::ptr::NonNull;

use crate::reclaim::{Polled, ReadSection, Stage};
use crate::sync::{Arc, AtomicPtr, Weak, edge};
use crate::thread::NoReclaim;

use super::cookie::GracePeriod;
use super::core::{Core, Owner};
use super::domain::{Domain, DomainRef};
#[cfg(not(loom))]
use super::future::BarrierFuture;
use super::global::{self, Global};
use super::guard::{Guard, Reader};
use super::owned::OwnedGuard;
use super::permit::{AtLimit, Permit};
use super::stats::{DomainStats, Drained};
use super::thunk::Thunk;

/// The methods that the global domain and owned ones share.
macro_rules! handle {
    ($handle:ty, $lifetime:lifetime, $enter:expr, $registered:expr) => {
        impl $handle {
            /// Enters a read-side critical section. Never waits, and runs nobody's code.
            ///
            /// What the guard's loads find was published before and stays valid until the guard goes: publishing
            /// (Release) happens before the load (Acquire), and the load before the drop.
            #[doc(alias = "rcu_read_lock")]
            #[inline]
            pub fn enter(&self) -> Guard<$lifetime, $handle> {
                // SAFETY: just entered by this thread in this domain, which the guard's lifetime keeps.
                unsafe { Guard::entered($enter(self)) }
            }

            /// Enters a read-side critical section that may go from thread to thread, for `async` code. Never waits, and
            /// runs nobody's code; may allocate.
            pub fn enter_owned(&self) -> OwnedGuard<$lifetime, $handle> {
                let record = self.core().enter_owned();
                // SAFETY: just entered in this domain, which the guard's lifetime keeps.
                let guard = unsafe { Guard::entered(record) };
                // SAFETY: on a record of its own.
                unsafe { OwnedGuard::over(guard, None) }
            }

            /// Returns the calling thread's own way in, which enters without a thread-local look-up.
            #[must_use]
            pub fn reader(&self) -> Reader<$lifetime, $handle> {
                let core = self.core();
                // SAFETY: just counted by this thread in this domain, which the reader's lifetime keeps.
                unsafe { Reader::counted(core.add_reader(), &core.clock) }
            }

            /// Waits until every guard that is live now has gone: one grace period. Guards entered later aren't waited
            /// for.
            ///
            /// The caller drives the period itself. Legal inside destructors. It spins, yields, and then sleeps for up
            /// to a millisecond at a time.
            ///
            /// # Panics
            ///
            /// Panics inside a guard of the same domain on this thread, for which it would wait for ever.
            #[doc(alias = "synchronize_rcu")]
            #[doc(alias = "rcu_synchronize")]
            pub fn synchronize(&self) {
                self.core().synchronize();
            }

            /// Waits until every destructor of everything retired before the call has returned or unwound: by any
            /// thread, idle and exited ones included, in boxes, in slabs of this domain and in queues attached to it.
            ///
            /// Runs most of them itself. What those destructors retire in turn isn't waited for; see
            /// [`drain`](Self::drain).
            ///
            /// # Panics
            ///
            /// Resumes the first panic that a destructor left since the last barrier, unless a hook took it. Panics
            /// inside a guard of the same domain on this thread, and inside a destructor, handler or hook of it. It
            /// can't see a lock of yours that a destructor wants, a guard on another thread that waits for you, or a
            /// destructor of another domain that waits for a barrier of this one while you wait for it.
            #[doc(alias = "rcu_barrier")]
            pub fn barrier(&self) {
                self.core().barrier();
            }

            /// As [`barrier`](Self::barrier), for tasks: blocks no thread of an executor. See
            /// [`BarrierFuture`](crate::BarrierFuture).
            ///
            /// # Panics
            ///
            /// The call panics where [`barrier`](Self::barrier) would. The first poll panics if no thread can be started;
            /// the await resumes the first panic that a destructor left.
            #[cfg(not(loom))]
            #[doc(alias = "rcu_barrier")]
            pub fn barrier_async(&self) -> BarrierFuture {
                self.core().refuse_barrier("barrier_async");
                BarrierFuture::new(self.core().to_ref())
            }

            /// Makes barriers until nothing is pending, and says what is left if something keeps retiring.
            ///
            /// # Panics
            ///
            /// As [`barrier`](Self::barrier).
            pub fn drain(&self) -> Drained {
                self.core().drain()
            }

            /// Takes a cookie for one grace period that begins no earlier than now. Never waits.
            #[doc(alias = "start_poll_synchronize_rcu")]
            pub fn start_grace_period(&self) -> GracePeriod<$handle> {
                GracePeriod::start(ReadSection::inner(self))
            }

            /// Drops a box that no reader can reach any more, later: after a grace period, in a batch.
            ///
            /// Never fails. At the limit it does what [`OnLimit`](crate::OnLimit) says. Every eighth call runs at most eight
            /// destructors that are ready, every 256th 128 more if many are, and 1,280 more above the limit; none inside a
            /// [`NoReclaim`](crate::NoReclaim) scope or while the thread panics. Inside a destructor, handler or hook
            /// there are none either; up to 1,024 follow when the outermost of these has returned. The drop runs on
            /// whichever thread retires later, or in a barrier, or on the worker. Values without a destructor cost least.
            #[inline]
            pub fn retire<T: ?Sized + Send + 'static>(&self, value: Box<T>) {
                let ptr = NonNull::from(Box::leak(value));
                // SAFETY: it came from a box that was ours alone.
                unsafe { self.retire_ptr(ptr) };
            }

            /// Drops a box that readers may still see, after a grace period. See [`retire`](Self::retire).
            ///
            /// # Safety
            ///
            /// 1. `ptr` came from [`Box::into_raw`] and is retired once.
            /// 2. No reader that enters from now on can reach it.
            /// 3. Whoever still reads it does so through a guard of this domain.
            #[doc(alias = "kfree_rcu")]
            #[doc(alias = "rcu_retire")]
            #[inline]
            pub unsafe fn retire_ptr<T: ?Sized + Send + 'static>(&self, ptr: NonNull<T>) {
                // SAFETY: (1), and `T: Send + 'static`.
                let thunk = || unsafe { Thunk::drop_box(ptr) };
                self.core().retire_by($registered(self), thunk);
            }

            /// Calls `drop(ptr)` after a grace period. See [`retire`](Self::retire).
            ///
            /// `bytes` counts towards the limit in bytes.
            ///
            /// # Safety
            ///
            /// 1. `drop(ptr)` may be called once, at any later time, on any thread.
            /// 2. No reader that enters from now on can reach what `ptr` points to.
            /// 3. Whoever still reads it does so through a guard of this domain.
            #[doc(alias = "call_rcu")]
            pub unsafe fn retire_raw(
                &self,
                ptr: NonNull<()>,
                drop: unsafe fn(NonNull<()>),
                bytes: usize,
            ) {
                // SAFETY: the caller's promises are passed on.
                unsafe { retire_raw(self.core(), ptr, drop, bytes) };
            }

            /// Calls a closure after a grace period. Up to three words of state need no allocation. See
            /// [`retire`](Self::retire).
            #[doc(alias = "call_rcu")]
            pub fn defer(&self, f: impl FnOnce() + Send + 'static) {
                let bytes = size_of_val(&f);
                // Made here, since a large closure is boxed.
                // SAFETY: `Send + 'static`.
                let thunk = unsafe { Thunk::new(f, bytes) };
                self.core().retire(|| thunk);
            }

            /// Asks for room to retire `objects` more on this thread, before anything is unlinked. At the limit it does
            /// first what [`OnLimit`](crate::OnLimit) says, and so may wait and run destructors.
            ///
            /// # Errors
            ///
            /// Fails if the thread would pass its limit in objects, or has passed the one in bytes.
            pub fn try_permit(&self, objects: usize) -> Result<Permit<$lifetime>, AtLimit> {
                self.core().try_permit(objects)
            }

            /// Begins a stretch in which calls of this thread run nobody's destructors and don't wait at limits: of
            /// this domain and of everything else in this crate.
            pub fn no_reclaim(&self) -> NoReclaim {
                NoReclaim::begin()
            }

            /// Returns the domain's counters, exact when nothing runs.
            #[must_use]
            pub fn stats(&self) -> DomainStats {
                self.core().stats()
            }
        }
    };
}

handle!(
    Domain,
    '_,
    |domain: &Domain| domain.core.enter(),
    registered
);
handle!(
    Global,
    'static,
    |_: &Global| global::enter(),
    |_: &Global| global::registered()
);

#[inline]
fn registered(domain: &Domain) -> Option<Owner<'_>> {
    domain.core.registered()
}

/// # Safety
///
/// As [`Domain::retire_raw`].
unsafe fn retire_raw(core: &Core, ptr: NonNull<()>, drop: unsafe fn(NonNull<()>), bytes: usize) {
    struct Target(NonNull<()>);
    let target = Target(ptr);
    let call = move || {
        let Target(ptr) = { target };
        // SAFETY: (1) of the caller.
        unsafe { drop(ptr) };
    };
    // SAFETY: (1) of the caller.
    core.retire(|| unsafe { Thunk::new(call, bytes) });
}

macro_rules! read_section {
    ($handle:ty, $inner:ty, $make:expr, $admits:expr, $registered:expr) => {
        // SAFETY: (1) and (2): the protocol of `clock` and `record`; a retired thunk runs only after its cookie's
        // period. (3): a guard carries its domain's identity, and the global domain has a type of its own. (4): Acquire.
        unsafe impl ReadSection for $handle {
            type Guard<'d> = Guard<'d, $handle>;
            type Inner = $inner;

            #[inline]
            fn enter(&self) -> Guard<'_, $handle> {
                self.enter()
            }

            #[inline]
            fn inner(&self) -> $inner {
                $make(self)
            }

            #[inline]
            fn id(inner: &$inner) -> u64 {
                inner.core().id
            }

            #[inline]
            fn admits(inner: &$inner, guard: &Guard<'_, $handle>) -> bool {
                $admits(inner, guard)
            }

            #[inline]
            fn protect_load<T>(_: &Guard<'_, $handle>, source: &AtomicPtr<T>) -> *mut T {
                // Acquire: pairs with the Release by which the pointer was published (O80); the guard protects from here on.
                source.load(edge!(O80, Acquire))
            }

            unsafe fn retire_raw(
                inner: &$inner,
                ptr: NonNull<()>,
                drop: unsafe fn(NonNull<()>),
                bytes: usize,
            ) {
                // SAFETY: the caller's promises are passed on.
                unsafe { retire_raw(inner.core(), ptr, drop, bytes) };
            }

            #[inline]
            unsafe fn retire_box<T: 'static>(inner: &$inner, ptr: NonNull<T>) {
                // SAFETY: the caller's promises.
                let thunk = || unsafe { Thunk::drop_box(ptr) };
                inner.core().retire_by($registered(inner), thunk);
            }

            fn has_room(inner: &$inner) -> bool {
                inner.core().has_room_for_one()
            }

            fn report_panic(inner: &$inner, payload: Box<dyn Any + Send>) {
                inner.core().panics.report(payload);
            }
        }

        // SAFETY: (1) and (2): the protocol of `clock`. A closed domain has no guards.
        unsafe impl Polled for $handle {
            fn cookie(inner: &$inner) -> u64 {
                inner.core().clock.cookie()
            }

            fn has_elapsed(inner: &$inner, cookie: u64) -> bool {
                let core = inner.core();
                core.clock.has_elapsed(cookie) || core.is_closed()
            }

            fn advance(inner: &$inner) {
                inner.core().poll();
            }

            fn tend(inner: &$inner) {
                inner.core().look_for_stalls();
            }

            fn is_inside(inner: &$inner) -> bool {
                inner.core().is_inside()
            }

            fn attach(inner: &$inner, stage: Weak<dyn Stage>) {
                inner.core().stages.lock().push(stage);
            }
        }
    };
}

read_section!(
    Domain,
    DomainRef,
    |domain: &Domain| DomainRef(Arc::clone(&domain.core)),
    |inner: &DomainRef, guard: &Guard<'_, Domain>| inner.0.id == guard.domain(),
    DomainRef::registered
);
read_section!(
    Global,
    Global,
    |_: &Global| Global,
    |_: &Global, _: &Guard<'_, Global>| true,
    |_: &Global| global::registered()
);
