//! How much may wait, and who pays.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use graceperiod::{Domain, DropValues, OnLimit};

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
fn refresh_lets_a_slow_reader_drain() {
    let domain = Domain::new();
    let mut guard = domain.enter();
    for _ in 0..10_000 {
        domain.defer(|| ());
    }
    assert_eq!(domain.stats().pending_objects, 10_000);
    {
        let nested = domain.enter();
        assert!(!guard.refresh());
        drop(nested);
    }
    for _ in 0..20_000 {
        assert!(guard.refresh());
        domain.defer(|| ());
    }
    let pending = domain.stats().pending_objects;
    assert!(pending < 4_096, "{pending} objects wait");
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

#[test]
fn worker_mode_has_limits_too() {
    let domain = Domain::builder()
        .drop_values(DropValues::Worker)
        .limit_objects(1_000)
        .on_limit(OnLimit::Help {
            patience: Duration::from_micros(100),
        })
        .build();
    for _ in 0..4_000 {
        domain.defer(|| thread::sleep(Duration::from_micros(20)));
    }
    let stats = domain.stats();
    assert!(stats.limit_hits > 0, "{stats}");
}

#[test]
fn growth_inside_foreign_code_is_counted() {
    let domain = Domain::new();
    let inner = domain.clone();
    domain.defer(move || (0..100_000).for_each(|_| inner.defer(|| ())));
    domain.barrier();
    assert!(domain.stats().limit_hits > 0);
    domain.barrier();
}

#[test]
fn one_retirement_runs_a_stated_number_of_destructors() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    let domain = Domain::builder().max_delay(Duration::ZERO).build();
    domain.defer(|| ());
    thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = domain.enter();
            for _ in 0..200_000 {
                domain.defer(|| {
                    RAN.fetch_add(1, SeqCst);
                });
            }
        });
    });
    let mut most = 0;
    for _ in 0..10_000 {
        let before = RAN.load(SeqCst);
        domain.defer(|| ());
        most = most.max(RAN.load(SeqCst) - before);
    }
    assert!(RAN.load(SeqCst) > 10_000);
    assert!(
        most <= 1 + 32 + 256 + 1_024,
        "{most} destructors in one call"
    );
}

#[test]
fn large_objects_close_a_batch_early() {
    let domain = Domain::builder().limit_bytes(1 << 20).build();
    let mut peak = 0;
    for _ in 0..640 {
        domain.retire(vec![0_u8; 1 << 20].into_boxed_slice());
        peak = peak.max(domain.stats().pending_bytes);
    }
    assert!(peak <= 8 << 20, "{peak} bytes waited");
}

#[test]
fn help_in_vain_for_objects_is_no_excuse_for_bytes() {
    let domain = Domain::builder()
        .limit_objects(100)
        .limit_bytes(1 << 20)
        .on_limit(OnLimit::Help {
            patience: Duration::ZERO,
        })
        .build();
    let guard = domain.enter();
    for _ in 0..1_000 {
        domain.defer(|| ());
    }
    let hits = domain.stats().limit_hits;
    for _ in 0..64 {
        domain.retire(vec![0_u8; 1 << 20].into_boxed_slice());
    }
    assert!(domain.stats().limit_hits > hits);
    drop(guard);
    domain.barrier();
}
