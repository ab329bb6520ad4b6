//! One slot: the state word, the free-list link, the stable part and the value.
//!
//! # Invariants
//!
//! - I1: every pointer to a slot is derived from its page's base, never from a reference, so that the page's header can
//!   be reached from it.
//! - I2: the stable part is built before anybody can find the page and dropped when nobody can any more; in between it is
//!   only ever seen as `&S`.
//! - I3: link and stamp belong to whoever owns the slot: the list that it is in, or the thread that holds it. The value
//!   is written and dropped by that owner, and read by whoever has a reference or, under
//!   [`AfterGrace`](super::AfterGrace), saw it alive inside a guard.
//! - I4: the link's place holds the [bulk](super::bulk) while the slot is alive; only who has a counted reference looks at
//!   it then, and the owner writes the link again when all those have gone.

use std::mem::{MaybeUninit, offset_of};
use std::ptr::{self, NonNull};

use crate::reclaim::ReadSection;
#[cfg(any(loom, not(target_pointer_width = "64")))]
use crate::sync::AtomicU64;
use crate::sync::UnsafeCell;
use crate::tuning::POISON;

use super::bulk::Bulk;
use super::policy::{Part, Policy};
use super::state::StateWord;

/// Pointer to a slot, with the provenance of its page.
pub(crate) type SlotPtr<S, V, P, D> = NonNull<Slot<S, V, P, D>>;

/// Room for one incarnation after the other.
#[repr(C)]
pub(crate) struct Slot<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    state: StateWord,
    link: UnsafeCell<*mut Self>,
    stamp: UnsafeCell<P::Stamp>,
    /// Where the link's place has no 64 bits, or loom has to see both.
    #[cfg(any(loom, not(target_pointer_width = "64")))]
    bulk: AtomicU64,
    stable: S,
    value: UnsafeCell<MaybeUninit<V>>,
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Slot<S, V, P, D> {
    /// Builds a free slot in place.
    ///
    /// # Safety
    ///
    /// 1. `slot` points to unused memory of a page that nobody else can find yet.
    pub(super) unsafe fn build(slot: SlotPtr<S, V, P, D>, generation: u64, stable: S) {
        let slot = slot.as_ptr();
        // Field by field, so that a large slot never lies on the stack as a whole.
        // SAFETY: (1): the projection stays inside the slot.
        let state = unsafe { &raw mut (*slot).state };
        // SAFETY: as above.
        let link = unsafe { &raw mut (*slot).link };
        // SAFETY: as above.
        let stamp = unsafe { &raw mut (*slot).stamp };
        // SAFETY: as above.
        let place = unsafe { &raw mut (*slot).stable };
        // SAFETY: as above.
        let value = unsafe { &raw mut (*slot).value };
        // SAFETY: (1).
        unsafe { state.write(StateWord::new(generation)) };
        // SAFETY: (1).
        unsafe { link.write(UnsafeCell::new(ptr::null_mut())) };
        // SAFETY: (1).
        unsafe { stamp.write(UnsafeCell::new(P::BLANK)) };
        #[cfg(any(loom, not(target_pointer_width = "64")))]
        {
            // SAFETY: as above.
            let bulk = unsafe { &raw mut (*slot).bulk };
            // SAFETY: (1).
            unsafe { bulk.write(AtomicU64::new(0)) };
        }
        // SAFETY: (1).
        unsafe { place.write(stable) };
        // SAFETY: (1).
        unsafe { value.write(UnsafeCell::new(MaybeUninit::uninit())) };
    }

    /// Drops the stable part.
    ///
    /// # Safety
    ///
    /// 1. The slot is built, and nobody can reach it any more.
    /// 2. It isn't used afterwards.
    pub(super) unsafe fn drop_in_place(slot: SlotPtr<S, V, P, D>) {
        // SAFETY: (1, 2); the value isn't dropped with it, since it is a `MaybeUninit`.
        unsafe { slot.drop_in_place() };
    }

    /// Returns the state word.
    ///
    /// # Safety
    ///
    /// 1. The slot's page isn't unmapped during `'a`.
    #[inline]
    pub(super) unsafe fn state<'a>(slot: SlotPtr<S, V, P, D>) -> &'a StateWord {
        // SAFETY: (1); the word is built before the page can be found.
        unsafe { &(*slot.as_ptr()).state }
    }

    /// Returns the stable part.
    ///
    /// # Safety
    ///
    /// 1. The slot's page isn't unmapped during `'a`.
    #[inline]
    pub(crate) unsafe fn stable<'a>(slot: SlotPtr<S, V, P, D>) -> &'a S {
        // SAFETY: (1); I2.
        unsafe { &(*slot.as_ptr()).stable }
    }

    /// Returns a pointer to the stable part from which [`from_stable`](Self::from_stable) finds back.
    ///
    /// # Safety
    ///
    /// 1. The slot's page isn't unmapped.
    pub(crate) unsafe fn stable_ptr(slot: SlotPtr<S, V, P, D>) -> NonNull<S> {
        // SAFETY: (1); the projection stays inside the slot.
        let stable = unsafe { &raw mut (*slot.as_ptr()).stable };
        // SAFETY: a projection of a pointer that isn't null.
        unsafe { NonNull::new_unchecked(stable) }
    }

    /// Returns the slot of a stable part.
    ///
    /// # Safety
    ///
    /// 1. `stable` came from [`stable_ptr`](Self::stable_ptr).
    /// 2. The slot's page isn't unmapped.
    pub(crate) unsafe fn from_stable(stable: NonNull<S>) -> SlotPtr<S, V, P, D> {
        // SAFETY: (1, 2); the pointer has the page's provenance, and steps back to the slot's start.
        unsafe { stable.byte_sub(offset_of!(Self, stable)) }.cast()
    }

    /// Returns the value.
    ///
    /// # Safety
    ///
    /// 1. The incarnation's value is neither dropped nor moved out during `'a`.
    #[inline]
    pub(super) unsafe fn value<'a>(slot: SlotPtr<S, V, P, D>) -> &'a V {
        // SAFETY: (1): the page is there.
        let cell = unsafe { &(*slot.as_ptr()).value };
        // SAFETY: (1): the value is there, and nobody has a mutable reference to it.
        let value = cell.with(|value| unsafe { &*value });
        // SAFETY: (1): it is written.
        unsafe { value.assume_init_ref() }
    }

    /// Writes the value of the next incarnation.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot (I3), and it holds no value.
    #[inline]
    pub(super) unsafe fn write_value(slot: SlotPtr<S, V, P, D>, value: V) {
        // SAFETY: (1): the page is there.
        let cell = unsafe { &(*slot.as_ptr()).value };
        // SAFETY: (1): nobody else reaches the value.
        cell.with_mut(|place| unsafe { place.cast::<V>().write(value) });
    }

    /// Builds the value of the next incarnation in its place; a panic of `build` comes out.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot (I3), and it holds no value.
    #[inline]
    pub(super) unsafe fn write_value_with(slot: SlotPtr<S, V, P, D>, build: impl FnOnce() -> V) {
        // SAFETY: (1): the page is there.
        let cell = unsafe { &(*slot.as_ptr()).value };
        // SAFETY: (1): nobody else reaches the value, `build` included.
        cell.with_mut(|place| unsafe { place.cast::<V>().write(build()) });
    }

    /// Moves the value out.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot (I3), and it holds a value, which it doesn't afterwards.
    pub(super) unsafe fn take_value(slot: SlotPtr<S, V, P, D>) -> V {
        // SAFETY: (1): the page is there.
        let cell = unsafe { &(*slot.as_ptr()).value };
        // SAFETY: (1): it is written, and nobody else reaches it.
        cell.with_mut(|place| unsafe { place.cast::<V>().read() })
    }

    /// Drops the value; its panic comes out.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot (I3), and it holds a value.
    pub(super) unsafe fn drop_value(slot: SlotPtr<S, V, P, D>) {
        // SAFETY: (1): the page is there.
        let cell = unsafe { &(*slot.as_ptr()).value };
        // SAFETY: (1): nobody else reaches the value.
        cell.with_mut(|place| unsafe { place.cast::<V>().drop_in_place() });
    }

    /// Returns the bulk, which has the link's place while the slot is alive.
    ///
    /// # Safety
    ///
    /// 1. The caller has a counted reference during `'a`.
    #[inline]
    pub(super) unsafe fn bulk<'a>(slot: SlotPtr<S, V, P, D>) -> Bulk<'a> {
        // SAFETY: (1): a counted slot keeps its page.
        let link = unsafe { &(*slot.as_ptr()).link };
        #[cfg(not(any(loom, not(target_pointer_width = "64"))))]
        {
            const {
                assert!(
                    align_of::<Self>() > 1,
                    "the bulk's mark is a bit of a slot's address"
                )
            };
            let word = link.with_mut(|link| link.cast::<u64>());
            // SAFETY: (1): nobody but those with a reference reaches the word, and they only through this function.
            Bulk::new(unsafe { crate::sync::AtomicU64::from_ptr(word) })
        }
        #[cfg(any(loom, not(target_pointer_width = "64")))]
        {
            // Nobody may be writing the link: loom checks that.
            link.with(|_| ());
            // SAFETY: (1), as above.
            Bulk::new(unsafe { &(*slot.as_ptr()).bulk })
        }
    }

    /// Overwrites the place of the value.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot (I3), and it holds no value.
    pub(super) unsafe fn poison(slot: SlotPtr<S, V, P, D>) {
        // SAFETY: (1): the page is there.
        let cell = unsafe { &(*slot.as_ptr()).value };
        // SAFETY: (1): nobody else reaches the place, and any bytes will do.
        cell.with_mut(|place| unsafe { place.cast::<u8>().write_bytes(POISON, size_of::<V>()) });
    }

    /// Whether the place of the value is as [`poison`](Self::poison) left it.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot (I3), and the place was poisoned.
    pub(super) unsafe fn is_poisoned(slot: SlotPtr<S, V, P, D>) -> bool {
        // SAFETY: (1): the page is there.
        let cell = unsafe { &(*slot.as_ptr()).value };
        cell.with(|place| {
            // SAFETY: (1): nobody may reach the place, and every byte of it was written.
            let bytes = unsafe { std::slice::from_raw_parts(place.cast::<u8>(), size_of::<V>()) };
            bytes.iter().all(|&byte| byte == POISON)
        })
    }

    /// Returns the next slot of the list that this one is in.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot (I3).
    #[inline]
    pub(super) unsafe fn link(slot: SlotPtr<S, V, P, D>) -> *mut Self {
        // SAFETY: (1): the page is there.
        let cell = unsafe { &(*slot.as_ptr()).link };
        // SAFETY: (1): nobody else reaches the link.
        cell.with(|link| unsafe { *link })
    }

    /// Sets the next slot of the list that this one is in.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot (I3).
    #[inline]
    pub(super) unsafe fn set_link(slot: SlotPtr<S, V, P, D>, next: *mut Self) {
        // SAFETY: (1): the page is there.
        let cell = unsafe { &(*slot.as_ptr()).link };
        // SAFETY: (1): nobody else reaches the link.
        cell.with_mut(|link| unsafe { *link = next });
    }

    /// Returns the cookie of the magazine that this slot is the first of, and the first slot of the next magazine.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot (I3).
    pub(super) unsafe fn stamp(slot: SlotPtr<S, V, P, D>) -> (u64, *mut Self) {
        // SAFETY: (1): the page is there.
        let cell = unsafe { &(*slot.as_ptr()).stamp };
        // SAFETY: (1): nobody else reaches the stamp.
        let (cookie, next) = P::parts(cell.with(|stamp| unsafe { *stamp }));
        (cookie, next.cast())
    }

    /// Sets what [`stamp`](Self::stamp) returns.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot (I3).
    pub(super) unsafe fn set_stamp(slot: SlotPtr<S, V, P, D>, cookie: u64, next: *mut Self) {
        // SAFETY: (1): the page is there.
        let cell = unsafe { &(*slot.as_ptr()).stamp };
        let stamp = P::stamp(cookie, next.cast());
        // SAFETY: (1): nobody else reaches the stamp.
        cell.with_mut(|place| unsafe { *place = stamp });
    }
}
