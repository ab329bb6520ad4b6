//! Both weights as a full fence: right on every system.

use super::full;

/// Whether light fences are full ones for good.
pub(crate) const ALWAYS_FULL: bool = true;

/// The rare side of an asymmetric pair. True: it orders with light fences.
#[inline]
pub(crate) fn heavy() -> bool {
    full();
    true
}

/// Whether light fences are full ones at present.
#[inline]
pub(crate) fn is_light_full() -> bool {
    true
}

/// Forgets what the system has said, in the child of a fork: nothing.
pub(crate) fn ask_again() {}
