//! The queue's edges, explored by loom.

use std::time::Duration;

use loom::thread;

use crate::fence::full;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Relaxed, UnsafeCell};

use super::buffer::Buffer;
use super::local::{Aim, Local, Stored};
use super::worker::{Pending, Worker};
use super::{Drain, DropQueue};

/// What a handler has done, unsynchronized, so that loom sees whoever looks too early.
struct Checked(UnsafeCell<u32>);

// SAFETY: loom fails the model if two threads meet there.
unsafe impl Sync for Checked {}
// SAFETY: a number.
unsafe impl Send for Checked {}

impl Checked {
    fn add_one(&self) {
        // SAFETY: loom checks that nobody else is here.
        self.0.with_mut(|done| unsafe { *done += 1 });
    }

    fn get(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|done| unsafe { *done })
    }
}

/// A push without a core: full at two items.
fn push<T>(own: &Local<T>, value: T, closed: &AtomicBool) -> Result<Stored, T> {
    let aim = Aim {
        room: 100,
        batch: 2,
        looks: false,
        now: 0,
    };
    // SAFETY: each model's pusher owns its node and keeps no section open.
    let value = match unsafe { own.store(value, 2) } {
        Ok(stored) => return Ok(stored),
        Err(value) => value,
    };
    // SAFETY: as above.
    unsafe { own.store_slow(value, aim, closed) }
}

/// Drops a buffer's items and gives it back.
fn finish<T>(local: &Local<T>, mut buffer: Box<Buffer<T>>) -> usize {
    let count = buffer.items.len();
    buffer.items.clear();
    local.put_spare(buffer, 2);
    count
}

/// Drops what is in the line.
fn pop_all<T>(local: &Local<T>) -> usize {
    std::iter::from_fn(|| local.pop())
        .map(|buffer| finish(local, buffer))
        .sum()
}

/// Takes the open buffer, if nobody is busy with it.
fn try_take<T>(local: &Local<T>) -> Option<Box<Buffer<T>>> {
    local.try_take_open()?.open
}

/// Drops all that waits.
fn take_all<T>(local: &Local<T>) -> usize {
    let open = local.take_open().open;
    let popped = pop_all(local);
    popped + open.map_or(0, |buffer| finish(local, local.counted(buffer)))
}

#[test]
fn o70_o74_thieves_find_every_item_once() {
    loom::model(|| {
        let local = Arc::new(Local::new(2));
        let closed = AtomicBool::new(false);
        let other = Arc::clone(&local);
        let thief = thread::spawn(move || {
            let open = try_take(&other);
            let popped = pop_all(&other);
            popped + open.map_or(0, |buffer| finish(&other, other.counted(buffer)))
        });
        for i in 0..3 {
            assert!(push(&local, i, &closed).is_ok());
        }
        let stolen = thief.join().expect("no panic");
        assert_eq!(stolen + take_all(&local), 3);
        assert_eq!(local.waiting(), 0);
    });
}

#[test]
fn o70_o77_two_threads_pop_each_buffer_once() {
    loom::model(|| {
        let local = Arc::new(Local::new(2));
        let closed = AtomicBool::new(false);
        for i in 0..4 {
            assert!(push(&local, i, &closed).is_ok());
        }
        let other = Arc::clone(&local);
        let popper = thread::spawn(move || pop_all(&other));
        let mine = pop_all(&local);
        assert_eq!(popper.join().expect("no panic") + mine, 4);
    });
}

#[test]
fn o77_o78_line_grows_under_a_popper() {
    loom::model(|| {
        let local = Arc::new(Local::new(2));
        let closed = AtomicBool::new(false);
        for i in 0..2 {
            assert!(push(&local, i, &closed).is_ok());
        }
        let other = Arc::clone(&local);
        let popper = thread::spawn(move || pop_all(&other));
        // One or two buffers wait and two more places are asked for, so the array of two may have to grow.
        for i in 2..6 {
            assert!(push(&local, i, &closed).is_ok());
        }
        let popped = popper.join().expect("no panic");
        assert_eq!(popped + take_all(&local), 6);
    });
}

#[test]
fn o74_spare_is_used_by_one_thread_at_a_time() {
    loom::model(|| {
        let local = Arc::new(Local::new(2));
        let closed = AtomicBool::new(false);
        for i in 0..2 {
            assert!(push(&local, i, &closed).is_ok());
        }
        let other = Arc::clone(&local);
        let popper = thread::spawn(move || pop_all(&other));
        assert!(push(&local, 2, &closed).is_ok());
        popper.join().expect("no panic");
    });
}

#[test]
fn o71_push_beside_another_takers_turn_is_found_or_refused() {
    loom::model(|| {
        let local = Arc::new(Local::new(2));
        let closed = Arc::new(AtomicBool::new(false));
        let (own, is_closed) = (Arc::clone(&local), Arc::clone(&closed));
        let pusher = thread::spawn(move || usize::from(push(&own, 1, &is_closed).is_ok()));
        let theirs = Arc::clone(&local);
        // Gets in the pusher's way, and may get the item.
        let taker = thread::spawn(move || {
            let taken = try_take(&theirs);
            taken.map_or(0, |buffer| finish(&theirs, theirs.counted(buffer)))
        });
        // Relaxed: as in Core::refuse_pushes.
        closed.store(true, Relaxed);
        full();
        let open = local.take_open().open;
        local.seal();
        let mut found = pop_all(&local);
        found += open.map_or(0, |buffer| finish(&local, local.counted(buffer)));
        found += taker.join().expect("no panic");
        assert_eq!(pusher.join().expect("no panic"), found);
        assert_eq!(local.waiting(), 0);
    });
}

#[test]
fn o72_stop_finds_every_item_that_was_accepted() {
    loom::model(|| {
        let queue = DropQueue::builder()
            .drain(Drain::Manual)
            .batch(2)
            .build_checked();
        let core = Arc::clone(&queue.core);
        let pusher = thread::spawn(move || {
            // A node that the stopper may or may not see.
            let own = core.nodes.lend();
            u64::from(push(&own, 1, &core.closed).is_ok())
        });
        queue.core.stop();
        let handled = queue.core.stats().dropped;
        assert_eq!(pusher.join().expect("no panic"), handled);
        assert_eq!(queue.core.stats().waiting, 0);
    });
}

#[test]
fn o72_node_is_found_or_its_thread_is_refused() {
    loom::model(|| {
        let queue = DropQueue::<u8>::builder()
            .drain(Drain::Manual)
            .build_checked();
        let core = Arc::clone(&queue.core);
        let pusher = thread::spawn(move || {
            let _own = core.nodes.lend();
            // Relaxed: what is tested; a section's fence would hide it.
            core.closed.load(Relaxed)
        });
        queue.core.refuse_pushes();
        let is_found = queue.core.nodes.iter().next().is_some();
        let is_refused = pusher.join().expect("no panic");
        assert!(is_found || is_refused);
    });
}

#[test]
fn o72_value_handled_at_the_limit_is_waited_for_or_refused() {
    loom::model(|| {
        let handled = Arc::new(Checked(UnsafeCell::new(0_u32)));
        let counted = Arc::clone(&handled);
        let queue = DropQueue::<u8>::builder()
            .drain(Drain::Manual)
            .handler(move |_| counted.add_one())
            .build_checked();
        let core = Arc::clone(&queue.core);
        let pusher = thread::spawn(move || core.handle_alone(&core.nodes.lend(), 1).is_ok());
        queue.core.stop();
        let at_stop = handled.get();
        let accepted = pusher.join().expect("no panic");
        assert_eq!(u32::from(accepted), at_stop);
    });
}

#[test]
fn o73_whoever_finds_nothing_waiting_waits_for_what_is_in_hand() {
    loom::model(|| {
        let local = Arc::new(Local::new(2));
        let done = Arc::new(Checked(UnsafeCell::new(0)));
        let closed = AtomicBool::new(false);
        for i in 0..2 {
            assert!(push(&local, i, &closed).is_ok());
        }
        let runner = Arc::new(Local::<i32>::new(2));
        let (theirs, hand, doing) = (Arc::clone(&local), Arc::clone(&runner), Arc::clone(&done));
        let worker = thread::spawn(move || {
            let _mark = hand.handled.running.begin();
            if theirs.pop().is_some() {
                doing.add_one();
            }
        });
        // As a barrier does.
        let mine = local.waiting() > 0 && local.pop().is_some();
        if !mine {
            runner.handled.running.wait();
            assert_eq!(done.get(), 1);
        }
        worker.join().expect("no panic");
    });
}

#[test]
fn o10_whoever_wants_everything_waits_for_a_buffer_that_is_being_split() {
    loom::model(|| {
        let local = Arc::new(Local::new(2));
        let closed = AtomicBool::new(false);
        let aim = Aim {
            room: 100,
            batch: 4,
            looks: false,
            now: 0,
        };
        for i in 0..2 {
            // SAFETY: this thread owns the node and keeps no section open.
            assert!(unsafe { local.store_slow(i, aim, &closed) }.is_ok());
        }
        let runner = Arc::new(Local::<i32>::new(2));
        let (theirs, hand) = (Arc::clone(&local), Arc::clone(&runner));
        let drainer = thread::spawn(move || {
            let _mark = hand.handled.running.begin();
            theirs.pop_part(1).map_or(0, |part| part.items.len())
        });
        // As a barrier does.
        let taken = local.take_open();
        let mut mine = taken.open.map_or(0, |open| local.counted(open).items.len());
        while let Some(buffer) = local.pop_settled() {
            mine += buffer.items.len();
        }
        runner.handled.running.wait();
        // The drainer may come later, and then finds nothing.
        assert_eq!(drainer.join().expect("no panic") + mine, 2);
    });
}

#[test]
fn o75_parked_worker_hears_of_every_first_item() {
    loom::model(|| {
        let worker = Arc::new(Worker::new("model".to_owned()));
        let items = Arc::new(AtomicUsize::new(0));
        let (own, found) = (Arc::clone(&worker), Arc::clone(&items));
        let run = move || {
            let mut idle = true;
            // Relaxed: the worker's own fences order it (O75).
            while found.load(Relaxed) < 2 {
                idle = own.sleep(idle, Duration::ZERO, || {
                    // Relaxed: as above.
                    if found.load(Relaxed) < 2 {
                        Pending::Nothing
                    } else {
                        Pending::Now
                    }
                });
            }
        };
        // Relaxed: the fence in tell_first orders it (O75).
        items.store(1, Relaxed);
        assert!(worker.tell_first());
        worker.start(run);
        // Relaxed: as above.
        items.store(2, Relaxed);
        assert!(!worker.tell_first());
        // A lost wake is a deadlock here.
        worker.join();
    });
}

#[test]
fn o75_worker_hears_that_it_is_to_finish() {
    loom::model(|| {
        let worker = Arc::new(Worker::new("model".to_owned()));
        let own = Arc::clone(&worker);
        worker.start(move || {
            let mut idle = true;
            while !own.is_finishing() {
                idle = own.sleep(idle, Duration::ZERO, || Pending::Nothing);
            }
        });
        worker.finish();
        worker.join();
    });
}

#[test]
fn o76_kick_shows_what_was_pushed_before() {
    loom::model(|| {
        let worker = Arc::new(Worker::new("model".to_owned()));
        let items = Arc::new(AtomicUsize::new(0));
        let (own, found) = (Arc::clone(&worker), Arc::clone(&items));
        worker.start(move || {
            while !own.was_kicked() {
                own.sleep(true, Duration::ZERO, || Pending::Nothing);
            }
            // Relaxed: ordered by the kick (O76).
            assert_eq!(found.load(Relaxed), 1);
        });
        // Relaxed: as above.
        items.store(1, Relaxed);
        worker.kick();
        worker.join();
    });
}
