//! Retiring, and what the retiring thread does about its backlog.
//!
//! # Protocol
//!
//! - *retire*: into the open batch, in a section of the thread's own backlog; at every eighth, drop eight ready objects, if
//!   foreign code may run here.
//! - *close a batch* (every [`BATCH`] retirements, or when its words or its share of the limit in bytes are used up): take
//!   a cookie; announce; ask for a grace period if it is time; look for backlogs that idle or exited threads left
//!   (`takeover`); drop half a batch more if much is ready; see to the limit (`limit`).
//!
//! Foreign code doesn't run while the thread unwinds, inside a `no_reclaim` scope, or inside other foreign code: those
//! retirements only join the backlog. A batch that closes inside foreign code leaves a debt with the outermost frame,
//! which is paid when that closes, so that a queue's handler or a destructor that retires a lot doesn't pile it up.
//!
//! # Orderings
//!
//! - O28: closing, heavy fence, walk of the records | a record's publication, light fence of the section, load of
//!   `closed`: what doesn't see the close, when it opens a batch or adopts some, is collected by it. Pushing into an open
//!   batch needs no look: the close takes every open batch, and the section orders that with the push (O1, O2).

use std::ptr::NonNull;

use crate::fence::Section;
use crate::sync::{Arc, now, panicking, thread};
use crate::thread::{frame, is_quiet, local, may_run_foreign};
use crate::tuning::{
    BATCH, BATCHES_PER_PERIOD, CATCH_UP, CATCH_UP_FROM, DROP_EVERY, HELP_DROPS, RECORDS_PER_BATCH,
    TAKER_YIELDS,
};

use super::backlog::Backlog;
use super::batch::{Hand, Owned};
use super::core::{Core, Owner};
use super::global;
use super::record::Record;
use super::thunk::Thunk;

impl Core {
    /// Takes charge of a thunk: runs it after a grace period, or at once if the domain has closed.
    #[inline]
    pub(super) fn retire(&self, thunk: impl FnOnce() -> Thunk) {
        self.retire_by(self.registered(), thunk);
    }

    /// As [`retire`](Self::retire), for a thread whose record has been looked up. The thunk is made where it goes, so that
    /// the compiler sees through it: inside the section, so it must not allocate (backlog I1).
    #[inline(always)]
    pub(super) fn retire_by(&self, owner: Option<Owner<'_>>, thunk: impl FnOnce() -> Thunk) {
        if let Some(owner) = owner
            && let Some(mut section) = owner.section()
            && let Some(open) = section.open()
        {
            // There is no look at `closed`: the close takes every open batch, so that the next one has to be opened, and
            // that looks (O28).
            let thunk = thunk();
            owner.count_retired(thunk.bytes());
            let len = open.push(thunk, self.config.batch_bytes());
            if len.is_multiple_of(DROP_EVERY) && section.has_ready() {
                self.drop_along(owner, section);
            }
        } else {
            self.retire_slowly(thunk());
        }
    }

    /// The thread has no record yet, or no open batch with room, or its backlog is being taken over: then it gives the
    /// taker a moment, and uses another record's for this once.
    #[cold]
    fn retire_slowly(&self, mut thunk: Thunk) {
        for _ in 0..TAKER_YIELDS {
            match self.retire_into_next(self.mine().owner(), thunk) {
                Ok(()) => return,
                Err(back) => thunk = back,
            }
            thread::yield_now();
        }
        while let Err(back) = self.retire_into_next(self.borrow_record().owner(), thunk) {
            thunk = back;
        }
    }

    /// Retires a closure on a given record.
    #[cfg(all(test, loom))]
    pub(super) fn retire_for_test(&self, owner: Owner<'_>, f: impl FnOnce() + Send + 'static) {
        // SAFETY: `Send + 'static`.
        let thunk = unsafe { Thunk::new(f, 0) };
        assert!(self.retire_into_next(owner, thunk).is_ok());
    }

    /// Closes the open batch if it is full, opens the next one and retires into that. Hands the thunk back if the backlog
    /// is being taken over.
    fn retire_into_next(&self, owner: Owner<'_>, thunk: Thunk) -> Result<(), Thunk> {
        if self.is_closed() {
            self.run_now(thunk);
            return Ok(());
        }
        let now = now();
        // Outside the section in which it is used (backlog I1).
        let mut fresh = match owner.section() {
            Some(section) if section.has_spare() => None,
            Some(section) => {
                drop(section);
                Some(Owned::new(owner.batch_size()))
            }
            None => return Err(thunk),
        };
        let Some(mut section) = owner.section() else {
            return Err(thunk);
        };
        if self.is_closed() {
            drop(section);
            self.run_now(thunk);
            return Ok(());
        }
        let mut closes = false;
        if section.open().is_none() {
            closes = section.has_open();
            if closes {
                section.seal(self.clock.cookie());
            }
            fresh = section.install(fresh);
        }
        let Some(open) = section.open() else {
            return Err(thunk);
        };
        owner.count_retired(thunk.bytes());
        open.push(thunk, self.config.batch_bytes());
        owner.own.touch(now);
        drop(section);
        drop(fresh);
        if closes {
            self.after_close(owner, now);
        }
        Ok(())
    }

    fn after_close(&self, owner: Owner<'_>, now: u64) {
        // So that this thread, if it reads nothing for a while, holds up nobody's period.
        owner.announce(&self.clock);
        if self.pace(owner) {
            self.take_over_now_and_then(owner, now);
            self.kick();
        }
        self.look_for_stalls();
        let ready = self.ripen(owner);
        if ready > CATCH_UP_FROM && self.may_drop_here() {
            self.drop_ready(owner, CATCH_UP);
        }
        self.see_to_limit(owner);
        if self.may_drop_here() {
            local::sweep();
        } else {
            self.owe(owner);
        }
    }

    /// Counts a closed batch and moves the grace period on. Returns whether a new one was due.
    ///
    /// The thread counts its own batches: a count of all would be one more line that every writer fights for. The more
    /// records a scan has to look at, the more batches share one.
    fn pace(&self, owner: Owner<'_>) -> bool {
        let share = self.clock.scanned() / RECORDS_PER_BATCH;
        // Never so many that the limit is reached meanwhile.
        let most = (self.config.limit_objects / (2 * BATCH)) as u64;
        let due = owner
            .own
            .count_batch(share.min(most).max(BATCHES_PER_PERIOD));
        if due || self.clock.is_open() {
            self.clock.advance(&self.records, Some(&owner));
        }
        due
    }

    /// Moves what has waited long enough to the ready list, and returns how much is there.
    pub(super) fn ripen(&self, owner: Owner<'_>) -> usize {
        owner.section().map_or(0, |mut section| {
            section.ripen(|cookie| self.clock.has_elapsed(cookie));
            section.ready_objects()
        })
    }

    /// Whether foreign code may run inside a call to retire on this thread.
    #[inline]
    pub(super) fn may_drop_here(&self) -> bool {
        self.config.drop_at_retire && may_run_foreign()
    }

    /// Drops about `most` ready objects of the thread's own, [`DROP_EVERY`] at a time; returns how many.
    pub(super) fn drop_ready(&self, owner: Owner<'_>, most: usize) -> usize {
        let mut dropped = 0;
        while dropped < most {
            match owner.section() {
                Some(section) if section.has_ready() => dropped += self.drop_some(owner, section),
                _ => break,
            }
        }
        dropped
    }

    /// Drops a few ready objects, if foreign code may run here.
    #[inline(never)]
    fn drop_along(&self, owner: Owner<'_>, section: Section<'_, Backlog>) {
        if self.may_drop_here() {
            self.drop_some(owner, section);
        }
    }

    /// Drops a few ready objects, taking them out under a mark; returns how many.
    #[inline(always)]
    fn drop_some(&self, owner: Owner<'_>, mut section: Section<'_, Backlog>) -> usize {
        let _mark = owner.own.running.begin();
        let mut hand = Hand::new();
        let spent = section.pop_ready(&mut hand);
        drop(section);
        drop(spent);
        let dropped = hand.len();
        self.run(owner, &mut hand);
        dropped
    }

    /// Runs what is in the hand, and counts it: in a frame, unless it is nothing but memory to give back.
    #[inline]
    pub(super) fn run(&self, owner: Owner<'_>, hand: &mut Hand) {
        let (objects, bytes) = (hand.len() as u64, hand.bytes() as u64);
        if hand.is_plain() {
            hand.free();
        } else {
            self.run_foreign(hand);
        }
        owner.own.dropped.add(objects);
        owner.own.dropped_bytes.add(bytes);
    }

    #[inline(never)]
    fn run_foreign(&self, hand: &mut Hand) {
        frame::run(self.id, || {
            while let Some(thunk) = hand.next() {
                self.panics.catch(|| thunk.run());
            }
        });
    }

    /// What is retired inside foreign code can't be dropped there: has a little of it dropped when the outermost frame
    /// closes.
    fn owe(&self, owner: Owner<'_>) {
        if !self.config.drop_at_retire || !frame::is_open() || !owner.own.begin_debt() {
            return;
        }
        let debt = Debt {
            core: self.shared(),
            record: NonNull::from(&*owner),
        };
        let data = NonNull::from(Box::leak(Box::new(debt))).cast();
        // SAFETY: `pay` takes the box back once; destructors' panics are caught. It may run at any time, since the debt
        // holds the domain, unless that is the global one.
        frame::run_or_leave(unsafe { frame::Job::new(self.id, data, pay) });
    }

    /// Drops what is ready, a stated number at most; what that retires in turn waits for the next occasion.
    fn pay(&self) {
        let mine = self.mine();
        let owner = mine.owner();
        self.clock.advance(&self.records, Some(&owner));
        self.ripen(owner);
        if !panicking() && !is_quiet() {
            self.drop_ready(owner, HELP_DROPS);
        }
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

/// A promise to drop some of what a thread retired inside foreign code.
struct Debt {
    /// None stands for the global domain.
    core: Option<Arc<Core>>,
    /// The record that owes; it lives as long as its domain.
    record: NonNull<Record>,
}

unsafe fn pay(data: NonNull<()>) {
    // SAFETY: made from a box of this type in owe, and called once.
    let Debt { core, record } = *unsafe { Box::from_raw(data.cast::<Debt>().as_ptr()) };
    match &core {
        Some(core) => core.pay(),
        None => global::core().pay(),
    }
    // SAFETY: `core` is still held.
    unsafe { record.as_ref() }.own.end_debt();
}
