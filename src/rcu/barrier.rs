//! Waiting: for readers, for destructors, and for the end.
//!
//! # Protocol
//!
//! *Barrier*:
//!
//! 1. Announce it, so that no batch moves from thread to thread any more; wait for the marks of those that are moving one,
//!    or running a destructor.
//! 2. Begin a mark; take every backlog into the hand; wait for one grace period; run everything in the hand; end the mark.
//! 3. Wait for the marks that are left: destructors that other threads had taken out of their own backlogs, and other
//!    barriers.
//!
//! What had been retired before the call was in a backlog, where step 2 finds it, or under a mark, for which step 1 or 3
//! waits. Nothing is put back, so one pass is enough.
//!
//! *Close*: the same without a grace period, since no guard can be left, and until nothing is found; then it waits for the
//! marks, unless it runs inside foreign code, where two closes could wait for each other. What others have in hand then
//! runs a little later.
//!
//! # Orderings
//!
//! O27: see `takeover`. O28: see `retire`.

use crate::fence::{self, Revoked, Taken};
use crate::reclaim::Stage;
use crate::sync::{Arc, AtomicUsize, edge, thread};
use crate::thread::{Node, Snooze, frame};
use crate::tuning::DRAIN_ROUNDS;

use super::backlog::Backlog;
use super::batch::{Hand, List};
use super::clock::Attempt;
use super::core::{Core, Mine};
use super::record::Record;
use super::stats::Drained;

impl Core {
    /// Waits for one grace period, driving it.
    pub(super) fn synchronize(&self) {
        assert!(
            !self.is_inside(),
            "graceperiod: synchronize() inside a guard of the same domain would wait for itself; \
             drop this thread's guards first"
        );
        self.wait_for(self.clock.cookie(), || ());
    }

    /// Waits until the cookie's grace period has passed, driving it; calls `also` while that doesn't go on. Gives up once
    /// the domain has closed, which it may do under a barrier that a future waits for: leaked guards are all that is left.
    fn wait_for(&self, cookie: u64, also: impl Fn()) {
        let mut snooze = Snooze::new();
        while !self.clock.has_elapsed(cookie) && !self.is_closed() {
            if self
                .clock
                .advance(&self.records, self.registered().as_deref())
                != Attempt::Completed
            {
                also();
                snooze.wait();
            }
        }
    }

    /// Waits for every destructor of everything retired before, and resumes a panic that one of them left.
    pub(super) fn barrier(&self) {
        self.settle("barrier");
        self.panics.resume();
    }

    /// Barriers until nothing is pending.
    pub(super) fn drain(&self) -> Drained {
        let mut rounds = 0;
        let left = loop {
            self.settle("drain");
            rounds += 1;
            let left = self.stats().pending_objects;
            if left == 0 || rounds == DRAIN_ROUNDS {
                break left;
            }
        };
        self.panics.resume();
        Drained { rounds, left }
    }

    fn settle(&self, call: &str) {
        let stages = self.live_stages();
        self.refuse_misuse(call, &stages);
        {
            let _announced = Announced::new(&self.barriers);
            let mine = self.mine();
            self.wait_for_marks(&mine);
            for stage in &stages {
                stage.collect();
            }
            let mark = mine.own.running.begin();
            let hand = self.gather();
            self.wait_for(self.clock.cookie(), || self.look_for_stalls());
            self.run_all(&mine, hand);
            drop(mark);
            self.wait_for_marks(&mine);
        }
        for stage in &stages {
            stage.settle();
        }
    }

    /// Makes a barrier for a future, which resumes what panicked. Doesn't unwind.
    #[cfg(not(loom))]
    pub(super) fn barrier_for_future(&self) {
        // Destructors' panics are caught where they run; whatever else may unwind leaves nobody waiting.
        self.panics.catch(|| self.settle("barrier_async"));
    }

    /// Panics where `call` would wait for its own caller.
    #[cfg(not(loom))]
    pub(super) fn refuse_barrier(&self, call: &str) {
        self.refuse_misuse(call, &self.live_stages());
    }

    fn refuse_misuse(&self, call: &str, stages: &[Arc<dyn Stage>]) {
        assert!(
            !self.is_inside(),
            "graceperiod: {call}() inside a guard of the same domain would wait for itself; \
             drop this thread's guards first"
        );
        let foreign = frame::is_open_for(self.id)
            || stages.iter().any(|stage| frame::is_open_for(stage.id()));
        assert!(
            !foreign,
            "graceperiod: {call}() inside a destructor, handler or hook of the same domain would wait for itself; \
             call it from outside, or use defer()"
        );
    }

    pub(super) fn live_stages(&self) -> Vec<Arc<dyn Stage>> {
        let mut stages = self.stages.lock();
        stages.retain(|stage| stage.strong_count() > 0);
        stages.iter().filter_map(std::sync::Weak::upgrade).collect()
    }

    /// Waits for the destructors and moves that other threads have in hand.
    fn wait_for_marks(&self, mine: &Mine<'_>) {
        for node in &self.records {
            let own = &node.value.own;
            if !std::ptr::eq(own, &mine.own) {
                own.running.wait();
            }
        }
    }

    /// Takes every backlog.
    fn gather(&self) -> List {
        // All barriers revoke in the order of the list, so none waits for another that waits for it.
        let revoked: Vec<_> = self
            .records
            .iter()
            .map(|node| (node, node.value.own.backlog.revoke_waiting()))
            .collect();
        // Orders all the revocations before the looks at the owners (O3).
        let heavy = edge!(O3, fence::heavy());
        let mut hand = List::default();
        for (node, revoked) in revoked {
            let own = &node.value.own;
            hand.append(&mut self.empty(own, self.take(node, revoked, heavy)));
        }
        hand
    }

    /// Waits for the owner's section to end. If the kernel has refused the heavy fence, only a section with a full fence
    /// tells whether the owner is outside: this thread makes one itself, and stands in for owners that have gone.
    fn take<'a>(
        &self,
        node: &'a Node<Record>,
        revoked: Revoked<'a, Backlog>,
        heavy: bool,
    ) -> Taken<'a, Backlog> {
        let mut revoked = revoked;
        loop {
            match revoked.try_take(heavy) {
                Ok(taken) => return taken,
                Err(again) => revoked = again,
            }
            if !heavy {
                let _own = self.registered().map(|_| drop(self.mine().section()));
                self.stand_in(node);
            }
            thread::yield_now();
        }
    }

    fn run_all(&self, mine: &Mine<'_>, mut hand: List) {
        let mut few = Hand::new();
        while let Some(mut batch) = hand.pop_front() {
            while batch.pop_into(&mut few) {
                self.run(mine.owner(), &mut few);
            }
        }
    }

    /// Ends the domain: runs everything retired, and what that retires, until nothing is left.
    ///
    /// The last user handle has gone, so no guard lives and nobody enters any more.
    pub(super) fn close(&self) {
        self.mark_closed();
        // Orders the mark before the walks (O28).
        edge!(O28, fence::heavy());
        let mine = self.borrow_record();
        loop {
            let mark = mine.own.running.begin();
            let hand = self.gather();
            if hand.is_empty() {
                break;
            }
            self.run_all(&mine, hand);
            drop(mark);
        }
        if !frame::is_open() {
            self.wait_for_marks(&mine);
        }
    }
}

/// Keeps batches where they are while it lives.
struct Announced<'a>(&'a AtomicUsize);

impl<'a> Announced<'a> {
    fn new(barriers: &'a AtomicUsize) -> Self {
        // AcqRel: pairs with the Acquire in take_over (O27).
        barriers.fetch_add(1, edge!(O27, AcqRel));
        // Orders the count before the look at the marks (O27).
        edge!(O27, fence::full());
        Self(barriers)
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in take_over (O27); the barrier is through with the backlogs.
        self.0.fetch_sub(1, edge!(O27, Release));
    }
}
