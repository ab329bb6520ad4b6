//! What a queue refuses, and why.

use std::error::Error;
use std::fmt;

/// The queue was stopped; here is the value back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rejected<T>(
    /// The value that was to be pushed.
    pub T,
);

impl<T> Rejected<T> {
    /// Returns the value that was to be pushed.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for Rejected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rejected").finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Rejected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue was stopped and accepts no more values")
    }
}

impl<T> Error for Rejected<T> {}

/// Why [`DropQueue::try_push`](super::DropQueue::try_push) refused a value; here it is back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TryPushError<T> {
    /// As many of this thread's values wait as the limit admits.
    Full(T),
    /// The queue was stopped.
    Stopped(T),
}

impl<T> TryPushError<T> {
    /// Returns the value that was to be pushed.
    #[must_use]
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(value) | Self::Stopped(value) => value,
        }
    }
}

impl<T> fmt::Debug for TryPushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Stopped(_) => "Stopped(..)",
        })
    }
}

impl<T> fmt::Display for TryPushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "as many values of this thread wait as the queue's limit admits",
            Self::Stopped(_) => "the queue was stopped and accepts no more values",
        })
    }
}

impl<T> Error for TryPushError<T> {}

/// Why a [`DropQueueBuilder`](super::DropQueueBuilder) can't build a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The batch is zero.
    ZeroBatch,
    /// The limit is zero.
    ZeroLimit,
    /// The batch is larger than the limit, so that it could never be full.
    BatchAboveLimit {
        /// The batch that was asked for.
        batch: usize,
        /// The limit that was asked for.
        limit: usize,
    },
    /// A full batch would be larger than any allocation can be.
    BatchTooLarge {
        /// The batch that was asked for.
        batch: usize,
    },
    /// The delay is zero.
    ZeroDelay,
    /// The name contains a zero byte, which no thread's name may.
    ZeroInName,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroBatch => f.write_str(
                "a batch of 0 items would never be handled: take `batch(1)` or more, or call `push_now` instead of `push`",
            ),
            Self::ZeroLimit => f.write_str(
                "a limit of 0 items admits no push: take a limit of at least the batch",
            ),
            Self::BatchAboveLimit { batch, limit } => write!(
                f,
                "a batch of {batch} items is never full under a limit of {limit}: raise `limit` or lower `batch`"
            ),
            Self::BatchTooLarge { batch } => write!(
                f,
                "no allocation holds a batch of {batch} items: lower `batch`, or box the items"
            ),
            Self::ZeroDelay => f.write_str(
                "a delay of 0 leaves no time to collect a batch: take a longer `max_delay`, or `batch(1)`",
            ),
            Self::ZeroInName => {
                f.write_str("the name contains a zero byte, which no thread's name may: take it out")
            }
        }
    }
}

impl Error for ConfigError {}
