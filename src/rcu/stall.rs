//! Telling when a reader holds grace periods up: the kernel's RCU CPU stall detector.
//!
//! # Protocol
//!
//! Where foreign code may run and nothing is locked (a closing batch, help at the limit, a barrier's wait, the worker), a
//! thread compares the age of the open period with the domain's patience. If the period is older and a reader from before
//! it is found, the hook hears of it: once, and again each time the wait has doubled. `synchronize` and polls only wait,
//! since they run nobody's code.
//!
//! Source: Documentation/RCU/stallwarn.rst of Linux.

use std::fmt;
use std::time::Duration;

use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Relaxed, now};
use crate::thread::{Registry, frame, may_run_foreign};

use super::core::Core;
use super::limit::nanos;
use super::record::Record;

/// What takes the report of a stall.
pub type StallHook = dyn Fn(&Stall) + Send + Sync;

/// A reader that holds a grace period up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// Name of the thread that entered, if it has one. An owned guard may be elsewhere by now.
    pub thread: Option<String>,
    /// How long the grace period has been open.
    pub waited: Duration,
    /// Number of the grace period.
    pub grace_period: u64,
    /// Objects that wait in the domain.
    pub pending_objects: u64,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thread = self.thread.as_deref().unwrap_or("<unnamed>");
        write!(
            f,
            "thread {thread} has held grace period {} up for {:?}; {} objects wait",
            self.grace_period, self.waited, self.pending_objects
        )
    }
}

/// Whom to tell of stalls, and when.
pub(super) struct Stalls {
    hook: Mutex<Option<Arc<StallHook>>>,
    /// Age of a period from which it is a stall, in nanoseconds; `u64::MAX` without a hook.
    after: AtomicU64,
    /// The period that was told of last, and the age from which it is told of again.
    told: AtomicU64,
    again: AtomicU64,
}

impl Stalls {
    crate::sync::const_fn! {
        pub(super) fn new() -> Self {
            Self {
                hook: Mutex::new(None),
                after: AtomicU64::new(u64::MAX),
                told: AtomicU64::new(0),
                again: AtomicU64::new(0),
            }
        }
    }

    pub(super) fn set(&self, after: Duration, hook: Option<Arc<StallHook>>) {
        let age = if hook.is_some() {
            nanos(after)
        } else {
            u64::MAX
        };
        let before = std::mem::replace(&mut *self.hook.lock(), hook);
        // Relaxed: a matter of time only, as everywhere here.
        self.after.store(age, Relaxed);
        // A user's closure: dropped without the lock.
        drop(before);
    }

    /// Locks the hook, for a fork.
    pub(super) fn hold(&self) -> MutexGuard<'_, Option<Arc<StallHook>>> {
        self.hook.lock()
    }

    /// Whether a period of this age is to be told of, by this thread.
    fn is_due(&self, period: u64, age: u64) -> bool {
        // Relaxed: as in set.
        let told = self.told.load(Relaxed);
        // Relaxed: as in set.
        let again = self.again.load(Relaxed);
        let from = if told == period {
            again
        } else {
            // Relaxed: as in set.
            self.after.load(Relaxed)
        };
        if age < from {
            return false;
        }
        // Relaxed: one of several threads tells. A period that was told of before may be told of twice.
        let next = age.saturating_mul(2).max(1);
        // Relaxed: as above.
        let mine = self
            .again
            .compare_exchange(again, next, Relaxed, Relaxed)
            .is_ok();
        // Relaxed: as in set.
        self.told.store(period, Relaxed);
        mine
    }
}

impl fmt::Debug for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stalls").finish_non_exhaustive()
    }
}

/// A record whose owner was inside before the period began.
fn holder(records: &Registry<Record>, period: u64) -> Option<&Record> {
    records.iter().map(|node| &node.value).find(|record| {
        let word = record.observe();
        !word.is_idle() && !word.passes(period)
    })
}

impl Core {
    /// Tells the hook if a reader has held the open period up for too long.
    pub(super) fn look_for_stalls(&self) {
        // Relaxed: as in Stalls::set.
        if self.stalls.after.load(Relaxed) != u64::MAX {
            self.tell_of_stalls();
        }
    }

    #[cold]
    fn tell_of_stalls(&self) {
        let Some((period, opened)) = self.clock.open_period() else {
            return;
        };
        let age = now().saturating_sub(opened);
        // Relaxed: as in Stalls::set.
        if age < self.stalls.after.load(Relaxed) || !may_run_foreign() {
            return;
        }
        let Some(record) = holder(&self.records, period) else {
            return;
        };
        if !self.stalls.is_due(period, age) {
            return;
        }
        let hook = self.stalls.hook.lock().clone();
        let Some(hook) = hook else { return };
        let stall = Stall {
            thread: record.thread_name(),
            waited: Duration::from_nanos(age),
            grace_period: period,
            pending_objects: self.stats().pending_objects,
        };
        // The last reference may drop what the user's closure holds, so it goes inside.
        frame::run(self.id, || self.panics.catch(move || hook(&stall)));
    }

    /// How long the oldest guard has been known to hold a period up.
    pub(super) fn oldest_guard(&self) -> Option<Duration> {
        let (period, opened) = self.clock.open_period()?;
        holder(&self.records, period)?;
        Some(Duration::from_nanos(now().saturating_sub(opened)))
    }
}
