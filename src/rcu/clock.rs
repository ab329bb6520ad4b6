//! Grace periods: opening one, scanning the records, completing it.
//!
//! # Protocol
//!
//! Anybody drives; no step waits for another driver.
//!
//! - *cookie*: after unlinking, `c = E.fetch_add(0)` (Release). The period has elapsed when `done >= c + 1`.
//! - *advance*: move `E` from `c` to `g = c + 1` by compare-exchange, or see that somebody has; full fence.
//! - *scan*: each record's word (Acquire), in this order: an epoch of at least `g` passes; a live guard waits; `S` passes;
//!   else the word is idle and old. Those wait too, until the period is [`PARK_AFTER`] old; then
//! - *park*: one heavy fence of the driver's own, made after it saw `E >= g`, and `(x, 0) -> (x, S)` by compare-exchange
//!   for every idle word of an epoch below `g`, also those that went idle after the fence. A heavy fence of an earlier
//!   period doesn't count, nor does one that the kernel refused.
//! - *complete*: `done.fetch_max(g)` (Release).
//! - *fence mode*: `F` is set and cleared by `fetch_or` and `fetch_and` at any time, as `mode` says. `E` changes by
//!   read-modify-writes only.
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
//! - O26: hot enter's store, compiler fence, look at `E` | the driver's heavy fence, its look at the word, parking:
//!   the driver sees the reader inside, or the reader sees that `E` has moved on and takes the cold path.
//! - O30: naming the record that holds a scan up (Release) -> looking at it first (Acquire): the record's fields.
//! - O25: complete (Release) -> [`Clock::has_elapsed`] (Acquire): the waited-for guards' reads come before the free.
//!
//! Source: Fraser, "Practical lock-freedom" (2004, section 5.2.3) for epochs; McKenney et al., "User-level
//! implementations of read-copy update" (2012, section 3) for one word per reader and helping scans.

use std::ptr;

use crossbeam_utils::CachePadded;

use crate::counter::Shared;
use crate::fence;
use crate::sync::{AtomicPtr, AtomicU64, Relaxed, edge, now};
use crate::thread::{Node, Registry};
use crate::tuning::PARK_AFTER;

use super::epoch::Epoch;
use super::mode::{Mode, ReaderFences};
use super::record::Record;

/// The domain's epoch and the last completed one.
#[derive(Debug)]
pub(crate) struct Clock {
    /// `E`. Read by every enter.
    epoch: CachePadded<AtomicU64>,
    /// The number of the last epoch whose period is complete.
    done: CachePadded<AtomicU64>,
    /// When the open period was opened, by the shim's clock.
    opened: AtomicU64,
    /// Records that the last whole scan looked at.
    scanned: AtomicU64,
    /// The record that held the last scan up: looked at first, to save a walk. Records live as long as the clock.
    held_up_by: AtomicPtr<Record>,
    /// Heavy fences made.
    heavies: Shared,
    /// When `F` changes.
    mode: Mode,
}

/// What one attempt at a grace period came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// A period is complete.
    Completed,
    /// A reader is inside.
    Inside,
    /// Some thread idles and has not been heard of since the period was opened.
    Unheard,
}

impl Clock {
    crate::sync::const_fn! {
        pub(super) fn new(fences: ReaderFences) -> Self {
            Self {
                epoch: CachePadded::new(AtomicU64::new(Epoch::first(fences).bits())),
                done: CachePadded::new(AtomicU64::new(Epoch::FIRST.number())),
                opened: AtomicU64::new(0),
                scanned: AtomicU64::new(0),
                held_up_by: AtomicPtr::new(ptr::null_mut()),
                heavies: Shared::new(),
                mode: Mode::new(fences),
            }
        }
    }

    /// The present epoch, as a reader enters in it.
    #[inline]
    pub(super) fn epoch(&self) -> Epoch {
        // Acquire: pairs with the Release in advance (O22).
        Epoch::from_bits(self.epoch.load(edge!(O22, Acquire)))
    }

    /// Takes a cookie for everything that this thread has unlinked.
    pub(super) fn cookie(&self) -> u64 {
        // Release: pairs with the Acquire half of the advance (O24); the unlink comes before the driver's fence. [C1]
        Epoch::from_bits(self.epoch.fetch_add(0, edge!(O24, Release))).number()
    }

    /// Whether a grace period has passed since `cookie` was taken.
    pub(super) fn has_elapsed(&self, cookie: u64) -> bool {
        // Acquire: pairs with the Release in complete (O25). [H1]
        self.done.load(edge!(O25, Acquire)) > cookie
    }

    /// Number of grace periods completed.
    pub(super) fn periods(&self) -> u64 {
        // Acquire: pairs with the Release in complete (O25).
        Self::ordinal(self.done.load(edge!(O25, Acquire)))
    }

    /// How many grace periods are complete once that of the epoch `number` is.
    pub(super) const fn ordinal(number: u64) -> u64 {
        number - Epoch::FIRST.number()
    }

    /// Whether a period is open that nobody has completed.
    pub(super) fn is_open(&self) -> bool {
        // Acquire: pairs with the Release in advance (O22).
        let epoch = Epoch::from_bits(self.epoch.load(edge!(O22, Acquire)));
        !self.has_elapsed(epoch.number() - 1)
    }

    /// The number of a period that nobody has completed, and when it was opened, by the shim's clock.
    pub(super) fn open_period(&self) -> Option<(u64, u64)> {
        let number = self.epoch().number();
        // Relaxed: a hint about time.
        (!self.has_elapsed(number - 1)).then(|| (number, self.opened.load(Relaxed)))
    }

    /// Makes one attempt to complete the open period, opening one if none is.
    ///
    /// `own` is the caller's record, if it has one, so that the caller doesn't wait for itself. A period that only idle
    /// threads hold up completes once it is [`PARK_AFTER`] old.
    pub(super) fn advance(&self, records: &Registry<Record>, own: Option<&Record>) -> Attempt {
        let number = self.open();
        if self.is_still_held_up(number) {
            return Attempt::Inside;
        }
        if let Some(own) = own {
            own.announce(self);
        }
        // Orders the advance of `E`, made or seen, before the scan, against the reader's fence (O20). [D4]
        edge!(O20, fence::full());
        let mut attempt = self.scan(records, number, None);
        if attempt == Attempt::Unheard && self.is_late() {
            attempt = self.park(records, number);
        }
        if attempt == Attempt::Completed {
            // AcqRel: Release pairs with the Acquire in has_elapsed (O25); Acquire carries earlier completions on. [G1]
            self.done.fetch_max(number, edge!(O25, AcqRel));
        }
        attempt
    }

    /// Whether the open period is old enough to pay for a heavy fence.
    fn is_late(&self) -> bool {
        // Relaxed: a hint about time.
        now().saturating_sub(self.opened.load(Relaxed)) >= PARK_AFTER
    }

    #[cold]
    fn park(&self, records: &Registry<Record>, number: u64) -> Attempt {
        // The driver's half of O26, after `E >= number` was made or seen. [P1]
        let heavy = edge!(O26, fence::heavy());
        self.heavies.add(1);
        if !heavy {
            self.set_fenced_for_good();
        } else if self.mode.count_heavy(now()) {
            self.set_fenced();
        }
        self.scan(records, number, heavy.then_some(()))
    }

    /// Has every enter fenced from now on.
    pub(super) fn set_fenced_for_good(&self) {
        self.mode.keep();
        self.set_fenced();
    }

    /// Whether every enter is fenced at present.
    pub(super) fn is_fenced(&self) -> bool {
        self.epoch().is_fenced()
    }

    fn clear_fenced(&self) {
        // [M3]
        if self.epoch().is_fenced() {
            // AcqRel: as in set_fenced (O22, O24). [M4]
            self.epoch.fetch_and(!Epoch::FENCED, edge!(O22 O24, AcqRel));
        }
    }

    fn set_fenced(&self) {
        // [M1]
        if !self.epoch().is_fenced() {
            // AcqRel: `E` changes by read-modify-writes only, each of which hands on the earlier ones (O22, O24). [M2]
            self.epoch.fetch_or(Epoch::FENCED, edge!(O22 O24, AcqRel));
        }
    }

    /// Whether the reader that held the last scan up is still inside. Giving up early is always right.
    fn is_still_held_up(&self, number: u64) -> bool {
        // Acquire: pairs with the Release in scan (O30); the record is there.
        let record = self.held_up_by.load(edge!(O30, Acquire));
        // SAFETY: null, or a record of this domain, which lives as long as the clock.
        unsafe { record.as_ref() }.is_some_and(|record| record.observe().holds_up(number))
    }

    /// Records that the last whole scan looked at.
    pub(super) fn scanned(&self) -> u64 {
        // Relaxed: for pacing only.
        self.scanned.load(Relaxed)
    }

    /// Number of heavy fences made.
    pub(super) fn heavies(&self) -> u64 {
        self.heavies.get()
    }

    /// Returns the number of a period that is open, opening the next one if none is.
    fn open(&self) -> u64 {
        loop {
            let epoch = self.epoch(); // [D1]
            // [D2]
            if !self.has_elapsed(epoch.number() - 1) {
                return epoch.number();
            }
            let next = epoch.next();
            let now = now();
            // Relaxed: a hint about time. Before the exchange, and never back: else the period would look as old as the one
            // before, and a reader would be told of that it holds up.
            self.opened.fetch_max(now, Relaxed);
            // AcqRel: Acquire pairs with the Release in cookie (O24), Release with the Acquire in epoch (O22). [D3]
            // Relaxed on failure: the loads that follow are the ones that count.
            let opened = self.epoch.compare_exchange(
                epoch.bits(),
                next.bits(),
                edge!(O24 O22, AcqRel),
                Relaxed,
            );
            if opened.is_ok() {
                if self.mode.is_over(now) {
                    self.clear_fenced();
                }
                return next.number();
            }
        }
    }

    /// Looks at every record; parks idle ones if a heavy fence of this period gives leave.
    fn scan(&self, records: &Registry<Record>, number: u64, parks: Option<()>) -> Attempt {
        let mut attempt = Attempt::Completed;
        let mut scanned = 0;
        for node in records {
            let record = &node.value;
            scanned += 1;
            loop {
                let word = record.observe(); // [S1]
                if word.passes(number) {
                    break;
                }
                if !word.is_idle() {
                    // Release: pairs with the Acquire in is_still_held_up (O30).
                    self.held_up_by
                        .store(ptr::from_ref(record).cast_mut(), edge!(O30, Release));
                    return Attempt::Inside;
                }
                if parks.is_none() && park_abandoned(node) {
                    continue;
                }
                if parks.is_none() {
                    attempt = Attempt::Unheard;
                    break;
                }
                if record.park(word) {
                    break;
                }
            }
        }
        // Relaxed: for pacing only.
        self.scanned.store(scanned, Relaxed);
        attempt
    }
}

/// Parks the idle word of a record whose thread has gone, as its owner for a moment. That takes no heavy fence: whoever
/// claims the record next enters from the parked word.
fn park_abandoned(node: &Node<Record>) -> bool {
    let claimed = node.is_abandoned() && node.try_claim(Record::is_unused);
    if claimed {
        node.value.park_own();
        node.give_up(false);
    }
    claimed
}
