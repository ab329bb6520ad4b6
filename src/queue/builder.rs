//! How a queue is set up.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::reclaim::{Polled, Stage};
use crate::sync::{Arc, Weak};
use crate::thread::{Forkable, Hook, Panics, register};
use crate::tuning::{QUEUE_BATCH, QUEUE_LIMIT, QUEUE_MAX_DELAY, QUEUE_NAME, QUEUE_PLACES};

use super::batch::Batch;
use super::core::{Core, Handler};
use super::{ConfigError, DropQueue};

/// Where the batches of a [`DropQueue`] are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Drain {
    /// On a background thread of the queue's own, started by the first push.
    ///
    /// If the thread can't be started, batches are handled as under [`Drain::Inline`].
    #[default]
    Worker,
    /// On the thread whose push makes a batch full, or notices at every 16th push that an item is late.
    Inline,
    /// Where [`DropQueue::drain`] and the waiting calls are made, and by a push at the limit.
    Manual,
}

/// The numbers of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) batch: usize,
    pub(super) limit: u64,
    /// In nanoseconds.
    pub(super) max_delay: u64,
    pub(super) drain: Drain,
}

impl Settings {
    /// Places for the full batches that may wait and two more, unless that is a lot: lines grow.
    pub(super) fn places(&self) -> usize {
        let batches = self.limit / self.batch as u64;
        let most = QUEUE_PLACES as u64;
        // It fits: at most QUEUE_PLACES.
        (batches.saturating_add(2).min(most) as usize).next_power_of_two()
    }
}

/// The domain whose barrier covers the queue, without its type.
pub(super) struct Attachment {
    is_inside: Box<dyn Fn() -> bool + Send + Sync>,
    report: Hook,
    attach: Box<dyn Fn(Weak<dyn Stage>) + Send + Sync>,
}

impl Attachment {
    fn to<D: Polled>(domain: &D) -> Self {
        let (inside, reported, attached) = (domain.inner(), domain.inner(), domain.inner());
        Self {
            is_inside: Box::new(move || D::is_inside(&inside)),
            report: Arc::new(move |payload| D::report_panic(&reported, payload)),
            attach: Box::new(move |stage| D::attach(&attached, stage)),
        }
    }

    pub(super) fn is_inside(&self) -> bool {
        (self.is_inside)()
    }

    pub(super) fn attach(&self, stage: Weak<dyn Stage>) {
        (self.attach)(stage);
    }
}

/// Sets up a [`DropQueue`]; made by [`DropQueue::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct DropQueueBuilder<T: Send + 'static> {
    batch: usize,
    limit: usize,
    max_delay: Duration,
    drain: Drain,
    name: String,
    handler: Handler<T>,
    hook: Option<Hook>,
    attachment: Option<Attachment>,
}

impl<T: Send + 'static> DropQueueBuilder<T> {
    pub(super) fn new() -> Self {
        Self {
            batch: QUEUE_BATCH,
            limit: QUEUE_LIMIT,
            max_delay: QUEUE_MAX_DELAY,
            drain: Drain::default(),
            name: QUEUE_NAME.to_owned(),
            handler: Box::new(|batch: Batch<'_, T>| drop(batch)),
            hook: None,
            attachment: None,
        }
    }

    /// Sets how many items of one thread make a full batch; 32 by default.
    ///
    /// Batches of one cost a wake-up per item, and batches from 256 up lose the cache: the optimum is in the middle.
    pub fn batch(mut self, items: usize) -> Self {
        self.batch = items;
        self
    }

    /// Sets how many items of one thread may wait; 256 by default.
    ///
    /// See [`DropQueue`] for what happens there.
    pub fn limit(mut self, items: usize) -> Self {
        self.limit = items;
        self
    }

    /// Sets the age from which a part-full batch is late; 1 ms by default.
    ///
    /// After 10 ms most items have left the caches of the thread that pushed them.
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = delay;
        self
    }

    /// Sets where batches are handled.
    pub fn drain(mut self, drain: Drain) -> Self {
        self.drain = drain;
        self
    }

    /// Sets what is done with each batch; by default its items are dropped, one by one.
    ///
    /// The handler runs on the worker, on pushing threads and on threads that wait (see [`DropQueue`]), on several at
    /// once but never nested on one thread, and never with a lock of this crate held. It gets a whole batch so that it
    /// can take each lock once. What it leaves in the batch is dropped.
    pub fn handler(mut self, handler: impl Fn(Batch<'_, T>) + Send + Sync + 'static) -> Self {
        self.handler = Box::new(handler);
        self
    }

    /// Attaches the queue to a domain, whose `barrier` then covers it.
    ///
    /// A push inside one of the domain's guards runs no handler: it passes the limit instead. The waiting calls panic
    /// there. Panics of the handler go where those of the domain's own destructors go, unless
    /// [`on_panic`](Self::on_panic) says otherwise.
    pub fn domain<D: Polled>(mut self, domain: &D) -> Self {
        self.attachment = Some(Attachment::to(domain));
        self
    }

    /// Names the background thread; `graceperiod-queue` by default.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets what is told of panics of the handler and of items' destructors.
    ///
    /// Without a hook the first payload is kept and resumed by the next [`flush`](DropQueue::flush) or
    /// [`barrier`](DropQueue::barrier), or returned by [`stop`](DropQueue::stop), and later ones are only counted. The
    /// hook runs where the handler ran, so what a handler must not call, it must not call either.
    pub fn on_panic(mut self, hook: impl Fn(Box<dyn Any + Send>) + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Builds the queue.
    ///
    /// # Errors
    ///
    /// If a number is zero, the batch is above the limit or above any allocation, or the name holds a zero byte.
    pub fn build(self) -> Result<DropQueue<T>, ConfigError> {
        self.check()?;
        Ok(self.build_checked())
    }

    fn check(&self) -> Result<(), ConfigError> {
        let &Self { batch, limit, .. } = self;
        if batch == 0 {
            Err(ConfigError::ZeroBatch)
        } else if limit == 0 {
            Err(ConfigError::ZeroLimit)
        } else if batch > limit {
            Err(ConfigError::BatchAboveLimit { batch, limit })
        } else if std::alloc::Layout::array::<T>(batch).is_err() {
            Err(ConfigError::BatchTooLarge { batch })
        } else if self.max_delay.is_zero() {
            Err(ConfigError::ZeroDelay)
        } else if self.name.contains('\0') {
            Err(ConfigError::ZeroInName)
        } else {
            Ok(())
        }
    }

    pub(super) fn build_checked(self) -> DropQueue<T> {
        let settings = Settings {
            batch: self.batch,
            limit: self.limit as u64,
            max_delay: u64::try_from(self.max_delay.as_nanos()).unwrap_or(u64::MAX),
            drain: self.drain,
        };
        let attached = self.attachment.as_ref().map(|a| Arc::clone(&a.report));
        let panics = Panics::new();
        panics.set_hook(self.hook.or(attached));
        let core = Core::new(settings, self.name, self.handler, panics, self.attachment);
        core.attach();
        let forkable: Weak<dyn Forkable> = Arc::<Core<T>>::downgrade(&core);
        register(forkable);
        DropQueue { core }
    }
}

impl<T: Send + 'static> fmt::Debug for DropQueueBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DropQueueBuilder")
            .field("name", &self.name)
            .field("batch", &self.batch)
            .field("limit", &self.limit)
            .field("max_delay", &self.max_delay)
            .field("drain", &self.drain)
            .finish_non_exhaustive()
    }
}
