//! Retiring, and what the retiring thread does about the backlog.
//!
//! # Protocol
//!
//! - *retire*: into the open batch, in a section of the thread's own backlog; then drop one ready object, if foreign code
//!   may run here.
//! - *close a batch* (every [`BATCH`](crate::tuning::BATCH) retirements): take a cookie; ask for a grace period if it is
//!   time; look for backlogs that idle or exited threads left; drop half a batch more while much is ready; above the
//!   limit, drop four batches more, and help for as long as the patience lasts.
//!
//! Foreign code doesn't run while the thread unwinds or is running foreign code already: those retirements only join the
//! backlog.
//!
//! # Orderings
//!
//! - O27: a mark, light fence, load of `barriers` | `barriers + 1`, heavy fence, wait for marks (see `barrier`): whoever
//!   moves batches sees the barrier and lets them lie, or the barrier waits until they have been moved.
//! - O28: closing, heavy fence, walk of the records | a record's publication, light fence of the section, load of
//!   `closed`: a retirement that doesn't see the close is collected by it.

use std::ptr::NonNull;
use std::time::Duration;

use crate::fence::{self, Section, Taken};
use crate::sync::{Acquire, Arc, Relaxed, now, panicking, thread};
use crate::thread::{Snooze, frame};
use crate::tuning::{BATCHES_PER_PERIOD, CATCH_UP, CATCH_UP_AT_LIMIT, TAKER_YIELDS};

use super::backlog::Backlog;
use super::batch::{List, Owned};
use super::core::{Core, Mine};
use super::record::Own;
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
        if let Err(thunk) = section.push(thunk) {
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
        section.push(thunk)?;
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
            self.take_over(mine, now.saturating_sub(nanos(self.config.max_delay)));
            self.kick();
        }
        self.ripen(mine);
        if self.may_drop_here() {
            self.drop_ready(mine, CATCH_UP);
            if self.is_over_limit(mine) {
                self.drop_ready(mine, CATCH_UP_AT_LIMIT);
                self.help_at_limit(mine);
            }
        }
    }

    /// Counts a closed batch and moves the grace period on. Returns whether a new one was due.
    fn pace(&self, mine: &Mine<'_>) -> bool {
        // Relaxed: a count for pacing only.
        let closed = self.closed_batches.fetch_add(1, Relaxed) + 1;
        // Relaxed: as above; two threads may both find it due.
        let due = closed.saturating_sub(self.asked_at.load(Relaxed)) >= BATCHES_PER_PERIOD;
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
    fn may_drop_here(&self) -> bool {
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

    /// Above its limit the thread reclaims, and yields for at most the patience; then it lets the backlog grow, counts
    /// that, and asks again when the backlog has doubled.
    fn help_at_limit(&self, mine: &Mine<'_>) {
        if !self.should_help(mine) {
            return;
        }
        let deadline = now().saturating_add(nanos(self.config.patience));
        let mut snooze = Snooze::new();
        loop {
            self.clock.advance(&self.records, Some(mine));
            self.ripen(mine);
            while self.drop_ready(mine, CATCH_UP) == CATCH_UP {}
            if !self.is_over_limit(mine) {
                return;
            }
            // Inside the thread's own guard no grace period can end, so there is nothing to wait for.
            if mine.is_inside() || now() >= deadline {
                break;
            }
            snooze.wait();
        }
        self.limit_hits.add(1);
        if let Some(mut section) = mine.section() {
            section.help_at = section.objects().saturating_mul(2);
        }
    }

    fn is_over_limit(&self, mine: &Mine<'_>) -> bool {
        let Some(mut section) = mine.section() else {
            return false;
        };
        let over = section.objects() > self.config.limit_objects
            || section.bytes() > self.config.limit_bytes;
        if !over {
            section.help_at = 0;
        }
        over
    }

    /// Whether help that was in vain before may be tried again.
    fn should_help(&self, mine: &Mine<'_>) -> bool {
        self.is_over_limit(mine)
            && mine
                .section()
                .is_some_and(|section| section.objects() >= section.help_at)
    }

    /// Adopts the backlogs of threads that have exited, or that have opened no batch since `oldest`.
    pub(super) fn take_over(&self, mine: &Mine<'_>, oldest: u64) {
        let _mark = mine.own.running.begin();
        // Orders the mark before the look at the barriers (O27).
        fence::light();
        // Acquire: pairs with the barrier's read-modify-write (O27).
        if self.barriers.load(Acquire) != 0 {
            return;
        }
        let revoked: Vec<_> = self
            .records
            .iter()
            .filter(|node| node.value.own.is_held_since(oldest, node.is_abandoned()))
            .filter(|node| !std::ptr::eq(&raw const node.value.own, &raw const mine.own))
            .filter_map(|node| Some((&node.value.own, node.value.own.backlog.revoke()?)))
            .collect();
        if revoked.is_empty() {
            return;
        }
        // Orders all the revocations before the looks at the owners (O3).
        let heavy = fence::heavy();
        let mut found = List::default();
        for (own, revoked) in revoked {
            if let Ok(taken) = revoked.try_take(heavy) {
                found.append(&mut self.empty(own, taken));
            }
        }
        self.deposit(mine, found);
    }

    /// Takes everything out of a backlog that has been taken over.
    pub(super) fn empty(&self, own: &Own, mut taken: Taken<'_, Backlog>) -> List {
        let (list, spent) = taken.take_all(self.clock.cookie());
        own.untouch();
        drop(taken);
        drop(spent);
        list
    }

    fn deposit(&self, mine: &Mine<'_>, mut list: List) {
        if list.is_empty() {
            return;
        }
        let now = now();
        if let Some(mut section) = mine.section() {
            section.adopt(&mut list);
            mine.own.touch(now);
            return;
        }
        loop {
            let other = self.borrow_record();
            if let Some(mut section) = other.section() {
                section.adopt(&mut list);
                other.own.touch(now);
                return;
            }
        }
    }

    /// The domain has closed, so there is nobody to wait for. Nested calls run one after the other.
    #[cold]
    fn run_now(&self, thunk: Thunk) {
        let Some(core) = self.shared() else {
            unreachable!("the global domain never closes");
        };
        let job = Box::new((core, thunk));
        let data = NonNull::from(Box::leak(job)).cast();
        // SAFETY: `run_job` takes the box back once, and catches panics.
        frame::run_or_leave(self.id, unsafe { frame::Job::new(data, run_job) });
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

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
