//! Values built in place and moved out again, pinned stable parts, and references that outlast their slab.

use std::cell::RefCell;
use std::marker::PhantomPinned;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};

use graceperiod::{AfterGrace, Domain, Immediate, Policy, Ref, Slab};

type Owned<S, V, P = Immediate> = Slab<S, V, P, Domain>;

/// Counts its own drops.
#[derive(Clone, Debug, Default)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn drops(&self) -> usize {
        self.0.load(Relaxed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Whether the environment has slabs keep freed slots back, so that claims about their reuse don't hold.
fn keeps_freed_slots() -> bool {
    std::env::var("GRACEPERIOD_SLAB_DEBUG").is_ok_and(|mode| mode == "quarantine")
}

fn panics(code: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(code)).is_err()
}

fn panic_of_publish_with_gives_the_slot_back<P: Policy<Domain>>() {
    let domain = Domain::new();
    let slab: Owned<u64, Counted, P> = Slab::builder().domain(&domain).build(|b| b.index());
    let drops = Counted::default();
    let vacant = slab.reserve();
    let key = vacant.key();
    let unwound = panics(|| {
        drop(vacant.publish_with(|&stable| {
            let _half_built = drops.clone();
            assert!(stable != key.index(), "builder");
            drops.clone()
        }));
    });
    assert!(unwound && slab.get(key).is_none());
    assert_eq!((drops.drops(), slab.len()), (1, 0));

    let value = slab.reserve().publish_with(|_| drops.clone());
    let next = Ref::key(&value);
    if !keeps_freed_slots() {
        assert_eq!(next.index(), key.index(), "the slot is used again");
        assert!(next.generation() > key.generation());
    }
    assert_eq!(slab.stats().published, 1);
    drop(value);
    domain.barrier();
    assert_eq!(drops.drops(), 2);
}

#[test]
fn panic_of_publish_with_gives_the_slot_back_immediate() {
    panic_of_publish_with_gives_the_slot_back::<Immediate>();
}

#[test]
fn panic_of_publish_with_gives_the_slot_back_after_grace() {
    panic_of_publish_with_gives_the_slot_back::<AfterGrace>();
}

#[test]
fn builder_of_a_value_may_use_its_slab_and_sees_the_stable_part() {
    let domain = Domain::new();
    let slab: Owned<AtomicUsize, usize> = Slab::builder()
        .domain(&domain)
        .build(|_| AtomicUsize::new(0));
    let value = slab.reserve().publish_with(|stable| {
        stable.store(7, Relaxed);
        let other = slab.insert(1);
        *other + 1
    });
    assert_eq!((*value, Ref::stable(&value).load(Relaxed)), (2, 7));
}

#[test]
fn only_reference_moves_its_value_out_undropped() {
    let domain = Domain::new();
    let freed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&freed);
    let slab: Owned<(), Counted> = Slab::builder()
        .domain(&domain)
        .on_free(move |()| {
            count.fetch_add(1, Relaxed);
        })
        .build(|_| ());
    let drops = Counted::default();
    let value = slab.insert(drops.clone());
    let key = Ref::key(&value);
    let other = value.clone();
    let value = Ref::try_unwrap(value).expect_err("there is another");
    assert_eq!(freed.load(Relaxed), 0);
    drop(other);
    let moved = Ref::try_unwrap(value).expect("the only one");
    assert_eq!((drops.drops(), freed.load(Relaxed)), (0, 1));
    assert_eq!((slab.len(), slab.get(key).is_none()), (0, true));
    // The slot serves others while the value lives elsewhere.
    drop(slab.insert(Counted::default()));
    drop(moved);
    assert_eq!((drops.drops(), freed.load(Relaxed)), (1, 2));
    assert_eq!(slab.shrink(), 1, "no slot is lost");
}

#[test]
fn hook_that_panics_while_a_value_is_moved_out_does_not_lose_it() {
    let told = Arc::new(AtomicUsize::new(0));
    let hook = Arc::clone(&told);
    let domain = Domain::builder()
        .on_panic(move |_| {
            hook.fetch_add(1, Relaxed);
        })
        .build();
    let slab: Owned<(), String> = Slab::builder()
        .domain(&domain)
        .on_free(|()| panic!("on_free"))
        .build(|_| ());
    let value = slab.insert("kept".to_owned());
    assert_eq!(Ref::into_inner(value).as_deref(), Some("kept"));
    assert_eq!((told.load(Relaxed), slab.len()), (1, 0));
    assert_eq!(slab.shrink(), 1, "no slot is lost");
}

#[test]
fn exactly_one_of_many_threads_gets_the_value() {
    const THREADS: usize = 8;
    let domain = Domain::new();
    let slab: Owned<(), Counted> = Slab::builder().domain(&domain).build(|_| ());
    for round in 0..300 {
        let drops = Counted::default();
        let value = slab.insert(drops.clone());
        let mut shares = vec![value; 1];
        shares.resize(THREADS, shares[0].clone());
        let (begin, got) = (Barrier::new(THREADS), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for share in shares {
                scope.spawn(|| {
                    begin.wait();
                    // Half of the rounds mix both ways: whoever fails to unwrap gives its reference back.
                    let moved = if round % 2 == 0 {
                        Ref::into_inner(share)
                    } else {
                        Ref::try_unwrap(share)
                            .or_else(|share| Ref::into_inner(share).ok_or(()))
                            .ok()
                    };
                    if let Some(value) = moved {
                        assert_eq!(value.drops(), 0);
                        got.fetch_add(1, Relaxed);
                    }
                });
            }
        });
        assert_eq!((got.load(Relaxed), drops.drops(), slab.len()), (1, 1, 0));
    }
    assert_eq!(slab.capacity(), slab.stats().page_slots);
}

#[test]
fn value_is_never_moved_out_under_a_reader_that_has_counted_it() {
    let domain = Domain::new();
    let slab: Owned<(), Counted> = Slab::builder().domain(&domain).build(|_| ());
    let (done, current) = (AtomicBool::new(false), slab.link());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                let guard = domain.enter();
                if let Some(value) = current.load(&guard).and_then(|found| found.try_get()) {
                    assert_eq!(value.drops(), 0);
                }
            }
        });
        let (mut moved, mut refused) = (0, 0);
        while moved < 20_000 {
            current.set(Some(slab.insert(Counted::default())));
            match Ref::try_unwrap(current.take().expect("set above")) {
                Ok(value) => {
                    assert_eq!(value.drops(), 0);
                    moved += 1;
                }
                Err(_) => refused += 1,
            }
        }
        done.store(true, Relaxed);
        refused
    });
}

#[test]
fn pinned_stable_part_never_moves() {
    struct Pinned {
        here: AtomicUsize,
        _pinned: PhantomPinned,
    }
    let domain = Domain::new();
    let slab: Owned<Pinned, ()> = Slab::builder().domain(&domain).build(|_| Pinned {
        here: AtomicUsize::new(0),
        _pinned: PhantomPinned,
    });
    for _ in 0..3 {
        let values: Vec<_> = (0..1_000)
            .map(|_| {
                let vacant = slab.reserve();
                let address = std::ptr::from_ref(vacant.stable_pinned().get_ref()).addr();
                let before = vacant.stable().here.swap(address, Relaxed);
                assert!(before == 0 || before == address);
                vacant.publish(())
            })
            .collect();
        let guard = domain.enter();
        for value in &values {
            let found = slab.candidate(&guard, Ref::key(value)).expect("alive");
            let (seen, known) = (found.stable_pinned(), Ref::stable_pinned(value));
            assert_eq!(
                std::ptr::from_ref(seen.get_ref()).addr(),
                seen.here.load(Relaxed)
            );
            assert!(std::ptr::eq(seen.get_ref(), known.get_ref()));
        }
    }
}

/// Holds a reference to a slot of another slab.
struct Holder<P: Policy<Domain>>(Option<Ref<Counted, Counted, P, Domain>>);

fn last_reference_goes_in_a_destructor_after_its_slab<P: Policy<Domain>>() {
    let domain = Domain::new();
    let (stable, drops) = (Counted::default(), Counted::default());
    let each = Arc::clone(&stable.0);
    let slab: Owned<Counted, Counted, P> = Slab::builder()
        .domain(&domain)
        .build(move |_| Counted(Arc::clone(&each)));
    let outer: Owned<(), Holder<P>> = Slab::builder().domain(&domain).build(|_| ());
    let capacity = {
        let held = outer.insert(Holder(Some(slab.insert(drops.clone()))));
        assert!(held.0.is_some());
        let capacity = slab.capacity();
        drop(slab);
        assert_eq!(domain.drain().left, 0);
        assert_eq!((drops.drops(), stable.drops() < capacity), (0, true));
        capacity
    };
    assert_eq!(domain.drain().left, 0);
    assert_eq!((drops.drops(), stable.drops()), (1, capacity));
}

#[test]
fn last_reference_goes_in_a_destructor_after_its_slab_immediate() {
    last_reference_goes_in_a_destructor_after_its_slab::<Immediate>();
}

#[test]
fn last_reference_goes_in_a_destructor_after_its_slab_after_grace() {
    last_reference_goes_in_a_destructor_after_its_slab::<AfterGrace>();
}

/// The last reference, kept by thread-locals that are dropped before and after the crate's own.
fn last_reference_goes_with_its_thread_after_its_slab<P: Policy<Domain>>() {
    thread_local! {
        static BEFORE: RefCell<Option<Box<dyn std::any::Any>>> = const { RefCell::new(None) };
        static AFTER: RefCell<Option<Box<dyn std::any::Any>>> = const { RefCell::new(None) };
    }
    let domain = Domain::new();
    let (stable, drops) = (Counted::default(), Counted::default());
    let each = Arc::clone(&stable.0);
    let slab: Owned<Counted, Counted, P> = Slab::builder()
        .domain(&domain)
        .build(move |_| Counted(Arc::clone(&each)));
    let (closed, filled) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let mut kept = (0..3)
        .map(|_| slab.insert(drops.clone()))
        .collect::<Vec<_>>();
    let ending = {
        let (closed, filled) = (Arc::clone(&closed), Arc::clone(&filled));
        std::thread::spawn(move || {
            BEFORE.with(|_| ());
            // Gives the thread a cache of the slab.
            drop(kept.pop());
            AFTER.set(kept.pop().map(|kept| Box::new(kept) as _));
            BEFORE.set(kept.pop().map(|kept| Box::new(kept) as _));
            filled.wait();
            closed.wait();
        })
    };
    filled.wait();
    let capacity = slab.capacity();
    drop(slab);
    assert!(stable.drops() < capacity);
    closed.wait();
    ending.join().expect("no panic");
    assert_eq!(domain.drain().left, 0);
    assert_eq!((drops.drops(), stable.drops()), (3, capacity));
}

#[test]
fn last_reference_goes_with_its_thread_after_its_slab_immediate() {
    last_reference_goes_with_its_thread_after_its_slab::<Immediate>();
}

#[test]
fn last_reference_goes_with_its_thread_after_its_slab_after_grace() {
    last_reference_goes_with_its_thread_after_its_slab::<AfterGrace>();
}
