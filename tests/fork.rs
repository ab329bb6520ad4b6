//! Forking while other threads are in the middle of everything.
#![cfg(all(unix, not(tsan)))]

#[path = "fork/child.rs"]
mod child;
#[path = "fork/world.rs"]
mod world;

use std::future::{Future, IntoFuture};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use graceperiod::queue::{Batch, Drain, DropQueue};
use graceperiod::{AfterGrace, Budget, Domain, RcuCell, Slab};

use child::in_child;
use world::{Counted, World};

/// Keeps other tests, which start threads, from running.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forks `times` times while `threads` threads repeat `step`.
fn fork_amid(times: u32, threads: u64, step: impl Fn(&World, u64) + Sync) {
    let world = World::new();
    world.storm(threads, step, || {
        for _ in 0..times {
            in_child(|| {
                world.exercise();
                world.check_counts();
                // SAFETY: the child's only thread has done with it.
                unsafe { world.end() };
            });
        }
    });
    world.exercise();
    world.check_counts();
}

#[test]
fn child_goes_on_from_amid_retirements() {
    let _alone = alone();
    fork_amid(20, 3, |world, n| {
        graceperiod::retire(Box::new(n));
        world.domain.retire(Box::new([n; 3]));
        world.worked.retire(Box::new(n));
        world.cell.replace(n);
    });
}

#[test]
fn child_goes_on_from_amid_guards() {
    let _alone = alone();
    fork_amid(20, 3, |world, n| {
        let guard = graceperiod::enter();
        let (outer, reader) = (world.domain.enter(), world.worked.reader());
        let inner = reader.enter();
        if n & 1 == 0 {
            thread::sleep(Duration::from_millis(20));
        }
        assert!(*world.cell.load(&guard) < u64::MAX);
        drop((guard, outer, inner));
    });
}

#[test]
fn child_goes_on_from_amid_slab_traffic() {
    let _alone = alone();
    fork_amid(20, 3, |world, n| {
        let refs: [_; 40] = std::array::from_fn(|_| world.slab.insert(n));
        drop(refs);
        let refs: [_; 40] = std::array::from_fn(|_| world.graced.insert(Box::new(n)));
        drop(refs);
        if n & 15 == 0 {
            world.slab.shrink();
            world.graced.shrink();
        }
    });
}

#[test]
fn child_goes_on_from_amid_writers_of_a_table() {
    let _alone = alone();
    fork_amid(20, 3, |world, n| {
        let key = n & 7;
        world.insert(key);
        assert!(world.table.peek(&key, |_| ()).is_none_or(|()| true));
        drop(world.table.remove(&(key ^ 1)));
        if n & 63 == 0 {
            world.table.clear();
        }
    });
}

#[test]
fn child_goes_on_from_amid_pushes() {
    let _alone = alone();
    fork_amid(20, 3, |world, n| {
        for queue in [&world.queue, &world.inline] {
            queue.push(Box::new(n)).expect("nobody has stopped it");
        }
        match n & 255 {
            0 => world.queue.flush(),
            64 => drop(world.queue.drain(3)),
            128 => world.inline.barrier(),
            _ => {}
        }
    });
}

#[test]
fn child_goes_on_from_amid_barriers_and_new_structures() {
    let _alone = alone();
    fork_amid(20, 3, |world, n| {
        world.domain.retire(Box::new(n));
        world.domain.barrier();
        let domain = Domain::new();
        domain.retire(Box::new(n));
        let slab: Slab<(), u64, AfterGrace, Domain> =
            Slab::builder().domain(&domain).max_objects(4).build(|_| ());
        drop(slab.insert(n));
    });
}

#[test]
fn child_goes_on_from_amid_panics_and_statistics() {
    let _alone = alone();
    let domain = Domain::new();
    let slabs: Vec<Slab<(), u64, AfterGrace, Domain>> = (0..200)
        .map(|_| Slab::builder().domain(&domain).build(|_| ()))
        .collect();
    let panicking = DropQueue::builder()
        .drain(Drain::Inline)
        .batch(1)
        .handler(|_: Batch<'_, u64>| resume_unwind(Box::new("on purpose")))
        .build()
        .expect("settings that agree");
    let storm = |world: &World, n: u64| match n >> 32 {
        0 => drop(domain.stats()),
        1 => panicking.push(n).expect("open"),
        _ => world.domain.retire(Box::new(n)),
    };
    let world = World::new();
    world.storm(3, storm, || {
        for _ in 0..40 {
            in_child(|| {
                domain.defer(|| resume_unwind(Box::new("on purpose")));
                let message = message_of(|| domain.barrier());
                assert_eq!(message, "on purpose");
                assert_eq!(domain.stats().pending_objects, 0);
                panicking.push(1).expect("open");
                panicking.stop().expect_err("the handler's panic");
            });
        }
    });
    drop(slabs);
}

/// Sends when it begins, and returns when told, or when nobody can tell it any more.
fn block() -> (impl FnOnce() + Send, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let ((begun, begins), (go, goes)) = (mpsc::channel(), mpsc::channel::<()>());
    let code = move || {
        begun.send(()).expect("the test waits");
        let _gone = goes.recv();
    };
    (code, begins, go)
}

#[test]
fn child_waits_for_no_destructor_of_another_thread() {
    let _alone = alone();
    let domain = Domain::new();
    let (code, begins, go) = block();
    domain.defer(code);
    domain.retire(Box::new([1; 5]));
    thread::scope(|scope| {
        scope.spawn(|| domain.barrier());
        begins.recv().expect("it begins");
        in_child(|| {
            domain.synchronize();
            domain.barrier();
            assert_eq!(domain.drain().left, 0);
            let stats = domain.stats();
            assert_eq!((stats.pending_objects, stats.pending_bytes), (0, 0));
        });
        assert_eq!(domain.stats().pending_objects, 2);
        drop(go);
    });
    assert_eq!(domain.drain().left, 0);
}

/// A value whose drop may block.
struct Blocking(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Drop for Blocking {
    fn drop(&mut self) {
        let code = self.0.lock().expect("no panic").take();
        if let Some(code) = code {
            code();
        }
    }
}

#[test]
fn child_waits_for_no_value_that_another_thread_was_dropping() {
    let _alone = alone();
    let domain = Domain::new();
    let slab: Slab<(), Blocking, AfterGrace, Domain> =
        Slab::builder().domain(&domain).build(|_| ());
    let (code, begins, go) = block();
    for code in [Some(Box::new(code) as Box<_>), None, None] {
        drop(slab.insert(Blocking(Mutex::new(code))));
    }
    thread::scope(|scope| {
        scope.spawn(|| domain.barrier());
        begins.recv().expect("it begins");
        in_child(|| {
            domain.barrier();
            assert_eq!((slab.stats().waiting, slab.len()), (0, 0));
            assert_eq!(
                (domain.stats().pending_objects, domain.drain().left),
                (0, 0)
            );
        });
        assert_ne!(slab.stats().waiting, 0);
        drop(go);
    });
    assert_eq!(slab.stats().waiting, 0);
}

#[test]
fn what_idle_threads_left_moves_on_after_a_barrier_of_another_thread() {
    let _alone = alone();
    let dropped = Arc::new(AtomicUsize::new(0));
    let domain = Domain::builder()
        .max_delay(Duration::from_millis(1))
        .build();
    let (code, begins, go) = block();
    domain.defer(code);
    thread::scope(|scope| {
        scope.spawn(|| domain.barrier());
        begins.recv().expect("it begins");
        let counted = Counted(Arc::clone(&dropped));
        let idle = scope.spawn(|| domain.retire(Box::new(counted)));
        idle.join().expect("no panic");
        in_child(|| {
            let begun = Instant::now();
            while dropped.load(Relaxed) == 0 {
                assert!(begun.elapsed() < Duration::from_secs(20), "it stays");
                domain.retire(Box::new(1));
            }
        });
        drop(go);
    });
}

#[test]
fn child_waits_for_no_handler_of_another_thread() {
    let _alone = alone();
    let (code, begins, go) = block();
    let code = Mutex::new(Some(code));
    let queue = DropQueue::builder()
        .drain(Drain::Inline)
        .batch(2)
        .handler(move |_: Batch<'_, u8>| {
            let code = code.lock().expect("no panic").take();
            if let Some(code) = code {
                code();
            }
        })
        .build()
        .expect("settings that agree");
    thread::scope(|scope| {
        scope.spawn(|| {
            queue.push(1).expect("open");
            queue.push(2).expect("open");
        });
        begins.recv().expect("it begins");
        in_child(|| {
            queue.push(3).expect("open");
            queue.barrier();
            let stats = queue.stats();
            assert_eq!((stats.waiting, stats.queued, stats.dropped), (0, 3, 3));
            queue.stop().expect("no panic");
        });
        drop(go);
    });
    assert_eq!(queue.stats().dropped, 2);
}

#[test]
fn child_waits_for_no_page_that_another_thread_was_building() {
    let _alone = alone();
    let (code, begins, go) = block();
    let code = Mutex::new(Some(code));
    let budget = Budget::objects(64);
    let builder = Slab::builder().max_objects(64).budget(&budget);
    let slab: Slab<(), u64> = builder.build(move |_| {
        let code = code.lock().expect("no panic").take();
        if let Some(code) = code {
            code();
        }
    });
    thread::scope(|scope| {
        scope.spawn(|| drop(slab.insert(1)));
        begins.recv().expect("it begins");
        in_child(|| {
            assert_eq!((slab.capacity(), budget.used_objects()), (0, 0));
            let refs: Vec<_> = (0..64).map(|n| slab.insert(n)).collect();
            let begun = Instant::now();
            assert!(slab.try_insert(64).is_err());
            assert!(
                begun.elapsed() < Duration::from_millis(80),
                "somebody seems to be building"
            );
            assert_eq!((slab.stats().pages, slab.len()), (1, refs.len()));
        });
        drop(go);
    });
    assert_eq!(slab.capacity(), 64);
}

#[test]
fn what_idle_threads_left_is_the_childs() {
    let _alone = alone();
    let dropped = Arc::new(AtomicUsize::new(0));
    let domain = Domain::new();
    let slab: Slab<(), Counted> = Slab::builder().max_objects(64).build(|_| ());
    let queue = DropQueue::builder()
        .drain(Drain::Manual)
        .build()
        .expect("settings that agree");
    let (ready, (go, goes)) = (AtomicUsize::new(0), mpsc::channel::<()>());
    let goes = Mutex::new(goes);
    let counted = || Counted(Arc::clone(&dropped));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                domain.retire(Box::new(counted()));
                queue.push(counted()).expect("open");
                let refs: Vec<_> = (0..8).map(|_| slab.insert(counted())).collect();
                drop(refs);
                let _inside = domain.enter();
                ready.fetch_add(1, Release);
                let _gone = goes.lock().expect("no panic").recv();
            });
        }
        while ready.load(Acquire) < 2 {
            thread::yield_now();
        }
        let before = dropped.load(Relaxed);
        in_child(|| {
            domain.barrier();
            assert_eq!(dropped.load(Relaxed), before + 2);
            assert_eq!(queue.drain(9), 2);
            assert_eq!(dropped.load(Relaxed), before + 4);
            let refs: Vec<_> = (0..64).map(|_| slab.insert(counted())).collect();
            assert_eq!(slab.len(), refs.len());
            // A new thread takes what was theirs.
            let caches = slab.stats().caches;
            thread::scope(|scope| scope.spawn(|| drop(refs)).join().expect("no panic"));
            assert_eq!((slab.len(), slab.stats().caches), (0, caches));
        });
        assert_eq!(dropped.load(Relaxed), before);
        assert_eq!((domain.stats().readers, queue.stats().waiting), (2, 2));
        drop(go);
    });
}

#[test]
fn workers_of_the_child_finish_what_waited() {
    let _alone = alone();
    let dropped = Arc::new(AtomicUsize::new(0));
    let counted = || Counted(Arc::clone(&dropped));
    let (code, begins, go) = block();
    let domain = Domain::builder()
        .drop_values(graceperiod::DropValues::Worker)
        .max_delay(Duration::from_millis(1))
        .build();
    domain.defer(code);
    begins.recv().expect("the worker begins");
    let (code, begins, go_on) = block();
    let code = Mutex::new(Some(code));
    let queue = DropQueue::builder()
        .batch(1)
        .handler(move |_: Batch<'_, Counted>| {
            let code = code.lock().expect("no panic").take();
            if let Some(code) = code {
                code();
            }
        })
        .build()
        .expect("settings that agree");
    queue.push(counted()).expect("open");
    begins.recv().expect("the worker begins");
    domain.retire(Box::new(counted()));
    queue.push(counted()).expect("open");
    in_child(|| {
        let begun = Instant::now();
        while dropped.load(Relaxed) < 2 {
            assert!(begun.elapsed() < Duration::from_secs(20), "no worker");
            thread::sleep(Duration::from_millis(1));
        }
        queue.stop().expect("no panic");
        // SAFETY: the child has done with it, and ends without unwinding.
        drop(unsafe { std::ptr::read(&raw const domain) });
    });
    assert_eq!(dropped.load(Relaxed), 0);
    drop((go, go_on));
    queue.stop().expect("no panic");
    domain.barrier();
    assert_eq!(dropped.load(Relaxed), 3);
}

#[test]
fn guards_of_the_forking_thread_protect_in_the_child() {
    let _alone = alone();
    let dropped = Arc::new(AtomicUsize::new(0));
    let domain = Domain::new();
    let cell = RcuCell::new_in(Counted(Arc::clone(&dropped)), &domain);
    let reader = domain.reader();
    let (outer, guard) = (domain.enter(), reader.enter());
    let seen = cell.load(&guard);
    in_child(|| {
        cell.replace(Counted(Arc::clone(&dropped)));
        let period = domain.start_grace_period();
        for n in 0..2_000 {
            domain.retire(Box::new(n));
            assert!(!period.has_elapsed());
        }
        assert_eq!(seen.0.load(Relaxed), 0);
        assert_eq!(domain.stats().readers, 1);
    });
    assert_eq!(domain.stats().readers, 1);
    drop((outer, guard));
    cell.replace(Counted(Arc::clone(&dropped)));
    domain.barrier();
    assert_eq!(dropped.load(Relaxed), 1);
}

#[test]
fn owned_guards_protect_in_the_child_until_they_go() {
    let _alone = alone();
    let domain = Domain::new();
    let enter = || domain.enter_owned();
    let guard = thread::scope(|scope| scope.spawn(enter).join().expect("no panic"));
    in_child(|| {
        let period = domain.start_grace_period();
        for _ in 0..100 {
            domain.retire(Box::new(1));
            assert!(!period.has_elapsed());
        }
        // SAFETY: the child has done with it, and ends without unwinding.
        drop(unsafe { std::ptr::read(&raw const guard) });
        domain.barrier();
        assert!(period.has_elapsed());
    });
    assert_eq!(domain.stats().readers, 1);
    drop(guard);
    domain.barrier();
}

/// Wakes nobody: whoever waits polls again.
struct Deaf;

impl Wake for Deaf {
    fn wake(self: Arc<Self>) {}
}

/// Wakes through a channel.
struct Bell(Mutex<mpsc::Sender<()>>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _rung = self.0.lock().expect("no panic").send(());
    }
}

#[test]
fn new_futures_complete_in_the_child() {
    let _alone = alone();
    let domain = Domain::new();
    let guard = domain.enter_owned();
    let mut waiting = domain.start_grace_period().into_future();
    let deaf = Waker::from(Arc::new(Deaf));
    let pending = Pin::new(&mut waiting).poll(&mut Context::from_waker(&deaf));
    assert!(pending.is_pending());
    // The driver's thread has begun by then.
    thread::sleep(Duration::from_millis(50));
    in_child(|| {
        let (rings, rung) = mpsc::channel();
        let bell = Waker::from(Arc::new(Bell(Mutex::new(rings))));
        let mut context = Context::from_waker(&bell);
        let mut other = domain.start_grace_period().into_future();
        assert!(Pin::new(&mut other).poll(&mut context).is_pending());
        // SAFETY: the child has done with it, and ends without unwinding.
        drop(unsafe { std::ptr::read(&raw const guard) });
        rung.recv_timeout(Duration::from_secs(20))
            .expect("it is woken");
        assert!(Pin::new(&mut other).poll(&mut context).is_ready());
    });
    drop(guard);
}

#[test]
fn child_forks_again() {
    let _alone = alone();
    let domain = Domain::new();
    domain.retire(Box::new(1));
    in_child(|| {
        thread::scope(|scope| {
            let other = scope.spawn(|| domain.retire(Box::new(2)));
            other.join().expect("no panic");
            in_child(|| assert_eq!(domain.drain().left, 0));
        });
        in_child(|| domain.barrier());
        domain.barrier();
    });
    assert_eq!(domain.stats().pending_objects, 1);
}

fn message_of(code: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(code)).expect_err("it panics");
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .expect("a message")
}

/// Prepares a fork that doesn't come.
fn prepare() -> graceperiod::ForkGuard {
    // SAFETY: nobody forks, and the guard goes before the thread uses the crate again, but for what is refused.
    unsafe { graceperiod::prepare_fork() }
}

#[test]
fn misuse_that_can_be_seen_panics_and_harms_nothing() {
    let _alone = alone();
    let guard = prepare();
    let message = message_of(|| guard.child());
    assert!(message.contains("drop the guard there"), "{message}");

    let guard = prepare();
    let message = message_of(|| drop(prepare()));
    assert!(message.contains("a ForkGuard already"), "{message}");
    drop(guard);

    let domain = Domain::new();
    domain.defer(|| drop(prepare()));
    let message = message_of(|| domain.barrier());
    assert!(message.contains("fork outside of it"), "{message}");
    in_child(|| domain.barrier());
}
