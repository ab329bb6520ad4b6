//! What happens when a destructor panics, a thread dies, a guard leaks, a domain goes first.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use graceperiod::{Domain, DropValues, Guard, OnLimit, RcuCell, Reader};

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
fn leaked_owned_guard_is_no_obstacle_to_closing_or_to_whoever_waits_for_it() {
    let domain = Domain::new();
    let (dropped, bump) = count();
    let guard = domain.enter_owned();
    std::mem::forget(guard.as_guard().clone());
    std::mem::forget(guard);
    for _ in 0..320 {
        domain.defer(bump.clone());
    }
    let period = domain.start_grace_period();
    let waits = thread::spawn(move || period.wait());
    thread::sleep(std::time::Duration::from_millis(10));
    assert!(!waits.is_finished());
    drop(domain);
    assert_eq!(dropped.load(SeqCst), 320);
    waits.join().expect("no panic");
}

#[test]
fn what_a_closed_domain_is_given_goes_at_once_wherever_that_is() {
    let domain = Domain::new();
    let (dropped, bump) = count();
    let cell = RcuCell::new_in(OnDrop(bump.clone()), &domain);
    drop(domain);
    let scope = graceperiod::no_reclaim();
    cell.replace(OnDrop(bump.clone()));
    assert_eq!(dropped.load(SeqCst), 1, "nobody would come back for it");
    drop(scope);
    let guard = graceperiod::enter();
    cell.replace(OnDrop(bump));
    assert_eq!(
        dropped.load(SeqCst),
        2,
        "guards of others are no reason to wait"
    );
    drop(guard);
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

/// A domain whose hook owns something that panics when it is dropped.
fn domain_with_a_bomb() -> Domain {
    let bomb = OnDrop(|| panic!("in the hook's capture"));
    let hook = move |payload| {
        let _bomb = &bomb;
        drop::<Box<dyn std::any::Any + Send>>(payload);
    };
    Domain::builder().on_panic(hook).build()
}

#[test]
fn panic_in_a_hooks_capture_never_leaves_a_drop() {
    let domain = domain_with_a_bomb();
    let period = domain.start_grace_period();
    drop(domain);
    drop(period);
    let (outer, inner) = (Domain::new(), domain_with_a_bomb());
    let (dropped, bump) = count();
    outer.defer(move || drop(inner));
    for _ in 0..10 {
        outer.defer(bump.clone());
    }
    outer.barrier();
    outer.barrier();
    assert_eq!(dropped.load(SeqCst), 10);
}

#[test]
fn panic_in_a_stall_hooks_capture_never_leaves_a_drop() {
    let bomb = OnDrop(|| panic!("in the hook's capture"));
    let hook = move |_: &graceperiod::Stall| {
        let _bomb = &bomb;
    };
    let builder = Domain::builder().on_stall(std::time::Duration::from_secs(60), hook);
    let domain = builder.build();
    let cell = RcuCell::new_in(1, &domain);
    drop(domain);
    drop(cell);
}

#[test]
fn hook_that_takes_itself_off_loses_nothing() {
    let bomb = OnDrop(|| panic!("in the hook's capture"));
    graceperiod::Global.set_panic_hook(Some(Arc::new(move |_| {
        let _bomb = &bomb;
        graceperiod::Global.set_panic_hook(None);
    })));
    let (dropped, bump) = count();
    graceperiod::defer(|| panic!("first"));
    for _ in 0..10 {
        graceperiod::defer(bump.clone());
    }
    let resumed = catch_unwind(graceperiod::barrier);
    assert!(resumed.is_err());
    graceperiod::barrier();
    assert_eq!(dropped.load(SeqCst), 10);
}

#[test]
fn barrier_while_panicking_keeps_the_panic_for_the_next() {
    let domain = Domain::new();
    domain.defer(|| panic!("in a destructor"));
    let inner = domain.clone();
    let outer = catch_unwind(AssertUnwindSafe(move || {
        let _waits = OnDrop(move || inner.barrier());
        panic!("outer");
    }));
    assert!(outer.is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| domain.barrier())).is_err());
}

#[test]
fn entering_runs_nobodys_code() {
    let (dropped, bump) = count();
    for _ in 0..100 {
        let bump = OnDrop(bump.clone());
        let hook = move |_| {
            let _bump = &bump;
        };
        let domain = Domain::builder().on_panic(hook).build();
        drop(domain.enter());
        drop(domain);
    }
    let before = dropped.load(SeqCst);
    for _ in 0..100 {
        let domain = Domain::new();
        let guard = domain.enter();
        assert_eq!(dropped.load(SeqCst), before);
        drop(guard);
    }
    assert_eq!(before, 100);
}

#[test]
fn close_waits_for_a_destructor_that_another_thread_runs() {
    let domain = Domain::builder()
        .max_delay(std::time::Duration::from_millis(1))
        .build();
    let cell = RcuCell::new_in(0, &domain);
    let (dropped, bump) = count();
    let (begun, begins) = std::sync::mpsc::channel();
    domain.defer(move || {
        begun.send(()).expect("the test lives");
        thread::sleep(std::time::Duration::from_millis(100));
        bump();
    });
    thread::scope(|scope| {
        scope.spawn(move || {
            // Retires through the inner reference, until it has taken the closure over.
            (0..2_000_000).for_each(|value| cell.replace(value));
        });
        begins.recv().expect("the closure runs on the other thread");
        drop(domain);
        assert_eq!(dropped.load(SeqCst), 1);
    });
}

#[test]
fn chain_of_domains_that_close_each_other_takes_no_stack() {
    let mut domain = Domain::new();
    for _ in 0..20_000 {
        let next = Domain::new();
        next.retire(Box::new(domain));
        domain = next;
    }
    drop(domain);
}

#[test]
fn workers_that_drop_each_others_domain_both_end() {
    let [a, b] = [(), ()].map(|()| Domain::builder().drop_values(DropValues::Worker).build());
    let meet = Arc::new(std::sync::Barrier::new(2));
    let (done, dones) = std::sync::mpsc::channel();
    for (domain, other) in [(&a, b.clone()), (&b, a.clone())] {
        let (meet, done) = (Arc::clone(&meet), done.clone());
        domain.defer(move || {
            meet.wait();
            drop(other);
        });
        domain.defer(move || done.send(()).expect("the test lives"));
    }
    drop((a, b, done));
    let timeout = std::time::Duration::from_secs(60);
    assert!(dones.recv_timeout(timeout).is_ok());
    assert!(dones.recv_timeout(timeout).is_ok());
}

#[test]
fn sizes_may_be_anything() {
    unsafe fn nothing(_: std::ptr::NonNull<()>) {}
    let domain = Domain::new();
    for _ in 0..200 {
        // SAFETY: `nothing` may be called with anything, anywhere.
        unsafe { domain.retire_raw(std::ptr::NonNull::dangling(), nothing, usize::MAX) };
    }
    domain.barrier();
    assert_eq!(domain.stats().pending_bytes, 0);
}

#[test]
fn worker_name_that_no_thread_can_have_is_an_error() {
    let refused = Domain::builder().name("a\0b").worker(true).try_build();
    assert_eq!(
        refused.map(drop).map_err(|error| error.kind()),
        Err(std::io::ErrorKind::InvalidInput)
    );
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
fn misuse_and_guards_are_seen_in_thread_local_destructors_too() {
    for before in [true, false] {
        let (told, tells) = std::sync::mpsc::channel();
        in_thread_local_destructor(before, move || {
            let patience = std::time::Duration::from_secs(60);
            let domain = Domain::builder()
                .limit_objects(10)
                .on_limit(OnLimit::Help { patience })
                .build();
            let _guard = domain.enter();
            let calls: [&dyn Fn(); 3] = [&|| domain.synchronize(), &|| domain.barrier(), &|| {
                domain.start_grace_period().wait()
            }];
            for call in calls {
                let refused = catch_unwind(AssertUnwindSafe(call)).is_err();
                told.send(refused).expect("the test lives");
            }
            // Inside its own guard a thread is never made to wait at its limit.
            (0..200).for_each(|_| domain.defer(|| ()));
        });
        assert_eq!(tells.iter().collect::<Vec<_>>(), [true; 3]);
    }
}

#[test]
fn dying_threads_never_share_a_record() {
    let domain = Domain::new();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let domain = domain.clone();
            thread::spawn(move || {
                in_thread_local_destructor(true, move || {
                    for _ in 0..20_000 {
                        drop(domain.enter());
                    }
                });
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(domain.stats().readers, 0);
    domain.synchronize();
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
