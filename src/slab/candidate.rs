//! What a reader has found and not yet counted.
//!
//! # Invariants
//!
//! - I1: a candidate's incarnation was seen alive by an Acquire load inside the guard that it borrows.

use std::fmt;
use std::marker::PhantomData;

use crate::rcu::Global;
use crate::reclaim::{Polled, ReadSection};

use super::handle::Ref;
use super::key::Key;
use super::page::Page;
use super::policy::{AfterGrace, Immediate, Part, Policy};
use super::slot::{Slot, SlotPtr};

/// An incarnation that was seen alive inside this guard.
///
/// Whether it still lives, or is the one that you wanted, is not yet known: check the identity in the stable part,
/// then [`try_get`](Self::try_get) and check again, or do both inside [`read`](Self::read).
///
/// It can't outlive the guard:
///
/// ```compile_fail,E0505
/// use graceperiod::Slab;
/// let slab: Slab<u32, u32> = Slab::new(|_| 0);
/// let value = slab.insert(7);
/// let guard = graceperiod::enter();
/// let found = slab.candidate(&guard, graceperiod::Ref::key(&value));
/// drop(guard);
/// assert!(found.is_some());
/// ```
///
/// while this compiles:
///
/// ```
/// use graceperiod::Slab;
/// let slab: Slab<u32, u32> = Slab::new(|_| 0);
/// let value = slab.insert(7);
/// let guard = graceperiod::enter();
/// let found = slab.candidate(&guard, graceperiod::Ref::key(&value));
/// assert!(found.is_some());
/// drop(guard);
/// ```
pub struct Candidate<
    'g,
    S: Send + Sync + 'static,
    V: Send + Sync + 'static = (),
    P: Policy<D> = Immediate,
    D: ReadSection = Global,
> {
    slot: SlotPtr<S, V, P, D>,
    generation: u64,
    guard: PhantomData<&'g ()>,
}

impl<'g, S: Part, V: Part, P: Policy<D>, D: ReadSection> Candidate<'g, S, V, P, D> {
    /// The slot, which the guard keeps.
    pub(super) fn slot(&self) -> SlotPtr<S, V, P, D> {
        self.slot
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Looks at a slot; `None` unless it is alive.
    ///
    /// # Safety
    ///
    /// 1. The slot was found inside the guard, which is one of the slab's domain, at a place from which it is removed
    ///    before its page may be retired.
    #[inline]
    pub(crate) unsafe fn see(slot: SlotPtr<S, V, P, D>, _: &'g D::Guard<'_>) -> Option<Self> {
        // SAFETY: (1): the guard keeps the page.
        let state = unsafe { Slot::state(slot) }.see();
        state.is_alive().then_some(Self {
            slot,
            generation: state.generation(),
            guard: PhantomData,
        })
    }

    /// As [`see`](Self::see), for one incarnation only.
    ///
    /// # Safety
    ///
    /// 1. As [`see`](Self::see).
    #[inline]
    pub(super) unsafe fn see_as(
        slot: SlotPtr<S, V, P, D>,
        generation: u64,
        guard: &'g D::Guard<'_>,
    ) -> Option<Self> {
        // SAFETY: (1).
        unsafe { Self::see(slot, guard) }.filter(|seen| seen.generation == generation)
    }

    /// Returns the stable part, which may belong to another incarnation by now, or to none.
    #[must_use]
    #[inline]
    pub fn stable(&self) -> &'g S {
        // SAFETY: the guard keeps the page (I1).
        unsafe { Slot::stable(self.slot) }
    }

    /// Returns the key of the incarnation that was seen.
    #[must_use]
    pub fn key(&self) -> Key {
        // SAFETY: the guard keeps the page (I1).
        let index = unsafe { Page::index_of(self.slot) };
        Key::from_raw(index, self.generation).expect("what is alive has a generation")
    }

    /// Takes a counted reference, if this incarnation still lives. A wrong one is never counted.
    #[doc(alias = "refcount_inc_not_zero")]
    #[must_use]
    #[inline]
    pub fn try_get(&self) -> Option<Ref<S, V, P, D>> {
        // SAFETY: the guard keeps the page (I1).
        if unsafe { Slot::state(self.slot) }.try_get(self.generation) {
            // SAFETY: the count was just added.
            Some(unsafe { Ref::from_slot(self.slot) })
        } else {
            None
        }
    }

    /// Reads the stable part without writing anything that threads share; `None` if the incarnation ended meanwhile.
    ///
    /// The closure may see two lives mixed, so it must be total and bounded, and believe nothing before this returns.
    /// What it reads must have been written by the [`Vacant`](super::Vacant)'s owner before publishing, or, later on,
    /// with at least Release. It may panic, allocate and nest.
    #[doc(alias = "rcu-walk")]
    #[inline]
    pub fn read<R>(&self, read: impl FnOnce(&S) -> R) -> Option<R> {
        // SAFETY: the guard keeps the page (I1).
        let state = unsafe { Slot::state(self.slot) };
        let seen = state.see();
        if !seen.is_alive() || seen.generation() != self.generation {
            return None;
        }
        let result = read(self.stable());
        state.still_is(self.generation).then_some(result)
    }
}

impl<'g, S: Part, V: Part, D: Polled> Candidate<'g, S, V, AfterGrace, D> {
    /// Returns the value, which the guard keeps even if the incarnation has ended.
    ///
    /// Only [`AfterGrace`] has it; under [`Immediate`] the value may be gone at any time:
    ///
    /// ```compile_fail,E0599
    /// use graceperiod::{Immediate, Ref, Slab};
    /// let slab: Slab<u32, u32, Immediate> = Slab::new(|_| 0);
    /// let value = slab.insert(7);
    /// let guard = graceperiod::enter();
    /// assert_eq!(*slab.candidate(&guard, Ref::key(&value)).unwrap().value(), 7);
    /// ```
    ///
    /// while this compiles:
    ///
    /// ```
    /// use graceperiod::{AfterGrace, Ref, Slab};
    /// let slab: Slab<u32, u32, AfterGrace> = Slab::new(|_| 0);
    /// let value = slab.insert(7);
    /// let guard = graceperiod::enter();
    /// assert_eq!(*slab.candidate(&guard, Ref::key(&value)).unwrap().value(), 7);
    /// ```
    #[must_use]
    #[inline]
    pub fn value(&self) -> &'g V {
        // SAFETY: seen alive inside the guard (I1), so the value is dropped only after a grace period that waits for
        // this guard.
        unsafe { Slot::value(self.slot) }
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Clone for Candidate<'_, S, V, P, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Copy for Candidate<'_, S, V, P, D> {}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> fmt::Debug for Candidate<'_, S, V, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate")
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}
