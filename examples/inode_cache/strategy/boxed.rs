//! `boxed`: a hash table of heap boxes, its bucket heads and links [`RcuOption`]s. Look-ups take no lock and write
//! nothing but the count of the inode they find; writers lock a bucket. Whatever a writer unlinks stays as it is until the
//! readers that may stand on it have left.

use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard};

use graceperiod::RcuOption;

use crate::attributes::InodeId;
use crate::counter::Counter;
use crate::hasher::InodeHash;
use crate::inode::{Body, Head, Phase};
use crate::store::{BUCKETS_PER_INODE, Pin, Store};

pub(crate) struct Boxed {
    buckets: Box<[Bucket]>,
    len: Counter,
}

/// A chain; new inodes go to its front.
#[derive(Default)]
struct Bucket {
    first: Link,
    writer: Mutex<()>,
}

type Link = RcuOption<Arc<Node>>;

pub(crate) struct Node {
    head: Head,
    body: Body,
    next: Link,
}

impl Pin for Arc<Node> {
    fn head(&self) -> &Head {
        &self.head
    }

    fn body(&self) -> &Body {
        &self.body
    }
}

impl Bucket {
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.writer
            .lock()
            .expect("nothing panics under a bucket's lock")
    }

    fn find(&self, id: InodeId) -> Option<Arc<Node>> {
        let guard = graceperiod::enter();
        let mut link = &self.first;
        while let Some(node) = link.load(&guard) {
            if node.body.id() == id {
                // Its box holds a count as long as the guard lives, so the count is never found at zero.
                return Some(node.clone());
            }
            link = &node.next;
        }
        None
    }

    /// Returns whose link leads to `wanted` (`None`: the bucket's own), and what comes behind it.
    fn neighbours(&self, wanted: &Arc<Node>) -> (Option<Arc<Node>>, Option<Arc<Node>>) {
        let guard = graceperiod::enter();
        let mut before: Option<&Arc<Node>> = None;
        let mut link = &self.first;
        while let Some(node) = link.load(&guard) {
            if Arc::ptr_eq(node, wanted) {
                break;
            }
            before = Some(node);
            link = &node.next;
        }
        (before.cloned(), wanted.next.load(&guard).cloned())
    }
}

impl Boxed {
    fn bucket(&self, id: InodeId) -> &Bucket {
        // The number of buckets is a power of two.
        &self.buckets[InodeHash.hash_one(id) as usize & (self.buckets.len() - 1)]
    }
}

impl Store for Boxed {
    type Pin = Arc<Node>;
    type Tag = InodeId;

    fn with_capacity(objects: usize) -> Self {
        let buckets = (0..(BUCKETS_PER_INODE * objects).next_power_of_two())
            .map(|_| Bucket::default())
            .collect();
        Boxed {
            buckets,
            len: Counter::default(),
        }
    }

    fn get(&self, id: InodeId) -> Option<Arc<Node>> {
        self.bucket(id).find(id)
    }

    fn insert(&self, body: Body, phase: Phase) -> Result<Arc<Node>, Arc<Node>> {
        let bucket = self.bucket(body.id());
        let _writer = bucket.lock();
        if let Some(existing) = bucket.find(body.id()) {
            return Err(existing);
        }
        let next = bucket.first.load(&graceperiod::enter()).cloned();
        let node = Arc::new(Node {
            head: Head::used(phase),
            body,
            next: Link::new(next),
        });
        // Outside any guard, since it retires the box that was there.
        bucket.first.replace(Some(node.clone()));
        self.len.add(1);
        Ok(node)
    }

    fn remove(&self, pin: &Arc<Node>) {
        let bucket = self.bucket(pin.body.id());
        let _writer = bucket.lock();
        let (before, behind) = bucket.neighbours(pin);
        // The removed inode keeps its own link: a reader that stands on it still finds its way.
        before
            .as_ref()
            .map_or(&bucket.first, |node| &node.next)
            .replace(behind);
        self.len.add(-1);
    }

    fn tag(pin: &Arc<Node>) -> InodeId {
        pin.body.id()
    }

    fn by_tag(&self, tag: InodeId) -> Option<Arc<Node>> {
        self.get(tag)
    }

    fn drain(&self) -> Vec<Arc<Node>> {
        let mut drained = Vec::new();
        for bucket in &self.buckets {
            let _writer = bucket.lock();
            let guard = graceperiod::enter();
            let mut link = &bucket.first;
            while let Some(node) = link.load(&guard) {
                drained.push(node.clone());
                link = &node.next;
            }
            drop(guard);
            bucket.first.take();
        }
        self.len.add(-(drained.len() as i64));
        drained
    }

    fn len(&self) -> usize {
        usize::try_from(self.len.sum()).expect("a table has no fewer than no inodes")
    }

    fn waiting(&self) -> u64 {
        graceperiod::stats().pending_objects
    }

    fn settle(&self) {
        // A barrier would not do: the box of an inode that is dropped retires the box of the next one.
        let left = graceperiod::drain();
        debug_assert_eq!(left.left, 0);
    }
}
