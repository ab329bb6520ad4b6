//! Entering and leaving a read-side critical section.

use std::hint::black_box;

use criterion::Criterion;
use graceperiod_peers::{OURS, run};

fn guard(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("guard");
    group.bench_function(OURS, |b| b.iter(|| drop(black_box(graceperiod::enter()))));
    group.bench_function("graceperiod reader", |b| {
        let reader = graceperiod::reader();
        b.iter(|| drop(black_box(reader.enter())));
    });
    group.bench_function("graceperiod owned domain", |b| {
        let domain = graceperiod::Domain::new();
        b.iter(|| drop(black_box(domain.enter())));
    });
    group.bench_function("crossbeam-epoch", |b| {
        b.iter(|| drop(black_box(crossbeam_epoch::pin())))
    });
    group.bench_function("seize", |b| {
        let collector = seize::Collector::new();
        b.iter(|| drop(black_box(collector.enter())));
    });
    group.finish();
}

fn main() {
    run("guard", guard);
}
