//! How a node is named: by a type, without unsafe code.
//!
//! The table must get from a node to its object and back, for objects that it sees through a chain only. The way there is
//! a constant offset, and the proof that the offset is right is a function from `&Stable` to `&TableNode`: for each object
//! that goes into a table, [`checked`] compares the two. What the function returns lies inside the stable part that it was
//! given (the sizes see to that) and borrows it, and nobody ever has the stable part mutably; so the node is there for as
//! long as the stable part, whatever kind of code the function is. With [`node!`](crate::node) the comparison is
//! decided when the crate is compiled.
//!
//! That makes the trait a safe one. An unsafe trait, implemented by a macro, would ask every user's
//! `#![forbid(unsafe_code)]` to make an exception for the macro's expansion.

use std::ptr;

use super::node::TableNode;

/// Names one [`TableNode`] of a stable part. Implemented by [`node!`](crate::node).
///
/// Safe to implement by hand, and pointless: [`Table::insert`](super::Table::insert) panics if the two items don't name
/// the same field, and an offset outside of the stable part doesn't compile.
pub trait Node: 'static {
    /// The stable part.
    type Stable: Send + Sync + 'static;

    /// Where in it the node is.
    const OFFSET: usize;

    /// Returns the node.
    fn node(stable: &Self::Stable) -> &TableNode;
}

/// The offset, which keeps the node inside the stable part.
#[inline]
pub(super) const fn offset<N: Node>() -> usize {
    const {
        let end = N::OFFSET.checked_add(size_of::<TableNode>());
        assert!(
            matches!(end, Some(end) if end <= size_of::<N::Stable>()),
            "the node lies outside of the stable part; name it with `graceperiod::node!`",
        );
        N::OFFSET
    }
}

/// Returns the node of a stable part, once it is sure that the offset leads to it.
///
/// # Panics
///
/// If the trait was implemented by hand, and wrongly.
#[inline]
pub(super) fn checked<N: Node>(stable: &N::Stable) -> &TableNode {
    let node = N::node(stable);
    let distance = ptr::from_ref(node)
        .addr()
        .wrapping_sub(ptr::from_ref(stable).addr());
    assert!(
        distance == offset::<N>(),
        "graceperiod: `{}` names two different fields; let `graceperiod::node!` implement it",
        std::any::type_name::<N>(),
    );
    node
}

/// Names a [`TableNode`] field of a stable part.
///
/// `node!(pub InodeHash: Inode.hash_node);` declares a type `InodeHash` that implements [`Node`] for
/// the field `hash_node` of `Inode`. Attributes and doc comments may stand in front; the stable part may be a path, but
/// not have generic arguments (give it a type alias); the field may be a field of a field. No unsafe code comes with it:
///
/// ```
/// #![forbid(unsafe_code)]
/// use graceperiod::table::TableNode;
///
/// struct Hashed {
///     by_number: TableNode,
///     by_name: TableNode,
/// }
///
/// struct Inode {
///     hashed: Hashed,
/// }
///
/// graceperiod::node!(
///     /// By number.
///     ByNumber: Inode.hashed.by_number
/// );
/// graceperiod::node!(ByName: Inode.hashed.by_name);
/// # fn main() {}
/// ```
///
/// The field must be a node:
///
/// ```compile_fail,E0308
/// struct Inode {
///     number: u64,
/// }
/// graceperiod::node!(InodeHash: Inode.number);
/// # fn main() {}
/// ```
///
/// ```
/// struct Inode {
///     number: graceperiod::table::TableNode,
/// }
/// graceperiod::node!(InodeHash: Inode.number);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! node {
    ($(#[$meta:meta])* $vis:vis $name:ident: $($stable:ident)::+ . $($field:tt).+ $(;)?) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        $vis enum $name {}

        impl $crate::table::Node for $name {
            type Stable = $($stable)::+;

            const OFFSET: usize = ::core::mem::offset_of!($($stable)::+, $($field).+);

            #[inline]
            fn node(stable: &Self::Stable) -> &$crate::table::TableNode {
                &stable.$($field).+
            }
        }
    };
}
