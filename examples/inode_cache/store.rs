//! What a strategy has to offer: a hash table of inodes, and references that keep one in memory.

use crate::attributes::InodeId;
use crate::inode::{Body, Head, Phase};

/// Buckets of the hash tables that don't grow, for each inode they are made for: most look-ups meet no stranger.
pub(crate) const BUCKETS_PER_INODE: usize = 4;

/// A counted reference: keeps an inode's memory, says nothing about its place in the cache.
pub(crate) trait Pin: Clone + Send + Sync + 'static {
    fn head(&self) -> &Head;
    fn body(&self) -> &Body;
}

/// The memory and the hash table of a cache.
pub(crate) trait Store: Send + Sync + 'static {
    type Pin: Pin;
    /// Names an inode without keeping it: a stale tag finds nothing, or the same file in a later life.
    type Tag: Copy + Send + 'static;

    /// Makes a table for about `objects` inodes.
    fn with_capacity(objects: usize) -> Self;

    /// Looks an inode up and takes a reference.
    fn get(&self, id: InodeId) -> Option<Self::Pin>;

    /// Inserts a new inode with one user; checks for the id in the same step, and returns who is there if it is
    /// taken.
    fn insert(&self, body: Body, phase: Phase) -> Result<Self::Pin, Self::Pin>;

    /// Takes an inode out of the table. Called once, with the inode's lock held.
    fn remove(&self, pin: &Self::Pin);

    fn tag(pin: &Self::Pin) -> Self::Tag;

    fn by_tag(&self, tag: Self::Tag) -> Option<Self::Pin>;

    /// Empties the table.
    fn drain(&self) -> Vec<Self::Pin>;

    /// How many inodes are in the table.
    fn len(&self) -> usize;

    /// How many objects are out of the table and still wait for readers.
    fn waiting(&self) -> u64;

    /// Returns once nothing waits any more. No guard may be live on this thread.
    fn settle(&self);
}
