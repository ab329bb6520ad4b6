//! What a slab owns itself: kept incarnations and bulks of references counted outside.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use graceperiod::{AfterGrace, Cursor, Domain, Immediate, Key, Policy, Ref, Released, Slab};

/// Counts its own drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

type Objects<P> = Slab<(), Counted, P, Domain>;

fn objects<P: Policy<Domain>>(domain: &Domain) -> (Objects<P>, Arc<AtomicUsize>) {
    let slab = Slab::builder().domain(domain).build(|_| ());
    (slab, Arc::default())
}

#[test]
fn kept_object_lives_until_it_is_removed() {
    let domain = Domain::new();
    let (slab, drops) = objects::<Immediate>(&domain);
    let key = Ref::keep(slab.insert(Counted(Arc::clone(&drops))));
    assert_eq!((slab.len(), drops.load(Relaxed)), (1, 0));
    let removed = slab.remove(key).expect("kept");
    assert!(slab.remove(key).is_none());
    assert!(slab.get(key).is_some(), "found while anybody has it");
    drop(removed);
    assert!(slab.get(key).is_none());
    assert_eq!((slab.len(), drops.load(Relaxed)), (0, 1));
}

#[test]
fn keeping_twice_owns_once() {
    let domain = Domain::new();
    let (slab, drops) = objects::<Immediate>(&domain);
    let first = slab.insert(Counted(Arc::clone(&drops)));
    let second = first.clone();
    assert_eq!(Ref::keep(first), Ref::keep(second));
    let key = slab.insert_kept(Counted(Arc::clone(&drops)));
    assert_eq!(Ref::keep(slab.get(key).expect("kept")), key);
    drop(slab.remove(key).expect("kept"));
    assert_eq!(drops.load(Relaxed), 1);
    assert_eq!(slab.clear(), 1);
    assert_eq!(drops.load(Relaxed), 2);
}

#[test]
fn stale_key_removes_and_retains_nothing() {
    let domain = Domain::new();
    let slab: Slab<(), u64, Immediate, Domain> =
        Slab::builder().domain(&domain).max_objects(1).build(|_| ());
    let old = slab.insert_kept(1);
    drop(slab.remove(old));
    let new = slab.insert_kept(2);
    assert_eq!(new.index(), old.index());
    assert!(slab.remove(old).is_none());
    assert!(!slab.retain(old, 1));
    assert_eq!(slab.release(old, 1), Released::Unknown);
    assert_eq!(slab.get(new).as_deref(), Some(&2));
}

#[test]
fn of_many_removers_one_gets_it() {
    const ROUNDS: usize = 2_000;
    let domain = Domain::new();
    let slab: Slab<(), u64, Immediate, Domain> = Slab::builder().domain(&domain).build(|_| ());
    let keys: Vec<Key> = (0..ROUNDS).map(|n| slab.insert_kept(n as u64)).collect();
    let got = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for &key in &keys {
                    if slab.remove(key).is_some() {
                        got.fetch_add(1, Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!((got.load(Relaxed), slab.len()), (ROUNDS, 0));
}

fn closing_gives_up_what_the_slab_owns<P: Policy<Domain>>() {
    let domain = Domain::new();
    let (slab, drops) = objects::<P>(&domain);
    for _ in 0..500 {
        slab.insert_kept(Counted(Arc::clone(&drops)));
        let retained = slab.insert(Counted(Arc::clone(&drops)));
        assert!(slab.retain(Ref::key(&retained), 3));
        Ref::retain(&retained, 4);
        Ref::keep(retained);
    }
    let held = slab.insert(Counted(Arc::clone(&drops)));
    drop(slab);
    domain.barrier();
    assert_eq!(drops.load(Relaxed), 1_000);
    // Nobody could take these back any more.
    Ref::retain(&held, 1);
    Ref::keep(held.clone());
    Ref::keep(held);
    domain.barrier();
    assert_eq!(drops.load(Relaxed), 1_001);
    assert_eq!(domain.drain().left, 0);
}

#[test]
fn closing_gives_up_what_the_slab_owns_immediate() {
    closing_gives_up_what_the_slab_owns::<Immediate>();
}

#[test]
fn closing_gives_up_what_the_slab_owns_after_grace() {
    closing_gives_up_what_the_slab_owns::<AfterGrace>();
}

#[test]
fn keeping_while_the_slab_closes_loses_nothing() {
    for _ in 0..300 {
        let domain = Domain::new();
        let (slab, drops) = objects::<Immediate>(&domain);
        let held: Vec<_> = (0..16)
            .map(|_| slab.insert(Counted(Arc::clone(&drops))))
            .collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (n, held) in held.into_iter().enumerate() {
                    if n % 2 == 0 {
                        Ref::retain(&held, 1);
                    } else {
                        Ref::keep(held);
                    }
                }
            });
            drop(slab);
        });
        assert_eq!(drops.load(Relaxed), 16);
    }
}

#[test]
fn bulk_counts_like_the_protocol_and_owns_one_reference() {
    let domain = Domain::new();
    let (slab, drops) = objects::<Immediate>(&domain);
    let object = slab.insert(Counted(Arc::clone(&drops)));
    let key = Ref::key(&object);
    assert_eq!(slab.release(key, 1), Released::Unknown);
    assert!(slab.retain(key, 1));
    assert!(slab.retain(key, 1 << 40));
    Ref::retain(&object, 2);
    drop(object);
    assert_eq!(slab.retained(key), (1 << 40) + 3);
    assert_eq!(slab.release(key, (1 << 40) + 4), Released::Unknown);
    assert_eq!(slab.release(key, 1 << 40), Released::Live);
    assert_eq!(slab.release(key, 0), Released::Live);
    assert_eq!(drops.load(Relaxed), 0);
    assert_eq!(slab.release(key, 3), Released::Last);
    assert_eq!((drops.load(Relaxed), slab.len()), (1, 0));
    assert_eq!(slab.release(key, 3), Released::Unknown);
    assert_eq!(slab.retained(key), 0);
}

#[test]
fn bulk_begins_anew_after_its_last_and_in_the_next_life() {
    let domain = Domain::new();
    let slab: Slab<(), u64, Immediate, Domain> = Slab::builder().domain(&domain).build(|_| ());
    for n in 0..100 {
        let object = slab.insert(n);
        let key = Ref::key(&object);
        assert_eq!(slab.retained(key), 0);
        assert_eq!(slab.release(key, 1), Released::Unknown);
        for _ in 0..2 {
            assert!(slab.retain(key, 5));
            assert_eq!(slab.release(key, 5), Released::Last);
        }
    }
}

#[test]
fn bulk_that_would_not_fit_changes_nothing() {
    let domain = Domain::new();
    let slab: Slab<(), u64, Immediate, Domain> = Slab::builder().domain(&domain).build(|_| ());
    let key = slab.insert_kept(1);
    assert!(slab.retain(key, i64::MAX as u64));
    let more = std::panic::AssertUnwindSafe(|| slab.retain(key, 1));
    assert!(std::panic::catch_unwind(more).is_err());
    assert_eq!(slab.release(key, i64::MAX as u64), Released::Last);
    drop(slab.remove(key));
    assert!(slab.is_empty());
}

/// libfuse 1371: with two FORGETs at once each saw a count that wasn't the last, or both did.
#[test]
fn of_two_forgets_at_once_one_sees_the_last() {
    for round in 0..3_000 {
        let domain = Domain::new();
        let slab: Slab<(), u64, Immediate, Domain> = Slab::builder().domain(&domain).build(|_| ());
        let key = Ref::key(&{
            let object = slab.insert(round);
            Ref::retain(&object, 4);
            object
        });
        let lasts: usize = std::thread::scope(|scope| {
            let forgets = [2, 2].map(|n| {
                scope.spawn({
                    let slab = &slab;
                    move || slab.release(key, n)
                })
            });
            forgets
                .map(|f| usize::from(f.join().expect("no panic") == Released::Last))
                .iter()
                .sum()
        });
        assert_eq!((lasts, slab.len()), (1, 0));
        if round == 200 && cfg!(debug_assertions) {
            break;
        }
    }
}

/// libfuse 1368 and 1563: a look-up answered with a node whose last FORGET was under way, and whose number went to
/// another file.
#[test]
fn lookup_against_forget_never_counts_for_the_next_file() {
    let domain = Domain::new();
    let slab: Slab<(), u64, Immediate, Domain> = Slab::builder().domain(&domain).build(|_| ());
    let rounds = if cfg!(debug_assertions) {
        5_000
    } else {
        100_000
    };
    for n in 0..rounds {
        let object = slab.insert(n);
        let key = Ref::key(&object);
        Ref::retain(&object, 1);
        drop(object);
        std::thread::scope(|scope| {
            if n % 64 == 0 {
                scope.spawn(|| {
                    if slab.retain(key, 1) {
                        assert_ne!(slab.release(key, 1), Released::Unknown);
                    }
                });
            }
            assert_ne!(slab.release(key, 1), Released::Unknown);
            // The number goes on at once.
            let next = slab.insert(n);
            assert_eq!(slab.retained(Ref::key(&next)), 0);
        });
        assert!(slab.is_empty());
    }
}

#[test]
fn bulk_is_sixty_four_bits_at_no_memory() {
    // State word, link and the value: nothing else.
    let domain = Domain::new();
    let slab: Slab<(), u64, Immediate, Domain> = Slab::builder().domain(&domain).build(|_| ());
    if cfg!(target_pointer_width = "64") {
        assert_eq!(slab.stats().slot_bytes, 24);
    }
}

#[test]
fn drain_hands_out_what_the_slab_owns_once_and_nothing_else() {
    let domain = Domain::new();
    let slab: Slab<(), u64, Immediate, Domain> = Slab::builder().domain(&domain).build(|_| ());
    let held = slab.insert(0);
    let keys: Vec<Key> = (1..=2_000).map(|n| slab.insert_kept(n)).collect();
    for &key in &keys[..1_000] {
        assert!(slab.retain(key, 2));
    }
    let mut drained: Vec<u64> = slab.drain().map(|object| *object).collect();
    drained.sort_unstable();
    assert_eq!(drained, (1..=2_000).collect::<Vec<_>>());
    assert_eq!(slab.len(), 1);
    assert_eq!(slab.drain().count(), 0);
    drop(held);
}

/// openvmm 4274 and generational-arena 30: after a clear, ids began again and old handles matched.
#[test]
fn clear_never_restarts_ids() {
    let domain = Domain::new();
    let slab: Slab<(), u64, Immediate, Domain> = Slab::builder().domain(&domain).build(|_| ());
    let mut old = Vec::new();
    for round in 0..20 {
        old.extend((0..100).map(|n| slab.insert_kept(n)));
        assert_eq!(slab.clear(), 100);
        if round % 5 == 4 {
            slab.shrink();
        }
    }
    let new: Vec<Key> = (0..100).map(|n| slab.insert_kept(n)).collect();
    assert!(new.iter().all(|key| !old.contains(key)));
    assert!(old.iter().all(|&key| slab.get(key).is_none()));
}

#[test]
fn remove_where_asks_about_kept_ones_and_leaves_the_rest() {
    let domain = Domain::new();
    let slab: Slab<(), u64, Immediate, Domain> = Slab::builder().domain(&domain).build(|_| ());
    let held: Vec<_> = (0..10).map(|n| slab.insert(n)).collect();
    for n in 10..1_000 {
        slab.insert_kept(n);
    }
    let removed = slab.remove_where(|object| {
        assert!(**object >= 10);
        **object % 2 == 0
    });
    assert_eq!((removed, slab.len()), (495, 505));
    drop(held);
}

#[test]
fn value_that_owns_the_slabs_other_values_is_dropped_by_the_clear() {
    struct Parent(Slab<(), Parent, Immediate, Domain>);
    let domain = Domain::new();
    let inner: Slab<(), Parent, Immediate, Domain> = Slab::builder().domain(&domain).build(|_| ());
    let outer: Slab<(), Parent, Immediate, Domain> = Slab::builder().domain(&domain).build(|_| ());
    let key = outer.insert_kept(Parent(inner));
    assert_eq!(outer.get(key).expect("kept").0.len(), 0);
    drop(outer);
    assert_eq!(domain.drain().left, 0);
}

#[test]
fn scan_shows_each_living_object_once_a_lap() {
    let domain = Domain::new();
    let slab: Slab<u64, u64, Immediate, Domain> =
        Slab::builder().domain(&domain).build(|blank| blank.index());
    let mut held: Vec<_> = (0..3_000).map(|n| slab.insert(n)).collect();
    held.retain(|object| **object % 3 != 0);
    let mut cursor = Cursor::new();
    for lap in 0..3 {
        let mut seen = Vec::new();
        while cursor.laps() == lap {
            let guard = domain.enter();
            for found in slab.scan(&guard, &mut cursor, 100).take(30) {
                seen.push(found.key());
            }
        }
        let mut keys: Vec<_> = held.iter().map(Ref::key).collect();
        seen.sort_unstable();
        keys.sort_unstable();
        assert_eq!(seen, keys);
    }
    let guard = domain.enter();
    assert_eq!(slab.iter(&guard).count(), held.len());
}

#[test]
fn scan_of_an_empty_slab_ends() {
    let domain = Domain::new();
    let slab: Slab<(), u64, Immediate, Domain> = Slab::builder().domain(&domain).build(|_| ());
    let mut cursor = Cursor::new();
    let guard = domain.enter();
    assert!(slab.scan(&guard, &mut cursor, 9).next().is_none());
    assert_eq!(cursor.laps(), 1);
    assert!(slab.scan(&guard, &mut cursor, 0).next().is_none());
    assert_eq!(cursor.laps(), 1);
}

#[test]
fn scan_goes_on_past_pages_that_have_left() {
    let domain = Domain::new();
    let slab: Slab<(), [u64; 100], Immediate, Domain> =
        Slab::builder().domain(&domain).build(|_| ());
    let mut held: Vec<_> = (0..1_000).map(|n| slab.insert([n; 100])).collect();
    let last = held.pop().expect("some");
    drop(held);
    assert!(slab.shrink() > 5);
    let guard = domain.enter();
    let seen: Vec<_> = slab.iter(&guard).map(|found| found.key()).collect();
    assert_eq!(seen, [Ref::key(&last)]);
}

#[test]
fn clock_hand_gives_a_second_chance() {
    use std::sync::atomic::AtomicBool;
    let domain = Domain::new();
    // The stable part holds the reference bit.
    let slab: Slab<AtomicBool, u64, Immediate, Domain> = Slab::builder()
        .domain(&domain)
        .build(|_| AtomicBool::new(false));
    let keys: Vec<Key> = (0..10).map(|n| slab.insert_kept(n)).collect();
    let hot = slab.get(keys[0]).expect("kept");
    let mut hand = Cursor::new();
    while slab.len() > 1 {
        Ref::stable(&hot).store(true, Relaxed);
        let victim = {
            let guard = domain.enter();
            let mut passed = slab.scan(&guard, &mut hand, 4);
            passed.find_map(|found| {
                let was_used = found.stable().swap(false, Relaxed);
                (!was_used).then(|| found.remove()).flatten()
            })
        };
        drop(victim);
    }
    assert_eq!(*hot, 0);
}
