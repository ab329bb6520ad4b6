//! What a retiring thread does above its limit.
//!
//! # Protocol
//!
//! Looked at whenever a batch closes. Above the limit the thread drops a few batches more of what is ready. If too much
//! still *waits* for readers, the domain's [`OnLimit`] decides: the thread helps (drives the grace period, drops what
//! gets ready, yields in between) for at most the patience, or without a bound, or not at all. If readers outlast that, it
//! counts a hit, lets the backlog grow, and helps again when the backlog has doubled.
//!
//! Where it can't wait (inside the thread's own guard, inside foreign code or a no-reclaim scope, while panicking) it only
//! counts.

use std::time::Duration;

use crate::sync::{Relaxed, now, thread};
use crate::thread::{Snooze, may_run_foreign};
use crate::tuning::{CATCH_UP_AT_LIMIT, HELP_DROPS, PATIENCE};

use super::backlog::Backlog;
use super::core::{Config, Core, Owner};

/// What a thread does when what it has retired passes the limit.
///
/// | | `retire` and its like, at the limit | [`try_permit`](crate::Domain::try_permit) |
/// |---|---|---|
/// | `Help` | helps for at most the patience, then lets the backlog grow | helps for the patience, then says no |
/// | `Wait` | helps until the backlog is below the limit | waits until there is room |
/// | `Fail` | lets the backlog grow | makes one attempt, then says no |
///
/// Growth is counted in [`DomainStats::limit_hits`](crate::DomainStats::limit_hits). Nobody waits inside a guard of the
/// same domain, inside a destructor, handler or hook, in a [`NoReclaim`](crate::NoReclaim) scope, or while panicking.
///
/// The limit is looked at whenever a batch closes, every 256th retirement at the latest, so a thread may pass it by one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLimit {
    /// Drives grace periods and drops what is ready, yielding in between, for at most `patience`; then lets the backlog
    /// grow, and helps again when it has doubled.
    Help {
        /// Longest wait in one call.
        patience: Duration,
    },
    /// As `Help` without an end: the backlog stays below the limit plus one batch, whatever readers do.
    ///
    /// A retirement then waits for readers, so whoever retires must hold nothing that a reader of the domain waits for:
    /// no lock that is taken inside a guard, no channel that a reader sends to, no guard of another domain that such a
    /// reader waits for. Otherwise both wait for ever.
    Wait,
    /// Neither helps nor waits. Ask for room *before* unlinking: [`try_permit`](crate::Domain::try_permit),
    /// [`RcuCell::try_replace`](crate::RcuCell::try_replace).
    Fail,
}

impl OnLimit {
    pub(super) const DEFAULT: Self = Self::Help { patience: PATIENCE };

    /// Until when a call that comes at `now` may help.
    fn deadline(self, now: u64) -> u64 {
        match self {
            Self::Help { patience } => now.saturating_add(nanos(patience)),
            Self::Wait => u64::MAX,
            Self::Fail => now,
        }
    }
}

impl Default for OnLimit {
    /// Helps, with a patience of 1 ms.
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Core {
    pub(super) fn see_to_limit(&self, owner: Owner<'_>) {
        if !self.is_over(owner) {
            return;
        }
        if self.may_drop_here() {
            self.drop_ready(owner, CATCH_UP_AT_LIMIT);
        } else {
            self.kick();
        }
        let Some(mut section) = owner.section() else {
            return;
        };
        if !section.asks_for_help(&self.config) {
            return;
        }
        if self.config.on_limit != OnLimit::Fail && self.may_wait(owner) {
            drop(section);
            if self.help(owner, |core| core.is_waiting_over(owner)) {
                return;
            }
            match owner.section() {
                Some(again) => section = again,
                None => return,
            }
        }
        self.limit_hits.add(1);
        section.raise_help();
    }

    /// Whether the calling thread may wait for readers: it isn't one, and nobody could wait for it.
    fn may_wait(&self, owner: Owner<'_>) -> bool {
        !owner.is_inside() && !self.is_inside() && may_run_foreign()
    }

    /// Drives grace periods and drops what gets ready while `goes_on`. False if the domain's patience ran out before.
    #[cold]
    fn help(&self, owner: Owner<'_>, goes_on: impl Fn(&Self) -> bool) -> bool {
        let deadline = self.config.on_limit.deadline(now());
        let waits = self.config.on_limit == OnLimit::Wait;
        let mut drops = if waits { usize::MAX } else { HELP_DROPS };
        let mut snooze = Snooze::new();
        loop {
            self.clock.advance(&self.records, Some(&owner));
            self.ripen(owner);
            if self.may_drop_here() {
                drops -= self
                    .drop_ready(owner, drops.min(CATCH_UP_AT_LIMIT))
                    .min(drops);
            } else {
                self.kick();
            }
            if !goes_on(self) || drops == 0 {
                return true;
            }
            if waits {
                self.look_for_stalls();
                snooze.wait();
            } else if now() >= deadline {
                return false;
            } else {
                thread::yield_now();
            }
        }
    }

    /// Whether the calling thread may retire `objects` more, beside those that permits allow, without passing the limit;
    /// helps first as [`OnLimit`] says.
    pub(super) fn make_room(&self, owner: Owner<'_>, objects: usize) -> bool {
        let lacks_room = |core: &Self| !core.has_room(owner, objects);
        if !lacks_room(self) {
            return true;
        }
        if self.may_wait(owner) {
            self.help(owner, lacks_room);
        }
        !lacks_room(self)
    }

    fn has_room(&self, owner: Owner<'_>, objects: usize) -> bool {
        // Relaxed: the owner's own permits; others only give theirs back.
        let permitted = owner.own.permitted.load(Relaxed);
        let wanted = permitted.saturating_add(objects);
        owner.section().is_some_and(|section| {
            section.objects().saturating_add(wanted) <= self.config.limit_objects
                && section.bytes() <= self.config.limit_bytes
        })
    }

    fn is_over(&self, owner: Owner<'_>) -> bool {
        owner
            .section()
            .is_some_and(|mut section| section.is_over(&self.config))
    }

    /// Whether what help could do something about is over the limit: all of it, if only the worker drops.
    fn is_waiting_over(&self, owner: Owner<'_>) -> bool {
        owner.section().is_some_and(|section| {
            if self.config.drop_at_retire {
                section.is_waiting_over(&self.config)
            } else {
                section.objects() > self.config.limit_objects
                    || section.bytes() > self.config.limit_bytes
            }
        })
    }
}

impl Backlog {
    /// Whether the backlog is over the limit; if it isn't, help may be asked for at the limit again.
    fn is_over(&mut self, config: &Config) -> bool {
        let over = self.objects() > config.limit_objects || self.bytes() > config.limit_bytes;
        if !over {
            self.help_at = (0, 0);
        }
        over
    }

    fn is_waiting_over(&self, config: &Config) -> bool {
        self.waiting_objects() > config.limit_objects || self.waiting_bytes() > config.limit_bytes
    }

    /// Whether too much waits, and more than when help was in vain the last time. Without a bound on the patience it
    /// never is in vain.
    fn asks_for_help(&self, config: &Config) -> bool {
        let (objects, bytes) = match config.on_limit {
            OnLimit::Wait => (0, 0),
            _ => self.help_at,
        };
        self.objects() > config.limit_objects.max(objects)
            || self.bytes() > config.limit_bytes.max(bytes)
    }

    fn raise_help(&mut self) {
        self.help_at = (
            self.objects().saturating_mul(2),
            self.bytes().saturating_mul(2),
        );
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
