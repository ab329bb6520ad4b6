//! seize, with its fast barrier or without: that is a feature, so the other one needs a second build.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use seize::{Collector, Guard as _, LocalGuard, reclaim};

use super::boxed::BoxCell;
use crate::payload::Payload;
use crate::scheme::{Role, Scheme};

pub struct Seize(Collector);

impl Scheme for Seize {
    const NAME: &'static str = if cfg!(feature = "seize-fast-barrier") {
        "seize:fast-barrier"
    } else {
        "seize"
    };
    const ROLES: &'static [Role] = &[
        Role::Guard,
        Role::Deref,
        Role::Update,
        Role::Mix,
        Role::Stall,
    ];
    const REFRESHES: bool = true;

    type Cell<P: Payload> = BoxCell<P>;
    type Local = ();
    type Guard<'a, P: Payload> = LocalGuard<'a>;

    fn new() -> Self {
        Self(Collector::new())
    }

    fn cell<P: Payload>(&self, value: P) -> BoxCell<P> {
        BoxCell::new(value)
    }

    fn local(&self) {}

    #[inline]
    fn enter<'a, P: Payload>(&'a self, (): &'a mut (), _: &'a BoxCell<P>) -> LocalGuard<'a> {
        self.0.enter()
    }

    #[inline]
    fn load<'a, P: Payload>(guard: &mut LocalGuard<'a>, cell: &'a BoxCell<P>) -> u64 {
        let payload = guard.protect(&cell.0, Acquire);
        // SAFETY: never null, and protected by the guard.
        unsafe { &*payload }.first()
    }

    #[inline]
    fn replace<P: Payload>(&self, (): &mut (), cell: &BoxCell<P>, value: P) {
        let guard = self.0.enter();
        let old = guard.swap(&cell.0, Box::into_raw(Box::new(value)), AcqRel);
        drop(guard);
        // SAFETY: never null, and not retired yet.
        unsafe { &*old }.leave();
        // SAFETY: the swap made `old` unreachable, it came from a box, and it is retired once.
        unsafe { self.0.retire(old, reclaim::boxed) };
    }

    fn refresh<P: Payload>(guard: &mut LocalGuard<'_>) {
        guard.refresh();
    }

    fn settle(&self) {
        // SAFETY: between two samples no thread uses the collector.
        unsafe { self.0.reclaim_all() };
    }
}
