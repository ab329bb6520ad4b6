//! Empty buffers that a thread keeps for its next batches.
//!
//! Any thread gives back, the owner takes.
//!
//! # Orderings
//!
//! - O74: giving a spare back (Release) -> taking it (Acquire): its items have been moved out.

use std::ptr;

use crate::sync::{AtomicPtr, Relaxed, edge};
use crate::tuning::QUEUE_SPARES;

use super::buffer::Buffer;

/// A few places, each null or a box.
pub(super) struct Spares<T>([AtomicPtr<Buffer<T>>; QUEUE_SPARES]);

impl<T> Spares<T> {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())))
    }

    /// Takes a buffer with room for a batch, or makes one.
    pub(super) fn take(&self, batch: usize) -> Box<Buffer<T>> {
        for slot in &self.0 {
            // Relaxed: only a hint; the swap takes.
            if slot.load(Relaxed).is_null() {
                continue;
            }
            // Acquire: pairs with the Release in give (O74).
            let buffer = slot.swap(ptr::null_mut(), edge!(O74, Acquire));
            if !buffer.is_null() {
                // SAFETY: it came from a box in give, and the swap took it from everybody else.
                let mut buffer = unsafe { Box::from_raw(buffer) };
                buffer.trace();
                return buffer;
            }
        }
        Buffer::new(batch)
    }

    /// Keeps an empty buffer, if it has room for a batch and a place is free.
    pub(super) fn give(&self, mut buffer: Box<Buffer<T>>, batch: usize) {
        buffer.trace();
        if buffer.items.capacity() < batch {
            return;
        }
        let buffer = Box::into_raw(buffer);
        for slot in &self.0 {
            // Release: pairs with the Acquire in take (O74).
            // Relaxed on failure: nothing is read.
            if slot
                .compare_exchange(ptr::null_mut(), buffer, edge!(O74, Release), Relaxed)
                .is_ok()
            {
                return;
            }
        }
        // SAFETY: it came from the box above, and no slot took it.
        drop(unsafe { Box::from_raw(buffer) });
    }

    /// Number of places taken.
    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> usize {
        // Relaxed: the test's own thread.
        let taken = self.0.iter().filter(|slot| !slot.load(Relaxed).is_null());
        taken.count()
    }
}

impl<T> Drop for Spares<T> {
    fn drop(&mut self) {
        for slot in &self.0 {
            // Relaxed: `&mut self` excludes everybody else.
            let buffer = slot.load(Relaxed);
            if !buffer.is_null() {
                // SAFETY: it came from a box in give.
                drop(unsafe { Box::from_raw(buffer) });
            }
        }
    }
}
