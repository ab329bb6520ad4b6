//! An intrusive hash table over a slab, whose readers take no lock and write nothing.
//!
//! # Protocol
//!
//! A bucket is a chain of nodes, each in the stable part of an object. Since the slab reuses slots under a reader's eyes,
//! a node can leave one chain and enter another while a reader stands on it. Two things keep the reader right:
//!
//! - The end of a chain names its bucket (*nulls*). A reader that comes to another end was led astray, and begins anew.
//! - A node's stay in a table has a number, its *term*. A reader that finds a key looks at the term before and after it
//!   compares, so what it found was a member under that very key.
//!
//! Reader: inside a guard, load the head, walk; at each node with the right hash: term (odd, and the owner is this
//! table), state of the slot (alive), compare, fence, term again. Then `get` counts by one compare-exchange on
//! that very incarnation, `peek` reads and looks at the state again. After 16 walks that led nowhere it lists the
//! bucket's members with that hash under the lock, and compares them without it.
//!
//! Writer: lock the bucket (a bit in the head), see that the key isn't there (`insert`), claim the node, set its hash,
//! link it at the head, begin the term, unlock. Or: end the term, unlink, unlock, give the node back, then the count. An
//! object is in the table from the beginning of its term to the end: both come under the lock, and while the head leads to
//! the node.
//!
//! Foreign code (hash, comparison, closures, destructors) runs without a lock.
//!
//! # Invariants
//!
//! - I1: a member's node is claimed by its table, which has one count of the object, from before the link until after the
//!   unlink and the end of the term.
//! - I2: what is linked is the node of a slot of the table's slab at the index's offset, and a real node is there:
//!   insertion checks both.
//! - I3: **no reader comes to a node by a term that ended before its guard was entered** ("before" is happens-before). So
//!   its page is there: a page is retired after every term of its nodes has ended (I1), and the domain either waits for
//!   the guard, or all of that came before it.
//!
//!   Only one pointer leads to a node in its term: the head, or the `next` of the node before it, in a term of the same
//!   bucket. The unlink overwrites that pointer, unless the other node's term ended first; then that one ended before the
//!   guard, too, nobody comes to the node by it (by induction over the order of the unlinks), and the next link of the
//!   node overwrites its `next` before the node can be come to again. Whoever comes to a node reads its `next` at least
//!   as new as the pointer that led there (O60, O62). What is overwritten before the guard isn't read inside it.
//! - I4: **who comes to its own bucket's end has passed every object that was a member throughout the walk.** Let K be
//!   one. Nodes enter at the head only, so the order of a chain never changes, and each term of this bucket that began
//!   after K's stands before K. The head leads to K or to such a term, and such a term leads to another one or to K. If
//!   the node has been linked again by the time its `next` is read, that term began after K's as well: in this bucket it
//!   stands before K, and from another bucket the walk comes back only by nodes that were linked here later still, or
//!   ends there. So the walk can't come to the end of this bucket without K.
//!
//! # Orderings
//!
//! - O60: `Locked::link` and the unlock (Release) -> the protected load of the head (Acquire): the nodes' content, and that
//!   of their pages.
//! - O61: the unlock (Release) -> `Head::try_lock` (Acquire): the chain.
//! - O62: `TableNode::set_next` (Release) -> `next` (Acquire): the next node's content, above all *its* `next`: an old one
//!   could end in the reader's own bucket.
//! - O63: `release` of a node (Release) -> `claim` (Acquire): the last table's look at `next` comes before the next
//!   table's writing.
//! - O64: `begin_term` (Release) -> `term_in` (Acquire): the object's identity in this term, its owner, and that the head
//!   leads to it.
//! - O65: who writes an identity after a term (Release) -> `is_still_in` (an Acquire fence): that the term is over.
//!
//! # Departures
//!
//! The kernel's readers compare the key again after they have taken a reference, and give a wrong one back; there, giving
//! back touched an owner that was gone (CVE-2025-38554). Here terms decide before anything is counted. They also keep
//! readers from finding an object that has the key but isn't in the table yet: one that the last walk's node was recycled
//! for, and whose insertion may fail.

mod bucket;
mod buckets;
mod error;
mod fork;
mod index;
mod insert;
mod lookup;
mod members;
mod name;
mod namesakes;
mod node;
mod object;
mod remove;
mod walk;

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ptr;

use crate::slab::Page;
use crate::sync::{Arc, next_id};

pub use self::error::{DuplicateVacant, TableInsertError};
pub use self::index::{CandidateOf, GuardOf, Index, RefOf, SlabOf, StableOf, VacantOf};
pub use self::name::Node;
pub use self::node::TableNode;
pub use self::remove::Drain;

use self::buckets::Buckets;
use self::fork::Whole;
use self::index::CoreOf;
use self::members::Members;
use self::object::SlotOf;

/// A hash table of objects of one slab, which look-ups read without a lock.
///
/// It is intrusive: an object brings the [`TableNode`] that it is chained by, so the table allocates nothing for it. It
/// owns one reference to each member. The number of buckets is fixed; three to four for each object that you expect cost
/// 24 to 32 bytes, and most look-ups then meet no stranger.
///
/// The user handle: it holds its domain open, and only the memory of its slab. Dropping it drops its references.
///
/// Identity is what [`Index::matches`] compares. Here it lives in an atomic field of the stable part:
///
/// ```
/// #![forbid(unsafe_code)]
/// use graceperiod::table::{CandidateOf, Index, Table, TableNode};
/// use graceperiod::{Global, Immediate, Ref, Slab};
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// struct Inode {
///     number: AtomicU64,
///     hash_node: TableNode,
/// }
/// graceperiod::node!(InodeHash: Inode.hash_node);
///
/// struct ByNumber;
/// impl Index for ByNumber {
///     type Node = InodeHash;
///     type Value = String;
///     type Policy = Immediate;
///     type Domain = Global;
///     type Key = u64;
///
///     fn matches(candidate: &CandidateOf<'_, Self>, number: &u64) -> bool {
///         candidate.stable().number.load(Relaxed) == *number
///     }
/// }
///
/// # fn main() {
/// let slab = Slab::new(|_| Inode { number: AtomicU64::new(0), hash_node: TableNode::new() });
/// let inodes: Table<ByNumber> = Table::new(&slab, 1_024);
///
/// let vacant = slab.reserve();
/// vacant.stable().number.store(7, Relaxed);
/// let inode = inodes.insert_vacant(&7, vacant, String::from("seven")).unwrap();
///
/// assert_eq!(*inodes.get(&7).unwrap(), "seven");
/// assert_eq!(inodes.peek(&7, |inode| inode.number.load(Relaxed)), Some(7));
///
/// let removed = inodes.remove(&7).unwrap();
/// assert!(Ref::ptr_eq(&inode, &removed));
/// assert!(inodes.get(&7).is_none());
/// # }
/// ```
#[doc(alias = "rhashtable")]
#[doc(alias = "hlist_nulls")]
pub struct Table<I: Index, H = RandomState> {
    id: u64,
    hasher: H,
    buckets: Buckets,
    members: Arc<Members>,
    /// What a fork finds the table by.
    _whole: Arc<Whole>,
    slab: Arc<CoreOf<I>>,
    domain: I::Domain,
}

impl<I: Index> Table<I> {
    /// Makes a table of at least `buckets` buckets, rounded up to a power of two, for objects of this slab.
    ///
    /// # Panics
    ///
    /// If `buckets` is 0, or more than memory could hold.
    #[must_use]
    pub fn new(slab: &SlabOf<I>, buckets: usize) -> Self {
        Self::with_hasher(slab, buckets, RandomState::new())
    }
}

impl<I: Index, H> Table<I, H> {
    /// As [`new`](Self::new), with a hasher of your own. It needn't spread its values well over the bits.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    #[must_use]
    pub fn with_hasher(slab: &SlabOf<I>, buckets: usize, hasher: H) -> Self {
        let (id, buckets) = (next_id(), Buckets::new(buckets));
        let members = Arc::new(Members::new());
        let whole = Whole::register(id, &buckets, &members);
        Self {
            id,
            hasher,
            buckets,
            members,
            _whole: whole,
            slab: Arc::clone(slab.core()),
            domain: slab.domain().clone(),
        }
    }

    /// Returns the number of members; exact when nothing runs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.get()
    }

    /// Whether the table has no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of buckets.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Returns the hasher.
    #[must_use]
    pub fn hasher(&self) -> &H {
        &self.hasher
    }

    fn assert_own(&self, slot: SlotOf<I>) {
        // SAFETY: the caller has a reference to the slot, or reserved it.
        let core = unsafe { Page::borrow_core(slot) };
        assert!(
            ptr::eq(core, &*self.slab),
            "graceperiod: this object belongs to another slab than the table; make a table for each slab",
        );
    }
}

impl<I: Index, H: BuildHasher> Table<I, H> {
    #[inline]
    fn hash(&self, key: &I::Key) -> u64 {
        self.hasher.hash_one(key)
    }
}

impl<I: Index, H> fmt::Debug for Table<I, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("len", &self.len())
            .field("buckets", &self.buckets())
            .finish_non_exhaustive()
    }
}
