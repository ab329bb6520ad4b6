//! Memory fences of two weights, and the locks that are built from them.
//!
//! # Protocol
//!
//! *Light* stands on the path that runs often, *heavy* on the one that runs rarely. Two threads that each store, fence
//! and then load what the other stored can't both miss the other's store if at least one of the fences is heavy
//! (C++ P1202, `asymmetric_thread_fence_light` and `_heavy`). Two light fences promise nothing to each other.
//!
//! # Orderings
//!
//! [`full`] is the plain two-sided fence that orders with every other `full`, `light` and `heavy`.
//!
//! This version takes the symmetric pair everywhere: both weights are a sequentially consistent fence.

mod biased;
mod symmetric;

pub(crate) use biased::{Biased, Section, Taken};
pub(crate) use symmetric::{full, heavy, light};
