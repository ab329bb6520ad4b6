//! The places of shared memory.

/// How many places there are.
pub const PLACES: usize = 10;

/// A place of shared memory that holds a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place(pub u8);

/// `E`: the domain's epoch, with `F`.
pub const E: Place = Place(0);
/// The last completed period.
pub const DONE: Place = Place(1);
/// The head of the list of records: a bit for each that is published.
pub const HEAD: Place = Place(2);
/// A mailbox in which users hand guards over.
pub const MAIL: Place = Place(3);
/// Where users keep the pointers to objects 1 and 2.
pub const POINTERS: [Place; 2] = [Place(4), Place(5)];

const NAMES: [&str; PLACES] = [
    "E", "done", "head", "mail", "p1", "p2", "word 0", "word 1", "node 0", "node 1",
];

impl Place {
    /// Its name in traces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        NAMES[self.0 as usize]
    }

    /// Its position.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A reader's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record(pub u8);

impl Record {
    /// Its word.
    #[must_use]
    pub const fn word(self) -> Place {
        Place(6 + self.0)
    }

    /// The state of its node.
    #[must_use]
    pub const fn node(self) -> Place {
        Place(8 + self.0)
    }

    /// Its bit in [`HEAD`].
    #[must_use]
    pub const fn bit(self) -> u8 {
        1 << self.0
    }
}

/// States of a node: nobody's.
pub const FREE: u8 = 0;
/// A thread's own.
pub const USED: u8 = 1;
/// Its owner has gone, but a guard of the owner's may still use it.
pub const ORPHAN: u8 = 2;
