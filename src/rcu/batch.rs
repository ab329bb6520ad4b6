//! Batches of retired objects: one cookie each, linked into lists without further allocation.
//!
//! # Invariants
//!
//! - I1: of a batch's thunks, those at `taken..len` are there; the others have been run or were never written.
//! - I2: a batch is in one list, or in one hand, at a time.

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use crate::tuning::BATCH;

use super::thunk::Thunk;

/// Up to [`BATCH`] retired objects.
pub(super) struct Batch {
    thunks: [MaybeUninit<Thunk>; BATCH],
    taken: usize,
    len: usize,
    /// Of the thunks that are there; wraps if a user's sizes do.
    bytes: usize,
    /// Taken when the batch is closed.
    pub(super) cookie: u64,
    next: *mut Batch,
}

/// A batch in hand.
#[derive(Debug)]
pub(super) struct Owned(NonNull<Batch>);

// SAFETY: thunks may run on any thread, and the owner has the batch alone (I2).
unsafe impl Send for Owned {}

impl Owned {
    /// Allocates an empty batch. Aborts when memory runs out: retiring never fails.
    pub(super) fn new() -> Self {
        let batch = Box::new(Batch {
            thunks: [const { MaybeUninit::uninit() }; BATCH],
            taken: 0,
            len: 0,
            bytes: 0,
            cookie: 0,
            next: ptr::null_mut(),
        });
        Self(NonNull::from(Box::leak(batch)))
    }

    fn get(&self) -> &Batch {
        // SAFETY: in hand (I2), so nobody else touches it.
        unsafe { self.0.as_ref() }
    }

    fn get_mut(&mut self) -> &mut Batch {
        // SAFETY: in hand (I2), so nobody else touches it.
        unsafe { self.0.as_mut() }
    }

    pub(super) fn len(&self) -> usize {
        let batch = self.get();
        batch.len - batch.taken
    }

    pub(super) fn bytes(&self) -> usize {
        self.get().bytes
    }

    pub(super) fn seal(&mut self, cookie: u64) {
        self.get_mut().cookie = cookie;
    }

    /// Makes a used-up batch an empty one.
    pub(super) fn renew(&mut self) {
        let batch = self.get_mut();
        debug_assert_eq!(batch.taken, batch.len);
        batch.taken = 0;
        batch.len = 0;
    }

    /// Adds a thunk, or hands it back if the batch is full.
    #[inline]
    pub(super) fn push(&mut self, thunk: Thunk) -> Result<(), Thunk> {
        let batch = self.get_mut();
        match batch.thunks.get_mut(batch.len) {
            Some(place) => {
                batch.bytes = batch.bytes.wrapping_add(thunk.bytes());
                place.write(thunk);
                batch.len += 1;
                Ok(())
            }
            None => Err(thunk),
        }
    }

    /// Takes the oldest thunk out.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Thunk> {
        let batch = self.get_mut();
        if batch.taken == batch.len {
            return None;
        }
        let place = &batch.thunks[batch.taken];
        batch.taken += 1;
        // SAFETY: by I1 a thunk is there, and `taken` has just moved past it.
        let thunk = unsafe { place.assume_init_read() };
        batch.bytes = batch.bytes.wrapping_sub(thunk.bytes());
        Some(thunk)
    }

    fn into_raw(self) -> NonNull<Batch> {
        let batch = self.0;
        std::mem::forget(self);
        batch
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        debug_assert_eq!(self.len(), 0, "a batch with objects in it is leaked");
        // SAFETY: allocated as a box in new, and in hand (I2).
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Batches in the order of their closing.
#[derive(Debug)]
pub(super) struct List {
    head: *mut Batch,
    tail: *mut Batch,
    objects: usize,
    bytes: usize,
}

// SAFETY: a list owns its batches, whose thunks may run on any thread.
unsafe impl Send for List {}

impl Default for List {
    fn default() -> Self {
        Self {
            head: ptr::null_mut(),
            tail: ptr::null_mut(),
            objects: 0,
            bytes: 0,
        }
    }
}

impl List {
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// Objects in all batches.
    pub(super) fn objects(&self) -> usize {
        self.objects
    }

    /// Bytes in all batches.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push_back(&mut self, batch: Owned) {
        self.objects += batch.len();
        self.bytes = self.bytes.wrapping_add(batch.bytes());
        let raw = batch.into_raw().as_ptr();
        // SAFETY: just taken out of its owner's hand.
        unsafe { (*raw).next = ptr::null_mut() };
        if self.head.is_null() {
            self.head = raw;
        } else {
            // SAFETY: the tail is in this list, which `&mut self` has alone.
            unsafe { (*self.tail).next = raw };
        }
        self.tail = raw;
    }

    pub(super) fn pop_front(&mut self) -> Option<Owned> {
        let first = Owned(NonNull::new(self.head)?);
        self.head = first.get().next;
        self.objects -= first.len();
        self.bytes = self.bytes.wrapping_sub(first.bytes());
        Some(first)
    }

    /// The cookie of the batch that closed first.
    pub(super) fn first_cookie(&self) -> Option<u64> {
        // SAFETY: the head is null or in this list, which `&self` keeps from changing.
        unsafe { self.head.as_ref() }.map(|batch| batch.cookie)
    }

    /// Takes a thunk out of the first batch, and the batch itself once it is empty.
    pub(super) fn pop_thunk(&mut self) -> (Option<Thunk>, Option<Owned>) {
        let Some(first) = NonNull::new(self.head) else {
            return (None, None);
        };
        let mut first = Owned(first);
        let thunk = first.pop();
        self.objects -= usize::from(thunk.is_some());
        let bytes = thunk.as_ref().map_or(0, Thunk::bytes);
        self.bytes = self.bytes.wrapping_sub(bytes);
        if first.len() == 0 {
            self.head = first.get().next;
            (thunk, Some(first))
        } else {
            let _stays = first.into_raw();
            (thunk, None)
        }
    }

    pub(super) fn append(&mut self, other: &mut Self) {
        if other.is_empty() {
            return;
        }
        if self.is_empty() {
            std::mem::swap(self, other);
            return;
        }
        // SAFETY: the tail is in this list, which `&mut self` has alone.
        unsafe { (*self.tail).next = other.head };
        self.tail = other.tail;
        self.objects += other.objects;
        self.bytes = self.bytes.wrapping_add(other.bytes);
        *other = Self::default();
    }
}
