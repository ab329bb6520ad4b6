//! The members of one bucket that have one hash, listed under its lock and compared without it.
//!
//! Candidates are listed, not counted references: the guard keeps them, and nobody's destructor can run in a look-up.

use super::bucket::Locked;
use super::index::{GuardOf, Index};
use super::object::Member;

/// The list of them.
pub(super) struct Namesakes<'g, I: Index> {
    /// In the order of the chain, those listed last in front: members enter a chain at its head only.
    listed: Vec<Member<'g, I>>,
    /// How many of them, from the front, have not been compared yet.
    fresh: usize,
    /// The first that found no room, and how many more did not.
    left_out: Option<(Member<'g, I>, usize)>,
}

impl<'g, I: Index> Namesakes<'g, I> {
    pub(super) fn new() -> Self {
        Self {
            listed: Vec::new(),
            fresh: 0,
            left_out: None,
        }
    }

    /// Lists the members of a locked bucket that have this hash, as far as there is room: nothing is allocated here.
    pub(super) fn list(
        &mut self,
        table: u64,
        bucket: &Locked<'_>,
        hash: u64,
        guard: &'g GuardOf<'_, I>,
    ) {
        let compared = self.listed.len();
        let mut passed = 0;
        for node in bucket.nodes() {
            // SAFETY: linked, and the lock keeps it so.
            if unsafe { node.as_ref() }.hash() != hash {
                continue;
            }
            // SAFETY: found inside the guard, in a chain of this table.
            let Some(member) = (unsafe { Member::see(table, node, guard) }) else {
                debug_assert!(false, "what is linked is a member and alive");
                continue;
            };
            let rest = &self.listed[passed..compared];
            if let Some(at) = rest.iter().position(|listed| listed.is(&member)) {
                passed += at + 1;
            } else if let Some((_, others)) = &mut self.left_out {
                *others += 1;
            } else if self.listed.len() < self.listed.capacity() {
                self.listed.push(member);
            } else {
                self.left_out = Some((member, 0));
            }
        }
        self.fresh = self.listed.len() - compared;
        self.listed.rotate_right(self.fresh);
    }

    /// Whether all that were found have been compared.
    pub(super) fn are_compared(&self) -> bool {
        self.fresh == 0 && self.left_out.is_none()
    }

    /// Whether all that were found are listed.
    pub(super) fn are_complete(&self) -> bool {
        self.left_out.is_none()
    }

    /// Looks for the key among those that have not been compared, and makes room for those that are left out.
    ///
    /// Runs foreign code, so it must not be called with a lock held.
    pub(super) fn find<R>(
        &mut self,
        key: &I::Key,
        mut accept: impl FnMut(Member<'g, I>) -> Option<R>,
    ) -> Option<R> {
        let fresh = self.listed[..self.fresh].iter();
        let left_out = self.left_out.iter().map(|(first, _)| first);
        let found = fresh
            .chain(left_out)
            .filter(|member| I::matches(&member.candidate, key) && member.is_still_in())
            .find_map(|member| accept(*member));
        if let Some((_, others)) = self.left_out.take() {
            // Those that found room would stand before those behind them in the chain once these are listed.
            self.listed.drain(..self.fresh);
            self.listed.reserve(self.fresh + others + 1);
        }
        self.fresh = 0;
        found
    }
}
