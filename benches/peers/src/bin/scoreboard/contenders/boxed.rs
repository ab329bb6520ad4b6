//! An atomic pointer to a box.

use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// An atomic pointer that owns the box it holds when it goes.
pub struct BoxCell<T>(pub AtomicPtr<T>);

impl<T> BoxCell<T> {
    pub fn new(value: T) -> Self {
        Self(AtomicPtr::new(Box::into_raw(Box::new(value))))
    }
}

impl<T> Drop for BoxCell<T> {
    fn drop(&mut self) {
        // Relaxed: nobody else has the cell any more.
        let last = self.0.load(Relaxed);
        // SAFETY: what the cell holds was never retired, and the cell is ours alone.
        drop(unsafe { Box::from_raw(last) });
    }
}
