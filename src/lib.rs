//! Concurrent memory reclamation the way the Linux VFS does it.

mod counter;
mod fence;
pub mod reclaim;
mod sync;
mod thread;
mod tuning;
