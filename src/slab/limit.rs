//! Reserving where no slot is at hand and none may be built.

use crate::reclaim::ReadSection;
use crate::sync::{Arc, now};
use crate::thread::{Node, Snooze, may_run_foreign};
use crate::tuning::{FULL_PATIENCE_NANOS, GRACE_PATIENCE_NANOS};

use super::budget::Member;
use super::cache::Cache;
use super::core::Core;
use super::error::ReserveError;
use super::page::Page;
use super::policy::{Part, Policy};
use super::slot::SlotPtr;

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Core<S, V, P, D> {
    /// Takes all threads' magazines back until there is a slot, or there can't be one.
    pub(super) fn reserve_at_limit(
        self: &Arc<Self>,
        cache: Option<&Cache<S, V, P, D>>,
    ) -> Result<SlotPtr<S, V, P, D>, ReserveError> {
        let begun = now();
        let mut snooze = Snooze::new();
        let mut asked = false;
        loop {
            let quiet = self.growth.quiet();
            if self.is_quarantined() {
                self.quarantine_one();
            }
            let (mut waiting, mut in_hand) = (false, false);
            let found = self.refill(cache, |depot| {
                let _ = self.take_over_all(depot);
                depot.end_a_quarantine();
                waiting = depot.is_waiting();
                // What isn't in the depot by now is under a mark, or was given back before the mark ended.
                in_hand = self.caches.iter().any(|node| node.value.running.is_busy());
            });
            if let Some(slot) = found {
                return Ok(slot);
            }
            let refused = match self.grow() {
                Err(refused) if refused.is_full() => refused,
                other => return other,
            };
            if matches!(refused, ReserveError::OverBudget) && !asked && may_run_foreign() {
                asked = true;
                if self.ask_others() {
                    continue;
                }
            }
            let is_quiet = quiet.is_some() && quiet == self.growth.quiet();
            let waited = now().saturating_sub(begun);
            let others_build = !is_quiet && waited < FULL_PATIENCE_NANOS;
            let others_die = waiting && may_run_foreign() && self.may_push_grace(waited);
            // Not where the others' destructors may be waiting for this very thread.
            let may_wait = may_run_foreign() && !P::is_inside(&self.inner);
            let others_drop = in_hand && may_wait && waited < FULL_PATIENCE_NANOS;
            if !others_build && !others_die && !others_drop {
                return Err(if waiting {
                    Self::blame(refused, cache)
                } else {
                    refused
                });
            }
            snooze.wait();
        }
    }

    /// What to say while dead slots wait: without a cache, which there was no memory for, they can't be recycled.
    #[cold]
    fn blame(refused: ReserveError, cache: Option<&Cache<S, V, P, D>>) -> ReserveError {
        match cache {
            Some(_) => refused,
            None => ReserveError::OutOfMemory {
                bytes: size_of::<Node<Cache<S, V, P, D>>>(),
            },
        }
    }

    /// Makes an attempt at a grace period, if that isn't in vain and hasn't taken too long already.
    pub(super) fn may_push_grace(&self, waited: u64) -> bool {
        let may = P::WAITS && waited < GRACE_PATIENCE_NANOS && !P::is_inside(&self.inner);
        if may {
            P::advance(&self.inner);
        }
        may
    }

    /// Has the other slabs of the budget give up pages that hold nothing; whether any did.
    #[cold]
    fn ask_others(&self) -> bool {
        let budget = self.growth.budget.as_ref();
        budget.is_some_and(|budget| budget.ask_others(self.id))
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Member for Core<S, V, P, D> {
    fn id(&self) -> u64 {
        self.id
    }

    fn give_way(&self) -> usize {
        let in_use = self.live().saturating_add(self.waiting_objects());
        // Only a guess, which spares the others' magazines; and pages that wait mustn't pile up behind a stalled reader.
        if self.growth.capacity() as u64 <= in_use || !D::has_room(&self.inner) {
            return 0;
        }
        self.retire_leaving()
    }

    unsafe fn has(&self) -> (usize, usize) {
        // SAFETY: the caller's promise is passed on.
        let (pages, slots) = unsafe { self.count_pages() };
        (slots, pages * Page::<S, V, P, D>::BYTES)
    }
}
