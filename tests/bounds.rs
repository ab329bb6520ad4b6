//! How much may wait, and who pays.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use graceperiod::{
    AfterGrace, Batch, Domain, Drain, DropQueue, DropValues, OnLimit, RcuCell, RcuOption, Slab,
};

/// What `writers` busy threads keep waiting while they retire outside guards, in nine samples of ten: the sampler may be
/// preempted between its two sums, so single samples prove nothing.
fn peak_of(writers: usize) -> u64 {
    let domain = Domain::new();
    let stop = AtomicBool::new(false);
    let mut peaks: Vec<u64> = thread::scope(|scope| {
        for _ in 0..writers {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    domain.retire(Box::new([0_u64; 4]));
                    domain.retire(Box::new(String::from("with a destructor")));
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
    peaks.sort_unstable();
    peaks[peaks.len() * 9 / 10]
}

#[test]
fn two_writers_outside_guards_stay_below_8192_waiting_objects() {
    let most = peak_of(2);
    assert!(most <= 8_192, "{most} objects waited");
}

#[test]
fn eight_writers_outside_guards_stay_below_12288_waiting_objects() {
    let most = peak_of(8);
    assert!(most <= 12_288, "{most} objects waited");
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
        most <= 8 + 128 + 256 + 1_024,
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

/// A reader of `domain` on a thread of its own, which stays until it is told to go.
struct StalledReader {
    go: mpsc::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl StalledReader {
    fn inside(domain: &Domain) -> Self {
        let domain = domain.clone();
        let (inside, is_inside) = mpsc::channel();
        let (go, gone) = mpsc::channel();
        let thread = thread::spawn(move || {
            let _guard = domain.enter();
            inside.send(()).expect("the test waits");
            let _told = gone.recv();
        });
        is_inside.recv().expect("the reader enters");
        Self { go, thread }
    }

    fn leave(self) {
        self.go.send(()).expect("the reader waits");
        self.thread.join().expect("no panic");
    }
}

#[test]
fn waiting_at_the_limit_bounds_the_backlog_whatever_readers_do() {
    let domain = Domain::builder()
        .on_limit(OnLimit::Wait)
        .limit_objects(1_000)
        .build();
    let reader = StalledReader::inside(&domain);
    let most = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..10_000 {
                domain.defer(|| ());
            }
        });
        let mut most = 0;
        for _ in 0..50 {
            thread::sleep(Duration::from_millis(1));
            most = most.max(domain.stats().pending_objects);
        }
        assert!(!writer.is_finished(), "the writer didn't wait");
        reader.leave();
        writer.join().expect("no panic");
        most
    });
    assert!((900..=1_128).contains(&most), "{most} objects waited");
    assert_eq!(domain.stats().limit_hits, 0);
}

#[test]
fn waiting_at_the_limit_never_waits_for_the_threads_own_guard_or_destructor() {
    let domain = Domain::builder()
        .on_limit(OnLimit::Wait)
        .limit_objects(200)
        .build();
    let guard = domain.enter();
    for _ in 0..1_000 {
        domain.defer(|| ());
    }
    assert!(domain.stats().limit_hits > 0);
    assert!(domain.try_permit(1).is_err());
    drop(guard);
    let inner = domain.clone();
    domain.defer(move || {
        for _ in 0..1_000 {
            inner.defer(|| ());
        }
    });
    domain.barrier();
    assert_eq!(domain.drain().left, 0);
    assert_eq!(domain.stats().pending_objects, 0);
}

#[test]
fn failing_at_the_limit_is_said_before_anything_is_unlinked() {
    let domain = Domain::builder()
        .on_limit(OnLimit::Fail)
        .limit_objects(256)
        .build();
    let reader = StalledReader::inside(&domain);
    let mut permit = domain.try_permit(200).expect("nothing waits");
    assert_eq!(
        domain.try_permit(57).map(drop),
        Err(domain.try_permit(57).expect_err("no room"))
    );
    drop(domain.try_permit(56).expect("just fits"));
    for _ in 0..200 {
        permit.retire(Box::new([0_u64; 4]));
    }
    assert_eq!(permit.left(), 0);
    // Used up, so it holds no room any more.
    assert!(domain.try_permit(57).is_err());
    assert!(domain.try_permit(56).is_ok());
    drop(permit);
    let begun = Instant::now();
    for _ in 0..10_000 {
        domain.defer(|| ());
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "nobody waits");
    assert!(domain.stats().limit_hits > 0);
    let cell = RcuCell::new_in(1, &domain);
    assert_eq!(cell.try_replace(2), Err(2));
    let option = RcuOption::new_in(Some(1), &domain);
    assert_eq!(option.try_replace(None), Err(None));
    reader.leave();
    domain.barrier();
    assert_eq!(cell.try_replace(2), Ok(()));
    assert_eq!(option.try_replace(Some(2)), Ok(()));
    assert_eq!(*cell.load(&domain.enter()), 2);
}

#[test]
fn bytes_refuse_a_permit_as_well() {
    let domain = Domain::builder()
        .on_limit(OnLimit::Fail)
        .limit_bytes(1 << 16)
        .build();
    let reader = StalledReader::inside(&domain);
    for _ in 0..16 {
        assert!(domain.try_permit(1).is_ok());
        domain.retire(Box::new([0_u8; 1 << 12]));
    }
    domain.retire(Box::new(0_u8));
    assert!(domain.try_permit(1).is_err());
    reader.leave();
    assert!(
        domain.try_permit(1).is_ok() || {
            domain.barrier();
            domain.try_permit(1).is_ok()
        }
    );
}

#[test]
#[should_panic(expected = "used up")]
fn permit_that_is_used_up_says_so() {
    let domain = Domain::new();
    let mut permit = domain.try_permit(1).expect("nothing waits");
    permit.defer(|| ());
    permit.defer(|| ());
}

#[test]
fn no_destructor_runs_inside_a_no_reclaim_scope() {
    let dropped = Arc::new(AtomicUsize::new(0));
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let counted = || Counted(Arc::clone(&dropped));
    let domain = Domain::new();
    let slab: Slab<(), Counted, AfterGrace, Domain> = Slab::builder().domain(&domain).build(|_| ());
    let queue = DropQueue::builder()
        .batch(4)
        .limit(8)
        .drain(Drain::Inline)
        .build()
        .expect("valid");
    let outer = domain.no_reclaim();
    let scope = graceperiod::no_reclaim();
    drop(outer);
    for _ in 0..5_000 {
        domain.retire(Box::new(counted()));
        drop(slab.insert(counted()));
        queue.push(counted()).expect("open");
    }
    assert_eq!(dropped.load(SeqCst), 0);
    drop(scope);
    queue.push(counted()).expect("open");
    assert!(dropped.load(SeqCst) > 0, "the queue has gone on");
    let so_far = dropped.load(SeqCst);
    for _ in 0..5_000 {
        domain.retire(Box::new(counted()));
    }
    assert!(
        dropped.load(SeqCst) > so_far + 1_000,
        "and so has the domain"
    );
    queue.stop().expect("no panic");
    domain.barrier();
    assert_eq!(dropped.load(SeqCst), 20_001);
}

#[test]
fn handler_that_retires_doesnt_pile_its_garbage_up() {
    let domain = Domain::new();
    let inner = domain.clone();
    let queue = DropQueue::builder()
        .drain(Drain::Inline)
        .handler(move |batch: Batch<'_, u64>| {
            for item in batch {
                inner.retire(Box::new([item; 4]));
                inner.retire(Box::new(String::from("with a destructor")));
            }
        })
        .build()
        .expect("valid");
    let mut most = 0;
    for item in 0..200_000_u64 {
        queue.push(item).expect("open");
        if item % 1_000 == 0 {
            most = most.max(domain.stats().pending_objects);
        }
    }
    assert!(most < 8_192, "{most} objects waited");
}

#[test]
fn destructor_that_retires_doesnt_pile_its_garbage_up() {
    struct Retires(Domain);
    impl Drop for Retires {
        fn drop(&mut self) {
            self.0.retire(Box::new(String::from("left")));
            self.0.retire(Box::new(String::from("right")));
        }
    }
    let domain = Domain::new();
    let slab: Slab<(), Retires> = Slab::new(|_| ());
    let mut most = 0;
    for n in 0..200_000 {
        drop(slab.insert(Retires(domain.clone())));
        if n % 1_000 == 0 {
            most = most.max(domain.stats().pending_objects);
        }
    }
    assert!(most < 8_192, "{most} objects waited");
}
