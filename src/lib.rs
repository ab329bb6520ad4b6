//! Concurrent memory reclamation the way the Linux VFS does it.

mod cell;
mod counter;
mod fence;
pub mod queue;
mod rcu;
pub mod reclaim;
mod root;
pub mod slab;
mod sync;
pub mod table;
mod thread;
mod tuning;

pub use cell::{RcuCell, RcuOption};
pub use queue::{
    Batch, ConfigError, Drain, DropQueue, DropQueueBuilder, QueueStats, Rejected, TryPushError,
};
pub use rcu::{
    Domain, DomainBuilder, DomainRef, DomainStats, Drained, DropValues, Global, GracePeriod, Guard,
    OnLimit, PanicHook, Reader,
};
pub use root::*;
pub use slab::{
    AfterGrace, Blank, Candidate, Immediate, InsertError, Key, Link, Policy, Ref, ReserveError,
    Slab, SlabBuilder, SlabStats, Vacant,
};
pub use table::{DuplicateVacant, Table, TableInsertError, TableNode};
