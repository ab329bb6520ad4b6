//! Finding a slot for the next incarnation.
//!
//! In this order: a dead slot of the thread's own whose grace period has elapsed (its value is dropped first, one per
//! reservation), the thread's clean slots, a magazine from the depot (a ripe one first, then a clean one, "allocate
//! around"), a new page. At `max_objects` all threads' magazines are taken back before the slab says that it is full.
//!
//! Who reserves also drives the grace periods that dead slots wait for; nobody else does, but for barriers. A slab whose
//! threads only drop keeps what is dead until then.

use crate::reclaim::ReadSection;
use crate::sync::Arc;
use crate::thread::{Mark, frame, may_run_foreign};

use super::cache::Cache;
use super::core::Core;
use super::depot::Open;
use super::error::ReserveError;
use super::policy::{Part, Policy};
use super::slot::{Slot, SlotPtr};
use super::state::before_reuse;

/// A slot from a magazine.
enum Found<'a, S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> {
    Clean(SlotPtr<S, V, P, D>),
    /// Still holds its value; the mark lets others wait for its drop.
    Ripe(SlotPtr<S, V, P, D>, Mark<'a>),
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Core<S, V, P, D> {
    /// Takes a slot for the next incarnation; the caller owns it.
    #[inline]
    pub(super) fn reserve(self: &Arc<Self>) -> Result<SlotPtr<S, V, P, D>, ReserveError> {
        let found = self.find_cache().and_then(|cache| self.take_own(cache));
        let slot = match found {
            Some(Found::Clean(slot)) => slot,
            other => self.reserve_slow(other)?,
        };
        // The new owner's own fence: the one at death was another thread's.
        before_reuse();
        Ok(slot)
    }

    /// Takes a slot from the thread's own magazines.
    #[inline]
    fn take_own<'a>(&self, cache: &'a Cache<S, V, P, D>) -> Option<Found<'a, S, V, P, D>> {
        let recycles = P::WAITS && may_run_foreign();
        // SAFETY: the cache is the calling thread's, and no section is open.
        let mut magazines = unsafe { cache.enter() }?;
        if recycles && let Some(slot) = magazines.ripe.slots.pop() {
            return Some(Found::Ripe(slot, cache.running.begin()));
        }
        magazines.pop().map(Found::Clean)
    }

    #[cold]
    fn reserve_slow(
        self: &Arc<Self>,
        found: Option<Found<'_, S, V, P, D>>,
    ) -> Result<SlotPtr<S, V, P, D>, ReserveError> {
        if let Some(slot) = found.and_then(|found| self.ready(found)) {
            return Ok(slot);
        }
        let cache = self.cache();
        // Values that have waited are dropped under a mark, and a mark is a cache's.
        let lacks_mark = P::WAITS && cache.is_none();
        let stand_in = lacks_mark.then(|| self.stand_in()).flatten();
        let cache = cache.or(stand_in.as_deref());
        let slot = self.search(cache)?;
        // SAFETY: this thread owns the slot, which has come the slow way, as all do in a slab with a quarantine.
        unsafe { self.check_poison(slot) };
        Ok(slot)
    }

    /// Looks for a slot everywhere but in the thread's own magazines.
    fn search(
        self: &Arc<Self>,
        cache: Option<&Cache<S, V, P, D>>,
    ) -> Result<SlotPtr<S, V, P, D>, ReserveError> {
        // Who reserves drives the grace periods that its slots wait for: an attempt per magazine, seldom more often than
        // the domain lets through.
        P::advance(&self.inner);
        if self.is_quarantined() {
            self.quarantine_one();
        }
        if let Some(slot) = self.refill(cache, |_| ()) {
            return Ok(slot);
        }
        match self.grow() {
            Err(refused) if refused.is_full() => self.reserve_at_limit(cache),
            other => other,
        }
    }

    /// Makes a slot ready for its next life; `None` if it has had its last.
    fn ready(&self, found: Found<'_, S, V, P, D>) -> Option<SlotPtr<S, V, P, D>> {
        let (slot, mark) = match found {
            Found::Clean(slot) => return Some(slot),
            Found::Ripe(slot, mark) => (slot, mark),
        };
        frame::run(D::id(&self.inner), || {
            // SAFETY: the slot left its magazine with its value, which no reader sees any more.
            unsafe { Self::clean(slot) };
        });
        self.count(self.find_cache(), |c| &c.settled, |c| &c.settled, 1);
        drop(mark);
        // SAFETY: this thread owns the slot.
        if unsafe { Slot::state(slot) }.is_exhausted() {
            // SAFETY: as above, and it is clean.
            unsafe { self.put_aside(slot) };
            return None;
        }
        Some(slot)
    }

    /// Fetches a magazine from the depot, after `gather` did something under its lock.
    pub(super) fn refill(
        &self,
        cache: Option<&Cache<S, V, P, D>>,
        gather: impl FnOnce(&mut Open<'_, S, V, P, D>),
    ) -> Option<SlotPtr<S, V, P, D>> {
        let found = {
            let mut depot = self.depot.lock();
            gather(&mut depot);
            self.take_ripe(cache, &mut depot)
                .or_else(|| self.take_clean(cache, &mut depot))
        };
        found.and_then(|found| self.ready(found))
    }

    /// Moves a ripe magazine to the thread's own, and takes one slot of it.
    fn take_ripe<'a>(
        &self,
        cache: Option<&'a Cache<S, V, P, D>>,
        depot: &mut Open<'_, S, V, P, D>,
    ) -> Option<Found<'a, S, V, P, D>> {
        if !P::WAITS || !may_run_foreign() || self.is_quarantined() {
            return None;
        }
        let cache = cache?;
        // SAFETY: the cache is the calling thread's, and no section is open.
        let mut magazines = unsafe { cache.enter() }?;
        if magazines.ripe.slots.first().is_none() {
            magazines.ripe = depot.take_ripe(&self.inner)?;
        }
        let slot = magazines.ripe.slots.pop()?;
        Some(Found::Ripe(slot, cache.running.begin()))
    }

    /// Moves a clean magazine to the thread's own, and takes one slot of it.
    fn take_clean<'a>(
        &self,
        cache: Option<&'a Cache<S, V, P, D>>,
        depot: &mut Open<'_, S, V, P, D>,
    ) -> Option<Found<'a, S, V, P, D>> {
        let mut chain = depot.take_magazine();
        let slot = chain.pop()?;
        // SAFETY: the cache is the calling thread's, and no section is open.
        let surplus = match cache.and_then(|cache| unsafe { cache.enter() }) {
            Some(mut magazines) => magazines.load(chain),
            None => Some(chain),
        };
        if let Some(surplus) = surplus {
            depot.put(surplus);
        }
        Some(Found::Clean(slot))
    }
}
