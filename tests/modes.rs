//! Who makes the fences: readers, or those who wait for them.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use graceperiod::{Domain, ReaderFences};

/// Runs `work` while four threads enter the domain every now and then.
fn beside_sporadic_readers(domain: &Domain, work: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    drop(domain.enter());
                    thread::sleep(Duration::from_micros(100));
                }
            });
        }
        work();
        stop.store(true, SeqCst);
    });
}

/// Makes grace periods until `done`, for ten seconds at most.
fn synchronize_until(domain: &Domain, done: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !done() && begun.elapsed() < Duration::from_secs(10) {
        domain.synchronize();
    }
    done()
}

#[test]
fn readers_fence_while_the_alternative_costs_more() {
    let domain = Domain::new();
    let fences = || domain.stats().readers_fence;
    assert!(!fences());
    beside_sporadic_readers(&domain, || {
        assert!(synchronize_until(&domain, fences), "{}", domain.stats());
        // For a while nobody makes a heavy fence for them, but for words from before.
        let before = domain.stats().heavy_fences;
        for _ in 0..100 {
            domain.synchronize();
        }
        let more = domain.stats().heavy_fences - before;
        assert!(more < 50, "{more} heavy fences in 100 grace periods");
    });
    assert!(
        synchronize_until(&domain, || !fences()),
        "{}",
        domain.stats()
    );
}

#[test]
fn readers_that_fence_always_need_no_heavy_fence() {
    let domain = Domain::builder().reader_fences(ReaderFences::Full).build();
    beside_sporadic_readers(&domain, || {
        for _ in 0..1_000 {
            domain.synchronize();
        }
    });
    let stats = domain.stats();
    assert!(stats.readers_fence);
    assert_eq!(stats.heavy_fences, 0);
}

#[test]
fn readers_that_never_fence_are_parked_each_time() {
    let domain = Domain::builder().reader_fences(ReaderFences::Light).build();
    beside_sporadic_readers(&domain, || {
        assert!(synchronize_until(&domain, || domain.stats().heavy_fences > 100));
    });
    assert!(!domain.stats().readers_fence);
}
