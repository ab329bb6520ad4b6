//! The two packed words, as `rcu/epoch` has them, in one byte.
//!
//! | bits | in a record's word | in `E` |
//! |---|---|---|
//! | 0..2 | `nest` | 0 |
//! | 3 | `S` | 0 |
//! | 4 | 0 | `F` |
//! | 5..8 | the epoch of the outermost enter | the epoch |

const NEST: u8 = 0b11;
const S: u8 = 1 << 3;
const EPOCH_SHIFT: u32 = 5;

/// What to add to `E` to open the next epoch.
pub const STEP: u8 = 1 << EPOCH_SHIFT;

/// The bit of `E` that has every enter fenced.
pub const F: u8 = 1 << 4;

/// The same bit in the wrong layout: `F` is `S`.
pub const F_AS_S: u8 = S;

/// A value of the domain's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch(pub u8);

/// A value of a record's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub u8);

impl Epoch {
    /// The first epoch.
    pub const FIRST: Self = Self(STEP);

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0 >> EPOCH_SHIFT
    }

    /// The epoch after this one.
    ///
    /// # Panics
    ///
    /// If a case opens more epochs than a byte can tell apart.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.checked_add(STEP).expect("a case with few periods"))
    }

    /// Whether it carries `F`, which is bit `f`.
    #[must_use]
    pub const fn is_fenced(self, f: u8) -> bool {
        self.0 & f != 0
    }
}

impl Word {
    /// Idle since before the first epoch; the first enter is fenced.
    pub const IDLE: Self = Self(S);

    /// The word of an outermost guard that entered in `epoch`.
    #[must_use]
    pub const fn entered(epoch: Epoch, f: u8) -> Self {
        let s = if epoch.is_fenced(f) { S } else { 0 };
        Self((epoch.number() << EPOCH_SHIFT) | s | 1)
    }

    /// The word of an owned guard: its next enter is always fenced.
    #[must_use]
    pub const fn owned(epoch: Epoch) -> Self {
        Self((epoch.number() << EPOCH_SHIFT) | S | 1)
    }

    /// An idle word that has seen `epoch`.
    #[must_use]
    pub const fn idle_in(epoch: Epoch) -> Self {
        Self(epoch.number() << EPOCH_SHIFT)
    }

    /// Whether this is an idle word from which an enter may go without a fence, if `E` is still its epoch afterwards.
    #[must_use]
    pub const fn may_enter_unfenced(self) -> bool {
        self.0 & (NEST | S) == 0
    }

    /// Whether this is the idle word of `epoch`, whose owner may enter without a fence.
    #[must_use]
    pub const fn is_current(self, epoch: Epoch) -> bool {
        self.0 == epoch.0
    }

    /// The idle word of a thread that announces `epoch`, if there is anything to announce.
    #[must_use]
    pub const fn announced(self, epoch: Epoch, also_parked: bool) -> Option<Self> {
        let seen = Self::idle_in(epoch);
        let refused = if also_parked { NEST } else { NEST | S };
        if self.0 & refused == 0 && self.0 != seen.0 {
            Some(seen)
        } else {
            None
        }
    }

    /// The word with its next enter fenced.
    #[must_use]
    pub const fn parked(self) -> Self {
        Self(self.0 | S)
    }

    /// The word with one guard more.
    ///
    /// # Panics
    ///
    /// If a case nests deeper than two bits can count.
    #[must_use]
    pub fn nested(self) -> Self {
        assert!(self.0 & NEST < NEST, "a case that nests this deep");
        Self(self.0 + 1)
    }

    /// The word with one guard less.
    ///
    /// # Panics
    ///
    /// If nobody is inside.
    #[must_use]
    pub fn left(self) -> Self {
        assert!(!self.is_idle(), "a guard to leave");
        Self(self.0 - 1)
    }

    /// Whether the thread has one guard.
    #[must_use]
    pub const fn is_only_guard(self) -> bool {
        self.0 & NEST == 1
    }

    /// Whether the thread has no guard.
    #[must_use]
    pub const fn is_idle(self) -> bool {
        self.0 & NEST == 0
    }

    /// Whether the next enter is fenced, or this one was.
    #[must_use]
    pub const fn is_parked(self) -> bool {
        self.0 & S != 0
    }

    /// Whether the owner entered in epoch `number` or later.
    #[must_use]
    pub const fn is_since(self, number: u8) -> bool {
        self.0 >> EPOCH_SHIFT >= number
    }
}
