//! arc-swap: reads protect one value, not a section.

use std::hint::black_box;
use std::sync::Arc;

use arc_swap::{ArcSwap as Swap, Guard};

use crate::payload::Payload;
use crate::scheme::{Role, Scheme};

pub struct ArcSwap;

impl Scheme for ArcSwap {
    const NAME: &'static str = "arc-swap";
    const ROLES: &'static [Role] = &[Role::Deref, Role::Update, Role::Mix, Role::Stall];

    type Cell<P: Payload> = Swap<P>;
    type Local = ();
    type Guard<'a, P: Payload> = Option<Guard<Arc<P>>>;

    fn new() -> Self {
        Self
    }

    fn cell<P: Payload>(&self, value: P) -> Swap<P> {
        Swap::from_pointee(value)
    }

    fn local(&self) {}

    #[inline]
    fn enter<'a, P: Payload>(&'a self, (): &'a mut (), _: &'a Swap<P>) -> Option<Guard<Arc<P>>> {
        None
    }

    #[inline]
    fn load<P: Payload>(guard: &mut Option<Guard<Arc<P>>>, cell: &Swap<P>) -> u64 {
        guard.insert(cell.load()).first()
    }

    #[inline]
    fn replace<P: Payload>(&self, (): &mut (), cell: &Swap<P>, value: P) {
        let old = cell.load();
        black_box(Arc::as_ptr(&old));
        old.leave();
        drop(old);
        cell.store(Arc::new(value));
    }
}
