//! Taking over what another thread has open.
//!
//! # Protocol
//!
//! A taker keeps the owner out, makes a heavy fence, and takes the buffer unless the owner is inside. Several nodes take
//! one fence. A taker that has to wait lets the owner in meanwhile: it might lose the processor, and an owner that is kept
//! out makes a batch of each item.
//!
//! Whoever takes over has begun a mark. The buffer isn't counted as popped before it is handed to the handler.

use crate::fence::{Revoked, heavy};
use crate::sync::edge;
use crate::thread::Snooze;

use super::buffer::Buffer;
use super::local::{Local, Open};

/// What was taken over.
pub(super) struct Taken<T> {
    pub(super) open: Open<T>,
    /// Number of items that the owner had beside it then.
    pub(super) in_line: u64,
}

impl<T> Local<T> {
    fn take_revoked(&self, revoked: Option<Revoked<'_, Open<T>>>, heavy: bool) -> Option<Taken<T>> {
        let mut turn = revoked?.try_take(heavy).ok()?;
        let open = self.detach(&mut turn);
        // Within the turn: what comes later isn't asked for.
        let in_open = open.as_ref().map_or(0, |buffer| buffer.count());
        let in_line = self.waiting().saturating_sub(in_open);
        Some(Taken { open, in_line })
    }

    /// Takes the open buffer over, unless somebody is busy with it.
    pub(super) fn try_take_open(&self) -> Option<Taken<T>> {
        let revoked = self.open.revoke();
        // Orders the revocation before the look at the owner (O3).
        let heavy = revoked.is_some() && edge!(O3, heavy());
        self.take_revoked(revoked, heavy)
    }

    /// Takes the open buffer over, waiting for whoever is busy with it.
    pub(super) fn take_open(&self) -> Taken<T> {
        let mut snooze = Snooze::new();
        loop {
            match self.try_take_open() {
                Some(taken) => return taken,
                None => snooze.wait(),
            }
        }
    }

    /// Takes the first `at_most` items of the oldest buffer, be it in the line or open, and leaves the rest in the line.
    pub(super) fn pop_part(&self, at_most: u64) -> Option<Box<Buffer<T>>> {
        let mut snooze = Snooze::new();
        loop {
            // Locked until the rest is put back: who takes the open buffer and then finds nothing in the line has missed
            // nothing.
            let mut line = self.line().settle();
            if let Some(part) = line.pop(at_most) {
                return Some(self.counted(part));
            }
            if let Some(taken) = self.try_take_open() {
                let part = line.part(taken.open?, at_most);
                return Some(self.counted(part));
            }
            drop(line);
            snooze.wait();
        }
    }
}

/// Takes the open buffers of several nodes over by one heavy fence; none where somebody is busy with it.
pub(super) fn take_opens<'a, T: 'a>(
    nodes: impl Iterator<Item = &'a Local<T>>,
) -> Vec<(&'a Local<T>, Option<Taken<T>>)> {
    let revoked: Vec<_> = nodes.map(|node| (node, node.open.revoke())).collect();
    // Orders all the revocations before the looks at the owners (O3).
    let heavy = !revoked.is_empty() && edge!(O3, heavy());
    let taken = revoked.into_iter();
    taken
        .map(|(node, revoked)| (node, node.take_revoked(revoked, heavy)))
        .collect()
}
