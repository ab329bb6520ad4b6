//! The foreign code that the calling thread is running: destructors, handlers and hooks of users.
//!
//! # Protocol
//!
//! Whoever runs foreign code opens a frame. Work that comes up meanwhile and would nest (the drop of another object, the
//! close of a domain) is left with the outermost frame, which runs it when its own code has returned: a chain of a million
//! objects takes two frames, not a million.
//!
//! # Invariants
//!
//! - I1: [`TOP`] points to a frame of this thread that is still on its stack, or is null.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};

use crate::sync::{NOBODY, plain_local};

use super::discard;

/// Something to run later on this thread.
pub(crate) struct Job {
    owner: u64,
    data: NonNull<()>,
    run: unsafe fn(NonNull<()>),
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").finish_non_exhaustive()
    }
}

impl Job {
    /// Pairs a function of `owner`'s with what it takes.
    ///
    /// # Safety
    ///
    /// 1. `run(data)` may be called once, on this thread, at any later time.
    /// 2. It doesn't unwind.
    pub(crate) unsafe fn new(owner: u64, data: NonNull<()>, run: unsafe fn(NonNull<()>)) -> Self {
        Self { owner, data, run }
    }

    /// Runs the job in a frame of its owner's.
    fn run(self) {
        run(self.owner, || {
            // SAFETY: `new` (1): called once, since `self` is consumed, and on the thread that made it.
            unsafe { (self.run)(self.data) };
        });
    }
}

struct Frame {
    /// Whose code runs: the identity of a domain, slab or queue.
    owner: u64,
    parent: *const Frame,
    pending: RefCell<Vec<Job>>,
}

plain_local! {
    static TOP: Cell<*const Frame> = Cell::new(ptr::null());
}

/// Whether any foreign code is running on this thread.
#[inline]
pub(crate) fn is_open() -> bool {
    !TOP.with(Cell::get).is_null()
}

/// Whether foreign code of `owner` is running on this thread, also further up the stack.
pub(crate) fn is_open_for(owner: u64) -> bool {
    let mut frame = TOP.with(Cell::get);
    // SAFETY: by I1 each frame of the chain is on this thread's stack.
    while let Some(open) = unsafe { frame.as_ref() } {
        if open.owner == owner {
            return true;
        }
        frame = open.parent;
    }
    false
}

/// Runs `code`, which belongs to `owner`, and then what was left with the frame meanwhile.
pub(crate) fn run<R>(owner: u64, code: impl FnOnce() -> R) -> R {
    let parent = TOP.with(Cell::get);
    let frame = Frame {
        owner,
        parent,
        pending: RefCell::new(Vec::new()),
    };
    TOP.with(|top| top.set(&raw const frame));
    let _close = Close {
        parent,
        frame: &frame,
        _stays: PhantomData,
    };
    code()
}

/// Runs `code` of this crate's in a frame of nobody's: what foreign code inside it leaves comes after it.
pub(crate) fn shelter<R>(code: impl FnOnce() -> R) -> R {
    run(NOBODY, code)
}

/// Runs `code` inside the frames that are open, or in one of its own if there is none: what `code` leaves nests nowhere.
pub(crate) fn within<R>(owner: u64, code: impl FnOnce() -> R) -> R {
    if is_open() { code() } else { run(owner, code) }
}

/// Leaves `job` with the outermost frame, or runs it now if there is none.
pub(crate) fn run_or_leave(job: Job) {
    // SAFETY: by I1 the frame is on this thread's stack.
    let Some(mut open) = (unsafe { TOP.with(Cell::get).as_ref() }) else {
        return job.run();
    };
    // SAFETY: by I1 each frame of the chain is on this thread's stack.
    while let Some(outer) = unsafe { open.parent.as_ref() } {
        open = outer;
    }
    open.pending.borrow_mut().push(job);
}

/// Leaves `job` with the outermost frame of its owner, or runs it now if there is none: code of one owner that must not
/// nest then runs one after the other.
pub(crate) fn run_or_leave_with_owner(job: Job) {
    let mut frame = TOP.with(Cell::get);
    let mut found: Option<&Frame> = None;
    // SAFETY: by I1 each frame of the chain is on this thread's stack.
    while let Some(open) = unsafe { frame.as_ref() } {
        if open.owner == job.owner {
            found = Some(open);
        }
        frame = open.parent;
    }
    match found {
        Some(open) => open.pending.borrow_mut().push(job),
        None => job.run(),
    }
}

/// Runs what is pending and takes the frame off, also while unwinding.
struct Close<'a> {
    parent: *const Frame,
    frame: &'a Frame,
    _stays: PhantomData<*const ()>,
}

impl Drop for Close<'_> {
    fn drop(&mut self) {
        loop {
            let job = self.frame.pending.borrow_mut().pop();
            let Some(job) = job else { break };
            // Jobs don't unwind; if one did, the frame must come off the stack all the same.
            if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| job.run())) {
                discard(payload);
            }
        }
        TOP.with(|top| top.set(self.parent));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    thread_local! {
        static DEPTH: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    }

    unsafe fn nest(data: NonNull<()>) {
        let (depth, deepest) = DEPTH.get();
        DEPTH.set((depth + 1, deepest.max(depth + 1)));
        let left = data.as_ptr().addr();
        if left > 1 {
            let data = NonNull::new(ptr::without_provenance_mut(left - 1)).expect("not zero");
            // SAFETY: `nest` may run at any time and doesn't unwind.
            run_or_leave(unsafe { Job::new(7, data, nest) });
        }
        let (depth, deepest) = DEPTH.get();
        DEPTH.set((depth - 1, deepest));
    }

    #[test]
    fn a_chain_of_jobs_runs_one_after_the_other() {
        let data = NonNull::new(ptr::without_provenance_mut(100_000)).expect("not zero");
        // SAFETY: `nest` may run at any time and doesn't unwind.
        run_or_leave(unsafe { Job::new(7, data, nest) });
        assert_eq!(DEPTH.get(), (0, 1));
        assert!(!is_open());
    }

    #[test]
    fn job_waits_for_the_outermost_frame_of_its_owner() {
        let note = || {
            let data = NonNull::new(ptr::without_provenance_mut(1)).expect("not zero");
            // SAFETY: `nest` may run at any time and doesn't unwind.
            run_or_leave_with_owner(unsafe { Job::new(4, data, nest) });
            DEPTH.get().1
        };
        run(3, || {
            run(4, || {
                run(5, || run(4, || assert_eq!(note(), 0)));
                assert_eq!(DEPTH.get().1, 0);
            });
            assert_eq!(DEPTH.get().1, 1);
        });
    }

    #[test]
    fn frames_know_their_owners_up_the_stack() {
        run(3, || {
            run(4, || {
                assert!(is_open_for(3) && is_open_for(4));
                assert!(!is_open_for(5));
            });
            assert!(!is_open_for(4));
        });
    }
}
