//! Who owns a slot or holds a reference to an incarnation.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use crate::rcu::Global;
use crate::reclaim::ReadSection;

use super::core::Core;
use super::key::Key;
use super::page::Page;
use super::policy::{Immediate, Part, Policy};
use super::slot::{Slot, SlotPtr};

/// A slot whose next incarnation is being prepared. Nobody can get a reference to it before it is published.
///
/// Readers may still look at the stable part, with a candidate of an earlier incarnation. Fields of it that a
/// [`read`](super::Candidate::read) relies on are best written here, before publishing.
///
/// Dropping it gives the slot back; its [`key`](Self::key) then never names anything.
#[must_use = "a reserved slot that is dropped uses up a generation"]
pub struct Vacant<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static = (),
    P: Policy<D> = Immediate,
    D: ReadSection = Global,
> {
    /// Owned, and clean.
    slot: SlotPtr<S, V, P, D>,
    part: PhantomData<(S, V, D)>,
}

/// A counted reference to one incarnation. As long as it lives the value does.
///
/// It has no lifetime and keeps neither slab nor domain open, only their memory valid. The last one to go, on whichever
/// thread, drops the value at once under [`Immediate`] and runs the slab's `on_free`; what that drops
/// in turn is dropped iteratively. Under [`AfterGrace`](super::AfterGrace) it runs nobody's code.
pub struct Ref<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static = (),
    P: Policy<D> = Immediate,
    D: ReadSection = Global,
> {
    /// Owns one count.
    slot: SlotPtr<S, V, P, D>,
    part: PhantomData<(S, V, D)>,
}

// SAFETY: the slot is this handle's own, and its parts are `Send + Sync`.
unsafe impl<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> Send
    for Vacant<S, V, P, D>
{
}
// SAFETY: a shared `Vacant` gives `&S` only, and `S: Sync`.
unsafe impl<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> Sync
    for Vacant<S, V, P, D>
{
}
// SAFETY: gives `&S` and `&V`, and drops the `V`, on any thread: both are `Send + Sync`.
unsafe impl<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> Send
    for Ref<S, V, P, D>
{
}
// SAFETY: as above; a shared one can be cloned.
unsafe impl<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> Sync
    for Ref<S, V, P, D>
{
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Vacant<S, V, P, D> {
    /// # Safety
    ///
    /// 1. The caller owns the slot, which is clean, and gives it to this handle.
    #[inline]
    pub(super) unsafe fn new(slot: SlotPtr<S, V, P, D>) -> Self {
        Self {
            slot,
            part: PhantomData,
        }
    }

    /// Returns the key that the incarnation will have once it is published.
    #[must_use]
    pub fn key(&self) -> Key {
        // SAFETY: an owned slot keeps its page.
        let generation = unsafe { Slot::state(self.slot) }.own().generation() + 1;
        // SAFETY: as above.
        key_of(unsafe { Page::index_of(self.slot) }, generation)
    }

    /// Returns the stable part.
    #[must_use]
    #[inline]
    pub fn stable(&self) -> &S {
        // SAFETY: an owned slot keeps its page.
        unsafe { Slot::stable(self.slot) }
    }

    /// The slot, which stays this handle's.
    #[inline]
    pub(crate) fn slot(&self) -> SlotPtr<S, V, P, D> {
        self.slot
    }

    /// Moves the value in and lets the incarnation be found: from here on readers may get references to it.
    #[inline]
    pub fn publish(self, value: V) -> Ref<S, V, P, D> {
        // SAFETY: the slot is this handle's, and clean.
        unsafe { Slot::write_value(self.slot, value) };
        // SAFETY: just written.
        unsafe { self.publish_written() }
    }

    /// As [`publish`](Self::publish), for the slab, which mustn't close meanwhile.
    pub(super) fn publish_kept(self, value: V) -> Key {
        let key = self.key();
        // SAFETY: the slot is this handle's, and clean.
        unsafe { Slot::write_value(self.slot, value) };
        let slot = self.count();
        // SAFETY: the slot was this handle's, and holds a value now.
        unsafe { Slot::state(slot) }.publish_kept();
        key
    }

    /// Lets the incarnation be found.
    ///
    /// # Safety
    ///
    /// 1. The value is written.
    #[inline]
    pub(super) unsafe fn publish_written(self) -> Ref<S, V, P, D> {
        let slot = self.count();
        // SAFETY: an owned slot keeps its page; (1).
        unsafe { Slot::state(slot) }.publish();
        // SAFETY: the count of 1 is this reference's.
        unsafe { Ref::from_slot(slot) }
    }

    /// Counts an incarnation, and gives the slot away.
    #[inline]
    fn count(self) -> SlotPtr<S, V, P, D> {
        let slot = ManuallyDrop::new(self).slot;
        // SAFETY: an owned slot keeps its page and the core; a published one likewise, through the count.
        let core = unsafe { Page::borrow_core(slot) };
        core.count(
            core.find_cache(),
            |counts| &counts.published,
            |counts| &counts.published,
            1,
        );
        slot
    }
}

impl<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> Drop
    for Vacant<S, V, P, D>
{
    fn drop(&mut self) {
        // SAFETY: an owned slot keeps its page.
        unsafe { Slot::state(self.slot) }.abandon();
        // SAFETY: the slot is this handle's, and clean.
        unsafe { Core::give_back(self.slot, false) };
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Ref<S, V, P, D> {
    /// Takes over one count.
    ///
    /// # Safety
    ///
    /// 1. The caller has a count of the slot's incarnation, and gives it to this reference.
    #[inline]
    pub(crate) unsafe fn from_slot(slot: SlotPtr<S, V, P, D>) -> Self {
        Self {
            slot,
            part: PhantomData,
        }
    }

    /// Gives the count away.
    #[inline]
    pub(crate) fn into_slot(self) -> SlotPtr<S, V, P, D> {
        ManuallyDrop::new(self).slot
    }

    /// The slot; the count stays here.
    #[inline]
    pub(crate) fn slot(&self) -> SlotPtr<S, V, P, D> {
        self.slot
    }

    /// Returns the stable part.
    #[must_use]
    #[inline]
    pub fn stable(this: &Self) -> &S {
        // SAFETY: a counted slot keeps its page.
        unsafe { Slot::stable(this.slot) }
    }

    /// Returns the incarnation's key.
    #[must_use]
    pub fn key(this: &Self) -> Key {
        // SAFETY: a counted slot keeps its page.
        let generation = unsafe { Slot::state(this.slot) }.own().generation();
        // SAFETY: as above.
        key_of(unsafe { Page::index_of(this.slot) }, generation)
    }

    /// Whether both refer to the same incarnation.
    #[must_use]
    pub fn ptr_eq(a: &Self, b: &Self) -> bool {
        a.slot == b.slot
    }
}

fn key_of(index: u64, generation: u64) -> Key {
    Key::from_raw(index, generation).expect("published generations begin at 1")
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Deref for Ref<S, V, P, D> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        // SAFETY: the count keeps the value.
        unsafe { Slot::value(self.slot) }
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Clone for Ref<S, V, P, D> {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: a counted slot keeps its page.
        unsafe { Slot::state(self.slot) }.get_another();
        // SAFETY: the count was just added.
        unsafe { Self::from_slot(self.slot) }
    }
}

impl<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> Drop
    for Ref<S, V, P, D>
{
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a counted slot keeps its page.
        if unsafe { Slot::state(self.slot) }.release() {
            // All other references were given back before, and their uses of the value with them (O41).
            // SAFETY: that was the last count.
            unsafe { Core::end(self.slot) };
        }
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> fmt::Debug for Vacant<S, V, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Vacant").field(&self.key()).finish()
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> fmt::Debug for Ref<S, V, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ref").field(&Self::key(self)).finish()
    }
}
