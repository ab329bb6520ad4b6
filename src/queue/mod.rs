//! The batched deferred-drop queue: expensive drops leave the hot path.
//!
//! A [`DropQueue`] takes values from any thread and hands them to a handler in small batches, while they are still warm
//! in the cache, and bounded in number and time. Its models are the deferred `iput` and the background inode
//! inactivation of Linux.
//!
//! | file | what it holds |
//! |---|---|
//! | `local` | one thread's open buffer and counts; the push |
//! | `buffer`, `ring`, `line`, `spares` | a batch's items; full buffers on their way to a handler; empty ones on their way back |
//! | `takeover` | taking over what another thread has open |
//! | `nodes` | every thread's `local`, also those of threads that have ended |
//! | `push`, `core`, `drive`, `close` | what a push does beside storing; running batches; the worker; the end |
//! | `worker` | the thread's sleep and how it is told |
//! | `fork` | a queue held still for a fork |
//!
//! # Protocol
//!
//! A push stores into its thread's open buffer and writes nothing that is shared until the batch is full. Then the buffer
//! goes to the thread's line, from which the worker, the thread itself or whoever waits pops it. A part-full buffer is
//! taken over when it is late, or when somebody waits for everything. See `local` for the steps, `core` for who runs
//! handlers under which mark, `close` for why nothing is lost at the end.
//!
//! Full buffers travel by a ring of their own, not by taking the open buffer over: a takeover makes a heavy fence, which
//! costs more than a batch, and keeps the pusher out meanwhile.
//!
//! # Orderings
//!
//! O70 to O78; they stand in the files that make them.

mod batch;
mod buffer;
mod builder;
mod close;
mod core;
mod drive;
mod error;
mod fork;
mod line;
mod local;
#[cfg(all(test, loom))]
mod loom_models;
mod nodes;
mod push;
mod ring;
mod spares;
mod stats;
mod takeover;
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
///
/// Pushing is meant for under a lock: it is short, and runs no handler while fewer of its thread's items wait than may.
/// What is dropped later is dropped in batches, so a handler can take a shared lock once per batch. That pays where drops
/// are expensive or contended; a drop that only frees memory is better left where it is.
///
/// ```
/// use graceperiod::queue::{Batch, DropQueue};
/// use std::sync::{Arc, Mutex};
///
/// struct Session {
///     id: u64,
/// }
///
/// let closed = Arc::new(Mutex::new(Vec::new()));
/// let log = Arc::clone(&closed);
/// let queue = DropQueue::builder()
///     .handler(move |batch: Batch<'_, Session>| {
///         // One lock for the whole batch.
///         let mut log = log.lock().unwrap();
///         log.extend(batch.map(|session| session.id));
///     })
///     .build()?;
///
/// for id in 0..100 {
///     queue.push(Session { id }).expect("nobody has stopped the queue");
/// }
/// queue.flush();
/// assert_eq!(closed.lock().unwrap().len(), 100);
/// # Ok::<(), graceperiod::queue::ConfigError>(())
/// ```
///
/// # Who handles batches, and when
///
/// | | [`Drain::Worker`] | [`Drain::Inline`] | [`Drain::Manual`] |
/// |---|---|---|---|
/// | full batch | the worker | the push that fills it | [`drain`](Self::drain) |
/// | item older than `max_delay` | the worker | every 16th push of its thread | |
/// | thread at its limit | its next push | its next push | its next push |
/// | left by a thread that ended | the worker | the push that fills another batch, or a new thread | [`drain`](Self::drain) |
///
/// Whatever the mode, [`flush`](Self::flush), [`barrier`](Self::barrier), [`stop`](Self::stop), dropping the queue and
/// a barrier of the attached domain handle what they wait for on the calling thread, unless another thread has begun to.
///
/// The worker is one background thread per queue. It is started by the first push, sleeps while the queue is empty, and is
/// told by the first push after that and by every full batch; pushes that find it awake make no system call. If it can't
/// be started, batches are handled as under [`Drain::Inline`].
///
/// # Bounds
///
/// An item *waits* from its push until it is handed to the handler. At most `limit` items of one thread wait. A push that
/// finds that many handles its thread's oldest batch first, on its own thread, even under a lock of yours: what a handler
/// locks, don't hold while pushing, or use [`try_push`](Self::try_push). A push runs no handler, passes the limit instead
/// and counts that in [`QueueStats::limit_hits`], in three cases:
///
/// - inside a guard of the [attached](DropQueueBuilder::domain) domain,
/// - inside a handler or hook of this queue,
/// - while its thread unwinds from a panic.
///
/// The next push outside of them handles as many batches as bring the thread below the limit again. A thread that begins
/// to push may find what another one left as it ended; then that counts as its own.
///
/// # Panics of handlers and destructors
///
/// The rest of the batch is dropped, counters stay exact, and the queue goes on. The payload goes to the
/// [hook](DropQueueBuilder::on_panic), or to where the [attached](DropQueueBuilder::domain) domain's go. Without either
/// the first is kept: the next `flush` or `barrier` resumes it, or `stop` returns it. Dropping the queue drops it.
///
/// # The end
///
/// Dropping the queue stops it: everything accepted has been handled, and the worker has ended. Where it can't wait, the
/// rest is handled a little later: inside the queue's own handler by the thread that runs it or the worker, inside a guard
/// of the attached domain by the worker if there is one, and inside other foreign code that this crate runs (a destructor
/// of a domain, a handler of another queue) when that has returned.
///
/// # Values must be sendable
///
/// They are dropped on other threads:
///
/// ```
/// let queue = graceperiod::queue::DropQueue::new();
/// queue.push(std::sync::Arc::new(1)).unwrap();
/// ```
///
/// ```compile_fail,E0277
/// let queue = graceperiod::queue::DropQueue::new();
/// queue.push(std::rc::Rc::new(1)).unwrap();
/// ```
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
