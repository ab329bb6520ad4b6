//! Claims about domains, guards and grace periods, on owned domains so that tests don't disturb each other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use graceperiod::{Domain, DropValues, Guard, RcuCell, RcuOption};

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn counter() -> (Arc<AtomicUsize>, impl Fn() -> Box<Counted>) {
    let count = Arc::new(AtomicUsize::new(0));
    let shared = Arc::clone(&count);
    (count, move || Box::new(Counted(Arc::clone(&shared))))
}

fn message(payload: Box<dyn std::any::Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload
            .downcast::<&str>()
            .map_or_else(|_| String::from("?"), |text| String::from(*text)),
    }
}

fn panic_of(code: impl FnOnce()) -> String {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(()) => String::from("no panic"),
        Err(payload) => message(payload),
    }
}

#[test]
fn reader_keeps_a_retired_object_until_it_leaves() {
    let domain = Domain::new();
    let (dropped, make) = counter();
    let guard = domain.enter();
    let period = domain.start_grace_period();
    domain.retire(make());
    assert!(!period.has_elapsed());
    for _ in 0..10_000 {
        domain.defer(|| ());
    }
    assert_eq!(dropped.load(SeqCst), 0);
    assert_eq!(domain.stats().readers, 1);
    drop(guard);
    domain.barrier();
    assert_eq!(dropped.load(SeqCst), 1);
    assert!(period.has_elapsed());
    assert_eq!(domain.stats().pending_objects, 0);
    assert_eq!(domain.stats().readers, 0);
}

#[test]
fn guards_nest_and_may_be_dropped_in_any_order() {
    let domain = Domain::new();
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for order in orders {
        let mut guards: [Option<Guard<'_, Domain>>; 3] =
            [Some(domain.enter()), Some(domain.enter()), None];
        guards[2] = guards[0].clone();
        let period = domain.start_grace_period();
        for index in order {
            assert!(!period.has_elapsed());
            guards[index] = None;
        }
        period.wait();
        assert_eq!(domain.stats().readers, 0);
    }
}

#[test]
fn sixteen_thousand_guards_nest() {
    let domain = Domain::new();
    let guards: Vec<_> = (0..16_000).map(|_| domain.enter()).collect();
    let period = domain.start_grace_period();
    assert!(!period.has_elapsed());
    drop(guards);
    period.wait();
}

#[test]
fn synchronize_waits_for_earlier_readers_and_for_no_later_ones() {
    let domain = Domain::new();
    let (entered, left) = (Barrier::new(2), AtomicBool::new(false));
    let (release, released) = mpsc::channel();
    thread::scope(|scope| {
        let (domain, entered, left) = (&domain, &entered, &left);
        scope.spawn(move || {
            let guard = domain.enter();
            entered.wait();
            released.recv().expect("the other side lives");
            left.store(true, SeqCst);
            drop(guard);
        });
        entered.wait();
        let period = domain.start_grace_period();
        scope.spawn(move || {
            thread::sleep(Duration::from_millis(20));
            release.send(()).expect("the reader waits");
        });
        domain.synchronize();
        assert!(left.load(SeqCst));
        assert!(period.has_elapsed());
    });
    // A reader that enters after the call is not waited for: this one stays inside throughout.
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut guard = domain.enter();
            while !stop.load(SeqCst) {
                let next = domain.enter();
                guard = next;
                thread::yield_now();
            }
            drop(guard);
        });
        let others: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !stop.load(SeqCst) {
                        drop(domain.enter());
                    }
                })
            })
            .collect();
        drop(others);
        stop.store(true, SeqCst);
        domain.synchronize();
    });
}

#[test]
fn polling_alone_completes_a_grace_period() {
    let domain = Domain::new();
    let period = domain.start_grace_period();
    while !period.has_elapsed() {
        thread::yield_now();
    }
    assert!(domain.stats().grace_periods > 0);
}

#[test]
fn barrier_covers_idle_and_exited_threads() {
    let domain = Domain::new();
    let (dropped, make) = counter();
    let (retired, may_exit) = (Barrier::new(3), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            domain.retire(make());
            retired.wait();
            may_exit.wait();
        });
        let exited = scope.spawn(|| (0..100).for_each(|_| domain.retire(make())));
        exited.join().expect("no panic");
        scope.spawn(|| {
            domain.retire(make());
            retired.wait();
        });
        retired.wait();
        domain.barrier();
        assert_eq!(dropped.load(SeqCst), 102);
        may_exit.wait();
    });
}

#[test]
fn barrier_waits_for_a_destructor_that_another_thread_runs() {
    struct Slow(Arc<AtomicBool>, mpsc::Sender<()>);
    impl Drop for Slow {
        fn drop(&mut self) {
            self.1.send(()).expect("the test lives");
            thread::sleep(Duration::from_millis(30));
            self.0.store(true, SeqCst);
        }
    }
    let domain = Domain::new();
    let done = Arc::new(AtomicBool::new(false));
    let (begun, begins) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            domain.retire(Box::new(Slow(Arc::clone(&done), begun)));
            for _ in 0..100_000 {
                domain.defer(|| ());
            }
        });
        begins
            .recv()
            .expect("the destructor runs in one of the retirements");
        domain.barrier();
        assert!(done.load(SeqCst));
    });
}

#[test]
fn concurrent_barriers_each_cover_what_came_before() {
    let domain = Domain::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let (dropped, make) = counter();
                    for _ in 0..70 {
                        domain.retire(make());
                    }
                    domain.barrier();
                    assert_eq!(dropped.load(SeqCst), 70);
                }
            });
        }
    });
    assert_eq!(domain.stats().pending_objects, 0);
}

#[test]
fn misuse_panics_with_advice_and_loses_nothing() {
    let domain = Domain::new();
    let guard = domain.enter();
    for text in [
        panic_of(|| domain.synchronize()),
        panic_of(|| domain.barrier()),
        panic_of(|| assert_eq!(domain.drain().left, 0)),
        panic_of(|| domain.start_grace_period().wait()),
    ] {
        assert!(text.contains("drop this thread's guards first"), "{text}");
    }
    drop(guard);
    let (dropped, make) = counter();
    domain.retire(make());
    let (inner, (said, says)) = (domain.clone(), mpsc::channel());
    domain.defer(move || {
        said.send(panic_of(|| inner.barrier()))
            .expect("the test lives")
    });
    domain.barrier();
    let text = says.recv().expect("the closure has run");
    assert!(text.contains("inside a destructor"), "{text}");
    assert_eq!(dropped.load(SeqCst), 1);
    assert_eq!(domain.stats().pending_objects, 0);
}

#[test]
fn barrier_in_a_destructor_of_another_domain_is_seen_through() {
    let (outer, inner) = (Domain::new(), Domain::new());
    let (said, says) = mpsc::channel();
    let (o, i) = (outer.clone(), inner.clone());
    outer.defer(move || {
        let o = o.clone();
        i.defer(move || said.send(panic_of(|| o.barrier())).expect("the test lives"));
        i.barrier();
    });
    outer.barrier();
    let text = says.recv().expect("the closure has run");
    assert!(text.contains("inside a destructor"), "{text}");
}

#[test]
fn synchronize_is_legal_in_a_destructor() {
    let domain = Domain::new();
    let (inner, done) = (domain.clone(), Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&done);
    domain.defer(move || {
        inner.synchronize();
        flag.store(true, SeqCst);
    });
    domain.barrier();
    assert!(done.load(SeqCst));
}

#[test]
fn destructors_may_retire_and_drain_follows_them() {
    struct Chain(Domain, usize, Arc<AtomicUsize>);
    impl Drop for Chain {
        fn drop(&mut self) {
            self.2.fetch_add(1, SeqCst);
            if self.1 > 0 {
                let next = Self(self.0.clone(), self.1 - 1, Arc::clone(&self.2));
                self.0.retire(Box::new(next));
            }
        }
    }
    let domain = Domain::new();
    let count = Arc::new(AtomicUsize::new(0));
    domain.retire(Box::new(Chain(domain.clone(), 50, Arc::clone(&count))));
    let drained = domain.drain();
    assert_eq!(drained.left, 0);
    assert!(drained.rounds > 1);
    assert_eq!(count.load(SeqCst), 51);
}

#[test]
fn domains_are_independent() {
    let (busy, free) = (Domain::new(), Domain::new());
    assert_ne!(busy.id(), free.id());
    let guard = busy.enter();
    free.synchronize();
    free.barrier();
    graceperiod::synchronize();
    drop(guard);
}

#[test]
fn worker_drops_what_idle_threads_retired() {
    let domain = Domain::builder()
        .worker(true)
        .max_delay(Duration::from_millis(1))
        .name("claims-worker")
        .build();
    let (dropped, make) = counter();
    domain.retire(make());
    while dropped.load(SeqCst) == 0 {
        thread::yield_now();
    }
}

#[test]
fn worker_alone_drops_when_told_so() {
    let domain = Domain::builder()
        .drop_values(DropValues::Worker)
        .max_delay(Duration::from_millis(1))
        .name("claims-worker")
        .build();
    let names = Arc::new(std::sync::Mutex::new(std::collections::HashSet::new()));
    for _ in 0..2_000 {
        let names = Arc::clone(&names);
        domain.defer(move || {
            let name = thread::current().name().map(String::from);
            names.lock().expect("no panic").insert(name);
        });
    }
    while domain.stats().pending_objects > 0 {
        thread::yield_now();
    }
    let names = names.lock().expect("no panic");
    assert_eq!(names.len(), 1);
    assert!(names.contains(&Some(String::from("claims-worker"))));
}

#[test]
fn cell_readers_see_whole_values_while_writers_replace() {
    let domain = Domain::new();
    let cell = RcuCell::new_in([0_u64; 4], &domain);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let reader = domain.reader();
                while !stop.load(SeqCst) {
                    let guard = reader.enter();
                    let value = cell.load(&guard);
                    assert!(value.iter().all(|word| *word == value[0]));
                }
            });
        }
        for round in 1..50_000 {
            cell.replace([round; 4]);
        }
        stop.store(true, SeqCst);
    });
    drop(cell);
    domain.barrier();
    assert_eq!(domain.stats().pending_objects, 0);
}

#[test]
fn cell_updates_are_never_lost() {
    let domain = Domain::new();
    let cell = RcuCell::new_in(0_u64, &domain);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    cell.update(&domain.enter(), |value| value + 1);
                }
            });
        }
    });
    assert_eq!(*cell.load(&domain.enter()), 20_000);
}

#[test]
fn compare_exchange_hands_the_value_back_if_it_comes_too_late() {
    let domain = Domain::new();
    let cell = RcuCell::new_in(String::from("a"), &domain);
    let guard = domain.enter();
    let first = cell.load(&guard);
    assert_eq!(cell.compare_exchange(first, String::from("b")), Ok(()));
    let late = cell.compare_exchange(first, String::from("c"));
    assert_eq!(late, Err(String::from("c")));
    let option = RcuOption::empty_in(&domain);
    assert_eq!(option.compare_exchange(None, Some(1)), Ok(()));
    assert_eq!(option.compare_exchange(None, Some(2)), Err(Some(2)));
    option.update(&guard, |value| value.map(|value| value + 1));
    assert_eq!(option.load(&guard), Some(&2));
    assert!(option.take());
    assert!(!option.take());
}

#[test]
fn guard_of_another_domain_is_refused_before_the_first_look() {
    let (mine, other) = (Domain::new(), Domain::new());
    let cell = RcuCell::new_in(1, &mine);
    let text = panic_of(|| {
        cell.load(&other.enter());
    });
    assert!(text.contains("another domain"), "{text}");
    assert_eq!(*cell.load(&mine.enter()), 1);
}

#[test]
fn zero_sized_and_over_aligned_values_are_retired() {
    #[repr(align(4096))]
    struct Page(#[expect(dead_code, reason = "only its size and alignment matter")] [u8; 4096]);
    let domain = Domain::new();
    for _ in 0..200 {
        domain.retire(Box::new(()));
        domain.retire(Box::new(Page([7; 4096])));
        domain.retire::<[u16]>(Box::new([1, 2, 3]));
        domain.retire::<dyn std::fmt::Debug + Send>(Box::new("dyn"));
    }
    domain.barrier();
    assert_eq!(domain.stats().pending_bytes, 0);
    assert_eq!(domain.stats().dropped, 800);
}
