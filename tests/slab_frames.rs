//! Foreign code that a slab runs at odd places: beside a constructor, after a failed one, with the slab's memory.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use graceperiod::{Domain, Immediate, Ref, Slab};

type Owned<S, V> = Slab<S, V, Immediate, Domain>;

/// A place for something that is made later.
type Later<T> = Arc<Mutex<Option<T>>>;

fn domain_that_counts_panics() -> (Domain, Arc<AtomicUsize>) {
    let told = Arc::new(AtomicUsize::new(0));
    let hook = Arc::clone(&told);
    let domain = Domain::builder()
        .on_panic(move |_| {
            hook.fetch_add(1, Relaxed);
        })
        .build();
    (domain, told)
}

/// Asks for what no destructor may ask for.
struct Waiter(Domain);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.barrier();
    }
}

/// Reserves from its own slab when dropped.
struct Again {
    slab: Later<Arc<Owned<(), Again>>>,
    drops: Arc<AtomicUsize>,
}

impl Drop for Again {
    fn drop(&mut self) {
        let slab = self.slab.lock().expect("no panic under it").clone();
        drop(slab.expect("set before").reserve());
        self.drops.fetch_add(1, Relaxed);
    }
}

#[test]
fn value_that_a_constructor_drops_may_reserve_from_the_slab() {
    let (domain, told) = domain_that_counts_panics();
    let (late, drops) = (Later::default(), Arc::new(AtomicUsize::new(0)));
    let victim: Later<Ref<(), Again, Immediate, Domain>> = Later::default();
    let taken = Arc::clone(&victim);
    let slab: Arc<Owned<(), Again>> = Arc::new(Slab::builder().domain(&domain).build(move |_| {
        let victim = taken.lock().expect("no panic under it").take();
        drop(victim);
    }));
    *late.lock().expect("no panic under it") = Some(Arc::clone(&slab));
    let value = slab.insert(Again {
        slab: Arc::clone(&late),
        drops: Arc::clone(&drops),
    });
    // All slots but the ones of another page, whose constructor then drops the value.
    let held: Vec<_> = (1..slab.capacity()).map(|_| slab.reserve()).collect();
    *victim.lock().expect("no panic under it") = Some(value);
    let begun = std::time::Instant::now();
    let other = slab.reserve();
    assert!(begun.elapsed().as_millis() < 90, "nobody else builds");
    assert_eq!((drops.load(Relaxed), told.load(Relaxed)), (1, 0));
    drop((held, other));
    *late.lock().expect("no panic under it") = None;
}

#[test]
fn stable_part_that_a_failed_page_drops_is_a_destructor_of_the_domain() {
    let (domain, told) = domain_that_counts_panics();
    for panics in [false, true] {
        let (inner, built) = (domain.clone(), AtomicUsize::new(0));
        let slab: Owned<Waiter, ()> = Slab::builder().domain(&domain).build_fallible(move |_| {
            let fails = built.fetch_add(1, Relaxed) == 1;
            assert!(!(fails && panics), "constructor");
            if fails {
                return Err("no more".into());
            }
            Ok(Waiter(inner.clone()))
        });
        assert!(slab.try_reserve().is_err());
        assert_eq!(told.swap(0, Relaxed), 1, "a barrier inside a destructor");
    }
}

#[test]
fn what_the_closures_of_a_slab_hold_is_dropped_as_a_destructor_of_the_domain() {
    let (domain, told) = domain_that_counts_panics();
    let (first, second) = (Waiter(domain.clone()), Waiter(domain.clone()));
    let slab: Owned<(), ()> = Slab::builder()
        .domain(&domain)
        .on_free(move |()| {
            let _ = &first;
        })
        .build(move |_| {
            let _ = &second;
        });
    drop(slab);
    assert_eq!(told.load(Relaxed), 2);
}
