//! What a slab's user handle, its pages and its threads share.
//!
//! # Invariants
//!
//! - I1: the core outlives its pages, since each holds a count; it outlives each thread's cache, since the thread holds
//!   a count. So an operation that has found its thread's cache may use the core until it returns, whatever happens to
//!   the slot; one without a cache takes a count of its own first.
//! - I2: the slab is closed before a cache is taken over for the last time, so an owner that doesn't see it closed
//!   inside its section is taken over afterwards, and one that is past that sees it closed. Where the system refuses
//!   the heavy fence neither is certain; then the owner brings home what it still has when it gives its cache back.
//!
//! # Orderings
//!
//! - O48: `closed = true`, heavy, take-over | section's light fence, load of `closed` (Dekker): I2. A new cache counts as
//!   well, since it is in the registry before its owner enters a section.

use std::any::type_name;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::counter::{Local, Shared};
use crate::reclaim::ReadSection;
use crate::sync::{Arc, AtomicBool, Relaxed, next_id};
use crate::thread::{Home, HomeRef, Node, Registry, frame, local, register};

use super::blank::Blank;
use super::budget::Budget;
use super::cache::{Cache, Counts};
use super::debug::Debug;
use super::depot::Depot;
use super::directory::Directory;
use super::generations::Floors;
use super::grow::Growth;
use super::ids::{IdChoice, Ids};
use super::page::Page;
use super::policy::{Part, Policy};
use super::waiting::Dead;

/// Builds a stable part.
pub(super) type Constructor<S, V, P, D> = Box<
    dyn Fn(&Blank<'_, S, V, P, D>) -> Result<S, Box<dyn std::error::Error + Send + Sync>>
        + Send
        + Sync,
>;

/// Looks at a stable part whose incarnation has ended.
pub(super) type OnFree<S> = Box<dyn Fn(&S) + Send + Sync>;

/// What a builder has gathered.
pub(super) struct Plan<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    pub(super) name: Option<String>,
    pub(super) max_objects: usize,
    pub(super) budget: Option<Budget>,
    pub(super) debug: Option<Debug>,
    pub(super) constructor: Constructor<S, V, P, D>,
    pub(super) on_free: Option<OnFree<S>>,
    pub(super) ids: IdChoice,
}

/// The shared part of a slab.
pub(crate) struct Core<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    pub(super) id: u64,
    pub(super) inner: D::Inner,
    pub(super) closed: AtomicBool,
    /// Whether the slab has ever owned an incarnation.
    pub(super) owning: AtomicBool,
    pub(super) ids: Ids,
    pub(super) constructor: Constructor<S, V, P, D>,
    pub(super) on_free: Option<OnFree<S>>,
    pub(super) name: String,
    pub(super) debug: Option<Debug>,
    pub(super) directory: Directory<Page<S, V, P, D>>,
    pub(super) caches: Registry<Cache<S, V, P, D>>,
    pub(super) depot: Depot<S, V, P, D>,
    pub(super) growth: Growth,
    /// Counts of threads that have no cache.
    pub(super) strays: Counts<Shared>,
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Core<S, V, P, D> {
    pub(super) fn new(inner: D::Inner, plan: Plan<S, V, P, D>) -> Arc<Self> {
        let ids = plan.ids.check(Page::<S, V, P, D>::SLOTS, plan.max_objects);
        let floors = Floors::new::<S, V, P, D>(&ids, plan.ids);
        let (reserved, withheld) = (ids.reserved, usize::from(ids.reserved > 0));
        let core = Arc::new(Self {
            id: next_id(),
            inner,
            closed: AtomicBool::new(false),
            owning: AtomicBool::new(false),
            ids,
            constructor: plan.constructor,
            on_free: plan.on_free,
            name: plan.name.unwrap_or_else(|| type_name::<V>().to_owned()),
            debug: plan.debug,
            directory: Directory::new(floors, withheld),
            caches: Registry::new(),
            depot: Depot::new(plan.debug),
            growth: Growth::new(plan.max_objects, plan.budget, reserved),
            strays: Counts::default(),
        });
        let this: std::sync::Weak<Self> = Arc::downgrade(&core);
        if let Some(budget) = &core.growth.budget {
            budget.join(this.clone());
        }
        P::attach(&core.inner, this.clone());
        register(this);
        core
    }

    /// The domain that the slab's readers enter.
    pub(crate) fn inner(&self) -> &D::Inner {
        &self.inner
    }

    /// The calling thread's cache, if it has one.
    #[inline]
    pub(super) fn find_cache(&self) -> Option<&Cache<S, V, P, D>> {
        let node = local::find(self.id)?;
        // SAFETY: what is registered under this slab's identity is a node of its registry, which lives as long as the
        // core.
        Some(unsafe { Self::cache_of(node) })
    }

    /// # Safety
    ///
    /// 1. `node` is what the thread registered for this slab, whose core lives during `'a`.
    #[inline]
    pub(super) unsafe fn cache_of<'a>(node: NonNull<()>) -> &'a Cache<S, V, P, D> {
        // SAFETY: (1).
        &unsafe { node.cast::<Node<Cache<S, V, P, D>>>().as_ref() }.value
    }

    /// The calling thread's cache, a new one if need be; `None` if the thread is ending, the slab has closed or is in a
    /// debug mode, or there is no memory.
    pub(super) fn cache(self: &Arc<Self>) -> Option<&Cache<S, V, P, D>> {
        if let Some(cache) = self.find_cache() {
            return Some(cache);
        }
        if local::has_exited() || self.is_closed() || self.debug.is_some() {
            return None;
        }
        let node = self.caches.try_claim(Cache::new, |_| true)?;
        let home = HomeRef::Shared(Arc::clone(self) as Arc<dyn Home>);
        if local::try_register(self.id, NonNull::from(node).cast(), home) {
            Some(&node.value)
        } else {
            node.give_up(false);
            None
        }
    }

    /// Whether the user handle has gone.
    pub(super) fn is_closed(&self) -> bool {
        // Relaxed: a hint; sections and the depot's stacks decide (O48).
        self.closed.load(Relaxed)
    }

    /// Whether the slab was closed before this section of the calling thread's cache began.
    #[inline]
    pub(super) fn is_closed_in_section(&self) -> bool {
        // Relaxed: ordered by the section's light fence (O48).
        self.closed.load(Relaxed)
    }

    /// Counts with the thread's cache, or without one.
    #[inline]
    pub(super) fn count(
        &self,
        cache: Option<&Cache<S, V, P, D>>,
        local: impl FnOnce(&Counts<Local>) -> &Local,
        stray: impl FnOnce(&Counts<Shared>) -> &Shared,
        n: u64,
    ) {
        match cache {
            Some(cache) => local(&cache.counts).add(n),
            None => stray(&self.strays).add(n),
        }
    }

    /// Sums a count over all threads.
    pub(super) fn sum(
        &self,
        local: impl Fn(&Counts<Local>) -> &Local,
        stray: impl Fn(&Counts<Shared>) -> &Shared,
    ) -> u64 {
        let locals = self
            .caches
            .iter()
            .map(|node| local(&node.value.counts).get());
        locals.fold(stray(&self.strays).get(), u64::wrapping_add)
    }

    /// Tells the domain of a foreign panic.
    #[cold]
    pub(super) fn report(&self, payload: Box<dyn std::any::Any + Send>) {
        D::report_panic(&self.inner, payload);
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Home for Core<S, V, P, D> {
    unsafe fn take_back(&self, node: NonNull<()>) {
        // SAFETY: the trait's (1); the caller keeps the core.
        let node = unsafe { node.cast::<Node<Cache<S, V, P, D>>>().as_ref() };
        let refused = loop {
            // As the owner, which needs no fence of the system's.
            // SAFETY: the thread's own cache, and no section is open: this isn't called from inside one.
            let Some(mut magazines) = (unsafe { node.value.enter() }) else {
                node.value.wait_for_taker();
                continue;
            };
            // The cookie comes after every death in the magazine.
            let open = Dead {
                slots: magazines.take_open().into_list(),
                cookie: P::cookie(&self.inner),
            };
            let dead = [open, magazines.ripe.take()].map(|dead| self.depot.bury(dead).err());
            let clean = magazines
                .take_clean()
                .map(|chain| self.depot.give(chain).err());
            break (clean, dead);
        };
        node.give_up(false);
        for chain in refused.0.into_iter().flatten() {
            Self::bring_home(chain);
        }
        for dead in refused.1.into_iter().flatten() {
            // SAFETY: the caller keeps the core.
            unsafe { Self::hand_over(NonNull::from(self), dead.slots) };
        }
    }

    unsafe fn is_disused(&self, node: NonNull<()>) -> bool {
        // SAFETY: the trait's (1); the caller keeps the core.
        let cache = unsafe { Self::cache_of(node) };
        // Foreign code of this thread runs under the mark, or else without use of the cache.
        self.is_closed() && !cache.running.is_begun()
    }
}

impl<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> Drop
    for Core<S, V, P, D>
{
    fn drop(&mut self) {
        // The user's closures go here, on whichever thread comes last: their panics must not leave it.
        let constructor = std::mem::replace(
            &mut self.constructor,
            Box::new(|_| unreachable!("the core has gone")),
        );
        let on_free = self.on_free.take();
        frame::run(D::id(&self.inner), || {
            for dropped in [
                catch_unwind(AssertUnwindSafe(move || drop(constructor))),
                catch_unwind(AssertUnwindSafe(move || drop(on_free))),
            ] {
                if let Err(payload) = dropped {
                    D::report_panic(&self.inner, payload);
                }
            }
        });
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> fmt::Debug for Core<S, V, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("id", &self.id)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
