//! What belongs to a thread: its nodes in domains, slabs and queues, and the foreign code that it is running.
//!
//! A structure with per-thread parts keeps them in a [`Registry`]; a thread finds its own through [`local::find`].
//! [`frame`] knows whether somebody's destructor or handler is running here, and [`Running`] lets other threads wait
//! for it. [`fork`] holds every structure of the process still while it forks.

#[cfg(not(loom))]
mod driver;
mod fork;
pub(crate) mod frame;
pub(crate) mod local;
mod panics;
mod quiet;
mod registry;
mod running;
mod snooze;

#[cfg(not(loom))]
pub(crate) use driver::{Watched, watch};
pub use fork::ForkGuard;
pub(crate) use fork::{Forkable, Held, register};
pub(crate) use local::{Home, HomeRef};
#[cfg(not(loom))]
pub(crate) use panics::Payload;
pub(crate) use panics::{HeldPanics, Hook, Panics, discard};
pub use quiet::NoReclaim;
pub(crate) use quiet::{is_quiet, may_run_foreign};
pub(crate) use registry::{Node, Registry};
pub(crate) use running::{Mark, Running};
pub(crate) use snooze::Snooze;
