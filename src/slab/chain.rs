//! Intrusive lists of slots: whoever frees a slot needs no memory for it.
//!
//! A [`Chain`] knows both ends and its length; a [`List`] only its head. Each belongs to one thread at a time. A
//! [`Stack`] is shared: anybody pushes a chain onto it with one compare-exchange, and it is taken as a whole, so there is
//! no ABA.
//!
//! # Invariants
//!
//! - I1: a list owns its slots (`slot` I3): each is in one list, once, and its page stays mapped.
//! - I2: links lead from the head to the tail, whose link is null.
//!
//! # Orderings
//!
//! - O45: [`Stack::push`] (Release compare-exchange) -> [`Stack::take`] and [`Stack::close`] (Acquire): the slots' links,
//!   and everything that happened to them.

use std::fmt;
use std::ptr::{self, NonNull};

use crate::reclaim::ReadSection;
use crate::sync::{AtomicPtr, Relaxed, edge};

use super::policy::{Part, Policy};
use super::slot::{Slot, SlotPtr};

/// Slots with a known number and two known ends.
pub(super) struct Chain<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    list: List<S, V, P, D>,
    tail: *mut Slot<S, V, P, D>,
    len: usize,
}

/// Slots one after the other.
pub(super) struct List<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    head: *mut Slot<S, V, P, D>,
}

// SAFETY: by I1 whoever has the chain has its slots, and what they hold is `Send`.
unsafe impl<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> Send
    for Chain<S, V, P, D>
{
}
// SAFETY: as for `Chain`.
unsafe impl<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> Send
    for List<S, V, P, D>
{
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Chain<S, V, P, D> {
    pub(super) const EMPTY: Self = Self {
        list: List::EMPTY,
        tail: ptr::null_mut(),
        len: 0,
    };

    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes everything out.
    pub(super) const fn take_all(&mut self) -> Self {
        std::mem::replace(self, Self::EMPTY)
    }

    /// Adds a slot at the head.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot, and gives it to the chain (I1).
    #[inline]
    pub(super) unsafe fn push(&mut self, slot: SlotPtr<S, V, P, D>) {
        // SAFETY: (1).
        unsafe { Slot::set_link(slot, self.list.head) };
        self.list.head = slot.as_ptr();
        if self.len == 0 {
            self.tail = self.list.head;
        }
        self.len += 1;
    }

    /// Takes the slot at the head; the caller owns it.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<SlotPtr<S, V, P, D>> {
        let slot = self.list.pop()?;
        self.len -= 1;
        Some(slot)
    }

    /// Adds another chain behind the tail.
    pub(super) fn append(&mut self, behind: Self) {
        let Some(tail) = NonNull::new(self.tail).filter(|_| !self.is_empty()) else {
            *self = behind;
            return;
        };
        if !behind.is_empty() {
            // SAFETY: I1.
            unsafe { Slot::set_link(tail, behind.list.head) };
            self.tail = behind.tail;
            self.len += behind.len;
        }
    }

    /// Forgets length and tail.
    pub(super) fn into_list(self) -> List<S, V, P, D> {
        self.list
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> List<S, V, P, D> {
    pub(super) const EMPTY: Self = Self {
        head: ptr::null_mut(),
    };

    /// The list that begins with `head`.
    ///
    /// # Safety
    ///
    /// 1. I1 and I2 hold for what `head` leads to, or it is null.
    pub(super) const unsafe fn from_head(head: *mut Slot<S, V, P, D>) -> Self {
        Self { head }
    }

    /// Number of slots. Walks over all of them.
    pub(super) fn length(&self) -> usize {
        let mut length = 0;
        let mut next = self.first();
        while let Some(slot) = next {
            length += 1;
            // SAFETY: I1.
            next = NonNull::new(unsafe { Slot::link(slot) });
        }
        length
    }

    /// The slot at the head, which stays in the list.
    pub(super) fn first(&self) -> Option<SlotPtr<S, V, P, D>> {
        NonNull::new(self.head)
    }

    /// Takes everything out.
    pub(super) const fn take_all(&mut self) -> Self {
        std::mem::replace(self, Self::EMPTY)
    }

    /// Takes the slot at the head; the caller owns it.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<SlotPtr<S, V, P, D>> {
        let slot = NonNull::new(self.head)?;
        // SAFETY: I1.
        self.head = unsafe { Slot::link(slot) };
        Some(slot)
    }

    /// Puts a chain before the head.
    pub(super) fn put(&mut self, front: Chain<S, V, P, D>) {
        if let Some(tail) = NonNull::new(front.tail).filter(|_| !front.is_empty()) {
            // SAFETY: I1 of `front`.
            unsafe { Slot::set_link(tail, self.head) };
            self.head = front.list.head;
        }
    }

    /// Cuts at most `n` slots off the head.
    pub(super) fn cut(&mut self, n: usize) -> Chain<S, V, P, D> {
        let mut tail = None;
        let mut next = self.head;
        let mut len = 0;
        while len < n
            && let Some(slot) = NonNull::new(next)
        {
            tail = Some(slot);
            len += 1;
            // SAFETY: I1.
            next = unsafe { Slot::link(slot) };
        }
        let Some(tail) = tail else {
            return Chain::EMPTY;
        };
        // SAFETY: I1. Restores I2 for what is cut off.
        unsafe { Slot::set_link(tail, ptr::null_mut()) };
        let list = Self {
            head: std::mem::replace(&mut self.head, next),
        };
        Chain {
            list,
            tail: tail.as_ptr(),
            len,
        }
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Iterator for List<S, V, P, D> {
    type Item = SlotPtr<S, V, P, D>;

    /// Pops.
    fn next(&mut self) -> Option<Self::Item> {
        self.pop()
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> fmt::Debug for Chain<S, V, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> fmt::Debug for List<S, V, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List").finish_non_exhaustive()
    }
}

/// Slots that anybody adds to.
pub(super) struct Stack<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    /// Null, a slot, or [`closed`].
    head: AtomicPtr<Slot<S, V, P, D>>,
}

/// An address that no slot has: nothing is pushed any more.
pub(super) const fn closed<T>() -> *mut T {
    ptr::without_provenance_mut(1)
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Stack<S, V, P, D> {
    pub(super) fn new() -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Adds a chain; hands it back if the stack is closed.
    pub(super) fn push(&self, chain: Chain<S, V, P, D>) -> Result<(), Chain<S, V, P, D>> {
        let Some(tail) = NonNull::new(chain.tail).filter(|_| !chain.is_empty()) else {
            return Ok(());
        };
        // Relaxed: the head is compared and linked to, never followed here.
        let mut head = self.head.load(Relaxed);
        loop {
            if head == closed() {
                // SAFETY: I1 of `chain`; restores its I2.
                unsafe { Slot::set_link(tail, ptr::null_mut()) };
                return Err(chain);
            }
            // SAFETY: I1 of `chain`.
            unsafe { Slot::set_link(tail, head) };
            // Release: pairs with the Acquire in take and close (O45). The slots below were released by their own
            // pushes, whose release sequences this read-modify-write continues.
            // Relaxed on failure: as above.
            match self.head.compare_exchange_weak(
                head,
                chain.list.head,
                edge!(O45, Release),
                Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(now) => head = now,
            }
        }
    }

    /// Takes everything out.
    pub(super) fn take(&self) -> List<S, V, P, D> {
        // Relaxed: only a hint, so that an empty stack costs no read-modify-write.
        let seen = self.head.load(Relaxed);
        if seen.is_null() || seen == closed() {
            return List::EMPTY;
        }
        // Acquire: pairs with the Release in push (O45). Release isn't needed: null says nothing.
        let head = self.head.swap(ptr::null_mut(), edge!(O45, Acquire));
        List { head }
    }

    /// Takes everything out, for good.
    pub(super) fn close(&self) -> List<S, V, P, D> {
        // Acquire: pairs with the Release in push (O45). Release isn't needed: a closed head says nothing.
        let head = self.head.swap(closed(), edge!(O45, Acquire));
        if head == closed() {
            return List::EMPTY;
        }
        List { head }
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> fmt::Debug for Stack<S, V, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").finish_non_exhaustive()
    }
}
