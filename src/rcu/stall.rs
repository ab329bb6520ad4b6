//! Telling when a reader holds grace periods up: the kernel's RCU CPU stall detector.
//!
//! # Protocol
//!
//! Where foreign code may run and nothing is locked (a closing batch, help at the limit, a barrier's wait, the worker, the
//! driver of futures), a thread compares the age of the open period with the domain's patience. If the period is older and a reader from before
//! it is found, the hook hears of it: once, and again each time the wait has doubled. `synchronize` and polls only wait,
//! since they run nobody's code.
//!
//! Source: Documentation/RCU/stallwarn.rst of Linux.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Relaxed, now};
use crate::thread::{Registry, discard, frame, may_run_foreign};

use super::clock::Clock;
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
    /// Number of the grace period: [`DomainStats::grace_periods`](crate::DomainStats::grace_periods) counts this many once it
    /// is complete.
    pub grace_period: u64,
    /// Objects that wait in the domain.
    pub pending_objects: u64,
    /// Their size in bytes, as far as it is known.
    pub pending_bytes: u64,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thread = self.thread.as_deref().unwrap_or("<unnamed>");
        write!(
            f,
            "thread {thread} has held grace period {} up for {:?}; {} objects ({} bytes) wait",
            self.grace_period, self.waited, self.pending_objects, self.pending_bytes
        )
    }
}

/// Whom to tell of stalls, and when.
pub(super) struct Stalls {
    /// Age of a period from which it is a stall, in nanoseconds; `u64::MAX` without a hook.
    after: AtomicU64,
    told: Mutex<Told>,
}

/// Whom to tell, and what was told.
pub(super) struct Told {
    hook: Option<Arc<StallHook>>,
    /// The period that was told of last, and the age from which it is told of again.
    period: u64,
    again: u64,
}

impl Stalls {
    crate::sync::const_fn! {
        pub(super) fn new() -> Self {
            Self {
                after: AtomicU64::new(u64::MAX),
                told: Mutex::new(Told {
                    hook: None,
                    period: 0,
                    again: 0,
                }),
            }
        }
    }

    pub(super) fn set(&self, after: Duration, hook: Option<Arc<StallHook>>) {
        let age = if hook.is_some() {
            nanos(after)
        } else {
            u64::MAX
        };
        let before = std::mem::replace(&mut self.told.lock().hook, hook);
        // Relaxed: a matter of time only, as everywhere here.
        self.after.store(age, Relaxed);
        // A user's closure: dropped without the lock.
        drop(before);
    }

    /// Locks the hook, for a fork.
    pub(super) fn hold(&self) -> MutexGuard<'_, Told> {
        self.told.lock()
    }

    /// The hook, if a period of this age is to be told of, by this thread: one of several that notice tells.
    fn take_due(&self, period: u64, age: u64) -> Option<Arc<StallHook>> {
        let mut told = self.told.lock();
        let from = if told.period == period {
            told.again
        } else {
            // Relaxed: as in set.
            self.after.load(Relaxed)
        };
        if age < from {
            return None;
        }
        told.period = period;
        told.again = age.saturating_mul(2).max(1);
        told.hook.clone()
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        let hook = self.told.lock().hook.take();
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(move || drop(hook))) {
            discard(payload);
        }
    }
}

impl fmt::Debug for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stalls").finish_non_exhaustive()
    }
}

/// A record whose owner was inside before the period began.
fn holder(records: &Registry<Record>, period: u64) -> Option<&Record> {
    records
        .iter()
        .map(|node| &node.value)
        .find(|record| record.observe().holds_up(period))
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
        let thread = record.thread_name();
        // Else another thread may have got the record, and given it its name.
        if !record.observe().holds_up(period) {
            return;
        }
        let Some(hook) = self.stalls.take_due(period, age) else {
            return;
        };
        let stats = self.stats();
        let stall = Stall {
            thread,
            waited: Duration::from_nanos(age),
            grace_period: Clock::ordinal(period),
            pending_objects: stats.pending_objects,
            pending_bytes: stats.pending_bytes,
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

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;

    #[test]
    fn of_two_threads_that_notice_a_stall_one_tells() {
        loom::model(|| {
            let stalls = Arc::new(Stalls::new());
            stalls.set(Duration::from_nanos(5), Some(Arc::new(|_: &Stall| ())));
            let other = {
                let stalls = Arc::clone(&stalls);
                loom::thread::spawn(move || stalls.take_due(3, 10).is_some())
            };
            let mine = stalls.take_due(3, 10).is_some();
            assert_ne!(mine, other.join().expect("no panic"));
        });
    }
}
