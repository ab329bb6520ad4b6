//! Bugs of others that came from reusing objects under readers, each made to happen here. `slab/refused` has those that
//! don't compile.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use graceperiod::slab::Debug;
use graceperiod::{Domain, Immediate, Ref, Slab};

type Owned<S, V> = Slab<S, V, Immediate, Domain>;

/// A slab whose next object sits where the last one was, whichever thread makes it.
fn recycling<S: Send + Sync + 'static, V: Send + Sync + 'static>(
    domain: &Domain,
    stable: impl Fn() -> S + Send + Sync + 'static,
) -> Owned<S, V> {
    Slab::builder()
        .domain(domain)
        .debug(Debug::RecycleAtOnce)
        .build(move |_| stable())
}

/// Linux 0ed8f619b412: a connection's tuple was read before the count was known to be taken, and so came from the life
/// before.
#[test]
fn conntrack_fields_read_after_a_get_are_of_that_life() {
    let domain = Domain::new();
    let slab: Owned<AtomicU64, AtomicU64> = recycling(&domain, || AtomicU64::new(0));
    let (done, got) = (AtomicBool::new(false), AtomicUsize::new(0));
    let current = slab.link();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let guard = domain.enter();
                    let Some(entry) = current.load(&guard).and_then(|found| found.try_get()) else {
                        continue;
                    };
                    let generation = Ref::key(&entry).generation();
                    assert_eq!(Ref::stable(&entry).load(Relaxed), generation);
                    assert_eq!(entry.load(Relaxed), generation);
                    got.fetch_add(1, Relaxed);
                }
            });
        }
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(200) || got.load(Relaxed) < 100 {
            let vacant = slab.reserve();
            let generation = vacant.key().generation();
            vacant.stable().store(generation, Relaxed);
            current.set(Some(vacant.publish(AtomicU64::new(generation))));
        }
        done.store(true, Relaxed);
    });
}

/// CVE-2021-4083: a descriptor was looked up and its file counted, while another thread closed it and the file was
/// allocated anew.
#[test]
fn fget_of_a_descriptor_that_was_closed_meanwhile_finds_nobody() {
    let domain = Domain::new();
    let slab: Owned<(), &str> = recycling(&domain, || ());
    let descriptor = slab.link();
    descriptor.set(Some(slab.insert("passwords")));
    let guard = domain.enter();
    let found = descriptor.load(&guard).expect("open");
    let old = found.key();
    std::thread::scope(|scope| {
        let close_and_open = || {
            drop(descriptor.take());
            descriptor.set(Some(slab.insert("a socket")));
        };
        scope.spawn(close_and_open).join().expect("no panic");
    });
    let present = descriptor.load(&guard).expect("open again");
    assert_eq!(present.key().index(), old.index(), "the same memory");
    assert!(found.try_get().is_none());
    assert_eq!(found.read(|()| ()), None);
    assert_eq!(*present.try_get().expect("alive"), "a socket");
}

/// CVE-2025-38554: a look-up counted an area that had gone to another process, and gave the count back to an owner that
/// was no longer there.
#[test]
fn vma_of_another_owner_is_never_counted_not_even_for_a_moment() {
    const OWNERS: u64 = 100_000;
    let domain = Domain::new();
    let slab: Owned<(), u64> = recycling(&domain, || ());
    let first = slab.insert(0);
    let key = Ref::key(&first);
    let (seen, done) = (Barrier::new(2), AtomicBool::new(false));
    let (strangers, shared) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let guard = domain.enter();
            let found = slab.candidate(&guard, key).expect("alive");
            seen.wait();
            // The owner's turn, so that the first life's last reference isn't this thread's.
            seen.wait();
            let mut strangers = 0;
            while !done.load(Relaxed) {
                strangers += u64::from(found.try_get().is_some());
            }
            strangers
        });
        seen.wait();
        drop(first);
        seen.wait();
        let mut shared = 0;
        for owner in 1..=OWNERS {
            let area = slab.insert(owner);
            assert_eq!(Ref::key(&area).index(), key.index());
            shared += u64::from(Ref::try_unwrap(area).is_err());
        }
        done.store(true, Relaxed);
        (reader.join().expect("no panic"), shared)
    });
    assert_eq!((strangers, shared), (0, 0));
    assert!(slab.is_empty());
}

/// Linux 941297f443f8: allocating an object with zeroed memory wiped the marker by which a chain's end is known.
#[test]
fn nulls_marker_that_the_constructor_wrote_survives_every_reuse() {
    const MARKER: usize = 0x8765_4321;
    let domain = Domain::new();
    for debug in [None, Some(Debug::RecycleAtOnce), Some(Debug::Quarantine)] {
        let mut builder = Slab::builder().domain(&domain);
        if let Some(debug) = debug {
            builder = builder.debug(debug);
        }
        let slab: Owned<AtomicUsize, [u8; 40]> = builder.build(|_| AtomicUsize::new(MARKER));
        for _ in 0..20 {
            let held: Vec<_> = (0..500).map(|_| slab.insert([0; 40])).collect();
            assert!(
                held.iter()
                    .all(|node| Ref::stable(node).load(Relaxed) == MARKER)
            );
            drop(slab.reserve());
        }
    }
}

/// i915, KVM's guest_memfd: a look-up tried again while the count was zero, which it stayed.
#[test]
fn spinning_on_a_slot_that_stays_dead_does_not_happen() {
    let domain = Domain::new();
    let slab: Owned<(), u64> = recycling(&domain, || ());
    let value = slab.insert(1);
    let key = Ref::key(&value);
    let guard = domain.enter();
    let found = slab.candidate(&guard, key).expect("alive");
    drop(value);
    // Taken, and left unpublished for as long as it likes.
    let vacant = slab.reserve();
    assert_eq!(vacant.key().index(), key.index());
    let begun = Instant::now();
    for _ in 0..10_000 {
        assert!(found.try_get().is_none() && found.read(|()| ()).is_none());
        assert!(slab.get(key).is_none() && slab.get(vacant.key()).is_none());
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
}

fn poisons_the_next_life(resets: bool) -> bool {
    let domain = Domain::new();
    let builder = Slab::builder().domain(&domain).debug(Debug::RecycleAtOnce);
    let builder = if resets {
        builder.on_free(|lock: &Mutex<u64>| lock.clear_poison())
    } else {
        builder
    };
    let slab: Owned<Mutex<u64>, ()> = builder.build(|_| Mutex::new(0));
    let value = slab.insert(());
    std::thread::scope(|scope| {
        let poisoner = scope.spawn(|| {
            let _held = Ref::stable(&value).lock();
            panic!("under the lock");
        });
        assert!(poisoner.join().is_err());
    });
    assert!(Ref::stable(&value).is_poisoned());
    let index = Ref::key(&value).index();
    drop(value);
    let next = slab.insert(());
    assert_eq!(Ref::key(&next).index(), index);
    Ref::stable(&next).is_poisoned()
}

/// A lock in a stable part stays poisoned unless the slab's hook clears it, as the docs say.
#[test]
fn poisoned_mutex_is_clean_in_the_next_life_if_on_free_clears_it() {
    assert!(poisons_the_next_life(false));
    assert!(!poisons_the_next_life(true));
}

/// RUSTSEC-2026-0204: formatting a pointer followed it.
#[test]
fn formatting_follows_no_pointer() {
    struct Unprintable;
    struct Loud(Arc<AtomicUsize>);
    impl std::fmt::Debug for Loud {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.fetch_add(1, Relaxed);
            f.write_str("looked at")
        }
    }
    let domain = Domain::new();
    let looked = Arc::new(AtomicUsize::new(0));
    let each = Arc::clone(&looked);
    let slab: Owned<Loud, Loud> = recycling(&domain, move || Loud(Arc::clone(&each)));
    let value = slab.insert(Loud(Arc::clone(&looked)));
    let link = slab.link();
    link.set(Some(value.clone()));
    let guard = domain.enter();
    let found = slab.candidate(&guard, Ref::key(&value));
    let vacant = slab.reserve();
    let text = format!("{slab:?} {value:?} {link:?} {found:?} {vacant:?}");
    assert_eq!(
        (looked.load(Relaxed), text.contains("looked at")),
        (0, false)
    );
    // Nor could it: the types needn't be printable.
    let other: Owned<Unprintable, Unprintable> = recycling(&domain, || Unprintable);
    assert!(!format!("{:?}", other.insert(Unprintable)).is_empty());
}
