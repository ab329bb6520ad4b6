//! The slab's debug modes: each shows the mistakes that the other hides.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use graceperiod::slab::Debug;
use graceperiod::{AfterGrace, Domain, Immediate, Key, Policy, Ref, Slab};

type Owned<V, P = Immediate> = Slab<AtomicU64, V, P, Domain>;

fn build<V: Send + Sync + 'static, P: Policy<Domain>>(
    domain: &Domain,
    debug: Option<Debug>,
) -> Owned<V, P> {
    let builder = Slab::builder().domain(domain);
    let builder = match debug {
        Some(debug) => builder.debug(debug),
        None => builder,
    };
    builder.build(|_| AtomicU64::new(0))
}

fn panic_of(code: impl FnOnce()) -> Option<String> {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(code)).err()?;
    panic.downcast::<String>().ok().map(|message| *message)
}

/// An object with an identity in its stable part.
fn add(slab: &Owned<u64>, identity: u64) -> Ref<AtomicU64, u64, Immediate, Domain> {
    let vacant = slab.reserve();
    vacant.stable().store(identity, Relaxed);
    vacant.publish(identity)
}

#[test]
fn freed_slot_is_taken_next_by_whichever_thread() {
    let domain = Domain::new();
    let slab: Owned<u64> = build(&domain, Some(Debug::RecycleAtOnce));
    let held: Vec<_> = (0..100).map(|n| slab.insert(n)).collect();
    for value in held {
        let freed = Ref::key(&value);
        std::thread::scope(|scope| {
            scope.spawn(|| drop(value)).join().expect("no panic");
            let next = || Ref::key(&slab.insert(0));
            let there = scope.spawn(next).join().expect("no panic");
            assert_eq!(there.index(), freed.index());
            assert_eq!(next().index(), freed.index());
        });
    }
    assert_eq!((slab.len(), slab.stats().caches), (0, 0));
}

#[test]
fn freed_slots_are_taken_last_in_first_out() {
    let domain = Domain::new();
    let slab: Owned<u64> = build(&domain, Some(Debug::RecycleAtOnce));
    let held: Vec<_> = (0..100).map(|n| slab.insert(n)).collect();
    let keys: Vec<Key> = held.iter().map(Ref::key).collect();
    held.into_iter().for_each(drop);
    let again: Vec<_> = (0..100).map(|n| slab.insert(n)).collect();
    let indices = keys.iter().rev().map(|key| key.index());
    assert!(indices.eq(again.iter().map(|value| Ref::key(value).index())));
}

#[test]
fn recycling_after_grace_is_as_early_as_it_may_be_and_no_earlier() {
    let domain = Domain::new();
    let slab: Owned<u64, AfterGrace> = build(&domain, Some(Debug::RecycleAtOnce));
    let value = slab.insert(1);
    let key = Ref::key(&value);
    let guard = domain.enter();
    let found = slab.candidate(&guard, key).expect("alive");
    drop(value);
    let others: Vec<_> = (0..10).map(|n| slab.insert(n)).collect();
    assert!(others.iter().all(|o| Ref::key(o).index() != key.index()));
    assert_eq!(*found.value(), 1);
    drop(guard);
    domain.synchronize();
    assert_eq!(Ref::key(&slab.insert(2)).index(), key.index());
}

#[test]
fn freed_slot_is_left_alone_until_a_thousand_others_are_free() {
    const OTHERS: u64 = 1_024;
    let domain = Domain::new();
    let slab: Owned<u64> = build(&domain, Some(Debug::Quarantine));
    let first = Ref::key(&slab.insert(0));
    let capacity = slab.capacity() as u64;
    // New slots come first, then those that have been free for longest.
    let others: Vec<_> = (1..capacity).map(|n| slab.insert(n)).collect();
    assert!(others.iter().all(|o| Ref::key(o).index() != first.index()));
    let mut others = others.into_iter();
    others
        .by_ref()
        .take(usize::try_from(OTHERS).expect("small"))
        .for_each(drop);
    assert_eq!(Ref::key(&slab.insert(0)).index(), first.index());
}

#[test]
fn quarantine_gives_way_at_the_limit_and_loses_no_slot() {
    fn check<P: Policy<Domain>>() {
        let domain = Domain::new();
        let slab: Owned<String, P> = Slab::builder()
            .domain(&domain)
            .max_objects(10)
            .debug(Debug::Quarantine)
            .build(|_| AtomicU64::new(0));
        let mut last = Vec::new();
        for round in 0..100 {
            let values: Vec<_> = (0..10)
                .map(|n| {
                    slab.try_insert(format!("{round} {n}"))
                        .expect("room for ten")
                })
                .collect();
            assert!(slab.try_reserve().is_err());
            last = values.iter().map(Ref::key).collect();
            drop(values);
        }
        assert!(last.iter().all(|&key| slab.get(key).is_none()));
        domain.barrier();
        assert_eq!(slab.stats().waiting, 0);
        assert_eq!((slab.shrink(), slab.capacity()), (1, 0));
    }
    check::<Immediate>();
    check::<AfterGrace>();
}

/// Looks an object up by its identity, and believes what it found without looking again.
fn broken_look_up(slab: &Owned<u64>, key: Key, domain: &Domain, meanwhile: impl FnOnce()) -> u64 {
    let guard = domain.enter();
    let found = slab.candidate(&guard, key).expect("alive");
    meanwhile();
    found.stable().load(Relaxed)
}

/// The identity that a reader without a second check believes to have found, while another thread frees and inserts.
fn believed(debug: Option<Debug>) -> u64 {
    let domain = Domain::new();
    let slab = build(&domain, debug);
    let value = add(&slab, 7);
    let key = Ref::key(&value);
    broken_look_up(&slab, key, &domain, || {
        std::thread::scope(|scope| {
            scope.spawn(|| drop(value)).join().expect("no panic");
            scope
                .spawn(|| drop(add(&slab, 8)))
                .join()
                .expect("no panic");
        });
    })
}

#[test]
fn reader_without_a_second_check_is_caught_by_recycling_at_once() {
    assert_eq!(
        believed(Some(Debug::RecycleAtOnce)),
        8,
        "another's identity"
    );
    assert_eq!(
        believed(Some(Debug::Quarantine)),
        7,
        "which a quarantine hides"
    );
}

/// What a reader sees that keeps a value's address beyond its guard.
fn seen_too_late(debug: Debug) -> u64 {
    let domain = Domain::new();
    let slab: Owned<AtomicU64, AfterGrace> = build(&domain, Some(debug));
    let value = slab.insert(AtomicU64::new(7));
    let guard = domain.enter();
    let found = slab.candidate(&guard, Ref::key(&value)).expect("alive");
    let kept: *const AtomicU64 = found.value();
    drop(guard);
    drop(value);
    domain.barrier();
    let _next = slab.insert(AtomicU64::new(8));
    // SAFETY: none, which is the mistake; the memory is there as long as the slab is, and nobody writes to it now.
    unsafe { &*kept }.load(Relaxed)
}

#[test]
fn reader_that_keeps_a_value_too_long_is_caught_by_the_quarantine() {
    assert_eq!(
        seen_too_late(Debug::Quarantine),
        u64::from_ne_bytes([0xDB; 8])
    );
    assert_eq!(
        seen_too_late(Debug::RecycleAtOnce),
        8,
        "which instant reuse hides"
    );
}

#[test]
fn writer_that_keeps_a_value_too_long_is_accused_at_the_next_reuse() {
    let domain = Domain::new();
    let slab: Owned<AtomicU64> = Slab::builder()
        .domain(&domain)
        .name("sockets")
        .max_objects(1)
        .debug(Debug::Quarantine)
        .build(|_| AtomicU64::new(0));
    let value = slab.insert(AtomicU64::new(7));
    let kept: *const AtomicU64 = &raw const *value;
    drop(value);
    // SAFETY: none, which is the mistake; the memory is there as long as the slab is.
    unsafe { &*kept }.fetch_add(1, Relaxed);
    let accused = panic_of(|| drop(slab.reserve())).expect("a panic");
    assert!(accused.contains("slab `sockets`"), "{accused}");
}

#[test]
fn quarantine_never_touches_the_stable_part() {
    let domain = Domain::new();
    let slab: Owned<[u64; 4]> = build(&domain, Some(Debug::Quarantine));
    let value = slab.insert([1; 4]);
    Ref::stable(&value).store(9, Relaxed);
    let guard = domain.enter();
    let found = slab.candidate(&guard, Ref::key(&value)).expect("alive");
    drop(value);
    assert_eq!(found.stable().load(Relaxed), 9);
}

fn many_threads_in_a_debug_mode<P: Policy<Domain>>(debug: Debug) {
    let domain = Domain::new();
    let slab: Owned<Box<u64>, P> = build(&domain, Some(debug));
    let begin = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (slab, begin, domain) = (&slab, &begin, &domain);
            scope.spawn(move || {
                begin.wait();
                let mut held = Vec::new();
                for n in 0..1_500_u64 {
                    let vacant = slab.reserve();
                    assert_eq!(vacant.stable().swap(thread + 1, Relaxed), 0, "in use");
                    assert_eq!(vacant.stable().swap(0, Relaxed), thread + 1, "in use");
                    held.push(vacant.publish(Box::new(n)));
                    if n % 7 == 0 {
                        held.clear();
                    }
                    if n % 500 == 0 {
                        slab.shrink();
                        domain.synchronize();
                    }
                }
            });
        }
    });
    domain.barrier();
    let stats = slab.stats();
    assert_eq!((stats.live, stats.waiting, stats.published), (0, 0, 6_000));
    assert_eq!(slab.shrink(), stats.pages, "no slot is lost");
}

#[test]
fn many_threads_recycle_at_once() {
    many_threads_in_a_debug_mode::<Immediate>(Debug::RecycleAtOnce);
    many_threads_in_a_debug_mode::<AfterGrace>(Debug::RecycleAtOnce);
}

#[test]
fn many_threads_share_a_quarantine() {
    many_threads_in_a_debug_mode::<Immediate>(Debug::Quarantine);
    many_threads_in_a_debug_mode::<AfterGrace>(Debug::Quarantine);
}

#[test]
fn unknown_mode_in_the_environment_is_told_with_those_that_there_are() {
    let mut again = std::process::Command::new(std::env::current_exe().expect("this program"));
    again.env("GRACEPERIOD_SLAB_DEBUG", "quarantaine");
    again.args(["--exact", "limit_without_a_mode_of_its_own", "--nocapture"]);
    let output = again.output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && told.contains("`recycle-at-once` or `quarantine`"),
        "{told}"
    );
}

#[test]
fn limit_without_a_mode_of_its_own() {
    let domain = Domain::new();
    let slab: Owned<u64> = Slab::builder()
        .domain(&domain)
        .max_objects(1)
        .build(|_| AtomicU64::new(0));
    for n in 0..10 {
        assert_eq!(*slab.insert(n), n);
    }
}
