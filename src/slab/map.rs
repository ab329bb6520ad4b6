//! Aligned memory from the system, and back to it.
//!
//! Pages are mapped and unmapped one by one, so that memory of a slab that has shrunk really returns. Where there is no
//! `mmap` the allocator stands in.

use std::ptr::NonNull;

/// Maps `bytes` bytes of zeroes at a multiple of `bytes`, a power of two.
///
/// `None` if the system has no memory.
pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
    debug_assert!(bytes.is_power_of_two());
    imp::map(bytes)
}

/// Gives a mapping back.
///
/// # Safety
///
/// 1. `base` came from [`map`] with the same number of bytes, and nobody uses the memory any more.
pub(super) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: (1).
    unsafe { imp::unmap(base, bytes) };
}

#[cfg(all(unix, not(miri), not(loom)))]
mod imp {
    use std::ptr::{self, NonNull};

    /// Maps twice as much and cuts off what lies before and behind the aligned part.
    pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
        let whole = bytes.checked_mul(2)?;
        // SAFETY: an anonymous private mapping at an address of the system's choice touches nothing that exists.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                whole,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        let start = start.cast::<u8>();
        let before = start.addr().next_multiple_of(bytes) - start.addr();
        let behind = bytes - before;
        let base = start.wrapping_add(before);
        if before > 0 {
            // SAFETY: the first part of this mapping, which nobody knows of.
            unsafe { unmap_part(start, before) };
        }
        if behind > 0 {
            // SAFETY: the last part of this mapping, likewise.
            unsafe { unmap_part(base.wrapping_add(bytes), behind) };
        }
        NonNull::new(base)
    }

    /// # Safety
    ///
    /// 1. The bytes are mapped, and nobody uses them any more.
    unsafe fn unmap_part(start: *mut u8, bytes: usize) {
        // A failure leaves the part mapped and unused, which is all that can be done about it.
        // SAFETY: (1).
        let _ = unsafe { libc::munmap(start.cast(), bytes) };
    }

    /// # Safety
    ///
    /// 1. As [`super::unmap`].
    pub(super) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        // SAFETY: (1).
        unsafe { unmap_part(base.as_ptr(), bytes) };
    }
}

#[cfg(not(all(unix, not(miri), not(loom))))]
mod imp {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes, bytes).ok()
    }

    pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
        // SAFETY: the layout's size isn't zero, since it is a power of two.
        NonNull::new(unsafe { alloc_zeroed(layout(bytes)?) })
    }

    /// # Safety
    ///
    /// 1. As [`super::unmap`].
    pub(super) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        if let Some(layout) = layout(bytes) {
            // SAFETY: (1): it was allocated with this layout.
            unsafe { dealloc(base.as_ptr(), layout) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn mapping_is_aligned_zeroed_and_writable_to_its_end() {
        for bytes in [64 << 10, 1 << 20, 8 << 20] {
            let base = map(bytes).expect("memory");
            assert_eq!(base.addr().get() % bytes, 0);
            for offset in [0, bytes / 2, bytes - 1] {
                // SAFETY: inside the mapping.
                let byte = unsafe { base.add(offset) };
                // SAFETY: mapped, and this thread's own.
                assert_eq!(unsafe { byte.read() }, 0);
                // SAFETY: as above.
                unsafe { byte.write(1) };
            }
            // SAFETY: mapped above, and not used any more.
            unsafe { unmap(base, bytes) };
        }
    }

    #[test]
    fn more_than_there_is_fails() {
        assert!(map(1 << (usize::BITS - 1)).is_none());
    }
}
