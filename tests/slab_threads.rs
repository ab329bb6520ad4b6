//! The slab under threads.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use graceperiod::{AfterGrace, Domain, Immediate, Key, Link, Policy, Ref, ReserveError, Slab};

/// How long each of the longer tests runs.
const LONG: Duration = Duration::from_millis(400);

/// A value that knows whether it was dropped, and who it is.
struct Living {
    id: u64,
    alive: AtomicBool,
    drops: Arc<AtomicUsize>,
}

impl Living {
    fn new(id: u64, drops: &Arc<AtomicUsize>) -> Self {
        Self {
            id,
            alive: AtomicBool::new(true),
            drops: Arc::clone(drops),
        }
    }

    fn check(&self) -> u64 {
        assert!(self.alive.load(Relaxed), "a dropped value was seen");
        self.id
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        assert!(self.alive.swap(false, Relaxed), "dropped twice");
        self.drops.fetch_add(1, Relaxed);
    }
}

type Owned<S, V, P> = Slab<S, V, P, Domain>;

fn owned<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<Domain>>(
    domain: &Domain,
    stable: impl Fn() -> S + Send + Sync + 'static,
) -> Owned<S, V, P> {
    Slab::builder().domain(domain).build(move |_| stable())
}

/// Empties the global domain when the test ends, so that leak checkers find nothing.
struct Emptied;

impl Drop for Emptied {
    fn drop(&mut self) {
        graceperiod::barrier();
    }
}

/// Locks; ThreadSanitizer can't see into the standard library's way of waiting.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    while cfg!(tsan) {
        if let Ok(guard) = mutex.try_lock() {
            return guard;
        }
        std::thread::yield_now();
    }
    mutex.lock().expect("no panic under it")
}

/// Joins; ThreadSanitizer can't see the end of a scope.
fn join<'scope>(threads: impl IntoIterator<Item = std::thread::ScopedJoinHandle<'scope, ()>>) {
    for thread in threads {
        thread.join().expect("no panic");
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n as u64).expect("small")
    }
}

fn get_against_last_drop<P: Policy<Domain>>() {
    let domain = Domain::new();
    let slab: Owned<AtomicU64, Living, P> = owned(&domain, || AtomicU64::new(0));
    let drops = Arc::new(AtomicUsize::new(0));
    let current = Mutex::new(None::<Key>);
    let (done, got, read) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let readers = [(); 2].map(|()| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let Some(key) = *lock(&current) else {
                        continue;
                    };
                    let guard = domain.enter();
                    let Some(found) = slab.candidate(&guard, key) else {
                        continue;
                    };
                    assert_eq!(found.key(), key);
                    if let Some(identity) = found.read(|stable| stable.load(Relaxed)) {
                        assert_eq!(identity, key.generation());
                        read.fetch_add(1, Relaxed);
                    }
                    if let Some(value) = found.try_get() {
                        assert_eq!(value.check(), key.generation());
                        assert_eq!(Ref::key(&value), key);
                        got.fetch_add(1, Relaxed);
                    }
                }
            })
        });
        let begun = Instant::now();
        while begun.elapsed() < LONG || got.load(Relaxed) == 0 || read.load(Relaxed) == 0 {
            for _ in 0..50 {
                let vacant = slab.reserve();
                let key = vacant.key();
                vacant.stable().store(key.generation(), Relaxed);
                let value = vacant.publish(Living::new(key.generation(), &drops));
                *lock(&current) = Some(key);
                drop(value);
            }
        }
        done.store(true, Relaxed);
        join(readers);
    });
    domain.barrier();
    assert_eq!(drops.load(Relaxed) as u64, slab.stats().published);
    assert_eq!(slab.len(), 0);
}

#[test]
fn get_against_last_drop_immediate() {
    get_against_last_drop::<Immediate>();
}

#[test]
fn get_against_last_drop_after_grace() {
    get_against_last_drop::<AfterGrace>();
}

#[test]
fn value_under_a_guard_is_never_a_dropped_one() {
    let domain = Domain::new();
    let slab: Owned<(), Living, AfterGrace> = owned(&domain, || ());
    let drops = Arc::new(AtomicUsize::new(0));
    let link = slab.link();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let guard = domain.enter();
                    let Some(found) = link.load(&guard) else {
                        continue;
                    };
                    let value = found.value();
                    let id = value.check();
                    for _ in 0..20 {
                        std::hint::spin_loop();
                        assert_eq!(value.check(), id);
                    }
                }
            });
        }
        let begun = Instant::now();
        let mut id = 0;
        while begun.elapsed() < LONG {
            for _ in 0..100 {
                id += 1;
                link.set(Some(slab.insert(Living::new(id, &drops))));
            }
        }
        done.store(true, Relaxed);
        drop(link.take());
    });
    domain.barrier();
    assert_eq!(drops.load(Relaxed) as u64, slab.stats().published);
}

fn link_against_swap_and_free<P: Policy<Domain>>() {
    let domain = Domain::new();
    let slab: Owned<(), Living, P> = owned(&domain, || ());
    let drops = Arc::new(AtomicUsize::new(0));
    let links: Vec<Link<(), Living, P, Domain>> = (0..3).map(|_| slab.link()).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut movers = Vec::new();
        for seed in 1..=2 {
            let (links, domain, done) = (&links, &domain, &done);
            movers.push(scope.spawn(move || {
                let mut random = Random(seed);
                while !done.load(Relaxed) {
                    let guard = domain.enter();
                    if let Some(value) = links[random.below(3)].get(&guard) {
                        value.check();
                        // Moves it elsewhere.
                        let other = &links[random.below(3)];
                        if let Ok(old) = other.compare_exchange(None, Some(value)) {
                            assert!(old.is_none());
                        }
                    }
                }
            }));
        }
        let begun = Instant::now();
        let mut random = Random(3);
        let mut id = 0;
        while begun.elapsed() < LONG {
            for _ in 0..100 {
                id += 1;
                let link = &links[random.below(3)];
                match random.below(3) {
                    0 => drop(link.take()),
                    1 => link.set(Some(slab.insert(Living::new(id, &drops)))),
                    _ => {
                        let guard = domain.enter();
                        let there = link.get(&guard);
                        let new = slab.insert(Living::new(id, &drops));
                        drop(link.compare_exchange(there.as_ref(), Some(new)));
                    }
                }
            }
        }
        done.store(true, Relaxed);
        join(movers);
    });
    drop(links);
    domain.barrier();
    assert_eq!(drops.load(Relaxed) as u64, slab.stats().published);
    assert_eq!(slab.len(), 0);
}

#[test]
fn link_against_swap_and_free_immediate() {
    link_against_swap_and_free::<Immediate>();
}

#[test]
fn link_against_swap_and_free_after_grace() {
    link_against_swap_and_free::<AfterGrace>();
}

#[test]
fn limit_is_exact_under_eight_threads() {
    let _emptied = Emptied;
    const THREADS: usize = 8;
    for limit in [8, 64, 1_000, 3_000] {
        let slab: Slab<(), usize> = Slab::builder().max_objects(limit).build(|_| ());
        let (live, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let barrier = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for seed in 0..THREADS {
                let (slab, live, most, barrier) = (&slab, &live, &most, &barrier);
                scope.spawn(move || {
                    let mut random = Random(seed as u64 + 1);
                    // Within its share each thread always gets a slot.
                    barrier.wait();
                    for _ in 0..60 {
                        let mine: Vec<_> = (0..1 + random.below(limit / THREADS))
                            .map(|n| slab.try_insert(n).expect("there is room for all"))
                            .collect();
                        assert!(slab.capacity() <= limit);
                        drop(mine);
                    }
                    barrier.wait();
                    // Beyond it some are refused, and there are never more than the limit.
                    let mut mine = Vec::new();
                    loop {
                        match slab.try_reserve() {
                            Ok(vacant) => {
                                let now = live.fetch_add(1, Relaxed) + 1;
                                most.fetch_max(now, Relaxed);
                                mine.push(vacant.publish(1));
                            }
                            Err(ReserveError::Full { .. }) => break,
                            Err(other) => panic!("{other}"),
                        }
                    }
                    barrier.wait();
                    assert_eq!(live.load(Relaxed), limit);
                });
            }
        });
        assert_eq!(most.load(Relaxed), limit);
        assert_eq!((slab.len(), slab.capacity()), (0, limit));
    }
}

fn values_freed_by_other_threads<P: Policy<Domain>>() {
    let domain = Domain::new();
    let slab: Owned<(), Living, P> = owned(&domain, || ());
    let drops = Arc::new(AtomicUsize::new(0));
    type Batch<P> = Vec<Ref<(), Living, P, Domain>>;
    std::thread::scope(|scope| {
        for producer in 0..2 {
            let queue = Arc::new((Mutex::new(Vec::<Batch<P>>::new()), AtomicBool::new(false)));
            let theirs = Arc::clone(&queue);
            let (slab, drops) = (&slab, &drops);
            scope.spawn(move || {
                for batch in 0..300 {
                    let id = producer * 1_000 + batch;
                    let made: Batch<P> = (0..64)
                        .map(|_| slab.insert(Living::new(id, drops)))
                        .collect();
                    let mut made = Some(made);
                    while made.is_some() {
                        let mut waiting = lock(&theirs.0);
                        if waiting.len() < 8 {
                            waiting.extend(made.take());
                        } else {
                            drop(waiting);
                            std::thread::yield_now();
                        }
                    }
                }
                let _after_the_last = lock(&theirs.0);
                theirs.1.store(true, Relaxed);
            });
            scope.spawn(move || {
                loop {
                    let last = queue.1.load(Relaxed);
                    let taken = std::mem::take(&mut *lock(&queue.0));
                    if last && taken.is_empty() {
                        break;
                    }
                    for value in taken.into_iter().flatten() {
                        value.check();
                    }
                    std::thread::yield_now();
                }
            });
        }
    });
    domain.barrier();
    assert_eq!(drops.load(Relaxed), 2 * 300 * 64);
    let stats = slab.stats();
    assert_eq!(
        (stats.live, stats.waiting, stats.published),
        (0, 0, 2 * 300 * 64)
    );
    if !std::any::type_name::<P>().contains("AfterGrace") {
        assert!(stats.capacity <= 4 * stats.page_slots, "{stats}");
    }
}

#[test]
fn values_freed_by_other_threads_immediate() {
    values_freed_by_other_threads::<Immediate>();
}

#[test]
fn values_freed_by_other_threads_after_grace() {
    values_freed_by_other_threads::<AfterGrace>();
}

/// Everything at once: no slot is lost, none is used twice, counters come to zero.
fn everything_at_once<P: Policy<Domain>>() {
    let domain = Domain::new();
    let slab: Owned<AtomicU64, Living, P> = owned(&domain, || AtomicU64::new(0));
    let drops = Arc::new(AtomicUsize::new(0));
    let keys = Mutex::new(Vec::<Key>::new());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 1..=3_u64 {
            let (slab, drops, keys, done) = (&slab, &drops, &keys, &done);
            scope.spawn(move || {
                let mut random = Random(seed);
                let mut mine = Vec::new();
                while !done.load(Relaxed) {
                    match random.below(8) {
                        0 => mine.clear(),
                        1 => drop(slab.reserve()),
                        2 => lock(keys).extend(mine.last().map(Ref::key)),
                        3 => {
                            let key = lock(keys).pop();
                            if let Some(value) = key.and_then(|key| slab.get(key)) {
                                value.check();
                                mine.push(value);
                            }
                        }
                        _ => {
                            let vacant = slab.reserve();
                            // Nobody else has this slot.
                            assert_eq!(vacant.stable().swap(seed, Relaxed), 0);
                            std::hint::spin_loop();
                            assert_eq!(vacant.stable().swap(0, Relaxed), seed);
                            mine.push(vacant.publish(Living::new(seed, drops)));
                            if mine.len() > 400 {
                                mine.drain(..200);
                            }
                        }
                    }
                }
            });
        }
        // Threads that come and go.
        let (slab, drops, done) = (&slab, &drops, &done);
        scope.spawn(move || {
            while !done.load(Relaxed) {
                std::thread::scope(|inner| {
                    inner.spawn(|| {
                        let some: Vec<_> = (0..50)
                            .map(|_| slab.insert(Living::new(9, drops)))
                            .collect();
                        drop(some);
                    });
                });
            }
        });
        let begun = Instant::now();
        let mut given_back = 0;
        while begun.elapsed() < LONG {
            given_back += slab.shrink();
            domain.barrier();
            std::thread::sleep(Duration::from_millis(1));
        }
        done.store(true, Relaxed);
        given_back
    });
    domain.barrier();
    let stats = slab.stats();
    assert_eq!((stats.live, stats.waiting), (0, 0));
    assert_eq!(drops.load(Relaxed) as u64, stats.published);
    let pages = stats.pages;
    assert_eq!(slab.shrink(), pages, "no slot is lost");
    assert_eq!(slab.capacity(), 0);
}

#[test]
fn everything_at_once_immediate() {
    everything_at_once::<Immediate>();
}

#[test]
fn everything_at_once_after_grace() {
    everything_at_once::<AfterGrace>();
}

/// Closes a slab while other threads drop their references.
fn closing_against_drops<P: Policy<Domain>>() {
    for round in 0..150 {
        let domain = Domain::new();
        let stable = Arc::new(AtomicUsize::new(0));
        struct Stable(Arc<AtomicUsize>);
        impl Drop for Stable {
            fn drop(&mut self) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let each = Arc::clone(&stable);
        let slab: Owned<Stable, Living, P> = owned(&domain, move || Stable(Arc::clone(&each)));
        let drops = Arc::new(AtomicUsize::new(0));
        let shares: Vec<Vec<_>> = (0..3)
            .map(|_| {
                (0..70 + round)
                    .map(|n| slab.insert(Living::new(n, &drops)))
                    .collect()
            })
            .collect();
        let capacity = slab.capacity();
        let begin = Barrier::new(4);
        std::thread::scope(|scope| {
            for share in shares {
                let (begin, slab_user) = (&begin, round % 2 == 0);
                scope.spawn(move || {
                    let mut share = share.into_iter();
                    if slab_user {
                        // Has a cache of its own before the slab closes.
                        drop(share.next());
                    }
                    begin.wait();
                    share.for_each(drop);
                });
            }
            begin.wait();
            drop(slab);
        });
        assert_eq!(domain.drain().left, 0);
        assert_eq!(drops.load(Relaxed) as u64, 3 * (70 + round));
        assert_eq!(stable.load(Relaxed), capacity);
    }
}

#[test]
fn closing_against_drops_immediate() {
    closing_against_drops::<Immediate>();
}

#[test]
fn closing_against_drops_after_grace() {
    closing_against_drops::<AfterGrace>();
}

#[test]
fn barrier_covers_a_slab_that_closes_meanwhile() {
    for n in 1..300 {
        let domain = Domain::new();
        let slab: Owned<(), Living, AfterGrace> = owned(&domain, || ());
        let drops = Arc::new(AtomicUsize::new(0));
        let values: Vec<_> = (0..n)
            .map(|n| slab.insert(Living::new(n, &drops)))
            .collect();
        drop(values);
        let begin = Barrier::new(2);
        std::thread::scope(|scope| {
            let begin = &begin;
            scope.spawn(move || {
                begin.wait();
                drop(slab);
            });
            begin.wait();
            domain.barrier();
            assert_eq!(drops.load(Relaxed) as u64, n);
        });
    }
}

#[test]
fn thousand_threads_use_one_slab() {
    let domain = Domain::new();
    let slab: Owned<(), Living, Immediate> = owned(&domain, || ());
    let drops = Arc::new(AtomicUsize::new(0));
    for _ in 0..20 {
        std::thread::scope(|scope| {
            for _ in 0..50 {
                scope.spawn(|| {
                    for n in 0..100 {
                        slab.insert(Living::new(n, &drops)).check();
                    }
                });
            }
        });
    }
    assert_eq!((drops.load(Relaxed), slab.len()), (100_000, 0));
    assert!(slab.stats().caches <= 50);
    let pages = slab.stats().pages;
    assert_eq!(slab.shrink(), pages);
}
