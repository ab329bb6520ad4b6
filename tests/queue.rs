//! What the deferred-drop queue promises, seen from outside.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use graceperiod::Domain;
use graceperiod::queue::{
    Batch, ConfigError, Drain, DropQueue, DropQueueBuilder, Rejected, TryPushError,
};

const DRAINS: [Drain; 3] = [Drain::Worker, Drain::Inline, Drain::Manual];

/// Long enough that nothing is late while a test runs.
const NEVER: Duration = Duration::from_secs(86_400);

/// Counts how many of it live.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(live: &Arc<AtomicUsize>) -> Self {
        live.fetch_add(1, SeqCst);
        Self(Arc::clone(live))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Runs its closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

type Job = OnDrop<Box<dyn FnMut() + Send>>;

fn job(f: impl FnMut() + Send + 'static) -> Job {
    OnDrop(Box::new(f))
}

/// Waits for something that another thread does.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "never {what}");
        thread::yield_now();
    }
}

/// Runs `f` on several threads at once and joins them: unlike a scope's end, that waits for thread-local destructors,
/// and a sanitizer sees it.
fn on_threads<R: Send>(count: usize, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let f = &f;
        let threads: Vec<_> = (0..count).map(|i| scope.spawn(move || f(i))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

fn message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("not a message")
}

fn panic_of(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it should panic");
    message(&*payload).to_owned()
}

fn quiet<T: Send + 'static>(drain: Drain) -> DropQueueBuilder<T> {
    DropQueue::builder().drain(drain).max_delay(NEVER)
}

/// The batches that a handler got.
type Seen = Arc<Mutex<Vec<Vec<usize>>>>;

/// A queue whose handler notes what it gets, and that list.
fn noting(builder: DropQueueBuilder<usize>) -> (DropQueue<usize>, Seen) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let queue = builder
        .handler(move |batch: Batch<'_, usize>| noted.lock().unwrap().push(batch.collect()))
        .build()
        .expect("the numbers are fine");
    (queue, seen)
}

fn flat(seen: &Mutex<Vec<Vec<usize>>>) -> Vec<usize> {
    seen.lock().unwrap().concat()
}

// Batches, limits, delays.

#[test]
fn full_batch_is_handled_in_order() {
    let (queue, seen) = noting(quiet(Drain::Inline).batch(4).limit(8));
    for i in 0..10 {
        queue.push(i).unwrap();
    }
    assert_eq!(*seen.lock().unwrap(), [vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
    assert_eq!(queue.stats().waiting, 2);
}

#[test]
fn limit_holds_per_thread_under_eight_threads() {
    const THREADS: u64 = 8;
    const LIMIT: u64 = 64;
    for drain in DRAINS {
        let queue = quiet::<Counted>(drain).batch(16).limit(64).build().unwrap();
        on_threads(THREADS as usize, |_| {
            let mine = Arc::new(AtomicUsize::new(0));
            for _ in 0..5_000 {
                queue.push(Counted::new(&mine)).unwrap();
                let alive = mine.load(SeqCst) as u64;
                // The worker may have a batch in hand.
                assert!(alive <= LIMIT + 16, "{drain:?}: {alive} of one thread live");
                let waiting = queue.stats().waiting;
                assert!(waiting <= LIMIT * THREADS, "{drain:?}: {waiting} wait");
            }
            queue.flush();
            assert_eq!(mine.load(SeqCst), 0);
        });
        let stats = queue.stats();
        assert_eq!(stats.queued, THREADS * 5_000);
        assert_eq!((stats.dropped, stats.waiting), (stats.queued, 0));
    }
}

#[test]
fn pusher_at_the_limit_handles_its_own_oldest_batch() {
    let (queue, seen) = noting(quiet(Drain::Manual).batch(4).limit(8));
    for i in 0..8 {
        queue.push(i).unwrap();
    }
    assert!(seen.lock().unwrap().is_empty());
    queue.push(8).unwrap();
    assert_eq!(*seen.lock().unwrap(), [[0, 1, 2, 3]]);
    let stats = queue.stats();
    assert_eq!((stats.limit_hits, stats.waiting), (1, 5));
}

#[test]
fn try_push_hands_the_value_back_at_the_limit() {
    let queue = quiet(Drain::Manual).batch(3).limit(5).build().unwrap();
    for i in 0..5 {
        queue.try_push(i).unwrap();
    }
    let refused = queue.try_push(5).unwrap_err();
    assert!(matches!(refused, TryPushError::Full(5)), "{refused:?}");
    assert_eq!(queue.drain(1), 1);
    queue.try_push(5).unwrap();
    assert_eq!(queue.stats().waiting, 5);
}

#[test]
fn late_item_is_handled_by_the_worker() {
    let delay = Duration::from_millis(2);
    let live = Arc::new(AtomicUsize::new(0));
    let queue = DropQueue::builder().max_delay(delay).build().unwrap();
    // One of several: the machine may be busy.
    let fastest = (0..30)
        .map(|_| {
            let start = Instant::now();
            queue.push(Counted::new(&live)).unwrap();
            eventually("dropped", || live.load(SeqCst) == 0);
            start.elapsed()
        })
        .min();
    assert!(
        fastest < Some(delay + Duration::from_millis(10)),
        "{fastest:?}"
    );
}

#[test]
fn late_item_is_handled_at_the_sixteenth_next_push() {
    let delay = Duration::from_millis(1);
    let (queue, seen) = noting(DropQueue::builder().drain(Drain::Inline).max_delay(delay));
    queue.push(0).unwrap();
    let start = Instant::now();
    while start.elapsed() <= delay {
        thread::yield_now();
    }
    for i in 1..16 {
        queue.push(i).unwrap();
    }
    assert!(seen.lock().unwrap().is_empty());
    queue.push(16).unwrap();
    assert_eq!(flat(&seen), (0..17).collect::<Vec<_>>());
}

#[test]
fn kick_makes_the_worker_take_what_is_not_late() {
    let live = Arc::new(AtomicUsize::new(0));
    let queue = quiet(Drain::Worker).build().unwrap();
    for _ in 0..100 {
        queue.push(Counted::new(&live)).unwrap();
        queue.kick();
        eventually("kicked", || live.load(SeqCst) == 0);
    }
}

#[test]
fn drain_handles_as_many_as_it_was_told() {
    let (queue, seen) = noting(quiet(Drain::Manual).batch(4).limit(64));
    for i in 0..11 {
        queue.push(i).unwrap();
    }
    assert_eq!(queue.drain(6), 6);
    assert_eq!(flat(&seen), [0, 1, 2, 3, 4, 5]);
    assert_eq!(queue.drain(0), 0);
    // The rest of the second batch, and a part of the one that isn't full.
    assert_eq!(queue.drain(3), 3);
    assert_eq!(flat(&seen), (0..9).collect::<Vec<_>>());
    queue.push(11).unwrap();
    assert_eq!(queue.drain(100), 3);
    assert_eq!(flat(&seen), (0..12).collect::<Vec<_>>());
    let stats = queue.stats();
    assert_eq!((stats.queued, stats.dropped, stats.waiting), (12, 12, 0));
}

#[test]
fn push_now_is_handled_before_it_returns_and_passes_what_waits() {
    for drain in DRAINS {
        let (queue, seen) = noting(quiet(drain));
        queue.push(1).unwrap();
        queue.push_now(2);
        assert_eq!(flat(&seen), [2]);
        queue.barrier();
        assert_eq!(flat(&seen), [2, 1]);
        queue.stop().unwrap();
        queue.push_now(3);
        assert_eq!(flat(&seen), [2, 1, 3]);
        assert_eq!(queue.stats().dropped, 3);
    }
}

// What the handler gets.

#[test]
fn batch_iterates_both_ways_and_shows_what_is_left() {
    let queue = quiet::<Box<u32>>(Drain::Inline)
        .batch(4)
        .handler(|mut batch: Batch<'_, Box<u32>>| {
            assert_eq!(batch.len(), 4);
            assert_eq!(*batch.next().unwrap(), 0);
            assert_eq!(*batch.next_back().unwrap(), 3);
            assert_eq!(batch.as_slice(), [Box::new(1), Box::new(2)]);
            assert_eq!(batch.len(), 2);
        })
        .build()
        .unwrap();
    for _ in 0..10 {
        (0..4).for_each(|i| queue.push(Box::new(i)).unwrap());
    }
    queue.barrier();
    assert_eq!(queue.stats().dropped, 40);
}

#[test]
fn what_the_handler_leaves_or_forgets_is_dropped() {
    for forgets in [false, true] {
        let live = Arc::new(AtomicUsize::new(0));
        let queue = quiet(Drain::Inline)
            .batch(4)
            .handler(move |mut batch: Batch<'_, Counted>| {
                drop(batch.next());
                if forgets {
                    mem::forget(batch);
                }
            })
            .build()
            .unwrap();
        for _ in 0..8 {
            queue.push(Counted::new(&live)).unwrap();
        }
        assert_eq!(live.load(SeqCst), 0);
    }
}

#[test]
fn types_of_odd_sizes_are_handled() {
    #[repr(align(256))]
    struct Aligned(u8);
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Nothing;
    impl Drop for Nothing {
        fn drop(&mut self) {
            DROPS.fetch_add(1, SeqCst);
        }
    }
    let empty = DropQueue::new();
    (0..1_000).for_each(|_| empty.push(Nothing).unwrap());
    empty.barrier();
    assert_eq!(DROPS.load(SeqCst), 1_000);
    let queue = quiet(Drain::Inline)
        .handler(|batch: Batch<'_, Aligned>| {
            for item in batch {
                assert!((&raw const item).is_aligned());
                assert_eq!(item.0, 7);
            }
        })
        .build()
        .unwrap();
    (0..100).for_each(|_| queue.push(Aligned(7)).unwrap());
    queue.stop().unwrap();
}

// Threads.

#[test]
fn items_of_exited_threads_are_adopted() {
    let live = Arc::new(AtomicUsize::new(0));
    let leave = |queue: &DropQueue<Counted>| {
        on_threads(3, |_| queue.push(Counted::new(&live)).unwrap());
    };
    let worker = DropQueue::new();
    leave(&worker);
    eventually("adopted by the worker", || live.load(SeqCst) == 0);
    for drain in DRAINS {
        let queue = quiet(drain).build().unwrap();
        leave(&queue);
        queue.barrier();
        assert_eq!(live.load(SeqCst), 0, "{drain:?}");
    }
    // The next pushes of any thread take over what one of those has left at each full batch.
    let inline = quiet(Drain::Inline).build().unwrap();
    let here = Arc::new(AtomicUsize::new(0));
    inline.push(Counted::new(&here)).unwrap();
    leave(&inline);
    for _ in 0..32 * 3 {
        inline.push(Counted::new(&here)).unwrap();
    }
    assert_eq!(live.load(SeqCst), 0);
}

#[test]
fn barrier_covers_idle_threads() {
    for drain in DRAINS {
        let live = Arc::new(AtomicUsize::new(0));
        let queue = quiet(drain).build().unwrap();
        let (pushed, may_go) = (AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let idle = || {
                queue.push(Counted::new(&live)).unwrap();
                pushed.fetch_add(1, SeqCst);
                eventually("told to go", || may_go.load(SeqCst));
            };
            let threads = [(); 4].map(|()| scope.spawn(idle));
            eventually("pushed", || pushed.load(SeqCst) == 4);
            queue.barrier();
            assert_eq!(live.load(SeqCst), 0);
            may_go.store(true, SeqCst);
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }
}

#[test]
fn flush_and_barrier_wait_for_a_batch_in_the_workers_hand() {
    type Wait = fn(&DropQueue<u32>);
    let waits: [Wait; 3] = [
        |queue| queue.flush(),
        |queue| queue.barrier(),
        |queue| queue.stop().unwrap(),
    ];
    for wait in waits {
        // The handler has begun; it may go on; it is done.
        let gates = Arc::new([(); 3].map(|()| AtomicBool::new(false)));
        let inner = Arc::clone(&gates);
        let queue = quiet(Drain::Worker)
            .batch(1)
            .limit(8)
            .handler(move |_: Batch<'_, u32>| {
                assert_eq!(thread::current().name(), Some("drops-here"));
                inner[0].store(true, SeqCst);
                eventually("let on", || inner[1].load(SeqCst));
                inner[2].store(true, SeqCst);
            })
            .name("drops-here")
            .build()
            .unwrap();
        let [has_begun, may_go_on, is_done] = &*gates;
        // Pushed here, so that flush waits for it, too.
        queue.push(1).unwrap();
        eventually("begun", || has_begun.load(SeqCst));
        thread::scope(|scope| {
            let opener = scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                may_go_on.store(true, SeqCst);
            });
            wait(&queue);
            assert!(is_done.load(SeqCst));
            opener.join().unwrap();
        });
    }
}

#[test]
fn values_pushed_by_thread_local_destructors_are_dropped() {
    struct Last(Arc<DropQueue<Counted>>, Arc<AtomicUsize>);
    impl Drop for Last {
        fn drop(&mut self) {
            for _ in 0..50 {
                self.0.push(Counted::new(&self.1)).unwrap();
            }
            self.0.push_now(Counted::new(&self.1));
            self.0.flush();
        }
    }
    thread_local! {
        static EARLY: RefCell<Option<Last>> = const { RefCell::new(None) };
        static LATE: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    for drain in DRAINS {
        let live = Arc::new(AtomicUsize::new(0));
        let queue = Arc::new(quiet(drain).batch(8).limit(16).build().unwrap());
        let (theirs, counter) = (Arc::clone(&queue), Arc::clone(&live));
        thread::spawn(move || {
            // One is registered before the crate's own thread-local and one after, so they are destroyed on both sides.
            EARLY.set(Some(Last(Arc::clone(&theirs), Arc::clone(&counter))));
            theirs.push(Counted::new(&counter)).unwrap();
            LATE.set(Some(Last(theirs, counter)));
        })
        .join()
        .unwrap();
        queue.barrier();
        assert_eq!(live.load(SeqCst), 0, "{drain:?}");
        assert_eq!(queue.stats().queued, 103);
        assert_eq!(queue.stats().dropped, 103);
    }
}

// Panics.

#[test]
fn panicking_handler_loses_nothing_and_barrier_resumes_it() {
    for drain in DRAINS {
        let live = Arc::new(AtomicUsize::new(0));
        let queue = quiet(drain)
            .batch(8)
            .limit(8)
            .handler(|mut batch: Batch<'_, Counted>| {
                drop(batch.next());
                panic!("the handler's own");
            })
            .build()
            .unwrap();
        for _ in 0..20 {
            queue.push(Counted::new(&live)).unwrap();
        }
        assert_eq!(panic_of(|| queue.barrier()), "the handler's own");
        assert_eq!(live.load(SeqCst), 0);
        let stats = queue.stats();
        assert_eq!((stats.queued, stats.dropped, stats.waiting), (20, 20, 0));
        assert_eq!(stats.panics, stats.batches);
        // Told once.
        queue.flush();
        queue.push(Counted::new(&live)).unwrap();
        assert_eq!(message(&*queue.stop().unwrap_err()), "the handler's own");
        queue.stop().unwrap();
    }
}

#[test]
fn item_whose_drop_panics_does_not_keep_others_from_being_dropped() {
    for drain in DRAINS {
        let dropped = Arc::new(AtomicUsize::new(0));
        let queue = quiet(drain).build().unwrap();
        for i in 0..100 {
            let dropped = Arc::clone(&dropped);
            queue
                .push(job(move || {
                    dropped.fetch_add(1, SeqCst);
                    assert!(i % 10 != 3, "item {i}");
                }))
                .unwrap();
        }
        // Whichever thread was first.
        let said = panic_of(|| queue.flush());
        assert!(said.starts_with("item "), "{said}");
        queue.flush();
        assert_eq!(dropped.load(SeqCst), 100);
        let stats = queue.stats();
        assert_eq!((stats.dropped, stats.panics), (100, 10));
    }
}

#[test]
fn hook_is_told_of_every_panic_and_may_panic_itself() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let queue = quiet(Drain::Inline)
        .on_panic(move |payload| {
            let mut told = tell.lock().unwrap();
            told.push(message(&*payload).to_owned());
            let count = told.len();
            drop(told);
            assert!(count != 2, "the hook");
        })
        .build()
        .unwrap();
    for i in 0..3 {
        queue.push(job(move || panic!("item {i}"))).unwrap();
    }
    assert_eq!(panic_of(|| queue.barrier()), "the hook");
    assert_eq!(*told.lock().unwrap(), ["item 0", "item 1", "item 2"]);
    queue.barrier();
}

#[test]
fn payload_that_panics_as_it_is_dropped_breaks_nothing() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let queue = quiet(Drain::Inline).build().unwrap();
    for _ in 0..3 {
        let dropped = Arc::clone(&dropped);
        queue
            .push(job(move || {
                dropped.fetch_add(1, SeqCst);
                std::panic::panic_any(job(|| panic!("the payload")));
            }))
            .unwrap();
    }
    let payload = catch_unwind(AssertUnwindSafe(|| queue.barrier())).unwrap_err();
    assert_eq!(panic_of(|| drop(payload)), "the payload");
    queue
        .push(job(|| std::panic::panic_any(job(|| panic!("the payload")))))
        .unwrap();
    drop(queue);
    assert_eq!(dropped.load(SeqCst), 3);
}

#[test]
fn dropping_the_queue_never_panics() {
    struct Closure(Arc<AtomicUsize>);
    impl Drop for Closure {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
            panic!("what the handler owned");
        }
    }
    for drain in DRAINS {
        let dropped = Arc::new(AtomicUsize::new(0));
        let owned = Closure(Arc::clone(&dropped));
        let queue = quiet(drain)
            .handler(move |_: Batch<'_, u32>| {
                let _owned = &owned;
                panic!("the handler");
            })
            .build()
            .unwrap();
        (0..50).for_each(|i| queue.push(i).unwrap());
        drop(queue);
        // The handler goes with the queue, not with the last thread that pushed.
        assert_eq!(dropped.load(SeqCst), 1, "{drain:?}");
    }
}

#[test]
fn push_while_panicking_passes_the_limit_and_runs_nothing() {
    let (queue, seen) = noting(quiet(Drain::Inline).batch(2).limit(4));
    let queue = Arc::new(queue);
    let pusher = Arc::clone(&queue);
    let unwound = catch_unwind(move || {
        let _pushes = OnDrop(move || (0..9).for_each(|i| pusher.push(i).unwrap()));
        panic!("a reason to unwind");
    });
    unwound.unwrap_err();
    assert!(seen.lock().unwrap().is_empty());
    let stats = queue.stats();
    assert_eq!((stats.waiting, stats.limit_hits), (9, 5));
    // The next push outside brings the thread below the limit again.
    queue.push(9).unwrap();
    assert!(queue.stats().waiting <= 4);
    queue.barrier();
    assert_eq!(flat(&seen), (0..10).collect::<Vec<_>>());
}

// Re-entrancy.

#[test]
fn waiting_calls_inside_the_handler_say_what_to_do() {
    type Call = fn(&DropQueue<u32>);
    let calls: [(&str, Call); 4] = [
        ("flush", |queue| queue.flush()),
        ("barrier", |queue| queue.barrier()),
        ("stop", |queue| drop(queue.stop())),
        ("drain", |queue| assert_eq!(queue.drain(1), 0)),
    ];
    for drain in DRAINS {
        for (name, call) in calls {
            let cell = Arc::new(Mutex::new(None::<Arc<DropQueue<u32>>>));
            let inner = Arc::clone(&cell);
            let queue = quiet(drain).handler(move |_: Batch<'_, u32>| {
                let queue = inner.lock().unwrap().clone().unwrap();
                call(&queue);
            });
            let queue = Arc::new(queue.build().unwrap());
            *cell.lock().unwrap() = Some(Arc::clone(&queue));
            queue.push(1).unwrap();
            let said = panic_of(|| queue.barrier());
            assert!(said.contains(&format!("DropQueue::{name}()")), "{said}");
            assert!(said.contains("return from it first"), "{said}");
            *cell.lock().unwrap() = None;
        }
    }
}

#[test]
fn values_pushed_by_the_handler_go_to_later_batches() {
    struct Chain {
        left: usize,
        queue: Arc<DropQueue<Chain>>,
        depth: Arc<(AtomicUsize, AtomicUsize)>,
    }
    impl Drop for Chain {
        fn drop(&mut self) {
            let depth = self.depth.0.fetch_add(1, SeqCst) + 1;
            self.depth.1.fetch_max(depth, SeqCst);
            if self.left > 0 {
                let next = Chain {
                    left: self.left - 1,
                    queue: Arc::clone(&self.queue),
                    depth: Arc::clone(&self.depth),
                };
                if let Err(Rejected(chain)) = self.queue.push(next) {
                    mem::forget(chain);
                }
            }
            self.depth.0.fetch_sub(1, SeqCst);
        }
    }
    for drain in [Drain::Worker, Drain::Manual] {
        let queue = quiet(drain).batch(1).limit(1).build().unwrap();
        let queue = Arc::new(queue);
        let depth = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let left = 20_000;
        let first = Chain {
            left,
            queue: Arc::clone(&queue),
            depth: Arc::clone(&depth),
        };
        queue.push(first).unwrap();
        let total = left as u64 + 1;
        eventually("through the chain", || {
            if drain == Drain::Manual {
                queue.drain(100);
            }
            queue.stats().dropped == total
        });
        assert_eq!(depth.1.load(SeqCst), 1);
    }
}

#[test]
fn push_inside_the_handler_passes_the_limit_and_runs_nothing() {
    thread_local! {
        static DEPTH: Cell<usize> = const { Cell::new(0) };
    }
    for drain in DRAINS {
        let deepest = Arc::new(AtomicUsize::new(0));
        let measured = Arc::clone(&deepest);
        let cell = Arc::new(Mutex::new(None::<Arc<DropQueue<usize>>>));
        let inner = Arc::clone(&cell);
        let queue = quiet(drain)
            .batch(2)
            .limit(4)
            .handler(move |batch: Batch<'_, usize>| {
                DEPTH.set(DEPTH.get() + 1);
                measured.fetch_max(DEPTH.get(), SeqCst);
                let queue = inner.lock().unwrap().clone().unwrap();
                for item in batch {
                    (0..item).for_each(|_| queue.push(0).unwrap());
                }
                DEPTH.set(DEPTH.get() - 1);
            });
        let queue = Arc::new(queue.build().unwrap());
        *cell.lock().unwrap() = Some(Arc::clone(&queue));
        // The handler pushes a hundred more.
        queue.push_now(100);
        if drain != Drain::Worker {
            assert_eq!(queue.stats().limit_hits, 96, "{drain:?}");
        }
        queue.barrier();
        assert_eq!(queue.stats().dropped, 101);
        assert_eq!(deepest.load(SeqCst), 1, "{drain:?}");
        *cell.lock().unwrap() = None;
    }
}

#[test]
fn push_now_inside_the_handler_runs_after_it() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let cell = Arc::new(Mutex::new(None::<Arc<DropQueue<usize>>>));
    let inner = Arc::clone(&cell);
    let queue = quiet(Drain::Manual).handler(move |batch: Batch<'_, usize>| {
        let queue = inner.lock().unwrap().clone().unwrap();
        for item in batch {
            if item > 0 {
                queue.push_now(item - 1);
            }
            noted.lock().unwrap().push(item);
        }
        noted.lock().unwrap().push(100);
    });
    let queue = Arc::new(queue.build().unwrap());
    *cell.lock().unwrap() = Some(Arc::clone(&queue));
    queue.push_now(3);
    assert_eq!(*seen.lock().unwrap(), [3, 100, 2, 100, 1, 100, 0, 100]);
    assert_eq!(queue.stats().dropped, 4);
    *cell.lock().unwrap() = None;
}

// Together with a domain.

#[test]
fn domain_barrier_covers_attached_queues() {
    let live = Arc::new(AtomicUsize::new(0));
    for drain in DRAINS {
        let domain = Domain::new();
        let owned = quiet(drain).domain(&domain).build().unwrap();
        let global = quiet(drain).domain(&graceperiod::Global).build().unwrap();
        for queue in [&owned, &global] {
            queue.push(Counted::new(&live)).unwrap();
            on_threads(1, |_| queue.push(Counted::new(&live)).unwrap());
        }
        assert_eq!(domain.stats().pending_objects, 2);
        domain.barrier();
        assert_eq!(live.load(SeqCst), 2, "{drain:?}");
        graceperiod::barrier();
        assert_eq!(live.load(SeqCst), 0, "{drain:?}");
    }
}

#[test]
fn domain_barrier_covers_what_its_destructors_push() {
    let live = Arc::new(AtomicUsize::new(0));
    let domain = Domain::new();
    let queue = Arc::new(quiet(Drain::Manual).domain(&domain).build().unwrap());
    for _ in 0..100 {
        let (queue, value) = (Arc::clone(&queue), Counted::new(&live));
        domain.defer(move || queue.push(value).unwrap());
    }
    domain.barrier();
    assert_eq!(live.load(SeqCst), 0);
}

#[test]
fn push_inside_a_guard_passes_the_limit_and_runs_nothing() {
    for drain in [Drain::Inline, Drain::Manual] {
        let domain = Domain::new();
        let (queue, seen) = noting(quiet(drain).batch(4).limit(8).domain(&domain));
        let guard = domain.enter();
        (0..100).for_each(|i| queue.push(i).unwrap());
        assert!(matches!(queue.try_push(0), Err(TryPushError::Full(0))));
        assert!(seen.lock().unwrap().is_empty());
        let stats = queue.stats();
        assert_eq!((stats.waiting, stats.limit_hits), (100, 93));
        drop(guard);
        queue.push(100).unwrap();
        assert!(queue.stats().waiting <= 8, "{}", queue.stats());
        queue.barrier();
        assert_eq!(flat(&seen), (0..=100).collect::<Vec<_>>());
        assert!(seen.lock().unwrap().iter().all(|batch| batch.len() <= 4));
    }
}

#[test]
fn waiting_calls_inside_a_guard_say_what_to_do() {
    let domain = Domain::new();
    let queue = quiet::<u32>(Drain::Manual).domain(&domain).build().unwrap();
    queue.push(1).unwrap();
    let guard = domain.enter();
    type Call = fn(&DropQueue<u32>);
    let calls: [Call; 3] = [
        |queue| queue.flush(),
        |queue| queue.barrier(),
        |queue| drop(queue.stop()),
    ];
    for call in calls {
        let said = panic_of(|| call(&queue));
        assert!(said.contains("drop this thread's guards first"), "{said}");
    }
    drop(guard);
    assert_eq!(queue.stats().waiting, 1);
    queue.flush();
    assert_eq!(queue.stats().waiting, 0);
}

#[test]
fn barrier_of_the_domain_inside_the_handler_says_what_to_do() {
    let domain = Domain::new();
    let inner = domain.clone();
    let queue = quiet(Drain::Manual)
        .domain(&domain)
        .handler(move |_: Batch<'_, u32>| inner.barrier())
        .build()
        .unwrap();
    queue.push(1).unwrap();
    queue.barrier();
    let said = panic_of(|| domain.barrier());
    assert!(said.contains("handler or hook"), "{said}");
}

#[test]
fn panics_of_an_attached_queue_go_where_the_domains_go() {
    let domain = Domain::new();
    let queue = quiet(Drain::Manual).domain(&domain).build().unwrap();
    queue.push(job(|| panic!("an item"))).unwrap();
    queue.barrier();
    assert_eq!(panic_of(|| domain.barrier()), "an item");
    queue.push(job(|| panic!("another"))).unwrap();
    assert_eq!(panic_of(|| domain.barrier()), "another");
    assert_eq!(queue.stats().panics, 2);
    domain.barrier();
}

#[test]
fn queue_dropped_inside_a_guard_waits_for_nobody() {
    for drain in DRAINS {
        let live = Arc::new(AtomicUsize::new(0));
        let domain = Domain::new();
        let inner = domain.clone();
        let queue = quiet(drain)
            .domain(&domain)
            .handler(move |batch: Batch<'_, Counted>| {
                // On the worker this waits for the guard below.
                if thread::current().name() == Some("graceperiod-queue") {
                    inner.synchronize();
                }
                drop(batch);
            })
            .build()
            .unwrap();
        let guard = domain.enter();
        (0..40).for_each(|_| queue.push(Counted::new(&live)).unwrap());
        drop(queue);
        drop(guard);
        eventually("dropped", || live.load(SeqCst) == 0);
    }
}

#[test]
fn queue_dropped_inside_a_handler_that_a_domain_runs_is_finished_there() {
    let handled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&handled);
    let domain = Domain::new();
    let slot = Arc::new(Mutex::new(None::<DropQueue<u32>>));
    let inner = Arc::clone(&slot);
    let queue = quiet(Drain::Manual)
        .batch(2)
        .limit(64)
        .domain(&domain)
        .handler(move |batch: Batch<'_, u32>| {
            count.fetch_add(batch.len(), SeqCst);
            if let Some(queue) = inner.lock().unwrap().take() {
                (0..5).for_each(|i| queue.push(i).unwrap());
                drop(queue);
            }
        })
        .build()
        .unwrap();
    (0..7).for_each(|i| queue.push(i).unwrap());
    *slot.lock().unwrap() = Some(queue);
    domain.barrier();
    assert_eq!(handled.load(SeqCst), 12);
}

#[test]
fn queue_outlives_the_domain_that_it_was_attached_to() {
    let live = Arc::new(AtomicUsize::new(0));
    let domain = Domain::new();
    let queue = quiet(Drain::Worker).domain(&domain).build().unwrap();
    queue.push(Counted::new(&live)).unwrap();
    drop(domain);
    queue.push(Counted::new(&live)).unwrap();
    queue.barrier();
    assert_eq!(live.load(SeqCst), 0);
}

// The end.

#[test]
fn stop_hands_back_what_it_does_not_handle() {
    for drain in DRAINS {
        for round in 0..30 {
            let handled = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&handled);
            let queue = DropQueue::builder()
                .drain(drain)
                .batch(4)
                .limit(8)
                .handler(move |batch: Batch<'_, Box<usize>>| {
                    count.fetch_add(batch.len(), SeqCst);
                })
                .build()
                .unwrap();
            let (at_stop, accepted) = thread::scope(|scope| {
                let push = || {
                    (0..)
                        .take_while(|i| queue.push(Box::new(*i)).is_ok())
                        .count()
                };
                let pushers = [(); 4].map(|()| scope.spawn(push));
                eventually("under way", || queue.stats().queued > 100 * round);
                queue.stop().unwrap();
                let at_stop = handled.load(SeqCst);
                let accepted = pushers.map(|pusher| pusher.join().unwrap());
                (at_stop, accepted.iter().sum::<usize>())
            });
            assert_eq!(
                handled.load(SeqCst),
                at_stop,
                "{drain:?}: handled after stop"
            );
            assert_eq!(accepted, at_stop, "{drain:?}: lost or made up");
            assert_eq!(
                queue.push(Box::new(7)).unwrap_err().into_inner(),
                Box::new(7)
            );
            assert!(matches!(
                queue.try_push(Box::new(7)),
                Err(TryPushError::Stopped(_))
            ));
            let stats = queue.stats();
            assert_eq!((stats.queued, stats.waiting), (at_stop as u64, 0));
        }
    }
}

#[test]
fn everything_is_handled_when_the_queue_is_dropped() {
    for drain in DRAINS {
        let live = Arc::new(AtomicUsize::new(0));
        let queue = quiet(drain).build().unwrap();
        (0..100).for_each(|_| queue.push(Counted::new(&live)).unwrap());
        drop(queue);
        assert_eq!(live.load(SeqCst), 0, "{drain:?}");
    }
}

#[test]
fn queue_dropped_inside_its_own_handler_is_finished_by_the_worker() {
    let live = Arc::new(AtomicUsize::new(0));
    let slot = Arc::new(Mutex::new(None::<DropQueue<Counted>>));
    let gate = Arc::new(AtomicBool::new(false));
    let is_open = Arc::clone(&gate);
    let inner = Arc::clone(&slot);
    let queue = quiet(Drain::Worker)
        .batch(2)
        .limit(64)
        .handler(move |batch: Batch<'_, Counted>| {
            // The first call waits until everything is pushed.
            eventually("pushed", || is_open.load(SeqCst));
            drop(inner.lock().unwrap().take());
            drop(batch);
        })
        .build()
        .unwrap();
    for _ in 0..33 {
        queue.push(Counted::new(&live)).unwrap();
    }
    *slot.lock().unwrap() = Some(queue);
    gate.store(true, SeqCst);
    eventually("finished", || live.load(SeqCst) == 0);
    assert!(slot.lock().unwrap().is_none());
}

#[test]
fn queues_inside_queues_end_without_nesting() {
    // Each queue holds the next one.
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dropped);
    let mut next: Box<dyn Any + Send> = Box::new(job(move || {
        count.fetch_add(1, SeqCst);
    }));
    for _ in 0..3_000 {
        let queue = quiet::<Box<dyn Any + Send>>(Drain::Manual).build().unwrap();
        queue.push(next).unwrap();
        next = Box::new(queue);
    }
    drop(next);
    assert_eq!(dropped.load(SeqCst), 1);
}

// Set-up and figures.

#[test]
fn numbers_that_make_no_sense_are_refused_with_advice() {
    type Set = fn(DropQueueBuilder<u64>) -> DropQueueBuilder<u64>;
    let wrong: [(Set, ConfigError, &str); 6] = [
        (|b| b.batch(0), ConfigError::ZeroBatch, "push_now"),
        (
            |b| b.limit(0).batch(1),
            ConfigError::ZeroLimit,
            "at least the batch",
        ),
        (
            |b| b.batch(10).limit(9),
            ConfigError::BatchAboveLimit {
                batch: 10,
                limit: 9,
            },
            "raise `limit` or lower `batch`",
        ),
        (
            |b| b.batch(usize::MAX).limit(usize::MAX),
            ConfigError::BatchTooLarge { batch: usize::MAX },
            "lower `batch`",
        ),
        (
            |b| b.max_delay(Duration::ZERO),
            ConfigError::ZeroDelay,
            "max_delay",
        ),
        (|b| b.name("a\0b"), ConfigError::ZeroInName, "take it out"),
    ];
    for (set, error, advice) in wrong {
        let refused = set(DropQueue::builder()).build().unwrap_err();
        assert_eq!(refused, error);
        assert!(refused.to_string().contains(advice), "{refused}");
    }
}

#[test]
fn counts_are_exact_when_nothing_runs() {
    let queue = quiet(Drain::Manual).batch(4).limit(8).build().unwrap();
    on_threads(8, |n| (0..100 + n).for_each(|i| queue.push(i).unwrap()));
    let stats = queue.stats();
    assert_eq!(stats.queued, 828);
    assert_eq!(stats.queued, stats.dropped + stats.waiting);
    assert!(stats.oldest_age.is_some());
    let said = stats.to_string();
    assert!(said.starts_with("queued 828 dropped"), "{said}");
    queue.barrier();
    let stats = queue.stats();
    assert_eq!(
        (stats.dropped, stats.waiting, stats.oldest_age),
        (828, 0, None)
    );
}

#[test]
fn handlers_run_on_pushing_and_waiting_threads_as_told() {
    let threads = Arc::new(Mutex::new(HashSet::new()));
    let noted = Arc::clone(&threads);
    let queue = quiet(Drain::Inline)
        .batch(4)
        .handler(move |_: Batch<'_, u32>| {
            noted.lock().unwrap().insert(thread::current().id());
        })
        .build()
        .unwrap();
    (0..10).for_each(|i| queue.push(i).unwrap());
    queue.barrier();
    assert_eq!(
        *threads.lock().unwrap(),
        HashSet::from([thread::current().id()])
    );
}

#[test]
fn workers_that_drop_each_others_queue_both_end() {
    type Item = Box<dyn FnOnce() + Send>;
    let queue = || {
        let run = |batch: Batch<'_, Item>| batch.for_each(|item| item());
        Arc::new(DropQueue::builder().handler(run).build().unwrap())
    };
    let (a, b) = (queue(), queue());
    let meet = Arc::new(Barrier::new(2));
    let (done, dones) = mpsc::channel();
    for (queue, other) in [(&a, b.clone()), (&b, a.clone())] {
        let (meet, done) = (Arc::clone(&meet), done.clone());
        let item: Item = Box::new(move || {
            meet.wait();
            drop(other);
            done.send(()).unwrap();
        });
        assert!(queue.push(item).is_ok());
    }
    drop((a, b));
    for _ in 0..2 {
        dones.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}

#[test]
fn any_limit_can_be_built() {
    let queue = DropQueue::builder()
        .batch(1)
        .limit(usize::MAX)
        .build()
        .unwrap();
    queue.push(1).unwrap();
    queue.barrier();
    assert_eq!(queue.stats().dropped, 1);
}
