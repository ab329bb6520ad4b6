//! kovan, with nodes that embed its header.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use kovan::{Atomic, Guard, RetiredNode, Shared, flush, pin, retire};

use crate::payload::Payload;
use crate::scheme::{Role, Scheme};

pub struct Kovan;

#[repr(C)]
pub struct Node<P> {
    header: RetiredNode,
    payload: P,
}

/// The cell owns what it holds when it goes.
pub struct Cell<P>(Atomic<Node<P>>);

impl<P> Drop for Cell<P> {
    fn drop(&mut self) {
        let last = self.0.load(Relaxed, &pin()).as_raw();
        // SAFETY: what the cell holds was never retired, and the cell is ours alone.
        drop(unsafe { Box::from_raw(last) });
    }
}

fn boxed<P>(payload: P) -> *mut Node<P> {
    Box::into_raw(Box::new(Node {
        header: RetiredNode::new(),
        payload,
    }))
}

impl Scheme for Kovan {
    const NAME: &'static str = "kovan";
    const ROLES: &'static [Role] = &[Role::Guard, Role::Deref, Role::Update, Role::Stall];

    type Cell<P: Payload> = Cell<P>;
    type Local = ();
    type Guard<'a, P: Payload> = Guard;

    fn new() -> Self {
        Self
    }

    fn cell<P: Payload>(&self, value: P) -> Cell<P> {
        Cell(Atomic::new(boxed(value)))
    }

    fn local(&self) {}

    #[inline]
    fn enter<'a, P: Payload>(&'a self, (): &'a mut (), _: &'a Cell<P>) -> Guard {
        pin()
    }

    #[inline]
    fn load<P: Payload>(guard: &mut Guard, cell: &Cell<P>) -> u64 {
        let node = cell.0.load(Acquire, guard);
        // SAFETY: never null, and protected by the guard.
        unsafe { node.deref() }.payload.first()
    }

    #[inline]
    fn replace<P: Payload>(&self, (): &mut (), cell: &Cell<P>, value: P) {
        let guard = pin();
        // SAFETY: made just now.
        let new = unsafe { Shared::from_raw(boxed(value)) };
        let old = cell.0.swap(new, AcqRel, &guard).as_raw();
        drop(guard);
        // SAFETY: never null, and not retired yet.
        unsafe { &*old }.payload.leave();
        // SAFETY: the swap made it unreachable, it came from a box, and it is retired once.
        unsafe { retire(old) };
    }

    fn settle(&self) {
        flush();
    }
}
