//! Waiting without blocking a thread.

use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use graceperiod::Domain;

/// Wakes the thread that runs the task.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let begun = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "never woken");
        thread::park_timeout(Duration::from_secs(10));
    }
}

/// Counts wakes, and may panic.
struct Counted {
    wakes: AtomicUsize,
    panics: bool,
}

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, SeqCst);
        assert!(!self.panics, "a waker's");
    }
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "not {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn awaited_grace_period_ends_after_the_readers_that_lived() {
    let domain = Domain::new();
    let (inside, is_inside) = mpsc::channel();
    let left = Arc::new(AtomicBool::new(false));
    let reader = {
        let (domain, left) = (domain.clone(), Arc::clone(&left));
        thread::spawn(move || {
            let guard = domain.enter();
            inside.send(()).expect("the test waits");
            thread::sleep(Duration::from_millis(50));
            left.store(true, SeqCst);
            drop(guard);
        })
    };
    is_inside.recv().expect("enters");
    let period = domain.start_grace_period();
    block_on(period.into_future());
    assert!(left.load(SeqCst));
    reader.join().expect("no panic");
    // One that has elapsed is ready at once.
    let period = domain.start_grace_period();
    period.wait();
    block_on(async move { period.await });
}

#[test]
fn nobody_else_need_do_anything_for_a_waiting_task() {
    let domain = Domain::new();
    // A thread that idles unparked, so that the first attempts are in vain.
    let (done, idle) = mpsc::channel::<()>();
    let other = {
        let domain = domain.clone();
        thread::spawn(move || {
            drop(domain.enter());
            let _ended = idle.recv();
        })
    };
    for _ in 0..20 {
        drop(domain.enter());
        let period = domain.start_grace_period();
        block_on(period.into_future());
    }
    drop(done);
    other.join().expect("no panic");
}

#[test]
fn many_tasks_wait_for_one_reader_and_the_one_that_is_dropped_is_forgotten() {
    let domain = Domain::new();
    let guard = domain.enter();
    let counted = Arc::new(Counted {
        wakes: AtomicUsize::new(0),
        panics: false,
    });
    let waker = Waker::from(Arc::clone(&counted));
    let mut context = Context::from_waker(&waker);
    let mut tasks: Vec<_> = (0..10)
        .map(|_| Box::pin(domain.start_grace_period().into_future()))
        .collect();
    for task in &mut tasks {
        assert!(task.as_mut().poll(&mut context).is_pending());
        assert!(task.as_mut().poll(&mut context).is_pending());
    }
    tasks.truncate(8);
    thread::sleep(Duration::from_millis(5));
    assert_eq!(counted.wakes.load(SeqCst), 0);
    drop(guard);
    eventually("woken", || counted.wakes.load(SeqCst) == 8);
    for task in &mut tasks {
        assert!(task.as_mut().poll(&mut context).is_ready());
    }
}

#[test]
fn panicking_waker_goes_to_the_domains_barrier() {
    let domain = Domain::new();
    let guard = domain.enter();
    let counted = Arc::new(Counted {
        wakes: AtomicUsize::new(0),
        panics: true,
    });
    let waker = Waker::from(Arc::clone(&counted));
    let mut task = Box::pin(domain.start_grace_period().into_future());
    let pending = Pin::as_mut(&mut task).poll(&mut Context::from_waker(&waker));
    assert!(pending.is_pending());
    drop(guard);
    eventually("told", || domain.stats().panics == 1);
    let resumed = std::panic::catch_unwind(|| domain.barrier()).expect_err("resumed");
    assert_eq!(
        *resumed.downcast_ref::<&str>().expect("a message"),
        "a waker's"
    );
    // The driver has survived.
    block_on(domain.start_grace_period().into_future());
}

#[test]
fn awaited_barrier_covers_what_was_retired_and_resumes_panics() {
    let domain = Domain::new();
    let dropped = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let dropped = Arc::clone(&dropped);
        domain.defer(move || {
            dropped.fetch_add(1, SeqCst);
        });
    }
    block_on(domain.barrier_async());
    assert_eq!(dropped.load(SeqCst), 100);
    domain.defer(|| panic!("a destructor's"));
    let waits = domain.barrier_async();
    let resumed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| block_on(waits)))
        .expect_err("resumed");
    assert_eq!(
        *resumed.downcast_ref::<&str>().expect("a message"),
        "a destructor's"
    );
    block_on(graceperiod::barrier_async());
}

#[test]
fn barrier_that_nobody_awaits_any_more_goes_on() {
    let domain = Domain::new();
    let dropped = Arc::new(AtomicBool::new(false));
    let note = Arc::clone(&dropped);
    let guard = domain.enter();
    domain.defer(move || note.store(true, SeqCst));
    drop(guard);
    let mut barrier = Box::pin(domain.barrier_async());
    let _polled = barrier
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    drop(barrier);
    eventually("dropped", || dropped.load(SeqCst));
}

#[test]
#[should_panic(expected = "barrier_async() inside a guard")]
fn barrier_inside_a_guard_panics_at_the_call() {
    let domain = Domain::new();
    let _guard = domain.enter();
    drop(domain.barrier_async());
}
