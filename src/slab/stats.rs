//! Figures about a slab.

use std::fmt;

use crate::reclaim::ReadSection;
use crate::tuning::{MAGAZINE, SLABINFO_PAGE};

use super::core::Core;
use super::page::Page;
use super::policy::{Part, Policy};
use super::slot::Slot;

/// Figures about a slab at one moment; exact when nothing runs.
///
/// Prints as a line of `/proc/slabinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlabStats {
    /// Name of the slab.
    pub name: String,
    /// Incarnations that live now.
    pub live: u64,
    /// Dead ones whose value waits for a grace period in this slab.
    pub waiting: u64,
    /// Incarnations that were ever published.
    pub published: u64,
    /// Slots that are built.
    pub capacity: usize,
    /// Slots that may be built.
    pub max_objects: usize,
    /// Bytes per slot.
    pub slot_bytes: usize,
    /// Slots per page.
    pub page_slots: usize,
    /// Bytes per page.
    pub page_bytes: usize,
    /// Pages.
    pub pages: usize,
    /// Thread caches, as many as were ever needed at once.
    pub caches: usize,
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Core<S, V, P, D> {
    /// Incarnations that live now.
    pub(super) fn live(&self) -> u64 {
        // In this order: who is counted as dead was published before.
        let died = self.sum(|c| &c.died, |c| &c.died);
        let published = self.sum(|c| &c.published, |c| &c.published);
        published.saturating_sub(died)
    }

    pub(super) fn stats(&self) -> SlabStats {
        SlabStats {
            name: self.name.clone(),
            live: self.live(),
            waiting: self.waiting_objects(),
            published: self.sum(|c| &c.published, |c| &c.published),
            capacity: self.growth.capacity(),
            max_objects: self.growth.max_objects,
            slot_bytes: size_of::<Slot<S, V, P, D>>(),
            page_slots: Page::<S, V, P, D>::SLOTS,
            page_bytes: Page::<S, V, P, D>::BYTES,
            pages: self.growth.pages(),
            caches: self.caches.iter().count(),
        }
    }
}

impl fmt::Display for SlabStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects = self.live + self.waiting;
        write!(
            f,
            "{} {} {} {} {} {} : tunables {} {} 0 : slabdata {} {} {}",
            self.name,
            objects,
            self.capacity,
            self.slot_bytes,
            self.page_slots,
            self.page_bytes / SLABINFO_PAGE,
            2 * MAGAZINE,
            MAGAZINE,
            self.pages,
            self.pages,
            self.waiting,
        )
    }
}
