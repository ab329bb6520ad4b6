//! Values on their way in and out: built in place, moved out again. And stable parts as what they are, pinned.

use std::pin::Pin;
use std::ptr::NonNull;

use crate::reclaim::ReadSection;
use crate::thread::frame::{self, Job};

use super::candidate::Candidate;
use super::core::Core;
use super::handle::{Ref, Vacant};
use super::page::Page;
use super::policy::{Immediate, Part, Policy};
use super::slot::{Slot, SlotPtr};

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Vacant<S, V, P, D> {
    /// Builds the value in its place and lets the incarnation be found, as [`publish`](Self::publish) does.
    ///
    /// If `build` panics, the slot is given back, and its key never names anything.
    pub fn publish_with(self, build: impl FnOnce(&S) -> V) -> Ref<S, V, P, D> {
        // SAFETY: the slot is this handle's, and clean.
        unsafe { Slot::write_value_with(self.slot(), || build(self.stable())) };
        // SAFETY: just written.
        unsafe { self.publish_written() }
    }

    /// Returns the stable part, pinned: slots don't move, and nobody gets a `&mut S`.
    #[must_use]
    pub fn stable_pinned(&self) -> Pin<&S> {
        // SAFETY: the stable part stays where it is until it is dropped there (`slot` I2).
        unsafe { Pin::new_unchecked(self.stable()) }
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Ref<S, V, P, D> {
    /// Returns the stable part, pinned: slots don't move, and nobody gets a `&mut S`.
    #[must_use]
    pub fn stable_pinned(this: &Self) -> Pin<&S> {
        // SAFETY: the stable part stays where it is until it is dropped there (`slot` I2).
        unsafe { Pin::new_unchecked(Self::stable(this)) }
    }
}

impl<'g, S: Part, V: Part, P: Policy<D>, D: ReadSection> Candidate<'g, S, V, P, D> {
    /// Returns the stable part, pinned. It may belong to another incarnation by now, or to none.
    #[must_use]
    pub fn stable_pinned(&self) -> Pin<&'g S> {
        // SAFETY: the stable part stays where it is until it is dropped there (`slot` I2).
        unsafe { Pin::new_unchecked(self.stable()) }
    }
}

impl<S: Part, V: Part, D: ReadSection> Ref<S, V, Immediate, D> {
    /// Ends the incarnation and moves its value out, if this is the only reference.
    ///
    /// The slab's `on_free` runs as at every end. Of several threads that try at the same time at most one succeeds, and
    /// perhaps none; with [`into_inner`](Self::into_inner) it is exactly one.
    ///
    /// Only [`Immediate`] has it; a reader under a guard may be looking at the value of
    /// [`AfterGrace`](super::AfterGrace):
    ///
    /// ```compile_fail,E0308
    /// use graceperiod::{AfterGrace, Ref, Slab};
    /// let slab: Slab<(), String, AfterGrace> = Slab::new(|_| ());
    /// let name = slab.insert("name".to_owned());
    /// assert_eq!(Ref::try_unwrap(name).unwrap(), "name");
    /// ```
    ///
    /// while this compiles:
    ///
    /// ```
    /// use graceperiod::{Immediate, Ref, Slab};
    /// let slab: Slab<(), String, Immediate> = Slab::new(|_| ());
    /// let name = slab.insert("name".to_owned());
    /// assert_eq!(Ref::try_unwrap(name).unwrap(), "name");
    /// ```
    ///
    /// # Errors
    ///
    /// The reference, if there are others.
    pub fn try_unwrap(this: Self) -> Result<V, Self> {
        // SAFETY: a counted slot keeps its page.
        if !unsafe { Slot::state(this.slot()) }.release_if_last() {
            return Err(this);
        }
        // SAFETY: that was the last count.
        Ok(unsafe { Core::end_with_value(this.into_slot()) })
    }

    /// Gives the reference back, and moves the value out if it was the last one.
    ///
    /// If every reference goes this way, exactly one call gets the value.
    #[must_use = "the value is dropped if it isn't used"]
    pub fn into_inner(this: Self) -> Option<V> {
        let slot = this.into_slot();
        // SAFETY: a counted slot keeps its page.
        if !unsafe { Slot::state(slot) }.release() {
            return None;
        }
        // SAFETY: that was the last count.
        Some(unsafe { Core::end_with_value(slot) })
    }
}

impl<S: Part, V: Part, D: ReadSection> Core<S, V, Immediate, D> {
    /// Ends an incarnation whose last reference has gone, but for its value.
    ///
    /// # Safety
    ///
    /// 1. The caller took the count to 0, and gives the slot up.
    unsafe fn end_with_value(slot: SlotPtr<S, V, Immediate, D>) -> V {
        // All other references were given back before, and their uses of the value with them (O41).
        // SAFETY: (1): the caller owns the slot.
        let value = unsafe { Slot::take_value(slot) };
        // SAFETY: the slot hasn't been given up, so its page and the core stay.
        let owner = D::id(&unsafe { Page::borrow_core(slot) }.inner);
        // SAFETY: (1): `end_empty` runs once, and doesn't unwind.
        frame::run_or_leave(unsafe { Job::new(owner, slot.cast(), Self::end_empty) });
        value
    }

    unsafe fn end_empty(slot: NonNull<()>) {
        let slot = slot.cast();
        // SAFETY: from `end_with_value`, whose caller gave the slot up, without its value.
        unsafe { Self::reset(slot) };
        // SAFETY: as above.
        unsafe { Self::give_back(slot, true) };
    }
}
