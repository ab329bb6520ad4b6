//! The state word: which incarnation a slot is in, and how many references it has.
//!
//! | bits | field | meaning |
//! |---|---|---|
//! | 0 to 22 | count | references; 0: nobody may take one |
//! | 23 | kept | the slab owns one of the references |
//! | 24 to 63 | generation | number of the present or last incarnation; 0: none yet |
//!
//! | state | meaning | next | who moves it |
//! |---|---|---|---|
//! | (g, 0) | free, waiting, or reserved; keys of g and below are stale | (g + 1, 1) | the [`Vacant`](super::Vacant)'s owner: publish |
//! | | | (g + 1, kept, 1) | the owner: publish for the slab |
//! | | | (g + 1, 0) | the `Vacant`'s owner: abandon, since its key may be known |
//! | | | (g', 0) | the owner, after or before the life of a restored key (see [`restore`](super::restore)) |
//! | (g, n), n > 0 | alive | (g, n + 1) | who has a reference (clone), or saw generation g (try-get) |
//! | | | (g, n - 1) | who has a reference; at 0 that thread owns the slot |
//! | | | (g, kept, n) | who has a reference: keep, which gives that reference to the slab |
//! | (g, kept, n), n > 0 | alive, one reference is the slab's | (g, kept, n + 1) | as without the bit |
//! | | | (g, kept, n - 1), n > 1 | as without the bit |
//! | | | (g, n) | who saw generation g: remove, which takes the slab's reference over |
//! | (last, 0) | exhausted | none | the slot is parked |
//!
//! # Invariants
//!
//! - I1: fields don't carry: a count aborts the process at half its range, an exhausted slot is never reserved.
//! - I2: the generation never falls, also not across pages that come and go under one number (see
//!   [`directory`](super::directory)), but for a restored key's, once, before the slot's first life.
//! - I3: kept implies a count above 0, since one reference is the slab's: only a remove clears the bit, so the count can't
//!   reach 0 before it. Who takes the count to 0 therefore needn't look at it, and a free slot never has it.
//!
//! # Orderings
//!
//! - O40: [`publish`](StateWord::publish) (Release) -> [`see`](StateWord::see) and [`try_get`](StateWord::try_get)
//!   (Acquire): the value, and what the owner did to the stable part. Counts change by read-modify-writes only, so they
//!   continue the release sequence.
//! - O41: [`release`](StateWord::release) (the Release half) -> the last one's Acquire half, also of
//!   [`release_if_last`](StateWord::release_if_last): every use of the value happens before its drop.
//! - O52: [`keep`](StateWord::keep) (Release) -> [`remove`](StateWord::remove) (Acquire): whoever takes the slab's
//!   reference over may be the last, and has every use by its former owner behind him.
//! - O42: [`before_reuse`] (a Release fence) -> [`still_is`](StateWord::still_is) (an Acquire fence): who read something
//!   of a later life in the stable part sees that the earlier one is over.

use std::fmt;

use crate::sync::{Acquire, AtomicU64, Relaxed, Release, edge, fence};

const COUNT_BITS: u32 = 23;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// The bit that says that one reference is the slab's.
const KEPT: u64 = 1 << COUNT_BITS;

/// Where the generation begins.
const GENERATION: u32 = COUNT_BITS + 1;

/// Half the count's range: whoever gets here leaks references.
const COUNT_LIMIT: u64 = 1 << (COUNT_BITS - 1);

/// The last generation; a slot that has had it is exhausted.
pub(super) const LAST_GENERATION: u64 = (1 << (u64::BITS - GENERATION)) - 1;

/// A value of the state word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct State(u64);

impl State {
    const fn new(generation: u64, count: u64) -> Self {
        Self(generation << GENERATION | count)
    }

    pub(super) const fn generation(self) -> u64 {
        self.0 >> GENERATION
    }

    pub(super) const fn count(self) -> u64 {
        self.0 & COUNT_MASK
    }

    pub(super) const fn is_alive(self) -> bool {
        self.count() != 0
    }

    pub(super) const fn is_kept(self) -> bool {
        self.0 & KEPT != 0
    }

    const fn is_alive_as(self, generation: u64) -> bool {
        self.is_alive() && self.generation() == generation
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.generation(), self.count())
    }
}

/// A slot's state word.
#[derive(Debug)]
pub(super) struct StateWord(AtomicU64);

impl StateWord {
    /// A free slot whose next incarnation is `generation + 1`.
    pub(super) fn new(generation: u64) -> Self {
        Self(AtomicU64::new(State::new(generation, 0).0))
    }

    /// The state as its owner knows it.
    #[inline]
    pub(super) fn own(&self) -> State {
        // Relaxed: whoever owns the slot, or a reference, was ordered after the last change of the generation.
        State(self.0.load(Relaxed))
    }

    /// The state as a stranger sees it.
    #[inline]
    pub(super) fn see(&self) -> State {
        // Acquire: pairs with the Release in publish (O40); makes the incarnation's content visible.
        State(self.0.load(edge!(O40, Acquire)))
    }

    /// Makes the next incarnation visible, with one reference. Only the slot's owner may call it.
    #[inline]
    pub(super) fn publish(&self) {
        let next = State::new(self.own().generation() + 1, 1);
        // Release: pairs with the Acquire in see and try_get (O40), and with that of a link's load (O51).
        self.0.store(next.0, edge!(O40 O51, Release));
    }

    /// As [`publish`](Self::publish), with the one reference being the slab's.
    #[inline]
    pub(super) fn publish_kept(&self) {
        let next = State::new(self.own().generation() + 1, KEPT | 1);
        // Release: pairs with the Acquire in see, try_get and remove (O40), and with that of a link's load (O51).
        self.0.store(next.0, edge!(O40 O51, Release));
    }

    /// Gives the caller's reference to the slab; false, and nothing happens, if the slab has one.
    #[inline]
    pub(super) fn keep(&self) -> bool {
        // Release: pairs with the Acquire in remove (O52).
        !State(self.0.fetch_or(KEPT, edge!(O52, Release))).is_kept()
    }

    /// Takes the slab's reference to the incarnation `generation` over, if there is one.
    #[inline]
    pub(super) fn remove(&self, generation: u64) -> bool {
        // Relaxed: only a guess; the compare-exchange decides.
        let mut now = State(self.0.load(Relaxed));
        // A dead one isn't kept (I3).
        while now.is_kept() && now.generation() == generation {
            // Acquire: pairs with the Release in keep (O52), and with that in publish_kept (O40).
            // Relaxed on failure: the value is only a guess again.
            match self.0.compare_exchange_weak(
                now.0,
                now.0 & !KEPT,
                edge!(O40 O52, Acquire),
                Relaxed,
            ) {
                Ok(_) => return true,
                Err(changed) => now = State(changed),
            }
        }
        false
    }

    /// Uses up the next generation without an incarnation. Only the slot's owner may call it.
    pub(super) fn abandon(&self) {
        let next = State::new(self.own().generation() + 1, 0);
        // Relaxed: count 0 before and after; nobody learns anything from it.
        self.0.store(next.0, Relaxed);
    }

    /// Adds a reference if the incarnation `generation` still lives.
    #[inline]
    pub(super) fn try_get(&self, generation: u64) -> bool {
        // Relaxed: only a guess; the compare-exchange decides.
        let mut now = State(self.0.load(Relaxed));
        while now.is_alive_as(generation) {
            checked(now.count());
            // The other fields stay as they are (I1).
            let next = State(now.0 + 1);
            // Acquire: pairs with the Release in publish (O40).
            // Relaxed on failure: the value is only a guess again.
            match self
                .0
                .compare_exchange_weak(now.0, next.0, edge!(O40, Acquire), Relaxed)
            {
                Ok(_) => return true,
                Err(changed) => now = State(changed),
            }
        }
        false
    }

    /// Adds a reference for somebody who has one.
    #[inline]
    pub(super) fn get_another(&self) {
        // Relaxed: the caller's own reference orders everything.
        checked(State(self.0.fetch_add(1, Relaxed)).count());
    }

    /// Gives a reference back; true if it was the last, and the caller owns the slot now.
    #[inline]
    pub(super) fn release(&self) -> bool {
        // AcqRel: the Release half of each pairs with the Acquire half of the last (O41).
        State(self.0.fetch_sub(1, edge!(O41, AcqRel))).count() == 1
    }

    /// Takes the last reference away, so that the caller owns the slot; false if there are others. The caller has one.
    pub(super) fn release_if_last(&self) -> bool {
        let generation = self.own().generation();
        let (alone, nobody) = (State::new(generation, 1), State::new(generation, 0));
        // Acquire: pairs with the Release half of every other count's release (O41).
        // Relaxed on failure: nothing is read.
        let released = self
            .0
            .compare_exchange(alone.0, nobody.0, edge!(O41, Acquire), Relaxed);
        released.is_ok()
    }

    /// Whether the incarnation `generation` lived on until everything that the caller has read was read.
    #[inline]
    pub(super) fn still_is(&self, generation: u64) -> bool {
        // Acquire fence: pairs with the Release fence in before_reuse (O42).
        edge!(O42, fence(Acquire));
        // Relaxed: the fence orders it after the reads that it judges.
        State(self.0.load(Relaxed)).is_alive_as(generation)
    }

    /// Whether the slot has had its last generation.
    #[inline]
    pub(super) fn is_exhausted(&self) -> bool {
        self.own().generation() == LAST_GENERATION
    }

    /// Lets the next incarnation be `generation + 1`. Only the slot's owner may call it, while nobody has a reference.
    pub(super) fn skip_to(&self, generation: u64) {
        // Relaxed: count 0 before and after; nobody learns anything from it.
        self.0.store(State::new(generation, 0).0, Relaxed);
    }
}

/// Stands between the end of one life and the first touch of the stable part for the next.
#[inline]
pub(super) fn before_reuse() {
    // Release fence: pairs with the Acquire fence in StateWord::still_is (O42).
    edge!(O42, fence(Release));
}

/// Returns a count that has room above it, or ends the process: wrapping would free a slot that is in use.
#[inline]
fn checked(count: u64) -> u64 {
    if count >= COUNT_LIMIT {
        std::process::abort();
    }
    count
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_word_dont_overlap() {
        for generation in [0, 1, LAST_GENERATION - 1, LAST_GENERATION] {
            for count in [0, 1, COUNT_LIMIT, COUNT_MASK] {
                let state = State::new(generation, count);
                assert_eq!((state.generation(), state.count()), (generation, count));
                assert!(!state.is_kept());
                let kept = State(state.0 | KEPT);
                assert_eq!((kept.generation(), kept.count()), (generation, count));
                assert!(kept.is_kept());
            }
        }
    }

    #[test]
    fn only_the_living_incarnation_can_be_got() {
        let word = StateWord::new(6);
        assert!(!word.try_get(6));
        assert!(!word.try_get(7));
        word.publish();
        assert!(!word.try_get(6));
        assert!(word.try_get(7));
        assert!(word.still_is(7));
        assert!(!word.release());
        assert!(word.release());
        assert!(!word.try_get(7));
        assert!(!word.still_is(7));
    }

    #[test]
    fn kept_bit_goes_to_one_remover_and_leaves_the_count_alone() {
        let word = StateWord::new(6);
        word.publish();
        assert!(!word.remove(7));
        assert!(word.keep());
        assert!(word.try_get(7));
        word.get_another();
        assert!(!word.keep());
        assert!(!word.release());
        assert_eq!(word.own().count(), 2);
        assert!(!word.remove(6));
        assert!(word.remove(7));
        assert!(!word.remove(7));
        assert!(!word.release());
        assert!(word.release());
        word.publish_kept();
        assert!(!word.remove(7));
        assert!(word.remove(8));
        assert!(word.release());
    }

    #[test]
    fn abandoning_uses_the_generation_up() {
        let word = StateWord::new(0);
        word.abandon();
        assert_eq!(word.own(), State::new(1, 0));
        word.publish();
        assert!(!word.try_get(1));
        assert!(word.try_get(2));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::sync::UnsafeCell;
    use loom::sync::Arc;

    struct Life {
        word: StateWord,
        value: UnsafeCell<u64>,
        /// An atomic field of the stable part.
        identity: AtomicU64,
    }

    // SAFETY: the models reach `value` only as owners, or with a reference; loom checks that.
    unsafe impl Sync for Life {}
    // SAFETY: as above.
    unsafe impl Send for Life {}

    impl Life {
        fn first() -> Arc<Self> {
            let life = Self {
                word: StateWord::new(0),
                value: UnsafeCell::new(1),
                identity: AtomicU64::new(1),
            };
            life.word.publish();
            Arc::new(life)
        }

        fn set(&self, value: u64) {
            // SAFETY: the caller owns the slot.
            self.value.with_mut(|place| unsafe { *place = value });
        }

        fn value(&self) -> u64 {
            // SAFETY: the caller has a reference.
            self.value.with(|place| unsafe { *place })
        }

        fn end_and_begin_anew(&self) {
            if self.word.release() {
                before_reuse();
                self.set(2);
                // Relaxed: the fence above orders it.
                self.identity.store(2, Relaxed);
                self.word.publish();
            }
        }
    }

    #[test]
    fn o40_o41_get_meets_its_own_incarnation_or_none() {
        loom::model(|| {
            let life = Life::first();
            let owner = {
                let life = Arc::clone(&life);
                loom::thread::spawn(move || life.end_and_begin_anew())
            };
            let seen = life.word.see();
            if seen.is_alive() && life.word.try_get(seen.generation()) {
                assert_eq!(life.value(), seen.generation());
                if life.word.release() {
                    before_reuse();
                    life.set(9);
                }
            }
            owner.join().expect("no panic");
        });
    }

    #[test]
    fn o41_every_use_of_the_value_comes_before_its_drop() {
        loom::model(|| {
            let life = Life::first();
            life.word.get_another();
            let other = {
                let life = Arc::clone(&life);
                loom::thread::spawn(move || {
                    assert_eq!(life.value(), 1);
                    if life.word.release() {
                        life.set(0);
                    }
                })
            };
            assert_eq!(life.value(), 1);
            if life.word.release() {
                life.set(0);
            }
            other.join().expect("no panic");
        });
    }

    #[test]
    fn o52_one_remover_gets_what_was_kept_with_every_use_behind_him() {
        loom::model(|| {
            let life = Life::first();
            life.word.get_another();
            let other = {
                let life = Arc::clone(&life);
                loom::thread::spawn(move || {
                    assert_eq!(life.value(), 1);
                    assert!(life.word.keep());
                })
            };
            let mut ended = life.word.release();
            if life.word.remove(1) {
                ended |= life.word.release();
            }
            if ended {
                life.set(0);
            }
            other.join().expect("no panic");
            assert_ne!(ended, life.word.remove(1));
        });
    }

    #[test]
    fn o41_every_use_of_the_value_comes_before_it_is_moved_out() {
        loom::model(|| {
            let life = Life::first();
            life.word.get_another();
            let other = {
                let life = Arc::clone(&life);
                loom::thread::spawn(move || {
                    assert_eq!(life.value(), 1);
                    if life.word.release() {
                        life.set(0);
                    }
                })
            };
            if life.word.release_if_last() || life.word.release() {
                life.set(0);
            }
            other.join().expect("no panic");
        });
    }

    #[test]
    fn o42_validated_read_never_passes_off_the_next_life() {
        loom::model(|| {
            let life = Life::first();
            let owner = {
                let life = Arc::clone(&life);
                loom::thread::spawn(move || life.end_and_begin_anew())
            };
            let seen = life.word.see();
            if seen.is_alive() {
                // Relaxed: what a user's closure may do; the check judges it.
                let identity = life.identity.load(Relaxed);
                if life.word.still_is(seen.generation()) {
                    assert_eq!(identity, seen.generation());
                }
            }
            owner.join().expect("no panic");
        });
    }

    #[test]
    fn o42_validated_read_holds_when_another_thread_reuses_the_slot() {
        loom::model(|| {
            let life = Life::first();
            let handed = Arc::new(AtomicU64::new(0));
            let last = {
                let (life, handed) = (Arc::clone(&life), Arc::clone(&handed));
                loom::thread::spawn(move || {
                    assert!(life.word.release());
                    // Release: stands for the depot's hand-over.
                    handed.store(1, Release);
                })
            };
            let next = {
                let life = Arc::clone(&life);
                loom::thread::spawn(move || {
                    // Acquire: as above.
                    if handed.load(Acquire) == 1 {
                        before_reuse();
                        // Relaxed: the fence above orders it.
                        life.identity.store(2, Relaxed);
                    }
                })
            };
            let seen = life.word.see();
            if seen.is_alive() {
                // Relaxed: as in the model above.
                let identity = life.identity.load(Relaxed);
                assert!(identity == 1 || !life.word.still_is(seen.generation()));
            }
            last.join().expect("no panic");
            next.join().expect("no panic");
        });
    }
}
