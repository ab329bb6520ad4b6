//! `lock`: a `HashMap` of `Arc` under one `RwLock`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, RwLock};

use crate::attributes::InodeId;
use crate::hasher::InodeHash;
use crate::inode::{Body, Head, Phase};
use crate::store::{Pin, Store};

const UNPOISONED: &str = "nothing panics under the map's lock";

/// An inode of the strategies that take its memory from the heap.
pub(crate) struct Node {
    head: Head,
    body: Body,
}

impl Node {
    pub(crate) fn new(body: Body, phase: Phase) -> Arc<Self> {
        Arc::new(Node {
            head: Head::used(phase),
            body,
        })
    }
}

impl Pin for Arc<Node> {
    fn head(&self) -> &Head {
        &self.head
    }

    fn body(&self) -> &Body {
        &self.body
    }
}

/// One locked map; also the shard of `lock-sharded`.
pub(crate) struct LockedMap(RwLock<HashMap<InodeId, Arc<Node>, InodeHash>>);

impl Store for LockedMap {
    type Pin = Arc<Node>;
    type Tag = InodeId;

    fn with_capacity(objects: usize) -> Self {
        LockedMap(RwLock::new(HashMap::with_capacity_and_hasher(
            objects, InodeHash,
        )))
    }

    fn get(&self, id: InodeId) -> Option<Arc<Node>> {
        self.0.read().expect(UNPOISONED).get(&id).cloned()
    }

    fn insert(&self, body: Body, phase: Phase) -> Result<Arc<Node>, Arc<Node>> {
        // Allocated before the lock is taken, and on a duplicate dropped after it.
        let node = Node::new(body, phase);
        match self.0.write().expect(UNPOISONED).entry(node.body.id()) {
            Entry::Occupied(present) => Err(present.get().clone()),
            Entry::Vacant(place) => Ok(place.insert(node.clone()).clone()),
        }
    }

    fn remove(&self, pin: &Arc<Node>) {
        self.0.write().expect(UNPOISONED).remove(&pin.body.id());
    }

    fn tag(pin: &Arc<Node>) -> InodeId {
        pin.body.id()
    }

    fn by_tag(&self, tag: InodeId) -> Option<Arc<Node>> {
        self.get(tag)
    }

    fn drain(&self) -> Vec<Arc<Node>> {
        self.0
            .write()
            .expect(UNPOISONED)
            .drain()
            .map(|(_, node)| node)
            .collect()
    }

    fn len(&self) -> usize {
        self.0.read().expect(UNPOISONED).len()
    }

    fn waiting(&self) -> u64 {
        0
    }

    fn settle(&self) {}
}
