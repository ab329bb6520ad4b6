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
use crate::tuning::MAGAZINE;

use super::chain::{Chain, List, Stack};
use super::policy::{Part, Policy};
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
    /// Dead magazines with a cookie.
    dead: Arrivals<S, V, P, D>,
    stores: Mutex<Stores<S, V, P, D>>,
}

#[derive(Debug)]
struct Stores<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> {
    clean: List<S, V, P, D>,
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
    pub(super) fn new() -> Self {
        Self {
            clean: Stack::new(),
            exhausted: Stack::new(),
            dead: Arrivals::new(),
            stores: Mutex::new(Stores {
                clean: List::EMPTY,
                waiting: Queue::EMPTY,
                closed: false,
            }),
        }
    }

    /// Adds clean slots; hands them back if the slab has closed.
    pub(super) fn give(&self, chain: Chain<S, V, P, D>) -> Result<(), Chain<S, V, P, D>> {
        self.clean.push(chain)
    }

    /// Puts exhausted slots aside for good; hands them back if the slab has closed.
    pub(super) fn park(&self, chain: Chain<S, V, P, D>) -> Result<(), Chain<S, V, P, D>> {
        self.exhausted.push(chain)
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
        let chain = self.stores.clean.cut(MAGAZINE);
        if !chain.is_empty() {
            return chain;
        }
        self.stores.clean = self.depot.clean.take();
        self.stores.clean.cut(MAGAZINE)
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

    /// Takes all clean slots.
    pub(super) fn take_clean(&mut self) -> [List<S, V, P, D>; 2] {
        [self.stores.clean.take_all(), self.depot.clean.take()]
    }

    /// Takes all exhausted slots.
    pub(super) fn take_exhausted(&mut self) -> List<S, V, P, D> {
        self.depot.exhausted.take()
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
    pub(super) fn close(&mut self) -> [List<S, V, P, D>; 3] {
        self.stores.closed = true;
        let stores = &mut *self.stores;
        stores.waiting.receive_last(&self.depot.dead);
        [
            stores.clean.take_all(),
            self.depot.clean.close(),
            self.depot.exhausted.close(),
        ]
    }

    /// Takes every dead magazine, whether its grace period has elapsed or not.
    pub(super) fn take_waiting(&mut self) -> Queue<S, V, P, D> {
        self.receive();
        std::mem::replace(&mut self.stores.waiting, Queue::EMPTY)
    }

    fn receive(&mut self) {
        self.stores.waiting.receive(&self.depot.dead);
    }
}
