//! Which way the slots of a page go when they are free.

/// What becomes of a page's slots when they are free.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// They go to the threads' magazines.
    Plain,
    /// They have reserved ids, and wait for those to be asked for.
    Reserved { floor: u64 },
    /// As plain ones, but above this generation.
    Restored { floor: u64 },
}

impl Kind {
    /// The generation that no key which was given out before the slab was built is above; 0 if no key is restored here.
    pub(super) const fn floor(self) -> u64 {
        match self {
            Self::Plain => 0,
            Self::Reserved { floor } | Self::Restored { floor } => floor,
        }
    }
}
