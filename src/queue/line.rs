//! The buffers of one thread that are ready to be handled.
//!
//! # Protocol
//!
//! Full buffers go through the [`Ring`]. What [`DropQueue::drain`](super::DropQueue::drain) leaves of a buffer that was
//! larger than it may handle is *rest*: older than the ring, and popped first. A drain pops, splits and puts back under
//! the rest's lock. Who must find everything pops under that lock as well; a push or the worker doesn't wait for it.

use std::collections::VecDeque;

use crate::sync::{AtomicBool, Mutex, MutexGuard, Relaxed};

use super::buffer::Buffer;
use super::ring::Ring;

/// One thread's line.
pub(super) struct Line<T> {
    pub(super) ring: Ring<T>,
    rest: Mutex<VecDeque<Box<Buffer<T>>>>,
    has_rest: AtomicBool,
}

impl<T> Line<T> {
    pub(super) fn new(places: usize) -> Self {
        Self {
            ring: Ring::new(places),
            rest: Mutex::new(VecDeque::new()),
            has_rest: AtomicBool::new(false),
        }
    }

    /// Takes the oldest buffer that nobody is busy with.
    pub(super) fn pop(&self) -> Option<Box<Buffer<T>>> {
        let rest = self.has_rest().then(|| self.rest.try_lock()).flatten();
        let popped = rest.and_then(|mut rest| self.pop_rest(&mut rest));
        popped.or_else(|| self.ring.pop())
    }

    /// Waits for whoever is splitting a buffer, and keeps others from it.
    pub(super) fn settle(&self) -> Settled<'_, T> {
        let rest = self.rest.lock();
        Settled { line: self, rest }
    }

    fn pop_rest(&self, rest: &mut VecDeque<Box<Buffer<T>>>) -> Option<Box<Buffer<T>>> {
        let popped = rest.pop_front();
        if rest.is_empty() && self.has_rest() {
            // Relaxed: a hint for those who don't lock.
            self.has_rest.store(false, Relaxed);
        }
        popped
    }

    fn has_rest(&self) -> bool {
        // Relaxed: a hint.
        self.has_rest.load(Relaxed)
    }

    /// Whether there is something to pop. A hint.
    pub(super) fn is_ready(&self) -> bool {
        self.has_rest() || self.ring.oldest().is_some()
    }

    /// When the first item of the oldest buffer came. A hint.
    pub(super) fn oldest(&self) -> Option<u64> {
        let rest = self.rest.lock().front().map(|buffer| buffer.since);
        rest.or_else(|| self.ring.oldest())
    }
}

impl<T> Settled<'_, T> {
    /// Number of items in the line.
    ///
    /// # Safety
    ///
    /// 1. No other thread uses the line.
    pub(super) unsafe fn items(&self) -> u64 {
        let rest = self.rest.iter().map(|buffer| buffer.count()).sum::<u64>();
        // SAFETY: (1).
        rest + unsafe { self.line.ring.items() }
    }
}

/// A line in which nobody is splitting a buffer.
pub(super) struct Settled<'a, T> {
    line: &'a Line<T>,
    rest: MutexGuard<'a, VecDeque<Box<Buffer<T>>>>,
}

impl<T> Settled<'_, T> {
    /// Takes the oldest buffer, or the first `at_most` items of it.
    pub(super) fn pop(&mut self, at_most: u64) -> Option<Box<Buffer<T>>> {
        let popped = self.line.pop_rest(&mut self.rest);
        let popped = popped.or_else(|| self.line.ring.pop())?;
        Some(self.part(popped, at_most))
    }

    /// Splits off the first `at_most` items of a buffer that is older than the line, which keeps the others.
    pub(super) fn part(&mut self, mut buffer: Box<Buffer<T>>, at_most: u64) -> Box<Buffer<T>> {
        if buffer.count() <= at_most {
            return buffer;
        }
        let part = buffer.split(at_most);
        self.rest.push_front(buffer);
        // Relaxed: a hint for those who don't lock.
        self.line.has_rest.store(true, Relaxed);
        part
    }
}
