//! How much may wait, and who pays.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use graceperiod::{Domain, OnLimit};

#[test]
fn two_writers_outside_guards_stay_below_8192_waiting_objects() {
    let domain = Domain::new();
    let stop = AtomicBool::new(false);
    let mut peaks: Vec<u64> = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    domain.retire(Box::new([0_u64; 4]));
                }
            });
        }
        let peaks = (0..200)
            .map(|_| {
                thread::sleep(Duration::from_micros(500));
                domain.stats().pending_objects
            })
            .collect();
        stop.store(true, SeqCst);
        peaks
    });
    // The sampler itself may be preempted between its two sums, so single samples prove nothing.
    peaks.sort_unstable();
    let most = peaks[peaks.len() * 9 / 10];
    assert!(most <= 8_192, "{most} objects waited");
}

#[test]
fn stalled_reader_makes_the_backlog_grow_and_that_is_counted() {
    let domain = Domain::builder()
        .on_limit(OnLimit::Help {
            patience: Duration::from_micros(100),
        })
        .limit_objects(1_000)
        .build();
    let (stop, inside) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = domain.enter();
            inside.store(true, SeqCst);
            while !stop.load(SeqCst) {
                thread::yield_now();
            }
        });
        while !inside.load(SeqCst) {
            thread::yield_now();
        }
        let begun = Instant::now();
        for _ in 0..100_000 {
            domain.defer(|| ());
        }
        let stats = domain.stats();
        assert_eq!(stats.pending_objects, 100_000);
        // Help is asked for again only when the backlog has doubled, so a stall isn't paid for at every batch.
        assert!((1..=16).contains(&stats.limit_hits), "{stats}");
        assert!(begun.elapsed() < Duration::from_secs(5));
        stop.store(true, SeqCst);
    });
    for _ in 0..100_000 {
        domain.defer(|| ());
    }
    let pending = domain.stats().pending_objects;
    assert!(pending < 8_192, "{pending} objects wait after the stall");
}

#[test]
fn bytes_count_towards_the_limit() {
    let domain = Domain::builder()
        .limit_bytes(1 << 20)
        .on_limit(OnLimit::Help {
            patience: Duration::ZERO,
        })
        .build();
    let guard = domain.enter();
    for _ in 0..256 {
        domain.retire(Box::new([0_u8; 16 << 10]));
    }
    assert!(domain.stats().limit_hits > 0);
    assert_eq!(domain.stats().pending_bytes, 4 << 20);
    drop(guard);
    domain.barrier();
    assert_eq!(domain.stats().pending_bytes, 0);
}

#[test]
fn updates_that_each_enter_and_leave_stay_bounded_though_they_retire_inside() {
    let domain = Domain::new();
    for _ in 0..200_000 {
        let _guard = domain.enter();
        domain.defer(|| ());
    }
    let pending = domain.stats().pending_objects;
    assert!(pending < 8_192, "{pending} objects wait");
}

#[test]
fn backlog_of_an_idle_thread_is_taken_over_by_one_that_retires() {
    let domain = Domain::builder()
        .max_delay(Duration::from_millis(1))
        .build();
    static DROPPED: AtomicBool = AtomicBool::new(false);
    let dropped = &DROPPED;
    let (idle, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            domain.defer(|| dropped.store(true, SeqCst));
            idle.store(true, SeqCst);
            while !stop.load(SeqCst) {
                thread::yield_now();
            }
        });
        while !idle.load(SeqCst) {
            thread::yield_now();
        }
        while !dropped.load(SeqCst) {
            domain.defer(|| ());
        }
        stop.store(true, SeqCst);
    });
}
