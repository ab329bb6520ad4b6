//! What a queue counts.

use std::fmt;
use std::time::Duration;

/// Counts of one [`DropQueue`](super::DropQueue) over all threads; exact when nothing runs.
///
/// Then `queued == dropped + waiting`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Items accepted.
    pub queued: u64,
    /// Items whose handler has returned or unwound.
    pub dropped: u64,
    /// Calls of the handler.
    pub batches: u64,
    /// Items pushed and not yet handed to the handler.
    pub waiting: u64,
    /// How often a push met its thread's limit.
    pub limit_hits: u64,
    /// Age of the oldest item that waits.
    pub oldest_age: Option<Duration>,
    /// Panics of the handler, of items and of the hook.
    pub panics: u64,
}

impl fmt::Display for QueueStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "queued {} dropped {} batches {} waiting {} limit-hits {} panics {} oldest ",
            self.queued, self.dropped, self.batches, self.waiting, self.limit_hits, self.panics
        )?;
        match self.oldest_age {
            Some(age) => write!(f, "{age:?}"),
            None => f.write_str("-"),
        }
    }
}
