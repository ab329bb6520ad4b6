//! A buffer that holds one batch.

use std::collections::VecDeque;

/// Items of one thread, on their way to one call of the handler.
pub(super) struct Buffer<T> {
    pub(super) items: VecDeque<T>,
    /// When the first item came.
    pub(super) since: u64,
    /// The push that brings the length here has more to do than to store; 0 if every push has.
    pub(super) stop_at: usize,
    /// Length up to which the limit admits items.
    pub(super) admitted: usize,
    /// Stands for the rest in models, which can't see into it.
    #[cfg(loom)]
    traced: crate::sync::UnsafeCell<()>,
}

impl<T> Buffer<T> {
    pub(super) fn new(capacity: usize) -> Box<Self> {
        Box::new(Self {
            items: VecDeque::with_capacity(capacity),
            since: 0,
            stop_at: 0,
            admitted: 0,
            #[cfg(loom)]
            traced: crate::sync::UnsafeCell::new(()),
        })
    }

    /// Number of items; a batch fits 64 bits.
    pub(super) fn count(&self) -> u64 {
        self.items.len() as u64
    }

    /// Splits the first `count` items off, of which there are more.
    pub(super) fn split(&mut self, count: u64) -> Box<Self> {
        let mut part = Self::new(0);
        part.since = self.since;
        // It fits: smaller than the length.
        part.items = self.items.drain(..count as usize).collect();
        part
    }

    /// Tells a model that the buffer changes here.
    #[inline]
    pub(super) fn trace(&mut self) {
        #[cfg(loom)]
        self.traced.with_mut(|_| ());
    }
}
