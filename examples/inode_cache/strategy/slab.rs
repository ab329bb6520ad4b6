//! What `type-stable` and `per-object` share: inodes in the slots of a [`Slab`], found through a [`Table`] that chains the
//! slots themselves. An inode costs no allocation, and a look-up takes no lock.

use graceperiod::table::{Index, RefOf, SlabOf, StableOf, Table};
use graceperiod::{Global, Key, Policy, Ref, Slab};

use crate::attributes::InodeId;
use crate::hasher::InodeHash;
use crate::inode::{Body, Head, Phase};
use crate::store::{BUCKETS_PER_INODE, Pin, Store};

/// The stable part of a slot: built once, it sees many inodes.
pub(crate) trait InodeSlot: Send + Sync + 'static {
    fn build() -> Self;

    fn head(&self) -> &Head;

    /// Says which inode is going to live here, if the slot itself has to know. Readers may be looking.
    fn set_id(&self, id: InodeId);
}

pub(crate) struct SlabStore<I: Index> {
    slab: SlabOf<I>,
    table: Table<I, InodeHash>,
}

impl<S: InodeSlot, P: Policy<Global>> Pin for Ref<S, Body, P> {
    fn head(&self) -> &Head {
        Ref::stable(self).head()
    }

    fn body(&self) -> &Body {
        self
    }
}

impl<I> Store for SlabStore<I>
where
    I: Index<Value = Body, Domain = Global, Key = InodeId>,
    StableOf<I>: InodeSlot,
{
    type Pin = RefOf<I>;
    type Tag = Key;

    fn with_capacity(objects: usize) -> Self {
        let slab = Slab::builder()
            .name("inode")
            .build(|_| StableOf::<I>::build());
        let table = Table::with_hasher(&slab, BUCKETS_PER_INODE * objects, InodeHash);
        SlabStore { slab, table }
    }

    fn get(&self, id: InodeId) -> Option<RefOf<I>> {
        self.table.get(&id)
    }

    fn insert(&self, body: Body, phase: Phase) -> Result<RefOf<I>, RefOf<I>> {
        let (id, vacant) = (body.id(), self.slab.reserve());
        vacant.stable().set_id(id);
        vacant.stable().head().begin(phase);
        // On a duplicate, the slot goes back unpublished: nobody has ever seen this inode.
        self.table
            .insert_vacant(&id, vacant, body)
            .map_err(|duplicate| duplicate.existing)
    }

    fn remove(&self, pin: &RefOf<I>) {
        // Not the last reference: the caller has one.
        drop(self.table.remove(&pin.id()));
    }

    fn tag(pin: &RefOf<I>) -> Key {
        Ref::key(pin)
    }

    fn by_tag(&self, tag: Key) -> Option<RefOf<I>> {
        // Once its inode has gone, a key matches nothing for ever, however often the slot is used again.
        self.slab.get(tag)
    }

    fn drain(&self) -> Vec<RefOf<I>> {
        self.table.drain().collect()
    }

    fn len(&self) -> usize {
        self.table.len()
    }

    fn waiting(&self) -> u64 {
        self.slab.stats().waiting
    }

    fn settle(&self) {
        graceperiod::barrier();
    }
}
