//! The batched deferred-drop queue: expensive drops leave the hot path.
//!
//! A [`DropQueue`] takes values from any thread and hands them to a handler in small batches, while they are still warm
//! in the cache, and bounded in number and time. Its models are the deferred `iput` and the background inode
//! inactivation of Linux.

mod batch;
mod buffer;
mod builder;
mod close;
mod core;
mod drive;
mod error;
mod line;
mod local;
#[cfg(all(test, loom))]
mod loom_models;
mod nodes;
mod push;
mod ring;
mod spares;
mod stats;
#[cfg(all(test, not(loom)))]
mod tests;
mod worker;

use std::any::Any;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::sync::Arc;

pub use batch::Batch;
pub use builder::{Drain, DropQueueBuilder};
pub use error::{ConfigError, Rejected, TryPushError};
pub use stats::QueueStats;

use self::core::Core;
use self::push::AtLimit;

/// A queue in which values wait to be dropped, or handled, in batches.
pub struct DropQueue<T: Send + 'static> {
    core: Arc<Core<T>>,
}

impl<T: Send + 'static> DropQueue<T> {
    /// Makes a queue that drops its items on a background thread.
    #[must_use]
    pub fn new() -> Self {
        DropQueueBuilder::new().build_checked()
    }

    /// Begins to set up a queue.
    pub fn builder() -> DropQueueBuilder<T> {
        DropQueueBuilder::new()
    }

    /// Hands `value` over for a later batch.
    ///
    /// # Errors
    ///
    /// Once the queue has been stopped; the value comes back.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), Rejected<T>> {
        let pushed = self.core.push(value, AtLimit::Handle);
        pushed.map_err(|refused| Rejected(refused.into_inner()))
    }

    /// Hands `value` over for a later batch unless as many of this thread's items wait as may.
    ///
    /// # Errors
    ///
    /// At the limit, and once the queue has been stopped; the value comes back.
    #[inline]
    pub fn try_push(&self, value: T) -> Result<(), TryPushError<T>> {
        self.core.push(value, AtLimit::Refuse)
    }

    /// Runs the handler on a batch of just `value` before it returns, on this thread: for what must not be deferred.
    ///
    /// Works on a stopped queue, too. Inside the queue's own handler, which doesn't nest, it happens as soon as that has
    /// returned. A panic goes where every other panic of the handler goes.
    pub fn push_now(&self, value: T) {
        self.core.push_now(value);
    }

    /// Makes the worker take everything that waits, late or not, and doesn't wait for it.
    ///
    /// Runs nobody's code and may be called anywhere. Without a worker there is nobody to tell.
    pub fn kick(&self) {
        self.core.kick();
    }

    /// Handles up to `n` items of all threads on this one, oldest first within each thread, and returns how many.
    ///
    /// # Panics
    ///
    /// Inside this queue's own handler or hook.
    pub fn drain(&self, n: usize) -> usize {
        self.core.refuse_in_handler("drain");
        // At most `n`, so it fits.
        self.core.drain(n as u64) as usize
    }

    /// Waits until everything that this thread has pushed is handled, on this thread as far as nobody else has begun.
    ///
    /// Batches that other threads have in hand are waited for, whosever they are, so don't hold a lock that the handler
    /// takes.
    ///
    /// # Panics
    ///
    /// Inside this queue's own handler or hook; inside a guard of the attached domain; with the first panic of the
    /// handler that nobody was told.
    pub fn flush(&self) {
        self.core.refuse_to_wait("flush");
        match self.core.nodes.find() {
            Some(own) => {
                self.core.drain_own(&own.value);
                self.core.wait_for_runners();
            }
            // It has pushed nothing, or as it exited, into nodes that it doesn't remember.
            None => self.core.drain_everything(&self.core.nodes.lend()),
        }
        self.core.panics.resume();
    }

    /// Waits until everything that any thread has pushed before the call is handled, by idle and exited threads, too.
    ///
    /// Handles on this thread what nobody else has begun. Don't hold a lock that the handler takes.
    ///
    /// # Panics
    ///
    /// As [`flush`](Self::flush).
    pub fn barrier(&self) {
        self.core.refuse_to_wait("barrier");
        self.core.drain_everything(&self.core.nodes.lend());
        self.core.panics.resume();
    }

    /// Ends the queue: pushes are rejected from now on, and everything accepted is handled before this returns.
    ///
    /// Waits for handlers on other threads and for the worker's end. A second call does no harm.
    ///
    /// # Errors
    ///
    /// The first panic of the handler that nobody was told; what it interrupted has been dropped all the same.
    ///
    /// # Panics
    ///
    /// Inside this queue's own handler or hook; inside a guard of the attached domain.
    pub fn stop(&self) -> Result<(), Box<dyn Any + Send>> {
        self.core.refuse_to_wait("stop");
        self.core.stop();
        self.core.panics.take().map_or(Ok(()), Err)
    }

    /// Returns the queue's counts; exact when nothing runs.
    #[must_use]
    pub fn stats(&self) -> QueueStats {
        self.core.stats()
    }
}

impl<T: Send + 'static> Default for DropQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send + 'static> Drop for DropQueue<T> {
    fn drop(&mut self) {
        self.core.close();
    }
}

// Foreign code runs where its panic is caught, and nothing is half done while it runs.
impl<T: Send + 'static> UnwindSafe for DropQueue<T> {}
impl<T: Send + 'static> RefUnwindSafe for DropQueue<T> {}

impl<T: Send + 'static> fmt::Debug for DropQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DropQueue")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

static_assertions::assert_impl_all!(DropQueue<Box<dyn Any + Send>>: Send, Sync);
static_assertions::assert_not_impl_any!(DropQueue<u8>: Clone);
static_assertions::assert_impl_all!(Batch<'static, Box<dyn Any + Send>>: Send);
