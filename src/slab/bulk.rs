//! Counts that a protocol keeps outside: many references of one incarnation that own one count together.
//!
//! A FUSE server answers look-ups, and the kernel gives all that it holds of a node back at once, n at a time. The number
//! is 64 bits wide and would fit no state word; but it is needed only while the slot is alive, when the link of the free
//! lists isn't. So it sits in the link's place and takes no memory.
//!
//! | word | meaning | next | who moves it |
//! |---|---|---|---|
//! | even | no bulk: whatever the free list has left | (n, 1) | who has a reference, which becomes the bulk's |
//! | (n, 1), n > 0 | the bulk holds n | (n ± m, 1) | who has a reference |
//! | | | 0 | who has a reference, and takes the last; the bulk's count is that thread's now |
//!
//! # Invariants
//!
//! - I1: the word is looked at only by who has a counted reference, so the slot is alive and in no list.
//! - I2: a bulk owns one count as long as it holds anything; whoever takes the last takes that count over. So a slot dies
//!   with an even word, and addresses of slots are even: the next life begins without a bulk, and publishing needn't
//!   say so.
//!
//! # Orderings
//!
//! - O53: [`Bulk::step`] (Release) -> [`Bulk::sub`] (Acquire): whoever takes the last may end the life, and the free list
//!   then writes the same place. The thread that began the bulk has given its reference away, so no count of the state
//!   word says that it is through.

use crate::reclaim::ReadSection;
use crate::sync::{AtomicU64, Relaxed, edge};

use super::Slab;
use super::core::Core;
use super::handle::Ref;
use super::key::Key;
use super::policy::{Part, Policy};
use super::slot::Slot;

/// What became of a bulk when [`Slab::release`] gave some of it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Released {
    /// Others of the bulk are left.
    Live,
    /// These were the last. Exactly one caller is told so.
    Last,
    /// Nothing has changed: the key names nothing that lives, or the bulk doesn't hold so many.
    Unknown,
}

/// Marks a word that holds a number.
const HOLDS: u64 = 1;

/// The word of a slot that is alive.
#[derive(Debug)]
pub(super) struct Bulk<'a>(&'a AtomicU64);

impl<'a> Bulk<'a> {
    /// The caller has a counted reference for `'a` (I1).
    pub(super) const fn new(word: &'a AtomicU64) -> Self {
        Self(word)
    }

    /// Adds to the bulk; true if there was none before, and a count of the caller's is the bulk's now.
    ///
    /// # Panics
    ///
    /// If the sum doesn't fit 63 bits.
    fn add(&self, n: u64) -> bool {
        // Relaxed: only a guess; the compare-exchange decides.
        let mut now = self.0.load(Relaxed);
        while let Err(changed) = self.step(now, sum(now, n)) {
            now = changed;
        }
        held(now) == 0
    }

    /// Adds to the bulk if there is one.
    ///
    /// # Panics
    ///
    /// As [`add`](Self::add).
    fn add_to_some(&self, n: u64) -> bool {
        // Relaxed: only a guess; the compare-exchange decides.
        let mut now = self.0.load(Relaxed);
        while held(now) > 0 {
            match self.step(now, sum(now, n)) {
                Ok(_) => return true,
                Err(changed) => now = changed,
            }
        }
        false
    }

    fn step(&self, now: u64, next: u64) -> Result<u64, u64> {
        // Release: pairs with the Acquire in sub (O53). Relaxed on failure: only a guess again.
        self.0
            .compare_exchange_weak(now, next, edge!(O53, Release), Relaxed)
    }

    /// Takes from the bulk; if these were the last, its count is the caller's now.
    fn sub(&self, n: u64) -> Released {
        // Relaxed: only a guess; the compare-exchange decides.
        let mut now = self.0.load(Relaxed);
        loop {
            let (left, released) = match held(now).checked_sub(n) {
                Some(0) if n > 0 => (0, Released::Last),
                Some(left) if left > 0 => (word(left), Released::Live),
                _ => return Released::Unknown,
            };
            // Acquire: pairs with the Release in step (O53). Relaxed on failure: only a guess again.
            match self
                .0
                .compare_exchange_weak(now, left, edge!(O53, Acquire), Relaxed)
            {
                Ok(_) => return released,
                Err(changed) => now = changed,
            }
        }
    }

    /// Takes everything; true if there was a bulk, whose count is the caller's now.
    pub(super) fn take(&self) -> bool {
        loop {
            // Relaxed: only a guess; sub decides.
            let now = held(self.0.load(Relaxed));
            match self.sub(now) {
                Released::Last => return true,
                Released::Unknown if now == 0 => return false,
                Released::Unknown | Released::Live => {}
            }
        }
    }

    /// How many the bulk holds.
    fn get(&self) -> u64 {
        // Relaxed: a figure; it may have changed by now.
        held(self.0.load(Relaxed))
    }
}

const fn held(word: u64) -> u64 {
    if word & HOLDS == 0 { 0 } else { word >> 1 }
}

/// The word with `n` more.
fn sum(now: u64, n: u64) -> u64 {
    let sum = held(now).checked_add(n);
    let fits = sum.filter(|sum| sum >> (u64::BITS - 1) == 0);
    word(fits.expect("graceperiod: a bulk of references holds at most 2^63 - 1"))
}

const fn word(held: u64) -> u64 {
    held << 1 | HOLDS
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Slab<S, V, P, D> {
    /// Adds `n` references to the bulk of the incarnation that `key` names; false if that doesn't live.
    ///
    /// For protocols that count outside, such as a FUSE server's look-ups: the other side holds references by number, and
    /// gives them back by [`release`](Self::release), any number at a time. The whole bulk owns one count of the slot, as
    /// a single [`Ref`] would. What the slab's bulks hold when the slab is dropped goes with it.
    ///
    /// ```
    /// use graceperiod::{Ref, Released, Slab};
    /// let inodes: Slab<(), String> = Slab::new(|_| ());
    /// let file = inodes.insert("file".to_owned());
    /// let key = Ref::key(&file);
    /// // Two look-ups, and nobody else keeps it.
    /// assert!(inodes.retain(key, 1) && inodes.retain(key, 1));
    /// drop(file);
    /// assert_eq!(inodes.release(key, 1), Released::Live);
    /// assert_eq!(inodes.release(key, 1), Released::Last);
    /// assert_eq!(inodes.release(key, 1), Released::Unknown);
    /// ```
    ///
    /// # Panics
    ///
    /// If the bulk would hold more than 2^63 - 1.
    #[doc(alias = "nlookup")]
    pub fn retain(&self, key: Key, n: u64) -> bool {
        let Some(found) = self.get(key) else {
            return false;
        };
        // SAFETY: a counted slot keeps its page, and is alive.
        if n > 0 && unsafe { Slot::bulk(found.slot()) }.add(n) {
            // The bulk's from now on. The slab can't close under `&self`.
            let _ = found.into_slot();
            self.core().note_owning();
        }
        true
    }

    /// Gives `n` references of a bulk back.
    ///
    /// [`Released::Last`] says that the bulk is empty, to one caller per time that it gets empty. The object lives on if
    /// anybody else holds it, and a later [`retain`](Self::retain) begins anew; if nobody does, this drops it: who wants
    /// to look at it afterwards takes a [`Ref`] before. More than there are is refused as a whole.
    #[doc(alias = "FUSE_FORGET")]
    pub fn release(&self, key: Key, n: u64) -> Released {
        let Some(found) = self.get(key) else {
            return Released::Unknown;
        };
        // SAFETY: a counted slot keeps its page, and is alive.
        let released = unsafe { Slot::bulk(found.slot()) }.sub(n);
        if released == Released::Last {
            // SAFETY: the bulk's count is this call's.
            drop(unsafe { Ref::from_slot(found.slot()) });
        }
        released
    }

    /// Returns how many references the bulk of the incarnation that `key` names holds; 0 if that doesn't live.
    #[must_use]
    pub fn retained(&self, key: Key) -> u64 {
        // SAFETY: a counted slot keeps its page, and is alive.
        self.get(key)
            .map_or(0, |found| unsafe { Slot::bulk(found.slot()) }.get())
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Ref<S, V, P, D> {
    /// Adds `n` references to the incarnation's bulk, as [`Slab::retain`]. If the slab has been dropped nobody could
    /// give them back, so nothing happens then.
    ///
    /// # Panics
    ///
    /// As [`Slab::retain`].
    pub fn retain(this: &Self, n: u64) {
        // SAFETY: a counted slot keeps its page, and is alive.
        let bulk = unsafe { Slot::bulk(this.slot()) };
        if n == 0 || bulk.add_to_some(n) {
            return;
        }
        // Before the bulk needs it, since whoever releases may take it at once.
        let given = this.clone();
        if bulk.add(n) {
            let _ = given.into_slot();
            if !Core::may_own(this.slot()) {
                drop(this.take_retained());
            }
        }
    }

    /// Takes the bulk's reference over, if there is a bulk.
    pub(super) fn take_retained(&self) -> Option<Self> {
        // SAFETY: a counted slot keeps its page, and is alive.
        let taken = unsafe { Slot::bulk(self.slot()) }.take();
        // SAFETY: the bulk's count is this call's.
        taken.then(|| unsafe { Self::from_slot(self.slot()) })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn word_of_the_free_list_holds_nothing() {
        let word = AtomicU64::new(0x7f00_dead_beb0);
        let bulk = Bulk::new(&word);
        assert_eq!(bulk.get(), 0);
        assert_eq!(bulk.sub(0), Released::Unknown);
        assert_eq!(bulk.sub(1), Released::Unknown);
        assert!(!bulk.take());
        assert!(bulk.add(5));
        assert!(!bulk.add(2));
        assert_eq!(bulk.get(), 7);
        assert_eq!(bulk.sub(8), Released::Unknown);
        assert_eq!(bulk.sub(0), Released::Live);
        assert_eq!(bulk.sub(6), Released::Live);
        assert_eq!(bulk.sub(1), Released::Last);
        assert_eq!(bulk.sub(1), Released::Unknown);
        assert!(bulk.add(1 << 62));
        assert!(bulk.take());
    }

    #[test]
    fn more_than_63_bits_are_refused_and_change_nothing() {
        let word = AtomicU64::new(0);
        let bulk = Bulk::new(&word);
        assert!(bulk.add((1 << 63) - 1));
        for more in [1, u64::MAX] {
            let add = std::panic::AssertUnwindSafe(|| bulk.add(more));
            assert!(std::panic::catch_unwind(add).is_err());
        }
        assert_eq!(bulk.get(), (1 << 63) - 1);
        assert_eq!(bulk.sub((1 << 63) - 1), Released::Last);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::sync::UnsafeCell;
    use loom::sync::Arc;

    /// The word and its place, which loom watches.
    struct Shared {
        word: AtomicU64,
        place: UnsafeCell<u64>,
    }

    // SAFETY: the model writes the place only when the life is over; loom checks that.
    unsafe impl Sync for Shared {}
    // SAFETY: as above.
    unsafe impl Send for Shared {}

    // Without a slab around it, whose sections are full fences in loom and would acquire as well.
    #[test]
    fn o53_who_takes_the_last_has_those_who_added_behind_him() {
        loom::model(|| {
            let shared = Arc::new(Shared {
                word: AtomicU64::new(0),
                place: UnsafeCell::new(0),
            });
            let other = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || {
                    shared.place.with(|_| ());
                    assert!(Bulk::new(&shared.word).add(1));
                })
            };
            // Again and again: loom doesn't come back to a load that another thread's load hides.
            while Bulk::new(&shared.word).sub(1) != Released::Last {
                loom::thread::yield_now();
            }
            // SAFETY: the life is over: this is the free list's.
            shared.place.with_mut(|place| unsafe { *place = 1 });
            other.join().expect("no panic");
        });
    }
}
