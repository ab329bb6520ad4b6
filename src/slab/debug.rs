//! Two ways of handing out slots that make mistakes show.
//!
//! A thread's magazines hide both kinds of mistakes, so a slab in a debug mode has none: every free goes to the depot, and
//! every reservation comes from there.

use std::sync::OnceLock;

use crate::reclaim::ReadSection;
use crate::thread::may_run_foreign;
use crate::tuning::DEBUG_VARIABLE;

use super::cache::Cache;
use super::core::Core;
use super::policy::{Part, Policy};
use super::slot::{Slot, SlotPtr};
use super::waiting::Queue;

/// How a slab hands out its slots while its users are looking for mistakes; see
/// [`SlabBuilder::debug`](super::SlabBuilder::debug).
///
/// Each mode hides the other's mistakes, so test with both: delayed reuse hides a missing check, instant reuse a late
/// access.
///
/// The environment variable `GRACEPERIOD_SLAB_DEBUG` sets the mode of every slab whose builder doesn't:
/// `recycle-at-once` or `quarantine`. It is read once per process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Debug {
    /// The next reservation takes the slot that was freed last, by whichever thread; under
    /// [`AfterGrace`](super::AfterGrace) the one that has waited longest, as soon as its grace period has elapsed.
    ///
    /// Finds readers that believe a stable part without checking again who lives there: another incarnation does.
    RecycleAtOnce,
    /// A freed slot is left alone until 1,024 others have been freed after it, or there is no other. Its value's bytes are
    /// overwritten, the stable part never. A reservation panics if anybody has written to them meanwhile.
    ///
    /// Finds uses of a value after its drop. [`shrink`](super::Slab::shrink) ends the quarantine of whole pages.
    #[doc(alias = "KASAN")]
    Quarantine,
}

impl Debug {
    /// What the environment asks for.
    pub(super) fn from_environment() -> Option<Self> {
        static CHOICE: OnceLock<Option<Debug>> = OnceLock::new();
        *CHOICE.get_or_init(|| match std::env::var(DEBUG_VARIABLE).as_deref() {
            Err(_) | Ok("") => None,
            Ok("recycle-at-once") => Some(Self::RecycleAtOnce),
            Ok("quarantine") => Some(Self::Quarantine),
            Ok(other) => panic!(
                "graceperiod: {DEBUG_VARIABLE} is `{other}`; set it to `recycle-at-once` or `quarantine`",
            ),
        })
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Core<S, V, P, D> {
    pub(super) fn is_quarantined(&self) -> bool {
        self.debug == Some(Debug::Quarantine)
    }

    /// Drops one value that has waited long enough, so that its slot goes into quarantine.
    pub(super) fn quarantine_one(&self) {
        if P::WAITS
            && may_run_foreign()
            && let Some(node) = self.caches.try_claim(Cache::new, |_| true)
        {
            self.drop_dead_with(node, |depot| {
                let mut one = Queue::EMPTY;
                if let Some(dead) = depot.take_ripe(&self.inner) {
                    one.push(dead);
                }
                one
            });
        }
    }

    /// Overwrites where a value was.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot, which holds no value.
    pub(super) unsafe fn poison(&self, slot: SlotPtr<S, V, P, D>) {
        if self.is_quarantined() {
            // SAFETY: (1).
            unsafe { Slot::poison(slot) };
        }
    }

    /// Makes sure that nobody has written to where a value was.
    ///
    /// # Panics
    ///
    /// If somebody has.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot, which was poisoned if the slab has a quarantine.
    pub(super) unsafe fn check_poison(&self, slot: SlotPtr<S, V, P, D>) {
        // SAFETY: (1).
        if self.is_quarantined() && !unsafe { Slot::is_poisoned(slot) } {
            self.accuse();
        }
    }

    #[cold]
    fn accuse(&self) -> ! {
        panic!(
            "graceperiod: somebody wrote to a value of slab `{}` after its drop",
            self.name,
        );
    }
}
