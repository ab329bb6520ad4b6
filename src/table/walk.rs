//! A reader's way along a chain, without a lock and without a write.

use std::ptr::NonNull;

use crate::tuning::TABLE_STEPS;

use super::bucket::{Edge, Head};
use super::node::TableNode;

/// A walk that began at a bucket's head.
#[derive(Debug)]
pub(super) struct Walk<'t> {
    head: &'t Head,
    at: Edge,
    steps: u32,
}

/// Where a walk has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A node whose stored hash is the one that is looked for.
    Node(NonNull<TableNode>),
    /// The end of the bucket: everything that was in it throughout the walk was passed.
    End,
    /// The end of another bucket, or none in sight: a node was recycled under the walk.
    Astray,
}

impl<'t> Walk<'t> {
    /// Begins with what `head`'s word held.
    ///
    /// # Safety
    ///
    /// 1. `first` was loaded from the head's word with Acquire, under the protection of a guard of the table's domain.
    /// 2. That guard outlives the walk and all that is done with its nodes.
    #[inline]
    pub(super) unsafe fn new(head: &'t Head, first: *mut TableNode) -> Self {
        Self {
            head,
            at: Edge::from_raw(first).unlocked(),
            steps: 0,
        }
    }

    /// Goes on to the next node with this hash, or to an end.
    #[inline]
    pub(super) fn next_with(&mut self, hash: u64) -> Step {
        while let Some(node) = self.at.node() {
            if self.steps == TABLE_STEPS {
                return Step::Astray;
            }
            self.steps += 1;
            // SAFETY: it was linked within the guard's time, so its page is there (table I3).
            let here = unsafe { node.as_ref() };
            self.at = here.next();
            if here.hash() == hash {
                return Step::Node(node);
            }
        }
        if self.at == self.head.end() {
            Step::End
        } else {
            Step::Astray
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Acquire;

    fn link(head: &Head, node: &TableNode, hash: u64) {
        assert!(node.claim(1));
        node.set_hash(hash);
        // SAFETY: claimed, and the node outlives the walks.
        unsafe { head.lock(head.end()).link(NonNull::from(node)) };
    }

    fn unlink(head: &Head, node: &TableNode) {
        assert!(head.lock(head.end()).unlink(NonNull::from(node)));
        node.release();
    }

    fn walk(head: &Head) -> Walk<'_> {
        // SAFETY: the nodes of these tests are there for as long as the walk.
        unsafe { Walk::new(head, head.word().load(Acquire)) }
    }

    fn settled() -> Box<Head> {
        let head = Box::new(Head::new());
        head.settle();
        head
    }

    #[test]
    fn only_nodes_with_the_hash_are_met() {
        let (head, nodes) = (settled(), [const { TableNode::new() }; 4]);
        for (hash, node) in nodes.iter().enumerate() {
            link(&head, node, hash as u64 % 2);
        }
        let mut walk = walk(&head);
        assert_eq!(walk.next_with(0), Step::Node(NonNull::from(&nodes[2])));
        assert_eq!(walk.next_with(0), Step::Node(NonNull::from(&nodes[0])));
        assert_eq!(walk.next_with(0), Step::End);
    }

    #[test]
    fn a_walk_goes_on_from_a_node_that_has_left() {
        let (head, nodes) = (settled(), [const { TableNode::new() }; 3]);
        for node in &nodes {
            link(&head, node, 0);
        }
        let mut walk = walk(&head);
        assert_eq!(walk.next_with(0), Step::Node(NonNull::from(&nodes[2])));
        unlink(&head, &nodes[1]);
        assert_eq!(walk.next_with(0), Step::Node(NonNull::from(&nodes[1])));
        assert_eq!(walk.next_with(0), Step::Node(NonNull::from(&nodes[0])));
        assert_eq!(walk.next_with(0), Step::End);
    }

    #[test]
    fn a_walk_knows_the_end_of_another_bucket() {
        let (here, there) = (settled(), settled());
        let nodes = [const { TableNode::new() }; 2];
        for node in &nodes {
            link(&here, node, 0);
        }
        let mut walk = walk(&here);
        assert_eq!(walk.next_with(0), Step::Node(NonNull::from(&nodes[1])));
        unlink(&here, &nodes[0]);
        link(&there, &nodes[0], 0);
        assert_eq!(walk.next_with(0), Step::Node(NonNull::from(&nodes[0])));
        assert_eq!(walk.next_with(0), Step::Astray);
    }

    #[test]
    fn a_walk_without_end_ends() {
        let head = settled();
        let nodes: Vec<_> = (0..=TABLE_STEPS).map(|_| TableNode::new()).collect();
        for node in &nodes {
            link(&head, node, 0);
        }
        assert_eq!(walk(&head).next_with(1), Step::Astray);
    }
}
