//! Magazines of dead slots that wait for a grace period: one cookie for each.
//!
//! # Invariants
//!
//! - I1: a magazine's cookie was taken after the death of every slot in it; it stands in the first slot's stamp, beside
//!   the first slot of the next magazine.
//! - I2: a dead slot still holds its value.
//!
//! # Orderings
//!
//! - O46: [`Arrivals::push`] (Release compare-exchange) -> [`Arrivals::take`] and [`Arrivals::close`] (Acquire): stamps,
//!   links and deaths.

use std::fmt;
use std::ptr::{self, NonNull};

use crate::reclaim::ReadSection;
use crate::sync::{AtomicPtr, Relaxed, edge};

use super::chain::{List, closed};
use super::policy::{Part, Policy};
use super::slot::{Slot, SlotPtr};

/// Dead slots of one cookie.
pub(super) struct Dead<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    pub(super) slots: List<S, V, P, D>,
    pub(super) cookie: u64,
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Dead<S, V, P, D> {
    pub(super) const NONE: Self = Self {
        slots: List::EMPTY,
        cookie: 0,
    };

    /// Takes everything out.
    pub(super) const fn take(&mut self) -> Self {
        Self {
            slots: self.slots.take_all(),
            cookie: self.cookie,
        }
    }
}

/// Magazines that arrived since somebody looked: anybody pushes.
pub(super) struct Arrivals<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    head: AtomicPtr<Slot<S, V, P, D>>,
}

/// Magazines in the order of their arrival: under the depot's lock.
pub(super) struct Queue<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    head: *mut Slot<S, V, P, D>,
    tail: *mut Slot<S, V, P, D>,
}

// SAFETY: whoever has the queue has its slots, and what they hold is `Send`.
unsafe impl<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> Send
    for Queue<S, V, P, D>
{
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Arrivals<S, V, P, D> {
    pub(super) fn new() -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Adds a magazine; hands it back if the slab has closed.
    pub(super) fn push(&self, dead: Dead<S, V, P, D>) -> Result<(), Dead<S, V, P, D>> {
        let Some(first) = dead.slots.first() else {
            return Ok(());
        };
        // Relaxed: the head is compared and linked to, never followed here.
        let mut head = self.head.load(Relaxed);
        loop {
            if head == closed() {
                return Err(dead);
            }
            // SAFETY: `dead` owns its slots.
            unsafe { Slot::set_stamp(first, dead.cookie, head) };
            // Release: pairs with the Acquire in take and close (O46); the magazines below were released by their own
            // pushes, whose release sequences this read-modify-write continues.
            // Relaxed on failure: as above.
            match self.head.compare_exchange_weak(
                head,
                first.as_ptr(),
                edge!(O46, Release),
                Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(now) => head = now,
            }
        }
    }

    fn take(&self) -> *mut Slot<S, V, P, D> {
        // Relaxed: only a hint, so that nothing costs no read-modify-write.
        let seen = self.head.load(Relaxed);
        if seen.is_null() || seen == closed() {
            return ptr::null_mut();
        }
        // Acquire: pairs with the Release in push (O46).
        self.head.swap(ptr::null_mut(), edge!(O46, Acquire))
    }

    fn close(&self) -> *mut Slot<S, V, P, D> {
        // Acquire: pairs with the Release in push (O46). Release isn't needed: a closed head says nothing.
        let head = self.head.swap(closed(), edge!(O46, Acquire));
        if head == closed() {
            return ptr::null_mut();
        }
        head
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Queue<S, V, P, D> {
    pub(super) const EMPTY: Self = Self {
        head: ptr::null_mut(),
        tail: ptr::null_mut(),
    };

    pub(super) const fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// Adds a magazine at the end.
    pub(super) fn push(&mut self, dead: Dead<S, V, P, D>) {
        let Some(first) = dead.slots.first() else {
            return;
        };
        // SAFETY: `dead` owns its slots.
        unsafe { Slot::set_stamp(first, dead.cookie, ptr::null_mut()) };
        match NonNull::new(self.tail).filter(|_| !self.head.is_null()) {
            None => self.head = first.as_ptr(),
            Some(tail) => {
                // SAFETY: the queue owns its slots.
                let (cookie, _) = unsafe { Slot::stamp(tail) };
                // SAFETY: as above.
                unsafe { Slot::set_stamp(tail, cookie, first.as_ptr()) };
            }
        }
        self.tail = first.as_ptr();
    }

    /// Puts a magazine back to where it came from, the front.
    pub(super) fn push_front(&mut self, dead: Dead<S, V, P, D>) {
        let Some(first) = dead.slots.first() else {
            return;
        };
        // SAFETY: `dead` owns its slots.
        unsafe { Slot::set_stamp(first, dead.cookie, self.head) };
        if self.head.is_null() {
            self.tail = first.as_ptr();
        }
        self.head = first.as_ptr();
    }

    /// Takes the oldest magazine.
    pub(super) fn pop(&mut self) -> Option<Dead<S, V, P, D>> {
        let (first, cookie) = self.oldest()?;
        // SAFETY: the queue owns its slots.
        self.head = unsafe { Slot::stamp(first) }.1;
        // SAFETY: a magazine's slots are its own list, and leave the queue here.
        let slots = unsafe { List::from_head(first.as_ptr()) };
        Some(Dead { slots, cookie })
    }

    /// Takes the oldest magazine if its grace period has elapsed.
    pub(super) fn pop_elapsed(&mut self, inner: &D::Inner) -> Option<Dead<S, V, P, D>> {
        let (_, cookie) = self.oldest()?;
        P::has_elapsed(inner, cookie).then(|| self.pop())?
    }

    /// Takes every magazine whose grace period has elapsed.
    pub(super) fn take_elapsed(&mut self, inner: &D::Inner) -> Self {
        let (mut elapsed, mut left) = (Self::EMPTY, Self::EMPTY);
        while let Some(dead) = self.pop() {
            if P::has_elapsed(inner, dead.cookie) {
                elapsed.push(dead);
            } else {
                left.push(dead);
            }
        }
        *self = left;
        elapsed
    }

    /// Takes in what has arrived, oldest first.
    pub(super) fn receive(&mut self, arrivals: &Arrivals<S, V, P, D>) {
        self.receive_from(arrivals.take());
    }

    /// Takes in what has arrived, for good.
    pub(super) fn receive_last(&mut self, arrivals: &Arrivals<S, V, P, D>) {
        self.receive_from(arrivals.close());
    }

    fn receive_from(&mut self, head: *mut Slot<S, V, P, D>) {
        // Newest first, as it comes from the stack.
        let mut newest = Self { head, tail: head };
        let mut oldest = Self::EMPTY;
        while let Some(dead) = newest.pop() {
            oldest.push_front(dead);
        }
        let Some((first, _)) = oldest.oldest() else {
            return;
        };
        match NonNull::new(self.tail).filter(|_| !self.head.is_null()) {
            None => self.head = first.as_ptr(),
            Some(tail) => {
                // SAFETY: the queue owns its slots.
                let (cookie, _) = unsafe { Slot::stamp(tail) };
                // SAFETY: as above.
                unsafe { Slot::set_stamp(tail, cookie, first.as_ptr()) };
            }
        }
        self.tail = oldest.tail;
    }

    fn oldest(&self) -> Option<(SlotPtr<S, V, P, D>, u64)> {
        let first = NonNull::new(self.head)?;
        // SAFETY: the queue owns its slots.
        Some((first, unsafe { Slot::stamp(first) }.0))
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> fmt::Debug for Dead<S, V, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dead").finish_non_exhaustive()
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> fmt::Debug for Arrivals<S, V, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrivals").finish_non_exhaustive()
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> fmt::Debug for Queue<S, V, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}
