//! Names of incarnations.

use std::num::NonZeroU64;

/// Names one incarnation of one slot, for ever: a stale key never matches again.
///
/// Two 64-bit words, as FUSE's node id and generation. Without a [tag](super::SlabBuilder::tag) a key says nothing about
/// which slab it belongs to; asked of another one it may happen to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    index: u64,
    generation: NonZeroU64,
}

impl Key {
    /// Returns the slot's index, with the slab's [tag](super::SlabBuilder::tag). Another incarnation of the slot has the
    /// same.
    #[must_use]
    pub const fn index(self) -> u64 {
        self.index
    }

    /// Returns the incarnation's number, which is never 0.
    #[must_use]
    pub const fn generation(self) -> u64 {
        self.generation.get()
    }

    /// Returns index and generation.
    #[must_use]
    pub const fn to_raw(self) -> (u64, u64) {
        (self.index, self.generation.get())
    }

    /// Builds a key from index and generation; any bits will do, and what never was a key matches nothing.
    ///
    /// `None` if the generation is 0.
    #[must_use]
    pub const fn from_raw(index: u64, generation: u64) -> Option<Self> {
        match NonZeroU64::new(generation) {
            Some(generation) => Some(Self { index, generation }),
            None => None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn raw_words_bring_the_key_back() {
        let key = Key::from_raw(7, 9).expect("a generation");
        assert_eq!(key.to_raw(), (7, 9));
        assert_eq!((key.index(), key.generation()), (7, 9));
        assert_eq!(Key::from_raw(7, 0), None);
        assert_eq!(size_of::<Option<Key>>(), size_of::<Key>());
    }
}
