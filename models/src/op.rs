//! Operations on shared memory.

use crate::place::Place;
use crate::step::Step;

/// The ordering of an atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the language's own names")]
pub enum Order {
    Relaxed,
    Acquire,
    Release,
    AcqRel,
}

impl Order {
    /// Whether a load with it acquires.
    #[must_use]
    pub const fn acquires(self) -> bool {
        matches!(self, Self::Acquire | Self::AcqRel)
    }

    /// Whether a store with it releases.
    #[must_use]
    pub const fn releases(self) -> bool {
        matches!(self, Self::Release | Self::AcqRel)
    }
}

/// What a read-modify-write does to the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds nothing: `fetch_add(0)`.
    Nothing,
    /// Sets bits.
    Or(u8),
    /// Keeps bits.
    And(u8),
    /// Raises it.
    Max(u8),
    /// Replaces the expected value.
    Exchange {
        /// What must be there.
        expected: u8,
        /// What takes its place.
        new: u8,
    },
}

impl Change {
    /// The new value, unless the change fails.
    #[must_use]
    pub fn of(self, old: u8) -> Option<u8> {
        match self {
            Self::Nothing => Some(old),
            Self::Or(bits) => Some(old | bits),
            Self::And(bits) => Some(old & bits),
            Self::Max(other) => Some(old.max(other)),
            Self::Exchange { expected, new } => (old == expected).then_some(new),
        }
    }
}

/// What kind of operation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Answers the value.
    Load(Place, Order),
    /// Answers 0.
    Store(Place, u8, Order),
    /// Answers the old value.
    Change(Place, Change, Order),
    /// The light half of an asymmetric pair. Answers 0.
    Light,
    /// The heavy half. Answers 1, or 0 if it was refused.
    Heavy,
    /// A sequentially consistent fence. Answers 0.
    Full,
    /// Reads the object of this number. Answers 0.
    Use(u8),
    /// Frees the object of this number. Answers 0.
    Free(u8),
    /// A free choice. Answers 0 or 1.
    Choose,
}

/// One operation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// The step of the protocol.
    pub step: Step,
    /// What it does.
    pub kind: Kind,
}

impl Op {
    /// The step, as a trace prints it, with the answer that it got.
    #[must_use]
    pub fn describe(&self, answer: u8, note: &str) -> String {
        let Self { step, kind } = self;
        let what = match kind {
            Kind::Load(place, order) => format!("{} = {answer:#04x} ({order:?})", place.name()),
            Kind::Store(place, value, order) => {
                format!("{} := {value:#04x} ({order:?})", place.name())
            }
            Kind::Change(place, change, order) => match change.of(answer) {
                Some(new) => format!("{}: {answer:#04x} -> {new:#04x} ({order:?})", place.name()),
                None => format!("{} is {answer:#04x}, so nothing ({order:?})", place.name()),
            },
            Kind::Heavy if answer == 0 => "refused".to_owned(),
            Kind::Light | Kind::Heavy | Kind::Full => String::new(),
            Kind::Use(object) | Kind::Free(object) => format!("object {object}"),
            Kind::Choose => format!("chooses {answer}"),
        };
        format!("{:<3} {:<49} {what}{note}", step.name(), step.what())
    }
}
