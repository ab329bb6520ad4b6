//! The end of an incarnation, and the way of a slot back to the free ones.
//!
//! Nothing here takes a reference to the core that could outlive the slot it came through: see `core` I1.

use std::mem::needs_drop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::reclaim::ReadSection;
use crate::sync::{NOBODY, now};
use crate::thread::NoReclaim;
use crate::thread::frame::{self, Job};
use crate::thread::local;
use crate::tuning::MAGAZINE_DELAY_NANOS;

use super::chain::{Chain, List};
use super::core::Core;
use super::page::Page;
use super::policy::{Part, Policy};
use super::slot::{Slot, SlotPtr};
use super::state::before_reuse;
use super::waiting::Dead;

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Core<S, V, P, D> {
    /// Ends an incarnation whose last reference has gone.
    ///
    /// # Safety
    ///
    /// 1. The caller took the count to 0, and gives the slot up.
    #[inline]
    pub(super) unsafe fn end(slot: SlotPtr<S, V, P, D>) {
        if P::WAITS {
            // SAFETY: (1).
            return unsafe { Self::bury(slot) };
        }
        // SAFETY: the slot hasn't been given up, so its page and the core stay.
        let has_hook = unsafe { Page::borrow_core(slot) }.on_free.is_some();
        if !needs_drop::<V>() && !has_hook {
            before_reuse();
            // SAFETY: (1); there is no value to drop.
            return unsafe { Self::give_back(slot, true) };
        }
        // SAFETY: as above.
        let owner = D::id(&unsafe { Page::borrow_core(slot) }.inner);
        // SAFETY: (1): `end_now` runs once, and doesn't unwind.
        frame::run_or_leave(unsafe { Job::new(owner, slot.cast(), Self::end_now) });
    }

    unsafe fn end_now(slot: NonNull<()>) {
        let slot = slot.cast();
        // SAFETY: from `end`, whose caller gave the slot up.
        unsafe { Self::clean(slot) };
        // SAFETY: as above, and the value is gone.
        unsafe { Self::give_back(slot, true) };
    }

    /// Drops the value and runs the user's hook. Their panics go to the domain.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot; it holds a value, which nobody sees any more.
    pub(super) unsafe fn clean(slot: SlotPtr<S, V, P, D>) {
        before_reuse();
        if needs_drop::<V>() {
            // SAFETY: (1).
            let drop = || unsafe { Slot::drop_value(slot) };
            if let Err(payload) = catch_unwind(AssertUnwindSafe(drop)) {
                // SAFETY: (1): a slot that isn't given up keeps its page and the core.
                unsafe { Page::borrow_core(slot) }.report(payload);
            }
        }
        // SAFETY: (1), and its value is gone.
        unsafe { Self::reset(slot) };
    }

    /// Runs the user's hook. Its panic goes to the domain.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot; its incarnation has ended, and it holds no value.
    pub(super) unsafe fn reset(slot: SlotPtr<S, V, P, D>) {
        before_reuse();
        // SAFETY: (1): a slot that isn't given up keeps its page and the core.
        let core = unsafe { Page::borrow_core(slot) };
        if let Some(on_free) = &core.on_free {
            // SAFETY: (1).
            let stable = unsafe { Slot::stable(slot) };
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| on_free(stable))) {
                core.report(payload);
            }
        }
    }

    /// Adds a clean slot to the free ones.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot, which holds no value, and gives it up.
    #[inline]
    pub(super) unsafe fn give_back(slot: SlotPtr<S, V, P, D>, died: bool) {
        // SAFETY: (1): a slot that isn't given up keeps its page.
        let core = unsafe { Page::core_of(slot) };
        // SAFETY: (1), as above.
        if let Some(node) = local::find(unsafe { Page::local_id(slot) }) {
            if died {
                // SAFETY: found under the slab's identity.
                unsafe { Self::cache_of(node) }.counts.died.add(1);
            }
            // SAFETY: (1); from here on the thread's own count keeps the core (`core` I1).
            if unsafe { Self::keep(core, node, slot) } {
                return;
            }
        }
        // SAFETY: (1).
        unsafe { Self::give_back_slow(slot, died) };
    }

    /// Puts a clean slot into the thread's magazines; false if that isn't possible.
    ///
    /// By pointer, since the core may go with the last slot that is brought home.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot, which holds no value, and gives it up if the answer is true.
    /// 2. The node is what the calling thread has registered for the slab.
    /// 3. The core is there at the time of the call.
    #[inline]
    unsafe fn keep(core: NonNull<Self>, node: NonNull<()>, slot: SlotPtr<S, V, P, D>) -> bool {
        // SAFETY: (1).
        if unsafe { Slot::state(slot) }.is_exhausted() {
            return false;
        }
        let refused = {
            // SAFETY: (2, 3).
            let cache = unsafe { Self::cache_of(node) };
            // SAFETY: (2); nothing in here opens another section.
            let Some(mut magazines) = (unsafe { cache.enter() }) else {
                return false;
            };
            // SAFETY: (3).
            let core = unsafe { core.as_ref() };
            if core.is_closed_in_section() {
                return false;
            }
            // SAFETY: (1).
            let full = unsafe { magazines.push(slot) };
            full.and_then(|full| core.depot.give(full).err())
        };
        if let Some(chain) = refused {
            Self::bring_home(chain);
        }
        true
    }

    #[cold]
    unsafe fn give_back_slow(slot: SlotPtr<S, V, P, D>, died: bool) {
        // SAFETY: the caller hasn't given the slot up yet.
        let core = unsafe { Page::hold_core(slot) };
        // Whoever has found a cache has counted already.
        // SAFETY: as above.
        let found = unsafe { Page::local_id(slot) } != NOBODY && core.find_cache().is_some();
        let cache = core.cache();
        if died && !found {
            core.count(cache, |c| &c.died, |c| &c.died, 1);
        }
        // SAFETY: the caller gives the slot up.
        if unsafe { core.give_back_special(slot) } {
            return;
        }
        // SAFETY: the caller gives the slot up; `core` has a count.
        let keep = |node| unsafe { Self::keep(NonNull::from(&*core), node, slot) };
        if local::find(core.id).is_some_and(keep) {
            return;
        }
        // SAFETY: as above.
        unsafe { core.put_aside(slot) };
    }

    /// Adds a clean slot to the depot, or brings it home.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot, which holds no value, and gives it up.
    pub(super) unsafe fn put_aside(&self, slot: SlotPtr<S, V, P, D>) {
        // SAFETY: (1).
        unsafe { self.poison(slot) };
        // SAFETY: (1).
        let exhausted = unsafe { Slot::state(slot) }.is_exhausted();
        let mut chain = Chain::EMPTY;
        // SAFETY: (1).
        unsafe { chain.push(slot) };
        let refused = if exhausted {
            self.depot.park(chain)
        } else {
            self.depot.give(chain)
        };
        if let Err(chain) = refused {
            Self::bring_home(chain);
        }
    }

    /// Brings clean slots home: the slab has closed.
    pub(super) fn bring_home(chain: Chain<S, V, P, D>) {
        for slot in chain.into_list() {
            // SAFETY: the stacks refuse only after the slab has closed; the chain owned the slot.
            unsafe { Page::bring_home(slot) };
        }
    }

    /// Adds a dead slot to those that wait for a grace period.
    ///
    /// # Safety
    ///
    /// 1. The caller took the count to 0, and gives the slot up.
    unsafe fn bury(slot: SlotPtr<S, V, P, D>) {
        before_reuse();
        // SAFETY: (1): a slot that isn't given up keeps its page.
        let core = unsafe { Page::core_of(slot) };
        // SAFETY: (1), as above.
        if let Some(node) = local::find(unsafe { Page::local_id(slot) }) {
            // SAFETY: found under the slab's identity.
            unsafe { Self::cache_of(node) }.counts.died.add(1);
            // SAFETY: (1); from here on the thread's own count keeps the core (`core` I1).
            if unsafe { Self::bury_in(core, node, slot) } {
                return;
            }
        }
        // SAFETY: (1).
        unsafe { Self::bury_slow(slot) };
    }

    /// Puts a dead slot into the thread's magazine of dead ones; false if that isn't possible.
    ///
    /// By pointer, since the core may go with the slots if the slab has closed.
    ///
    /// # Safety
    ///
    /// 1. The caller took the count to 0, and gives the slot up if the answer is true.
    /// 2. The node is what the calling thread has registered for the slab.
    /// 3. The core is there at the time of the call.
    #[inline]
    unsafe fn bury_in(core: NonNull<Self>, node: NonNull<()>, slot: SlotPtr<S, V, P, D>) -> bool {
        let (refused, wants_clock) = {
            // SAFETY: (2, 3).
            let cache = unsafe { Self::cache_of(node) };
            // SAFETY: (2); nothing in here opens another section.
            let Some(mut magazines) = (unsafe { cache.enter() }) else {
                return false;
            };
            // SAFETY: (3).
            let core = unsafe { core.as_ref() };
            if core.is_closed_in_section() {
                return false;
            }
            // SAFETY: (1).
            let full = unsafe { magazines.bury(slot) };
            let refused = full.then(|| core.depot.bury(core.seal(magazines.take_open())).err());
            (refused.flatten(), magazines.wants_clock())
        };
        if let Some(dead) = refused {
            // SAFETY: nothing has been given up since (3).
            unsafe { Self::hand_over(core, dead.slots) };
        } else if wants_clock {
            // SAFETY: as above; (2).
            unsafe { Self::look_at_clock(core, node) };
        }
        true
    }

    /// Gives dead slots their cookie.
    pub(super) fn seal(&self, chain: Chain<S, V, P, D>) -> Dead<S, V, P, D> {
        Dead {
            slots: chain.into_list(),
            // After every death in the chain, since this thread had the slots already.
            cookie: P::cookie(&self.inner),
        }
    }

    /// Closes the magazine of dead slots if its first has been there for long.
    ///
    /// # Safety
    ///
    /// 1. The node is what the calling thread has registered for the slab.
    /// 2. The core is there at the time of the call.
    #[cold]
    unsafe fn look_at_clock(core: NonNull<Self>, node: NonNull<()>) {
        let now = now();
        let refused = {
            // SAFETY: (1, 2).
            let cache = unsafe { Self::cache_of(node) };
            // SAFETY: (1), and the thread's last section has ended.
            let Some(mut magazines) = (unsafe { cache.enter() }) else {
                return;
            };
            // SAFETY: (2).
            let core = unsafe { core.as_ref() };
            if core.is_closed_in_section() || !magazines.note_time(now, MAGAZINE_DELAY_NANOS) {
                return;
            }
            core.depot.bury(core.seal(magazines.take_open())).err()
        };
        if let Some(dead) = refused {
            // SAFETY: nothing has been given up since (2).
            unsafe { Self::hand_over(core, dead.slots) };
        }
    }

    #[cold]
    unsafe fn bury_slow(slot: SlotPtr<S, V, P, D>) {
        // SAFETY: the caller hasn't given the slot up yet.
        let core = unsafe { Page::hold_core(slot) };
        // Whoever has found a cache has counted already.
        // SAFETY: as above.
        let found = unsafe { Page::local_id(slot) } != NOBODY && core.find_cache().is_some();
        let cache = core.cache();
        if !found {
            core.count(cache, |c| &c.died, |c| &c.died, 1);
        }
        // SAFETY: the caller gives the slot up.
        if unsafe { core.bury_special(slot) } {
            return;
        }
        // SAFETY: the caller gives the slot up; `core` has a count.
        let bury_in = |node| unsafe { Self::bury_in(NonNull::from(&*core), node, slot) };
        if local::find(core.id).is_some_and(bury_in) {
            return;
        }
        let mut chain = Chain::EMPTY;
        // SAFETY: as above.
        unsafe { chain.push(slot) };
        if let Err(dead) = core.depot.bury(core.seal(chain)) {
            // SAFETY: as above.
            unsafe { Self::hand_over(NonNull::from(&*core), dead.slots) };
        }
    }

    /// Lets the domain drop dead slots and bring them home: the slab has closed.
    ///
    /// # Safety
    ///
    /// 1. The core is there at the time of the call. It may go with the slots.
    pub(super) unsafe fn hand_over(core: NonNull<Self>, slots: List<S, V, P, D>) {
        let Some(first) = slots.first() else { return };
        let n = slots.length();
        let inner = {
            // SAFETY: (1).
            let core = unsafe { core.as_ref() };
            core.count(core.find_cache(), |c| &c.settled, |c| &c.settled, n as u64);
            core.inner.clone()
        };
        let bytes = n.saturating_mul(size_of::<Slot<S, V, P, D>>());
        // This may be anybody's `Drop`: nobody else's destructors here, and no waiting.
        let _quiet = NoReclaim::begin();
        // SAFETY: no reader that enters from now on can find these incarnations; `drop_list` takes over the list.
        unsafe { D::retire_raw(&inner, first.cast(), Self::drop_list, bytes) };
    }

    unsafe fn drop_list(first: NonNull<()>) {
        let first = first.cast();
        // SAFETY: the list's slots haven't been given up.
        let core = unsafe { Page::<S, V, P, D>::hold_core(first) };
        // SAFETY: from `hand_over`, which gave the list away.
        let slots = unsafe { List::from_head(first.as_ptr()) };
        frame::within(D::id(&core.inner), || {
            for slot in slots {
                // SAFETY: dead, and the readers that saw it alive have gone.
                unsafe { Self::clean(slot) };
                // SAFETY: clean now, and the slab has closed.
                unsafe { Page::bring_home(slot) };
            }
        });
        drop(core);
    }
}
