//! What a retiring thread does above its limit.
//!
//! # Protocol
//!
//! Looked at whenever a batch closes. Above the limit the thread drops a few batches more of what is ready. If too much
//! still *waits*, it helps: drives the grace period, drops what gets ready (a stated number at most), yields in between,
//! for at most the patience. If readers outlast that, it counts a hit, lets the backlog grow, and helps again when the
//! backlog has doubled.
//!
//! Where it can't help (inside the thread's own guard, inside foreign code, while panicking) it only counts.

use std::time::Duration;

use crate::sync::{now, panicking, thread};
use crate::thread::frame;
use crate::tuning::{CATCH_UP_AT_LIMIT, HELP_DROPS};

use super::backlog::Backlog;
use super::core::{Config, Core, Mine};

impl Core {
    pub(super) fn see_to_limit(&self, mine: &Mine<'_>) {
        if !self.is_over(mine) {
            return;
        }
        if self.may_drop_here() {
            self.drop_ready(mine, CATCH_UP_AT_LIMIT);
        } else {
            self.kick();
        }
        let Some(mut section) = mine.section() else {
            return;
        };
        if !section.asks_for_help(&self.config) {
            return;
        }
        let may_help = !mine.is_inside() && !self.is_inside() && !frame::is_open() && !panicking();
        if may_help {
            drop(section);
            if self.help(mine) {
                return;
            }
            match mine.section() {
                Some(again) => section = again,
                None => return,
            }
        }
        self.limit_hits.add(1);
        section.raise_help();
    }

    /// Helps until little enough waits for readers. False if the patience ran out before.
    #[cold]
    fn help(&self, mine: &Mine<'_>) -> bool {
        let deadline = now().saturating_add(nanos(self.config.patience));
        let mut drops = HELP_DROPS;
        loop {
            self.clock.advance(&self.records, Some(mine));
            self.ripen(mine);
            if self.may_drop_here() {
                drops -= self.drop_ready(mine, drops.min(CATCH_UP_AT_LIMIT));
            } else {
                self.kick();
            }
            if !self.is_waiting_over(mine) || drops == 0 {
                return true;
            }
            if now() >= deadline {
                return false;
            }
            thread::yield_now();
        }
    }

    fn is_over(&self, mine: &Mine<'_>) -> bool {
        mine.section()
            .is_some_and(|mut section| section.is_over(&self.config))
    }

    /// Whether what help could do something about is over the limit: all of it, if only the worker drops.
    fn is_waiting_over(&self, mine: &Mine<'_>) -> bool {
        mine.section().is_some_and(|section| {
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

    /// Whether too much waits, and more than when help was in vain the last time.
    fn asks_for_help(&self, config: &Config) -> bool {
        let (objects, bytes) = self.help_at;
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
