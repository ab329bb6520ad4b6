//! Why a slot can't be had.

use std::any::Any;
use std::error::Error;
use std::fmt;

/// Why [`try_reserve`](super::Slab::try_reserve) has no slot.
#[non_exhaustive]
pub enum ReserveError {
    /// Every slot that [`max_objects`](super::SlabBuilder::max_objects) allows is taken.
    ///
    /// Under [`AfterGrace`](super::AfterGrace) some of them may be waiting for a grace period.
    Full {
        /// The limit.
        max_objects: usize,
    },
    /// The [`Budget`](super::Budget) that the slab shares with others is used up, and none of them has a page to spare.
    OverBudget,
    /// There is no memory for another page, or for what a thread keeps of a slab.
    OutOfMemory {
        /// What was asked for, in bytes.
        bytes: usize,
    },
    /// The id, or the key that was to be restored, has an owner.
    Taken {
        /// The id.
        index: u64,
    },
    /// The id isn't one of those that are given out on request, or is no slot's.
    NotReserved {
        /// The id.
        index: u64,
    },
    /// The constructor of the stable part failed.
    Constructor(Box<dyn Error + Send + Sync>),
    /// The constructor of the stable part panicked with this.
    Panicked(Box<dyn Any + Send>),
}

impl ReserveError {
    /// Whether a slot that comes free makes the difference.
    pub(super) const fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::OverBudget)
    }
}

impl fmt::Debug for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReserveError({self})")
    }
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { max_objects } => {
                write!(f, "the slab is full: all {max_objects} slots are taken")
            }
            Self::OverBudget => write!(f, "the budget that the slab shares is used up"),
            Self::OutOfMemory { bytes } => {
                write!(f, "no memory for {bytes} bytes of the slab")
            }
            Self::Taken { index } => write!(f, "the id {index} is taken"),
            Self::NotReserved { index } => {
                write!(f, "the id {index} isn't given out on request")
            }
            Self::Constructor(error) => write!(f, "the slab's constructor failed: {error}"),
            Self::Panicked(payload) => match message(&**payload) {
                Some(message) => write!(f, "the slab's constructor panicked: {message}"),
                None => write!(f, "the slab's constructor panicked"),
            },
        }
    }
}

impl Error for ReserveError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Constructor(error) => Some(&**error),
            _ => None,
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    match payload.downcast_ref::<&str>() {
        Some(message) => Some(message),
        None => payload.downcast_ref::<String>().map(String::as_str),
    }
}

/// Why [`try_insert`](super::Slab::try_insert) has no slot, with the value that has found no place.
pub struct InsertError<V> {
    value: V,
    reason: ReserveError,
}

impl<V> InsertError<V> {
    pub(super) fn new(value: V, reason: ReserveError) -> Self {
        Self { value, reason }
    }

    /// Returns the reason.
    #[must_use]
    pub const fn reason(&self) -> &ReserveError {
        &self.reason
    }

    /// Hands the value back.
    #[must_use]
    pub fn into_value(self) -> V {
        self.value
    }

    /// Hands value and reason back.
    #[must_use]
    pub fn into_parts(self) -> (V, ReserveError) {
        (self.value, self.reason)
    }
}

impl<V> fmt::Debug for InsertError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InsertError({})", self.reason)
    }
}

impl<V> fmt::Display for InsertError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<V> Error for InsertError<V> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.reason.source()
    }
}
