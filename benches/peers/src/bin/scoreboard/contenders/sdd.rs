//! sdd, with its owned pointers.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use sdd::{AtomicOwned, Guard, Owned, Tag};

use crate::payload::Payload;
use crate::scheme::{Role, Scheme};

/// Rounds between two samples: an object waits for three epochs.
const ROUNDS: usize = 16;

pub struct Sdd;

impl Scheme for Sdd {
    const NAME: &'static str = "sdd";
    const ROLES: &'static [Role] = &[Role::Guard, Role::Deref, Role::Update, Role::Stall];
    const SWELLS: bool = true;

    type Cell<P: Payload> = AtomicOwned<P>;
    type Local = ();
    type Guard<'a, P: Payload> = Guard;

    fn new() -> Self {
        Self
    }

    fn cell<P: Payload>(&self, value: P) -> AtomicOwned<P> {
        AtomicOwned::new(value)
    }

    fn local(&self) {}

    #[inline]
    fn enter<'a, P: Payload>(&'a self, (): &'a mut (), _: &'a AtomicOwned<P>) -> Guard {
        Guard::new()
    }

    #[inline]
    fn load<P: Payload>(guard: &mut Guard, cell: &AtomicOwned<P>) -> u64 {
        cell.load(Acquire, guard)
            .as_ref()
            .expect("never null")
            .first()
    }

    #[inline]
    fn replace<P: Payload>(&self, (): &mut (), cell: &AtomicOwned<P>, value: P) {
        let guard = Guard::new();
        let (old, _) = cell.swap((Some(Owned::new(value)), Tag::None), AcqRel);
        drop(guard);
        let old = old.expect("never null");
        old.leave();
        drop(old);
    }

    fn settle(&self) {
        for _ in 0..ROUNDS {
            Guard::new().accelerate();
        }
    }
}
