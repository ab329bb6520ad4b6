//! What the modules' own tests share: numbers in a slab, and a table of them.

use crate::sync::{AtomicU64, Relaxed};
use crate::{Global, Immediate, Slab};

use super::{CandidateOf, Index, Table, TableNode};

pub(super) struct Stable {
    key: AtomicU64,
    node: TableNode,
}

impl Stable {
    pub(super) fn set(&self, key: u64) {
        // Relaxed: published with the object.
        self.key.store(key, Relaxed);
    }
}

crate::node!(pub(super) Node: Stable.node);

pub(super) struct Numbers;

impl Index for Numbers {
    type Node = Node;
    type Value = u64;
    type Policy = Immediate;
    type Domain = Global;
    type Key = u64;

    fn matches(candidate: &CandidateOf<'_, Self>, key: &u64) -> bool {
        // Relaxed: the term judges it.
        candidate.stable().key.load(Relaxed) == *key
    }
}

pub(super) struct Objects {
    pub(super) slab: Slab<Stable, u64>,
    pub(super) table: Table<Numbers>,
}

pub(super) fn objects(buckets: usize) -> Objects {
    let slab = Slab::new(|_| Stable {
        key: AtomicU64::new(0),
        node: TableNode::new(),
    });
    let table = Table::new(&slab, buckets);
    Objects { slab, table }
}
