//! New pages, and how many slots there may be.
//!
//! # Protocol
//!
//! Capacity is claimed before a page is built and given back if that fails, so there are never more slots than
//! `max_objects` allows. A thread that finds all capacity claimed must not take that for full while another one brings
//! slots: it searches the depot and tries to claim, and believes the result only if nobody was building before, nobody is
//! afterwards, and nobody began in between.
//!
//! # Orderings
//!
//! - O49: the builder's claim (Release) -> whoever finds no capacity left (Acquire): that it has begun. `begun`, counted
//!   after `building` (Release) -> a full thread's load (Acquire): the page's own count in `building`. The fall of `building`
//!   (Release) -> a full thread's load (Acquire): the slots that it brought, or the capacity that it gave back.

use crate::reclaim::ReadSection;
use crate::sync::{Arc, AtomicUsize, Relaxed, edge};
use crate::thread::frame;

use super::budget::Budget;
use super::chain::Chain;
use super::core::Core;
use super::error::ReserveError;
use super::kind::Kind;
use super::page::Page;
use super::policy::{Part, Policy};
use super::slot::SlotPtr;

/// How large a slab is, and how large it may get.
#[derive(Debug)]
pub(super) struct Growth {
    pub(super) max_objects: usize,
    pub(super) budget: Option<Budget>,
    capacity: AtomicUsize,
    pages: AtomicUsize,
    building: AtomicUsize,
    /// Pages that were ever begun.
    begun: AtomicUsize,
}

/// A page being built.
pub(super) struct Building<'a>(&'a Growth);

impl Drop for Building<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in is_building (O49).
        self.0.building.fetch_sub(1, edge!(O49, Release));
    }
}

impl Growth {
    /// `claimed` slots are part of the capacity before their page is built.
    pub(super) fn new(max_objects: usize, budget: Option<Budget>, claimed: usize) -> Self {
        Self {
            max_objects,
            budget,
            capacity: AtomicUsize::new(claimed),
            pages: AtomicUsize::new(0),
            building: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
        }
    }

    /// Slots that are built, or about to be.
    pub(super) fn capacity(&self) -> usize {
        // Relaxed: a figure for people.
        self.capacity.load(Relaxed)
    }

    pub(super) fn pages(&self) -> usize {
        // Relaxed: a figure for people.
        self.pages.load(Relaxed)
    }

    /// The number of pages begun so far, if none of them is still being built.
    pub(super) fn quiet(&self) -> Option<usize> {
        // Acquire: pairs with the Release in begin (O49): the next load sees those that are counted here.
        let begun = self.begun.load(edge!(O49, Acquire));
        // Acquire: pairs with the Release in Building::drop (O49).
        (self.building.load(edge!(O49, Acquire)) == 0).then_some(begun)
    }

    /// Sets the counts to what is there, in the child of a fork: whoever else was building isn't.
    pub(super) fn recount(&self, pages: usize, slots: usize) {
        // Relaxed, three times: there is one thread.
        self.pages.store(pages, Relaxed);
        self.capacity.store(slots, Relaxed);
        self.building.store(0, Relaxed);
    }

    pub(super) fn begin(&self) -> Building<'_> {
        // Relaxed: the next addition publishes it.
        self.building.fetch_add(1, Relaxed);
        // Release: pairs with the Acquire in quiet (O49).
        self.begun.fetch_add(1, edge!(O49, Release));
        Building(self)
    }

    /// Whether all capacity is claimed.
    pub(super) fn is_full(&self) -> bool {
        // Acquire: pairs with the Release of claims (O49): who finds no capacity sees that somebody has begun.
        self.capacity.load(edge!(O49, Acquire)) >= self.max_objects
    }

    /// Claims capacity for at most `wanted` slots; 0 if there is none left.
    pub(super) fn claim(&self, wanted: usize) -> usize {
        // Relaxed, here and on failure: who finds no capacity here has begun a page himself, so he doesn't take the slab for
        // quiet, and looks again.
        let mut now = self.capacity.load(Relaxed);
        loop {
            let granted = wanted.min(self.max_objects.saturating_sub(now));
            if granted == 0 {
                return 0;
            }
            // Release: pairs with the Acquire in is_full (O49). Relaxed on failure: as above.
            match self.capacity.compare_exchange_weak(
                now,
                now + granted,
                edge!(O49, Release),
                Relaxed,
            ) {
                Ok(_) => return granted,
                Err(changed) => now = changed,
            }
        }
    }

    pub(super) fn give_back(&self, slots: usize) {
        // Relaxed: as a read-modify-write it passes on what claims released (O49).
        self.capacity.fetch_sub(slots, Relaxed);
    }

    /// Whether the budget has no room for a page.
    fn is_over_budget(&self, bytes: usize) -> bool {
        let budget = self.budget.as_ref();
        budget.is_some_and(|budget| budget.is_used_up(bytes))
    }

    /// Pays the budget for a page with at most `wanted` slots, whose capacity is claimed; returns how many it may have.
    pub(super) fn pay(&self, wanted: usize, bytes: usize) -> usize {
        let Some(budget) = &self.budget else {
            return wanted;
        };
        budget.claim(wanted, bytes)
    }

    /// Takes back what was paid for a page.
    pub(super) fn refund(&self, slots: usize, bytes: usize) {
        if let Some(budget) = &self.budget {
            budget.give_back(slots, bytes);
        }
    }

    /// Counts a page that has left.
    pub(super) fn page_left(&self, slots: usize) {
        self.give_back(slots);
        // Relaxed: a figure for people.
        self.pages.fetch_sub(1, Relaxed);
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Core<S, V, P, D> {
    /// Builds a page; returns one of its slots and adds the others to the free ones.
    pub(super) fn grow(self: &Arc<Self>) -> Result<SlotPtr<S, V, P, D>, ReserveError> {
        self.refuse_inside_constructor();
        // What the constructor drops may reserve, too: not before this page is there.
        frame::shelter(|| self.claim_and_build())
    }

    fn claim_and_build(self: &Arc<Self>) -> Result<SlotPtr<S, V, P, D>, ReserveError> {
        let full = ReserveError::Full {
            max_objects: self.growth.max_objects,
        };
        let bytes = Page::<S, V, P, D>::BYTES;
        // Before it counts as building, or those that fail would keep each other hoping.
        if self.growth.is_full() {
            return Err(full);
        }
        if self.growth.is_over_budget(bytes) {
            return Err(ReserveError::OverBudget);
        }
        let building = self.growth.begin();
        let wanted = self.growth.claim(Page::<S, V, P, D>::SLOTS);
        if wanted == 0 {
            return Err(full);
        }
        let slots = self.growth.pay(wanted, bytes);
        self.growth.give_back(wanted - slots);
        if slots == 0 {
            return Err(ReserveError::OverBudget);
        }
        let built = self.build_page(slots);
        if built.is_err() {
            self.growth.give_back(slots);
            self.growth.refund(slots, bytes);
        }
        drop(building);
        built
    }

    fn build_page(self: &Arc<Self>, slots: usize) -> Result<SlotPtr<S, V, P, D>, ReserveError> {
        let (number, generation) =
            self.directory
                .take_number()
                .map_err(|_| ReserveError::OutOfMemory {
                    bytes: Page::<S, V, P, D>::BYTES,
                })?;
        let mut chain = match self.add_page(number, slots, generation, Kind::Plain) {
            Ok(chain) => chain,
            Err(error) => {
                self.directory.put_number(number, Some(generation));
                return Err(error);
            }
        };
        let first = chain.pop().expect("at least one slot was claimed");
        if let Err(chain) = self.depot.give_new(chain) {
            // A slab that closes has no user handle to reserve through; a table may still hold its core.
            Self::bring_home(chain);
        }
        Ok(first)
    }

    pub(super) fn refuse_inside_constructor(&self) {
        assert!(
            !frame::is_open_for(self.id),
            "graceperiod: the constructor of slab `{}` reserves from the slab that it builds for; \
             link slots after they are published instead",
            self.name,
        );
    }

    /// Builds a page, lets it be found and returns its slots; the caller has claimed the capacity.
    pub(super) fn add_page(
        self: &Arc<Self>,
        number: usize,
        slots: usize,
        generation: u64,
        kind: Kind,
    ) -> Result<Chain<S, V, P, D>, ReserveError> {
        let page = Page::build(self, number, slots, generation, kind)?;
        let mut chain = Chain::EMPTY;
        for slot in (0..slots).rev() {
            // SAFETY: the page was just built, and can't leave before its slots are given away.
            if let Some(slot) = unsafe { Page::built_slot(page, slot) } {
                // SAFETY: nobody else has the page's slots yet, and they are clean.
                unsafe { self.poison(slot) };
                // SAFETY: as above.
                unsafe { chain.push(slot) };
            }
        }
        self.directory.publish(number, page);
        // Relaxed: a figure for people.
        self.growth.pages.fetch_add(1, Relaxed);
        Ok(chain)
    }
}
