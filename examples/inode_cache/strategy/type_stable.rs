//! `type-stable`: a freed slot is used again at once, even while a reader looks at it; all that a reader can count
//! on is that it stays a slot of inodes. So the identity is in the stable part, where it can be compared at any time.

use std::sync::atomic::{AtomicU64, Ordering};

use graceperiod::table::{CandidateOf, Index, TableNode};
use graceperiod::{Global, Immediate};

use crate::attributes::InodeId;
use crate::inode::{Body, Head};
use crate::strategy::slab::{InodeSlot, SlabStore};

pub(crate) type TypeStable = SlabStore<ById>;

pub(crate) struct Slot {
    hash: TableNode,
    device: AtomicU64,
    number: AtomicU64,
    head: Head,
}

graceperiod::node!(pub(crate) SlotHash: Slot.hash);

pub(crate) enum ById {}

impl Index for ById {
    type Node = SlotHash;
    type Value = Body;
    type Policy = Immediate;
    type Domain = Global;
    type Key = InodeId;

    fn matches(candidate: &CandidateOf<'_, Self>, id: &InodeId) -> bool {
        let slot = candidate.stable();
        // Relaxed: may mix two inodes; the table believes it only if the slot kept its inode meanwhile.
        slot.number.load(Ordering::Relaxed) == id.number
            && slot.device.load(Ordering::Relaxed) == id.device
    }
}

impl InodeSlot for Slot {
    fn build() -> Self {
        Slot {
            hash: TableNode::new(),
            device: AtomicU64::new(0),
            number: AtomicU64::new(0),
            head: Head::vacant(),
        }
    }

    fn head(&self) -> &Head {
        &self.head
    }

    fn set_id(&self, id: InodeId) {
        // Relaxed: publishing the slot makes it visible.
        self.device.store(id.device, Ordering::Relaxed);
        self.number.store(id.number, Ordering::Relaxed);
    }
}
