//! Steps that no user can make happen in a given order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use super::Domain;
use super::batch::List;

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A thread that retired through an inner reference has taken a backlog over when the domain closes.
#[test]
fn take_over_that_the_close_overtakes_loses_nothing() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let domain = Domain::new();
    let core = Arc::clone(&domain.core);
    std::thread::scope(|scope| {
        scope.spawn(|| domain.retire(Box::new(Counted(Arc::clone(&dropped)))));
    });
    let mine = core.borrow_record();
    let mark = mine.own.running.begin();
    let mut found = List::default();
    for node in &core.records {
        if let Some(taken) = node.value.own.backlog.try_take() {
            found.append(&mut core.empty(&node.value.own, taken));
        }
    }
    assert_eq!(found.objects(), 1);
    let closer = std::thread::spawn(move || drop(domain));
    std::thread::sleep(Duration::from_millis(20));
    core.deposit(mine.owner(), found);
    drop(mark);
    drop(mine);
    closer.join().expect("no panic");
    assert_eq!(dropped.load(SeqCst), 1);
    assert_eq!(core.stats().pending_objects, 0);
}

#[test]
fn forks_cost_each_retiring_thread_one_record_more_at_most() {
    let domain = Domain::new();
    let stop = AtomicBool::new(false);
    let retired = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    domain.retire(Box::new(retired.fetch_add(1, SeqCst)));
                }
            });
        }
        for _ in 0..50 {
            let before = retired.load(SeqCst);
            while retired.load(SeqCst) < before + 10 {
                std::thread::yield_now();
            }
            // SAFETY: nobody forks.
            let guard = unsafe { crate::prepare_fork() };
            std::thread::sleep(Duration::from_millis(1));
            drop(guard);
        }
        stop.store(true, SeqCst);
    });
    assert!(domain.core.records.iter().count() <= 6);
    domain.barrier();
    assert_eq!(domain.stats().dropped, retired.load(SeqCst) as u64);
}
