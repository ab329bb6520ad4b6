//! Memory that many threads read without a lock, and that writers still get back cheaply: reclamation the way the Linux
//! VFS does it.
//!
//! Readers enter a [`Guard`], which waits for nobody and writes nothing that other readers look at. What they find stays
//! valid memory until they leave. Writers take things away at once, and give the memory back later, or use it again.
//!
//! # Three mechanisms
//!
//! | mechanism | kernel ancestor | what it promises | what it costs |
//! |---|---|---|---|
//! | [`Slab`] with [`Immediate`] | `SLAB_TYPESAFE_BY_RCU` | a freed slot serves the next insert at once, also under a reader's eyes, and never changes its type | readers check that they found what they looked for |
//! | [`Slab`] with [`AfterGrace`], [`RcuCell`], [`retire`] | `call_rcu`, `kfree_rcu` | what a reader found stays that object until the reader leaves | memory waits for a grace period |
//! | [`DropQueue`] | deferred `iput`, XFS inodegc | expensive destructors leave the hot path, in small batches bounded in number and time | drops come later, on a stated thread |
//!
//! They share one grace-period engine: a [`Domain`], or the global one behind the functions of this page. A
//! [`Table`] over a slab adds look-ups by your own keys.
//!
//! # Example
//!
//! ```
//! use graceperiod::{RcuCell, Ref, Slab};
//!
//! // A slab hands out counted references, and keys that never match a later tenant of the slot.
//! let sessions: Slab<(), String> = Slab::new(|_| ());
//! let alice = sessions.insert("alice".to_owned());
//! let key = Ref::key(&alice);
//! assert_eq!(*sessions.get(key).unwrap(), "alice");
//! drop(alice);
//! assert!(sessions.get(key).is_none());
//!
//! // A cell is read under a guard and replaced as a whole.
//! let motd = RcuCell::new("welcome");
//! let guard = graceperiod::enter();
//! let seen = motd.load(&guard);
//! motd.replace("good night");
//! assert_eq!(*seen, "welcome");
//! drop(guard);
//!
//! // Afterwards every destructor of what was handed over has run.
//! graceperiod::barrier();
//! ```
//!
//! # Guarantees
//!
//! - Everything but [`retire_ptr`], [`retire_raw`], their methods on domains and [`prepare_fork`] is safe to call, from any thread, in any
//!   order, also in thread-local destructors.
//! - Entering, leaving, loading and the drops of guards and references wait for nobody.
//! - A panic of a destructor, handler or constructor that isn't the caller's own never leaves a call that merely happened
//!   to run it. It goes to a hook, or to the next [`barrier`]; the rest of the batch runs.
//! - What waits is bounded as long as readers leave; what a stalled reader holds back is counted in [`stats`].
//! - No identity is used twice: neither a domain's nor a key's.
//!
//! # Limits
//!
//! - A reader that never leaves holds back every later grace period of its domain. A type-stable slab doesn't mind.
//! - A thread that retires under one guard for long can't be bounded; see [`Guard::refresh`].
//! - Types are `Send + 'static`, and `Sync` where readers see them.
//! - Guards nest 16,382 deep on a thread, and a slot's references number 8,388,607; beyond that the process aborts.
//!
//! The design, every cross-thread edge, and measurements are in the repository's `docs`.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod cell;
mod counter;
mod fence;
mod prefetch;
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
    AtLimit, Domain, DomainBuilder, DomainRef, DomainStats, Drained, DropValues, Global,
    GracePeriod, Guard, OnLimit, OwnedGuard, PanicHook, Permit, Reader, ReaderFences, Stall,
    StallHook,
};
#[cfg(not(loom))]
pub use rcu::{BarrierFuture, Elapsed};
pub use root::*;
pub use slab::{
    AfterGrace, BadGenerations, Blank, Budget, Candidate, Cursor, Debug as SlabDebug, Generations,
    Immediate, InsertError, Key, Link, Policy, Ref, Released, ReserveError, Restore, Slab,
    SlabBuilder, SlabStats, Vacant,
};
pub use table::{DuplicateVacant, Table, TableInsertError, TableNode};
pub use thread::{ForkGuard, NoReclaim};
