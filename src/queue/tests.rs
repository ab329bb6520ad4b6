//! Claims about a queue's inside.

use std::time::Duration;

use crate::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Relaxed, thread};

use crate::reclaim::Stage;

use super::local::{Aim, Local, Stored};
use super::{Batch, Drain, DropQueue, DropQueueBuilder};

/// Long enough that nothing is late while a test runs.
const NEVER: Duration = Duration::from_secs(86_400);

/// A queue that notes on which thread it handles how many items.
#[expect(clippy::type_complexity, reason = "named once")]
fn noting(
    builder: DropQueueBuilder<u32>,
) -> (DropQueue<u32>, Arc<Mutex<Vec<(usize, thread::ThreadId)>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let queue = builder.handler(move |batch: Batch<'_, u32>| {
        let mut noted = noted.lock();
        noted.push((batch.len(), thread::current().id()));
    });
    (queue.build().expect("the numbers are fine"), seen)
}

#[test]
fn pushes_drain_inline_if_the_worker_cannot_be_started() {
    let delay = Duration::from_millis(1);
    let (queue, seen) = noting(DropQueue::builder().max_delay(delay));
    queue.core.worker.fail();
    (0..32).for_each(|i| queue.push(i).expect("open"));
    let here = thread::current().id();
    assert_eq!(*seen.lock(), [(32, here)]);
    queue.push(0).expect("open");
    thread::sleep(2 * delay);
    (0..16).for_each(|i| queue.push(i).expect("open"));
    assert_eq!(*seen.lock(), [(32, here), (17, here)]);
    // Nobody to tell, and nobody to wait for.
    queue.kick();
    queue.stop().expect("no panic");
}

#[test]
fn limit_is_exact_while_others_take_the_buffers_away() {
    for drain in [Drain::Worker, Drain::Inline, Drain::Manual] {
        let (queue, _) = noting(DropQueue::builder().drain(drain).batch(7).limit(20));
        let queue = &queue;
        let stop = &AtomicBool::new(false);
        thread::scope(|scope| {
            let taker = scope.spawn(move || {
                // Relaxed: a hint.
                while !stop.load(Relaxed) {
                    queue.kick();
                    queue.barrier();
                }
            });
            let push = move || {
                for i in 0..20_000 {
                    queue.push(i).expect("open");
                    let own = queue.core.nodes.find().expect("it has pushed");
                    assert!(own.value.waiting() <= 20, "{drain:?}");
                }
            };
            for pusher in [(); 3].map(|()| scope.spawn(push)) {
                pusher.join().expect("the limit holds");
            }
            // Relaxed: a hint.
            stop.store(true, Relaxed);
            taker.join().expect("no panic");
        });
        let stats = queue.stats();
        assert_eq!(
            (stats.queued, stats.dropped),
            (60_000, 60_000 - stats.waiting)
        );
    }
}

#[test]
fn batches_are_full_at_the_limit() {
    // Nothing but the pusher drains, and it meets the limit all the time.
    let builder = DropQueue::builder().drain(Drain::Manual).max_delay(NEVER);
    let (queue, seen) = noting(builder.batch(8).limit(20));
    (0..1_000).for_each(|i| queue.push(i).expect("open"));
    let seen = seen.lock();
    assert!(seen.iter().all(|batch| batch.0 == 8), "{seen:?}");
}

#[test]
fn item_stored_beside_the_open_buffer_counts_against_the_limit() {
    let local = Local::new(2);
    let closed = AtomicBool::new(false);
    let store_slow = |value, room| {
        let aim = Aim {
            room,
            batch: 3,
            looks: false,
            now: 0,
        };
        // SAFETY: this thread owns the node and keeps no section open.
        unsafe { local.store_slow(value, aim, &closed) }
    };
    // SAFETY: as above.
    let store = |value| unsafe { local.store(value, 3) };
    assert_eq!(store_slow(1, 3), Ok(Stored::First));
    let taker = local.open.revoke().expect("no other taker");
    assert_eq!(store_slow(2, 2), Ok(Stored::Full));
    // The taker steps back, as if it had met the owner inside.
    drop(taker);
    assert_eq!(store(3), Err(3));
    assert_eq!(store_slow(3, 1), Ok(Stored::Plain));
    assert_eq!(store(4), Err(4));
    assert_eq!(local.waiting(), 3);
}

#[test]
fn worker_is_started_by_the_first_push() {
    let queue = DropQueue::<u32>::new();
    queue.kick();
    queue.barrier();
    assert!(!queue.core.worker.is_driving());
    queue.push(1).expect("open");
    assert!(queue.core.worker.is_driving());
}

#[test]
fn settling_inside_the_handler_says_what_to_do() {
    let queue = DropQueue::builder()
        .drain(Drain::Manual)
        .handler(|mut batch: Batch<'_, Box<dyn FnOnce() + Send>>| {
            batch.next().expect("one item")();
        })
        .build()
        .expect("the numbers are fine");
    let core = Arc::clone(&queue.core);
    queue.push_now(Box::new(move || core.settle()));
    let said = queue.stop().expect_err("it panics");
    let said = said.downcast::<&str>().expect("a message");
    assert!(said.contains("return from it first"), "{said}");
}

#[test]
fn buffers_go_round() {
    let builder = DropQueue::builder().drain(Drain::Inline).max_delay(NEVER);
    let (queue, _) = noting(builder);
    (0..64).for_each(|i| queue.push(i).expect("open"));
    let own = queue.core.nodes.find().expect("it has pushed");
    let before = own.value.spares();
    assert!(before > 0);
    (0..6_400).for_each(|i| queue.push(i).expect("open"));
    assert_eq!(own.value.spares(), before);
}

#[test]
fn memory_of_a_dropped_queue_is_given_back_though_threads_still_live() {
    let queue = DropQueue::<u32>::new();
    queue.push(1).expect("open");
    let nodes = Arc::downgrade(&queue.core.nodes);
    drop(queue);
    assert_eq!(nodes.strong_count(), 0);
}

#[test]
fn drain_takes_a_thread_by_thread_part_and_loses_nothing() {
    let handled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&handled);
    let queue = DropQueue::builder()
        .drain(Drain::Manual)
        .batch(10)
        // A pusher may find what another has left, and then it counts as its own.
        .limit(1_000)
        .handler(move |batch: Batch<'_, u32>| {
            // Relaxed: joined before it is read.
            count.fetch_add(batch.len(), Relaxed);
        })
        .build()
        .expect("the numbers are fine");
    let queue = &queue;
    thread::scope(|scope| {
        let push = move || (0..100).for_each(|i| queue.push(i).expect("open"));
        for _ in 0..3 {
            scope.spawn(push);
        }
    });
    let drained: usize = thread::scope(|scope| {
        let drain = move || (0..20).map(|_| queue.drain(3)).sum::<usize>();
        let drains = [(); 4].map(|()| scope.spawn(drain));
        drains.map(|d| d.join().expect("no panic")).iter().sum()
    });
    // Relaxed: joined.
    assert_eq!(handled.load(Relaxed), drained);
    assert_eq!(drained, 240);
    queue.barrier();
    // Relaxed: as above.
    assert_eq!(handled.load(Relaxed), 300);
}
