//! What an object is chained by.
//!
//! Each stay of a node in a chain is a *term*, and has a number.
//!
//! | owner | term | state | next | who moves it |
//! |---|---|---|---|---|
//! | 0 | even | in no table | claimed | insert: compare-exchange of the owner, under the lock of the bucket |
//! | id | even | claimed | in a term | the same insert, once the head leads to the node |
//! | id | odd | a member of the table | ended | the bucket's lock's owner |
//! | id | even | ended | in no table | who ended it, after the unlink |
//!
//! A member's identity doesn't change during a term. So whoever saw a term before it compared and sees the same one
//! afterwards has compared a member; a number that was taken twice would need 2^63 insertions.
//!
//! # Invariants
//!
//! - I1: `hash`, and `next` at the node's own insertion, are written by who has claimed it; while it is linked, `next` is
//!   written for a successor that leaves, under the bucket's lock.
//! - I2: leaving a chain doesn't change `next`. The constructor gives it an end that no bucket has, and no reuse of the
//!   slot clears it: null is never seen there.

use std::fmt;

use crate::sync::{Acquire, AtomicPtr, AtomicU64, Relaxed, edge, fence};

use super::bucket::Edge;

/// What an object needs for being in a [`Table`](super::Table): a field of its stable part, named with
/// [`node!`](crate::node).
///
/// An object may have several, for several tables. Each is in one table at a time.
#[doc(alias = "hlist_nulls_node")]
pub struct TableNode {
    next: AtomicPtr<TableNode>,
    hash: AtomicU64,
    term: AtomicU64,
    owner: AtomicU64,
}

/// One stay of a node in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term(u64);

impl TableNode {
    crate::sync::const_fn! {
        /// Makes a node that is in no table.
        #[must_use]
        pub fn new() -> Self {
            Self {
                next: AtomicPtr::new(Edge::NOWHERE.into_raw()),
                hash: AtomicU64::new(0),
                term: AtomicU64::new(0),
                owner: AtomicU64::new(0),
            }
        }
    }

    /// Whether the node is in a table now, or on its way in or out.
    #[doc(alias = "hlist_unhashed")]
    #[must_use]
    pub fn is_in_table(&self) -> bool {
        // Relaxed: an answer about the past, whatever the ordering.
        self.owner.load(Relaxed) != 0
    }

    /// Takes the node for a table, unless one has it. Only under the lock of the bucket that it will go into.
    pub(super) fn claim(&self, table: u64) -> bool {
        // Acquire: pairs with the Release in release (O63); the last table has looked at `next` for the last time.
        // Relaxed on failure: nothing is done then.
        self.owner
            .compare_exchange(0, table, edge!(O63, Acquire), Relaxed)
            .is_ok()
    }

    /// Takes the node of a vacant slot for a table: no table can have it, since each gives the node back before the count.
    pub(super) fn claim_vacant(&self, table: u64) {
        // Relaxed: whoever reserved the slot comes after the drop of its last count, and that after the release (O63).
        debug_assert_eq!(self.owner.load(Relaxed), 0, "a vacant slot is in no table");
        // Relaxed: nobody else claims it meanwhile; readers learn of it with the term.
        self.owner.store(table, Relaxed);
    }

    /// Gives the node back, after its term.
    pub(super) fn release(&self) {
        // Release: pairs with the Acquire in claim (O63).
        self.owner.store(0, edge!(O63, Release));
    }

    /// The node's term in `table`, if it is a member of it.
    #[inline]
    pub(super) fn term_in(&self, table: u64) -> Option<Term> {
        // Acquire: pairs with the Release in begin_term (O64); makes the object's identity in this term visible, and its
        // owner.
        let term = self.term.load(edge!(O64, Acquire));
        // Relaxed: the owner of this term or of a later one; which of the two, is_still_in tells.
        (term & 1 == 1 && self.owner.load(Relaxed) == table).then_some(Term(term))
    }

    /// Whether everything that was read since [`term_in`](Self::term_in) was read during that term.
    #[inline]
    pub(super) fn is_still_in(&self, term: Term) -> bool {
        // Acquire: a fence, which pairs with the Release of whoever wrote an identity after the term (O65): the slab's
        // fence before a reuse (O42), or the store of a user who changes a removed object.
        edge!(O65, fence(Acquire));
        // Relaxed: the fence orders it after the reads that it judges.
        self.term.load(Relaxed) == term.0
    }

    /// Makes the node a member of the table that has claimed it.
    pub(super) fn begin_term(&self) {
        // Relaxed: only who has claimed the node, or holds the lock it is linked under, changes the number.
        let term = self.term.load(Relaxed) + 1;
        // Release: pairs with the Acquire in term_in (O64).
        self.term.store(term, edge!(O64, Release));
    }

    /// Ends the membership.
    pub(super) fn end_term(&self) {
        // Relaxed: as in begin_term.
        let term = self.term.load(Relaxed) + 1;
        // Relaxed: nobody learns anything from it. What is written to the object afterwards is ordered by its writer (O65).
        self.term.store(term, Relaxed);
    }

    #[inline]
    pub(super) fn hash(&self) -> u64 {
        // Relaxed: whoever has the pointer has seen the hash of the term in which it was linked (O60, O62); a later one's
        // may only mislead somebody who is astray.
        self.hash.load(Relaxed)
    }

    /// Sets the hash of the next term. Only for who has claimed the node.
    pub(super) fn set_hash(&self, hash: u64) {
        // Relaxed: published with the pointer (O60, O62).
        self.hash.store(hash, Relaxed);
    }

    #[inline]
    pub(super) fn next(&self) -> Edge {
        // Acquire: pairs with the Release in set_next (O62); makes the next node's content visible.
        Edge::from_raw(self.next.load(edge!(O62, Acquire)))
    }

    /// Sets the way on. Only for who has claimed the node, or holds the lock it is linked under.
    pub(super) fn set_next(&self, next: Edge) {
        // Release: pairs with the Acquire in next (O62). The head alone isn't enough: a reader who has stood on this node
        // since an earlier term goes on from here.
        self.next.store(next.into_raw(), edge!(O62, Release));
    }
}

impl Default for TableNode {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TableNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableNode")
            .field("is_in_table", &self.is_in_table())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_one_owner_at_a_time() {
        let node = TableNode::new();
        assert!(!node.is_in_table());
        assert!(node.claim(5));
        assert!(!node.claim(5));
        assert!(!node.claim(6));
        assert!(node.is_in_table());
        node.release();
        assert!(node.claim(6));
    }

    #[test]
    fn a_term_is_told_from_any_other() {
        let node = TableNode::new();
        assert!(node.claim(5));
        assert_eq!(node.term_in(5), None);
        node.begin_term();
        assert_eq!(node.term_in(6), None);
        let first = node.term_in(5).expect("a term");
        assert!(node.is_still_in(first));
        node.end_term();
        assert!(!node.is_still_in(first));
        assert_eq!(node.term_in(5), None);
        node.begin_term();
        assert!(!node.is_still_in(first));
        assert_ne!(node.term_in(5), Some(first));
    }

    #[test]
    fn a_new_node_leads_to_the_end_of_no_bucket() {
        assert_eq!(TableNode::new().next(), Edge::NOWHERE);
    }
}
