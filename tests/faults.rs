//! What happens when a destructor panics, a thread dies, a guard leaks, a domain goes first.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use graceperiod::{Domain, Guard, RcuCell, Reader};

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn count() -> (Arc<AtomicUsize>, impl Fn() + Clone + Send + 'static) {
    let count = Arc::new(AtomicUsize::new(0));
    let shared = Arc::clone(&count);
    (count, move || {
        shared.fetch_add(1, SeqCst);
    })
}

#[test]
fn panicking_destructors_lose_nothing_and_reach_the_next_barrier() {
    let domain = Domain::new();
    let (dropped, bump) = count();
    for index in 0..310 {
        let bump = bump.clone();
        domain.defer(move || {
            bump();
            assert!(index % 10 != 0, "every tenth");
        });
    }
    let resumed = catch_unwind(AssertUnwindSafe(|| domain.barrier()));
    assert!(resumed.is_err());
    assert_eq!(dropped.load(SeqCst), 310);
    let stats = domain.stats();
    assert_eq!((stats.panics, stats.pending_objects), (31, 0));
    domain.barrier();
}

#[test]
fn hook_takes_the_panics_of_destructors() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let domain = Domain::builder()
        .on_panic(move |payload| {
            let text = payload.downcast::<&str>().expect("a literal");
            sink.lock().expect("no panic").push(*text);
        })
        .build();
    domain.defer(|| panic!("one"));
    domain.defer(|| ());
    domain.barrier();
    assert_eq!(*seen.lock().expect("no panic"), ["one"]);
}

#[test]
fn panicking_hook_and_payload_are_survived() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("payload");
        }
    }
    let domain = Domain::builder()
        .on_panic(|_| std::panic::panic_any(Bomb))
        .build();
    for _ in 0..3 {
        domain.defer(|| panic!("destructor"));
    }
    let resumed = catch_unwind(AssertUnwindSafe(|| domain.barrier())).expect_err("resumed");
    std::mem::forget(resumed);
    assert_eq!(domain.stats().pending_objects, 0);
}

#[test]
fn retiring_while_panicking_runs_no_foreign_code() {
    let domain = Domain::new();
    let (dropped, bump) = count();
    let inner = domain.clone();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _retires = OnDrop(|| {
            for _ in 0..1_000 {
                inner.defer(bump.clone());
            }
        });
        panic!("unwinding");
    }));
    assert!(unwound.is_err());
    assert_eq!(dropped.load(SeqCst), 0);
    domain.barrier();
    assert_eq!(dropped.load(SeqCst), 1_000);
}

#[test]
fn leaked_guard_is_no_obstacle_to_closing() {
    let domain = Domain::new();
    let (dropped, bump) = count();
    std::mem::forget(domain.enter());
    for _ in 0..320 {
        domain.defer(bump.clone());
    }
    drop(domain);
    assert_eq!(dropped.load(SeqCst), 320);
}

#[test]
fn thread_that_dies_inside_a_leaked_guard_holds_garbage_back_until_the_close() {
    let domain = Domain::new();
    let (dropped, bump) = count();
    thread::scope(|scope| {
        scope.spawn(|| std::mem::forget(domain.enter()));
    });
    domain.defer(bump);
    let period = domain.start_grace_period();
    assert!(!period.has_elapsed());
    assert_eq!(domain.stats().readers, 1);
    drop(domain);
    assert_eq!(dropped.load(SeqCst), 1);
    assert!(period.has_elapsed());
}

#[test]
fn cells_outlive_their_domain() {
    let domain = Domain::new();
    let (dropped, bump) = count();
    let cells: Vec<_> = (0..10)
        .map(|_| RcuCell::new_in(OnDrop(bump.clone()), &domain))
        .collect();
    drop(domain);
    cells[0].replace(OnDrop(bump));
    assert_eq!(dropped.load(SeqCst), 1);
    let elsewhere = thread::spawn(move || drop(cells));
    elsewhere.join().expect("no panic");
    assert_eq!(dropped.load(SeqCst), 11);
}

#[test]
fn chain_that_unwinds_at_the_close_or_after_it_takes_no_stack() {
    struct Link {
        _next: Option<RcuCell<Link, Domain>>,
    }
    for after in [false, true] {
        let domain = Domain::new();
        let mut head = None;
        for _ in 0..300_000 {
            head = Some(RcuCell::new_in(Link { _next: head }, &domain));
        }
        if after {
            drop(domain);
            drop(head);
        } else {
            drop(head);
            drop(domain);
        }
    }
}

#[test]
fn domain_may_close_in_a_destructor_of_its_own_or_another() {
    let (dropped, bump) = count();
    let outer = Domain::new();
    let inner = Domain::new();
    inner.defer(bump.clone());
    let last = bump.clone();
    outer.defer(move || {
        inner.defer(last);
        drop(inner);
    });
    outer.barrier();
    assert_eq!(dropped.load(SeqCst), 2);
    let own = outer.clone();
    outer.defer(move || drop(own));
    // What is retired keeps the domain open while it holds a handle of it.
    outer.barrier();
    drop(outer);
}

#[test]
fn last_handle_may_go_on_the_worker() {
    let (dropped, bump) = count();
    let domain = Domain::builder()
        .worker(true)
        .max_delay(std::time::Duration::from_millis(1))
        .build();
    let last = domain.clone();
    domain.defer(move || {
        last.defer(bump);
        drop(last);
    });
    drop(domain);
    while dropped.load(SeqCst) == 0 {
        thread::yield_now();
    }
}

/// Runs `work` in a thread-local destructor that comes before or after this crate's own.
fn in_thread_local_destructor(before: bool, work: impl FnOnce() + Send + 'static) {
    type Work = Box<dyn FnOnce()>;
    struct Late(RefCell<Option<Work>>);
    impl Drop for Late {
        fn drop(&mut self) {
            if let Some(work) = self.0.take() {
                work();
            }
        }
    }
    thread_local! { static LATE: Late = const { Late(RefCell::new(None)) }; }
    let thread = thread::spawn(move || {
        // Destructors run in reverse order of the first use, or in any order: both ways around are tried.
        if before {
            drop(graceperiod::enter());
        }
        LATE.with(|late| *late.0.borrow_mut() = Some(Box::new(work)));
        drop(graceperiod::enter());
    });
    thread.join().expect("no panic");
}

#[test]
fn thread_local_destructors_may_use_everything() {
    for before in [true, false] {
        let domain = Domain::new();
        let (dropped, bump) = count();
        let inner = domain.clone();
        in_thread_local_destructor(before, move || {
            let guard = inner.enter();
            let again = inner.enter();
            drop(guard);
            drop(again);
            let reader = inner.reader();
            drop(reader.enter());
            drop(reader);
            for _ in 0..1_000 {
                inner.defer(bump.clone());
            }
            inner.synchronize();
            inner.barrier();
            inner.defer(bump);
        });
        assert!(dropped.load(SeqCst) >= 1_000);
        domain.barrier();
        assert_eq!(dropped.load(SeqCst), 1_001);
        assert_eq!(domain.stats().readers, 0);
    }
}

#[test]
fn guards_and_readers_held_by_thread_locals_keep_their_record() {
    type Held = (Guard<'static>, Reader<'static>);
    struct Holder(RefCell<Option<Held>>);
    impl Drop for Holder {
        fn drop(&mut self) {
            // Another thread must not have been given the record that these still use.
            let held = self.0.take();
            let stranger = thread::spawn(|| {
                let guard = graceperiod::enter();
                let period = graceperiod::start_grace_period();
                drop(guard);
                period
            });
            let period = stranger.join().expect("no panic");
            assert!(!period.has_elapsed());
            if let Some((guard, reader)) = held {
                drop(guard);
                drop(reader.enter());
            }
        }
    }
    thread_local! { static HOLDER: Holder = const { Holder(RefCell::new(None)) }; }
    for _ in 0..20 {
        thread::spawn(|| {
            HOLDER.with(|holder| {
                *holder.0.borrow_mut() = Some((graceperiod::enter(), graceperiod::reader()));
            });
        })
        .join()
        .expect("no panic");
    }
}

#[test]
fn thousand_threads_leave_nothing_behind() {
    let domain = Domain::new();
    let (dropped, bump) = count();
    for _ in 0..10 {
        thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| {
                    let _guard = domain.enter();
                    domain.defer(bump.clone());
                });
            }
        });
    }
    domain.barrier();
    assert_eq!(dropped.load(SeqCst), 1_000);
    assert_eq!(domain.stats().readers, 0);
}
