//! Adopting what idle and exited threads have retired.
//!
//! # Orderings
//!
//! - O27: a mark, full fence, load of `barriers` | `barriers + 1`, full fence, wait for marks (see `barrier`): whoever
//!   moves batches sees the barrier and lets them lie, or the barrier waits until they have been moved.

use crate::fence::{self, Taken};
use crate::sync::{Relaxed, edge, now};

use super::backlog::Backlog;
use super::batch::List;
use super::core::{Core, Owner};
use super::limit::nanos;
use super::record::Own;

impl Core {
    /// Takes over what is idle, unless some thread looked for that within the last longest delay.
    pub(super) fn take_over_now_and_then(&self, owner: Owner<'_>, now: u64) {
        let delay = nanos(self.config.max_delay);
        // Relaxed: a rate limit; a lost race costs a walk.
        let last = self.last_take_over.load(Relaxed);
        if now.saturating_sub(last) >= delay {
            // Relaxed: as above.
            self.last_take_over.store(now, Relaxed);
            self.take_over(owner, now.saturating_sub(delay));
        }
    }

    /// Adopts the backlogs of threads that have exited, or that have opened no batch since `oldest`.
    pub(super) fn take_over(&self, owner: Owner<'_>, oldest: u64) {
        let _mark = owner.own.running.begin();
        // Orders the mark before the look at the barriers (O27). Full, since a heavy fence may be refused.
        edge!(O27, fence::full());
        // Acquire: pairs with the barrier's read-modify-write (O27).
        if self.barriers.load(edge!(O27, Acquire)) != 0 {
            return;
        }
        let revoked: Vec<_> = self
            .records
            .iter()
            .filter(|node| node.value.own.is_held_since(oldest, node.is_abandoned()))
            .filter(|node| !std::ptr::eq(&raw const node.value.own, &raw const owner.own))
            .filter_map(|node| Some((&node.value.own, node.value.own.backlog.revoke()?)))
            .collect();
        if revoked.is_empty() {
            return;
        }
        // Orders all the revocations before the looks at the owners (O3).
        let heavy = edge!(O3, fence::heavy());
        let mut found = List::default();
        for (own, revoked) in revoked {
            if let Ok(taken) = revoked.try_take(heavy) {
                found.append(&mut self.empty(own, taken));
            }
        }
        self.deposit(owner, found);
    }

    /// Takes everything out of a backlog that has been taken over.
    pub(super) fn empty(&self, own: &Own, mut taken: Taken<'_, Backlog>) -> List {
        let (list, spent) = taken.take_all(self.clock.cookie());
        own.untouch();
        drop(taken);
        drop(spent);
        list
    }

    /// Adds batches to the thread's own backlog, or to another one while that is being taken over. If the domain has
    /// closed meanwhile, nobody would look there any more, so they run now.
    pub(super) fn deposit(&self, owner: Owner<'_>, mut list: List) {
        if list.is_empty() {
            return;
        }
        let now = now();
        if !self.adopt(owner, &mut list, now) {
            while !self.adopt(self.borrow_record().owner(), &mut list, now) {}
        }
        while let Some(mut batch) = list.pop_front() {
            while let Some(thunk) = batch.pop() {
                owner.uncount_retired(thunk.bytes());
                self.run_now(thunk);
            }
        }
    }

    /// Moves the list into a backlog unless the domain has closed; false if the backlog can't be had.
    fn adopt(&self, owner: Owner<'_>, list: &mut List, now: u64) -> bool {
        let Some(mut section) = owner.section() else {
            return false;
        };
        // In the section, as in retire_into_next (O28).
        if !self.is_closed() {
            section.adopt(list);
            owner.own.touch(now);
        }
        true
    }
}
