//! Handing a box over to be dropped later, beside dropping it here and sending it to a thread.

use std::{hint::black_box, sync::mpsc, thread};

use criterion::Criterion;
use graceperiod::queue::{Drain, DropQueue};
use graceperiod_peers::{OURS, run};

type Item = Box<[u64; 16]>;

fn queue(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("queue push");
    group.bench_function(OURS, |b| {
        let queue = DropQueue::<Item>::new();
        b.iter(|| {
            queue
                .push(black_box(Box::new([1; 16])))
                .expect("the queue is open")
        });
    });
    group.bench_function("graceperiod inline", |b| {
        let queue = DropQueue::<Item>::builder().drain(Drain::Inline).build();
        let queue = queue.expect("the defaults are valid");
        b.iter(|| {
            queue
                .push(black_box(Box::new([1; 16])))
                .expect("the queue is open")
        });
    });
    group.bench_function("channel to a thread", |b| {
        // As many items may wait as in a queue of the default limit.
        let (sender, receiver) = mpsc::sync_channel::<Item>(256);
        let worker = thread::spawn(move || receiver.into_iter().for_each(drop));
        b.iter(|| {
            sender
                .send(black_box(Box::new([1; 16])))
                .expect("the worker receives")
        });
        drop(sender);
        worker.join().expect("the worker only drops");
    });
    group.bench_function("drop at once", |b| {
        b.iter(|| drop(black_box::<Item>(Box::new([1; 16]))))
    });
    group.finish();
}

fn main() {
    run("queue push", queue);
}
