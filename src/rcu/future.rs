//! Waiting without blocking a thread: grace periods and barriers as futures.
//!
//! Wakers are foreign code. Those who complete periods (`synchronize`, a poll) may run nobody's code, so they wake nobody:
//! the driver (`thread::driver`) asks for the periods that futures wait for, and wakes. That costs the engine nothing, and
//! a task up to a millisecond.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::reclaim::Polled;
use crate::sync::{Arc, Mutex, thread};
use crate::thread::{Watched, frame, watch};

use super::cookie::GracePeriod;
use super::core::CoreRef;
use super::global::Global;

/// A task that waits, and how to wake it.
struct Sleeper(Mutex<Option<Waker>>);

impl Sleeper {
    fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn set(&self, waker: &Waker) {
        let place = self.0.lock();
        if place.as_ref().is_some_and(|set| set.will_wake(waker)) {
            return;
        }
        drop(place);
        // A user's code, as is the drop of the one before: without the lock.
        let waker = waker.clone();
        let before = self.0.lock().replace(waker);
        drop(before);
    }

    fn wake(&self) {
        let waker = self.0.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A grace period that a task waits for.
struct Waiting<D: Polled> {
    period: GracePeriod<D>,
    sleeper: Sleeper,
}

impl<D: Polled> Watched for Waiting<D> {
    fn is_done(&self) -> bool {
        let done = self.period.has_elapsed();
        if !done {
            self.period.tend();
        }
        if done {
            frame::run(self.period.id(), || {
                let woken = panic::catch_unwind(AssertUnwindSafe(|| self.sleeper.wake()));
                if let Err(payload) = woken {
                    self.period.report_panic(payload);
                }
            });
        }
        done
    }
}

/// Waits for a grace period; made by awaiting a [`GracePeriod`].
///
/// While it waits, a thread of the crate's, `graceperiod-driver`, drives the period and wakes the task: it looks at once,
/// and then ever more seldom, at last every millisecond until another future comes. It serves the whole process, is started when a future has to wait,
/// and ends when none has for a second. A waker that blocks there holds up other tasks. Dropping the future gives the wait
/// up.
#[must_use = "futures do nothing unless polled"]
pub struct Elapsed<D: Polled = Global> {
    period: GracePeriod<D>,
    waiting: Option<Arc<Waiting<D>>>,
}

// Nothing in it is pinned.
impl<D: Polled> Unpin for Elapsed<D> {}

impl<D: Polled> IntoFuture for GracePeriod<D> {
    type Output = ();
    type IntoFuture = Elapsed<D>;

    /// Waits for the grace period without blocking a thread.
    ///
    /// # Panics
    ///
    /// The first poll that has to wait panics if the driver's thread can't be started. What can't be seen: a task that holds
    /// an owned guard of the same domain waits for itself.
    fn into_future(self) -> Elapsed<D> {
        Elapsed {
            period: self,
            waiting: None,
        }
    }
}

impl<D: Polled> Future for Elapsed<D> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.period.has_elapsed() {
            return Poll::Ready(());
        }
        if let Some(waiting) = &self.waiting {
            waiting.sleeper.set(context.waker());
        } else {
            let waiting = Arc::new(Waiting {
                period: self.period.clone(),
                sleeper: Sleeper::new(),
            });
            waiting.sleeper.set(context.waker());
            let watched: Arc<dyn Watched> = Arc::<Waiting<D>>::clone(&waiting);
            watch(Arc::downgrade(&watched));
            self.waiting = Some(waiting);
        }
        // Once more: the driver may have found it done, and woken the waker before this one.
        if self.period.has_elapsed() {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl<D: Polled> fmt::Debug for Elapsed<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Elapsed").field(&self.period).finish()
    }
}

/// What the thread of a barrier and the task that waits for it share.
struct Outcome {
    done: Mutex<bool>,
    sleeper: Sleeper,
}

/// Waits for a barrier; made by [`barrier_async`](crate::barrier_async) or
/// [`Domain::barrier_async`](crate::Domain::barrier_async).
///
/// The first poll starts a thread, `graceperiod-barrier`, which makes the barrier and runs its destructors; so what was
/// retired before the first poll is covered. A panic that a destructor left is resumed where the future is awaited.
/// Dropping the future afterwards doesn't stop the barrier, whose panic the next barrier then resumes.
///
/// It doesn't hold its domain open. A domain that closes meanwhile has dropped what was retired, and the future is ready.
/// What can't be seen: a task that holds an owned guard of the same domain waits for itself.
#[must_use = "futures do nothing unless polled"]
pub struct BarrierFuture {
    core: CoreRef,
    /// Whether the thread has been started.
    started: bool,
    outcome: Arc<Outcome>,
}

impl BarrierFuture {
    pub(super) fn new(core: CoreRef) -> Self {
        let outcome = Outcome {
            done: Mutex::new(false),
            sleeper: Sleeper::new(),
        };
        Self {
            core,
            started: false,
            outcome: Arc::new(outcome),
        }
    }

    fn start(&mut self) {
        let (core, outcome) = (self.core.clone(), Arc::clone(&self.outcome));
        let started = thread::Builder::new()
            .name(String::from("graceperiod-barrier"))
            .spawn(move || {
                core.barrier_for_future();
                *outcome.done.lock() = true;
                frame::run(core.id, || core.panics.catch(|| outcome.sleeper.wake()));
            });
        if let Err(error) = started {
            panic!("graceperiod: the thread of a barrier can't be started: {error}");
        }
        self.started = true;
    }
}

impl Future for BarrierFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.outcome.sleeper.set(context.waker());
        if !self.started {
            self.start();
        }
        // After the waker is set: whoever is done later wakes it.
        if !*self.outcome.done.lock() {
            return Poll::Pending;
        }
        self.core.panics.resume();
        Poll::Ready(())
    }
}

impl fmt::Debug for BarrierFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierFuture")
            .field("domain", &self.core.id)
            .field("started", &self.started)
            .finish_non_exhaustive()
    }
}
