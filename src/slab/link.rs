//! An atomic pointer that owns one count.
//!
//! # Orderings
//!
//! - O50: [`Link::swap`] and [`Link::compare_exchange`] (Release) -> [`Link::load`]'s protected load (Acquire): the
//!   incarnation that the link owns now is alive to whoever finds it there.
//! - O51: publish of the slot's next incarnation (Release) -> the state's load in [`Link::load`] (Acquire): if the state
//!   is of a later incarnation, the second load of the pointer sees that the link has let go of the earlier one.

use std::fmt;
use std::ptr::{self, NonNull};

use crate::rcu::Global;
use crate::reclaim::ReadSection;
use crate::sync::{AtomicPtr, Relaxed, edge};

use super::candidate::Candidate;
use super::handle::Ref;
use super::page::Page;
use super::policy::{Immediate, Part, Policy};
use super::slot::{Slot, SlotPtr};

/// A place for one reference that readers may look at: an edge of a graph of slots.
///
/// It sits in a value, in a stable part (built by [`Blank::link`](super::Blank::link)) or anywhere else. In a stable part
/// it outlives its incarnation: take it in `on_free`, or it keeps its target. Cycles leak, like those of `Rc`; so does a
/// closed slab's page whose own stable parts hold slots of it.
pub struct Link<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static = (),
    P: Policy<D> = Immediate,
    D: ReadSection = Global,
> {
    /// Null, or a slot with a count that is this link's.
    slot: AtomicPtr<Slot<S, V, P, D>>,
    inner: D::Inner,
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Link<S, V, P, D> {
    /// An empty link for slots whose readers enter the domain of `inner`.
    pub(super) fn new(inner: D::Inner) -> Self {
        Self {
            slot: AtomicPtr::new(ptr::null_mut()),
            inner,
        }
    }

    /// Looks at what the link owns. Never waits, and writes nothing.
    ///
    /// # Panics
    ///
    /// If the guard belongs to another domain.
    #[must_use]
    #[inline]
    pub fn load<'g>(&self, guard: &'g D::Guard<'_>) -> Option<Candidate<'g, S, V, P, D>> {
        assert!(D::admits(&self.inner, guard), "{}", super::OTHER_GUARD);
        loop {
            // At least Acquire: pairs with the Release half in swap and compare_exchange (O50).
            let seen = D::protect_load(guard, &self.slot);
            let slot = NonNull::new(seen)?;
            // SAFETY: found inside the guard; a link lets go of a slot before its count does.
            if let Some(candidate) = unsafe { Candidate::see(slot, guard) }
                // Relaxed: the state's Acquire load comes before it (O51).
                && self.slot.load(Relaxed) == seen
            {
                return Some(candidate);
            }
        }
    }

    /// Takes a counted reference to what the link owns.
    ///
    /// # Panics
    ///
    /// If the guard belongs to another domain.
    #[must_use]
    pub fn get(&self, guard: &D::Guard<'_>) -> Option<Ref<S, V, P, D>> {
        loop {
            // What died in between has been replaced.
            if let Some(found) = self.load(guard)?.try_get() {
                return Some(found);
            }
        }
    }

    /// Puts a reference in, or nothing; returns what was there.
    ///
    /// # Panics
    ///
    /// If the reference is to a slot of another domain.
    pub fn swap(&self, new: Option<Ref<S, V, P, D>>) -> Option<Ref<S, V, P, D>> {
        let new = self.admit(new);
        // AcqRel: Release pairs with the load in load (O50); Acquire with the Release half of the one that put the old
        // one in, so that its incarnation is known to this thread.
        let old = self.slot.swap(into_raw(new), edge!(O50, AcqRel));
        // SAFETY: the link's count of the old one is the caller's now.
        unsafe { from_raw(old) }
    }

    /// Puts a reference in, or nothing, and drops what was there.
    ///
    /// # Panics
    ///
    /// As [`swap`](Self::swap).
    pub fn set(&self, new: Option<Ref<S, V, P, D>>) {
        drop(self.swap(new));
    }

    /// Takes out what is there.
    pub fn take(&self) -> Option<Ref<S, V, P, D>> {
        self.swap(None)
    }

    /// Puts `new` in if the link owns `current`, or nothing if that is `None`; returns what was there, else `new`.
    ///
    /// # Panics
    ///
    /// As [`swap`](Self::swap).
    #[expect(clippy::type_complexity, reason = "both sides hand a reference back")]
    pub fn compare_exchange(
        &self,
        current: Option<&Ref<S, V, P, D>>,
        new: Option<Ref<S, V, P, D>>,
    ) -> Result<Option<Ref<S, V, P, D>>, Option<Ref<S, V, P, D>>> {
        let new = into_raw(self.admit(new));
        // A reference pins its incarnation, so the same address is the same incarnation.
        // Release: as in swap (O50). What is taken out, `current` has shown to this thread.
        // Relaxed on failure: the value isn't used.
        match self
            .slot
            .compare_exchange(raw_of(current), new, edge!(O50, Release), Relaxed)
        {
            // SAFETY: the link's count of the old one is the caller's now.
            Ok(old) => Ok(unsafe { from_raw(old) }),
            // SAFETY: the count that `into_raw` gave away wasn't taken.
            Err(_) => Err(unsafe { from_raw(new) }),
        }
    }

    /// Whether the link owns this incarnation now.
    #[must_use]
    pub fn holds(&self, reference: &Ref<S, V, P, D>) -> bool {
        // Relaxed: only the address counts, and the caller's reference pins its incarnation.
        self.slot.load(Relaxed) == raw_of(Some(reference))
    }

    /// Whether the link owns nothing now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Relaxed: null says nothing about anything else.
        self.slot.load(Relaxed).is_null()
    }

    /// Refuses slots whose pages a guard of this link's domain doesn't keep.
    fn admit(&self, new: Option<Ref<S, V, P, D>>) -> Option<Ref<S, V, P, D>> {
        if let Some(new) = &new {
            // SAFETY: a counted slot keeps its page and the core.
            let core = unsafe { Page::borrow_core(new.slot()) };
            assert!(
                D::id(&core.inner) == D::id(&self.inner),
                "graceperiod: this reference is to a slot of another domain than the link's; \
                 make the link with the slab that the slot belongs to",
            );
        }
        new
    }
}

fn raw_of<S: Part, V: Part, P: Policy<D>, D: ReadSection>(
    reference: Option<&Ref<S, V, P, D>>,
) -> *mut Slot<S, V, P, D> {
    reference.map_or(ptr::null_mut(), |reference| reference.slot().as_ptr())
}

fn into_raw<S: Part, V: Part, P: Policy<D>, D: ReadSection>(
    reference: Option<Ref<S, V, P, D>>,
) -> *mut Slot<S, V, P, D> {
    reference.map_or(ptr::null_mut(), |reference| reference.into_slot().as_ptr())
}

/// # Safety
///
/// 1. The caller has a count of the slot, if it isn't null, and gives it away.
unsafe fn from_raw<S: Part, V: Part, P: Policy<D>, D: ReadSection>(
    slot: *mut Slot<S, V, P, D>,
) -> Option<Ref<S, V, P, D>> {
    // SAFETY: (1).
    NonNull::new(slot).map(|slot: SlotPtr<S, V, P, D>| unsafe { Ref::from_slot(slot) })
}

impl<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> Drop
    for Link<S, V, P, D>
{
    fn drop(&mut self) {
        // Relaxed: `&mut self` comes after every store.
        let slot = self.slot.load(Relaxed);
        // SAFETY: the link's count, which nobody else can take any more.
        drop(unsafe { from_raw(slot) });
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> fmt::Debug for Link<S, V, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("is_empty", &self.is_empty())
            .finish_non_exhaustive()
    }
}
