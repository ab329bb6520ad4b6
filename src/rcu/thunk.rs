//! What to do once, later, with something retired: give memory back, or call a destructor with up to three words of state
//! without an allocation.
//!
//! Memory whose type has no destructor is told apart, as the kernel tells `kfree_rcu` from `call_rcu`: giving it back runs
//! nobody's code, so it needs neither a frame nor a net for panics.
//!
//! # Layout
//!
//! A head, and one to four words, of which a batch stores only those that are used.
//!
//! | bits of the head | |
//! |---|---|
//! | 0..3 | words after the head |
//! | 3 | set: memory to give back. The one word is its address |
//! | 4..10 | the memory's alignment, as a power of two |
//! | 10..64 | bytes that the thunk stands for; the memory's size |
//!
//! # Invariants
//!
//! - I1: without bit 3 the first word is a `Call`, and the others hold the value that it reads out and consumes. A thunk is
//!   run at most once, since running consumes it; a thunk that is never run leaks its value.

use std::alloc::{self, Layout};
use std::mem::{self, MaybeUninit};
use std::ptr::NonNull;

use static_assertions::const_assert;

/// Keeps the provenance of any pointer stored in it.
pub(crate) type Word = MaybeUninit<u64>;

/// Words of a thunk at most, the head included.
pub(crate) const THUNK_WORDS: usize = 5;

/// Words of a thunk for plain memory, the least that there are.
pub(crate) const PLAIN_WORDS: usize = 2;

/// State that needs no allocation.
type Data = [Word; 3];

type Call = unsafe fn(*mut Data);

const_assert!(size_of::<Call>() <= size_of::<Word>() && align_of::<Call>() <= align_of::<Word>());

/// A deferred call, or memory to give back.
#[repr(C)]
pub(crate) struct Thunk {
    head: Head,
    first: Word,
    data: Data,
}

#[derive(Clone, Copy)]
struct Head(u64);

impl Head {
    const WORDS: u64 = 7;
    const PLAIN: u64 = 1 << 3;
    const ALIGN_SHIFT: u32 = 4;
    const ALIGN: u64 = 63;
    const BYTES_SHIFT: u32 = 10;
    const BYTES_MAX: u64 = u64::MAX >> Self::BYTES_SHIFT;

    #[inline]
    const fn call(words: usize, bytes: usize) -> Self {
        let bytes = if bytes as u64 > Self::BYTES_MAX {
            Self::BYTES_MAX
        } else {
            bytes as u64
        };
        Self(words as u64 | (bytes << Self::BYTES_SHIFT))
    }

    #[inline]
    const fn plain(layout: Layout) -> Self {
        let align = layout.align().trailing_zeros() as u64;
        // Leaves the upper bits free: it is the size of something allocated.
        let size = layout.size() as u64;
        Self(1 | Self::PLAIN | (align << Self::ALIGN_SHIFT) | (size << Self::BYTES_SHIFT))
    }

    #[inline]
    const fn words(self) -> usize {
        (self.0 & Self::WORDS) as usize
    }

    #[inline]
    const fn is_plain(self) -> bool {
        self.0 & Self::PLAIN != 0
    }

    #[inline]
    const fn bytes(self) -> usize {
        (self.0 >> Self::BYTES_SHIFT) as usize
    }

    #[inline]
    const fn align(self) -> usize {
        1 << ((self.0 >> Self::ALIGN_SHIFT) & Self::ALIGN)
    }
}

impl std::fmt::Debug for Thunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thunk")
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

// SAFETY: `new` takes only closures that may be called on any thread.
unsafe impl Send for Thunk {}

impl Thunk {
    /// Wraps a closure that stands for `bytes` of memory.
    ///
    /// # Safety
    ///
    /// 1. `f` may be called later, on any thread.
    #[inline]
    pub(crate) unsafe fn new<F: FnOnce()>(f: F, bytes: usize) -> Self {
        let fits = size_of::<F>() <= size_of::<Data>() && align_of::<F>() <= align_of::<Data>();
        let mut data = [Word::uninit(); 3];
        let to = &raw mut data;
        let (call, used): (Call, usize) = if fits {
            // SAFETY: just checked to fit in size and alignment.
            unsafe { to.cast::<F>().write(f) };
            (call_inline::<F>, size_of::<F>().div_ceil(size_of::<Word>()))
        } else {
            let boxed = Box::into_raw(Box::new(f));
            // SAFETY: one word fits.
            unsafe { to.cast::<*mut F>().write(boxed) };
            (call_boxed::<F>, 1)
        };
        let mut first = Word::uninit();
        // SAFETY: a word has room for a function's address.
        unsafe { first.as_mut_ptr().cast::<Call>().write(call) };
        let head = Head::call(1 + used, bytes);
        Self { head, first, data }
    }

    /// Wraps a box whose owner is gone for good.
    ///
    /// # Safety
    ///
    /// 1. `ptr` came from a `Box` and is this thunk's alone to drop.
    /// 2. That may happen later, on any thread.
    #[inline]
    pub(crate) unsafe fn drop_box<T: ?Sized>(ptr: NonNull<T>) -> Self {
        // SAFETY: (1), the value is alive until the thunk runs, and only its size is read.
        let layout = Layout::for_value(unsafe { ptr.as_ref() });
        if !mem::needs_drop::<T>() {
            let mut first = Word::uninit();
            // SAFETY: a word has room for an address.
            unsafe {
                first
                    .as_mut_ptr()
                    .cast::<*mut u8>()
                    .write(ptr.as_ptr().cast())
            };
            return Self {
                head: Head::plain(layout),
                first,
                data: [Word::uninit(); 3],
            };
        }
        let owned = Owned(ptr);
        let drop_it = move || {
            let Owned(ptr) = { owned };
            // SAFETY: (1).
            drop(unsafe { Box::from_raw(ptr.as_ptr()) });
        };
        // SAFETY: (2).
        unsafe { Self::new(drop_it, layout.size()) }
    }

    /// Size that the thunk stands for, in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.head.bytes()
    }

    /// Whether running it runs nobody's code and can't unwind.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.head.is_plain()
    }

    /// Writes the words that are used, and returns how many.
    ///
    /// # Safety
    ///
    /// 1. `to` has room for [`THUNK_WORDS`].
    #[inline]
    pub(crate) unsafe fn store(self, to: *mut Word) -> usize {
        let words = self.head.words();
        // SAFETY: (1).
        unsafe { to.cast::<Head>().write(self.head) };
        // SAFETY: (1).
        let to = unsafe { to.add(1) };
        // SAFETY: (1).
        unsafe { to.write(self.first) };
        if words > 1 {
            // SAFETY: (1).
            let to = unsafe { to.add(1) };
            // SAFETY: (1). What isn't used may be written all the same.
            unsafe { to.cast::<Data>().write(self.data) };
        }
        1 + words
    }

    /// Reads a thunk back, into its new place. Returns how many words it took.
    ///
    /// # Safety
    ///
    /// 1. [`store`](Self::store) wrote it at `from`, which has [`THUNK_WORDS`], and it is read once.
    #[inline]
    pub(crate) unsafe fn load(from: *const Word, place: &mut MaybeUninit<Self>) -> usize {
        // SAFETY: (1).
        let head = unsafe { from.cast::<Head>().read() };
        // SAFETY: (1).
        let from = unsafe { from.add(1) };
        // SAFETY: (1).
        let first = unsafe { from.read() };
        if head.words() > 1 {
            // SAFETY: (1).
            let from = unsafe { from.add(1) };
            // SAFETY: (1).
            let data = unsafe { from.cast::<Data>().read() };
            place.write(Self { head, first, data });
        } else {
            let data = [Word::uninit(); 3];
            place.write(Self { head, first, data });
        }
        1 + head.words()
    }

    /// Calls the closure, or gives the memory back. May unwind with the closure's panic.
    #[inline]
    pub(crate) fn run(mut self) {
        // SAFETY: `self` is gone afterwards.
        unsafe { Once::new(&mut self) }.run();
    }
}

/// A thunk that is run where it lies.
pub(crate) struct Once<'a>(&'a mut Thunk);

impl<'a> Once<'a> {
    /// # Safety
    ///
    /// 1. The thunk is neither run nor moved by anybody else, before or after.
    #[inline]
    pub(crate) unsafe fn new(thunk: &'a mut Thunk) -> Self {
        Self(thunk)
    }

    /// See [`Thunk::run`].
    #[inline]
    pub(crate) fn run(self) {
        let Thunk { head, first, data } = self.0;
        if !head.is_plain() {
            // SAFETY: by I1.
            let call = unsafe { first.as_ptr().cast::<Call>().read() };
            // SAFETY: by I1 the value is there, and by `new` (1) this is the only time.
            return unsafe { call(data) };
        }
        self.free();
    }

    /// Gives the memory of a [plain](Thunk::is_plain) thunk back.
    #[inline]
    pub(crate) fn free(self) {
        let Thunk { head, first, .. } = self.0;
        debug_assert!(head.is_plain());
        if head.bytes() != 0 {
            // SAFETY: `drop_box` wrote it.
            let ptr = unsafe { first.as_ptr().cast::<*mut u8>().read() };
            // SAFETY: these are a layout's.
            let layout = unsafe { Layout::from_size_align_unchecked(head.bytes(), head.align()) };
            // SAFETY: it came from a box of this layout, which is this thunk's alone.
            unsafe { alloc::dealloc(ptr, layout) };
        }
    }
}

/// The pointer of [`Thunk::drop_box`]; not `NonNull` itself, so that closures capture the whole.
struct Owned<T: ?Sized>(NonNull<T>);

unsafe fn call_inline<F: FnOnce()>(data: *mut Data) {
    // SAFETY: `Thunk::new` wrote an `F` there, and the thunk is consumed.
    let f = unsafe { data.cast::<F>().read() };
    f();
}

unsafe fn call_boxed<F: FnOnce()>(data: *mut Data) {
    // SAFETY: `Thunk::new` wrote a pointer there, and the thunk is consumed.
    let boxed = unsafe { data.cast::<*mut F>().read() };
    // SAFETY: the pointer came from a box.
    let f = unsafe { Box::from_raw(boxed) };
    f();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn small_and_large_closures_run_once() {
        let count = Arc::new(());
        for words in [0, 7] {
            let held = Arc::clone(&count);
            let padding = vec![1_u64; words];
            let array = [words; 9];
            // SAFETY: run on this thread.
            let large = unsafe {
                Thunk::new(
                    move || assert_eq!((held, padding.len()).1, array[8]),
                    array.len(),
                )
            };
            assert_eq!(Arc::strong_count(&count), 2);
            large.run();
            assert_eq!(Arc::strong_count(&count), 1);
        }
        let held = Arc::clone(&count);
        // SAFETY: run on this thread.
        let small = unsafe { Thunk::new(move || drop(held), 0) };
        small.run();
        assert_eq!(Arc::strong_count(&count), 1);
    }

    #[test]
    fn boxes_without_a_destructor_are_plain_memory() {
        fn thunk<T: ?Sized>(value: Box<T>) -> Thunk {
            // SAFETY: from a box, run on this thread.
            unsafe { Thunk::drop_box(NonNull::from(Box::leak(value))) }
        }
        #[repr(align(4096))]
        struct Page([u8; 1]);
        let zeroes: Box<[u64]> = vec![0; 9].into();
        let page = Box::new(Page([7]));
        assert_eq!(page.0, [7]);
        for (plain, bytes) in [
            (thunk(Box::new(())), 0),
            (thunk(Box::new([0_u64; 4])), 32),
            (thunk(zeroes), 72),
            (thunk(page), 4096),
        ] {
            assert!(plain.is_plain());
            assert_eq!(plain.bytes(), bytes);
            plain.run();
        }
        assert!(!thunk(Box::new(String::from("has one"))).is_plain());
    }

    #[test]
    fn two_word_pointers_keep_their_type() {
        let count = Arc::new(());
        let value: Box<dyn std::any::Any> = Box::new((Arc::clone(&count), [0_u8; 32]));
        let ptr = NonNull::new(Box::into_raw(value)).expect("a box is never null");
        // SAFETY: from a box, run on this thread.
        let thunk = unsafe { Thunk::drop_box(ptr) };
        assert_eq!(thunk.bytes(), 40);
        thunk.run();
        assert_eq!(Arc::strong_count(&count), 1);
    }
}
