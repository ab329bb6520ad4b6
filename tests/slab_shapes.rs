//! Types of odd sizes, and threads that end with all their magazines full.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use graceperiod::{AfterGrace, Domain, Immediate, Policy, Ref, Slab};

#[repr(align(4096))]
struct Wide(u8);

/// Fills more than a page, looks at everything, and fills it again.
fn fits<S, V, P>(
    domain: &Domain,
    stable: fn(u64) -> S,
    value: fn(u64) -> V,
    n: u64,
    look: fn(&S, &V) -> u64,
) where
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<Domain>,
{
    let slab: Slab<S, V, P, Domain> = Slab::builder()
        .domain(domain)
        .build(move |blank| stable(blank.index()));
    for _ in 0..3 {
        let held: Vec<_> = (0..n)
            .map(|i| slab.reserve().publish_with(|_| value(i)))
            .collect();
        for (i, held) in (0..n).zip(&held) {
            let stable = Ref::stable(held);
            assert!(std::ptr::from_ref(stable).is_aligned());
            assert!(std::ptr::from_ref(&**held).is_aligned());
            let sum = (Ref::key(held).index() + i) % 251;
            assert_eq!(
                look(stable, held) % 251,
                sum * u64::from(size_of::<S>() + size_of::<V>() > 0)
            );
        }
        let mut keys: Vec<_> = held.iter().map(Ref::key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len() as u64, n);
        drop(held);
        assert!(keys.iter().all(|&key| slab.get(key).is_none()));
        domain.synchronize();
    }
    domain.barrier();
    let stats = slab.stats();
    assert_eq!((stats.live, stats.waiting), (0, 0));
    assert_eq!(slab.shrink(), stats.pages, "no slot is lost");
}

fn low(n: u64) -> u8 {
    u8::try_from(n % 251).expect("below 251")
}

fn every_shape_fits<P: Policy<Domain>>() {
    let large = || {
        let domain = Domain::new();
        fits::<(), (), P>(&domain, |_| (), |_| (), 9_000, |(), ()| 0);
        fits::<Wide, Wide, P>(
            &domain,
            |n| Wide(low(n)),
            |n| Wide(low(n)),
            60,
            |s, v| u64::from(s.0) + u64::from(v.0),
        );
        fits::<[u8; 1 << 20], u8, P>(
            &domain,
            |n| [low(n); 1 << 20],
            low,
            17,
            |s, v| u64::from(s[(1 << 20) - 1]) + u64::from(*v),
        );
        fits::<u8, [u8; 1 << 20], P>(
            &domain,
            low,
            |n| [low(n); 1 << 20],
            17,
            |s, v| u64::from(*s) + u64::from(v[(1 << 20) - 1]),
        );
        fits::<u64, u64, P>(&domain, |n| n, |n| n, 9_000, |s, v| s % 251 + v % 251);
    };
    // Debug builds move a megabyte over the stack several times.
    let thread = std::thread::Builder::new().stack_size(64 << 20);
    thread
        .spawn(large)
        .expect("a thread")
        .join()
        .expect("no panic");
}

#[test]
fn every_shape_fits_immediate() {
    every_shape_fits::<Immediate>();
}

#[test]
fn every_shape_fits_after_grace() {
    every_shape_fits::<AfterGrace>();
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Two magazines of free slots and one of dead ones, full to the last, and the thread goes.
fn full_magazines_of_a_thread_that_ends_serve_others<P: Policy<Domain>>() {
    let domain = Domain::new();
    let slab: Slab<(), Counted, P, Domain> = Slab::builder().domain(&domain).build(|_| ());
    let drops = Arc::new(AtomicUsize::new(0));
    let new = || slab.insert(Counted(Arc::clone(&drops)));
    let mut made = 0;
    // Around each boundary: a magazine has 32 slots.
    for n in [1, 31, 32, 33, 63, 64, 65, 66, 95, 96, 97, 128, 129] {
        std::thread::scope(|scope| {
            let ending = scope.spawn(|| drop((0..n).map(|_| new()).collect::<Vec<_>>()));
            ending.join().expect("no panic");
        });
        made += n;
    }
    domain.barrier();
    assert_eq!(drops.load(Relaxed), made);
    if std::env::var("GRACEPERIOD_SLAB_DEBUG").is_ok_and(|mode| mode == "quarantine") {
        return;
    }
    let capacity = slab.capacity();
    assert_eq!(
        capacity,
        slab.stats().page_slots,
        "each thread used what the last one left"
    );
    let all: Vec<_> = (0..capacity).map(|_| new()).collect();
    assert_eq!(slab.capacity(), capacity, "no slot is lost");
    drop(all);
    domain.barrier();
    assert!(slab.stats().caches <= 3);
    assert_eq!(slab.shrink(), 1);
}

#[test]
fn full_magazines_of_a_thread_that_ends_serve_others_immediate() {
    full_magazines_of_a_thread_that_ends_serve_others::<Immediate>();
}

#[test]
fn full_magazines_of_a_thread_that_ends_serve_others_after_grace() {
    full_magazines_of_a_thread_that_ends_serve_others::<AfterGrace>();
}
