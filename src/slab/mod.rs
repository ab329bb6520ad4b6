//! The type-stable slab: slots that are reused and never change type.
//!
//! A slot has a *stable part* `S`, built once and then only ever seen as `&S`, and a *value* `V`, one per incarnation.
//! Readers find slots under a guard, without locks and without writing; what they find may be recycled under their eyes
//! but stays an `S`, so they look first and make sure afterwards.
//!
//! # Protocol
//!
//! - Owner: [`reserve`](Slab::reserve), write what is to be found into the stable part, [`publish`](Vacant::publish).
//!   Dropping the last [`Ref`] ends the incarnation.
//! - Or the slab owns it: [`keep`](Ref::keep) and [`remove`](Slab::remove), [`retain`](Slab::retain) and
//!   [`release`](Slab::release).
//! - Reader: find a [`Candidate`] inside a guard, check its identity, [`try_get`](Candidate::try_get) and check again;
//!   or [`read`](Candidate::read), which counts nothing.

mod blank;
mod budget;
mod builder;
mod bulk;
mod cache;
mod candidate;
mod chain;
mod close;
mod core;
mod debug;
mod depot;
mod directory;
mod error;
mod fork;
mod free;
mod generations;
mod grow;
mod handle;
mod ids;
mod keep;
mod key;
mod kind;
mod limit;
mod link;
#[cfg(all(test, loom))]
mod loom_models;
mod map;
mod page;
mod policy;
#[cfg(doctest)]
mod refused;
mod reserve;
mod restore;
mod scan;
mod settle;
mod shrink;
mod slot;
mod stand_in;
mod state;
mod stats;
#[cfg(all(test, not(loom)))]
mod tests;
mod value;
mod waiting;

use std::fmt;

use crate::rcu::Global;
use crate::reclaim::ReadSection;
use crate::sync::Arc;

pub use self::blank::Blank;
pub use self::budget::Budget;
pub use self::builder::SlabBuilder;
pub use self::bulk::Released;
pub use self::candidate::Candidate;
pub use self::debug::Debug;
pub use self::error::{InsertError, ReserveError};
pub use self::generations::{BadGenerations, Generations};
pub use self::handle::{Ref, Vacant};
pub use self::key::Key;
pub use self::link::Link;
pub use self::policy::{AfterGrace, Immediate, Part, Policy};
pub use self::restore::Restore;
pub use self::scan::Cursor;
pub use self::stats::SlabStats;

pub(crate) use self::core::Core;
pub(crate) use self::page::Page;
pub(crate) use self::slot::{Slot, SlotPtr};

/// What a guard of the wrong domain is told.
const OTHER_GUARD: &str = "graceperiod: this guard belongs to another domain than the slab; \
     enter the domain that the slab was built with";

/// A slab of slots with a stable part `S` and values `V`.
///
/// The user handle: dropping it closes the slab, which waits for nobody. What the slab owns itself
/// ([kept](Ref::keep), or [retained](Self::retain) in bulk) goes with it. References that are still out stay valid; each
/// page goes when the last of them has.
///
/// Values are shared among threads, so they must be `Send + Sync`:
///
/// ```compile_fail,E0277
/// let slab: graceperiod::Slab<(), std::rc::Rc<u8>> = graceperiod::Slab::new(|_| ());
/// ```
///
/// while this compiles:
///
/// ```
/// let slab: graceperiod::Slab<(), std::sync::Arc<u8>> = graceperiod::Slab::new(|_| ());
/// ```
#[doc(alias = "kmem_cache_create")]
pub struct Slab<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static = (),
    P: Policy<D> = Immediate,
    D: ReadSection = Global,
> {
    core: Arc<Core<S, V, P, D>>,
    domain: D,
}

impl<S: Part, V: Part, P: Policy<Global>> Slab<S, V, P, Global> {
    /// Builds a slab in the global domain. `constructor` builds the stable part of each slot, once.
    #[must_use]
    pub fn new(
        constructor: impl Fn(&Blank<'_, S, V, P, Global>) -> S + Send + Sync + 'static,
    ) -> Self {
        Self::builder().build(constructor)
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Slab<S, V, P, D> {
    /// Returns a builder.
    pub fn builder() -> SlabBuilder<S, V, P, D> {
        SlabBuilder::new()
    }

    /// Reserves a slot for an incarnation that is to be prepared.
    ///
    /// May build a page, which runs the constructor. Under [`AfterGrace`] it drops at most one value that has waited
    /// long enough, but not inside a destructor and not while panicking.
    ///
    /// # Panics
    ///
    /// At `max_objects`, or if the constructor fails; goes on with a panic of the constructor. Ends the process as any
    /// allocation does if there is no memory. [`try_reserve`](Self::try_reserve) returns all of these.
    pub fn reserve(&self) -> Vacant<S, V, P, D> {
        match self.try_reserve() {
            Ok(vacant) => vacant,
            Err(error) => refuse(error),
        }
    }

    /// Reserves a slot for an incarnation that is to be prepared, if there is one.
    ///
    /// At `max_objects` all threads' magazines are taken back first, and a page that another thread is building, or a
    /// value that it is dropping after its grace period, is waited for, at most 100 ms.
    ///
    /// # Errors
    ///
    /// See [`ReserveError`].
    #[inline]
    pub fn try_reserve(&self) -> Result<Vacant<S, V, P, D>, ReserveError> {
        let slot = self.core.reserve()?;
        // SAFETY: `reserve` gave the slot away, and it is clean.
        Ok(unsafe { Vacant::new(slot) })
    }

    /// Publishes a value in a slot.
    ///
    /// # Panics
    ///
    /// As [`reserve`](Self::reserve).
    pub fn insert(&self, value: V) -> Ref<S, V, P, D> {
        self.reserve().publish(value)
    }

    /// Publishes a value in a slot, if there is one.
    ///
    /// # Errors
    ///
    /// As [`try_reserve`](Self::try_reserve), with the value.
    pub fn try_insert(&self, value: V) -> Result<Ref<S, V, P, D>, InsertError<V>> {
        match self.try_reserve() {
            Ok(vacant) => Ok(vacant.publish(value)),
            Err(reason) => Err(InsertError::new(value, reason)),
        }
    }

    /// Returns a reference to the incarnation that `key` names, if it lives. Enters a guard itself.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<Ref<S, V, P, D>> {
        let guard = self.domain.enter();
        self.candidate(&guard, key)?.try_get()
    }

    /// Looks at the incarnation that `key` names, if it lives. Writes nothing.
    ///
    /// # Panics
    ///
    /// If the guard belongs to another domain.
    #[must_use]
    pub fn candidate<'g>(
        &self,
        guard: &'g D::Guard<'_>,
        key: Key,
    ) -> Option<Candidate<'g, S, V, P, D>> {
        let slot = self.locate(guard, key.index())?;
        // SAFETY: found inside the guard, in the directory, which a page leaves before it is retired.
        unsafe { Candidate::see_as(slot, key.generation(), guard) }
    }

    /// The slot of an index, which the guard keeps.
    #[inline]
    fn locate(&self, guard: &D::Guard<'_>, index: u64) -> Option<SlotPtr<S, V, P, D>> {
        assert!(D::admits(&self.core.inner, guard), "{OTHER_GUARD}");
        let (number, slot) = Page::<S, V, P, D>::locate(self.core.ids.local(index))?;
        // At least Acquire: pairs with the Release in Directory::publish (O43).
        let page = D::protect_load(guard, self.core.directory.line(number)?);
        let page = std::ptr::NonNull::new(page)?;
        // SAFETY: the guard keeps the page, which leaves the directory before it is retired.
        unsafe { Page::built_slot(page, slot) }
    }

    /// Returns an empty link for references to this slab's slots.
    #[must_use]
    pub fn link(&self) -> Link<S, V, P, D> {
        Link::new(self.core.inner.clone())
    }

    /// Returns how many incarnations live; exact when nothing runs.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.core.live()).unwrap_or(usize::MAX)
    }

    /// Whether no incarnation lives.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.core.live() == 0
    }

    /// Returns how many slots are built.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.core.growth.capacity()
    }

    /// Gives every page with nothing but free slots back to the system, after a grace period; returns their number.
    ///
    /// Takes back all threads' magazines first. Under [`AfterGrace`] it drops what has waited long enough, but not inside
    /// a destructor.
    pub fn shrink(&self) -> usize {
        self.core.shrink()
    }

    /// Returns figures about the slab.
    #[must_use]
    pub fn stats(&self) -> SlabStats {
        self.core.stats()
    }

    /// The domain that the slab holds open.
    pub(crate) fn domain(&self) -> &D {
        &self.domain
    }

    /// What a table keeps of its slab.
    pub(crate) fn core(&self) -> &Arc<Core<S, V, P, D>> {
        &self.core
    }
}

#[cold]
fn refuse(error: ReserveError) -> ! {
    match error {
        ReserveError::Panicked(payload) => std::panic::resume_unwind(payload),
        ReserveError::OutOfMemory { bytes } => {
            let layout = std::alloc::Layout::from_size_align(bytes, 1);
            std::alloc::handle_alloc_error(layout.unwrap_or(std::alloc::Layout::new::<u8>()))
        }
        error @ ReserveError::Full { .. } => {
            panic!(
                "graceperiod: {error}; raise `max_objects`, drop references, or use `try_reserve`"
            )
        }
        error @ (ReserveError::Taken { .. } | ReserveError::NotReserved { .. }) => {
            panic!("graceperiod: {error}")
        }
        error @ ReserveError::OverBudget => {
            panic!("graceperiod: {error}; raise it, drop references, or use `try_reserve`")
        }
        error @ ReserveError::Constructor(_) => {
            panic!("graceperiod: {error}; `try_reserve` returns the error")
        }
    }
}

impl<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> Drop
    for Slab<S, V, P, D>
{
    fn drop(&mut self) {
        self.core.close();
        self.disown();
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> fmt::Debug for Slab<S, V, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slab")
            .field("name", &self.core.name)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
