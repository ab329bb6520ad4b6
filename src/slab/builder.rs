//! How a slab is set up.

use std::any::Any;
use std::error::Error;
use std::fmt;

use crate::rcu::Global;
use crate::reclaim::ReadSection;
use crate::thread::local;

use super::Slab;
use super::blank::Blank;
use super::budget::Budget;
use super::core::{Constructor, Core, OnFree, Plan};
use super::debug::Debug;
use super::generations::Generations;
use super::ids::IdChoice;
use super::policy::{Immediate, Part, Policy};

/// Sets up a [`Slab`].
#[must_use = "a builder does nothing until its `build`"]
pub struct SlabBuilder<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static = (),
    P: Policy<D> = Immediate,
    D: ReadSection = Global,
> {
    domain: Option<D>,
    name: Option<String>,
    max_objects: usize,
    budget: Option<Budget>,
    debug: Option<Debug>,
    on_free: Option<OnFree<S>>,
    ids: IdChoice,
    value: std::marker::PhantomData<fn(V, P)>,
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> SlabBuilder<S, V, P, D> {
    pub(super) fn new() -> Self {
        Self {
            domain: None,
            name: None,
            max_objects: usize::MAX,
            budget: None,
            debug: None,
            on_free: None,
            ids: IdChoice::default(),
            value: std::marker::PhantomData,
        }
    }

    /// Chooses the domain whose guards protect the slab's readers, if it isn't the global one. The slab holds it open.
    pub fn domain(mut self, domain: &D) -> Self {
        self.domain = Some(domain.clone());
        self
    }

    /// Names the slab in its statistics; else it has the name of the value's type.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Limits the number of slots, those included that wait for a grace period. A [`budget`](Self::budget) limits those of
    /// several slabs together.
    ///
    /// # Panics
    ///
    /// If `max_objects` is 0.
    pub fn max_objects(mut self, max_objects: usize) -> Self {
        assert!(
            max_objects > 0,
            "graceperiod: a slab with `max_objects(0)` could hold nothing; ask for at least 1",
        );
        self.max_objects = max_objects;
        self
    }

    /// Chooses the id of the first slot; else it is 0.
    pub fn first_index(mut self, first_index: u64) -> Self {
        self.ids.first_index = first_index;
        self
    }

    /// Reserves the first `n` ids for [`insert_at`](Slab::insert_at): nobody gets them otherwise. At most a page of them.
    ///
    /// They count as part of `max_objects` from the start.
    pub fn reserve_ids(mut self, n: usize) -> Self {
        self.ids.reserved = n;
        self
    }

    /// Puts `tag` into the uppermost `bits` bits of each key's index. A key with another tag matches nothing.
    ///
    /// So the keys of several slabs can be told apart: at most 8 bits, none by default.
    ///
    /// ```
    /// use graceperiod::{Immediate, Ref, Slab};
    /// let files: Slab<(), u8, Immediate> = Slab::builder().tag(1, 0).build(|_| ());
    /// let sockets: Slab<(), u8, Immediate> = Slab::builder().tag(1, 1).build(|_| ());
    /// let (file, socket) = (files.insert(1), sockets.insert(2));
    /// assert_eq!(Ref::key(&socket).index() >> 63, 1);
    /// assert!(files.get(Ref::key(&socket)).is_none());
    /// assert!(sockets.get(Ref::key(&file)).is_none());
    /// ```
    pub fn tag(mut self, bits: u32, tag: u64) -> Self {
        (self.ids.tag_bits, self.ids.tag) = (bits, tag);
        self
    }

    /// Chooses the generation that the first incarnations come after; else it is 0.
    ///
    /// A process that can't [export](Slab::generations) when it ends may begin each time above all that it may have used
    /// before. There are 2^40 - 1 generations.
    pub fn generation_base(mut self, base: u64) -> Self {
        self.ids.generation_base = base;
        self
    }

    /// Begins after the generations of an earlier slab: none of the keys that it had given out when they were
    /// [exported](Slab::generations) names anything in this one, but for what is [restored](Slab::restore).
    pub fn generations(mut self, earlier: Generations) -> Self {
        self.ids.generations = Some(earlier);
        self
    }

    /// Makes the slab share a bound with others.
    pub fn budget(mut self, budget: &Budget) -> Self {
        self.budget = Some(budget.clone());
        self
    }

    /// Makes the slab hand out its slots so that mistakes of its users show, at some cost.
    pub fn debug(mut self, debug: Debug) -> Self {
        self.debug = Some(debug);
        self
    }

    /// Runs at the end of each incarnation, after its value was dropped (also if that panicked), for a check or a reset
    /// of the stable part, such as `Mutex::clear_poison` or [`Link::take`](super::Link::take).
    ///
    /// Under [`Immediate`] by the thread that drops the last reference, under
    /// [`AfterGrace`](super::AfterGrace) when the slot is recycled. Strangers with a candidate may use the stable part at
    /// the same time. A panic goes the way of a destructor's.
    pub fn on_free(mut self, hook: impl Fn(&S) + Send + Sync + 'static) -> Self {
        self.on_free = Some(Box::new(hook));
        self
    }

    /// Builds the slab. `constructor` builds the stable part of each slot, once, when its page is populated.
    ///
    /// # Panics
    ///
    /// If the slab is to be in a domain of its own and [`domain`](Self::domain) wasn't called, if the environment asks for a
    /// [debug mode](enum@Debug) that there isn't, or if the choice of ids can't be had.
    pub fn build(
        self,
        constructor: impl Fn(&Blank<'_, S, V, P, D>) -> S + Send + Sync + 'static,
    ) -> Slab<S, V, P, D> {
        self.finish(Box::new(move |blank| Ok(constructor(blank))))
    }

    /// Builds the slab with a constructor that may fail; the reservation that needed it fails with it.
    ///
    /// # Panics
    ///
    /// As [`build`](Self::build).
    pub fn build_fallible(
        self,
        constructor: impl Fn(&Blank<'_, S, V, P, D>) -> Result<S, Box<dyn Error + Send + Sync>>
        + Send
        + Sync
        + 'static,
    ) -> Slab<S, V, P, D> {
        self.finish(Box::new(constructor))
    }

    fn finish(self, constructor: Constructor<S, V, P, D>) -> Slab<S, V, P, D> {
        let domain = self.domain.or_else(default_domain).expect(
            "graceperiod: a slab in a domain of its own needs `SlabBuilder::domain(&domain)`",
        );
        // Slabs that have closed let go of their last memory here, where foreign code may run.
        local::sweep();
        let plan = Plan {
            name: self.name,
            max_objects: self.max_objects,
            budget: self.budget,
            debug: self.debug.or_else(Debug::from_environment),
            constructor,
            on_free: self.on_free,
            ids: self.ids,
        };
        let core = Core::new(domain.inner(), plan);
        Slab { core, domain }
    }
}

/// The global domain, if that is what `D` is.
fn default_domain<D: ReadSection>() -> Option<D> {
    let global: &dyn Any = &Global;
    global.downcast_ref::<D>().cloned()
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> fmt::Debug for SlabBuilder<S, V, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlabBuilder")
            .field("name", &self.name)
            .field("max_objects", &self.max_objects)
            .finish_non_exhaustive()
    }
}
