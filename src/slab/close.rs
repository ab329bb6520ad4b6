//! The end of a slab: its user handle has gone.
//!
//! # Protocol
//!
//! Closing waits for no reader and no owner. Every slot comes home to its page, one way or the other: free ones here,
//! dead ones after their grace period, the rest whenever their last reference goes. The page that has all of its slots
//! back is retired, and drops its count of the core.

use crate::fence::heavy;
use crate::reclaim::ReadSection;
use crate::sync::{Arc, Relaxed};

use super::core::Core;
use super::page::Page;
use super::policy::{Part, Policy};

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Core<S, V, P, D> {
    /// Closes the slab.
    pub(super) fn close(self: &Arc<Self>) {
        // Relaxed: the fence orders it before the take-overs (O48).
        self.closed.store(true, Relaxed);
        heavy();
        let _mark = self.closing.begin();
        let mut contents = {
            let mut depot = self.depot.lock();
            self.take_over_all(&mut depot);
            depot.close()
        };
        while let Some(dead) = contents.waiting.pop() {
            self.hand_over(dead.slots);
        }
        for list in contents.free {
            for slot in list {
                // SAFETY: the slab has closed, and the depot owned the slot.
                unsafe { Page::bring_home(slot) };
            }
        }
    }
}
