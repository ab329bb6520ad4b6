//! What a table is an index of, and the types that follow from it.

use std::hash::Hash;

use crate::reclaim::ReadSection;
use crate::slab::{Candidate, Core, Policy, Ref, Slab, Vacant};

use super::name::Node;

/// Says which objects a [`Table`](super::Table) holds, by which node, and what it finds them by.
///
/// The object's identity is whatever [`matches`](Self::matches) compares. It is set before the object is inserted and
/// doesn't change while it is in the table. It normally lives in atomic fields of the stable part, and is written there
/// by the [`Vacant`]'s owner before publishing, or, later on, with at least Release; under
/// [`AfterGrace`](crate::AfterGrace) it may live in the value ([`Candidate::value`]).
pub trait Index: Sized + 'static {
    /// The node that the objects are chained by; names the slab's stable part too.
    type Node: Node;
    /// The slab's value type.
    type Value: Send + Sync + 'static;
    /// The slab's policy.
    type Policy: Policy<Self::Domain>;
    /// The slab's domain: [`Global`](crate::Global) unless you have one of your own.
    type Domain: ReadSection;
    /// What is looked for.
    type Key: Hash + ?Sized;

    /// Whether the candidate has this key.
    ///
    /// Called inside a guard and without a lock, so it may do what it likes, but is on the path of every look-up. The
    /// candidate may be recycled meanwhile: the answer must come whatever is read, and counts only if the object was in
    /// the table throughout. A panic leaves the table as it is.
    fn matches(candidate: &CandidateOf<'_, Self>, key: &Self::Key) -> bool;
}

/// The stable part of an index's objects.
pub type StableOf<I> = <<I as Index>::Node as Node>::Stable;

/// The slab that an index's objects live in.
pub type SlabOf<I> =
    Slab<StableOf<I>, <I as Index>::Value, <I as Index>::Policy, <I as Index>::Domain>;

/// What a slab's handle, its pages and its tables share.
pub(super) type CoreOf<I> =
    Core<StableOf<I>, <I as Index>::Value, <I as Index>::Policy, <I as Index>::Domain>;

/// A counted reference to an object of an index.
pub type RefOf<I> =
    Ref<StableOf<I>, <I as Index>::Value, <I as Index>::Policy, <I as Index>::Domain>;

/// A reserved slot for an object of an index.
pub type VacantOf<I> =
    Vacant<StableOf<I>, <I as Index>::Value, <I as Index>::Policy, <I as Index>::Domain>;

/// An object of an index that was seen alive inside a guard.
pub type CandidateOf<'g, I> =
    Candidate<'g, StableOf<I>, <I as Index>::Value, <I as Index>::Policy, <I as Index>::Domain>;

/// A guard of an index's domain.
pub type GuardOf<'d, I> = <<I as Index>::Domain as ReadSection>::Guard<'d>;
