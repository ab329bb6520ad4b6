//! What must outlive a process so that keys of it aren't taken for later ones.
//!
//! Per page the highest generation is enough: the next slab's slots begin above it. That is five bytes per page, not per
//! slot.

use std::error::Error;
use std::fmt;

use crate::reclaim::ReadSection;
use crate::sync::edge;
use crate::tuning::{CHECKSUM_BEGIN, CHECKSUM_STEP, GENERATION_BYTES, GENERATIONS_MAGIC};

use super::Slab;
use super::core::Core;
use super::ids::{IdChoice, Ids};
use super::page::Page;
use super::policy::{Part, Policy};
use super::slot::Slot;
use super::state::LAST_GENERATION;

/// How far the generations of a slab's ids have come; from [`Slab::generations`], for
/// [`SlabBuilder::generations`](super::SlabBuilder::generations).
#[derive(Clone, PartialEq, Eq)]
pub struct Generations {
    /// Index of the first slot.
    first: u64,
    /// Bits of an index that tell the slot.
    slot_bits: u8,
    /// No key of a page behind the listed ones is above this.
    beyond: u64,
    /// No key of a page is above this, by number.
    floors: Vec<u64>,
}

/// Bytes that no [`Generations::to_bytes`] has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadGenerations;

impl Generations {
    /// Writes them down.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = GENERATIONS_MAGIC.to_vec();
        bytes.extend(self.first.to_le_bytes());
        bytes.push(self.slot_bits);
        for floor in std::iter::once(&self.beyond).chain(&self.floors) {
            bytes.extend(&floor.to_le_bytes()[..GENERATION_BYTES]);
        }
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) has written.
    ///
    /// # Errors
    ///
    /// Fails for anything else: a wrong number could let a stale key match.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadGenerations> {
        let (content, sum) = bytes.split_last_chunk().ok_or(BadGenerations)?;
        let (magic, rest) = content.split_first_chunk().ok_or(BadGenerations)?;
        if u64::from_le_bytes(*sum) != checksum(content) || *magic != GENERATIONS_MAGIC {
            return Err(BadGenerations);
        }
        let (first, rest) = rest.split_first_chunk().ok_or(BadGenerations)?;
        let (&slot_bits, rest) = rest.split_first().ok_or(BadGenerations)?;
        let (floors, []) = rest.as_chunks::<GENERATION_BYTES>() else {
            return Err(BadGenerations);
        };
        let mut floors = floors.iter().map(|floor| {
            let mut word = [0; size_of::<u64>()];
            word[..GENERATION_BYTES].copy_from_slice(floor);
            u64::from_le_bytes(word)
        });
        Ok(Self {
            first: u64::from_le_bytes(*first),
            slot_bits,
            beyond: floors.next().ok_or(BadGenerations)?,
            floors: floors.collect(),
        })
    }

    /// Moves all of them `n` further: for a process that may go on for at most `n` lives of any slot after this and end
    /// without another export.
    #[must_use]
    pub fn ahead(mut self, n: u64) -> Self {
        for floor in std::iter::once(&mut self.beyond).chain(&mut self.floors) {
            *floor = floor.saturating_add(n).min(LAST_GENERATION);
        }
        self
    }

    /// The highest of all.
    fn highest(&self) -> u64 {
        self.floors.iter().copied().fold(self.beyond, u64::max)
    }
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(CHECKSUM_BEGIN, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(CHECKSUM_STEP)
    })
}

/// Above what the generations of a page begin that no page had before in this slab.
#[derive(Debug, Default)]
pub(super) struct Floors {
    beyond: u64,
    by_number: Vec<u64>,
}

impl Floors {
    /// What a slab begins with.
    pub(super) fn new<S: Part, V: Part, P: Policy<D>, D: ReadSection>(
        ids: &Ids,
        choice: IdChoice,
    ) -> Self {
        let mut floors = Self {
            beyond: choice.generation_base,
            by_number: Vec::new(),
        };
        if let Some(earlier) = choice.generations {
            let same = earlier.first == ids.first()
                && u32::from(earlier.slot_bits) == Page::<S, V, P, D>::SLOT_BITS;
            if same {
                floors.beyond = floors.beyond.max(earlier.beyond);
                floors.by_number = earlier.floors;
            } else {
                // Its ids belong to other pages here.
                floors.beyond = floors.beyond.max(earlier.highest());
            }
        }
        assert!(
            floors.beyond < LAST_GENERATION,
            "graceperiod: the earlier slab has used a slot's last generation, and its ids are laid out \
             differently here, so that no key would be new; keep the layout, or choose another `first_index`",
        );
        floors
    }

    /// What the generations of a page begin above.
    pub(super) fn of(&self, number: usize) -> u64 {
        let floor = self.by_number.get(number).copied();
        floor.unwrap_or(0).max(self.beyond)
    }

    /// Pages that have a floor of their own.
    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(super) const fn beyond(&self) -> u64 {
        self.beyond
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Core<S, V, P, D> {
    fn generations(&self) -> Generations {
        // Pages leave under this lock only, while the slab is open.
        let depot = self.depot.lock();
        let (beyond, mut floors) = self.directory.floors();
        for (number, floor) in floors.iter_mut().enumerate() {
            // Acquire: pairs with the Release in Directory::publish (O43).
            let line = self
                .directory
                .line(number)
                .map(|line| line.load(edge!(O43, Acquire)));
            let Some(page) = line.and_then(std::ptr::NonNull::new) else {
                continue;
            };
            // SAFETY: the page can't leave under the lock.
            let built = unsafe { Page::built(page) };
            for slot in 0..built {
                // SAFETY: as above.
                if let Some(slot) = unsafe { Page::built_slot(page, slot) } {
                    // SAFETY: as above.
                    let last = unsafe { Slot::state(slot) }.see().generation();
                    // One more, for a vacant slot's key that may be known already.
                    *floor = (*floor).max((last + 1).min(LAST_GENERATION));
                }
            }
        }
        drop(depot);
        Generations {
            first: self.ids.first(),
            // At most the bits of a word.
            slot_bits: Page::<S, V, P, D>::SLOT_BITS as u8,
            beyond,
            floors,
        }
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Slab<S, V, P, D> {
    /// Exports how far the generations have come, for a slab of the next process: handles that its clients have written
    /// down then never meet another object.
    ///
    /// It covers every key that was given out before the call. For a process that may end without another export there is
    /// [`Generations::ahead`].
    ///
    /// ```
    /// use graceperiod::{Generations, Immediate, Ref, Slab};
    /// let files: Slab<(), &str, Immediate> = Slab::builder().build(|_| ());
    /// let handle = Ref::key(&files.insert("file"));
    /// let kept = files.generations().to_bytes();
    /// drop(files);
    /// // In the next process:
    /// let earlier = Generations::from_bytes(&kept).expect("what was written");
    /// let files: Slab<(), &str, Immediate> = Slab::builder().generations(earlier).build(|_| ());
    /// let another = files.insert("another");
    /// assert_eq!(Ref::key(&another).index(), handle.index());
    /// assert!(files.get(handle).is_none());
    /// ```
    #[must_use]
    pub fn generations(&self) -> Generations {
        self.core().generations()
    }
}

impl fmt::Debug for Generations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generations")
            .field("pages", &self.floors.len())
            .field("highest", &self.highest())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for BadGenerations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these bytes are no exported generations")
    }
}

impl Error for BadGenerations {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn some() -> Generations {
        Generations {
            first: 1 << 60 | 1,
            slot_bits: 9,
            beyond: 3,
            floors: vec![0, 7, LAST_GENERATION, LAST_GENERATION - 5],
        }
    }

    #[test]
    fn bytes_bring_generations_back_and_nothing_else_does() {
        let bytes = some().to_bytes();
        assert_eq!(Generations::from_bytes(&bytes), Ok(some()));
        for length in 0..bytes.len() {
            assert!(Generations::from_bytes(&bytes[..length]).is_err());
        }
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 4;
            assert!(Generations::from_bytes(&wrong).is_err());
        }
    }

    #[test]
    fn ahead_never_passes_the_last() {
        let ahead = some().ahead(10);
        let floors = [10, 17, LAST_GENERATION, LAST_GENERATION];
        assert_eq!((ahead.beyond, &*ahead.floors), (13, &floors[..]));
        assert_eq!(some().ahead(u64::MAX).beyond, LAST_GENERATION);
    }
}
