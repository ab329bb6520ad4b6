//! Memory fences of two weights, and the locks that are built from them.
//!
//! # Protocol
//!
//! *Light* stands on the path that runs often, *heavy* on the one that runs rarely. Two threads that each store, fence
//! and then load what the other stored can't both miss the other's store if at least one of the fences is heavy
//! (C++ P1202, `asymmetric_thread_fence_light` and `_heavy`). Two light fences promise nothing to each other.
//!
//! | module | light | heavy |
//! |---|---|---|
//! | `linux` | compiler fence | `membarrier`, private and expedited |
//! | `symmetric` | full fence | full fence |
//!
//! Where the kernel has no `membarrier`, or refuses it from the start, the symmetric pair serves for good. Where it
//! refuses it later (a process that locks itself in with seccomp), [`heavy`] says so from then on: it orders with full
//! fences only, and light fences become full ones.
//!
//! # Orderings
//!
//! [`full`] is the plain two-sided fence that orders with every other `full`, with every successful `heavy`, and with
//! `light` where that is full.

mod biased;
mod kept;
#[cfg(all(target_os = "linux", not(any(loom, tsan, miri))))]
#[path = "linux.rs"]
mod system;
#[cfg(not(all(target_os = "linux", not(any(loom, tsan, miri)))))]
#[path = "symmetric.rs"]
mod system;

use std::sync::atomic::Ordering::SeqCst;

use crate::sync::{compiler_fence, fence};

pub(crate) use biased::{Biased, Revoked, Section, Taken};
pub(crate) use kept::Kept;
pub(crate) use system::{ALWAYS_FULL, ask_again, heavy, is_light_full};

/// Orders everything before with everything after, against every other fence of this module.
#[inline]
pub(crate) fn full() {
    // SeqCst: the total order over these fences is what store-then-load protocols rest on.
    fence(SeqCst);
}

/// Keeps the compiler from moving accesses across: the reader's half where a driver's [`heavy`] does the rest.
#[inline]
pub(crate) fn compiler() {
    // SeqCst: the strongest, which costs no instruction.
    compiler_fence(SeqCst);
}
