//! Grace periods: opening one, scanning the records, completing it.
//!
//! # Protocol
//!
//! Anybody drives; no step waits for another driver.
//!
//! - *cookie*: after unlinking, `c = E.fetch_add(0)` (Release). The period has elapsed when `done >= c + 1`.
//! - *advance*: move `E` from `c` to `g = c + 1` by compare-exchange, or see that somebody has; full fence.
//! - *scan*: each record's word (Acquire): passes with an epoch of at least `g`, or idle with `S`; else the scan fails
//!   and is tried again later.
//! - *complete*: `done.fetch_max(g)` (Release).
//!
//! # Invariants
//!
//! - I1: `E`'s number grows by one at a time and is at most `done + 1`: a period opens when the one before is done.
//! - I2: `done >= g` implies that every guard that was live when `E` became `g` has gone.
//!
//! # Orderings
//!
//! - O20, O21, O22: see `record`.
//! - O24: the cookie's read-modify-write on `E` (Release) -> the advance's (Acquire): the unlink comes before the
//!   driver's fence. A plain load of `E` fails here: a driver's advance need not come after it.
//! - O25: complete (Release) -> [`Clock::has_elapsed`] (Acquire): the waited-for guards' reads come before the free.
//!
//! The exhaustive exploration of this protocol, with its wrong variants, is a model of its own; in fence mode it is the
//! classic epoch scheme with one grace period per free instead of two, which the cookie's read-modify-write pays for.
//!
//! Source: Fraser, "Practical lock-freedom" (2004, section 5.2.3) for epochs; McKenney et al., "User-level
//! implementations of read-copy update" (2012, section 3) for one word per reader and helping scans.

use crossbeam_utils::CachePadded;

use crate::fence;
use crate::sync::{AcqRel, Acquire, AtomicU64, Relaxed, Release};
use crate::thread::Registry;

use super::epoch::Epoch;
use super::record::Record;

/// The domain's epoch and the last completed one.
#[derive(Debug)]
pub(crate) struct Clock {
    /// `E`. Read by every enter.
    epoch: CachePadded<AtomicU64>,
    /// The number of the last epoch whose period is complete.
    done: CachePadded<AtomicU64>,
}

impl Clock {
    crate::sync::const_fn! {
        pub(super) fn new() -> Self {
            Self {
                epoch: CachePadded::new(AtomicU64::new(Epoch::FIRST.bits())),
                done: CachePadded::new(AtomicU64::new(Epoch::FIRST.number())),
            }
        }
    }

    /// The present epoch, as a reader enters in it.
    #[inline]
    pub(super) fn epoch(&self) -> Epoch {
        // Acquire: pairs with the Release in advance (O22).
        Epoch::from_bits(self.epoch.load(Acquire))
    }

    /// Takes a cookie for everything that this thread has unlinked.
    pub(super) fn cookie(&self) -> u64 {
        // Release: pairs with the Acquire half of the advance (O24); the unlink comes before the driver's fence.
        Epoch::from_bits(self.epoch.fetch_add(0, Release)).number()
    }

    /// Whether a grace period has passed since `cookie` was taken.
    pub(super) fn has_elapsed(&self, cookie: u64) -> bool {
        // Acquire: pairs with the Release in complete (O25).
        self.done.load(Acquire) > cookie
    }

    /// Number of grace periods completed.
    pub(super) fn periods(&self) -> u64 {
        // Acquire: pairs with the Release in complete (O25).
        self.done.load(Acquire) - Epoch::FIRST.number()
    }

    /// Whether a period is open that nobody has completed.
    pub(super) fn is_open(&self) -> bool {
        // Acquire: pairs with the Release in advance (O22).
        let epoch = Epoch::from_bits(self.epoch.load(Acquire));
        !self.has_elapsed(epoch.number() - 1)
    }

    /// Makes one attempt to complete the open period, opening one if none is. Returns whether a period was completed.
    pub(super) fn advance(&self, records: &Registry<Record>) -> bool {
        let number = self.open();
        // Orders the advance of `E`, made or seen, before the scan, against the reader's fence (O20).
        fence::full();
        let clear = records
            .iter()
            .all(|node| node.value.observe().passes(number));
        if clear {
            // AcqRel: Release pairs with the Acquire in has_elapsed (O25); Acquire carries earlier completions on.
            self.done.fetch_max(number, AcqRel);
        }
        clear
    }

    /// Returns the number of a period that is open, opening the next one if none is.
    fn open(&self) -> u64 {
        let epoch = self.epoch();
        if !self.has_elapsed(epoch.number() - 1) {
            return epoch.number();
        }
        let next = epoch.next();
        // AcqRel: Acquire pairs with the Release in cookie (O24), Release with the Acquire in epoch (O22).
        // Relaxed on failure: the load that follows is the one that counts.
        match self
            .epoch
            .compare_exchange(epoch.bits(), next.bits(), AcqRel, Relaxed)
        {
            Ok(_) => next.number(),
            Err(_) => self.epoch().number(),
        }
    }
}
