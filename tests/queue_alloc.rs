//! The deferred-drop queue allocates nothing per item in the steady state.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use graceperiod::queue::{Batch, Drain, DropQueue};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts each thread's allocations.
struct Counting;

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _counted = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn steady_pushes_allocate_nothing_where_batches_are_handled_inline() {
    for (drain, limit) in [(Drain::Inline, 256), (Drain::Manual, 32)] {
        let queue = DropQueue::builder()
            .drain(drain)
            .limit(limit)
            .handler(|batch: Batch<'_, u64>| drop(batch))
            .build()
            .unwrap();
        (0..1_000).for_each(|i| queue.push(i).unwrap());
        let before = ALLOCATIONS.get();
        (0..10_000).for_each(|i| queue.push(i).unwrap());
        assert_eq!(ALLOCATIONS.get(), before, "{drain:?}");
    }
}

#[test]
fn steady_pushes_allocate_less_than_once_per_batch_where_a_worker_handles_them() {
    let queue = DropQueue::<u64>::new();
    (0..10_000).for_each(|i| queue.push(i).unwrap());
    let before = ALLOCATIONS.get();
    (0..100_000).for_each(|i| queue.push(i).unwrap());
    let allocated = ALLOCATIONS.get() - before;
    assert!(allocated < 100_000 / 32 / 2, "{allocated}");
}
