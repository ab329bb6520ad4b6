//! A fork after the kernel has refused `membarrier`, while threads idle that nobody can tell from busy ones.
//!
//! One test in a process of its own, since a seccomp filter can't be taken off.
#![cfg(all(target_os = "linux", not(tsan)))]

#[path = "fork/child.rs"]
mod child;
#[path = "refused/seccomp.rs"]
mod seccomp;

use std::sync::Barrier;
use std::thread;

use graceperiod::queue::{Drain, DropQueue};
use graceperiod::{AfterGrace, Domain, Slab};

use child::in_child;

struct World {
    domain: Domain,
    slab: Slab<(), u64, AfterGrace, Domain>,
    queue: DropQueue<u64>,
}

impl World {
    fn step(&self) {
        drop(self.domain.enter());
        self.domain.retire(Box::new(1));
        drop(self.slab.insert(1));
        self.queue.push(1).expect("open");
    }

    fn pending(&self) -> (u64, u64, u64) {
        let pending = self.domain.stats().pending_objects;
        (
            pending,
            self.slab.stats().waiting,
            self.queue.stats().waiting,
        )
    }

    fn settle(&self) {
        self.domain.barrier();
        self.queue.barrier();
        assert_eq!(self.pending(), (0, 0, 0));
    }
}

#[test]
fn child_does_without_what_may_be_in_use_and_the_parent_keeps_it() {
    let domain = Domain::new();
    let world = World {
        slab: Slab::builder().domain(&domain).build(|_| ()),
        queue: DropQueue::builder()
            .drain(Drain::Manual)
            .build()
            .expect("settings that agree"),
        domain,
    };
    let (idle, moved) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            world.step();
            idle.wait();
            moved.wait();
            world.step();
        });
        world.step();
        thread::scope(|scope| scope.spawn(|| world.step()).join().expect("no panic"));
        idle.wait();
        seccomp::refuse_membarrier();
        // What is waiting in the slab is pending, too.
        assert_eq!(world.pending(), (6, 3, 3));
        in_child(|| {
            assert_eq!(world.pending(), (4, 2, 2));
            world.settle();
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| (0..1_000).for_each(|_| world.step()));
                }
            });
            world.settle();
        });
        assert_eq!(world.pending(), (6, 3, 3));
        moved.wait();
    });
    assert_eq!(world.pending(), (8, 4, 4));
    world.settle();
}
