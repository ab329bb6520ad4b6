//! What a thread, or whoever acquires a message, can't be unaware of.

use std::hash::{Hash, Hasher};

use crate::place::PLACES;

/// Threads of a case at most.
pub(crate) const THREADS: usize = 6;

/// For each place the oldest message that may still be read, and the uses of objects that have happened before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub(super) at: [u8; PLACES],
    /// A bit for each object and thread: that all of the thread's uses of the object so far happened before.
    known: u16,
}

impl Hash for View {
    /// In two words, not place by place: exploring is mostly hashing.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, c, d, e, f, g, h, i, j] = self.at;
        let [k, l] = self.known.to_le_bytes();
        state.write_u64(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
        state.write_u32(u32::from_le_bytes([i, j, k, l]));
    }
}

impl View {
    /// The view at the start: nothing has been used, so nothing is unknown.
    pub(super) const START: Self = Self {
        at: [0; PLACES],
        known: u16::MAX,
    };

    /// Takes all of another view in.
    pub(super) fn join(&mut self, other: &Self) {
        self.join_places(other);
        self.known |= other.known;
    }

    /// Takes another view's messages in, but not what happened before: fences alone make no happens-before.
    pub(super) fn join_places(&mut self, other: &Self) {
        for (mine, theirs) in self.at.iter_mut().zip(other.at) {
            *mine = (*mine).max(theirs);
        }
    }

    /// Makes room for a message at a position of a place.
    pub(super) fn make_room(&mut self, place: usize, position: u8) {
        if self.at[place] >= position {
            self.at[place] += 1;
        }
    }

    /// Forgets the first messages of a place.
    pub(super) fn forget(&mut self, place: usize, messages: u8) {
        self.at[place] = self.at[place].saturating_sub(messages);
    }

    /// Notes that a thread has used an object, which this view doesn't know.
    pub(super) fn miss_use(&mut self, object: u8, thread: usize) {
        self.known &= !Self::bit(object, thread);
    }

    /// Notes that a thread has used an object, which this view knows.
    pub(super) fn know_use(&mut self, object: u8, thread: usize) {
        self.known |= Self::bit(object, thread);
    }

    /// Whether every use of an object happened before.
    pub(super) fn knows_uses(&self, object: u8) -> bool {
        (0..THREADS).all(|thread| self.known & Self::bit(object, thread) != 0)
    }

    fn bit(object: u8, thread: usize) -> u16 {
        1 << ((usize::from(object) - 1) * THREADS + thread)
    }
}
