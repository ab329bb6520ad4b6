//! A table made whole in the child of a fork.
//!
//! Nothing is held still: that would take the lock of each bucket, and write to all of them. A writer leaves a chain that
//! can be walked at every step, and says by the node's term which of its steps it has come to; so the child finishes what
//! it finds half done. An object on its way in or out is no member there, and is leaked.

use crate::sync::{Arc, Weak};
use crate::thread::{Forkable, Held, register};

use super::buckets::Buckets;
use super::members::Members;

/// A table without its types.
pub(super) struct Whole {
    id: u64,
    buckets: Buckets,
    members: Arc<Members>,
}

impl Whole {
    /// Lets forks find a table.
    pub(super) fn register(id: u64, buckets: &Buckets, members: &Arc<Members>) -> Arc<Self> {
        let whole = Arc::new(Self {
            id,
            buckets: buckets.clone(),
            members: Arc::clone(members),
        });
        let forkable: Weak<dyn Forkable> = Arc::<Self>::downgrade(&whole);
        register(forkable);
        whole
    }
}

impl Forkable for Whole {
    fn hold(&self) -> Box<dyn Held + '_> {
        Box::new(HeldTable(self))
    }
}

struct HeldTable<'a>(&'a Whole);

impl Held for HeldTable<'_> {
    fn settle(&mut self, _: bool) {}

    unsafe fn reset(&mut self) {
        let Self(whole) = self;
        let members = whole.buckets.iter().map(|head| {
            // SAFETY: (1) of the trait.
            unsafe { head.repair(whole.id) }
        });
        whole.members.set(members.sum());
    }
}
