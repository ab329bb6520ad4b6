//! No memory: what fails says so, and nothing is lost.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};

use graceperiod::{AfterGrace, Budget, Domain, Immediate, Policy, Ref, ReserveError, Slab};

thread_local! {
    /// Allocations that this thread may still make, if they are limited.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    /// Allocations that were refused to this thread.
    static REFUSED: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which refuses where a test wants it to.
struct Stingy;

fn may_allocate() -> bool {
    let left = LEFT.try_with(Cell::get).unwrap_or(None);
    match left {
        None => true,
        Some(0) => {
            REFUSED.set(REFUSED.get() + 1);
            false
        }
        Some(left) => {
            LEFT.set(Some(left - 1));
            true
        }
    }
}

// SAFETY: passes everything on to the system's allocator, or returns null.
unsafe impl GlobalAlloc for Stingy {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !may_allocate() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static STINGY: Stingy = Stingy;

/// Runs `code` with at most `left` allocations; returns how many were refused besides.
fn with_allocations<R>(left: u64, code: impl FnOnce() -> R) -> (R, u64) {
    LEFT.set(Some(left));
    REFUSED.set(0);
    let result = code();
    LEFT.set(None);
    (result, REFUSED.get())
}

/// Counts its own drops; cloning allocates nothing.
#[derive(Clone)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

type Owned<P> = Slab<Counted, Counted, P, Domain>;

struct World<P: Policy<Domain>> {
    domain: Domain,
    slab: Owned<P>,
    budget: Budget,
    stable: Arc<AtomicUsize>,
}

fn world<P: Policy<Domain>>() -> World<P> {
    let (domain, budget) = (Domain::new(), Budget::objects(100_000));
    let stable = Arc::new(AtomicUsize::new(0));
    let each = Arc::clone(&stable);
    let slab = Slab::builder()
        .domain(&domain)
        .budget(&budget)
        .build(move |_| Counted(Arc::clone(&each)));
    World {
        domain,
        slab,
        budget,
        stable,
    }
}

/// Takes a first slot on a new thread with a number of allocations that grows until one is enough for everything.
fn first_slot_at_every_failure<P: Policy<Domain>>() {
    for left in 0.. {
        let World {
            domain,
            slab,
            budget,
            stable,
        } = world::<P>();
        let drops = Counted(Arc::new(AtomicUsize::new(0)));
        let (value, others) = (drops.clone(), [(); 3].map(|()| Domain::new()));
        let attempt = || {
            // The standard library's own first thread-local isn't what is tested here. After four domains the list of what
            // a thread takes part in has to grow.
            for domain in others.iter().chain([&domain]) {
                drop(domain.enter());
            }
            with_allocations(left, || slab.try_insert(value))
        };
        let spawned = std::thread::scope(|scope| scope.spawn(attempt).join().expect("no panic"));
        let (built, refused) = (slab.capacity(), spawned.1);
        match spawned.0 {
            Ok(value) => drop(value),
            Err(failed) => {
                assert!(refused > 0 && drops.0.load(Relaxed) == 0);
                assert!(matches!(failed.reason(), ReserveError::OutOfMemory { .. }));
                assert_eq!((slab.len(), built, budget.used_objects()), (0, 0, 0));
                drop(failed.into_value());
            }
        }
        // Whatever failed has left a slab that works.
        let held: Vec<_> = (0..5_000).map(|_| slab.insert(drops.clone())).collect();
        assert_eq!(Ref::key(&held[0]).index() >> 20, 0);
        drop(held);
        domain.barrier();
        assert_eq!(drops.0.load(Relaxed), 5_001);
        let (pages, capacity) = (slab.stats().pages, slab.capacity());
        assert_eq!(slab.shrink(), pages, "no slot is lost");
        domain.barrier();
        assert_eq!(stable.load(Relaxed), capacity, "no stable part is lost");
        assert_eq!((budget.used_objects(), budget.used_bytes()), (0, 0));
        if refused == 0 {
            assert!(left > 2, "something was allocated");
            return;
        }
    }
}

#[test]
fn first_slot_at_every_failure_immediate() {
    first_slot_at_every_failure::<Immediate>();
}

#[test]
fn first_slot_at_every_failure_after_grace() {
    first_slot_at_every_failure::<AfterGrace>();
}

fn in_debug_mode() -> bool {
    std::env::var_os("GRACEPERIOD_SLAB_DEBUG").is_some()
}

/// Works without any allocation on slots that are there, on a thread that can't have a cache.
fn thread_without_memory<P: Policy<Domain>>() -> u64 {
    let domain = Domain::new();
    let slab: Slab<(), Counted, P, Domain> = Slab::builder()
        .domain(&domain)
        .max_objects(40)
        .build(|_| ());
    let drops = Counted(Arc::new(AtomicUsize::new(0)));
    drop(slab.insert(drops.clone()));
    let attempt = || {
        drop(domain.enter());
        let (inserted, refused) = with_allocations(0, || {
            let inserted = (0..200).take_while(|_| match slab.try_insert(drops.clone()) {
                Ok(_) => true,
                Err(refused) => {
                    let memory = matches!(refused.reason(), ReserveError::OutOfMemory { .. });
                    drop(refused);
                    assert!(memory);
                    false
                }
            });
            inserted.count() as u64
        });
        // In a debug mode nobody has a cache, and only a mark needs one.
        assert!(refused > 0 || in_debug_mode(), "the thread got a cache");
        inserted
    };
    let inserted = std::thread::scope(|scope| scope.spawn(attempt).join().expect("no panic"));
    // Others go on, and nothing is lost.
    drop(slab.insert(drops.clone()));
    domain.barrier();
    let stats = slab.stats();
    assert_eq!((stats.live, stats.published), (0, inserted + 2));
    assert!(drops.0.load(Relaxed) as u64 >= inserted + 2);
    assert_eq!((stats.capacity, slab.shrink()), (40, 1), "no slot is lost");
    inserted
}

#[test]
fn thread_without_memory_uses_what_is_free() {
    assert_eq!(thread_without_memory::<Immediate>(), 200);
}

#[test]
fn thread_without_memory_is_told_when_only_dead_slots_are_left() {
    assert!((39..=200).contains(&thread_without_memory::<AfterGrace>()));
}

#[test]
fn limit_takes_magazines_back_without_memory() {
    let domain = Domain::new();
    let slab: Slab<(), u64, Immediate, Domain> =
        Slab::builder().domain(&domain).max_objects(8).build(|_| ());
    let (filled, over) = (Barrier::new(3), Barrier::new(3));
    std::thread::scope(|scope| {
        let (slab, filled, over) = (&slab, &filled, &over);
        for _ in 0..2 {
            scope.spawn(move || {
                let held: Vec<_> = (0..4).map(|n| slab.insert(n)).collect();
                filled.wait();
                drop(held);
                over.wait();
                over.wait();
            });
        }
        filled.wait();
        over.wait();
        let mut held = Vec::with_capacity(8);
        let (refused, _) = with_allocations(0, || {
            held.extend((0..8).map(|n| slab.try_insert(n).expect("others' magazines")));
            slab.try_reserve()
        });
        assert!(matches!(
            refused,
            Err(ReserveError::Full { max_objects: 8 })
        ));
        over.wait();
    });
}

#[test]
fn system_without_room_for_a_page_is_out_of_memory() {
    let slab: Slab<(), [u8; 1 << 44]> = Slab::new(|_| ());
    let refused = slab.try_reserve().expect_err("no such address space");
    assert!(matches!(refused, ReserveError::OutOfMemory { bytes } if bytes > 1 << 44));
    assert_eq!((slab.capacity(), slab.stats().pages), (0, 0));
}
