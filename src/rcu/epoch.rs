//! The two packed words of the protocol: the domain's epoch `E` and a record's word.
//!
//! Both carry an epoch in their upper bits, so that one compare of a word with `E` can decide everything.
//!
//! | bits | in a record's word | in `E` |
//! |---|---|---|
//! | 0..14 | `nest`: guards of the owner now live | 0 |
//! | 14 | `S`: the next enter from this word is fenced | 0 |
//! | 15 | 0 | `F`: every enter is fenced |
//! | 16..64 | `E`'s epoch at the outermost enter | the epoch |
//!
//! `F` is a bit of its own that no word ever carries, and `S` one that `E` never carries: the compare succeeds only for an
//! idle word of the present epoch while enters needn't be fenced. A word that is on its way in goes through `(x, 1)` for a
//! moment, also from an old epoch.
//!
//! | word | meaning | next | who moves it |
//! |---|---|---|---|
//! | `(x, 0)` | idle; the next enter may go without a fence | `(x, 1)`, which is `(E, 1)` or becomes it | owner, enter |
//! | | | `(E, 0)` | owner, announce |
//! | | | `(x, S, 0)` | a driver, after a heavy fence of a period above `x` |
//! | `(x, S, 0)` | idle, trusted by every driver | `(E, 1)`, `(E, S, 1)` | owner, enter, fenced |
//! | `(x, n)` | inside `n` guards since epoch `x` | `(x, n + 1)`, `(x, n - 1)` | owner, nested enter and leave |
//! | `(x, S, n)` | the same, entered while `F` was set | `(x, S, n + 1)`, `(x, S, n - 1)` | owner |
//!
//! 48 bits of epoch at five million grace periods a second last 650 days without a pause; [`Epoch::next`] aborts
//! before they wrap.

use crate::fence::ALWAYS_FULL;

use super::mode::{Mode, ReaderFences};

const NEST_MASK: u64 = (1 << 14) - 1;
const S: u64 = 1 << 14;
const F: u64 = 1 << 15;
const EPOCH_SHIFT: u32 = 16;
const EPOCH_MAX: u64 = u64::MAX >> EPOCH_SHIFT;

/// A value of the domain's epoch `E`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch(u64);

impl Epoch {
    /// The first epoch; with every enter fenced where there is nothing but full fences.
    pub(super) const FIRST: Self = Self((1 << EPOCH_SHIFT) | if ALWAYS_FULL { F } else { 0 });

    /// The first epoch of a domain.
    pub(super) const fn first(fences: ReaderFences) -> Self {
        let f = if Mode::begins_fenced(fences) { F } else { 0 };
        Self(Self::FIRST.0 | f)
    }

    /// The bit of `E` that has every enter fenced.
    pub(super) const FENCED: u64 = F;

    /// What to add to `E` to open the next epoch.
    pub(super) const STEP: u64 = 1 << EPOCH_SHIFT;

    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    pub(super) const fn number(self) -> u64 {
        self.0 >> EPOCH_SHIFT
    }

    /// The epoch after this one. Aborts when the numbers run out.
    pub(super) fn next(self) -> Self {
        if self.number() == EPOCH_MAX {
            std::process::abort();
        }
        Self(self.0 + Self::STEP)
    }

    pub(super) const fn is_fenced(self) -> bool {
        self.0 & F != 0
    }
}

/// A value of a record's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(u64);

impl Word {
    /// Idle since before the first epoch; the first enter is fenced.
    pub(super) const IDLE: Self = Self(S);

    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    /// The word of an outermost guard that entered in `epoch`.
    pub(super) const fn entered(epoch: Epoch) -> Self {
        let s = if epoch.is_fenced() { S } else { 0 };
        Self((epoch.number() << EPOCH_SHIFT) | s | 1)
    }

    /// The word of an owned guard that entered in `epoch`: what follows it is fenced, whatever `E` says.
    pub(super) const fn entered_owned(epoch: Epoch) -> Self {
        Self(Self::entered(epoch).0 | S)
    }

    /// Whether this is an idle word from which an enter may go without a fence, if `E` is still its epoch afterwards.
    #[inline]
    pub(super) const fn may_enter_unfenced(self) -> bool {
        self.0 & (NEST_MASK | S) == 0
    }

    /// Whether this is the idle word of `epoch`, whose owner may enter without a fence.
    #[inline]
    pub(super) const fn is_current(self, epoch: Epoch) -> bool {
        self.0 == epoch.0
    }

    /// The idle word of a thread that announces that it has seen `epoch`; none if it is inside a guard, has been parked
    /// (only a fenced enter may follow that) or has seen the epoch already.
    pub(super) const fn announced(self, epoch: Epoch) -> Option<Self> {
        let seen = epoch.number() << EPOCH_SHIFT;
        if self.0 & (NEST_MASK | S) == 0 && self.0 != seen {
            Some(Self(seen))
        } else {
            None
        }
    }

    /// The idle word with its next enter fenced.
    pub(super) const fn parked(self) -> Self {
        Self(self.0 | S)
    }

    /// The word with one guard more. Aborts one below the field's limit: unwinding would leave through this very word.
    #[inline]
    pub(super) fn nested(self) -> Self {
        if self.0 & NEST_MASK == NEST_MASK - 1 {
            too_deep();
        }
        Self(self.0 + 1)
    }

    /// An idle word with its first guard.
    #[inline]
    pub(super) const fn nested_once(self) -> Self {
        Self(self.0 + 1)
    }

    pub(super) const fn is_only_guard(self) -> bool {
        self.0 & NEST_MASK == 1
    }

    /// The word with one guard less.
    #[inline]
    pub(super) const fn left(self) -> Self {
        Self(self.0 - 1)
    }

    pub(super) const fn is_idle(self) -> bool {
        self.0 & NEST_MASK == 0
    }

    /// Whether a driver of the grace period that epoch `number` opened needn't wait for this word's owner: it entered
    /// late enough, or it is idle and its next enter is fenced.
    pub(super) const fn passes(self, number: u64) -> bool {
        self.0 >> EPOCH_SHIFT >= number || (self.is_idle() && self.0 & S != 0)
    }

    /// Whether the period that opened epoch `number` waits for a guard on this word. That guard has been there since before:
    /// a later one has a later epoch.
    pub(super) const fn holds_up(self, number: u64) -> bool {
        !self.is_idle() && !self.passes(number)
    }
}

#[cold]
fn too_deep() -> ! {
    std::process::abort();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn no_word_carries_f_and_no_epoch_carries_s_or_nest() {
        let mut epoch = Epoch::from_bits(Epoch::FIRST.bits() | F);
        for number in 1..100 {
            assert_eq!(epoch.number(), number);
            assert_eq!(epoch.bits() & (NEST_MASK | S), 0);
            let word = Word::entered(epoch);
            assert_eq!(word.bits() & F, 0);
            assert_eq!(word.nested().left(), word);
            assert!(word.left().is_idle() && !word.is_idle());
            assert!(!word.left().is_current(epoch));
            epoch = epoch.next();
        }
    }

    #[test]
    fn only_an_idle_word_of_the_present_epoch_enters_without_a_fence() {
        let epoch = Epoch::from_bits(Epoch::FIRST.bits() & !F);
        let idle = Word::entered(epoch).left();
        assert!(idle.is_current(epoch) && idle.may_enter_unfenced());
        assert!(!idle.nested().may_enter_unfenced() && !idle.parked().may_enter_unfenced());
        assert!(!idle.nested().is_current(epoch));
        assert!(!idle.parked().is_current(epoch));
        assert!(!idle.is_current(epoch.next()));
        assert!(!idle.is_current(Epoch::from_bits(epoch.bits() | F)));
        assert_eq!(idle.announced(epoch), None);
        assert_eq!(idle.parked().announced(epoch.next()), None);
        assert_eq!(idle.nested().announced(epoch.next()), None);
        let announced = idle.announced(epoch.next()).expect("idle and not parked");
        assert!(announced.is_current(epoch.next()));
    }

    #[test]
    fn driver_waits_for_earlier_readers_only() {
        let word = Word::entered(Epoch::FIRST);
        assert!(word.passes(1));
        assert!(!word.passes(2));
        assert!(word.left().parked().passes(2));
        assert!(Word::IDLE.passes(u64::MAX >> EPOCH_SHIFT));
    }
}
