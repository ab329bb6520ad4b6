//! From a node to the object that it is a part of, and back.

use std::ptr::NonNull;

use crate::slab::{Candidate, Slot, SlotPtr};

use super::index::{CandidateOf, GuardOf, Index, StableOf};
use super::name::offset;
use super::node::{TableNode, Term};

/// The slot of an object of an index.
pub(super) type SlotOf<I> =
    SlotPtr<StableOf<I>, <I as Index>::Value, <I as Index>::Policy, <I as Index>::Domain>;

/// The node of a slot, by the offset alone.
///
/// # Safety
///
/// 1. The slot's page isn't unmapped.
pub(super) unsafe fn node_of<I: Index>(slot: SlotOf<I>) -> NonNull<TableNode> {
    // SAFETY: (1).
    let stable = unsafe { Slot::stable_ptr(slot) };
    // SAFETY: `offset` stays inside the stable part.
    unsafe { stable.byte_add(offset::<I::Node>()) }.cast()
}

/// The slot of a node.
///
/// # Safety
///
/// 1. The node came from [`node_of`] for an index over the same slab and node, and its slot's page isn't unmapped.
#[inline]
pub(super) unsafe fn slot_of<I: Index>(node: NonNull<TableNode>) -> SlotOf<I> {
    // SAFETY: (1): steps back to where `node_of` began.
    let stable = unsafe { node.byte_sub(offset::<I::Node>()) }.cast();
    // SAFETY: (1).
    unsafe { Slot::from_stable(stable) }
}

/// An object as it was seen in a table.
pub(super) struct Member<'g, I: Index> {
    pub(super) node: NonNull<TableNode>,
    pub(super) term: Term,
    pub(super) candidate: CandidateOf<'g, I>,
}

impl<'g, I: Index> Member<'g, I> {
    /// Looks at the object of a node; `None` unless it is a member of `table` and alive.
    ///
    /// # Safety
    ///
    /// 1. The node was found inside the guard, in a chain of an index over the same slab and node; the guard is one of
    ///    the slab's domain.
    #[inline]
    pub(super) unsafe fn see(
        table: u64,
        node: NonNull<TableNode>,
        guard: &'g GuardOf<'_, I>,
    ) -> Option<Self> {
        // SAFETY: (1): it was linked within the guard's time, so its page is there (table I3).
        let term = unsafe { node.as_ref() }.term_in(table)?;
        // SAFETY: (1): what is linked came from `node_of` (table I2), and its page is there.
        let slot = unsafe { slot_of::<I>(node) };
        // SAFETY: (1): a page is retired only when no node of it is linked, since a table counts its members (table I1).
        let candidate = unsafe { Candidate::see(slot, guard) }?;
        Some(Self {
            node,
            term,
            candidate,
        })
    }

    /// Whether everything that was read since was read while the object was this member.
    #[inline]
    pub(super) fn is_still_in(&self) -> bool {
        // SAFETY: as in `see`; the candidate borrows the guard.
        unsafe { self.node.as_ref() }.is_still_in(self.term)
    }

    /// Whether both are the same stay of the same object.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.node == other.node && self.term == other.term
    }
}

impl<I: Index> Clone for Member<'_, I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I: Index> Copy for Member<'_, I> {}
