//! Reading and updating one shared value.

use std::{
    hint::black_box,
    sync::{Arc, RwLock},
};

use arc_swap::ArcSwap;
use criterion::Criterion;
use graceperiod::RcuCell;
use graceperiod_peers::{OURS, run};

type Payload = [u64; 4];

fn load(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cell load");
    group.bench_function(OURS, |b| {
        let cell = RcuCell::<Payload>::new([1; 4]);
        b.iter(|| black_box(cell.load(&graceperiod::enter())[0]));
    });
    group.bench_function("arc-swap", |b| {
        let cell = ArcSwap::<Payload>::from_pointee([1; 4]);
        b.iter(|| black_box(cell.load()[0]));
    });
    group.bench_function("RwLock", |b| {
        let cell = RwLock::<Payload>::new([1; 4]);
        b.iter(|| black_box(cell.read().expect("nobody panics")[0]));
    });
    group.finish();
}

fn update(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cell update");
    group.bench_function(OURS, |b| {
        let cell = RcuCell::<Payload>::new([1; 4]);
        b.iter(|| cell.update(&graceperiod::enter(), |old| black_box(*old)));
    });
    group.bench_function("arc-swap", |b| {
        let cell = ArcSwap::<Payload>::from_pointee([1; 4]);
        b.iter(|| cell.rcu(|old| Arc::new(black_box(**old))));
    });
    group.finish();
}

fn main() {
    run("cell load", load);
    run("cell update", update);
}
