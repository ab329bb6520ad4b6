//! A domain's shared state, and the calling thread's record in it.
//!
//! # Invariants
//!
//! - I1: a node that `thread::local` finds under the domain's identity is the calling thread's own record in it.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::time::Duration;

use crate::counter::Shared;
use crate::fence::{self, Section};
use crate::reclaim::Stage;
use crate::sync::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, GLOBAL_ID, Mutex, Relaxed, Weak, edge, now,
};
use crate::thread::{Home, HomeRef, Node, Panics, Registry, local};
use crate::tuning::{BATCH_SHARE, LIMIT_BYTES, LIMIT_OBJECTS, MAX_DELAY, POLL_INTERVAL_NANOS};

use super::backlog::Backlog;
use super::clock::Clock;
use super::global;
use super::limit::OnLimit;
use super::mode::ReaderFences;
use super::owned;
use super::record::Record;
use super::stall::Stalls;
use super::worker::Worker;

/// What a builder sets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) max_delay: Duration,
    pub(super) on_limit: OnLimit,
    pub(super) reader_fences: ReaderFences,
    pub(super) limit_objects: usize,
    pub(super) limit_bytes: usize,
    /// Whether retiring threads drop what is ready; else only the worker does.
    pub(super) drop_at_retire: bool,
}

impl Config {
    pub(super) const DEFAULT: Self = Self {
        max_delay: MAX_DELAY,
        on_limit: OnLimit::DEFAULT,
        reader_fences: ReaderFences::Auto,
        limit_objects: LIMIT_OBJECTS,
        limit_bytes: LIMIT_BYTES,
        drop_at_retire: true,
    };

    /// Bytes from which a batch closes early, so that it alone doesn't pass the limit.
    pub(super) const fn batch_bytes(&self) -> usize {
        self.limit_bytes / BATCH_SHARE
    }
}

/// A domain without its handles.
#[derive(Debug)]
pub(crate) struct Core {
    pub(super) id: u64,
    /// Upgrades to the owner; empty for the global domain, which lives in a static.
    this: Weak<Core>,
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) records: Registry<Record>,
    pub(super) panics: Panics,
    /// Set once, when the last user handle has gone.
    closed: AtomicBool,
    /// Barriers now collecting; while there are any, batches don't move from thread to thread.
    pub(super) barriers: AtomicUsize,
    last_poll: AtomicU64,
    /// When idle backlogs were last looked for, by the shim's clock.
    pub(super) last_take_over: AtomicU64,
    pub(super) limit_hits: Shared,
    pub(super) stalls: Stalls,
    /// Retired after the close and dropped at once, objects and bytes.
    pub(super) late: Shared,
    pub(super) late_bytes: Shared,
    pub(super) worker: Mutex<Option<Worker>>,
    pub(super) stages: Mutex<Vec<Weak<dyn Stage>>>,
}

impl Core {
    crate::sync::const_fn! {
        pub(super) fn new(id: u64, this: Weak<Core>, config: Config) -> Self {
            Self {
                id,
                this,
                config,
                clock: Clock::new(config.reader_fences),
                records: Registry::new(),
                panics: Panics::new(),
                closed: AtomicBool::new(false),
                barriers: AtomicUsize::new(0),
                last_poll: AtomicU64::new(0),
                last_take_over: AtomicU64::new(0),
                limit_hits: Shared::new(),
                stalls: Stalls::new(),
                late: Shared::new(),
                late_bytes: Shared::new(),
                worker: Mutex::new(None),
                stages: Mutex::new(Vec::new()),
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        // Acquire: pairs with the Release in mark_closed (O28); a closing thread has nothing more to collect from us.
        self.closed.load(edge!(O28, Acquire))
    }

    pub(super) fn mark_closed(&self) {
        // Release: pairs with the Acquire in is_closed (O28).
        self.closed.store(true, edge!(O28, Release));
    }

    /// A reference that keeps the memory valid and holds nothing open.
    #[cfg(not(loom))]
    pub(super) fn to_ref(&self) -> CoreRef {
        CoreRef(self.shared())
    }

    /// The owner, unless the domain is the global one.
    pub(super) fn shared(&self) -> Option<Arc<Core>> {
        self.this.upgrade()
    }

    fn home(&self) -> HomeRef {
        if self.id == GLOBAL_ID {
            HomeRef::Static(global::home())
        } else {
            HomeRef::Weak(Weak::<Self>::clone(&self.this))
        }
    }

    /// The calling thread's record, registering one if need be; a borrowed one once the thread has given its own back.
    #[inline]
    pub(super) fn mine(&self) -> Mine<'_> {
        match self.registered() {
            Some(owner) => Mine {
                owner,
                borrowed: None,
            },
            None => self.mine_slow(),
        }
    }

    /// The calling thread's record if it has one.
    #[inline]
    pub(super) fn registered(&self) -> Option<Owner<'_>> {
        let node = local::find(self.id)?.cast::<Node<Record>>();
        // SAFETY: core I1, and nodes live as long as the registry in `self`.
        let record = &unsafe { node.as_ref() }.value;
        // SAFETY: core I1.
        Some(unsafe { Owner::of(record) })
    }

    #[cold]
    fn mine_slow(&self) -> Mine<'_> {
        if local::has_exited() {
            return self.borrow_record();
        }
        let node = self.claim();
        local::register(self.id, NonNull::from(node).cast(), self.home());
        if self.id == GLOBAL_ID {
            global::remember(&node.value);
        }
        // SAFETY: claimed by this thread, which has just registered it.
        let owner = unsafe { Owner::of(&node.value) };
        Mine {
            owner,
            borrowed: None,
        }
    }

    /// A record for a while, for a thread that can't or shouldn't use its own.
    pub(super) fn borrow_record(&self) -> Mine<'_> {
        Mine::borrowed(self.claim())
    }

    fn claim(&self) -> &Node<Record> {
        if fence::is_light_full() {
            self.clock.set_fenced_for_good();
        }
        let node = self.records.claim(
            || Record::new(self.id, &self.clock, &self.records),
            |record| record.is_unused() && !record.own.backlog.is_revoked(),
        );
        node.value.note_owner();
        node
    }

    /// Does in the place of a thread that has gone what only an owner may: parks its word and makes a section with a full
    /// fence, for those whom the kernel refused a heavy fence.
    pub(super) fn stand_in(&self, node: &Node<Record>) {
        if node.is_abandoned() && node.try_claim(Record::is_unused) {
            let _section = Mine::borrowed(node).section();
        }
    }

    /// Enters on the calling thread's record, or on one that lasts as long as the guard.
    #[inline]
    pub(super) fn enter(&self) -> NonNull<Record> {
        match self.registered() {
            Some(record) => {
                record.enter(&self.clock);
                NonNull::from(&*record)
            }
            None => self.enter_slow(),
        }
    }

    #[cold]
    pub(super) fn enter_slow(&self) -> NonNull<Record> {
        let mine = self.mine();
        mine.enter(&self.clock);
        // A borrowed record goes back as an orphan that the guard keeps in use.
        NonNull::from(&*mine)
    }

    /// Enters on a record that is no thread's.
    pub(super) fn enter_owned(&self) -> NonNull<Record> {
        if fence::is_light_full() {
            self.clock.set_fenced_for_good();
        }
        owned::enter(&self.records, self.id, &self.clock)
    }

    /// A record for a reader of the calling thread.
    pub(super) fn add_reader(&self) -> NonNull<Record> {
        let mine = self.mine();
        mine.add_reader();
        NonNull::from(&*mine)
    }

    /// Whether the calling thread is inside a guard.
    pub(super) fn is_inside(&self) -> bool {
        match self.registered() {
            Some(record) => record.is_inside(),
            None => local::has_exited() && self.is_inside_orphan(),
        }
    }

    /// Guards of a thread that has given its record back sit on orphans, each of which has its number.
    #[cold]
    fn is_inside_orphan(&self) -> bool {
        self.records
            .iter()
            // The word first: if another thread has claimed the record since, its busy word brings its number along.
            .any(|node| !node.value.observe().is_idle() && node.value.is_own())
    }

    /// Makes an attempt at a grace period unless one was made just now.
    pub(super) fn poll(&self) {
        let now = now();
        // Relaxed: a rate limit; a lost race costs an attempt.
        let last = self.last_poll.load(Relaxed);
        if now.saturating_sub(last) >= POLL_INTERVAL_NANOS || last == 0 {
            // Relaxed: as above.
            self.last_poll.store(now.max(1), Relaxed);
            self.clock
                .advance(&self.records, self.registered().as_deref());
        }
    }
}

/// An inner reference to any domain. None stands for the global one.
#[cfg(not(loom))]
#[derive(Clone, Debug)]
pub(super) struct CoreRef(Option<Arc<Core>>);

#[cfg(not(loom))]
impl Deref for CoreRef {
    type Target = Core;

    fn deref(&self) -> &Core {
        match &self.0 {
            Some(core) => core,
            None => global::core(),
        }
    }
}

impl Home for Core {
    unsafe fn take_back(&self, node: NonNull<()>) {
        // SAFETY: (1) and I1: the thread's own node in `self.records`.
        let node = unsafe { node.cast::<Node<Record>>().as_ref() };
        node.value.park_own();
        // Its backlog stays in it, for whoever comes by or claims the node next.
        node.give_up(!node.value.is_unused());
    }

    unsafe fn is_disused(&self, _: NonNull<()>) -> bool {
        // The map keeps no counted reference to a domain, so there is nothing to let go of.
        false
    }
}

/// A record that the calling thread owns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner<'a> {
    record: &'a Record,
    _stays: PhantomData<*const ()>,
}

impl<'a> Owner<'a> {
    /// # Safety
    ///
    /// 1. The calling thread owns the record for `'a`.
    #[inline]
    pub(super) unsafe fn of(record: &'a Record) -> Self {
        Self {
            record,
            _stays: PhantomData,
        }
    }

    /// Opens a section on the backlog; `None` while somebody takes it over. No other section may be open.
    #[inline]
    pub(super) fn section(self) -> Option<Section<'a, Backlog>> {
        // SAFETY: this thread owns the record, and sections are never nested: nothing that runs inside one calls back
        // into the engine (backlog I1).
        unsafe { self.record.own.backlog.try_enter() }
    }
}

impl Deref for Owner<'_> {
    type Target = Record;

    #[inline]
    fn deref(&self) -> &Record {
        self.record
    }
}

/// A record that the calling thread owns, its own one or one that it has borrowed.
#[derive(Debug)]
pub(super) struct Mine<'a> {
    owner: Owner<'a>,
    borrowed: Option<&'a Node<Record>>,
}

impl<'a> Mine<'a> {
    /// Wraps a node that the calling thread has just claimed, for a while.
    fn borrowed(node: &'a Node<Record>) -> Self {
        Self {
            // SAFETY: claimed until the drop gives the node up.
            owner: unsafe { Owner::of(&node.value) },
            borrowed: Some(node),
        }
    }

    #[inline]
    pub(super) fn owner(&self) -> Owner<'_> {
        self.owner
    }

    /// See [`Owner::section`].
    #[inline]
    pub(super) fn section(&self) -> Option<Section<'a, Backlog>> {
        self.owner.section()
    }
}

impl Deref for Mine<'_> {
    type Target = Record;

    #[inline]
    fn deref(&self) -> &Record {
        self.owner.record
    }
}

impl Drop for Mine<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(node) = self.borrowed {
            node.value.park_own();
            node.give_up(!node.value.is_unused());
        }
    }
}
