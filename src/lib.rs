//! Concurrent memory reclamation the way the Linux VFS does it.

mod cell;
mod counter;
mod fence;
mod rcu;
pub mod reclaim;
mod root;
mod sync;
mod thread;
mod tuning;

pub use cell::{RcuCell, RcuOption};
pub use rcu::{
    Domain, DomainBuilder, DomainRef, DomainStats, Drained, DropValues, Global, GracePeriod, Guard,
    OnLimit, PanicHook, Reader,
};
pub use root::*;
