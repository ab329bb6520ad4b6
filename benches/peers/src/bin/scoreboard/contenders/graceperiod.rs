//! This crate, by its several ways in.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hint::black_box;
use std::ptr;
use std::sync::{Arc, Mutex};

use graceperiod::{Domain, Guard, Immediate, Link, RcuCell, Slab};

use crate::payload::Payload;
use crate::scheme::{Role, Scheme};

/// What a writer does that looks first: a section for the look, and the replacement after it.
macro_rules! look_and_replace {
    ($guard:expr, $cell:expr, $value:expr) => {{
        let guard = $guard;
        let old = $cell.load(&guard);
        black_box(ptr::from_ref(old));
        old.leave();
        drop(guard);
        $cell.replace($value);
    }};
}

/// The methods that all contenders over the global domain's cells share.
macro_rules! global_cell {
    () => {
        type Cell<P: Payload> = RcuCell<P>;
        type Guard<'a, P: Payload> = Guard<'a>;

        fn new() -> Self {
            Self
        }

        fn cell<P: Payload>(&self, value: P) -> RcuCell<P> {
            RcuCell::new(value)
        }

        #[inline]
        fn load<'a, P: Payload>(guard: &mut Guard<'a>, cell: &'a RcuCell<P>) -> u64 {
            cell.load(guard).first()
        }

        fn refresh<P: Payload>(guard: &mut Guard<'_>) {
            guard.refresh();
        }

        fn synchronize(&self) {
            graceperiod::synchronize();
        }

        fn settle(&self) {
            graceperiod::barrier();
        }
    };
}

/// The global domain.
pub struct Global;

impl Scheme for Global {
    const NAME: &'static str = "graceperiod";
    const ROLES: &'static [Role] = &[
        Role::Guard,
        Role::Deref,
        Role::Update,
        Role::Mix,
        Role::Synchronize,
        Role::Stall,
    ];
    const REFRESHES: bool = true;

    type Local = ();
    global_cell!();

    fn local(&self) {}

    #[inline]
    fn enter<'a, P: Payload>(&'a self, (): &'a mut (), _: &'a RcuCell<P>) -> Guard<'a> {
        graceperiod::enter()
    }

    #[inline]
    fn replace<P: Payload>(&self, (): &mut (), cell: &RcuCell<P>, value: P) {
        look_and_replace!(graceperiod::enter(), cell, value);
    }
}

/// The global domain, entered without a thread-local look-up.
pub struct Reader;

impl Scheme for Reader {
    const NAME: &'static str = "graceperiod:reader";
    const ROLES: &'static [Role] = &[Role::Guard, Role::Deref];

    type Local = graceperiod::Reader<'static>;
    global_cell!();

    fn local(&self) -> graceperiod::Reader<'static> {
        graceperiod::reader()
    }

    #[inline]
    fn enter<'a, P: Payload>(
        &'a self,
        local: &'a mut graceperiod::Reader<'static>,
        _: &'a RcuCell<P>,
    ) -> Guard<'a> {
        local.enter()
    }

    #[inline]
    fn replace<P: Payload>(
        &self,
        local: &mut graceperiod::Reader<'static>,
        cell: &RcuCell<P>,
        value: P,
    ) {
        look_and_replace!(local.enter(), cell, value);
    }
}

/// The global domain, inside another guard of it.
pub struct Nested;

impl Scheme for Nested {
    const NAME: &'static str = "graceperiod:nested";
    const ROLES: &'static [Role] = &[Role::Guard, Role::Deref];

    type Local = Guard<'static>;
    global_cell!();

    fn local(&self) -> Guard<'static> {
        graceperiod::enter()
    }

    #[inline]
    fn enter<'a, P: Payload>(&'a self, _: &'a mut Guard<'static>, _: &'a RcuCell<P>) -> Guard<'a> {
        graceperiod::enter()
    }

    #[inline]
    fn replace<P: Payload>(&self, _: &mut Guard<'static>, cell: &RcuCell<P>, value: P) {
        cell.replace(value);
    }
}

/// The global domain, whose writer doesn't look before it replaces.
pub struct Bare;

impl Scheme for Bare {
    const NAME: &'static str = "graceperiod:bare";
    const ROLES: &'static [Role] = &[Role::Update];

    type Local = ();
    global_cell!();

    fn local(&self) {}

    #[inline]
    fn enter<'a, P: Payload>(&'a self, (): &'a mut (), _: &'a RcuCell<P>) -> Guard<'a> {
        graceperiod::enter()
    }

    #[inline]
    fn replace<P: Payload>(&self, (): &mut (), cell: &RcuCell<P>, value: P) {
        if P::COUNTED {
            cell.load(&graceperiod::enter()).leave();
        }
        cell.replace(value);
    }
}

/// A domain of its own.
pub struct Owned(Domain);

impl Scheme for Owned {
    const NAME: &'static str = "graceperiod:owned";
    const ROLES: &'static [Role] = &[Role::Guard, Role::Deref, Role::Update, Role::Synchronize];

    type Cell<P: Payload> = RcuCell<P, Domain>;
    type Local = ();
    type Guard<'a, P: Payload> = Guard<'a, Domain>;

    fn new() -> Self {
        Self(Domain::new())
    }

    fn cell<P: Payload>(&self, value: P) -> RcuCell<P, Domain> {
        RcuCell::new_in(value, &self.0)
    }

    fn local(&self) {}

    #[inline]
    fn enter<'a, P: Payload>(
        &'a self,
        (): &'a mut (),
        _: &'a RcuCell<P, Domain>,
    ) -> Guard<'a, Domain> {
        self.0.enter()
    }

    #[inline]
    fn load<'a, P: Payload>(guard: &mut Guard<'a, Domain>, cell: &'a RcuCell<P, Domain>) -> u64 {
        cell.load(guard).first()
    }

    #[inline]
    fn replace<P: Payload>(&self, (): &mut (), cell: &RcuCell<P, Domain>, value: P) {
        look_and_replace!(self.0.enter(), cell, value);
    }

    fn synchronize(&self) {
        self.0.synchronize();
    }

    fn settle(&self) {
        self.0.barrier();
    }
}

/// A type-stable slab, whose slots serve the next insert at once.
pub struct TypeStable {
    /// The slab of each payload type.
    slabs: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

/// A link to a slab's object.
pub struct Linked<P: Payload> {
    slab: Arc<Slab<(), P, Immediate>>,
    link: Link<(), P, Immediate>,
}

impl Scheme for TypeStable {
    const NAME: &'static str = "graceperiod:type-stable";
    const ROLES: &'static [Role] = &[Role::Stall];
    const REFRESHES: bool = true;

    type Cell<P: Payload> = Linked<P>;
    type Local = ();
    type Guard<'a, P: Payload> = Guard<'a>;

    fn new() -> Self {
        Self {
            slabs: Mutex::default(),
        }
    }

    fn cell<P: Payload>(&self, value: P) -> Linked<P> {
        let mut slabs = self.slabs.lock().expect("nobody panics with the lock held");
        let slab = slabs
            .entry(TypeId::of::<P>())
            .or_insert_with(|| Arc::new(Slab::<(), P, Immediate>::new(|_| ())));
        let slab = Arc::clone(slab).downcast::<Slab<(), P, Immediate>>();
        let slab = slab.expect("the slab of this type");
        let link = slab.link();
        link.set(Some(slab.insert(value)));
        Linked { slab, link }
    }

    fn local(&self) {}

    #[inline]
    fn enter<'a, P: Payload>(&'a self, (): &'a mut (), _: &'a Linked<P>) -> Guard<'a> {
        graceperiod::enter()
    }

    #[inline]
    fn load<'a, P: Payload>(guard: &mut Guard<'a>, cell: &'a Linked<P>) -> u64 {
        let counted = cell
            .link
            .load(guard)
            .and_then(|candidate| candidate.try_get());
        counted.map_or(0, |payload| payload.first())
    }

    #[inline]
    fn replace<P: Payload>(&self, (): &mut (), cell: &Linked<P>, value: P) {
        let old = cell.link.swap(Some(cell.slab.insert(value)));
        old.expect("never empty").leave();
    }

    fn refresh<P: Payload>(guard: &mut Guard<'_>) {
        guard.refresh();
    }
}
