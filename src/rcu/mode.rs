//! Whether readers fence every enter, and when that changes.
//!
//! Parking an idle thread takes a heavy fence, and a wait before it. That is cheap where it is rare. Where many threads
//! share few cores, or many enter now and then, every period finds some that idle unfenced; then fences in the readers
//! are the better bargain, since what idles after a fenced enter needn't be parked.
//!
//! # Protocol
//!
//! - *count*: each heavy fence is counted. With [`FENCE_MODE_HEAVIES`] of them within [`FENCE_MODE_WINDOW`], `F` is set for
//!   [`FENCE_MODE_FOR`].
//! - *look*: whoever opens a period clears `F` when that time is over. If the cause is still there, a window's worth of
//!   heavy fences sets it again.
//! - Where the kernel refuses heavy fences, `F` is set for good.
//!
//! All of this is a matter of cost. `F` may change at any time (see `clock`), so races here lose a window at worst.

use crate::sync::{AtomicU32, AtomicU64, Relaxed};
use crate::tuning::{FENCE_MODE_FOR, FENCE_MODE_HEAVIES, FENCE_MODE_WINDOW};

/// What makes an enter visible to those who wait for readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReaderFences {
    /// Readers enter without a fence until the threads that wait for them have had to make too many heavy ones
    /// (`membarrier`): 16 within 16 ms. Then readers fence for 100 ms.
    #[default]
    Auto,
    /// Readers enter without a fence, whatever that costs those who wait for them.
    Light,
    /// Readers fence each outermost enter, about 2 ns; nobody makes a heavy fence for them.
    Full,
}

/// For good.
const EVER: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Mode {
    setting: ReaderFences,
    /// Until when `F` is to stay set, by the shim's clock; 0 while it isn't.
    until: AtomicU64,
    /// When the present window began, and the heavy fences in it.
    window: AtomicU64,
    heavies: AtomicU32,
}

impl Mode {
    crate::sync::const_fn! {
        pub(super) fn new(setting: ReaderFences) -> Self {
            Self {
                setting,
                until: AtomicU64::new(match setting {
                    ReaderFences::Full => EVER,
                    ReaderFences::Auto | ReaderFences::Light => 0,
                }),
                window: AtomicU64::new(0),
                heavies: AtomicU32::new(0),
            }
        }
    }

    /// Whether `F` is set from the start.
    pub(super) const fn begins_fenced(setting: ReaderFences) -> bool {
        matches!(setting, ReaderFences::Full)
    }

    /// Notes that `F` is set for good.
    pub(super) fn keep(&self) {
        // Relaxed: a matter of cost only, as everywhere here.
        self.until.store(EVER, Relaxed);
    }

    /// Counts a heavy fence made at `now`. True if that was one too many, and `F` is to be set.
    pub(super) fn count_heavy(&self, now: u64) -> bool {
        if self.setting != ReaderFences::Auto {
            return false;
        }
        // Relaxed: as in keep.
        if now.saturating_sub(self.window.load(Relaxed)) > FENCE_MODE_WINDOW {
            // Relaxed: as in keep.
            self.window.store(now, Relaxed);
            // Relaxed: as in keep.
            self.heavies.store(0, Relaxed);
        }
        // Relaxed: as in keep.
        let heavies = self.heavies.fetch_add(1, Relaxed) + 1;
        let many = heavies >= FENCE_MODE_HEAVIES;
        if many {
            // Relaxed: as in keep. A read-modify-write, so that what is set for good stays so.
            self.until.fetch_max(now + FENCE_MODE_FOR, Relaxed);
        }
        many
    }

    /// Whether `F` has been set for long enough, and is to be cleared.
    pub(super) fn is_over(&self, now: u64) -> bool {
        // Relaxed: as in keep.
        let until = self.until.load(Relaxed);
        until != 0
            && now >= until
            // Relaxed: as in keep. One thread clears, and what was set for good meanwhile stays so.
            && self.until.compare_exchange(until, 0, Relaxed, Relaxed).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn heavy_fences_in_a_row_ask_for_fenced_readers_for_a_while() {
        let mode = Mode::new(ReaderFences::Auto);
        let start = 7 * FENCE_MODE_WINDOW;
        for n in 1..FENCE_MODE_HEAVIES {
            assert!(!mode.count_heavy(start + u64::from(n)));
        }
        assert!(!mode.is_over(start));
        let last = start + FENCE_MODE_WINDOW;
        assert!(mode.count_heavy(last));
        assert!(!mode.is_over(last + FENCE_MODE_FOR - 1));
        assert!(mode.is_over(last + FENCE_MODE_FOR));
        assert!(!mode.is_over(last + FENCE_MODE_FOR), "only one clears it");
    }

    #[test]
    fn rare_heavy_fences_ask_for_nothing() {
        let mode = Mode::new(ReaderFences::Auto);
        let gap = FENCE_MODE_WINDOW / u64::from(FENCE_MODE_HEAVIES - 2);
        for n in 1..1_000 {
            assert!(!mode.count_heavy(n * gap), "{n}");
        }
    }

    #[test]
    fn what_is_set_for_good_stays() {
        for mode in [Mode::new(ReaderFences::Full), {
            let refused = Mode::new(ReaderFences::Auto);
            refused.keep();
            refused
        }] {
            for now in 1..1_000 {
                mode.count_heavy(now);
            }
            assert!(!mode.is_over(u64::MAX - 1));
        }
        let light = Mode::new(ReaderFences::Light);
        assert!((1..1_000).all(|now| !light.count_heavy(now)));
    }
}
