//! Guards that go from thread to thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;

use graceperiod::{Domain, Global, OwnedGuard, RcuCell};

fn assert_send_sync_static<T: Send + Sync + 'static>(_: &T) {}

#[test]
fn owned_guards_may_go_anywhere_and_lend_ordinary_ones() {
    let cell = Arc::new(RcuCell::new(1));
    let guard = graceperiod::enter_owned();
    assert_send_sync_static(&guard);
    let seen = cell.load(guard.as_guard());
    cell.replace(2);
    assert_eq!(*seen, 1);
    let other = Arc::clone(&cell);
    let guard = thread::spawn(move || {
        assert_eq!(*other.load(guard.as_guard()), 2);
        guard
    })
    .join()
    .expect("no panic");
    assert_eq!(*cell.load(guard.as_guard()), 2);
    assert!(format!("{guard:?}").contains("OwnedGuard"));
}

#[test]
fn grace_period_waits_for_an_owned_guard_on_whichever_thread_it_is() {
    let domain = Domain::new();
    let guard = domain.clone().into_guard();
    let period = domain.start_grace_period();
    let (send, receive) = mpsc::channel::<OwnedGuard<'static, Domain>>();
    let (let_go, wait) = mpsc::channel::<()>();
    let holder = thread::spawn(move || {
        let guard = receive.recv().expect("sent");
        wait.recv().expect("told");
        drop(guard);
    });
    send.send(guard).expect("received");
    for _ in 0..1_000 {
        assert!(!period.has_elapsed());
    }
    // The thread that entered isn't inside any more, so it may wait.
    let waiter = {
        let domain = domain.clone();
        thread::spawn(move || domain.synchronize())
    };
    assert_eq!(domain.stats().readers, 1);
    let_go.send(()).expect("waits");
    holder.join().expect("no panic");
    waiter.join().expect("no panic");
    assert!(period.has_elapsed());
    assert_eq!(domain.stats().readers, 0);
}

#[test]
fn refresh_moves_an_owned_guard_to_the_present() {
    let domain = Domain::new();
    let mut guard = domain.enter_owned();
    let period = domain.start_grace_period();
    assert!(!period.has_elapsed());
    // Other guards of the thread are no obstacle: the owned one has a record of its own.
    let nested = domain.enter();
    drop(nested);
    while !period.has_elapsed() {
        guard.refresh();
    }
    drop(guard);
}

#[test]
fn clones_of_a_lent_guard_enter_on_their_own() {
    let domain = Domain::new();
    let guard = domain.enter_owned();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    let clone = guard.as_guard().clone();
                    let nested = clone.clone();
                    drop(clone);
                    drop(nested);
                }
            });
        }
    });
    let clone = guard.as_guard().clone();
    assert_eq!(domain.stats().readers, 2);
    drop(clone);
    assert_eq!(domain.stats().readers, 1);
    drop(guard);
    assert_eq!(domain.stats().readers, 0);
    domain.synchronize();
}

#[test]
fn owned_guards_use_records_again() {
    let domain = Domain::new();
    for _ in 0..20 {
        let guards: Vec<_> = (0..500).map(|_| domain.enter_owned()).collect();
        assert_eq!(domain.stats().readers, 500);
        drop(guards);
    }
    assert_eq!(domain.stats().readers, 0);
    // Ten thousand guards one after the other need one record; a barrier walks all that there are.
    for _ in 0..10_000 {
        drop(domain.enter_owned());
    }
    domain.barrier();
}

#[test]
fn owned_guard_holds_its_domain_open() {
    let dropped = Arc::new(AtomicBool::new(false));
    let domain = Domain::new();
    let cell = RcuCell::new_in(String::from("kept"), &domain);
    let note = Arc::clone(&dropped);
    domain.defer(move || note.store(true, SeqCst));
    let guard = domain.into_guard();
    cell.replace(String::from("new"));
    assert_eq!(cell.load(guard.as_guard()), "new");
    assert!(!dropped.load(SeqCst));
    drop(guard);
    assert!(dropped.load(SeqCst), "the last handle closes the domain");
}

#[test]
fn owned_guards_protect_what_writers_replace() {
    struct Poisoned(AtomicUsize);
    impl Drop for Poisoned {
        fn drop(&mut self) {
            self.0.store(usize::MAX, SeqCst);
        }
    }
    let domain = Domain::new();
    let cell = RcuCell::new_in(Poisoned(AtomicUsize::new(0)), &domain);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (send, receive) = mpsc::sync_channel::<OwnedGuard<'_, Domain>>(4);
        let (cell, domain, stop) = (&cell, &domain, &stop);
        scope.spawn(move || {
            while !stop.load(SeqCst) {
                let guard = domain.enter_owned();
                assert_ne!(cell.load(guard.as_guard()).0.load(SeqCst), usize::MAX);
                if send.send(guard).is_err() {
                    return;
                }
            }
        });
        scope.spawn(move || {
            for guard in receive {
                let value = cell.load(guard.as_guard());
                for _ in 0..20 {
                    assert_ne!(value.0.load(SeqCst), usize::MAX);
                }
            }
        });
        for n in 0..50_000 {
            cell.replace(Poisoned(AtomicUsize::new(n)));
        }
        stop.store(true, SeqCst);
    });
    let _same: OwnedGuard<'static> = Global.enter_owned();
}
