//! loom models of the engine: the fence-mode protocol, take-over, and the barrier.
//!
//! The object under the protocol is a causality-tracked cell: reading it without a happens-before edge to its "free" is
//! what fails. loom models SeqCst fences, which is all that fence mode needs.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

use crate::sync::{Acquire, Relaxed, Release};
use crate::thread::Registry;

use super::clock::Clock;
use super::domain::Domain;
use super::mode::ReaderFences;
use super::owned;
use super::record::Record;

/// One published object, a clock, and the records of its readers.
struct World {
    clock: Clock,
    records: Registry<Record>,
    /// 1 while the object is published.
    published: AtomicUsize,
    object: UnsafeCell<u32>,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            clock: Clock::new(ReaderFences::Auto),
            records: Registry::new(),
            published: AtomicUsize::new(1),
            object: UnsafeCell::new(7),
        })
    }

    fn record(&self) -> &Record {
        &self
            .records
            .claim(
                || Record::new(1, &self.clock, &self.records),
                Record::is_unused,
            )
            .value
    }

    fn read(&self, record: &Record) {
        record.enter(&self.clock);
        if self.published.load(Acquire) == 1 {
            // SAFETY: published, and the guard protects it; loom checks.
            self.object.with(|object| assert_eq!(unsafe { *object }, 7));
        }
        record.leave();
    }

    fn unlink(&self) -> u64 {
        self.published.store(0, Release);
        self.clock.cookie()
    }

    fn free_if_elapsed(&self, cookie: u64) {
        if self.clock.has_elapsed(cookie) {
            // SAFETY: no reader is left; loom checks.
            self.object.with_mut(|object| unsafe { *object = 0 });
        }
    }
}

fn bounded(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn o20_o21_reader_is_waited_for_or_sees_the_unlink() {
    loom::model(|| {
        let world = World::new();
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let record = world.record();
                world.read(record);
                world.read(record);
            })
        };
        let cookie = world.unlink();
        world.clock.advance(&world.records, None);
        world.clock.advance(&world.records, None);
        world.free_if_elapsed(cookie);
        reader.join().expect("no panic");
    });
}

#[test]
fn o21_later_enter_stands_for_the_earlier_guard() {
    loom::model(|| {
        let world = World::new();
        world.record();
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let record = world.records.iter().next().map(|node| &node.value);
                let record = record.expect("registered");
                world.read(record);
                record.enter(&world.clock);
            })
        };
        let cookie = world.unlink();
        world.clock.advance(&world.records, None);
        world.free_if_elapsed(cookie);
        reader.join().expect("no panic");
    });
}

#[test]
fn o22_reader_of_the_new_epoch_may_be_passed_by() {
    loom::model(|| {
        let world = World::new();
        world.record();
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let record = world.records.iter().next().map(|node| &node.value);
                world.read(record.expect("registered"));
            })
        };
        let cookie = world.unlink();
        world.clock.advance(&world.records, None);
        world.free_if_elapsed(cookie);
        reader.join().expect("no panic");
    });
}

#[test]
fn o24_o25_retirer_relies_on_another_driver() {
    bounded(3, || {
        let world = World::new();
        let driver = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.clock.advance(&world.records, None);
                world.clock.advance(&world.records, None);
            })
        };
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let record = world.record();
                world.read(record);
            })
        };
        let cookie = world.unlink();
        world.free_if_elapsed(cookie);
        driver.join().expect("no panic");
        world.free_if_elapsed(cookie);
        reader.join().expect("no panic");
    });
}

#[test]
fn o23_orphan_is_claimed_only_when_its_last_guard_has_gone() {
    loom::model(|| {
        let world = World::new();
        let claim = |world: &World| {
            let make = || Record::new(1, &world.clock, &world.records);
            std::ptr::NonNull::from(world.records.claim(make, Record::is_unused))
        };
        // SAFETY: nodes live as long as the world.
        let node = unsafe { claim(&world).as_ref() };
        node.value.add_reader();
        node.value.enter(&world.clock);
        let late = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let node = claim(&world);
                let first = world.records.iter().last().expect("one node");
                if std::ptr::eq(node.as_ptr(), first) {
                    // SAFETY: the late owner is through with its record; loom checks.
                    world.object.with_mut(|object| unsafe { *object += 1 });
                }
            })
        };
        node.give_up(true);
        // SAFETY: the record is still this thread's; loom checks.
        world.object.with_mut(|object| unsafe { *object += 1 });
        node.value.leave();
        // SAFETY: the reader still keeps the record; loom checks.
        world.object.with_mut(|object| unsafe { *object += 1 });
        node.value.remove_reader();
        late.join().expect("no panic");
    });
}

#[test]
fn o21_o31_owned_guard_protects_on_the_thread_that_it_was_handed_to() {
    struct Handed(std::ptr::NonNull<Record>);
    // SAFETY: records may be used on any thread, by one at a time.
    unsafe impl Send for Handed {}
    loom::model(|| {
        let world = World::new();
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let guard = Handed(owned::enter(&world.records, 1, &world.clock));
                let seen = world.published.load(Acquire) == 1;
                (guard, seen)
            })
        };
        let cookie = world.unlink();
        world.clock.advance(&world.records, None);
        world.free_if_elapsed(cookie);
        let (guard, seen) = reader.join().expect("no panic");
        if seen {
            // SAFETY: seen under the guard, which is still there; loom checks.
            world
                .object
                .with(|object| assert_eq!(unsafe { *object }, 7));
        }
        // SAFETY: records live as long as the world, and the guard was handed over.
        unsafe { guard.0.as_ref() }.leave();
        world.free_if_elapsed(cookie);
    });
}

#[test]
fn o1_o2_o10_o27_barrier_covers_what_another_thread_retired_before() {
    bounded(2, || {
        let domain = Domain::new();
        let dropped = Arc::new(AtomicUsize::new(0));
        let told = Arc::new(AtomicUsize::new(0));
        let other = {
            let (domain, dropped, told) = (domain.clone(), Arc::clone(&dropped), Arc::clone(&told));
            thread::spawn(move || {
                for _ in 0..2 {
                    let dropped = Arc::clone(&dropped);
                    domain.defer(move || {
                        dropped.fetch_add(1, Relaxed);
                    });
                    told.fetch_add(1, Release);
                }
            })
        };
        let before = told.load(Acquire);
        domain.barrier();
        assert!(dropped.load(Relaxed) >= before);
        other.join().expect("no panic");
        domain.barrier();
        assert_eq!(dropped.load(Relaxed), 2);
        assert_eq!(domain.stats().pending_objects, 0);
    });
}

#[test]
fn o27_barrier_covers_what_is_being_taken_over() {
    bounded(3, || {
        let domain = Domain::new();
        let dropped = Arc::new(AtomicUsize::new(0));
        {
            let dropped = Arc::clone(&dropped);
            let idle = domain.core.borrow_record();
            domain.core.retire_for_test(idle.owner(), move || {
                dropped.fetch_add(1, Relaxed);
            });
        }
        let core = std::sync::Arc::clone(&domain.core);
        let other = thread::spawn(move || {
            let mine = core.borrow_record();
            core.take_over(mine.owner(), u64::MAX);
        });
        domain.barrier();
        assert_eq!(dropped.load(Relaxed), 1);
        other.join().expect("no panic");
    });
}

#[test]
fn o28_retirement_beside_the_close_is_dropped_once() {
    bounded(2, || {
        let domain = Domain::new();
        let dropped = Arc::new(AtomicUsize::new(0));
        let cell = {
            let dropped = Arc::clone(&dropped);
            crate::RcuOption::new_in(Some(OnDrop(dropped)), &domain)
        };
        // A free record, which the close and the other thread may both want.
        let core = std::sync::Arc::clone(&domain.core);
        drop(core.borrow_record());
        let other = thread::spawn(move || drop(cell));
        drop(domain);
        other.join().expect("no panic");
        assert_eq!(dropped.load(Relaxed), 1);
    });
}

struct OnDrop(Arc<AtomicUsize>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn o12_guard_of_an_exited_thread_is_never_shared() {
    loom::model(|| {
        let domain = Domain::new();
        let enter = |core: &super::core::Core| {
            let mine = core.borrow_record();
            mine.enter(&core.clock);
            std::ptr::NonNull::from(&*mine)
        };
        // SAFETY: records live as long as the domain's core.
        unsafe { enter(&domain.core).as_ref() }.leave();
        let core = std::sync::Arc::clone(&domain.core);
        let other = thread::spawn(move || {
            // SAFETY: as above.
            unsafe { enter(&core).as_ref() }.leave();
        });
        let record = enter(&domain.core);
        other.join().expect("no panic");
        // SAFETY: as above.
        let record = unsafe { record.as_ref() };
        assert!(record.is_inside());
        record.leave();
        assert!(!record.is_inside());
    });
}
