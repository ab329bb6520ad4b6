//! The end of a slab: its user handle has gone.
//!
//! # Protocol
//!
//! Closing waits for no reader and no owner. Every slot comes home to its page, one way or the other: free ones here,
//! dead ones after their grace period, the rest whenever their last reference goes. The page that has all of its slots
//! back is retired, and drops its count of the core. What the slab owns itself is given up right afterwards
//! ([`keep`](super::keep)).

use std::ptr::NonNull;

use crate::fence::heavy;
use crate::reclaim::{ReadSection, Stage};
use crate::sync::{Arc, Relaxed, edge};
use crate::thread::NoReclaim;

use super::core::Core;
use super::page::Page;
use super::policy::{Part, Policy};

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Core<S, V, P, D> {
    /// Closes the slab.
    pub(super) fn close(self: &Arc<Self>) {
        // Relaxed: the fence orders it before the take-overs (O48).
        self.closed.store(true, Relaxed);
        edge!(O48, heavy());
        let (free, waiting) = {
            let mut depot = self.depot.lock();
            // The first that fails has fenced what this thread may.
            let _ = self.take_over_all(&mut depot) || self.take_over_all(&mut depot);
            (depot.close(), depot.is_waiting())
        };
        if waiting {
            self.retire_waiting();
        }
        for slot in free.into_iter().flatten() {
            // SAFETY: the slab has closed, and the depot owned the slot.
            unsafe { Page::bring_home(slot) };
        }
    }

    /// Lets the domain drop what waits in the depot after a grace period, unless a barrier comes before it.
    fn retire_waiting(self: &Arc<Self>) {
        let bytes = usize::try_from(self.waiting().bytes).unwrap_or(usize::MAX);
        let core = Arc::into_raw(Arc::clone(self)).cast_mut();
        // SAFETY: `Arc::into_raw` never returns null.
        let core = unsafe { NonNull::new_unchecked(core) };
        // This may be anybody's `Drop`: nobody else's destructors here, and no waiting.
        let _quiet = NoReclaim::begin();
        // SAFETY: no reader that enters from now on can find what waits; `drop_waiting` takes the count over.
        unsafe { D::retire_raw(&self.inner, core.cast(), Self::drop_waiting, bytes) };
    }

    unsafe fn drop_waiting(core: NonNull<()>) {
        // SAFETY: the count that `retire_waiting` gave away.
        let core = unsafe { Arc::from_raw(core.cast::<Self>().as_ptr()) };
        // All of it, whatever the cookies say: it was dead before the slab was retired.
        core.drop_dead(|depot| depot.take_waiting());
    }
}
