//! Stretches of a thread's work in which no foreign destructor may run inside a call, and no call may wait.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use crate::sync::{panicking, plain_local};

use super::frame;

plain_local! {
    static DEPTH: Cell<usize> = Cell::new(0);
}

/// A stretch in which this thread's calls neither run destructors of what others, or it itself, retired or pushed, nor
/// wait at a limit.
///
/// Made by [`no_reclaim`](crate::no_reclaim) or [`Domain::no_reclaim`](crate::Domain::no_reclaim); ends when it is
/// dropped. It covers every domain, slab and queue, on this thread only; several may live at once and end in any order.
/// What piles up meanwhile passes the limits, which is counted, and goes once the scope has ended. What a
/// domain that has closed is given through an inner reference has nobody to wait for, and is dropped at once all the same. Take one where a
/// destructor must not come up: under a lock that destructors take, or where latency counts.
///
/// It stays on its thread:
///
/// ```compile_fail,E0277
/// let scope = graceperiod::no_reclaim();
/// std::thread::spawn(move || drop(scope));
/// ```
///
/// ```
/// let scope = graceperiod::no_reclaim();
/// graceperiod::defer(|| println!("not before the scope's end"));
/// drop(scope);
/// graceperiod::barrier();
/// ```
#[must_use = "the scope ends when this is dropped"]
pub struct NoReclaim {
    _stays: PhantomData<*const ()>,
}

impl NoReclaim {
    pub(crate) fn begin() -> Self {
        let _begun = DEPTH.try_with(|depth| depth.set(depth.get() + 1));
        Self {
            _stays: PhantomData,
        }
    }
}

impl Drop for NoReclaim {
    fn drop(&mut self) {
        let _ended = DEPTH.try_with(|depth| depth.set(depth.get() - 1));
    }
}

impl fmt::Debug for NoReclaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoReclaim").finish_non_exhaustive()
    }
}

/// Whether the calling thread is inside such a stretch.
#[inline]
pub(crate) fn is_quiet() -> bool {
    DEPTH.with(Cell::get) != 0
}

/// Whether a call on this thread may run destructors that aren't its caller's: not inside other foreign code, not while
/// unwinding, and not inside a [`NoReclaim`] scope.
#[inline]
pub(crate) fn may_run_foreign() -> bool {
    !frame::is_open() && !is_quiet() && !panicking()
}
