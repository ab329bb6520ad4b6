//! `lock-sharded`: 64 locked maps, the shard chosen by the same hash.

use std::hash::BuildHasher;
use std::sync::Arc;

use crate::attributes::InodeId;
use crate::counter::Padded;
use crate::hasher::InodeHash;
use crate::inode::{Body, Phase};
use crate::store::{Pin, Store};
use crate::strategy::lock::{LockedMap, Node};

const SHARD_BITS: u32 = 6;

pub(crate) struct LockedShards([Padded<LockedMap>; 1 << SHARD_BITS]);

impl LockedShards {
    fn shard(&self, id: InodeId) -> &LockedMap {
        // From the middle: the map itself lives on the lowest bits and the topmost.
        let shard = InodeHash.hash_one(id) >> 40;
        &self.0[shard as usize % self.0.len()].0
    }

    fn shards(&self) -> impl Iterator<Item = &LockedMap> {
        self.0.iter().map(|shard| &shard.0)
    }
}

impl Store for LockedShards {
    type Pin = Arc<Node>;
    type Tag = InodeId;

    fn with_capacity(objects: usize) -> Self {
        let each = objects.div_ceil(1 << SHARD_BITS);
        LockedShards(std::array::from_fn(|_| {
            Padded(LockedMap::with_capacity(each))
        }))
    }

    fn get(&self, id: InodeId) -> Option<Arc<Node>> {
        self.shard(id).get(id)
    }

    fn insert(&self, body: Body, phase: Phase) -> Result<Arc<Node>, Arc<Node>> {
        self.shard(body.id()).insert(body, phase)
    }

    fn remove(&self, pin: &Arc<Node>) {
        self.shard(pin.body().id()).remove(pin);
    }

    fn tag(pin: &Arc<Node>) -> InodeId {
        pin.body().id()
    }

    fn by_tag(&self, tag: InodeId) -> Option<Arc<Node>> {
        self.get(tag)
    }

    fn drain(&self) -> Vec<Arc<Node>> {
        self.shards().flat_map(LockedMap::drain).collect()
    }

    fn len(&self) -> usize {
        self.shards().map(LockedMap::len).sum()
    }

    fn waiting(&self) -> u64 {
        0
    }

    fn settle(&self) {}
}
