//! What a domain counts.

use std::fmt;
use std::time::Duration;

use super::core::Core;

/// Counters of a domain, exact when nothing runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DomainStats {
    /// Threads and owned guards now inside the domain.
    pub readers: usize,
    /// Objects retired and not yet dropped, those that wait in slabs and queues of the domain included.
    pub pending_objects: u64,
    /// Their size in bytes, as far as it is known.
    pub pending_bytes: u64,
    /// Grace periods completed.
    pub grace_periods: u64,
    /// Heavy fences made for grace periods: one for each period that idle threads held up.
    pub heavy_fences: u64,
    /// Whether readers fence each enter at present: see [`ReaderFences`](crate::ReaderFences).
    pub readers_fence: bool,
    /// How long a guard has been known to hold a grace period up, since that was opened: no guard notes when it enters.
    pub oldest_guard: Option<Duration>,
    /// Objects retired so far.
    pub retired: u64,
    /// Objects dropped so far.
    pub dropped: u64,
    /// Times that a backlog passed its limit because readers outlasted the patience.
    pub limit_hits: u64,
    /// Destructors and hooks that panicked.
    pub panics: u64,
}

impl fmt::Display for DomainStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} readers, {} pending ({} bytes), {} grace periods, {} heavy fences{}, {} retired, {} dropped, {} limit hits, {} panics",
            self.readers,
            self.pending_objects,
            self.pending_bytes,
            self.grace_periods,
            self.heavy_fences,
            if self.readers_fence {
                " (readers fence now)"
            } else {
                ""
            },
            self.retired,
            self.dropped,
            self.limit_hits,
            self.panics
        )
    }
}

/// What a drain achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a drain may leave objects behind that destructors or other threads kept retiring"]
#[non_exhaustive]
pub struct Drained {
    /// Barriers made.
    pub rounds: usize,
    /// Objects still pending afterwards: 0 unless something kept retiring meanwhile.
    pub left: u64,
}

impl Core {
    pub(super) fn stats(&self) -> DomainStats {
        let (late, late_bytes) = (self.late.get(), self.late_bytes.get());
        let mut stats = DomainStats {
            grace_periods: self.clock.periods(),
            heavy_fences: self.clock.heavies(),
            readers_fence: self.clock.is_fenced(),
            oldest_guard: self.oldest_guard(),
            limit_hits: self.limit_hits.get(),
            panics: self.panics.count(),
            retired: late,
            dropped: late,
            ..DomainStats::default()
        };
        let (mut retired_bytes, mut dropped_bytes) = (late_bytes, late_bytes);
        // Drops first: an object that moves on meanwhile is then counted as pending, not as less than none.
        for node in &self.records {
            stats.dropped = stats.dropped.wrapping_add(node.value.own.dropped.get());
            dropped_bytes = dropped_bytes.wrapping_add(node.value.own.dropped_bytes.get());
        }
        for node in &self.records {
            stats.retired = stats.retired.wrapping_add(node.value.own.retired.get());
            retired_bytes = retired_bytes.wrapping_add(node.value.own.retired_bytes.get());
            stats.readers += usize::from(!node.value.observe().is_idle());
        }
        stats.pending_objects = stats.retired.saturating_sub(stats.dropped);
        stats.pending_bytes = retired_bytes.wrapping_sub(dropped_bytes);
        for stage in self.live_stages() {
            let waiting = stage.waiting();
            stats.pending_objects += waiting.objects;
            stats.pending_bytes += waiting.bytes;
        }
        stats
    }
}
