//! What a slab's bounds promise: nobody is refused while there is, or soon will be, a slot.

use std::cell::RefCell;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use graceperiod::{AfterGrace, Domain, ReserveError, Slab};

type Waiting<V> = Slab<(), V, AfterGrace, Domain>;

fn limited<V: Send + Sync + 'static>(domain: &Domain, max_objects: usize) -> Waiting<V> {
    Slab::builder()
        .domain(domain)
        .max_objects(max_objects)
        .build(|_| ())
}

/// Runs something when its thread ends.
struct Late(Option<Box<dyn FnOnce()>>);

impl Drop for Late {
    fn drop(&mut self) {
        self.0.take().expect("dropped once")();
    }
}

#[test]
fn thread_in_its_last_destructors_recycles_what_has_waited() {
    thread_local! {
        static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
    }
    let domain = Domain::new();
    let slab = std::sync::Arc::new(limited::<String>(&domain, 64));
    let (theirs, guards) = (std::sync::Arc::clone(&slab), domain.clone());
    let ending = std::thread::spawn(move || {
        // Registered before the crate's own thread-locals, so dropped after them.
        LATE.with(|_| ());
        LATE.set(Some(Late(Some(Box::new(move || {
            for n in 0..2_000 {
                let value = theirs.try_insert(n.to_string()).expect("room for one");
                assert_eq!(*value, n.to_string());
                drop(value);
                if n % 8 == 0 {
                    guards.synchronize();
                }
            }
        })))));
        drop(slab.insert(String::new()));
        slab
    });
    let slab = ending.join().expect("no panic");
    domain.barrier();
    assert_eq!(slab.stats().waiting, 0);
    assert_eq!(slab.shrink(), 1, "no slot is lost");
}

/// Takes long to drop.
struct Slow<const MILLIS: u64>;

impl<const MILLIS: u64> Drop for Slow<MILLIS> {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_millis(MILLIS));
    }
}

#[test]
fn slot_whose_value_a_barrier_is_dropping_is_waited_for() {
    let domain = Domain::new();
    let slab = limited::<Slow<50>>(&domain, 1);
    drop(slab.insert(Slow));
    let begin = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            begin.wait();
            domain.barrier();
        });
        begin.wait();
        std::thread::sleep(Duration::from_millis(15));
        drop(slab.try_reserve().expect("the only slot comes free"));
    });
}

#[test]
fn slots_that_a_barrier_has_in_hand_come_free_one_by_one() {
    let domain = Domain::new();
    let slab = limited::<Slow<3>>(&domain, 40);
    let all: Vec<_> = (0..40).map(|_| slab.insert(Slow)).collect();
    drop(all);
    let begin = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            begin.wait();
            domain.barrier();
        });
        begin.wait();
        // The barrier has taken all forty by now.
        std::thread::sleep(Duration::from_millis(20));
        let begun = Instant::now();
        let value = slab.try_reserve().expect("a slot comes free every 3 ms");
        assert!(begun.elapsed() < Duration::from_millis(60), "not the first");
        drop(value);
    });
    assert_eq!(slab.stats().waiting, 0);
}

#[test]
fn nobody_waits_inside_a_guard_for_the_destructors_of_others() {
    let domain = Domain::new();
    let slab = limited::<Slow<80>>(&domain, 1);
    drop(slab.insert(Slow));
    let begin = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            begin.wait();
            domain.barrier();
        });
        begin.wait();
        // The barrier is dropping the value by now, and may need this thread's guard gone in a destructor.
        std::thread::sleep(Duration::from_millis(20));
        let _guard = domain.enter();
        let begun = Instant::now();
        assert!(matches!(slab.try_reserve(), Err(ReserveError::Full { .. })));
        assert!(begun.elapsed() < Duration::from_millis(30));
    });
}
