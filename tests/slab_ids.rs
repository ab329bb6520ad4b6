//! Which ids a slab's objects have, within a process and across it.

use graceperiod::{
    AfterGrace, Budget, Domain, Generations, Immediate, Key, Policy, Ref, ReserveError, Slab,
    SlabBuilder,
};

type Files<P = Immediate> = Slab<u64, u64, P, Domain>;
type Held<P> = Vec<Ref<u64, u64, P, Domain>>;

fn builder<P: Policy<Domain>>(domain: &Domain) -> SlabBuilder<u64, u64, P, Domain> {
    Slab::builder().domain(domain)
}

fn build<P: Policy<Domain>>(builder: SlabBuilder<u64, u64, P, Domain>) -> Files<P> {
    builder.build(|blank| blank.index())
}

/// Whether freed slots aren't reused before others.
fn keeps_freed_slots() -> bool {
    std::env::var("GRACEPERIOD_SLAB_DEBUG").is_ok_and(|mode| mode == "quarantine")
}

fn message(code: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(code)).expect_err("a panic");
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => (*panic.downcast::<&str>().expect("a message")).to_owned(),
    }
}

#[test]
fn index_finds_the_present_incarnation() {
    let domain = Domain::new();
    let slab = build::<Immediate>(builder(&domain).max_objects(1));
    let first = slab.insert(1);
    let index = Ref::key(&first).index();
    assert_eq!(slab.get_index(index).as_deref(), Some(&1));
    drop(first);
    assert!(slab.get_index(index).is_none());
    let second = slab.insert(2);
    assert_eq!(Ref::key(&second).index(), index);
    assert_eq!(slab.get_index(index).as_deref(), Some(&2));
    let guard = domain.enter();
    let found = slab.candidate_index(&guard, index).expect("alive");
    assert_eq!(found.key(), Ref::key(&second));
    for wrong in [index + 1, 1 << 40, u64::MAX] {
        assert!(slab.candidate_index(&guard, wrong).is_none());
    }
}

fn reserved_id_is_given_out_on_request_only<P: Policy<Domain>>() {
    let domain = Domain::new();
    let slab = build::<P>(builder(&domain).first_index(1).reserve_ids(2));
    let others: Vec<_> = (0..5_000).map(|n| slab.insert(n)).collect();
    assert!(others.iter().all(|other| Ref::key(other).index() > 2));
    for life in 1..=3 {
        let root = slab.insert_at(1, 7).expect("nobody has it");
        assert_eq!(Ref::key(&root).to_raw(), (1, life));
        assert_eq!(*Ref::stable(&root), 1);
        let refused = slab.insert_at(1, 8).expect_err("taken");
        assert!(matches!(refused.reason(), ReserveError::Taken { index: 1 }));
        assert_eq!(refused.into_value(), 8);
        assert_eq!(slab.len(), others.len() + 1);
        drop(root);
        assert_eq!(slab.len(), others.len());
        domain.barrier();
        assert_eq!(slab.stats().waiting, 0);
        // Not even to who comes next.
        assert!(Ref::key(&slab.insert(9)).index() > 2);
        domain.barrier();
    }
    drop(others);
    domain.barrier();
    slab.shrink();
    // An abandoned one uses up its generation.
    drop(slab.try_reserve_at(1).expect("nobody has it"));
    let root = slab.insert_at(1, 7).expect("nobody has it");
    assert_eq!(Ref::key(&root).to_raw(), (1, 5));
    let second = slab.insert_at(2, 7).expect("nobody has it");
    drop(slab);
    assert_eq!((*root, *second), (7, 7));
    drop((root, second));
    assert_eq!(domain.drain().left, 0);
}

#[test]
fn reserved_id_is_given_out_on_request_only_immediate() {
    reserved_id_is_given_out_on_request_only::<Immediate>();
}

#[test]
fn reserved_id_is_given_out_on_request_only_after_grace() {
    reserved_id_is_given_out_on_request_only::<AfterGrace>();
}

#[test]
fn other_ids_cant_be_asked_for() {
    let domain = Domain::new();
    let slab = build::<Immediate>(builder(&domain).first_index(1).reserve_ids(1));
    for index in [0, 2, 1 << 30, u64::MAX] {
        let refused = slab.insert_at(index, 0).expect_err("not reserved");
        assert!(matches!(refused.reason(), ReserveError::NotReserved { .. }));
    }
    let plain = build::<Immediate>(builder(&domain));
    assert!(plain.insert_at(0, 0).is_err());
}

#[test]
fn reserved_ids_are_part_of_max_objects() {
    let domain = Domain::new();
    let slab = build::<Immediate>(builder(&domain).reserve_ids(1).max_objects(3));
    let others: Vec<_> = (0..2).map(|n| slab.insert(n)).collect();
    assert!(slab.try_insert(9).is_err());
    let root = slab.insert_at(0, 1).expect("kept free for it");
    assert_eq!(slab.len(), 3);
    drop((root, others));
    assert_eq!(slab.capacity(), 3);
}

#[test]
fn pages_of_reserved_and_restored_ids_are_paid_for() {
    let domain = Domain::new();
    let budget = Budget::objects(3);
    let slab = build::<Immediate>(builder(&domain).reserve_ids(2).budget(&budget));
    let others: Vec<_> = (0..3).map(|n| slab.insert(n)).collect();
    let refused = slab.insert_at(0, 0).expect_err("nothing is left");
    assert!(matches!(refused.reason(), ReserveError::OverBudget));
    let key = Key::from_raw(1 << 20, 1).expect("a generation");
    let refused = slab.restore().insert(key, 0).expect_err("likewise");
    assert!(matches!(refused.reason(), ReserveError::OverBudget));
    assert_eq!(budget.used_objects(), 3);
    drop(others);
    assert_eq!(slab.shrink(), 1);
    let first = slab.insert_at(0, 0).expect("there is room again");
    assert_eq!(budget.used_objects(), 2);
    drop(slab.restore().insert(key, 0).expect("for one"));
    assert_eq!(budget.used_objects(), 3);
    drop((first, slab));
    domain.barrier();
    assert_eq!((budget.used_objects(), budget.used_bytes()), (0, 0));
}

#[test]
fn many_ask_for_a_reserved_id_and_one_gets_it() {
    for _ in 0..200 {
        let domain = Domain::new();
        let slab = build::<Immediate>(builder(&domain).reserve_ids(1));
        let got: Vec<_> = std::thread::scope(|scope| {
            let tries = [1, 2, 3].map(|n| {
                scope.spawn({
                    let slab = &slab;
                    move || slab.insert_at(0, n).ok()
                })
            });
            tries
                .into_iter()
                .filter_map(|t| t.join().expect("no panic"))
                .collect()
        });
        assert_eq!(got.len(), 1);
    }
}

#[test]
fn constructor_that_fails_for_a_reserved_id_is_tried_again() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    static FAILS: AtomicBool = AtomicBool::new(true);
    let domain = Domain::new();
    let slab = builder::<Immediate>(&domain).reserve_ids(1).build(|blank| {
        assert!(!FAILS.load(Relaxed), "not yet");
        blank.index()
    });
    let refused = slab.insert_at(0, 5).expect_err("the constructor panics");
    assert!(matches!(refused.reason(), ReserveError::Panicked(_)));
    FAILS.store(false, Relaxed);
    assert_eq!(*slab.insert_at(0, 5).expect("now it can"), 5);
}

#[test]
fn tag_is_in_every_key_and_others_dont_match() {
    let domain = Domain::new();
    let slabs =
        [0, 1, 2, 3].map(|tag| build::<Immediate>(builder(&domain).tag(2, tag).first_index(9)));
    let held = slabs.each_ref().map(|slab| slab.insert(1));
    for (tag, held) in held.iter().enumerate() {
        let key = Ref::key(held);
        assert_eq!(key.index(), (tag as u64) << 62 | 9);
        assert_eq!(*Ref::stable(held), key.index());
        for (other, slab) in slabs.iter().enumerate() {
            assert_eq!(slab.get(key).is_some(), tag == other);
            assert_eq!(slab.get_index(key.index()).is_some(), tag == other);
            assert_eq!(slab.has_tag_of(key), tag == other);
        }
    }
}

#[test]
fn ids_at_the_end_of_the_range_work() {
    let domain = Domain::new();
    let most = (u64::MAX >> 8) - (1 << 48);
    let slab = build::<Immediate>(builder(&domain).tag(8, 255).first_index(most));
    let held: Vec<_> = (0..2_000).map(|n| slab.insert(n)).collect();
    assert!(
        held.iter()
            .all(|h| slab.get(Ref::key(h)).as_deref() == Some(&**h))
    );
    assert!(slab.get_index(most - 1).is_none());
    assert!(slab.get_index(0).is_none());
    assert!(slab.get_index(255 << 56).is_none());
}

#[test]
fn choices_that_cant_be_had_are_refused_with_advice() {
    let domain = Domain::new();
    let refused =
        |choose: fn(SlabBuilder<u64, u64, Immediate, Domain>) -> SlabBuilder<_, _, _, _>| {
            message(|| drop(build(choose(builder(&domain)))))
        };
    assert!(refused(|b| b.tag(9, 0)).contains("at most 8"));
    assert!(refused(|b| b.tag(2, 4)).contains("doesn't fit"));
    assert!(refused(|b| b.tag(0, 1)).contains("doesn't fit"));
    assert!(refused(|b| b.first_index(u64::MAX)).contains("no room"));
    assert!(refused(|b| b.generation_base(1 << 40)).contains("no generation"));
    assert!(refused(|b| b.reserve_ids(1 << 20)).contains("at most"));
    assert!(refused(|b| b.reserve_ids(4).max_objects(3)).contains("at most 3"));
}

#[test]
fn generations_begin_above_the_base() {
    let domain = Domain::new();
    let slab = build::<Immediate>(builder(&domain).generation_base(1 << 30).reserve_ids(1));
    assert_eq!(Ref::key(&slab.insert(1)).generation(), (1 << 30) + 1);
    let root = slab.insert_at(0, 1).expect("nobody has it");
    assert_eq!(Ref::key(&root).generation(), (1 << 30) + 1);
}

/// Inserts, drops and shrinks; returns every key that was ever seen and the objects that are left.
fn live<P: Policy<Domain>>(slab: &Files<P>, domain: &Domain, seed: u64) -> (Vec<Key>, Held<P>) {
    let (mut keys, mut held) = (Vec::new(), Vec::new());
    let mut random = Random(seed);
    for step in 0..4_000 {
        if random.below(3) > 0 || held.is_empty() {
            let object = slab.insert(step);
            keys.push(Ref::key(&object));
            held.push(object);
        } else {
            held.swap_remove(random.below(held.len()));
        }
        if step == 2_000 {
            held.clear();
            domain.barrier();
            slab.shrink();
        }
    }
    (keys, held)
}

/// A generator of numbers that are random enough (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

fn written(generations: &Generations) -> Generations {
    Generations::from_bytes(&generations.to_bytes()).expect("what was written")
}

fn keys_of_earlier_processes_match_nothing<P: Policy<Domain>>() {
    let domain = Domain::new();
    let mut earlier: Option<Generations> = None;
    let mut stale: Vec<Key> = Vec::new();
    for process in 1..5 {
        let slab = build::<P>(match &earlier {
            Some(earlier) => builder(&domain).generations(written(earlier)),
            None => builder(&domain),
        });
        let vacant = slab.reserve();
        let promised = vacant.key();
        let (keys, held) = live(&slab, &domain, process);
        assert!(keys.iter().all(|key| !stale.contains(key)));
        assert!(stale.iter().all(|&key| slab.get(key).is_none()));
        earlier = Some(slab.generations());
        stale.extend(keys.into_iter().step_by(7));
        stale.push(promised);
        drop((held, vacant));
    }
}

#[test]
fn keys_of_earlier_processes_match_nothing_immediate() {
    keys_of_earlier_processes_match_nothing::<Immediate>();
}

#[test]
fn keys_of_earlier_processes_match_nothing_after_grace() {
    keys_of_earlier_processes_match_nothing::<AfterGrace>();
}

#[test]
fn key_of_a_slot_that_was_only_reserved_is_not_given_out_again() {
    let domain = Domain::new();
    let slab = build::<Immediate>(builder(&domain));
    let vacant = slab.reserve();
    let promised = vacant.key();
    let next = build::<Immediate>(builder(&domain).generations(slab.generations()));
    let new = next.insert(1);
    assert_eq!(Ref::key(&new).index(), promised.index());
    assert!(next.get(promised).is_none());
    drop(vacant);
}

#[test]
fn another_layout_begins_above_all_that_was() {
    let domain = Domain::new();
    let small = build::<Immediate>(builder(&domain));
    let (keys, held) = live(&small, &domain, 3);
    drop(held);
    let highest = keys.iter().map(|key| key.generation()).max().expect("some");
    let large: Slab<(), [u64; 40], Immediate, Domain> = Slab::builder()
        .domain(&domain)
        .generations(small.generations())
        .build(|_| ());
    assert!(Ref::key(&large.insert([0; 40])).generation() > highest);
    // And hands that on.
    let third = build::<Immediate>(builder(&domain).generations(large.generations()));
    assert!(Ref::key(&third.insert(0)).generation() > highest);
}

#[test]
fn base_is_handed_on_by_a_slab_that_was_never_used() {
    let domain = Domain::new();
    let unused = build::<Immediate>(builder(&domain).generation_base(1_000));
    let next = build::<Immediate>(builder(&domain).generations(unused.generations()));
    assert_eq!(Ref::key(&next.insert(1)).generation(), 1_001);
}

#[test]
fn what_an_export_ahead_covers_is_never_met() {
    let domain = Domain::new();
    let slab = build::<Immediate>(builder(&domain).max_objects(1));
    let saved = slab.generations().ahead(100);
    let after: Vec<Key> = (0..100).map(|n| Ref::key(&slab.insert(n))).collect();
    drop(slab);
    let next = build::<Immediate>(builder(&domain).max_objects(1).generations(saved));
    let new = Ref::key(&next.insert(1));
    assert!(
        after
            .iter()
            .all(|old| old.index() == new.index() && old.generation() < new.generation())
    );
}

/// nfsserve: after a restart of the server every client's handle was stale.
fn restored_handles_name_their_objects_and_the_others_nothing<P: Policy<Domain>>() {
    let domain = Domain::new();
    let first = build::<P>(builder(&domain).first_index(1).reserve_ids(1));
    let root = first.insert_at(1, 77).expect("nobody has it");
    let (mut stale, held) = live(&first, &domain, 11);
    let mut kept: Vec<(Key, u64)> = held.iter().map(|h| (Ref::key(h), **h)).collect();
    stale.retain(|key| !kept.iter().any(|(other, _)| other == key));
    kept.push((Ref::key(&root), 77));
    let saved = first.generations();
    drop((root, held, first));
    domain.barrier();

    let second = build::<P>(
        builder(&domain)
            .first_index(1)
            .reserve_ids(1)
            .generations(saved),
    );
    let mut restore = second.restore();
    let mut held: Vec<_> = kept
        .iter()
        .map(|&(key, value)| restore.insert(key, value).expect("its id is free"))
        .collect();
    assert!(restore.insert(kept[0].0, 0).is_err());
    drop(restore);
    assert!(
        held.iter()
            .zip(&kept)
            .all(|(h, &(key, _))| Ref::key(h) == key)
    );
    assert!(
        kept.iter()
            .all(|&(key, value)| second.get(key).as_deref() == Some(&value))
    );
    assert!(stale.iter().all(|&key| second.get(key).is_none()));
    assert_eq!(second.len(), kept.len());

    // Their slots' next lives are new ones, and everybody's.
    let pages = second.stats().pages;
    let (dead, alive) = kept.split_at(kept.len() / 2);
    held.drain(..dead.len());
    domain.barrier();
    let fill = second.capacity() - second.len() - 1;
    let others: Vec<_> = (0..fill).map(|n| second.insert(n as u64)).collect();
    if !keeps_freed_slots() {
        assert_eq!(second.stats().pages, pages);
    }
    let is_old = |key: Key| stale.contains(&key) || kept.iter().any(|&(old, _)| old == key);
    assert!(!others.iter().any(|other| is_old(Ref::key(other))));
    assert!(dead.iter().chain(alive).all(|&(key, value)| {
        second
            .get(key)
            .is_none_or(|found| *found == value && alive.contains(&(key, value)))
    }));
    drop((held, others));
    domain.barrier();
    assert_eq!(second.len(), 0);
    assert!(second.shrink() > 0);
    drop(second);
    assert_eq!(domain.drain().left, 0);
}

#[test]
fn restored_handles_name_their_objects_and_the_others_nothing_immediate() {
    restored_handles_name_their_objects_and_the_others_nothing::<Immediate>();
}

#[test]
fn restored_handles_name_their_objects_and_the_others_nothing_after_grace() {
    restored_handles_name_their_objects_and_the_others_nothing::<AfterGrace>();
}

#[test]
fn restored_reserved_id_never_repeats_a_generation() {
    let domain = Domain::new();
    let first = build::<Immediate>(builder(&domain).reserve_ids(1));
    let keys: Vec<Key> = (0..5)
        .map(|n| Ref::key(&first.insert_at(0, n).expect("free")))
        .collect();
    let saved = first.generations();
    let second = build::<Immediate>(builder(&domain).reserve_ids(1).generations(saved));
    drop(second.restore().insert(keys[1], 1).expect("its id is free"));
    // Not twice.
    assert!(second.restore().insert(keys[1], 1).is_err());
    let next = second.insert_at(0, 2).expect("free");
    assert!(
        keys.iter()
            .all(|key| key.generation() < Ref::key(&next).generation())
    );
}

#[test]
fn slot_of_an_older_key_that_was_restored_goes_on_above_all_of_them() {
    let domain = Domain::new();
    let first = build::<Immediate>(builder(&domain));
    let keys: Vec<Key> = (0..5).map(|n| Ref::key(&first.insert(n))).collect();
    let second = build::<Immediate>(builder(&domain).generations(first.generations()));
    drop(second.restore().insert(keys[1], 1).expect("its id is free"));
    let others: Vec<_> = (0..second.capacity())
        .map(|n| second.insert(n as u64))
        .collect();
    let same = others
        .iter()
        .map(Ref::key)
        .find(|key| key.index() == keys[1].index());
    let same = same.expect("the page is full");
    assert!(keys.iter().all(|key| key.generation() < same.generation()));
}

#[test]
fn what_cant_be_restored_is_refused_and_harmless() {
    let domain = Domain::new();
    let slab = build::<Immediate>(builder(&domain).first_index(5).max_objects(100));
    let mine = slab.insert(1);
    let mut restore = slab.restore();
    let key = |index, generation| Key::from_raw(index, generation).expect("a generation");
    assert!(matches!(
        restore
            .insert(Ref::key(&mine), 2)
            .expect_err("it has an owner")
            .reason(),
        ReserveError::Taken { .. }
    ));
    for impossible in [key(4, 1), key(6, 1 << 40), key(u64::MAX, 1)] {
        let refused = restore.insert(impossible, 2).expect_err("no such key");
        assert!(
            !matches!(refused.reason(), ReserveError::Taken { .. }),
            "{refused}"
        );
    }
    // All capacity is in the first page.
    let far = restore
        .insert(key(5 + (1 << 20), 1), 2)
        .expect_err("no capacity");
    assert!(matches!(far.reason(), ReserveError::Full { .. }));
    drop(restore);
    drop(mine);
    assert_eq!(slab.shrink(), 1);
    assert_eq!(
        *slab
            .restore()
            .insert(key(5, 9), 3)
            .expect("its page has gone"),
        3
    );
    assert!((5..105).contains(&Ref::key(&slab.insert(4)).index()));
    assert_eq!(slab.capacity(), 100);
}
