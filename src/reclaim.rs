//! The traits that slab, table and cell are generic over, and the stage that a domain's barrier covers.
//!
//! [`ReadSection`] is all that a type-stable slab or an [`RcuCell`](crate::RcuCell) needs: enter, load, retire. A
//! per-object grace period needs [`Polled`] too: cookies that say whether it has elapsed.
//!
//! Each has two sides. The *user handle* (`Self`) holds the domain open; the *inner reference*
//! ([`ReadSection::Inner`]) only keeps its memory valid, so that objects may outlive the domain that they were made in.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

use crate::sync::{AtomicPtr, Weak};

/// A domain of readers, and of memory that waits for them.
///
/// # Safety
///
/// 1. Memory handed to [`retire_raw`](Self::retire_raw) isn't given to its function while a guard lives that
///    [`admits`](Self::admits) accepts for the same domain and that was entered before the call.
/// 2. What happened before `retire_raw` happens before every read of a guard that isn't waited for, and what a waited-for
///    guard read happens before the function runs.
/// 3. `admits` is true only for guards of the very domain that the inner reference belongs to.
/// 4. [`protect_load`](Self::protect_load) is at least an Acquire load, and protects the whole walk that starts at it.
pub unsafe trait ReadSection: Clone + fmt::Debug + Send + Sync + 'static {
    /// A read-side critical section.
    type Guard<'d>: fmt::Debug
    where
        Self: 'd;

    /// Keeps the domain's memory valid and holds nothing open.
    type Inner: Clone + fmt::Debug + Send + Sync + 'static;

    /// Enters a read-side critical section. Never waits, and runs nobody's code.
    fn enter(&self) -> Self::Guard<'_>;

    /// Returns an inner reference to this domain.
    fn inner(&self) -> Self::Inner;

    /// Returns the domain's identity, never reused within a process.
    fn id(inner: &Self::Inner) -> u64;

    /// Whether `guard` belongs to the domain of `inner`.
    fn admits(inner: &Self::Inner, guard: &Self::Guard<'_>) -> bool;

    /// Loads a pointer whose target the guard then protects.
    fn protect_load<T>(guard: &Self::Guard<'_>, source: &AtomicPtr<T>) -> *mut T;

    /// Calls `drop(ptr)` once after every guard entered before this call has gone.
    ///
    /// Never waits for readers. Runs at once on this thread if the domain has closed. A panic of `drop` is reported as
    /// by [`report_panic`](Self::report_panic).
    ///
    /// # Safety
    ///
    /// 1. No reader that enters from now on can reach what `ptr` points to.
    /// 2. `drop(ptr)` may be called once, later, on any thread.
    unsafe fn retire_raw(
        inner: &Self::Inner,
        ptr: NonNull<()>,
        drop: unsafe fn(NonNull<()>),
        bytes: usize,
    );

    /// Drops a box once after every guard entered before this call has gone. As [`retire_raw`](Self::retire_raw), but a
    /// domain may make less of a type without a destructor.
    ///
    /// # Safety
    ///
    /// 1. `ptr` came from a `Box`, and is this call's alone to drop.
    /// 2. No reader that enters from now on can reach it.
    /// 3. The value may be dropped on any thread.
    unsafe fn retire_box<T: 'static>(inner: &Self::Inner, ptr: NonNull<T>) {
        unsafe fn drop_box<T>(ptr: NonNull<()>) {
            // SAFETY: (1) of the caller, and called once.
            drop(unsafe { Box::from_raw(ptr.cast::<T>().as_ptr()) });
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { Self::retire_raw(inner, ptr.cast(), drop_box::<T>, size_of::<T>()) };
    }

    /// Whether the calling thread may retire one object more without passing the domain's limit. May wait and run
    /// destructors first, as the domain's settings say. Always true where there is no limit.
    fn has_room(inner: &Self::Inner) -> bool {
        let _ = inner;
        true
    }

    /// Takes the panic of a destructor that ran for this domain: for its hook, else for its next barrier.
    fn report_panic(inner: &Self::Inner, payload: Box<dyn Any + Send>);
}

/// A domain whose grace periods can be asked for and polled.
///
/// # Safety
///
/// 1. [`has_elapsed`](Self::has_elapsed) answers true only once every guard that lived when [`cookie`](Self::cookie)
///    returned has gone; what those guards read happens before the answer.
/// 2. What happened before `cookie` happens before every read of a guard that the answer doesn't wait for.
pub unsafe trait Polled: ReadSection {
    /// Takes a cookie for the grace period that begins no earlier than now.
    fn cookie(inner: &Self::Inner) -> u64;

    /// Whether the cookie's grace period has elapsed. One load; always true once the domain has closed.
    fn has_elapsed(inner: &Self::Inner, cookie: u64) -> bool;

    /// Makes one attempt at completing a grace period, unless one was made a few microseconds ago. Never waits, and runs
    /// nobody's code.
    fn advance(inner: &Self::Inner);

    /// Runs the hooks that are due, on a thread that futures have wait for them. Does nothing where there are none.
    fn tend(inner: &Self::Inner) {
        let _ = inner;
    }

    /// Whether the calling thread is inside a guard of this domain.
    fn is_inside(inner: &Self::Inner) -> bool;

    /// Makes the domain's barrier and counters cover `stage` for as long as it lives.
    fn attach(inner: &Self::Inner, stage: Weak<dyn Stage>);
}

/// Something in which objects of a domain wait: the magazines of a slab, a deferred-drop queue.
///
/// A barrier calls [`collect`](Self::collect) on every stage, waits for one grace period, and then calls
/// [`settle`](Self::settle) on every stage. It holds no lock meanwhile.
pub trait Stage: Send + Sync {
    /// Returns the stage's identity, under which it runs foreign code.
    fn id(&self) -> u64;

    /// Closes whatever is part-full, of all threads, so that one grace period from now covers it.
    fn collect(&self);

    /// Runs the destructors of what has waited long enough, and waits for those that other threads are running.
    fn settle(&self);

    /// Returns how much waits here.
    fn waiting(&self) -> Waiting;
}

/// How much waits in a [`Stage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// Objects.
    pub objects: u64,
    /// Their size in bytes, as far as the stage knows it.
    pub bytes: u64,
}

impl Waiting {
    /// Pairs a number of objects with their size in bytes.
    #[must_use]
    pub const fn new(objects: u64, bytes: u64) -> Self {
        Self { objects, bytes }
    }
}
