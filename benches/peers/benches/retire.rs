//! Allocating a box, swapping it in and retiring the old one; every destructor's cost is included as
//! far as the contender runs it meanwhile.

use std::{
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use criterion::Criterion;
use graceperiod::RcuCell;
use graceperiod_peers::{OURS, run};

type Payload = [u64; 4];

fn retire(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("retire");
    group.bench_function(OURS, |b| {
        let cell = RcuCell::<Payload>::new([0; 4]);
        b.iter(|| cell.replace([1; 4]));
    });
    group.bench_function("crossbeam-epoch", |b| {
        let cell = crossbeam_epoch::Atomic::<Payload>::new([0; 4]);
        b.iter(|| {
            let guard = crossbeam_epoch::pin();
            let new = crossbeam_epoch::Owned::new([1; 4]);
            let old = cell.swap(new, Ordering::AcqRel, &guard);
            // SAFETY: the swap made `old` unreachable, and it is retired once.
            unsafe { guard.defer_destroy(old) };
        });
    });
    group.bench_function("seize", |b| {
        let collector = seize::Collector::new();
        let cell = AtomicPtr::<Payload>::new(Box::into_raw(Box::new([0; 4])));
        b.iter(|| {
            let old = cell.swap(Box::into_raw(Box::new([1; 4])), Ordering::AcqRel);
            // SAFETY: the swap made `old` unreachable, it came from a box, and it is retired once.
            unsafe { collector.retire(old, seize::reclaim::boxed) };
        });
        let last = cell.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: the last box was never retired.
        drop(unsafe { Box::from_raw(last) });
    });
    group.bench_function("free at once", |b| {
        let mut cell = Box::new([0_u64; 4]);
        b.iter(|| cell = std::hint::black_box(Box::new([1; 4])));
    });
    group.finish();
}

fn main() {
    run("retire", retire);
}
