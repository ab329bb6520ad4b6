//! crossbeam-epoch, in its default collector.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use crossbeam_epoch::{Atomic, Guard, Owned, pin};

use crate::payload::Payload;
use crate::scheme::{Role, Scheme};

/// Most rounds of flushing between two samples; a round drops a few bags of 64.
const FLUSHES: usize = 100_000;

pub struct Crossbeam;

/// The cell owns what it holds when it goes.
pub struct Cell<P>(Atomic<P>);

impl<P> Drop for Cell<P> {
    fn drop(&mut self) {
        let last = std::mem::replace(&mut self.0, Atomic::null());
        // SAFETY: what the cell holds was never retired, and the cell is ours alone.
        drop(unsafe { last.into_owned() });
    }
}

impl Scheme for Crossbeam {
    const NAME: &'static str = "crossbeam-epoch";
    const ROLES: &'static [Role] = &[
        Role::Guard,
        Role::Deref,
        Role::Update,
        Role::Mix,
        Role::Stall,
    ];
    const SWELLS: bool = true;
    const REFRESHES: bool = true;

    type Cell<P: Payload> = Cell<P>;
    type Local = ();
    type Guard<'a, P: Payload> = Guard;

    fn new() -> Self {
        Self
    }

    fn cell<P: Payload>(&self, value: P) -> Cell<P> {
        Cell(Atomic::new(value))
    }

    fn local(&self) {}

    #[inline]
    fn enter<'a, P: Payload>(&'a self, (): &'a mut (), _: &'a Cell<P>) -> Guard {
        pin()
    }

    #[inline]
    fn load<P: Payload>(guard: &mut Guard, cell: &Cell<P>) -> u64 {
        let payload = cell.0.load(Acquire, guard);
        // SAFETY: never null, and protected by the guard.
        unsafe { payload.deref() }.first()
    }

    #[inline]
    fn replace<P: Payload>(&self, (): &mut (), cell: &Cell<P>, value: P) {
        let guard = pin();
        let old = cell.0.swap(Owned::new(value), AcqRel, &guard);
        // SAFETY: never null, and not retired yet.
        unsafe { old.deref() }.leave();
        // SAFETY: the swap made `old` unreachable, and it is retired once.
        unsafe { guard.defer_destroy(old) };
    }

    fn refresh<P: Payload>(guard: &mut Guard) {
        guard.repin();
    }

    fn settle(&self) {
        // What was deferred before has run when this has.
        let is_done = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&is_done);
        pin().defer(move || done.store(true, Release));
        for _ in 0..FLUSHES {
            if is_done.load(Acquire) {
                return;
            }
            pin().flush();
        }
    }
}
