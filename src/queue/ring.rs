//! A lock-free queue of full buffers with one pusher, which grows.
//!
//! # Protocol
//!
//! - The pusher stores a buffer into the place of index `tail` and advances `tail`; before, and not in an owner's
//!   section, it makes sure that places are free, if need be by moving to a larger array. Arrays that it has left are
//!   kept until the ring goes, since somebody may still be reading them.
//! - Whoever pops reads the place of index `head` and then advances `head`. If that fails, another thread was faster, and
//!   what was read means nothing.
//!
//! `tail` is `2 * index`, plus 1 once the ring is sealed. `head` is an index. Neither wraps: they have 63 bits.
//!
//! # Invariants
//!
//! - I1: the places of indices from `head` to `tail` hold buffers, in the array that was the pusher's when it stored the
//!   last of them and in every later one.
//! - I2: a place is stored to only when `head` has passed the index that it had before.
//!
//! # Orderings
//!
//! - O70: advancing `tail` (Release) -> reading it (Acquire): the buffer, its items and the array that holds it.
//! - O71: sealing is a read-modify-write on `tail`, and so is a push: a push comes before it, and is found, or fails. One
//!   that fails reads nothing else.
//! - O77: advancing `head` (Release) -> reading it (Acquire): whoever finds the place free has its reader behind it, and
//!   whoever finds the ring empty sees the mark of the thread that emptied it.
//! - O78: moving to a larger array (Release) -> reading which it is (Acquire): its contents.
//!
//! Source: the growing array of Chase and Lev, "Dynamic Circular Work-Stealing Deque" (SPAA 2005, section 3), without its
//! owner's end: the pusher pops as everybody does.

use std::ptr;

use crate::sync::{AtomicPtr, AtomicU64, Relaxed, edge};

use super::buffer::Buffer;

/// One place of the ring.
struct Place<T> {
    buffer: AtomicPtr<Buffer<T>>,
    /// When its first item came; a hint.
    since: AtomicU64,
}

/// An array of places, and the one that the pusher left for it.
struct Places<T> {
    all: Box<[Place<T>]>,
    older: *mut Places<T>,
    /// Stands for the rest in models, which can't see into it.
    #[cfg(loom)]
    traced: crate::sync::UnsafeCell<()>,
}

impl<T> Places<T> {
    /// Makes an array of `count` places, a power of two.
    fn new(count: usize, older: *mut Self) -> Box<Self> {
        let place = |_| Place {
            buffer: AtomicPtr::new(ptr::null_mut()),
            since: AtomicU64::new(0),
        };
        Box::new(Self {
            all: (0..count).map(place).collect(),
            older,
            #[cfg(loom)]
            traced: crate::sync::UnsafeCell::new(()),
        })
    }

    fn len(&self) -> u64 {
        self.all.len() as u64
    }

    fn at(&self, index: u64) -> &Place<T> {
        #[cfg(loom)]
        self.traced.with(|_| ());
        // The remainder fits.
        &self.all[(index % self.len()) as usize]
    }
}

/// The queue.
pub(super) struct Ring<T> {
    head: AtomicU64,
    tail: AtomicU64,
    places: AtomicPtr<Places<T>>,
}

impl<T> Ring<T> {
    /// Makes a ring with `count` places, a power of two and at least 2.
    pub(super) fn new(count: usize) -> Self {
        Self {
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            places: AtomicPtr::new(Box::into_raw(Places::new(count, ptr::null_mut()))),
        }
    }

    fn places(&self) -> &Places<T> {
        // Acquire: pairs with the Release in reserve (O78).
        // SAFETY: never null, and arrays live as long as the ring.
        unsafe { &*self.places.load(edge!(O78, Acquire)) }
    }

    /// Makes sure that two buffers can be pushed.
    ///
    /// # Safety
    ///
    /// 1. The caller is the ring's only pusher.
    pub(super) unsafe fn reserve(&self) {
        // Relaxed: the caller's own count.
        let tail = self.tail.load(Relaxed) / 2;
        // Acquire: pairs with the Release in pop (O77); its reader is done with a free place (I2).
        let head = self.head.load(edge!(O77, Acquire));
        // Relaxed: the caller's own store.
        let now = self.places.load(Relaxed);
        // SAFETY: never null, and arrays live as long as the ring.
        let places = unsafe { &*now };
        if tail - head + 2 <= places.len() {
            return;
        }
        let larger = Places::new(places.all.len() * 2, now);
        for index in head..tail {
            let (from, to) = (places.at(index), larger.at(index));
            // Relaxed, four times: published as a whole below (O78); the caller stored what it reads.
            to.buffer.store(from.buffer.load(Relaxed), Relaxed);
            to.since.store(from.since.load(Relaxed), Relaxed);
        }
        // Release: pairs with the Acquire in places (O78).
        self.places
            .store(Box::into_raw(larger), edge!(O78, Release));
    }

    /// Appends a buffer; hands it back if the ring is sealed. Neither allocates nor waits.
    ///
    /// # Safety
    ///
    /// 1. The caller is the ring's only pusher.
    /// 2. It has reserved a place for this buffer.
    pub(super) unsafe fn push(&self, buffer: Box<Buffer<T>>) -> Result<(), Box<Buffer<T>>> {
        // Relaxed: the caller's own count, or the seal, which the compare-exchange below meets for certain.
        let tail = self.tail.load(Relaxed) & !1;
        let place = self.places().at(tail / 2);
        // Relaxed: a hint.
        place.since.store(buffer.since, Relaxed);
        let buffer = Box::into_raw(buffer);
        // Relaxed: published below (O70).
        place.buffer.store(buffer, Relaxed);
        // Release: pairs with the Acquire in pop (O70).
        // Relaxed on failure: nothing is read (O71).
        match self
            .tail
            .compare_exchange(tail, tail + 2, edge!(O70, Release), Relaxed)
        {
            Ok(_) => Ok(()),
            // SAFETY: it came from the box above, and nobody reads a place from `tail` on.
            Err(_) => Err(unsafe { Box::from_raw(buffer) }),
        }
    }

    /// Takes the oldest buffer.
    pub(super) fn pop(&self) -> Option<Box<Buffer<T>>> {
        loop {
            // Acquire: pairs with the Release below (O77).
            let head = self.head.load(edge!(O77, Acquire));
            // Acquire: pairs with the Release in push (O70).
            let tail = self.tail.load(edge!(O70, Acquire)) / 2;
            if head >= tail {
                return None;
            }
            // Relaxed: ordered by the Acquire on `tail`, whose push came later (I1).
            let buffer = self.places().at(head).buffer.load(Relaxed);
            // Release: pairs with the Acquire above and in reserve (O77).
            // Relaxed on failure: the loop looks again.
            let popped = self
                .head
                .compare_exchange(head, head + 1, edge!(O77, Release), Relaxed);
            if popped.is_ok() {
                // SAFETY: it came from a box in push, and by I1 and I2 the place held it until `head` was advanced, which
                // only one thread could do.
                return Some(unsafe { Box::from_raw(buffer) });
            }
        }
    }

    /// Lets nothing more in.
    pub(super) fn seal(&self) {
        // Relaxed: a failing push reads nothing else (O71), and pops read `tail` themselves.
        self.tail.fetch_or(1, Relaxed);
    }

    /// Number of items in all buffers.
    ///
    /// # Safety
    ///
    /// 1. No other thread uses the ring.
    pub(super) unsafe fn items(&self) -> u64 {
        // Relaxed: there is one thread (1).
        let head = self.head.load(Relaxed);
        // Relaxed: as above.
        let tail = self.tail.load(Relaxed) / 2;
        let buffers = (head..tail).map(|index| {
            // Relaxed: as in pop.
            let buffer = self.places().at(index).buffer.load(Relaxed);
            // SAFETY: a box from push (I1), which nobody pops meanwhile (1).
            unsafe { &*buffer }
        });
        buffers.map(Buffer::count).sum()
    }

    /// When the first item of the oldest buffer came. A hint.
    pub(super) fn oldest(&self) -> Option<u64> {
        // Relaxed, three times: a hint. Who must not miss a push makes a fence first (O75).
        let head = self.head.load(Relaxed);
        let tail = self.tail.load(Relaxed) / 2;
        (head < tail).then(|| self.places().at(head).since.load(Relaxed))
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
        // Relaxed: `&mut self` excludes everybody else.
        let mut places = self.places.load(Relaxed);
        while !places.is_null() {
            // SAFETY: it came from a box in new or reserve, is in this list once, and nobody reads it any more.
            let owned = unsafe { Box::from_raw(places) };
            places = owned.older;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn holding(item: u32) -> Box<Buffer<u32>> {
        let mut buffer = Buffer::new(1);
        buffer.items.push_back(item);
        buffer
    }

    fn push(ring: &Ring<u32>, item: u32) -> bool {
        // SAFETY: each test has one pusher, this thread.
        unsafe { ring.reserve() };
        // SAFETY: as above, and a place has just been reserved.
        unsafe { ring.push(holding(item)) }.is_ok()
    }

    fn pop(ring: &Ring<u32>) -> Option<u32> {
        ring.pop().map(|buffer| buffer.items[0])
    }

    #[test]
    fn buffers_come_out_in_order_while_the_ring_grows_and_wraps() {
        let ring = Ring::new(2);
        let (mut pushed, mut popped) = (0, 0);
        for round in 0..40 {
            for _ in 0..round % 7 {
                assert!(push(&ring, pushed));
                pushed += 1;
            }
            for _ in 0..round % 5 {
                if let Some(item) = pop(&ring) {
                    assert_eq!(item, popped);
                    popped += 1;
                }
            }
        }
        while let Some(item) = pop(&ring) {
            assert_eq!(item, popped);
            popped += 1;
        }
        assert_eq!(popped, pushed);
    }

    #[test]
    fn two_buffers_fit_after_places_were_reserved() {
        let ring = Ring::new(2);
        assert!(push(&ring, 0));
        for item in 0..20 {
            // SAFETY: this thread is the one pusher.
            unsafe { ring.reserve() };
            for item in [2 * item + 1, 2 * item + 2] {
                // SAFETY: as above, and two places were reserved.
                assert!(unsafe { ring.push(holding(item)) }.is_ok());
            }
        }
        for item in 0..=40 {
            assert_eq!(pop(&ring), Some(item));
        }
    }

    #[test]
    fn sealed_ring_hands_buffers_back_and_gives_up_what_it_holds() {
        let ring = Ring::new(2);
        assert!(push(&ring, 1));
        ring.seal();
        assert!(!push(&ring, 2));
        ring.seal();
        assert!(!push(&ring, 3));
        assert_eq!(pop(&ring), Some(1));
        assert_eq!(pop(&ring), None);
    }
}
