//! Retiring, and what the retiring thread does about its backlog.
//!
//! # Protocol
//!
//! - *retire*: into the open batch, in a section of the thread's own backlog; then drop one ready object, if foreign code
//!   may run here.
//! - *close a batch* (every [`BATCH`](crate::tuning::BATCH) retirements, or when it holds its share of the limit in
//!   bytes): take a cookie; announce; ask for a grace period if it is time; look for backlogs that idle or exited threads
//!   left (`takeover`); drop half a batch more; see to the limit (`limit`).
//!
//! Foreign code doesn't run while the thread unwinds or is running foreign code already: those retirements only join the
//! backlog.
//!
//! # Orderings
//!
//! - O28: closing, heavy fence, walk of the records | a record's publication, light fence of the section, load of
//!   `closed`: what doesn't see the close, when it adds to a backlog, is collected by it.

use std::ptr::NonNull;

use crate::fence::Section;
use crate::sync::{Arc, Relaxed, now, panicking, thread};
use crate::thread::{frame, local};
use crate::tuning::{BATCHES_PER_PERIOD, CATCH_UP, RECORDS_PER_BATCH, TAKER_YIELDS};

use super::backlog::Backlog;
use super::batch::Owned;
use super::core::{Core, Mine};
use super::thunk::Thunk;

impl Core {
    /// Takes charge of a thunk: runs it after a grace period, or at once if the domain has closed.
    #[inline]
    pub(super) fn retire(&self, thunk: Thunk) {
        if let Err(thunk) = self.retire_on(&self.mine(), thunk) {
            self.retire_elsewhere(thunk);
        }
    }

    /// The thread's own backlog is being taken over: give the taker a moment, then use another record's for this once.
    #[cold]
    fn retire_elsewhere(&self, mut thunk: Thunk) {
        for _ in 0..TAKER_YIELDS {
            thread::yield_now();
            match self.retire_on(&self.mine(), thunk) {
                Ok(()) => return,
                Err(back) => thunk = back,
            }
        }
        while let Err(back) = self.retire_on(&self.borrow_record(), thunk) {
            thunk = back;
        }
    }

    /// Retires a closure on a given record.
    #[cfg(all(test, loom))]
    pub(super) fn retire_for_test(&self, mine: &Mine<'_>, f: impl FnOnce() + Send + 'static) {
        // SAFETY: `Send + 'static`.
        let thunk = unsafe { Thunk::new(f, 0) };
        assert!(self.retire_on(mine, thunk).is_ok());
    }

    #[inline]
    fn retire_on(&self, mine: &Mine<'_>, thunk: Thunk) -> Result<(), Thunk> {
        let Some(mut section) = mine.section() else {
            return Err(thunk);
        };
        if self.is_closed() {
            drop(section);
            self.run_now(thunk);
            return Ok(());
        }
        let bytes = thunk.bytes();
        if let Err(thunk) = section.push(thunk, self.config.batch_bytes()) {
            let fresh = !section.has_spare();
            drop(section);
            return self.retire_into_next(mine, thunk, fresh);
        }
        mine.count_retired(bytes);
        if section.has_ready() && self.may_drop_here() {
            self.drop_one(mine, section);
        }
        Ok(())
    }

    /// Closes the open batch, opens the next one and retires into that.
    #[cold]
    fn retire_into_next(&self, mine: &Mine<'_>, thunk: Thunk, fresh: bool) -> Result<(), Thunk> {
        let fresh = fresh.then(Owned::new);
        let now = now();
        let Some(mut section) = mine.section() else {
            return Err(thunk);
        };
        if self.is_closed() {
            drop(section);
            self.run_now(thunk);
            return Ok(());
        }
        let closes = section.has_open();
        if closes {
            section.seal(self.clock.cookie());
        }
        let spent = section.install(fresh);
        let bytes = thunk.bytes();
        section.push(thunk, usize::MAX)?;
        mine.count_retired(bytes);
        mine.own.touch(now);
        drop(section);
        drop(spent);
        if closes {
            self.after_close(mine, now);
        }
        Ok(())
    }

    fn after_close(&self, mine: &Mine<'_>, now: u64) {
        // So that this thread, if it reads nothing for a while, holds up nobody's period.
        mine.announce(&self.clock);
        if self.pace(mine) {
            self.take_over_now_and_then(mine, now);
            self.kick();
        }
        self.ripen(mine);
        if self.may_drop_here() {
            self.drop_ready(mine, CATCH_UP);
        }
        self.see_to_limit(mine);
        if self.may_drop_here() {
            local::sweep();
        }
    }

    /// Counts a closed batch and moves the grace period on. Returns whether a new one was due.
    ///
    /// The more records a scan has to look at, the more batches share one.
    fn pace(&self, mine: &Mine<'_>) -> bool {
        // Relaxed: a count for pacing only.
        let closed = self.closed_batches.fetch_add(1, Relaxed) + 1;
        let share = BATCHES_PER_PERIOD.max(self.clock.scanned() / RECORDS_PER_BATCH);
        // Relaxed: as above; two threads may both find it due.
        let due = closed.saturating_sub(self.asked_at.load(Relaxed)) >= share;
        if due {
            // Relaxed: as above.
            self.asked_at.store(closed, Relaxed);
        }
        if due || self.clock.is_open() {
            self.clock.advance(&self.records, Some(mine));
        }
        due
    }

    /// Moves what has waited long enough to the ready list.
    pub(super) fn ripen(&self, mine: &Mine<'_>) {
        if let Some(mut section) = mine.section() {
            section.ripen(|cookie| self.clock.has_elapsed(cookie));
        }
    }

    /// Whether foreign code may run inside a call to retire on this thread.
    #[inline]
    pub(super) fn may_drop_here(&self) -> bool {
        self.config.drop_at_retire && !frame::is_open() && !panicking()
    }

    /// Drops up to `most` ready objects of the thread's own; returns how many.
    pub(super) fn drop_ready(&self, mine: &Mine<'_>, most: usize) -> usize {
        for dropped in 0..most {
            match mine.section() {
                Some(section) if section.has_ready() => self.drop_one(mine, section),
                _ => return dropped,
            }
        }
        most
    }

    /// Drops one ready object, taking it out under a mark.
    #[inline]
    fn drop_one(&self, mine: &Mine<'_>, mut section: Section<'_, Backlog>) {
        let _mark = mine.own.running.begin();
        let (thunk, spent) = section.pop_ready();
        drop(section);
        drop(spent);
        if let Some(thunk) = thunk {
            self.run(mine, thunk);
        }
    }

    /// Runs one destructor in a frame, and counts it.
    pub(super) fn run(&self, mine: &Mine<'_>, thunk: Thunk) {
        let bytes = thunk.bytes();
        frame::run(self.id, || self.panics.catch(|| thunk.run()));
        mine.own.dropped.add(1);
        mine.own.dropped_bytes.add(bytes as u64);
    }

    /// The domain has closed, so there is nobody to wait for. Nested calls run one after the other.
    #[cold]
    pub(super) fn run_now(&self, thunk: Thunk) {
        let Some(core) = self.shared() else {
            unreachable!("the global domain never closes");
        };
        let job = Box::new((core, thunk));
        let data = NonNull::from(Box::leak(job)).cast();
        // SAFETY: `run_job` takes the box back once, and catches panics.
        frame::run_or_leave(unsafe { frame::Job::new(self.id, data, run_job) });
    }
}

unsafe fn run_job(data: NonNull<()>) {
    // SAFETY: made from a box of this type in run_now, and called once.
    let job = unsafe { Box::from_raw(data.cast::<(Arc<Core>, Thunk)>().as_ptr()) };
    let (core, thunk) = *job;
    let bytes = thunk.bytes();
    core.panics.catch(|| thunk.run());
    core.late.add(1);
    core.late_bytes.add(bytes as u64);
}
