//! Waiting without blocking a thread.

#[path = "futures/pool.rs"]
mod pool;

use std::future::{Future, IntoFuture};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use graceperiod::{Domain, RcuCell};
use pool::{Pool, yield_now};

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

fn poll_with(
    task: &mut (impl Future<Output = ()> + Unpin),
    wake: &Arc<impl Wake + Send + Sync + 'static>,
) -> Poll<()> {
    let waker = Waker::from(Arc::clone(wake));
    Pin::new(task).poll(&mut Context::from_waker(&waker))
}

/// Runs a closure when it is woken, and keeps the name of the thread on which that was.
struct OnWake<F>(F, Mutex<Option<String>>);

impl<F: Fn() + Send + Sync + 'static> OnWake<F> {
    fn new(f: F) -> Arc<Self> {
        Arc::new(Self(f, Mutex::new(None)))
    }

    fn thread(&self) -> Option<String> {
        self.1.lock().expect("no panic").clone()
    }
}

impl<F: Fn() + Send + Sync + 'static> Wake for OnWake<F> {
    fn wake(self: Arc<Self>) {
        let name = thread::current().name().map(String::from);
        *self.1.lock().expect("no panic") = name;
        (self.0)();
    }
}

/// What a waker does when it is cloned.
static ON_CLONE: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

static CLONED: RawWakerVTable = RawWakerVTable::new(
    |_| {
        let work = ON_CLONE.lock().expect("no panic").take();
        if let Some(work) = work {
            work();
        }
        RawWaker::new(std::ptr::null(), &CLONED)
    },
    |_| (),
    |_| (),
    |_| (),
);

#[test]
fn waker_that_is_slow_to_clone_holds_nobody_up() {
    let domain = Domain::new();
    let guard = domain.clone().into_guard();
    let [mut first, mut second] = [(); 2].map(|()| domain.start_grace_period().into_future());
    let woken = [(); 2].map(|()| OnWake::new(|| ()));
    assert!(poll_with(&mut first, &woken[0]).is_pending());
    assert!(poll_with(&mut second, &woken[1]).is_pending());
    // While the second waker of the first task is being cloned, the period ends.
    let told = Arc::clone(&woken[1]);
    *ON_CLONE.lock().expect("no panic") = Some(Box::new(move || {
        drop(guard);
        eventually("woken while another waker was cloned", || {
            told.thread().is_some()
        });
    }));
    // SAFETY: the table's functions do nothing with the pointer.
    let waker = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &CLONED)) };
    let _polled = Pin::new(&mut first).poll(&mut Context::from_waker(&waker));
}

#[test]
fn wakers_run_on_the_helper_thread_whoever_completes_the_period() {
    let domain = Domain::new();
    let guard = domain.enter_owned();
    let mut task = domain.start_grace_period().into_future();
    let woken = OnWake::new(|| ());
    assert!(poll_with(&mut task, &woken).is_pending());
    drop(guard);
    domain.synchronize();
    eventually("woken", || woken.thread().is_some());
    assert_eq!(woken.thread().as_deref(), Some("graceperiod-driver"));
    assert!(poll_with(&mut task, &woken).is_ready());
}

#[test]
fn future_that_is_dropped_keeps_no_waker() {
    let domain = Domain::new();
    let guard = domain.enter();
    let mut task = domain.start_grace_period().into_future();
    let [first, second] = [(); 2].map(|()| OnWake::new(|| ()));
    assert!(poll_with(&mut task, &first).is_pending());
    assert!(poll_with(&mut task, &second).is_pending());
    assert_eq!(Arc::strong_count(&first), 1, "only the last waker counts");
    drop(task);
    // The driver may have its hand on it.
    eventually("let go of", || Arc::strong_count(&second) == 1);
    drop(guard);
    assert_eq!((first.thread(), second.thread()), (None, None));
}

#[test]
fn waker_may_use_the_domain_except_for_barriers() {
    let domain = Domain::new();
    let guard = domain.enter_owned();
    let mut task = domain.start_grace_period().into_future();
    let (tell, told) = mpsc::channel();
    let inner = domain.clone();
    let woken = OnWake::new(move || {
        drop(inner.enter());
        inner.synchronize();
        inner.defer(|| ());
        let refused = catch_unwind(AssertUnwindSafe(|| inner.barrier())).is_err();
        tell.send(refused).expect("the test waits");
    });
    assert!(poll_with(&mut task, &woken).is_pending());
    drop(guard);
    assert!(told.recv_timeout(Duration::from_secs(60)).expect("woken"));
    drop(woken);
    domain.barrier();
}

#[test]
fn future_of_a_domain_that_closes_is_ready() {
    let domain = Domain::new();
    std::mem::forget(domain.enter_owned());
    let period = domain.start_grace_period();
    let waits = thread::spawn(move || block_on(period.into_future()));
    thread::sleep(Duration::from_millis(10));
    assert!(!waits.is_finished(), "a leaked guard holds the period up");
    drop(domain);
    waits.join().expect("no panic");
}

#[test]
fn thousand_tasks_of_ten_domains_all_come_to_an_end() {
    let pool = Arc::<Pool>::default();
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..10 {
        let domain = Domain::new();
        for _ in 0..100 {
            let (domain, done) = (domain.clone(), Arc::clone(&done));
            pool.spawn(async move {
                for _ in 0..3 {
                    let guard = domain.enter_owned();
                    yield_now().await;
                    drop(guard);
                    domain.start_grace_period().await;
                }
                done.fetch_add(1, SeqCst);
            });
        }
    }
    pool.run(4);
    assert_eq!(done.load(SeqCst), 1_000);
}

#[test]
fn owned_guard_protects_across_awaits_on_whichever_thread() {
    let domain = Domain::new();
    let cell = Arc::new(RcuCell::new_in(Some(Box::new(1_u64)), &domain));
    let pool = Arc::<Pool>::default();
    for reader in 0..8 {
        let (domain, cell) = (domain.clone(), Arc::clone(&cell));
        pool.spawn(async move {
            for _ in 0..200 {
                let mut guard = domain.clone().into_guard();
                let before = cell.load(guard.as_guard());
                yield_now().await;
                assert!(before.as_ref().is_some_and(|value| **value % 2 == 1));
                guard.refresh();
                assert!(cell.load(guard.as_guard()).is_some(), "reader {reader}");
            }
        });
    }
    let writer = domain.clone();
    pool.spawn(async move {
        for n in 1..500 {
            cell.replace(Some(Box::new(2 * n + 1)));
            writer.start_grace_period().await;
        }
    });
    pool.run(3);
    assert_eq!(domain.stats().readers, 0);
    domain.barrier();
}

#[test]
fn panic_of_a_barrier_that_nobody_awaits_reaches_the_next() {
    let domain = Domain::new();
    let dropped = Arc::new(AtomicBool::new(false));
    let note = Arc::clone(&dropped);
    let guard = domain.enter_owned();
    domain.defer(|| panic!("a destructor's"));
    domain.defer(move || note.store(true, SeqCst));
    let mut barrier = domain.barrier_async();
    let polled = Pin::new(&mut barrier).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    drop(barrier);
    drop(guard);
    eventually("dropped", || dropped.load(SeqCst));
    // The next one waits for that one's destructors.
    assert!(catch_unwind(|| domain.barrier()).is_err());
}

#[test]
fn panic_of_a_barriers_waker_reaches_the_domain() {
    let domain = Domain::new();
    let guard = domain.enter_owned();
    domain.defer(|| ());
    let mut barrier = domain.barrier_async();
    let bomb = OnWake::new(|| panic!("a waker's"));
    assert!(poll_with(&mut barrier, &bomb).is_pending());
    drop(guard);
    eventually("told", || domain.stats().panics == 1);
    assert!(catch_unwind(|| domain.barrier()).is_err());
}

#[test]
fn barrier_runs_its_destructors_on_a_thread_of_its_own() {
    let domain = Domain::new();
    let (go, gone) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    domain.defer(move || {
        let _begun = tell.send(thread::current().name().map(String::from));
        let _go = gone.recv();
    });
    let mut barrier = domain.barrier_async();
    let woken = OnWake::new(|| ());
    assert!(poll_with(&mut barrier, &woken).is_pending());
    let name = told.recv().expect("it runs");
    assert_eq!(name.as_deref(), Some("graceperiod-barrier"));
    assert!(poll_with(&mut barrier, &woken).is_pending());
    drop(go);
    block_on(barrier);
}

#[test]
fn barrier_under_way_holds_no_domain_open() {
    let domain = Domain::new();
    std::mem::forget(domain.enter_owned());
    let dropped = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let dropped = Arc::clone(&dropped);
        domain.defer(move || {
            dropped.fetch_add(1, SeqCst);
        });
    }
    let never_polled = domain.barrier_async();
    let mut barrier = domain.barrier_async();
    let polled = Pin::new(&mut barrier).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "the guard was leaked");
    drop(domain);
    assert_eq!(dropped.load(SeqCst), 100);
    block_on(barrier);
    block_on(never_polled);
}
