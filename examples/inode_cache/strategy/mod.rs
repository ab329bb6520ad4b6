//! The ways to keep inodes in memory that are compared here.

mod boxed;
mod lock;
mod lock_sharded;
mod per_object;
mod slab;
mod type_stable;

use clap::ValueEnum;

use crate::cache::DropMode;
use crate::workload::{Plan, Run};

/// How the memory and the hash table of the inode cache are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Strategy {
    /// Slab slots, used again at once
    TypeStable,
    /// Slab slots, used again after a grace period
    PerObject,
    /// Heap boxes linked by `RcuOption`
    Boxed,
    /// `RwLock` over one `HashMap` of `Arc`
    Lock,
    /// 64 shards of that
    LockSharded,
}

impl Strategy {
    /// Whether this is what one would write without this crate, and so what ratios are told against.
    pub(crate) fn is_lock(self) -> bool {
        matches!(self, Strategy::Lock | Strategy::LockSharded)
    }

    /// Sets up a workload over this strategy.
    pub(crate) fn prepare(self, plan: &impl Plan, drop: DropMode) -> Box<dyn Run> {
        match self {
            Strategy::TypeStable => plan.prepare::<type_stable::TypeStable>(drop),
            Strategy::PerObject => plan.prepare::<per_object::PerObject>(drop),
            Strategy::Boxed => plan.prepare::<boxed::Boxed>(drop),
            Strategy::Lock => plan.prepare::<lock::LockedMap>(drop),
            Strategy::LockSharded => plan.prepare::<lock_sharded::LockedShards>(drop),
        }
    }
}
