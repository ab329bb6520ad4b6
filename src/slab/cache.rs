//! A thread's own slots: two magazines of free ones, one of dead ones, and its counters.
//!
//! # Protocol
//!
//! The owner works on its magazines inside a [`Biased`] section, without a read-modify-write; whoever takes them over
//! holds the depot's lock. Inside a section nothing waits, allocates or runs foreign code; pushing to the depot's stacks
//! is lock-free and allowed.
//!
//! Two magazines, not one, so that a thread that frees and reserves around a boundary doesn't go to the depot each time.
//!
//! Source: Bonwick and Adams, "Magazines and Vmem" (USENIX 2001, section 3.1). Their magazines are arrays; these are
//! linked through the free slots, so that freeing needs no memory.

use crate::counter::Local;
use crate::fence::{Biased, Kept, Revoked, Section};
use crate::reclaim::ReadSection;
use crate::sync::thread;
use crate::thread::Running;
use crate::tuning::{MAGAZINE, MAGAZINE_CLOCK_EVERY};

use super::chain::Chain;
use super::policy::{Part, Policy};
use super::slot::SlotPtr;
use super::waiting::Dead;

/// A thread's part of a slab, on cache lines of its own.
#[repr(align(128))]
#[derive(Debug)]
pub(super) struct Cache<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    magazines: Biased<Magazines<S, V, P, D>>,
    pub(super) counts: Counts<Local>,
    /// Held while the owner drops a value that waited for a grace period.
    pub(super) running: Running,
}

/// What happened to slots.
#[derive(Debug, Default)]
pub(super) struct Counts<C> {
    /// Incarnations that were published.
    pub(super) published: C,
    /// Incarnations whose last reference has gone.
    pub(super) died: C,
    /// Dead ones that wait in this slab no longer.
    pub(super) settled: C,
}

/// The magazines themselves.
#[derive(Debug)]
pub(super) struct Magazines<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    /// Clean slots, taken from and added to first.
    loaded: Chain<S, V, P, D>,
    /// Clean slots that `loaded` changes places with.
    previous: Chain<S, V, P, D>,
    /// Dead slots that have no cookie yet.
    open: Chain<S, V, P, D>,
    /// When the first of `open` died.
    open_since: u64,
    /// Dead slots whose grace period has elapsed.
    pub(super) ripe: Dead<S, V, P, D>,
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Cache<S, V, P, D> {
    pub(super) fn new() -> Self {
        Self {
            magazines: Biased::new(Magazines::EMPTY),
            counts: Counts::default(),
            running: Running::new(),
        }
    }

    /// Opens the owner's section; `None` while somebody takes over.
    ///
    /// # Safety
    ///
    /// 1. The cache is the calling thread's own, and no section of it is open.
    #[inline]
    pub(super) unsafe fn enter(&self) -> Option<Section<'_, Magazines<S, V, P, D>>> {
        // SAFETY: (1).
        unsafe { self.magazines.try_enter() }
    }

    /// Waits until nobody takes the magazines over: for a moment.
    pub(super) fn wait_for_taker(&self) {
        // Without trying to enter, which the taker would have to wait for in turn.
        while self.magazines.is_revoked() {
            thread::yield_now();
        }
    }

    /// Keeps the owner out from the next heavy fence on. Only who holds the depot's lock may call it.
    pub(super) fn revoke(&self) -> Revoked<'_, Magazines<S, V, P, D>> {
        self.magazines.revoke_waiting()
    }

    /// Keeps the owner out for a fork. Only who holds the depot's lock may call it.
    pub(super) fn keep(&self) -> Kept<'_, Magazines<S, V, P, D>> {
        Kept::new(&self.magazines)
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Magazines<S, V, P, D> {
    pub(super) const EMPTY: Self = Self {
        loaded: Chain::EMPTY,
        previous: Chain::EMPTY,
        open: Chain::EMPTY,
        open_since: 0,
        ripe: Dead::NONE,
    };

    /// Takes a clean slot, the one freed last.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<SlotPtr<S, V, P, D>> {
        if let Some(slot) = self.loaded.pop() {
            return Some(slot);
        }
        std::mem::swap(&mut self.loaded, &mut self.previous);
        self.loaded.pop()
    }

    /// Adds a clean slot; returns a full magazine if there are too many.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot, and gives it away.
    #[inline]
    pub(super) unsafe fn push(&mut self, slot: SlotPtr<S, V, P, D>) -> Option<Chain<S, V, P, D>> {
        let full = if self.loaded.len() < MAGAZINE {
            None
        } else {
            std::mem::swap(&mut self.loaded, &mut self.previous);
            (self.loaded.len() >= MAGAZINE).then(|| self.loaded.take_all())
        };
        // SAFETY: (1).
        unsafe { self.loaded.push(slot) };
        full
    }

    /// Adds a magazine that came from the depot; the owner has run out.
    pub(super) fn load(&mut self, chain: Chain<S, V, P, D>) -> Option<Chain<S, V, P, D>> {
        if self.loaded.is_empty() {
            self.loaded = chain;
            None
        } else if self.previous.is_empty() {
            self.previous = chain;
            None
        } else {
            Some(chain)
        }
    }

    /// Takes all clean slots out.
    pub(super) fn take_clean(&mut self) -> [Chain<S, V, P, D>; 2] {
        [self.loaded.take_all(), self.previous.take_all()]
    }

    /// Adds a dead slot; true if the magazine of dead slots should be closed now.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot, and gives it away.
    #[inline]
    pub(super) unsafe fn bury(&mut self, slot: SlotPtr<S, V, P, D>) -> bool {
        // SAFETY: (1).
        unsafe { self.open.push(slot) };
        self.open.len() >= MAGAZINE
    }

    /// Whether it is time to look at the clock for the magazine of dead slots.
    #[inline]
    pub(super) fn wants_clock(&self) -> bool {
        self.open.len() % MAGAZINE_CLOCK_EVERY == 1
    }

    /// Notes the time; true if the first dead slot died longer than `delay` ago.
    pub(super) fn note_time(&mut self, now: u64, delay: u64) -> bool {
        if self.open.len() <= 1 {
            self.open_since = now;
        }
        now.saturating_sub(self.open_since) > delay
    }

    /// Number of dead slots. Walks over some of them.
    pub(super) fn dead(&self) -> usize {
        self.open.len() + self.ripe.slots.length()
    }

    /// Takes the dead slots that have no cookie yet.
    pub(super) fn take_open(&mut self) -> Chain<S, V, P, D> {
        self.open.take_all()
    }
}
