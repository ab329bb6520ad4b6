//! Many threads on few buckets, so that nodes are recycled under the readers all the time.

use std::hash::RandomState;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::thread;
use std::time::Duration;

use graceperiod::table::{Table, TableInsertError};
use graceperiod::{AfterGrace, Global, Immediate, Policy, Ref};

use super::common::*;

type Simple<P = Immediate> = By<First, P, Global>;

const TIME: Duration = Duration::from_millis(400);

/// Keys below this stay in the table.
const STAY: u64 = 8;

/// Checks what every look-up says about keys that stay, while others come and go around them.
fn keys_that_stay_are_always_found<P: Policy<Global>, H: std::hash::BuildHasher + Sync>(
    buckets: usize,
    hasher: H,
) {
    let (alive, slab) = (Alive::new(), slab::<P>());
    let table: Table<Simple<P>, H> = Table::with_hasher(&slab, buckets, hasher);
    // Behind many others, in front of them, and in between.
    for key in (0..STAY).flat_map(|key| [key, STAY + key]) {
        assert!(add(&table, &slab, &alive, key));
    }
    let (over, looks) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for writer in 0..3 {
            let (table, slab, alive, over) = (&table, &slab, &alive, &over);
            scope.spawn(move || {
                let mut random = Random::new(writer + 1);
                while !over.load(Relaxed) {
                    let key = STAY + random.below(16);
                    if random.below(2) == 0 {
                        add(table, slab, alive, key);
                    } else {
                        drop(table.remove(&key));
                    }
                }
            });
        }
        for reader in 0..3 {
            let (table, over, looks) = (&table, &over, &looks);
            scope.spawn(move || {
                let mut n = 0;
                while !over.load(Relaxed) {
                    let key = n as u64 % STAY;
                    match (n + reader) % 3 {
                        0 => {
                            let found = table.get(&key).expect("it stays");
                            assert_eq!(found.key, key);
                            assert_eq!(Ref::stable(&found).read(), (key, !key));
                        }
                        1 => assert_eq!(table.peek(&key, Stable::read), Some((key, !key))),
                        _ => {
                            let guard = graceperiod::enter();
                            let found = table.find(&guard, &key).expect("it stays");
                            assert_eq!(found.stable().read(), (key, !key));
                        }
                    }
                    n += 1;
                }
                looks.fetch_add(n, Relaxed);
            });
        }
        thread::sleep(TIME);
        over.store(true, Relaxed);
    });
    assert!(looks.into_inner() > 100, "the readers have hardly run");
    let members = table.len();
    assert_eq!(table.drain().count(), members);
    drop(table);
    slab.shrink();
    graceperiod::barrier();
    assert_eq!((alive.get(), slab.len()), (0, 0));
}

#[test]
fn keys_that_stay_are_always_found_under_immediate() {
    keys_that_stay_are_always_found::<Immediate, _>(2, RandomState::new());
}

#[test]
fn keys_that_stay_are_always_found_after_grace() {
    keys_that_stay_are_always_found::<AfterGrace, _>(2, RandomState::new());
}

#[test]
fn keys_that_stay_are_always_found_with_one_hash_for_all() {
    keys_that_stay_are_always_found::<Immediate, Build<Constant>>(2, Build::default());
}

#[test]
fn of_eight_that_insert_a_key_one_wins() {
    const THREADS: usize = 8;
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let table: Table<Simple> = Table::new(&slab, 2);
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (table, slab, alive, start) = (&table, &slab, &alive, &start);
                scope.spawn(move || {
                    let mut won = Vec::new();
                    for key in 0..300 {
                        start.wait();
                        let object = object::<Simple>(slab, alive, key);
                        if thread % 2 == 0 {
                            match table.insert(&key, object.clone()) {
                                Ok(()) => won.push(key),
                                Err(TableInsertError::Duplicate { existing, rejected }) => {
                                    assert_eq!(existing.key, key);
                                    assert!(Ref::ptr_eq(&rejected, &object));
                                    assert!(!Ref::ptr_eq(&existing, &object));
                                }
                                Err(other) => panic!("{other:?}"),
                            }
                        } else if add(table, slab, alive, key) {
                            won.push(key);
                        }
                    }
                    won
                })
            })
            .collect();
        let mut won: Vec<u64> = workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect();
        won.sort_unstable();
        assert_eq!(won, (0..300).collect::<Vec<_>>());
    });
    assert_eq!((table.len(), alive.get()), (300, 300));
    drop(table);
    assert_eq!(alive.get(), 0);
}

/// Who has a key owns a flag for it; two owners at a time would mean two members with one key.
fn a_key_has_one_member_at_a_time<P: Policy<Global>, H: std::hash::BuildHasher + Sync>(hasher: H) {
    const KEYS: usize = 4;
    let (alive, slab) = (Alive::new(), slab::<P>());
    let table: Table<Simple<P>, H> = Table::with_hasher(&slab, 1, hasher);
    let owned: [AtomicBool; KEYS] = Default::default();
    let (over, inserted) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for worker in 0..8 {
            let (table, slab, alive) = (&table, &slab, &alive);
            let (owned, over, inserted) = (&owned, &over, &inserted);
            scope.spawn(move || {
                let mut random = Random::new(worker + 1);
                while !over.load(Relaxed) {
                    let key = random.below(KEYS as u64);
                    if random.below(2) == 0 {
                        if add(table, slab, alive, key) {
                            assert!(!owned[key as usize].swap(true, AcqRel), "two members");
                            inserted.fetch_add(1, Relaxed);
                            // Only who inserted may remove, so that the flag tells the truth.
                            assert!(table.contains(&key));
                            assert!(owned[key as usize].swap(false, AcqRel));
                            assert_eq!(table.remove(&key).expect("it is there").key, key);
                        }
                    } else if let Some(found) = table.get(&key) {
                        assert_eq!(found.key, key);
                    }
                }
            });
        }
        thread::sleep(TIME);
        over.store(true, Relaxed);
    });
    assert!(inserted.into_inner() > 100);
    assert_eq!(table.len(), 0);
    drop(table);
    slab.shrink();
    graceperiod::barrier();
    assert_eq!((alive.get(), slab.len()), (0, 0));
}

#[test]
fn a_key_has_one_member_at_a_time_under_immediate() {
    a_key_has_one_member_at_a_time::<Immediate, _>(RandomState::new());
}

#[test]
fn a_key_has_one_member_at_a_time_after_grace() {
    a_key_has_one_member_at_a_time::<AfterGrace, _>(Build::<Constant>::default());
}

#[test]
fn an_object_that_moves_between_tables_is_in_one_of_them() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let tables: [Table<Simple, Build<Identity>>; 2] =
        std::array::from_fn(|_| Table::with_hasher(&slab, 1, Build::default()));
    assert!((0..4).all(|key| add(&tables[0], &slab, &alive, key)));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for worker in 0..4 {
            let (tables, over) = (&tables, &over);
            scope.spawn(move || {
                let mut random = Random::new(worker + 1);
                while !over.load(Relaxed) {
                    let (key, from) = (random.below(4), random.below(2) as usize);
                    if let Some(object) = tables[from].remove(&key) {
                        assert_eq!(object.key, key);
                        // Nobody else has it, so nobody else has inserted it.
                        tables[1 - from].insert(&key, object).unwrap();
                    }
                }
            });
        }
        thread::sleep(TIME);
        over.store(true, Relaxed);
    });
    assert_eq!(tables[0].len() + tables[1].len(), 4);
    assert!((0..4).all(|key| tables[0].contains(&key) != tables[1].contains(&key)));
    assert_eq!(alive.get(), 4);
}

#[test]
fn of_many_that_insert_one_object_one_wins() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let tables: [Table<Simple>; 4] = std::array::from_fn(|_| Table::new(&slab, 1));
    for _ in 0..200 {
        let object = object::<Simple>(&slab, &alive, 1);
        let wins: usize = thread::scope(|scope| {
            let workers: Vec<_> = tables
                .iter()
                .map(|table| {
                    let object = object.clone();
                    scope.spawn(move || usize::from(table.insert(&1, object).is_ok()))
                })
                .collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap())
                .sum()
        });
        assert_eq!(wins, 1);
        assert_eq!(tables.iter().map(Table::len).sum::<usize>(), 1);
        tables.iter().for_each(Table::clear);
    }
    assert_eq!(alive.get(), 0);
}

#[test]
fn an_object_is_found_only_while_it_is_in_the_table() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let table: Table<Simple, Build<Constant>> = Table::with_hasher(&slab, 1, Build::default());
    // Odd around the membership of each object.
    let changes = AtomicUsize::new(0);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                // Alive and with the key, but not a member; its slot is the last member's.
                let object = object::<Simple>(&slab, &alive, 1);
                for _ in 0..20 {
                    std::hint::spin_loop();
                }
                changes.fetch_add(1, SeqCst);
                table.insert(&1, object).unwrap();
                let object = table.remove(&1).unwrap();
                changes.fetch_add(1, SeqCst);
                drop(object);
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    let before = changes.load(SeqCst);
                    let found = table.contains(&1);
                    let was_out = before.is_multiple_of(2) && before == changes.load(SeqCst);
                    assert!(!(found && was_out), "found while it was out");
                }
            });
        }
        thread::sleep(TIME);
        over.store(true, Relaxed);
    });
    assert_eq!(alive.get(), 0);
}
