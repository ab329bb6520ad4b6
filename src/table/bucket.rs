//! A bucket: the word that its chain begins with, the lock in it, and what writers do under it.
//!
//! A head word and a node's `next` hold an [`Edge`]:
//!
//! | bit 0 | bit 1 | the rest | meaning | next | who moves it |
//! |---|---|---|---|---|---|
//! | 0 | 0 | address of a node | the chain goes on there | another node, an end | the lock's owner: link, unlink |
//! | 1 | 0 | address of a head; 0: of none | the chain of that bucket ends | a node | the lock's owner: link |
//! | any | 1 | as above; in heads only | a writer is inside | the same without bit 1 | the lock's owner |
//! | any | 0 | in heads | nobody is inside | the same with bit 1 | any writer: compare-exchange |
//!
//! An end is compared and never followed, so it has no provenance. Since it is the address of the bucket's own head word,
//! it names the array as well as the bucket.
//!
//! # Invariants
//!
//! - I1: the chain that a head begins leads over linked nodes only, each once, to the bucket's own end. Only the lock's
//!   owner changes it: it links at the head and unlinks anywhere, nothing else.
//! - I2: a node that is linked is built and mapped, and stays so for guards that lived while it was linked (the promise
//!   of [`Locked::link`]).
//! - I3: under the lock, the nodes of the chain are those in a term of this table that began under this lock.
//!
//! Source: the kernel's `hlist_nulls` (`Documentation/RCU/rculist_nulls.rst`), whose ends hold the bucket's number.

use std::fmt;
use std::ptr::{self, NonNull};

use crate::sync::{AtomicPtr, Relaxed, edge};
use crate::thread::Snooze;

use super::node::TableNode;

const END: usize = 1 << 0;
const LOCK: usize = 1 << 1;

static_assertions::const_assert!(align_of::<TableNode>() > END | LOCK);
static_assertions::const_assert!(align_of::<Head>() > END | LOCK);

/// A value of a head word or of a node's `next`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge(*mut TableNode);

impl Edge {
    /// The end of no bucket.
    pub(super) const NOWHERE: Self = Self(ptr::without_provenance_mut(END));

    #[inline]
    pub(super) const fn to(node: NonNull<TableNode>) -> Self {
        Self(node.as_ptr())
    }

    #[inline]
    pub(super) const fn from_raw(raw: *mut TableNode) -> Self {
        Self(raw)
    }

    #[inline]
    pub(super) const fn into_raw(self) -> *mut TableNode {
        self.0
    }

    /// The node that the chain goes on to.
    #[inline]
    pub(super) fn node(self) -> Option<NonNull<TableNode>> {
        if self.0.addr() & END == 0 {
            NonNull::new(self.0)
        } else {
            None
        }
    }

    #[inline]
    fn is_locked(self) -> bool {
        self.0.addr() & LOCK != 0
    }

    #[inline]
    fn locked(self) -> Self {
        Self(self.0.map_addr(|addr| addr | LOCK))
    }

    #[inline]
    pub(super) fn unlocked(self) -> Self {
        Self(self.0.map_addr(|addr| addr & !LOCK))
    }
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.node().is_some() { "node" } else { "end" };
        let lock = if self.is_locked() { ", locked" } else { "" };
        write!(f, "Edge({kind}{lock})")
    }
}

/// The head word of a bucket. It doesn't move once it is settled.
pub(super) struct Head(AtomicPtr<TableNode>);

impl Head {
    /// Makes a bucket that has no end yet.
    pub(super) fn new() -> Self {
        Self(AtomicPtr::new(Edge::NOWHERE.into_raw()))
    }

    /// Makes the bucket an empty one that ends in itself: before it is shared, and once it moves no more.
    pub(super) fn settle(&self) {
        // Relaxed: whatever shares the array publishes it.
        self.0.store(self.end().into_raw(), Relaxed);
    }

    /// The end of this bucket's chain.
    #[inline]
    pub(super) fn end(&self) -> Edge {
        Edge(ptr::without_provenance_mut(
            ptr::from_ref(self).addr() | END,
        ))
    }

    /// The word, for a load that the domain protects.
    #[inline]
    pub(super) fn word(&self) -> &AtomicPtr<TableNode> {
        &self.0
    }

    /// Waits for the lock: for a few loads and stores of its owner, never for somebody's code.
    ///
    /// `guess` is what the unlocked head probably holds. A right one saves a load, which might cost a cache miss of its
    /// own before that of the write.
    pub(super) fn lock(&self, guess: Edge) -> Locked<'_> {
        match self.try_lock(guess) {
            Ok(locked) => locked,
            Err(now) => self.lock_slow(now),
        }
    }

    #[cold]
    fn lock_slow(&self, mut now: Edge) -> Locked<'_> {
        let mut snooze = Snooze::new();
        loop {
            if now.is_locked() {
                snooze.wait();
                // Relaxed: only a guess; the compare-exchange decides.
                now = Edge(self.0.load(Relaxed));
                continue;
            }
            match self.try_lock(now) {
                Ok(locked) => return locked,
                Err(changed) => now = changed,
            }
        }
    }

    /// Finishes what a writer that a fork has left behind had begun, in the child, and returns the number of members: what
    /// isn't in a term of `table` leaves the chain.
    ///
    /// Every store of a writer leaves a chain that can be walked, so one that it has left in the middle can be, too.
    ///
    /// # Safety
    ///
    /// 1. The process has no other thread.
    pub(super) unsafe fn repair(&self, table: u64) -> usize {
        // Relaxed: there is one thread (1).
        let now = Edge(self.0.load(Relaxed));
        let mut locked = Locked {
            head: self,
            first: now.unlocked(),
        };
        if !now.is_locked() {
            let members = locked.nodes().count();
            std::mem::forget(locked);
            return members;
        }
        locked.unlink_strangers(table)
    }

    fn try_lock(&self, seen: Edge) -> Result<Locked<'_>, Edge> {
        // Acquire: pairs with the Release in Locked::drop (O61); makes visible what earlier owners did to the chain.
        // Relaxed on failure: only a guess again.
        match self
            .0
            .compare_exchange_weak(seen.0, seen.locked().0, edge!(O61, Acquire), Relaxed)
        {
            Ok(_) => Ok(Locked {
                head: self,
                first: seen,
            }),
            Err(now) => Err(Edge(now)),
        }
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: nothing is followed.
        let edge = Edge(self.0.load(Relaxed));
        f.debug_tuple("Head").field(&edge).finish()
    }
}

/// A bucket in the hands of one writer. Nothing in here runs foreign code, allocates or waits.
#[derive(Debug)]
#[must_use = "the lock is given back when this is dropped"]
pub(super) struct Locked<'b> {
    head: &'b Head,
    /// What the head word holds, or will hold when the lock is given back.
    first: Edge,
}

impl Locked<'_> {
    /// Iterates over the linked nodes, the last one linked first.
    pub(super) fn nodes(&self) -> Nodes<'_> {
        Nodes {
            at: self.first,
            _lock: self,
        }
    }

    /// Puts a node at the head of the chain and begins its term.
    ///
    /// # Safety
    ///
    /// 1. The node is built, and stays mapped while it is linked, and afterwards until every guard of the table's domain
    ///    that lived while it was linked has gone.
    /// 2. The caller has claimed it for this bucket's table, under this lock, and set its hash.
    pub(super) unsafe fn link(&mut self, node: NonNull<TableNode>) {
        let first = Edge::to(node);
        // SAFETY: (1).
        let node = unsafe { node.as_ref() };
        node.set_next(self.first);
        // Release: pairs with the Acquire of readers (O60). The lock stays; nobody else changes a locked head.
        self.head.0.store(first.locked().0, edge!(O60, Release));
        self.first = first;
        // Only now: whoever finds the node in its term, by whichever way, knows that the head leads to it.
        node.begin_term();
    }

    /// Ends a linked node's term and takes it out of the chain; false if it isn't in it.
    ///
    /// Its `next` stays as it is, so that readers who stand on it can go on.
    pub(super) fn unlink(&mut self, node: NonNull<TableNode>) -> bool {
        let mut before: Option<NonNull<TableNode>> = None;
        for linked in self.nodes() {
            if linked != node {
                before = Some(linked);
                continue;
            }
            // SAFETY: linked (I2).
            let node = unsafe { node.as_ref() };
            node.end_term();
            match before {
                // SAFETY: linked (I2).
                Some(before) => unsafe { before.as_ref() }.set_next(node.next()),
                None => self.first = node.next(),
            }
            return true;
        }
        false
    }

    /// Takes every node out of the chain that isn't in a term of `table`; returns how many are left.
    fn unlink_strangers(&mut self, table: u64) -> usize {
        let mut members = 0;
        let mut before: Option<NonNull<TableNode>> = None;
        let mut next = self.first;
        while let Some(at) = next.node() {
            // SAFETY: linked (I2).
            let node = unsafe { at.as_ref() };
            next = node.next();
            if node.term_in(table).is_some() {
                members += 1;
                before = Some(at);
                continue;
            }
            match before {
                // SAFETY: linked (I2).
                Some(before) => unsafe { before.as_ref() }.set_next(next),
                None => self.first = next,
            }
        }
        members
    }

    /// Ends the term of all nodes and takes the whole chain out. The nodes keep their links.
    pub(super) fn unlink_all(&mut self) -> Edge {
        for node in self.nodes() {
            // SAFETY: linked (I2).
            unsafe { node.as_ref() }.end_term();
        }
        std::mem::replace(&mut self.first, self.head.end())
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of readers (O60) and of the next owner (O61). A plain store, since nobody else
        // changes a locked head.
        self.head.0.store(self.first.0, edge!(O60 O61, Release));
    }
}

/// The nodes that a lock keeps in their chain.
#[derive(Debug)]
pub(super) struct Nodes<'l> {
    at: Edge,
    _lock: &'l Locked<'l>,
}

impl Iterator for Nodes<'_> {
    type Item = NonNull<TableNode>;

    fn next(&mut self) -> Option<NonNull<TableNode>> {
        let node = self.at.node()?;
        // SAFETY: linked (I2), since the lock keeps the chain as it is.
        self.at = unsafe { node.as_ref() }.next();
        Some(node)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn heads<const N: usize>() -> Box<[Head; N]> {
        let heads = Box::new(std::array::from_fn(|_| Head::new()));
        heads.iter().for_each(Head::settle);
        heads
    }

    fn link(head: &Head, node: &TableNode) {
        let mut bucket = head.lock(head.end());
        assert!(node.claim(1));
        // SAFETY: the node outlives the head in these tests, and was claimed.
        unsafe { bucket.link(NonNull::from(node)) };
    }

    fn unlink(head: &Head, node: &TableNode) -> bool {
        head.lock(head.end()).unlink(NonNull::from(node))
    }

    fn chain(head: &Head) -> Vec<*const TableNode> {
        let bucket = head.lock(head.end());
        bucket
            .nodes()
            .map(|node| node.as_ptr().cast_const())
            .collect()
    }

    #[test]
    fn node_end_and_lock_are_told_apart() {
        let (node, heads) = (TableNode::new(), heads::<2>());
        let to = Edge::to(NonNull::from(&node));
        assert_eq!(to.node(), Some(NonNull::from(&node)));
        assert_eq!(heads[0].end().node(), None);
        assert_ne!(heads[0].end(), heads[1].end());
        assert_ne!(heads[0].end(), Edge::NOWHERE);
        for edge in [to, heads[0].end(), Edge::NOWHERE] {
            assert!(!edge.is_locked());
            assert!(edge.locked().is_locked());
            assert_eq!(edge.locked().unlocked(), edge);
            assert_eq!(edge.unlocked(), edge);
        }
    }

    #[test]
    fn a_settled_bucket_is_empty_and_ends_in_itself() {
        let heads = heads::<1>();
        assert!(chain(&heads[0]).is_empty());
        assert_eq!(heads[0].lock(heads[0].end()).unlink_all(), heads[0].end());
    }

    #[test]
    fn nodes_are_linked_at_the_head_and_unlinked_anywhere() {
        let nodes = [const { TableNode::new() }; 3];
        let heads = heads::<1>();
        let head = &heads[0];
        for node in &nodes {
            link(head, node);
        }
        let [a, b, c] = nodes.each_ref().map(ptr::from_ref);
        assert_eq!(chain(head), [c, b, a]);
        assert!(unlink(head, &nodes[1]));
        assert_eq!(chain(head), [c, a]);
        assert!(!unlink(head, &nodes[1]));
        assert!(unlink(head, &nodes[2]));
        assert!(unlink(head, &nodes[0]));
        assert!(chain(head).is_empty());
    }

    #[test]
    fn unlinking_leaves_the_way_on() {
        let nodes = [const { TableNode::new() }; 2];
        let heads = heads::<1>();
        let head = &heads[0];
        for node in &nodes {
            link(head, node);
        }
        assert!(unlink(head, &nodes[1]));
        assert_eq!(nodes[1].next(), Edge::to(NonNull::from(&nodes[0])));
        assert!(unlink(head, &nodes[0]));
        assert_eq!(nodes[0].next(), head.end());
    }

    #[test]
    fn everything_is_taken_out_at_once() {
        let nodes = [const { TableNode::new() }; 2];
        let heads = heads::<1>();
        let head = &heads[0];
        for node in &nodes {
            link(head, node);
        }
        let first = head.lock(head.end()).unlink_all();
        assert_eq!(first.node(), Some(NonNull::from(&nodes[1])));
        assert!(chain(head).is_empty());
        assert!(nodes.iter().all(|node| node.term_in(1).is_none()));
    }
}
