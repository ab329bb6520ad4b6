//! What all threads of a slab share: free slots that are in no thread's magazines, and dead ones that wait.
//!
//! # Protocol
//!
//! Adding is lock-free and never waits: clean chains, exhausted slots and dead magazines go onto stacks of their own.
//! Taking out happens under one lock, which also orders take-overs: whoever takes over other threads' magazines holds it,
//! and whoever carries slots from here to its own magazines holds it until they are there. So a holder of the lock sees
//! every slot that isn't in use.
//!
//! The lock comes before any [`Biased`](crate::fence::Biased) section and never inside one; no foreign code runs under
//! it.
//!
//! # Invariants
//!
//! - I1: once closed, the stacks hand back what is pushed, and nothing is left in here but dead magazines that wait.

use crate::reclaim::ReadSection;
use crate::sync::{Mutex, MutexGuard};
use crate::tuning::{MAGAZINE, QUARANTINE};

use super::chain::{Chain, List, Stack};
use super::debug::Debug;
use super::policy::{Part, Policy};
use super::slot::SlotPtr;
use super::waiting::{Arrivals, Dead, Queue};

/// The shared part of the free lists.
#[derive(Debug)]
pub(super) struct Depot<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    /// Clean slots that somebody gave up.
    clean: Stack<S, V, P, D>,
    /// Slots that have had their last generation.
    exhausted: Stack<S, V, P, D>,
    /// Slots with reserved ids.
    reserved: Stack<S, V, P, D>,
    /// Dead magazines with a cookie.
    dead: Arrivals<S, V, P, D>,
    debug: Option<Debug>,
    stores: Mutex<Stores<S, V, P, D>>,
}

#[derive(Debug)]
struct Stores<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> {
    clean: List<S, V, P, D>,
    /// Clean slots that are kept back, oldest first; none unless the slab has a quarantine.
    quarantine: Chain<S, V, P, D>,
    waiting: Queue<S, V, P, D>,
    closed: bool,
}

/// The depot with its lock.
#[derive(Debug)]
pub(super) struct Open<
    'a,
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    depot: &'a Depot<S, V, P, D>,
    stores: MutexGuard<'a, Stores<S, V, P, D>>,
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Depot<S, V, P, D> {
    pub(super) fn new(debug: Option<Debug>) -> Self {
        Self {
            clean: Stack::new(),
            exhausted: Stack::new(),
            reserved: Stack::new(),
            dead: Arrivals::new(),
            debug,
            stores: Mutex::new(Stores {
                clean: List::EMPTY,
                quarantine: Chain::EMPTY,
                waiting: Queue::EMPTY,
                closed: false,
            }),
        }
    }

    /// Adds clean slots; hands them back if the slab has closed.
    pub(super) fn give(&self, chain: Chain<S, V, P, D>) -> Result<(), Chain<S, V, P, D>> {
        self.clean.push(chain)
    }

    /// Adds slots of a new page, which need no quarantine; hands them back if the slab has closed.
    pub(super) fn give_new(&self, chain: Chain<S, V, P, D>) -> Result<(), Chain<S, V, P, D>> {
        if self.debug != Some(Debug::Quarantine) {
            return self.give(chain);
        }
        let mut open = self.lock();
        if open.is_closed() {
            return Err(chain);
        }
        open.put(chain);
        Ok(())
    }

    /// Puts exhausted slots aside for good; hands them back if the slab has closed.
    pub(super) fn park(&self, chain: Chain<S, V, P, D>) -> Result<(), Chain<S, V, P, D>> {
        self.exhausted.push(chain)
    }

    /// Adds slots with reserved ids; hands them back if the slab has closed.
    pub(super) fn set_aside(&self, chain: Chain<S, V, P, D>) -> Result<(), Chain<S, V, P, D>> {
        self.reserved.push(chain)
    }

    /// Adds dead slots; hands them back if the slab has closed.
    pub(super) fn bury(&self, dead: Dead<S, V, P, D>) -> Result<(), Dead<S, V, P, D>> {
        self.dead.push(dead)
    }

    pub(super) fn lock(&self) -> Open<'_, S, V, P, D> {
        Open {
            depot: self,
            stores: self.stores.lock(),
        }
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Open<'_, S, V, P, D> {
    pub(super) fn is_closed(&self) -> bool {
        self.stores.closed
    }

    /// Whether any dead magazine waits.
    pub(super) fn is_waiting(&mut self) -> bool {
        self.receive();
        !self.stores.waiting.is_empty()
    }

    /// Takes about a magazine of clean slots.
    pub(super) fn take_magazine(&mut self) -> Chain<S, V, P, D> {
        match self.depot.debug {
            None => {}
            Some(Debug::RecycleAtOnce) => return self.take_newest(),
            Some(Debug::Quarantine) => return self.take_released(),
        }
        let chain = self.stores.clean.cut(MAGAZINE);
        if !chain.is_empty() {
            return chain;
        }
        self.stores.clean = self.depot.clean.take();
        self.stores.clean.cut(MAGAZINE)
    }

    /// Takes the slot that was freed last.
    fn take_newest(&mut self) -> Chain<S, V, P, D> {
        // The stack has the newest first, and all of it is newer than what is stored.
        let freed = self.depot.clean.take().cut(usize::MAX);
        self.stores.clean.put(freed);
        self.stores.clean.cut(1)
    }

    /// Takes a new slot, or one that was in quarantine for long enough.
    fn take_released(&mut self) -> Chain<S, V, P, D> {
        self.receive_freed();
        if self.stores.quarantine.len() > QUARANTINE {
            self.end_a_quarantine();
        }
        self.stores.clean.cut(1)
    }

    /// Lets the oldest slot in quarantine be used unless there are others. Nothing without a quarantine.
    pub(super) fn end_a_quarantine(&mut self) {
        self.receive_freed();
        if self.stores.clean.first().is_none()
            && let Some(oldest) = self.stores.quarantine.pop()
        {
            let mut one = Chain::EMPTY;
            // SAFETY: the quarantine owned the slot.
            unsafe { one.push(oldest) };
            self.put(one);
        }
    }

    /// Takes freed slots into quarantine, if there is one.
    fn receive_freed(&mut self) {
        if self.depot.debug == Some(Debug::Quarantine) {
            let mut oldest_first = Chain::EMPTY;
            for slot in self.depot.clean.take() {
                // SAFETY: the list owned the slot.
                unsafe { oldest_first.push(slot) };
            }
            self.stores.quarantine.append(oldest_first);
        }
    }

    /// Puts slots into quarantine whose turn comes last.
    pub(super) fn put_in_quarantine(&mut self, chain: Chain<S, V, P, D>) {
        self.stores.quarantine.append(chain);
    }

    /// Takes a dead magazine whose grace period has elapsed.
    pub(super) fn take_ripe(&mut self, inner: &D::Inner) -> Option<Dead<S, V, P, D>> {
        self.receive();
        self.stores.waiting.pop_elapsed(inner)
    }

    /// Takes every dead magazine whose grace period has elapsed.
    pub(super) fn take_all_ripe(&mut self, inner: &D::Inner) -> Queue<S, V, P, D> {
        self.receive();
        self.stores.waiting.take_elapsed(inner)
    }

    /// Takes all clean slots; the last of these lists are those in quarantine.
    pub(super) fn take_clean(&mut self) -> [List<S, V, P, D>; 3] {
        self.receive_freed();
        [
            self.stores.clean.take_all(),
            self.depot.clean.take(),
            self.stores.quarantine.take_all().into_list(),
        ]
    }

    /// Takes all exhausted slots.
    pub(super) fn take_exhausted(&mut self) -> List<S, V, P, D> {
        self.depot.exhausted.take()
    }

    /// Takes a slot with a reserved id, if it is free.
    pub(super) fn take_reserved(&mut self, wanted: SlotPtr<S, V, P, D>) -> bool {
        let mut others = Chain::EMPTY;
        let mut found = false;
        for slot in self.depot.reserved.take() {
            if slot == wanted {
                found = true;
            } else {
                // SAFETY: the list owned the slot.
                unsafe { others.push(slot) };
            }
        }
        // Closing takes the lock that is held here.
        let refused = !others.is_empty() && self.depot.reserved.push(others).is_err();
        debug_assert!(!refused, "the slab closed under the lock");
        found
    }

    /// Adds clean slots.
    pub(super) fn put(&mut self, chain: Chain<S, V, P, D>) {
        self.stores.clean.put(chain);
    }

    /// Adds a dead magazine at the end.
    pub(super) fn wait(&mut self, dead: Dead<S, V, P, D>) {
        self.receive();
        self.stores.waiting.push(dead);
    }

    /// Puts a dead magazine that has waited long enough to the front.
    pub(super) fn put_ripe(&mut self, dead: Dead<S, V, P, D>) {
        self.stores.waiting.push_front(dead);
    }

    /// Lets nothing in any more, and takes all free slots. What waits stays, for [`take_waiting`](Self::take_waiting).
    pub(super) fn close(&mut self) -> [List<S, V, P, D>; 5] {
        self.stores.closed = true;
        let stores = &mut *self.stores;
        stores.waiting.receive_last(&self.depot.dead);
        [
            stores.clean.take_all(),
            stores.quarantine.take_all().into_list(),
            self.depot.clean.close(),
            self.depot.exhausted.close(),
            self.depot.reserved.close(),
        ]
    }

    /// Takes every dead magazine, whether its grace period has elapsed or not.
    pub(super) fn take_waiting(&mut self) -> Queue<S, V, P, D> {
        self.receive();
        std::mem::replace(&mut self.stores.waiting, Queue::EMPTY)
    }

    /// Number of dead slots that wait. Walks over all of them.
    pub(super) fn count_waiting(&mut self) -> usize {
        let mut waiting = self.take_waiting();
        let mut count = 0;
        while let Some(dead) = waiting.pop() {
            count += dead.slots.length();
            self.stores.waiting.push(dead);
        }
        count
    }

    fn receive(&mut self) {
        self.stores.waiting.receive(&self.depot.dead);
    }
}
