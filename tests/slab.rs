//! The slab's claims, through the public API.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use graceperiod::{AfterGrace, Domain, Immediate, Key, Link, Policy, Ref, ReserveError, Slab};

/// Counts its own drops.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Whether the environment has slabs keep freed slots back, so that claims about their reuse don't hold.
fn keeps_freed_slots() -> bool {
    std::env::var("GRACEPERIOD_SLAB_DEBUG").is_ok_and(|mode| mode == "quarantine")
}

/// Empties the global domain when the test ends, so that leak checkers find nothing.
struct Emptied;

impl Drop for Emptied {
    fn drop(&mut self) {
        graceperiod::barrier();
    }
}

/// Something that one thread tells another.
#[derive(Default)]
struct Flag(AtomicBool);

impl Flag {
    fn set(&self) {
        self.0.store(true, Release);
    }

    fn wait(&self) {
        while !self.0.load(Acquire) {
            std::thread::yield_now();
        }
    }
}

fn message(panic: Box<dyn std::any::Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => (*panic.downcast::<&str>().expect("a message")).to_owned(),
    }
}

fn panic_of(code: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(code));
    message(panic.expect_err("a panic"))
}

#[test]
fn key_finds_its_incarnation_until_the_last_reference_goes() {
    let _emptied = Emptied;
    let slab: Slab<u64, String> = Slab::new(|blank| blank.index());
    let first = slab.insert("first".to_owned());
    let key = Ref::key(&first);
    assert_eq!(*Ref::stable(&first), key.index());
    let again = slab.get(key).expect("alive");
    assert_eq!(*again, "first");
    assert!(Ref::ptr_eq(&first, &again));
    assert_eq!(slab.len(), 1);
    drop(first);
    assert_eq!(slab.len(), 1);
    drop(again);
    assert!(slab.get(key).is_none());
    assert!(slab.is_empty());
}

#[test]
fn slot_is_reused_at_once_and_the_old_key_never_matches() {
    if keeps_freed_slots() {
        return;
    }
    let _emptied = Emptied;
    let slab: Slab<(), u64> = Slab::new(|_| ());
    let mut old = Vec::new();
    for n in 0..1_000 {
        let value = slab.insert(n);
        let key = Ref::key(&value);
        assert!(old.iter().all(|old: &Key| old.index() == key.index()));
        assert!(old.iter().all(|&old| slab.get(old).is_none()));
        old.push(key);
    }
}

#[test]
fn millions_of_reuses_of_one_slot_never_bring_a_key_back() {
    if keeps_freed_slots() {
        return;
    }
    let _emptied = Emptied;
    let slab: Slab<(), u64> = Slab::new(|_| ());
    let first = Ref::key(&slab.insert(0));
    for n in 1..=4_300_000 {
        let value = slab.insert(n);
        let key = Ref::key(&value);
        assert_eq!(key.index(), first.index());
        assert_eq!(key.generation(), first.generation() + n);
        assert!(slab.get(first).is_none());
    }
    assert_eq!(slab.capacity(), slab.stats().page_slots);
}

#[test]
fn abandoned_slot_uses_its_key_up() {
    if keeps_freed_slots() {
        return;
    }
    let _emptied = Emptied;
    let slab: Slab<(), u64> = Slab::new(|_| ());
    let vacant = slab.reserve();
    let key = vacant.key();
    assert!(slab.get(key).is_none());
    drop(vacant);
    let value = slab.insert(1);
    assert_eq!(Ref::key(&value).index(), key.index());
    assert_ne!(Ref::key(&value), key);
    assert!(slab.get(key).is_none());
    assert_eq!(slab.len(), 1);
}

#[test]
fn published_incarnation_has_the_key_that_was_promised() {
    let _emptied = Emptied;
    let slab: Slab<AtomicU64, u64> = Slab::new(|_| AtomicU64::new(0));
    let vacant = slab.reserve();
    vacant.stable().store(7, Relaxed);
    let key = vacant.key();
    let value = vacant.publish(8);
    assert_eq!(Ref::key(&value), key);
    assert_eq!(Ref::stable(&value).load(Relaxed), 7);
    assert_eq!(slab.get(key).as_deref(), Some(&8));
}

#[test]
fn old_keys_stay_stale_when_their_page_leaves_and_comes_again() {
    let _emptied = Emptied;
    let slab: Slab<(), u64> = Slab::new(|_| ());
    let mut stale = Vec::new();
    for round in 0..20 {
        let values: Vec<_> = (0..1_000).map(|n| slab.insert(n)).collect();
        assert!(stale.iter().all(|&key| slab.get(key).is_none()));
        stale.extend(values.iter().map(Ref::key));
        // Some slots have many more lives than others.
        for n in 0..round {
            drop(slab.insert(n));
        }
        drop(slab.reserve());
        drop(values);
        assert!(slab.shrink() > 0);
        assert_eq!(slab.capacity(), 0);
        assert!(stale.iter().all(|&key| slab.get(key).is_none()));
    }
}

#[test]
fn any_bits_as_a_key_find_nothing_or_what_lives() {
    let _emptied = Emptied;
    let slab: Slab<(), u64> = Slab::new(|_| ());
    let value = slab.insert(1);
    let key = Ref::key(&value);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for n in 0..100_000_u64 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let index = random >> (n % 64);
        if let Some(key) = Key::from_raw(index, random.rotate_left(17)) {
            assert!(slab.get(key).is_none());
        }
    }
    for index in [u64::MAX, u64::MAX / 2, 1 << 32, key.index() + 1] {
        let other = Key::from_raw(index, key.generation()).expect("a generation");
        assert!(slab.get(other).is_none());
    }
    assert!(slab.get(key).is_some());
}

#[test]
fn constructor_runs_once_per_slot_and_the_stable_part_stays() {
    if keeps_freed_slots() {
        return;
    }
    let built = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&built);
    let slab: Slab<AtomicU64, ()> = Slab::new(move |_| {
        count.fetch_add(1, Relaxed);
        AtomicU64::new(0)
    });
    for _ in 0..10 {
        let values: Vec<_> = (0..100).map(|_| slab.insert(())).collect();
        for value in &values {
            Ref::stable(value).fetch_add(1, Relaxed);
        }
    }
    assert_eq!(built.load(Relaxed), slab.capacity());
    let values: Vec<_> = (0..slab.capacity()).map(|_| slab.insert(())).collect();
    let uses: u64 = values.iter().map(|v| Ref::stable(v).load(Relaxed)).sum();
    assert_eq!(uses, 1_000);
}

fn limit_is_exact<P: Policy<Domain>>() {
    let domain = Domain::new();
    for limit in [1, 2, 33, 1_000, 5_000] {
        let slab: Slab<(), usize, P, Domain> = Slab::builder()
            .domain(&domain)
            .max_objects(limit)
            .build(|_| ());
        for _ in 0..3 {
            let values: Vec<_> = (0..limit).map(|n| slab.insert(n)).collect();
            let refused = slab.try_insert(9).expect_err("full");
            assert!(
                matches!(refused.reason(), ReserveError::Full { max_objects } if *max_objects == limit)
            );
            assert_eq!(refused.into_value(), 9);
            assert_eq!(slab.capacity(), limit);
            drop(values);
            assert_eq!(slab.len(), 0);
        }
    }
}

#[test]
fn limit_is_exact_immediate() {
    limit_is_exact::<Immediate>();
}

#[test]
fn limit_is_exact_after_grace_and_waits_for_nobody_inside_a_guard() {
    limit_is_exact::<AfterGrace>();
    let domain = Domain::new();
    let slab: Slab<(), usize, AfterGrace, Domain> =
        Slab::builder().domain(&domain).max_objects(1).build(|_| ());
    let guard = domain.enter();
    drop(slab.insert(1));
    assert!(matches!(slab.try_reserve(), Err(ReserveError::Full { .. })));
    drop(guard);
    assert!(slab.try_reserve().is_ok());
}

#[test]
fn misuse_panics_with_what_to_do() {
    let _emptied = Emptied;
    let zero = panic_of(|| drop(Slab::<(), ()>::builder().max_objects(0)));
    assert!(zero.contains("max_objects(0)"), "{zero}");

    let homeless = panic_of(|| drop(Slab::<(), (), Immediate, Domain>::builder().build(|_| ())));
    assert!(homeless.contains("SlabBuilder::domain"), "{homeless}");

    let full = Slab::<(), ()>::builder().max_objects(1).build(|_| ());
    let held = full.reserve();
    let refused = panic_of(|| drop(full.reserve()));
    assert!(refused.contains("raise `max_objects`"), "{refused}");
    drop(held);
}

#[test]
fn guard_and_reference_of_another_domain_are_refused() {
    let (ours, theirs) = (Domain::new(), Domain::new());
    let slab = Slab::<(), u32, Immediate, Domain>::builder()
        .domain(&ours)
        .build(|_| ());
    let other = Slab::<(), u32, Immediate, Domain>::builder()
        .domain(&theirs)
        .build(|_| ());
    let value = slab.insert(1);
    let link = slab.link();
    link.set(Some(value.clone()));

    let guard = theirs.enter();
    let looked_up = panic_of(|| assert!(slab.candidate(&guard, Ref::key(&value)).is_none()));
    assert!(looked_up.contains("another domain"), "{looked_up}");
    let loaded = panic_of(|| assert!(link.load(&guard).is_none()));
    assert!(loaded.contains("another domain"), "{loaded}");
    drop(guard);

    let put = panic_of(|| link.set(Some(other.insert(2))));
    assert!(put.contains("another domain"), "{put}");
    assert!(link.holds(&value));
    assert!(other.is_empty());
}

#[test]
fn sizes_and_alignments_of_every_kind_fit() {
    let _emptied = Emptied;
    #[repr(align(4096))]
    #[derive(Clone, Copy)]
    struct Wide(#[expect(dead_code, reason = "only its size matters")] u8);

    fn fill<S: Send + Sync + 'static, V: Send + Sync + Copy + 'static>(
        stable: impl Fn() -> S + Send + Sync + 'static,
        value: V,
        n: usize,
    ) {
        let slab: Slab<S, V> = Slab::new(move |_| stable());
        let values: Vec<_> = (0..n).map(|_| slab.insert(value)).collect();
        for value in &values {
            assert!(std::ptr::from_ref(Ref::stable(value)).is_aligned());
            assert!(std::ptr::from_ref(&**value).is_aligned());
        }
        let keys: Vec<_> = values.iter().map(Ref::key).collect();
        assert!(keys.iter().all(|&key| slab.get(key).is_some()));
        let mut different = keys.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), n);
        drop(values);
        assert!(slab.is_empty());
        assert!(slab.shrink() > 0);
    }

    let large = || {
        fill(|| (), (), 20_000);
        fill(|| (), Wide(1), 100);
        fill(|| Wide(2), (), 100);
        fill(|| Wide(2), Wide(3), 100);
        fill(|| (), [7_u8; 1 << 20], 20);
        fill(|| [7_u8; 1 << 20], 1_u8, 20);
        fill(|| 1_u8, 1_u8, 5_000);
    };
    let thread = std::thread::Builder::new()
        .stack_size(64 << 20)
        .spawn(large);
    thread.expect("a thread").join().expect("no panic");
}

#[test]
fn link_owns_one_count_and_lets_it_go() {
    let _emptied = Emptied;
    let slab: Slab<(), Counted> = Slab::new(|_| ());
    let drops = Arc::new(AtomicUsize::new(0));
    let new = || slab.insert(Counted(Arc::clone(&drops)));
    let link = slab.link();
    let guard = graceperiod::enter();
    assert!(link.load(&guard).is_none() && link.is_empty());

    let first = new();
    assert!(link.swap(Some(first.clone())).is_none());
    assert!(link.holds(&first));
    assert!(Ref::ptr_eq(&link.get(&guard).expect("there"), &first));
    assert_eq!(link.load(&guard).expect("there").key(), Ref::key(&first));

    let second = new();
    let back = link
        .compare_exchange(None, Some(second.clone()))
        .expect_err("not empty");
    assert!(Ref::ptr_eq(&back.expect("handed back"), &second));
    let old = link
        .compare_exchange(Some(&first), Some(second))
        .expect("it held the first");
    drop((old, first));
    assert_eq!(drops.load(Relaxed), 1);
    assert_eq!(slab.len(), 1);

    drop(link.take());
    assert_eq!(drops.load(Relaxed), 2);
    link.set(Some(new()));
    drop(link);
    assert_eq!(drops.load(Relaxed), 3);
    assert!(slab.is_empty());
}

#[test]
fn candidate_of_an_ended_incarnation_gives_nothing() {
    if keeps_freed_slots() {
        return;
    }
    let _emptied = Emptied;
    let slab: Slab<AtomicU64, u64> = Slab::new(|_| AtomicU64::new(0));
    let vacant = slab.reserve();
    vacant.stable().store(1, Relaxed);
    let value = vacant.publish(1);
    let guard = graceperiod::enter();
    let found = slab.candidate(&guard, Ref::key(&value)).expect("alive");
    assert_eq!(found.read(|s| s.load(Relaxed)), Some(1));
    assert_eq!(*found.try_get().expect("alive"), 1);
    drop(value);
    assert_eq!(found.read(|s| s.load(Relaxed)), None);
    assert!(found.try_get().is_none());
    let next = slab.insert(2);
    assert_eq!(Ref::key(&next).index(), found.key().index());
    assert_eq!(found.read(|s| s.load(Relaxed)), None);
    assert!(found.try_get().is_none());
    // The stable part is the next incarnation's by now, and still there.
    assert_eq!(found.stable().load(Relaxed), 1);
}

#[test]
fn read_that_spans_a_reuse_is_not_believed() {
    let _emptied = Emptied;
    let slab: Slab<AtomicU64, ()> = Slab::new(|_| AtomicU64::new(0));
    let value = slab.insert(());
    let guard = graceperiod::enter();
    let found = slab.candidate(&guard, Ref::key(&value)).expect("alive");
    let mut value = Some(value);
    let read = found.read(|stable| {
        drop(value.take());
        drop(slab.insert(()));
        stable.load(Relaxed)
    });
    assert_eq!(read, None);
}

#[test]
fn value_stays_readable_until_the_guard_leaves() {
    let domain = Domain::new();
    let slab: Slab<(), Counted, AfterGrace, Domain> = Slab::builder().domain(&domain).build(|_| ());
    let drops = Arc::new(AtomicUsize::new(0));
    let value = slab.insert(Counted(Arc::clone(&drops)));
    let key = Ref::key(&value);
    let (entered, leave) = (Flag::default(), Flag::default());
    std::thread::scope(|scope| {
        let (slab, domain, entered, leave) = (&slab, &domain, &entered, &leave);
        let reader = scope.spawn(move || {
            let guard = domain.enter();
            let found = slab.candidate(&guard, key).expect("alive");
            entered.set();
            leave.wait();
            assert_eq!(found.value().0.load(Relaxed), 0);
            assert!(found.try_get().is_none());
        });
        entered.wait();
        drop(value);
        assert_eq!(slab.len(), 0);
        for _ in 0..10_000 {
            drop(slab.insert(Counted(Arc::default())));
        }
        assert_eq!(drops.load(Relaxed), 0);
        leave.set();
        reader.join().expect("no panic");
    });
    domain.barrier();
    assert_eq!(drops.load(Relaxed), 1);
}

#[test]
fn barrier_drops_what_every_thread_left_waiting() {
    let domain = Domain::new();
    let slab: Slab<(), Counted, AfterGrace, Domain> = Slab::builder().domain(&domain).build(|_| ());
    let drops = Arc::new(AtomicUsize::new(0));
    let (filled, over) = (Flag::default(), Flag::default());
    let fill = |n| {
        let values: Vec<_> = (0..n)
            .map(|_| slab.insert(Counted(Arc::clone(&drops))))
            .collect();
        drop(values);
    };
    let fill = &fill;
    std::thread::scope(|scope| {
        scope.spawn(move || fill(45)).join().expect("no panic");
        scope.spawn(|| {
            fill(7);
            filled.set();
            // Idle and alive while the barrier runs.
            over.wait();
        });
        filled.wait();
        fill(3);
        let before = domain.stats().pending_objects;
        assert!(before + drops.load(Relaxed) as u64 >= 55);
        domain.barrier();
        assert_eq!(drops.load(Relaxed), 55);
        assert_eq!(slab.stats().waiting, 0);
        assert_eq!(domain.stats().pending_objects, 0);
        over.set();
    });
    assert_eq!(slab.len(), 0);
}

#[test]
fn recycling_drops_old_values_without_a_barrier() {
    let domain = Domain::new();
    let slab: Slab<(), Counted, AfterGrace, Domain> = Slab::builder().domain(&domain).build(|_| ());
    let drops = Arc::new(AtomicUsize::new(0));
    for _ in 0..100_000 {
        drop(slab.insert(Counted(Arc::clone(&drops))));
        domain.synchronize();
        if drops.load(Relaxed) > 1_000 {
            break;
        }
    }
    assert!(drops.load(Relaxed) > 1_000);
    assert!(slab.capacity() <= slab.stats().page_slots);
}

#[test]
fn fallible_constructor_leaves_a_usable_slab() {
    let _emptied = Emptied;
    let fail = Arc::new(AtomicUsize::new(10));
    let live = Arc::new(AtomicUsize::new(0));
    let (left, drops) = (Arc::clone(&fail), Arc::clone(&live));
    let slab: Slab<Counted, ()> = Slab::builder().build_fallible(move |_| {
        if left.fetch_sub(1, Relaxed) == 1 {
            return Err("no such thing".into());
        }
        Ok(Counted(Arc::clone(&drops)))
    });
    let refused = slab.try_insert(()).expect_err("the tenth fails");
    assert!(refused.to_string().contains("no such thing"));
    assert_eq!(live.load(Relaxed), 9);
    assert_eq!((slab.capacity(), slab.stats().pages), (0, 0));
    let value = slab.insert(());
    assert_eq!(Ref::key(&value).index(), 0);
}

#[test]
fn statistics_add_up_and_print_as_a_line() {
    let _emptied = Emptied;
    let slab: Slab<(), u64> = Slab::builder().name("inodes").build(|_| ());
    let values: Vec<_> = (0..700).map(|n| slab.insert(n)).collect();
    let stats = slab.stats();
    assert_eq!((stats.live, stats.published, stats.waiting), (700, 700, 0));
    assert_eq!(stats.capacity, stats.pages * stats.page_slots);
    let line = stats.to_string();
    assert!(line.starts_with("inodes 700 "), "{line}");
    assert_eq!(line.split(' ').count(), 16, "{line}");
    drop(values);
    assert_eq!(slab.stats().live, 0);
    assert_eq!(slab.stats().published, 700);
}

#[test]
fn shrink_keeps_pages_in_use_and_gives_back_the_rest() {
    let _emptied = Emptied;
    let slab: Slab<(), [u64; 16]> = Slab::new(|_| ());
    let per_page = slab.stats().page_slots;
    let mut values: Vec<_> = (0..per_page * 4).map(|_| slab.insert([0; 16])).collect();
    assert_eq!(slab.stats().pages, 4);
    assert_eq!(slab.shrink(), 0);
    let kept = values.split_off(per_page * 3 + 1);
    let key = Ref::key(&kept[0]);
    drop(values);
    assert_eq!(slab.shrink(), 3);
    assert_eq!(slab.capacity(), per_page);
    assert!(slab.get(key).is_some());
    drop(kept);
    assert_eq!(slab.shrink(), 1);
    assert_eq!(slab.stats().pages, 0);
    let values: Vec<_> = (0..per_page * 4).map(|_| slab.insert([0; 16])).collect();
    assert_eq!(slab.len(), values.len());
}

#[test]
fn formatting_never_looks_at_what_may_be_gone() {
    let _emptied = Emptied;
    let slab: Slab<(), Counted> = Slab::new(|_| ());
    let value = slab.insert(Counted(Arc::default()));
    let link: Link<(), Counted> = slab.link();
    link.set(Some(value.clone()));
    let guard = graceperiod::enter();
    let found = slab.candidate(&guard, Ref::key(&value));
    let vacant = slab.reserve();
    drop(value);
    drop(link.take());
    let text = format!("{slab:?} {link:?} {found:?} {vacant:?} {:?}", slab.stats());
    assert!(text.contains("Slab") && text.contains("Vacant"));
}
