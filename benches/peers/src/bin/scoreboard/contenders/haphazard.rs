//! haphazard: hazard pointers, in the global domain.

use std::sync::atomic::Ordering::Relaxed;

use haphazard::{AtomicPtr, Domain, HazardPointer};

use crate::payload::Payload;
use crate::scheme::{Role, Scheme};

pub struct Haphazard;

/// The cell owns what it holds when it goes.
pub struct Cell<P>(AtomicPtr<P>);

impl<P> Drop for Cell<P> {
    fn drop(&mut self) {
        // SAFETY: the cell goes, so nothing is stored through the atomic any more.
        let last = unsafe { self.0.as_std() }.load(Relaxed);
        // SAFETY: what the cell holds was never retired, and the cell is ours alone.
        drop(unsafe { Box::from_raw(last) });
    }
}

/// Protects until it goes; the hazard pointer itself is kept for the next time.
pub struct Protection<'a>(&'a mut HazardPointer<'static>);

impl Drop for Protection<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.reset_protection();
    }
}

impl Scheme for Haphazard {
    const NAME: &'static str = "haphazard";
    const ROLES: &'static [Role] = &[Role::Guard, Role::Deref, Role::Update, Role::Stall];

    type Cell<P: Payload> = Cell<P>;
    type Local = HazardPointer<'static>;
    type Guard<'a, P: Payload> = Protection<'a>;

    fn new() -> Self {
        Self
    }

    fn cell<P: Payload>(&self, value: P) -> Cell<P> {
        Cell(AtomicPtr::from(Box::new(value)))
    }

    fn local(&self) -> HazardPointer<'static> {
        HazardPointer::new()
    }

    #[inline]
    fn enter<'a, P: Payload>(
        &'a self,
        local: &'a mut HazardPointer<'static>,
        _: &'a Cell<P>,
    ) -> Protection<'a> {
        Protection(local)
    }

    #[inline]
    fn load<'a, P: Payload>(guard: &mut Protection<'a>, cell: &'a Cell<P>) -> u64 {
        cell.0.safe_load(guard.0).expect("never null").first()
    }

    #[inline]
    fn replace<P: Payload>(&self, local: &mut HazardPointer<'static>, cell: &Cell<P>, value: P) {
        let payload = cell.0.safe_load(local);
        std::hint::black_box(payload.map(std::ptr::from_ref));
        local.reset_protection();
        let old = cell.0.swap(Box::new(value)).expect("never null");
        // SAFETY: not retired yet.
        unsafe { old.as_ref().as_ref() }.leave();
        // SAFETY: the swap made it unreachable, and it is retired once.
        unsafe { old.retire() };
    }

    /// There is no section without a pointer; this protects one, without the look that it is still the one.
    #[inline]
    fn enter_leave<P: Payload>(
        &self,
        local: &mut HazardPointer<'static>,
        cell: &Cell<P>,
        times: u32,
    ) {
        let pointer = cell.0.load_ptr();
        for _ in 0..times {
            local.protect_raw(pointer);
            local.reset_protection();
        }
    }

    fn settle(&self) {
        Domain::global().eager_reclaim();
    }
}
