//! The latency of one grace period, alone and beside a thread that enters and leaves.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use criterion::Criterion;
use graceperiod_peers::{OURS, run};

fn synchronize(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("synchronize");
    group.bench_function("graceperiod alone", |b| b.iter(graceperiod::synchronize));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                drop(graceperiod::enter());
            }
        });
        group.bench_function(OURS, |b| b.iter(graceperiod::synchronize));
        stop.store(true, Relaxed);
    });
    group.finish();
}

fn main() {
    run("synchronize", synchronize);
}
