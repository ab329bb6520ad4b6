//! `per-object`: a freed slot waits for a grace period, so an inode that a reader has found stays that inode until the
//! reader leaves. The identity needs no place of its own: it is read from the value, without a count.

use graceperiod::table::{CandidateOf, Index, TableNode};
use graceperiod::{AfterGrace, Global};

use crate::attributes::InodeId;
use crate::inode::{Body, Head};
use crate::strategy::slab::{InodeSlot, SlabStore};

pub(crate) type PerObject = SlabStore<ById>;

pub(crate) struct Slot {
    hash: TableNode,
    head: Head,
}

graceperiod::node!(pub(crate) SlotHash: Slot.hash);

pub(crate) enum ById {}

impl Index for ById {
    type Node = SlotHash;
    type Value = Body;
    type Policy = AfterGrace;
    type Domain = Global;
    type Key = InodeId;

    fn matches(candidate: &CandidateOf<'_, Self>, id: &InodeId) -> bool {
        candidate.value().id() == *id
    }
}

impl InodeSlot for Slot {
    fn build() -> Self {
        Slot {
            hash: TableNode::new(),
            head: Head::vacant(),
        }
    }

    fn head(&self) -> &Head {
        &self.head
    }

    fn set_id(&self, _id: InodeId) {}
}
