//! The end of an incarnation, and the way of a slot back to the free ones.
//!
//! Nothing here takes a reference to the core that could outlive the slot it came through: see `core` I1.

use std::mem::needs_drop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::reclaim::ReadSection;
use crate::sync::now;
use crate::thread::NoReclaim;
use crate::thread::frame::{self, Job};
use crate::thread::local;
use crate::tuning::MAGAZINE_DELAY_NANOS;

use super::cache::Cache;
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
        // SAFETY: (1): a slot that isn't given up keeps its page and the core.
        let core = unsafe { Page::borrow_core(slot) };
        if needs_drop::<V>() {
            // SAFETY: (1).
            let drop = || unsafe { Slot::drop_value(slot) };
            if let Err(payload) = catch_unwind(AssertUnwindSafe(drop)) {
                core.report(payload);
            }
        }
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
        // SAFETY: (1): a slot that isn't given up keeps its page and the core.
        let id = unsafe { Page::borrow_core(slot) }.id;
        if let Some(node) = local::find(id) {
            // SAFETY: as above; from here on the thread's own count keeps the core (`core` I1).
            let core = unsafe { Page::borrow_core(slot) };
            // SAFETY: found under the slab's identity.
            let cache = unsafe { Self::cache_of(node) };
            if died {
                cache.counts.died.add(1);
            }
            // SAFETY: (1).
            if unsafe { core.keep(cache, slot) } {
                return;
            }
        }
        // SAFETY: (1).
        unsafe { Self::give_back_slow(slot, died) };
    }

    /// Puts a clean slot into the thread's magazines; false if that isn't possible.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot, which holds no value, and gives it up if the answer is true.
    /// 2. The cache is the calling thread's.
    #[inline]
    unsafe fn keep(&self, cache: &Cache<S, V, P, D>, slot: SlotPtr<S, V, P, D>) -> bool {
        // SAFETY: (1).
        if unsafe { Slot::state(slot) }.is_exhausted() {
            return false;
        }
        let refused = {
            // SAFETY: (2); nothing in here opens another section.
            let Some(mut magazines) = (unsafe { cache.enter() }) else {
                return false;
            };
            if self.is_closed_in_section() {
                return false;
            }
            // SAFETY: (1).
            let full = unsafe { magazines.push(slot) };
            full.and_then(|full| self.depot.give(full).err())
        };
        if let Some(chain) = refused {
            self.bring_home(chain);
        }
        true
    }

    #[cold]
    unsafe fn give_back_slow(slot: SlotPtr<S, V, P, D>, died: bool) {
        // SAFETY: the caller hasn't given the slot up yet.
        let core = unsafe { Page::hold_core(slot) };
        // Whoever had a cache has counted already.
        let (found, cache) = (core.find_cache().is_some(), core.cache());
        if died && !found {
            core.count(cache, |c| &c.died, |c| &c.died, 1);
        }
        // SAFETY: the caller gives the slot up; the cache is this thread's.
        if cache.is_some_and(|cache| unsafe { core.keep(cache, slot) }) {
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
            self.bring_home(chain);
        }
    }

    /// Brings clean slots home: the slab has closed. The caller has a count of the core.
    pub(super) fn bring_home(&self, chain: Chain<S, V, P, D>) {
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
        // SAFETY: (1): a slot that isn't given up keeps its page and the core.
        let id = unsafe { Page::borrow_core(slot) }.id;
        if let Some(node) = local::find(id) {
            // SAFETY: as above; from here on the thread's own count keeps the core (`core` I1).
            let core = unsafe { Page::borrow_core(slot) };
            // SAFETY: found under the slab's identity.
            let cache = unsafe { Self::cache_of(node) };
            cache.counts.died.add(1);
            // SAFETY: (1).
            if unsafe { core.bury_in(cache, slot) } {
                return;
            }
        }
        // SAFETY: (1).
        unsafe { Self::bury_slow(slot) };
    }

    /// Puts a dead slot into the thread's magazine of dead ones; false if that isn't possible.
    ///
    /// # Safety
    ///
    /// 1. The caller took the count to 0, and gives the slot up if the answer is true.
    /// 2. The cache is the calling thread's.
    #[inline]
    unsafe fn bury_in(&self, cache: &Cache<S, V, P, D>, slot: SlotPtr<S, V, P, D>) -> bool {
        let (refused, wants_clock) = {
            // SAFETY: (2); nothing in here opens another section.
            let Some(mut magazines) = (unsafe { cache.enter() }) else {
                return false;
            };
            if self.is_closed_in_section() {
                return false;
            }
            // SAFETY: (1).
            let full = unsafe { magazines.bury(slot) };
            let refused = full.then(|| self.depot.bury(self.seal(magazines.take_open())).err());
            (refused.flatten(), magazines.wants_clock())
        };
        if let Some(dead) = refused {
            self.hand_over(dead.slots);
        }
        if wants_clock {
            self.look_at_clock(cache);
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
    #[cold]
    fn look_at_clock(&self, cache: &Cache<S, V, P, D>) {
        let now = now();
        let refused = {
            // SAFETY: the cache is the calling thread's, and its last section has ended.
            let Some(mut magazines) = (unsafe { cache.enter() }) else {
                return;
            };
            if self.is_closed_in_section() || !magazines.note_time(now, MAGAZINE_DELAY_NANOS) {
                return;
            }
            self.depot.bury(self.seal(magazines.take_open())).err()
        };
        if let Some(dead) = refused {
            self.hand_over(dead.slots);
        }
    }

    #[cold]
    unsafe fn bury_slow(slot: SlotPtr<S, V, P, D>) {
        // SAFETY: the caller hasn't given the slot up yet.
        let core = unsafe { Page::hold_core(slot) };
        // Whoever had a cache has counted already.
        let (found, cache) = (core.find_cache().is_some(), core.cache());
        if !found {
            core.count(cache, |c| &c.died, |c| &c.died, 1);
        }
        // SAFETY: the caller gives the slot up; the cache is this thread's.
        if cache.is_some_and(|cache| unsafe { core.bury_in(cache, slot) }) {
            return;
        }
        let mut chain = Chain::EMPTY;
        // SAFETY: as above.
        unsafe { chain.push(slot) };
        if let Err(dead) = core.depot.bury(core.seal(chain)) {
            core.hand_over(dead.slots);
        }
    }

    /// Lets the domain drop dead slots and bring them home: the slab has closed. The caller has a count of the core.
    pub(super) fn hand_over(&self, slots: List<S, V, P, D>) {
        let Some(first) = slots.first() else { return };
        let mut n = 0;
        let mut next = Some(first);
        while let Some(slot) = next {
            n += 1;
            // SAFETY: the list owns its slots.
            next = NonNull::new(unsafe { Slot::link(slot) });
        }
        self.count(self.find_cache(), |c| &c.settled, |c| &c.settled, n);
        let bytes = usize::try_from(n).unwrap_or(usize::MAX);
        let bytes = bytes.saturating_mul(size_of::<Slot<S, V, P, D>>());
        // This may be anybody's `Drop`: nobody else's destructors here, and no waiting.
        let _quiet = NoReclaim::begin();
        // SAFETY: no reader that enters from now on can find these incarnations; `drop_list` takes over the list.
        unsafe { D::retire_raw(&self.inner, first.cast(), Self::drop_list, bytes) };
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
