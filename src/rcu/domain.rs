//! Domains: independent sets of readers and of memory that waits for them.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::time::Duration;

use crate::sync::{Arc, Weak, next_id};
use crate::thread::frame::{self, Job};
use crate::thread::{Forkable, register};

use super::core::{Config, Core, Owner};
use super::guard::Guard;
use super::limit::OnLimit;
use super::mode::ReaderFences;
use super::owned::OwnedGuard;
use super::stall::{Stall, StallHook};
use super::worker::Worker;

/// What takes the panics of foreign code.
pub type PanicHook = dyn Fn(Box<dyn Any + Send>) + Send + Sync;

/// An owned domain: its readers and its garbage are independent of every other domain's.
///
/// A cheap user handle; clones name the same domain. When the last handle goes, the domain *closes*: no guard can be
/// left, since each borrows a handle, so everything retired is dropped before `drop` returns, also if guards were leaked.
/// (If that happens inside a destructor, the close waits until that has returned.) Cells and other inner references may
/// outlive the domain; what they retire afterwards is dropped at once, on their thread. Panics of destructors that run at
/// the close go to the hook, or are counted and lost. Garbage that itself owns a handle keeps the domain open until
/// something drops it: a barrier, or a thread that retires.
///
/// ```
/// use graceperiod::{Domain, RcuCell};
///
/// let domain = Domain::new();
/// let cell = RcuCell::new_in(String::from("old"), &domain);
/// {
///     let guard = domain.enter();
///     let old = cell.load(&guard);
///     cell.replace(String::from("new"));
///     assert_eq!(old, "old");
/// }
/// domain.barrier();
/// assert_eq!(domain.stats().pending_objects, 0);
/// ```
#[doc(alias = "rcu_domain")]
#[derive(Clone)]
pub struct Domain {
    pub(super) core: Arc<Core>,
    open: Arc<Open>,
}

/// An inner reference to a [`Domain`]: keeps its memory valid and holds nothing open.
#[derive(Clone)]
pub struct DomainRef(pub(super) Arc<Core>);

impl DomainRef {
    pub(super) fn core(&self) -> &Core {
        &self.0
    }

    #[inline]
    pub(super) fn registered(&self) -> Option<Owner<'_>> {
        self.0.registered()
    }
}

/// Closes the domain when it goes.
struct Open {
    closing: Option<Closing>,
}

struct Closing {
    core: Arc<Core>,
}

impl Closing {
    fn run(self) {
        let worker = self.core.worker.lock().take();
        if let Some(worker) = worker {
            // Inside foreign code nobody is waited for: two workers could join each other.
            worker.stop(!frame::is_open());
        }
        self.core.close();
    }
}

unsafe fn run_closing(data: NonNull<()>) {
    // SAFETY: made from a box of this type in Open::drop, and called once.
    let closing = unsafe { Box::from_raw(data.cast::<Closing>().as_ptr()) };
    closing.run();
}

impl Drop for Open {
    fn drop(&mut self) {
        let Some(closing) = self.closing.take() else {
            return;
        };
        if frame::is_open() {
            let id = closing.core.id;
            let data = NonNull::from(Box::leak(Box::new(closing))).cast();
            // SAFETY: `run_closing` takes the box back once; the close catches panics.
            frame::run_or_leave(unsafe { Job::new(id, data, run_closing) });
        } else {
            closing.run();
        }
    }
}

impl Domain {
    /// Opens a domain with the default settings.
    ///
    /// # Examples
    ///
    /// ```
    /// let domain = graceperiod::Domain::new();
    /// domain.defer(|| println!("no reader is left"));
    /// domain.barrier();
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::over(DomainBuilder::default().core())
    }

    /// Begins to describe a domain.
    pub fn builder() -> DomainBuilder {
        DomainBuilder::default()
    }

    /// Enters a read-side critical section that holds the domain open itself, and so borrows nothing: for tasks that must
    /// be `'static`.
    ///
    /// ```
    /// use graceperiod::{Domain, RcuCell};
    ///
    /// let domain = Domain::new();
    /// let cell = RcuCell::new_in(7, &domain);
    /// let guard = domain.clone().into_guard();
    /// std::thread::spawn(move || assert_eq!(*cell.load(guard.as_guard()), 7)).join().unwrap();
    /// domain.barrier();
    /// ```
    pub fn into_guard(self) -> OwnedGuard<'static, Self> {
        let record = self.core.enter_owned();
        // SAFETY: just entered in this domain, which the handle keeps open for as long as the guard lives.
        let guard = unsafe { Guard::entered(record) };
        // SAFETY: on a record of its own.
        unsafe { OwnedGuard::over(guard, Some(self)) }
    }

    /// Returns the domain's identity, never reused within a process.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.core.id
    }

    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    fn over(core: Arc<Core>) -> Self {
        let closing = Closing {
            core: Arc::clone(&core),
        };
        Self {
            core,
            open: Arc::new(Open {
                closing: Some(closing),
            }),
        }
    }
}

impl Default for Domain {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Domain {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Domain {}

// Panics of foreign code are caught and leave nothing half done.
impl UnwindSafe for Domain {}
impl RefUnwindSafe for Domain {}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain")
            .field("id", &self.id())
            .field("handles", &Arc::strong_count(&self.open))
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for DomainRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DomainRef").field(&self.0.id).finish()
    }
}

/// Who drops what has been retired with [`retire`](Domain::retire) and its like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropValues {
    /// The threads that retire, eight objects at every eighth call and more while much is ready; the worker too, if there is one.
    #[default]
    AtReuse,
    /// The domain's worker alone; retiring runs no foreign code. Starts the worker.
    Worker,
}

/// Describes a [`Domain`].
#[must_use = "call build() to open the domain"]
pub struct DomainBuilder {
    name: String,
    config: Config,
    worker: bool,
    hook: Option<Arc<PanicHook>>,
    stall: Option<(Duration, Arc<StallHook>)>,
}

impl Default for DomainBuilder {
    fn default() -> Self {
        Self {
            name: String::from("graceperiod"),
            config: Config::DEFAULT,
            worker: false,
            hook: None,
            stall: None,
        }
    }
}

impl fmt::Debug for DomainBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DomainBuilder")
            .field("name", &self.name)
            .field("config", &self.config)
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

impl DomainBuilder {
    /// Names the worker thread. Default: `graceperiod`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the age from which what an idle thread has retired is taken over: by the worker, by a thread that retires
    /// (every 256 retirements over all threads), or by a barrier. Default: 10 ms.
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.config.max_delay = delay;
        self
    }

    /// Sets what a thread does at its limit. Default: helps, with a patience of 1 ms.
    pub fn on_limit(mut self, on_limit: OnLimit) -> Self {
        self.config.on_limit = on_limit;
        self
    }

    /// Sets how many objects of a thread may wait before it helps. Looked at every 256 retirements. Default: 2,048.
    pub fn limit_objects(mut self, objects: usize) -> Self {
        self.config.limit_objects = objects;
        self
    }

    /// Sets how many bytes of a thread may wait before it helps. Looked at every 256 retirements, and whenever an eighth of it
    /// has been retired. Default: 64 MiB.
    pub fn limit_bytes(mut self, bytes: usize) -> Self {
        self.config.limit_bytes = bytes;
        self
    }

    /// Sets whether readers fence each enter. Default: only while the alternative costs more.
    pub fn reader_fences(mut self, fences: ReaderFences) -> Self {
        self.config.reader_fences = fences;
        self
    }

    /// Gives the domain a thread that takes over what idles and drops it, every [`max_delay`](Self::max_delay). Default:
    /// none.
    pub fn worker(mut self, worker: bool) -> Self {
        self.worker = worker;
        self
    }

    /// Sets who drops what has been retired. Default: the threads that retire.
    pub fn drop_values(mut self, by: DropValues) -> Self {
        self.config.drop_at_retire = by == DropValues::AtReuse;
        self
    }

    /// Sets what takes the panics of destructors, instead of the next [`barrier`](Domain::barrier).
    ///
    /// The hook runs on the thread that ran the destructor. A panic of the hook itself is kept for the next barrier.
    pub fn on_panic(mut self, hook: impl Fn(Box<dyn Any + Send>) + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Sets what is told of a reader that has held a grace period up for `after`: once, and again each time that has
    /// doubled. Default: nothing.
    ///
    /// The hook runs on whichever thread notices: one that retires outside foreign code and `no_reclaim` scopes, the
    /// worker, or one that waits in a barrier; never in `synchronize` or a poll. Its panics go where a destructor's go. It
    /// must not wait for the stalled reader.
    pub fn on_stall(
        mut self,
        after: Duration,
        hook: impl Fn(&Stall) + Send + Sync + 'static,
    ) -> Self {
        self.stall = Some((after, Arc::new(hook)));
        self
    }

    /// Opens the domain.
    ///
    /// # Panics
    ///
    /// Panics if the worker's thread can't be started; [`try_build`](Self::try_build) says so instead.
    #[must_use]
    pub fn build(self) -> Domain {
        match self.try_build() {
            Ok(domain) => domain,
            Err(error) => {
                panic!("graceperiod: the domain's worker thread can't be started: {error}")
            }
        }
    }

    /// Opens the domain.
    ///
    /// # Errors
    ///
    /// Fails if the worker's thread can't be started.
    pub fn try_build(self) -> io::Result<Domain> {
        let core = self.core();
        if self.worker || !self.config.drop_at_retire {
            Worker::start(&core, self.name)?;
        }
        Ok(Domain::over(core))
    }

    fn core(&self) -> Arc<Core> {
        let core = Arc::new_cyclic(|this| Core::new(next_id(), Weak::clone(this), self.config));
        core.panics.set_hook(self.hook.clone());
        if let Some((after, hook)) = &self.stall {
            core.stalls.set(*after, Some(Arc::clone(hook)));
        }
        let forkable: Weak<dyn Forkable> = Arc::<Core>::downgrade(&core);
        register(forkable);
        core
    }
}
