//! Many threads on few buckets, so that nodes are recycled under the readers all the time.

use std::hash::{BuildHasher, RandomState};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use graceperiod::table::{Table, TableInsertError};
use graceperiod::{AfterGrace, Global, Immediate, Policy, Ref};

use super::common::*;

type Simple<P = Immediate> = By<First, P, Global>;

/// Keys below this stay in the table.
const STAY: u64 = 8;

/// Checks what every look-up says about keys that stay, while others come and go around them.
fn keys_that_stay_are_always_found<P: Policy<Global>, H: BuildHasher + Sync>(hasher: H) {
    let (alive, slab) = (Alive::new(), slab::<P>());
    let table: Table<Simple<P>, H> = Table::with_hasher(&slab, 2, hasher);
    // Behind many others, in front of them, and in between.
    for key in (0..STAY).flat_map(|key| [key, STAY + key]) {
        assert!(add(&table, &slab, &alive, key));
    }
    let (table_ref, slab_ref, alive_ref) = (&table, &slab, &alive);
    let writers = (1..=3).map(|seed| {
        let mut random = Random::new(seed);
        let work = move || {
            let key = STAY + random.below(16);
            if random.below(2) == 0 {
                add(table_ref, slab_ref, alive_ref, key);
            } else {
                drop(table_ref.remove(&key));
            }
        };
        Box::new(work) as Work<'_>
    });
    let readers = (0..3).map(|first| {
        let mut n = first;
        let work = move || {
            n += 1;
            let (table, key) = (table_ref, n % STAY);
            match n % 3 {
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
        };
        Box::new(work) as Work<'_>
    });
    for_a_while(writers.chain(readers));
    let members = table.len();
    assert_eq!(table.drain().count(), members);
    drop(table);
    slab.shrink();
    graceperiod::barrier();
    assert_eq!((alive.get(), slab.len()), (0, 0));
}

#[test]
fn keys_that_stay_are_always_found_under_immediate() {
    keys_that_stay_are_always_found::<Immediate, _>(RandomState::new());
}

#[test]
fn keys_that_stay_are_always_found_after_grace() {
    keys_that_stay_are_always_found::<AfterGrace, _>(RandomState::new());
}

#[test]
fn keys_that_stay_are_always_found_with_one_hash_for_all() {
    keys_that_stay_are_always_found::<Immediate, Build<Constant>>(Build::default());
}

/// Peeks at keys that come and go: what is read is of one object, and of the right one.
#[test]
fn what_is_read_is_never_mixed_from_two_lives() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let table: Table<Simple> = Table::new(&slab, 1);
    let (table_ref, slab, alive) = (&table, &slab, &alive);
    let works = (1..=6).map(|seed| {
        let mut random = Random::new(seed);
        let work = move || {
            let (table, key) = (table_ref, random.below(3));
            match seed {
                1 | 2 if random.below(2) == 0 => drop(table.remove(&key)),
                1 | 2 => drop(add(table, slab, alive, key)),
                _ => {
                    if let Some(read) = table.peek(&key, Stable::read) {
                        assert_eq!(read, (key, !key));
                    }
                }
            }
        };
        Box::new(work) as Work<'_>
    });
    for_a_while(works);
    drop(table);
    assert_eq!(alive.get(), 0);
}

#[test]
fn of_eight_that_insert_a_key_one_wins() {
    const THREADS: usize = 8;
    const KEYS: u64 = 300;
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let table: Table<Simple> = Table::new(&slab, 2);
    let start = Barrier::new(THREADS);
    let insert = |key| {
        let object = object::<Simple>(&slab, &alive, key);
        match table.insert(&key, object.clone()) {
            Ok(()) => true,
            Err(TableInsertError::Duplicate { existing, rejected }) => {
                assert_eq!(existing.key, key);
                assert!(Ref::ptr_eq(&rejected, &object));
                assert!(!Ref::ptr_eq(&existing, &object));
                false
            }
            Err(other) => panic!("{other:?}"),
        }
    };
    let won: Vec<Vec<u64>> = together((0..THREADS).map(|thread| {
        let (insert, start, table, slab, alive) = (&insert, &start, &table, &slab, &alive);
        let work = move || {
            let wins = |&key: &u64| {
                start.wait();
                if thread % 2 == 0 {
                    insert(key)
                } else {
                    add(table, slab, alive, key)
                }
            };
            (0..KEYS).filter(wins).collect::<Vec<_>>()
        };
        Box::new(work) as Work<'_, _>
    }));
    let mut won = won.concat();
    won.sort_unstable();
    assert_eq!(won, (0..KEYS).collect::<Vec<_>>());
    assert_eq!((table.len(), alive.get()), (300, 300));
    drop(table);
    assert_eq!(alive.get(), 0);
}

/// Who has inserted a key owns a flag for it; two owners at a time would mean two members with one key.
fn a_key_has_one_member_at_a_time<P: Policy<Global>, H: BuildHasher + Sync>(hasher: H) {
    const KEYS: usize = 4;
    let (alive, slab) = (Alive::new(), slab::<P>());
    let table: Table<Simple<P>, H> = Table::with_hasher(&slab, 1, hasher);
    let owned: [AtomicBool; KEYS] = Default::default();
    let inserted = AtomicUsize::new(0);
    for_a_while((1..=8).map(|seed| {
        let (table, slab, alive, owned, inserted) = (&table, &slab, &alive, &owned, &inserted);
        let mut random = Random::new(seed);
        let work = move || {
            let key = random.below(KEYS as u64);
            let owned = &owned[usize::try_from(key).expect("a few keys")];
            if random.below(2) == 0 {
                if let Some(found) = table.get(&key) {
                    assert_eq!(found.key, key);
                }
            } else if add(table, slab, alive, key) {
                assert!(!owned.swap(true, AcqRel), "two members");
                inserted.fetch_add(1, Relaxed);
                // Only who inserted removes, so that the flag tells the truth.
                assert!(table.contains(&key));
                assert!(owned.swap(false, AcqRel));
                assert_eq!(table.remove(&key).expect("it is there").key, key);
            }
        };
        Box::new(work) as Work<'_>
    }));
    assert!(inserted.into_inner() > 0);
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
    for_a_while((1..=4).map(|seed| {
        let [here, there] = &tables;
        let mut random = Random::new(seed);
        let work = move || {
            let key = random.below(4);
            let way = [(here, there), (there, here)];
            let (from, to) = way[usize::from(random.below(2) == 0)];
            if let Some(object) = from.remove(&key) {
                assert_eq!(object.key, key);
                // Nobody else has it, so nobody else has inserted it.
                to.insert(&key, object).unwrap();
            }
        };
        Box::new(work) as Work<'_>
    }));
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
        let wins = together(tables.iter().map(|table| {
            let object = &object;
            Box::new(move || table.insert(&1, object.clone()).is_ok()) as Work<'_, _>
        }));
        assert_eq!(wins.into_iter().filter(|won| *won).count(), 1);
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
    let write = || {
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
    };
    let read = || {
        let before = changes.load(SeqCst);
        let found = table.contains(&1);
        let was_out = before.is_multiple_of(2) && before == changes.load(SeqCst);
        assert!(!(found && was_out), "found while it was out");
    };
    for_a_while([Box::new(write) as Work<'_>, Box::new(read), Box::new(read)]);
    assert_eq!(alive.get(), 0);
}
