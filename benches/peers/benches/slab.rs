//! Inserting a value of 128 bytes and dropping it, one at a time and in bursts.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput};
use graceperiod::{AfterGrace, Immediate, Slab};
use graceperiod_peers::{OURS, run};

type Value = [u64; 16];

const BURST: usize = 64;

fn pairs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("slab pair");
    group.bench_function(OURS, |b| {
        let slab: Slab<(), Value, Immediate> = Slab::new(|_| ());
        b.iter(|| drop(black_box(slab.insert([1; 16]))));
    });
    group.bench_function("graceperiod AfterGrace", |b| {
        let slab: Slab<(), Value, AfterGrace> = Slab::new(|_| ());
        b.iter(|| drop(black_box(slab.insert([1; 16]))));
    });
    group.bench_function("sharded-slab", |b| {
        let slab = sharded_slab::Slab::<Value>::new();
        b.iter(|| slab.remove(black_box(slab.insert([1; 16]).expect("there is room"))));
    });
    group.bench_function("Box", |b| {
        b.iter(|| drop(black_box(Box::<Value>::new([1; 16]))))
    });
    group.finish();
}

fn bursts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("slab burst");
    group.throughput(Throughput::Elements(BURST as u64));
    group.bench_function(OURS, |b| {
        let slab: Slab<(), Value, Immediate> = Slab::new(|_| ());
        burst(b, || slab.insert([1; 16]), drop);
    });
    group.bench_function("graceperiod AfterGrace", |b| {
        let slab: Slab<(), Value, AfterGrace> = Slab::new(|_| ());
        burst(b, || slab.insert([1; 16]), drop);
    });
    group.bench_function("sharded-slab", |b| {
        let slab = sharded_slab::Slab::<Value>::new();
        burst(
            b,
            || slab.insert([1; 16]).expect("there is room"),
            |key| {
                slab.remove(key);
            },
        );
    });
    group.bench_function("Box", |b| burst(b, || Box::<Value>::new([1; 16]), drop));
    group.finish();
}

/// Makes [`BURST`] objects, then removes them in the order of their making.
fn burst<T>(bencher: &mut criterion::Bencher<'_>, make: impl Fn() -> T, remove: impl Fn(T)) {
    bencher.iter_batched_ref(
        || Vec::with_capacity(BURST),
        |live| {
            live.extend((0..BURST).map(|_| black_box(make())));
            live.drain(..).for_each(&remove);
        },
        BatchSize::SmallInput,
    );
}

fn main() {
    run("slab pair", pairs);
    run("slab burst", bursts);
}
