//! Both weights as a sequentially consistent fence: right on every system.

use std::sync::atomic::Ordering::SeqCst;

use crate::sync::fence;

/// Orders everything before with everything after, against every other fence of this module.
#[inline]
pub(crate) fn full() {
    // SeqCst: the total order over these fences is what store-then-load protocols rest on.
    fence(SeqCst);
}

/// The frequent side of an asymmetric pair.
#[inline]
pub(crate) fn light() {
    full();
}

/// The rare side of an asymmetric pair.
#[inline]
pub(crate) fn heavy() {
    full();
}
