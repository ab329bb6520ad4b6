//! A mark for work that a thread holds in its hands, so that others can wait for it.
//!
//! # Protocol
//!
//! Whoever takes jobs out of a list begins the mark *before* taking and ends it when all of them have run. Whoever wants
//! everything done empties all lists first and then waits for each mark: what isn't in a list is under a mark.
//!
//! # Orderings
//!
//! - O10: the end of a mark (Release) -> [`Running::wait`] (Acquire): what the jobs did is visible to the waiter.
//! - The begin needs no edge of its own: it comes before the removal from the list, and the waiter emptied that list
//!   through the same lock or read-modify-write.

use crate::sync::{AtomicU64, Relaxed, edge};

use super::Snooze;

/// Odd while its one writer works.
#[derive(Debug, Default)]
pub(crate) struct Running(AtomicU64);

impl Running {
    crate::sync::const_fn! {
        pub(crate) fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    /// Begins a mark; only the present owner of the record may call it. Inside another mark it does nothing.
    #[inline]
    pub(crate) fn begin(&self) -> Mark<'_> {
        // Relaxed: one writer; see the module's orderings for why the begin needs no edge.
        let before = self.0.load(Relaxed);
        let outermost = before.is_multiple_of(2);
        if outermost {
            // Relaxed: as above.
            self.0.store(before + 1, Relaxed);
        }
        Mark {
            running: self,
            outermost,
        }
    }

    /// Whether the calling thread, which must be the owner, has work in hand.
    pub(crate) fn is_begun(&self) -> bool {
        // Relaxed: the owner's own count.
        !self.0.load(Relaxed).is_multiple_of(2)
    }

    /// Ends the mark of a thread that a fork has left behind, in the child, where nobody else uses it.
    pub(crate) fn end_for_child(&self) {
        // Relaxed: there is one thread.
        let now = self.0.load(Relaxed);
        // Relaxed: as above.
        self.0.store(now.next_multiple_of(2), Relaxed);
    }

    /// Whether anybody has work in hand under this mark. If not, what that work did is visible to the caller.
    pub(crate) fn is_busy(&self) -> bool {
        // Acquire: pairs with the Release in Mark::drop (O10).
        !self.0.load(edge!(O10, Acquire)).is_multiple_of(2)
    }

    /// Waits until work that was marked at the time of the call has ended.
    pub(crate) fn wait(&self) {
        // Acquire: pairs with the Release in Mark::drop (O10); makes the work's effects visible.
        let seen = self.0.load(edge!(O10, Acquire));
        if seen.is_multiple_of(2) {
            return;
        }
        // Acquire: as above (O10).
        let mut snooze = Snooze::new();
        while self.0.load(edge!(O10, Acquire)) == seen {
            snooze.wait();
        }
    }
}

/// Work in hand.
#[derive(Debug)]
#[must_use = "the work counts as done as soon as the mark is dropped"]
pub(crate) struct Mark<'a> {
    running: &'a Running,
    outermost: bool,
}

impl Drop for Mark<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.outermost {
            // Relaxed: one writer.
            let during = self.running.0.load(Relaxed);
            // Release: pairs with the Acquire in Running::wait (O10).
            self.running.0.store(during + 1, edge!(O10, Release));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::Mutex;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    /// One of two threads takes a job; the other one asks about it by `ask`, and looks at what it did if that is true.
    fn beside_a_worker(ask: fn(&Running) -> bool) {
        loom::model(move || {
            let shared = Arc::new((Running::new(), Mutex::new(true), UnsafeCell::new(0_u32)));
            let other = Arc::clone(&shared);
            let worker = loom::thread::spawn(move || {
                let (running, job, done) = &*other;
                let mark = running.begin();
                if std::mem::take(&mut *job.lock()) {
                    // SAFETY: whoever took the job has the cell alone; loom checks.
                    done.with_mut(|done| unsafe { *done += 1 });
                }
                drop(mark);
            });
            let (running, job, done) = &*shared;
            if !std::mem::take(&mut *job.lock()) && ask(running) {
                // SAFETY: the other thread took the job, and its mark has ended; loom checks.
                done.with(|done| assert_eq!(unsafe { *done }, 1));
            }
            worker.join().expect("no panic");
        });
    }

    #[test]
    fn o10_waiter_sees_what_was_in_another_threads_hand() {
        beside_a_worker(|running| {
            running.wait();
            true
        });
    }

    #[test]
    fn o10_whoever_sees_nothing_in_hand_sees_what_was_done() {
        beside_a_worker(|running| !running.is_busy());
    }
}
