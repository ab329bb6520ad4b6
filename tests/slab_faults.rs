//! The slab under faults: panics, closing at every moment, re-entrancy, ends of threads.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use graceperiod::{AfterGrace, Domain, Immediate, Link, Policy, Ref, ReserveError, Slab};

/// Counts its own drops.
#[derive(Clone)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Panics when dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("bomb");
    }
}

/// Empties the global domain when the test ends, so that leak checkers find nothing.
struct Emptied;

impl Drop for Emptied {
    fn drop(&mut self) {
        graceperiod::barrier();
    }
}

fn panics(code: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(code)).is_err()
}

type Owned<S, V, P> = Slab<S, V, P, Domain>;

/// A slab in a domain of its own that counts the drops of its stable parts.
fn counted_slab<V: Send + Sync + 'static, P: Policy<Domain>>(
    domain: &Domain,
) -> (Owned<Counted, V, P>, Arc<AtomicUsize>) {
    let drops = Arc::new(AtomicUsize::new(0));
    let each = Arc::clone(&drops);
    let slab = Slab::builder()
        .domain(domain)
        .build(move |_| Counted(Arc::clone(&each)));
    (slab, drops)
}

/// A place for something that is made later.
type Shared<T> = Mutex<Option<Arc<T>>>;

#[test]
fn panicking_constructor_publishes_nothing_and_leaves_a_usable_slab() {
    let _emptied = Emptied;
    let built = Arc::new(AtomicUsize::new(0));
    let drops = Arc::new(AtomicUsize::new(0));
    let (count, each) = (Arc::clone(&built), Arc::clone(&drops));
    let slab: Slab<Counted, u8> = Slab::new(move |_| {
        assert!(count.fetch_add(1, Relaxed) != 20, "constructor");
        Counted(Arc::clone(&each))
    });
    let refused = slab.try_reserve().expect_err("the 21st panics");
    assert!(matches!(refused, ReserveError::Panicked(_)), "{refused}");
    assert_eq!((drops.load(Relaxed), slab.capacity()), (20, 0));
    built.store(15, Relaxed);
    assert!(panics(|| drop(slab.insert(1))));
    assert_eq!((drops.load(Relaxed), slab.capacity()), (25, 0));
    assert_eq!(*slab.insert(2), 2);
    assert_eq!(drops.load(Relaxed), 25);
}

#[test]
fn constructor_that_reserves_from_its_own_slab_is_told() {
    let _emptied = Emptied;
    let this: Arc<Shared<Slab<(), u8>>> = Arc::default();
    let inside = Arc::clone(&this);
    let slab: Arc<Slab<(), u8>> = Arc::new(Slab::new(move |_| {
        let slab = inside.lock().map(|slab| slab.clone()).unwrap_or_default();
        drop(slab.map(|slab| slab.insert(1)));
    }));
    *this.lock().expect("no panic yet") = Some(Arc::clone(&slab));
    let refused = slab.try_reserve().expect_err("it would never end");
    assert!(
        refused.to_string().contains("constructor of slab"),
        "{refused}"
    );
    *this.lock().expect("not poisoned") = None;
    assert_eq!(*slab.insert(1), 1);
}

fn panicking_destructor_goes_to_the_hook<P: Policy<Domain>>() {
    let told = Arc::new(AtomicUsize::new(0));
    let hook = Arc::clone(&told);
    let domain = Domain::builder()
        .on_panic(move |_| {
            hook.fetch_add(1, Relaxed);
        })
        .build();
    let freed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&freed);
    let slab: Owned<(), Bomb, P> = Slab::builder()
        .domain(&domain)
        .on_free(move |()| {
            count.fetch_add(1, Relaxed);
        })
        .build(|_| ());
    for _ in 0..100 {
        drop(slab.insert(Bomb));
    }
    domain.barrier();
    assert_eq!((told.load(Relaxed), freed.load(Relaxed)), (100, 100));
    assert_eq!((slab.len(), slab.stats().waiting), (0, 0));
    assert!(slab.shrink() > 0);
    assert_eq!(slab.capacity(), 0);
}

#[test]
fn panicking_destructor_goes_to_the_hook_immediate() {
    panicking_destructor_goes_to_the_hook::<Immediate>();
}

#[test]
fn panicking_destructor_goes_to_the_hook_after_grace() {
    panicking_destructor_goes_to_the_hook::<AfterGrace>();
}

#[test]
fn panic_without_a_hook_comes_out_of_the_next_barrier_once() {
    let domain = Domain::new();
    let slab: Owned<(), u8, Immediate> = Slab::builder()
        .domain(&domain)
        .on_free(|()| panic!("on_free"))
        .build(|_| ());
    drop(slab.insert(1));
    assert!(panics(|| domain.barrier()));
    domain.barrier();
    assert_eq!(slab.len(), 0);
    assert_eq!(*slab.insert(2), 2);
    assert!(panics(|| domain.barrier()));
}

#[test]
fn values_dropped_while_the_thread_unwinds_are_dropped_all_the_same() {
    let domain = Domain::new();
    let (slab, _) = counted_slab::<Counted, Immediate>(&domain);
    let drops = Arc::new(AtomicUsize::new(0));
    assert!(panics(|| {
        let _first = slab.insert(Counted(Arc::clone(&drops)));
        let _second = slab.insert(Counted(Arc::clone(&drops)));
        panic!("unwinding");
    }));
    assert_eq!((drops.load(Relaxed), slab.len()), (2, 0));
}

fn references_outlive_the_slab<P: Policy<Domain>>() {
    let domain = Domain::new();
    let (slab, stable) = counted_slab::<Counted, P>(&domain);
    let drops = Arc::new(AtomicUsize::new(0));
    let values: Vec<_> = (0..5_000)
        .map(|_| slab.insert(Counted(Arc::clone(&drops))))
        .collect();
    let vacant = slab.reserve();
    let capacity = slab.capacity();
    let pages = slab.stats().pages;
    assert!(pages > 1);
    drop(slab);
    domain.barrier();
    assert_eq!(drops.load(Relaxed), 0);
    assert!(stable.load(Relaxed) < capacity);
    // Readable, clonable, publishable after the slab has gone.
    let clones = values.clone();
    assert!(values.iter().all(|value| value.0.load(Relaxed) == 0));
    let late = vacant.publish(Counted(Arc::clone(&drops)));
    std::thread::spawn(move || drop(values))
        .join()
        .expect("no panic");
    assert_eq!(drops.load(Relaxed), 0);
    drop(clones);
    assert_eq!(domain.drain().left, 0);
    assert_eq!(drops.load(Relaxed), 5_000);
    assert!(stable.load(Relaxed) < capacity);
    drop(late);
    assert_eq!(domain.drain().left, 0);
    assert_eq!(drops.load(Relaxed), 5_001);
    assert_eq!(stable.load(Relaxed), capacity);
}

#[test]
fn references_outlive_the_slab_immediate() {
    references_outlive_the_slab::<Immediate>();
}

#[test]
fn references_outlive_the_slab_after_grace() {
    references_outlive_the_slab::<AfterGrace>();
}

fn references_outlive_the_domain<P: Policy<Domain>>() {
    let domain = Domain::new();
    let (slab, stable) = counted_slab::<Counted, P>(&domain);
    let drops = Arc::new(AtomicUsize::new(0));
    let value = slab.insert(Counted(Arc::clone(&drops)));
    let link = slab.link();
    link.set(Some(slab.insert(Counted(Arc::clone(&drops)))));
    let capacity = slab.capacity();
    drop(domain);
    drop(slab);
    assert_eq!(value.0.load(Relaxed), 0);
    drop(value);
    assert_eq!(drops.load(Relaxed), 1);
    assert_eq!(stable.load(Relaxed), 0);
    drop(link);
    assert_eq!(drops.load(Relaxed), 2);
    assert_eq!(stable.load(Relaxed), capacity);
}

#[test]
fn references_outlive_the_domain_immediate() {
    references_outlive_the_domain::<Immediate>();
}

#[test]
fn references_outlive_the_domain_after_grace() {
    references_outlive_the_domain::<AfterGrace>();
}

#[test]
fn closing_with_waiting_values_drops_them_after_the_guard() {
    let domain = Domain::new();
    let (slab, stable) = counted_slab::<Counted, AfterGrace>(&domain);
    let drops = Arc::new(AtomicUsize::new(0));
    let value = slab.insert(Counted(Arc::clone(&drops)));
    let key = Ref::key(&value);
    let guard = domain.enter();
    let found = slab.candidate(&guard, key).expect("alive");
    drop(value);
    let capacity = slab.capacity();
    drop(slab);
    assert_eq!(found.value().0.load(Relaxed), 0);
    assert_eq!(found.stable().0.load(Relaxed), 0);
    assert!(found.try_get().is_none());
    drop(guard);
    assert_eq!(domain.drain().left, 0);
    assert_eq!((drops.load(Relaxed), stable.load(Relaxed)), (1, capacity));
}

/// Owns the slab that it lives in.
struct Owner<P: Policy<Domain>> {
    slab: Shared<Owned<Counted, Owner<P>, P>>,
    drops: Counted,
}

fn slab_goes_inside_its_own_value<P: Policy<Domain>>() {
    let domain = Domain::new();
    let (slab, stable) = counted_slab::<Owner<P>, P>(&domain);
    let slab = Arc::new(slab);
    let drops = Counted(Arc::default());
    let value = slab.insert(Owner {
        slab: Mutex::new(None),
        drops: drops.clone(),
    });
    let other = slab.insert(Owner {
        slab: Mutex::new(None),
        drops: drops.clone(),
    });
    let capacity = slab.capacity();
    *value.slab.lock().expect("not poisoned") = Some(slab);
    assert_eq!(drops.0.load(Relaxed), 0);
    drop(value);
    assert_eq!(domain.drain().left, 0);
    assert_eq!(drops.0.load(Relaxed), 1);
    assert_eq!(other.drops.0.load(Relaxed), 1);
    drop(other);
    assert_eq!(domain.drain().left, 0);
    assert_eq!((drops.0.load(Relaxed), stable.load(Relaxed)), (2, capacity));
}

#[test]
fn slab_goes_inside_its_own_value_immediate() {
    slab_goes_inside_its_own_value::<Immediate>();
}

#[test]
fn slab_goes_inside_its_own_value_after_grace() {
    slab_goes_inside_its_own_value::<AfterGrace>();
}

/// Makes more of its kind when dropped.
struct Fertile {
    slab: Arc<Slab<(), Fertile>>,
    left: usize,
}

impl Drop for Fertile {
    fn drop(&mut self) {
        if self.left > 0 {
            drop(self.slab.insert(Fertile {
                slab: Arc::clone(&self.slab),
                left: self.left - 1,
            }));
        }
    }
}

#[test]
fn destructor_may_insert_into_and_drop_from_its_own_slab() {
    let _emptied = Emptied;
    let slab = Arc::new(Slab::new(|_| ()));
    drop(slab.insert(Fertile {
        slab: Arc::clone(&slab),
        left: 100_000,
    }));
    assert_eq!((slab.len(), slab.stats().published), (0, 100_001));
    assert_eq!(slab.capacity(), slab.stats().page_slots);
}

struct Step {
    next: Link<(), Step>,
}

#[test]
fn chain_of_a_million_is_dropped_without_nesting() {
    let _emptied = Emptied;
    let small = std::thread::Builder::new().stack_size(128 << 10);
    let chain = small.spawn(|| {
        let slab: Slab<(), Step> = Slab::new(|_| ());
        let mut head: Option<Ref<(), Step>> = None;
        for _ in 0..1_000_000 {
            let next = slab.link();
            next.set(head.take());
            head = Some(slab.insert(Step { next }));
        }
        let head = head.expect("a million");
        let guard = graceperiod::enter();
        assert!(head.next.load(&guard).is_some());
        drop(head);
        assert_eq!(slab.len(), 0);
    });
    chain.expect("a thread").join().expect("no panic");
}

struct LateStep {
    next: Link<(), LateStep, AfterGrace, Domain>,
}

#[test]
fn chain_after_grace_is_dropped_without_nesting_also_after_the_close() {
    let small = std::thread::Builder::new().stack_size(128 << 10);
    let chain = small.spawn(|| {
        for close_first in [false, true] {
            let domain = Domain::new();
            let slab: Slab<(), LateStep, AfterGrace, Domain> =
                Slab::builder().domain(&domain).build(|_| ());
            let mut head = None;
            for _ in 0..10_000 {
                let next = slab.link();
                next.set(head.take());
                head = Some(slab.insert(LateStep { next }));
            }
            assert!(head.as_ref().is_some_and(|head| !head.next.is_empty()));
            if close_first {
                drop((slab, domain));
                drop(head);
            } else {
                drop(head);
                drop((slab, domain));
            }
        }
    });
    chain.expect("a thread").join().expect("no panic");
}

#[test]
fn link_in_the_stable_part_is_emptied_by_on_free_or_goes_with_the_page() {
    struct Stable {
        next: Link<Stable, Counted, Immediate, Domain>,
    }
    let domain = Domain::new();
    let build = |empties: bool| -> Slab<Stable, Counted, Immediate, Domain> {
        Slab::builder()
            .domain(&domain)
            .on_free(move |stable: &Stable| {
                if empties {
                    drop(stable.next.take());
                }
            })
            .build(|blank| Stable { next: blank.link() })
    };
    let drops = Arc::new(AtomicUsize::new(0));
    let new = || Counted(Arc::clone(&drops));

    let slab = build(true);
    let first = slab.insert(new());
    Ref::stable(&first).next.set(Some(slab.insert(new())));
    drop(first);
    assert_eq!((drops.load(Relaxed), slab.len()), (2, 0));

    // Kept by a free slot; gone with its page.
    let (slab, other) = (build(false), build(false));
    let first = slab.insert(new());
    Ref::stable(&first).next.set(Some(other.insert(new())));
    drop(first);
    assert_eq!((drops.load(Relaxed), other.len()), (3, 1));
    drop(slab);
    assert_eq!(domain.drain().left, 0);
    assert_eq!((drops.load(Relaxed), other.len()), (4, 0));
}

/// Drops values, and uses the slab, in destructors of thread-locals that were touched before and after the slab was.
fn thread_ends_with_references<P: Policy<Domain>>() {
    let domain = Domain::new();
    let (slab, stable) = counted_slab::<Counted, P>(&domain);
    let slab = Arc::new(slab);
    let drops = Arc::new(AtomicUsize::new(0));
    for _ in 0..20 {
        let (slab, drops) = (Arc::clone(&slab), Arc::clone(&drops));
        let ending = std::thread::spawn(move || {
            struct Late(Option<Box<dyn FnOnce()>>);
            impl Drop for Late {
                fn drop(&mut self) {
                    if let Some(code) = self.0.take() {
                        code();
                    }
                }
            }
            thread_local! {
                static BEFORE: RefCell<Option<Late>> = const { RefCell::new(None) };
                static AFTER: RefCell<Option<Late>> = const { RefCell::new(None) };
            }
            let work = |slab: &Arc<Owned<Counted, Counted, P>>| {
                let held: Vec<_> = (0..40)
                    .map(|_| slab.insert(Counted(Arc::clone(&drops))))
                    .collect();
                let (slab, drops) = (Arc::clone(slab), Arc::clone(&drops));
                Late(Some(Box::new(move || {
                    drop(held);
                    for _ in 0..40 {
                        let value = slab.insert(Counted(Arc::clone(&drops)));
                        assert!(slab.get(Ref::key(&value)).is_some());
                    }
                })))
            };
            BEFORE.with(|_| ());
            let late = work(&slab);
            BEFORE.set(Some(late));
            let late = work(&slab);
            AFTER.set(Some(late));
        });
        ending.join().expect("no panic");
    }
    domain.barrier();
    assert_eq!(drops.load(Relaxed), 20 * 160);
    assert_eq!((slab.len(), slab.stats().waiting), (0, 0));
    assert!(slab.stats().caches <= 2);
    let capacity = slab.capacity();
    slab.shrink();
    assert_eq!(slab.capacity(), 0);
    drop(slab);
    assert_eq!(domain.drain().left, 0);
    assert_eq!(stable.load(Relaxed), capacity);
}

#[test]
fn thread_ends_with_references_immediate() {
    thread_ends_with_references::<Immediate>();
}

#[test]
fn thread_ends_with_references_after_grace() {
    thread_ends_with_references::<AfterGrace>();
}

#[test]
fn closing_inside_a_destructor_and_inside_a_guard_waits_for_nobody() {
    let _emptied = Emptied;
    struct Closer(Option<Slab<(), Counted, AfterGrace, Domain>>);
    impl Drop for Closer {
        fn drop(&mut self) {
            drop(self.0.take());
        }
    }
    let domain = Domain::new();
    let drops = Arc::new(AtomicUsize::new(0));
    let inner: Slab<(), Counted, AfterGrace, Domain> =
        Slab::builder().domain(&domain).build(|_| ());
    drop(inner.insert(Counted(Arc::clone(&drops))));
    let outer: Slab<(), Closer> = Slab::new(|_| ());
    let guard = domain.enter();
    drop(outer.insert(Closer(Some(inner))));
    assert_eq!(drops.load(Relaxed), 0);
    drop(guard);
    assert_eq!(domain.drain().left, 0);
    assert_eq!(drops.load(Relaxed), 1);
}

#[test]
fn closures_of_the_slab_go_with_its_memory_and_their_panics_stay_in() {
    let told = Arc::new(AtomicUsize::new(0));
    let hook = Arc::clone(&told);
    let domain = Domain::builder()
        .on_panic(move |_| {
            hook.fetch_add(1, Relaxed);
        })
        .build();
    let drops = Arc::new(AtomicUsize::new(0));
    let (bomb, counted) = (Bomb, Counted(Arc::clone(&drops)));
    let slab: Owned<(), u8, Immediate> = Slab::builder()
        .domain(&domain)
        .on_free(move |()| {
            let _ = &counted;
        })
        .build(move |_| {
            let _ = &bomb;
        });
    let value = slab.insert(1);
    drop(slab);
    drop(value);
    assert_eq!(domain.drain().left, 0);
    // This thread still has a cache of the slab; it gives it back when it builds another one.
    let _next: Owned<(), u8, Immediate> = Slab::builder().domain(&domain).build(|_| ());
    assert_eq!((told.load(Relaxed), drops.load(Relaxed)), (1, 1));
}
