//! Removal, of one or of all.

use std::fmt;
use std::hash::BuildHasher;
use std::iter::FusedIterator;
use std::ptr::NonNull;

use crate::reclaim::ReadSection;
use crate::slab::Ref;

use super::Table;
use super::bucket::Edge;
use super::index::{Index, RefOf};
use super::node::TableNode;
use super::object::slot_of;

impl<I: Index, H: BuildHasher> Table<I, H> {
    /// Takes the object with this key out of the table and returns the table's reference to it.
    ///
    /// Of several that remove the same key at the same time one gets it. Guards may still see the object, and it lives on
    /// while somebody has a reference.
    #[must_use = "dropping the reference may end the object; say so with `drop`"]
    pub fn remove(&self, key: &I::Key) -> Option<RefOf<I>> {
        let hash = self.hash(key);
        let guard = self.domain.enter();
        let member = self.search_hashed(&guard, key, hash, Some)?;
        let guess = Edge::to(member.node);
        let mut bucket = self.buckets.of(hash).lock(guess);
        // The same term means the same object under the same key, and in this chain.
        let is_mine = member.is_still_in() && bucket.unlink(member.node);
        drop(bucket);
        // Else somebody was faster, and for a moment the key was not in the table.
        // SAFETY: unlinked by this call.
        is_mine.then(|| unsafe { self.give_up(member.node) })
    }
}

impl<I: Index, H> Table<I, H> {
    /// Takes all objects out, one bucket after the other, and returns the table's references to them.
    ///
    /// What is inserted meanwhile may stay. An iterator that is dropped before its end drops the rest of the references;
    /// one that is leaked leaks those of one bucket.
    #[must_use = "use `clear` to drop the references"]
    pub fn drain(&self) -> Drain<'_, I, H> {
        Drain {
            table: self,
            bucket: 0,
            rest: Edge::NOWHERE,
        }
    }

    /// Takes all objects out and drops the table's references to them.
    ///
    /// What is inserted meanwhile may stay.
    pub fn clear(&self) {
        self.drain().for_each(drop);
    }

    /// Gives up a member that has left its chain.
    ///
    /// # Safety
    ///
    /// 1. The node was a member of this table, and the caller has unlinked it.
    unsafe fn give_up(&self, node: NonNull<TableNode>) -> RefOf<I> {
        // SAFETY: (1): the table's count keeps the page.
        unsafe { node.as_ref() }.release();
        self.members.subtract();
        // SAFETY: (1): members came from `node_of` (table I2).
        let slot = unsafe { slot_of::<I>(node) };
        // SAFETY: (1): the table's count (table I1), which is the reference's from here on.
        unsafe { Ref::from_slot(slot) }
    }
}

/// Takes the objects out of a table; made by [`Table::drain`].
#[must_use = "the objects stay in the table until the iterator comes to them"]
pub struct Drain<'t, I: Index, H> {
    table: &'t Table<I, H>,
    /// The next bucket.
    bucket: usize,
    /// What has been taken out of the last one: unlinked and still claimed, so the links are nobody else's.
    rest: Edge,
}

impl<I: Index, H> Iterator for Drain<'_, I, H> {
    type Item = RefOf<I>;

    fn next(&mut self) -> Option<RefOf<I>> {
        loop {
            if let Some(node) = self.rest.node() {
                // SAFETY: the table's count keeps the page, before it is given up.
                self.rest = unsafe { node.as_ref() }.next();
                // SAFETY: the whole chain was unlinked; each node comes once.
                return Some(unsafe { self.table.give_up(node) });
            }
            let head = self.table.buckets.get(self.bucket)?;
            self.bucket += 1;
            self.rest = head.lock(head.end()).unlink_all();
        }
    }
}

impl<I: Index, H> FusedIterator for Drain<'_, I, H> {}

impl<I: Index, H> Drop for Drain<'_, I, H> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

impl<I: Index, H> fmt::Debug for Drain<'_, I, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain")
            .field("bucket", &self.bucket)
            .finish_non_exhaustive()
    }
}

impl<I: Index, H> Drop for Table<I, H> {
    fn drop(&mut self) {
        self.clear();
    }
}
