//! Batches of retired objects: one cookie each, linked into lists without further allocation.
//!
//! # Invariants
//!
//! - I1: behind a batch lie `words` words. Its thunks lie there end to end at `taken..end`; there are `len - gone` of them.
//! - I2: a batch is in one list, or in one hand, at a time.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{self, NonNull};

use crate::tuning::DROP_EVERY;

use super::thunk::{Once, PLAIN_WORDS, THUNK_WORDS, Thunk, Word};

/// Retired objects: as many as it was made for, if all are plain memory, else fewer.
#[repr(C)]
pub(super) struct Batch {
    words: usize,
    taken: usize,
    /// Objects taken out.
    gone: usize,
    end: usize,
    /// The end from which the batch is full; 0 once it holds its share of bytes.
    full_at: usize,
    /// Objects ever put in, those taken out included.
    len: usize,
    /// Of all thunks ever put in, those taken out included; wraps if a user's sizes do.
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

fn layout(words: usize) -> Layout {
    let whole = Layout::array::<Word>(words).and_then(|tail| Layout::new::<Batch>().extend(tail));
    match whole {
        Ok((layout, _)) => layout,
        Err(_) => unreachable!("a batch is small"),
    }
}

impl Owned {
    /// Allocates an empty batch for `objects`. Aborts when memory runs out: retiring never fails.
    pub(super) fn new(objects: usize) -> Self {
        // The longest thunk must fit in the place of the last.
        let words = objects * PLAIN_WORDS + THUNK_WORDS - PLAIN_WORDS;
        let layout = layout(words);
        // SAFETY: not of size zero.
        let memory = unsafe { alloc(layout) };
        #[expect(
            clippy::cast_ptr_alignment,
            reason = "allocated with a batch's alignment"
        )]
        let memory = memory.cast::<Batch>();
        let Some(batch) = NonNull::new(memory) else {
            handle_alloc_error(layout);
        };
        // SAFETY: fresh memory with room for it.
        unsafe {
            batch.write(Batch {
                words,
                taken: 0,
                gone: 0,
                end: 0,
                full_at: words - THUNK_WORDS + 1,
                len: 0,
                bytes: 0,
                cookie: 0,
                next: ptr::null_mut(),
            });
        }
        Self(batch)
    }

    #[inline]
    fn get(&self) -> &Batch {
        // SAFETY: in hand (I2), so nobody else touches it.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn get_mut(&mut self) -> &mut Batch {
        // SAFETY: in hand (I2), so nobody else touches it.
        unsafe { self.0.as_mut() }
    }

    /// The word at `index`, which is at most the number of words.
    #[inline]
    fn word(&mut self, index: usize) -> *mut Word {
        debug_assert!(index <= self.get().words);
        // SAFETY: by I1 the words lie behind the batch.
        let words = unsafe { self.0.as_ptr().add(1) }.cast::<Word>();
        // SAFETY: as above.
        unsafe { words.add(index) }
    }

    pub(super) fn len(&self) -> usize {
        let batch = self.get();
        batch.len - batch.gone
    }

    pub(super) fn bytes(&self) -> usize {
        self.get().bytes
    }

    /// Objects and bytes that have not been taken out. Walks over all of them.
    pub(super) fn left(&mut self) -> (u64, u64) {
        let (mut taken, mut bytes) = (self.get().taken, 0_u64);
        for _ in 0..self.len() {
            let mut place = MaybeUninit::uninit();
            // SAFETY: by I1 a thunk was stored there, with room for the longest. The copy is only looked at: a thunk has no
            // destructor.
            taken += unsafe { Thunk::load(self.word(taken), &mut place) };
            // SAFETY: just loaded.
            let thunk: &Thunk = unsafe { place.assume_init_ref() };
            bytes = bytes.wrapping_add(thunk.bytes() as u64);
        }
        (self.len() as u64, bytes)
    }

    /// How many objects it was made for.
    pub(super) fn size(&self) -> usize {
        (self.get().words - THUNK_WORDS) / PLAIN_WORDS + 1
    }

    pub(super) fn seal(&mut self, cookie: u64) {
        self.get_mut().cookie = cookie;
    }

    /// Makes a used-up batch an empty one.
    pub(super) fn renew(&mut self) {
        let batch = self.get_mut();
        debug_assert_eq!(batch.len, batch.gone);
        batch.taken = 0;
        batch.gone = 0;
        batch.end = 0;
        batch.full_at = batch.words - THUNK_WORDS + 1;
        batch.len = 0;
        batch.bytes = 0;
    }

    /// Whether a thunk can be added.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        let batch = self.get();
        batch.end < batch.full_at
    }

    /// Adds a thunk to a batch that [has room](Self::has_room); the batch is full once it holds `most` bytes. Returns the
    /// new length.
    #[inline]
    pub(super) fn push(&mut self, thunk: Thunk, most: usize) -> usize {
        debug_assert!(self.has_room());
        let to = self.word(self.get().end);
        let batch = self.get_mut();
        batch.bytes = batch.bytes.wrapping_add(thunk.bytes());
        if batch.bytes >= most {
            batch.full_at = 0;
        }
        // SAFETY: the batch has room.
        batch.end += unsafe { thunk.store(to) };
        batch.len += 1;
        batch.len
    }

    /// Takes up to `places.len()` of the oldest thunks out, and shows each to `see`; returns how many.
    #[inline]
    fn take(&mut self, places: &mut [MaybeUninit<Thunk>], mut see: impl FnMut(&Thunk)) -> usize {
        let most = places.len().min(self.len());
        let mut taken = self.get().taken;
        for place in &mut places[..most] {
            let from = self.word(taken);
            // SAFETY: by I1 a thunk was stored there, with room for the longest, and `gone` moves past it.
            taken += unsafe { Thunk::load(from, place) };
            // SAFETY: just loaded.
            see(unsafe { place.assume_init_ref() });
        }
        let batch = self.get_mut();
        batch.taken = taken;
        batch.gone += most;
        most
    }

    /// Moves a few thunks into the empty hand; false if there are none.
    pub(super) fn pop_into(&mut self, hand: &mut Hand) -> bool {
        hand.fill(self);
        hand.len() > 0
    }

    /// Takes the oldest thunk out.
    pub(super) fn pop(&mut self) -> Option<Thunk> {
        let mut place = [MaybeUninit::uninit()];
        let taken = self.take(&mut place, |_| ());
        let [thunk] = place;
        // SAFETY: taken out into the place.
        (taken == 1).then(|| unsafe { thunk.assume_init() })
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
        let layout = layout(self.get().words);
        // SAFETY: allocated in new with this layout, and in hand (I2).
        unsafe { dealloc(self.0.as_ptr().cast(), layout) };
    }
}

/// A few thunks in hand, on their way out.
///
/// I3: those at `taken..len` are there.
pub(super) struct Hand {
    thunks: [MaybeUninit<Thunk>; DROP_EVERY],
    taken: usize,
    len: usize,
    bytes: usize,
    plain: bool,
}

impl Hand {
    #[inline]
    pub(super) const fn new() -> Self {
        Self {
            thunks: [const { MaybeUninit::uninit() }; DROP_EVERY],
            taken: 0,
            len: 0,
            bytes: 0,
            plain: true,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len - self.taken
    }

    /// Takes as many thunks as fit out of the batch, if the hand is empty.
    #[inline]
    fn fill(&mut self, batch: &mut Owned) {
        if self.len() == 0 {
            self.taken = 0;
            let (mut bytes, mut plain) = (0_usize, true);
            self.len = batch.take(&mut self.thunks, |thunk| {
                bytes = bytes.wrapping_add(thunk.bytes());
                plain &= thunk.is_plain();
            });
            (self.bytes, self.plain) = (bytes, plain);
        }
    }

    /// Size of all that it was filled with, in bytes.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it holds nothing but memory to give back.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.plain
    }

    /// Gives all its memory back; it must hold nothing else.
    #[inline]
    pub(super) fn free(&mut self) {
        for place in &mut self.thunks[self.taken..self.len] {
            // SAFETY: I3.
            let thunk = unsafe { place.assume_init_mut() };
            // SAFETY: `taken` moves past it below, and giving memory back doesn't unwind.
            unsafe { Once::new(thunk) }.free();
        }
        self.taken = self.len;
    }

    /// The oldest thunk, which the caller runs.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Once<'_>> {
        let place = self.thunks[..self.len].get_mut(self.taken)?;
        self.taken += 1;
        // SAFETY: by I3 a thunk is there.
        let thunk = unsafe { place.assume_init_mut() };
        // SAFETY: `taken` has just moved past it, so it is handed out once.
        Some(unsafe { Once::new(thunk) })
    }
}

/// Batches in the order of their closing.
#[derive(Debug)]
pub(super) struct List {
    head: *mut Batch,
    tail: *mut Batch,
    /// Of whole batches: what has been taken out of one is still counted while it is in the list.
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

    /// Objects in all batches, and those taken out of one that isn't the first (a list that was used in part and then
    /// appended).
    pub(super) fn objects(&self) -> usize {
        // SAFETY: the head is null or in this list, which `&self` keeps from changing.
        self.objects - unsafe { self.head.as_ref() }.map_or(0, |first| first.gone)
    }

    /// Bytes in all batches, those of objects taken out included.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push_back(&mut self, batch: Owned) {
        self.objects += batch.get().len;
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
        self.uncount(&first);
        Some(first)
    }

    /// Objects and bytes that have not been taken out. Walks over all of them.
    pub(super) fn left(&mut self) -> (u64, u64) {
        let (mut objects, mut bytes) = (0, 0_u64);
        let mut next = self.head;
        while let Some(batch) = NonNull::new(next) {
            // In this list, and it stays there.
            let mut batch = ManuallyDrop::new(Owned(batch));
            let (more, their_bytes) = batch.left();
            (objects, bytes) = (objects + more, bytes.wrapping_add(their_bytes));
            next = batch.get().next;
        }
        (objects, bytes)
    }

    /// The cookie of the batch that closed first.
    pub(super) fn first_cookie(&self) -> Option<u64> {
        // SAFETY: the head is null or in this list, which `&self` keeps from changing.
        unsafe { self.head.as_ref() }.map(|batch| batch.cookie)
    }

    fn uncount(&mut self, first: &Owned) {
        self.objects -= first.get().len;
        self.bytes = self.bytes.wrapping_sub(first.bytes());
    }

    /// Moves thunks of the first batch into the empty hand, as many as fit. A batch that is used up comes back.
    #[inline]
    pub(super) fn pop_into(&mut self, hand: &mut Hand) -> Option<Owned> {
        let mut first = Owned(NonNull::new(self.head)?);
        hand.fill(&mut first);
        if first.len() == 0 {
            self.uncount(&first);
            self.head = first.get().next;
            Some(first)
        } else {
            let _stays = first.into_raw();
            None
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
