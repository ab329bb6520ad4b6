//! A destructor to call once, later: up to three words of state without an allocation.
//!
//! # Invariants
//!
//! - I1: `data` holds a value that `call` reads out and consumes. A thunk is run at most once, since running takes it by
//!   value; a thunk that is never run leaks its value.

use std::mem::{self, MaybeUninit};
use std::ptr::NonNull;

/// Words that keep the provenance of any pointer stored in them.
type Data = MaybeUninit<[*mut (); 3]>;

/// A deferred call.
pub(crate) struct Thunk {
    call: unsafe fn(*mut Data),
    data: Data,
    bytes: usize,
}

impl std::fmt::Debug for Thunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thunk")
            .field("bytes", &self.bytes)
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
    pub(crate) unsafe fn new<F: FnOnce()>(f: F, bytes: usize) -> Self {
        let fits = size_of::<F>() <= size_of::<Data>() && align_of::<F>() <= align_of::<Data>();
        let mut data = Data::uninit();
        let call = if fits {
            // SAFETY: just checked to fit in size and alignment.
            unsafe { data.as_mut_ptr().cast::<F>().write(f) };
            call_inline::<F>
        } else {
            let boxed = Box::into_raw(Box::new(f));
            // SAFETY: one word fits.
            unsafe { data.as_mut_ptr().cast::<*mut F>().write(boxed) };
            call_boxed::<F>
        };
        Self { call, data, bytes }
    }

    /// Wraps a box whose owner is gone for good.
    ///
    /// # Safety
    ///
    /// 1. `ptr` came from a `Box` and is this thunk's alone to drop.
    /// 2. That may happen later, on any thread.
    pub(crate) unsafe fn drop_box<T: ?Sized>(ptr: NonNull<T>) -> Self {
        // SAFETY: (1), the value is alive until the thunk runs, and only its size is read.
        let bytes = mem::size_of_val(unsafe { ptr.as_ref() });
        let owned = Owned(ptr);
        let drop_it = move || {
            let Owned(ptr) = { owned };
            // SAFETY: (1).
            drop(unsafe { Box::from_raw(ptr.as_ptr()) });
        };
        // SAFETY: (2).
        unsafe { Self::new(drop_it, bytes) }
    }

    /// Size that the thunk stands for, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Calls the closure. May unwind with its panic.
    pub(crate) fn run(mut self) {
        // SAFETY: by I1 the value is there, and `self` is gone afterwards.
        unsafe { (self.call)(&raw mut self.data) };
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
