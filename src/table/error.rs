//! Why an insertion was refused, with what was to be inserted.

use std::error::Error;
use std::fmt;

use super::index::{Index, RefOf, VacantOf};

/// Why [`Table::insert`](super::Table::insert) refused an object.
#[must_use = "it holds the object"]
pub enum TableInsertError<I: Index> {
    /// A member has the key.
    Duplicate {
        /// The member.
        existing: RefOf<I>,
        /// What was to be inserted.
        rejected: RefOf<I>,
    },
    /// The object's node is in a table, under another key or in another table.
    InTable(RefOf<I>),
}

impl<I: Index> TableInsertError<I> {
    /// Returns what was to be inserted.
    pub fn into_rejected(self) -> RefOf<I> {
        match self {
            Self::Duplicate { rejected, .. } | Self::InTable(rejected) => rejected,
        }
    }

    /// Returns the member that has the key, if that was the reason.
    #[must_use]
    pub fn into_existing(self) -> Option<RefOf<I>> {
        match self {
            Self::Duplicate { existing, .. } => Some(existing),
            Self::InTable(_) => None,
        }
    }
}

/// [`Table::insert_vacant`](super::Table::insert_vacant) found a member with the key, and has published nothing.
#[must_use = "it holds the reserved slot and the value"]
pub struct DuplicateVacant<I: Index> {
    /// The member.
    pub existing: RefOf<I>,
    /// The slot, as reserved as before.
    pub vacant: VacantOf<I>,
    /// What was to be published in it.
    pub value: I::Value,
}

const DUPLICATE: &str = "an object with this key is in the table";

impl<I: Index> fmt::Display for TableInsertError<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Duplicate { .. } => DUPLICATE,
            Self::InTable(_) => "the object is in a table already",
        })
    }
}

impl<I: Index> fmt::Debug for TableInsertError<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { existing, rejected } => f
                .debug_struct("Duplicate")
                .field("existing", existing)
                .field("rejected", rejected)
                .finish(),
            Self::InTable(rejected) => f.debug_tuple("InTable").field(rejected).finish(),
        }
    }
}

impl<I: Index> Error for TableInsertError<I> {}

impl<I: Index> fmt::Display for DuplicateVacant<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DUPLICATE)
    }
}

impl<I: Index> fmt::Debug for DuplicateVacant<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DuplicateVacant")
            .field("existing", &self.existing)
            .field("vacant", &self.vacant)
            .finish_non_exhaustive()
    }
}

impl<I: Index> Error for DuplicateVacant<I> {}
