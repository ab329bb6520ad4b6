//! What a handler gets.

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;

use crate::sync::panicking;
use crate::thread::Panics;

/// The items of one call of a [`DropQueue`](super::DropQueue)'s handler, oldest first: an iterator over owned items.
///
/// What the handler leaves is dropped, item by item: where the batch is dropped, or when a panicking handler has
/// unwound. A destructor that panics doesn't keep the others from being dropped.
pub struct Batch<'a, T> {
    items: &'a mut VecDeque<T>,
    panics: &'a Panics,
}

impl<'a, T> Batch<'a, T> {
    pub(super) fn new(items: &'a mut VecDeque<T>, panics: &'a Panics) -> Self {
        // Buffers are filled from empty, so this moves nothing.
        items.make_contiguous();
        Self { items, panics }
    }

    /// Returns what is left of the batch.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        self.items.as_slices().0
    }

    /// Drops what is left of the batch, each item on its own.
    pub(super) fn drop_rest(&mut self) {
        while let Some(item) = self.items.pop_front() {
            self.panics.catch(|| drop(item));
        }
        // Back to the start of the buffer, so that the next batch is contiguous, too.
        self.items.clear();
    }
}

impl<T> Iterator for Batch<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.items.len(), Some(self.items.len()))
    }
}

impl<T> DoubleEndedIterator for Batch<'_, T> {
    #[inline]
    fn next_back(&mut self) -> Option<T> {
        self.items.pop_back()
    }
}

impl<T> ExactSizeIterator for Batch<'_, T> {}

impl<T> FusedIterator for Batch<'_, T> {}

impl<T> Drop for Batch<'_, T> {
    fn drop(&mut self) {
        // While unwinding, whoever called the handler drops the rest.
        if !panicking() {
            self.drop_rest();
        }
    }
}

impl<T> fmt::Debug for Batch<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("len", &self.items.len())
            .finish_non_exhaustive()
    }
}
