//! The grace-period engine: domains, guards, cookies, retirement, barriers.
//!
//! | file | holds |
//! |---|---|
//! | `epoch` | the packed words of the protocol |
//! | `record` | a thread's record: enter and leave |
//! | `clock`, `mode` | grace periods: cookie, advance, scan, complete; whether readers fence |
//! | `thunk`, `batch`, `backlog` | what has been retired |
//! | `core` | a domain's shared state, and the calling thread's record in it |
//! | `retire`, `limit`, `permit`, `takeover` | retiring and pacing; limits, and room asked for before; what idle threads left |
//! | `barrier` | synchronize, barrier, drain, close |
//! | `guard`, `owned`, `cookie`, `stats` | what users hold |
//! | `future` | waiting without blocking a thread |
//! | `stall` | telling of readers that stay too long |
//! | `domain`, `global`, `handle` | the two kinds of domain, and their common methods |
//! | `worker` | a domain's optional thread |
//! | `fork` | a domain held still for a fork |

mod backlog;
mod barrier;
mod batch;
mod clock;
mod cookie;
mod core;
mod domain;
mod epoch;
mod fork;
#[cfg(not(loom))]
mod future;
mod global;
mod guard;
mod handle;
mod limit;
#[cfg(all(test, loom))]
mod loom_models;
mod mode;
mod owned;
mod permit;
mod record;
mod retire;
mod stall;
mod stats;
mod takeover;
#[cfg(all(test, not(loom)))]
mod tests;
mod thunk;
mod worker;

pub use cookie::GracePeriod;
pub use domain::{Domain, DomainBuilder, DomainRef, DropValues, PanicHook};
pub(crate) use fork::forkable_global;
#[cfg(not(loom))]
pub use future::{BarrierFuture, Elapsed};
pub use global::Global;
pub use guard::{Guard, Reader};
pub use limit::OnLimit;
pub use mode::ReaderFences;
pub use owned::OwnedGuard;
pub use permit::{AtLimit, Permit};
pub use stall::{Stall, StallHook};
pub use stats::{DomainStats, Drained};
