//! One thread: what the methods do.

use std::collections::HashMap;
use std::error::Error;
use std::hash::BuildHasher;

use graceperiod::table::{Table, TableInsertError};
use graceperiod::{AfterGrace, Global, Immediate, Policy, Ref};

use super::common::*;

type Simple<P = Immediate> = By<First, P, Global>;

fn agrees_with_a_map<P: Policy<Global>, H: BuildHasher>(buckets: usize, hasher: H, keys: u64) {
    let (alive, slab) = (Alive::new(), slab::<P>());
    let table: Table<Simple<P>, H> = Table::with_hasher(&slab, buckets, hasher);
    let mut model: HashMap<u64, Ref<_, _, P, _>> = HashMap::new();
    let mut random = Random::new(keys);
    for _ in 0..4_000 {
        let key = random.below(keys);
        match random.below(5) {
            0 => {
                let object = object::<Simple<P>>(&slab, &alive, key);
                match (table.insert(&key, object.clone()), model.get(&key)) {
                    (Ok(()), None) => drop(model.insert(key, object)),
                    (Err(TableInsertError::Duplicate { existing, rejected }), Some(old)) => {
                        assert!(Ref::ptr_eq(&existing, old));
                        assert!(Ref::ptr_eq(&rejected, &object));
                    }
                    (result, model) => panic!("{result:?} where the map has {model:?}"),
                }
            }
            1 => {
                let vacant = slab.reserve();
                vacant.stable().set(key);
                match (
                    table.insert_vacant(&key, vacant, alive.value(key)),
                    model.get(&key),
                ) {
                    (Ok(object), None) => drop(model.insert(key, object)),
                    (Err(error), Some(old)) => {
                        assert!(Ref::ptr_eq(&error.existing, old));
                        assert_eq!(error.value.key, key);
                    }
                    (result, model) => panic!("{result:?} where the map has {model:?}"),
                }
            }
            2 => match (table.remove(&key), model.remove(&key)) {
                (None, None) => {}
                (Some(removed), Some(old)) => assert!(Ref::ptr_eq(&removed, &old)),
                (removed, old) => panic!("{removed:?} where the map has {old:?}"),
            },
            _ => {
                let found = table.get(&key);
                assert_eq!(
                    found.as_ref().map(|found| found.key),
                    model.get(&key).map(|m| m.key)
                );
                assert_eq!(table.contains(&key), found.is_some());
                let peeked = table.peek(&key, Stable::read);
                assert_eq!(peeked, found.is_some().then_some((key, !key)));
                let guard = graceperiod::enter();
                let candidate = table.find(&guard, &key);
                assert_eq!(candidate.map(|c| c.key()), found.as_ref().map(Ref::key));
            }
        }
        assert_eq!(table.len(), model.len());
    }
    let mut drained: Vec<u64> = table.drain().map(|object| object.key).collect();
    let mut expected: Vec<u64> = model.keys().copied().collect();
    drained.sort_unstable();
    expected.sort_unstable();
    assert_eq!(drained, expected);
    assert!(table.is_empty());
    drop((table, model));
    slab.shrink();
    graceperiod::barrier();
    assert_eq!(alive.get(), 0);
    assert_eq!(slab.len(), 0);
}

#[test]
fn table_agrees_with_a_map() {
    for buckets in [1, 4, 100] {
        agrees_with_a_map::<Immediate, _>(buckets, std::hash::RandomState::new(), 60);
        agrees_with_a_map::<AfterGrace, _>(buckets, std::hash::RandomState::new(), 60);
    }
}

#[test]
fn table_agrees_with_a_map_under_hashers_that_hardly_hash() {
    for buckets in [1, 16] {
        agrees_with_a_map::<Immediate, _>(buckets, Build::<Constant>::default(), 40);
        agrees_with_a_map::<AfterGrace, _>(buckets, Build::<Identity>::default(), 1_000);
    }
}

#[test]
fn a_node_is_in_one_table_at_a_time() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let [a, b]: [Table<Simple>; 2] = std::array::from_fn(|_| Table::new(&slab, 4));
    let object = object::<Simple>(&slab, &alive, 1);
    a.insert(&1, object.clone()).unwrap();
    // Under another key, and in another table.
    for refused in [a.insert(&2, object.clone()), b.insert(&1, object.clone())] {
        let Err(TableInsertError::InTable(back)) = refused else {
            panic!("the node was claimed: {refused:?}");
        };
        assert!(Ref::ptr_eq(&back, &object));
    }
    assert!(Ref::stable(&object).node.is_in_table());
    drop(a.remove(&1).unwrap());
    assert!(!Ref::stable(&object).node.is_in_table());
    b.insert(&1, object).unwrap();
    assert_eq!((a.len(), b.len()), (0, 1));
    drop(b);
    assert_eq!(alive.get(), 0);
}

#[test]
fn the_same_object_under_the_same_key_is_a_duplicate() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let table: Table<Simple> = Table::new(&slab, 4);
    let object = object::<Simple>(&slab, &alive, 1);
    table.insert(&1, object.clone()).unwrap();
    let error = table.insert(&1, object.clone()).unwrap_err();
    assert_eq!(error.to_string(), "an object with this key is in the table");
    let existing = error.into_existing().expect("it is there");
    assert!(Ref::ptr_eq(&existing, &object));
}

#[test]
fn an_object_with_two_nodes_is_in_two_tables() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let first: Table<By<First, Immediate, Global>> = Table::new(&slab, 4);
    let second: Table<By<Second, Immediate, Global>> = Table::new(&slab, 2);
    for key in 0..20 {
        let object = object::<Simple>(&slab, &alive, key);
        first.insert(&key, object.clone()).unwrap();
        second.insert(&key, object).unwrap();
    }
    for key in 0..20 {
        let object = first.remove(&key).unwrap();
        assert!(first.get(&key).is_none());
        assert!(Ref::ptr_eq(&second.get(&key).unwrap(), &object));
    }
    assert_eq!((first.len(), second.len(), alive.get()), (0, 20, 20));
    second.clear();
    assert_eq!((second.len(), alive.get()), (0, 0));
}

#[test]
fn a_removed_object_can_be_renamed_and_inserted_again() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let table: Table<Simple> = Table::new(&slab, 4);
    let object = object::<Simple>(&slab, &alive, 0);
    table.insert(&0, object).unwrap();
    for key in 1..50 {
        let object = table.remove(&(key - 1)).unwrap();
        Ref::stable(&object).set(key);
        table.insert(&key, object).unwrap();
        assert!(table.get(&(key - 1)).is_none());
        assert!(table.contains(&key));
    }
    assert_eq!(alive.get(), 1);
}

#[test]
fn the_table_owns_one_reference_to_each_member() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let table: Table<Simple> = Table::new(&slab, 4);
    assert!(add(&table, &slab, &alive, 1));
    assert_eq!(alive.get(), 1);
    let found = table.get(&1).unwrap();
    let removed = table.remove(&1).unwrap();
    assert!(table.remove(&1).is_none());
    drop(removed);
    assert_eq!(alive.get(), 1);
    drop(found);
    assert_eq!(alive.get(), 0);
}

#[test]
fn the_refused_vacant_can_be_used_for_another_key() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let table: Table<Simple> = Table::new(&slab, 4);
    assert!(add(&table, &slab, &alive, 1));
    let vacant = slab.reserve();
    vacant.stable().set(1);
    let refused = table.insert_vacant(&1, vacant, alive.value(1)).unwrap_err();
    assert!(refused.source().is_none());
    assert_eq!(refused.existing.key, 1);
    refused.vacant.stable().set(2);
    drop(refused.value);
    table
        .insert_vacant(&2, refused.vacant, alive.value(2))
        .unwrap();
    assert_eq!((table.len(), alive.get()), (2, 2));
}

#[test]
fn drain_takes_everything_also_when_it_is_dropped_early() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let table: Table<Simple> = Table::new(&slab, 8);
    for key in 0..50 {
        assert!(add(&table, &slab, &alive, key));
    }
    let some: Vec<_> = table.drain().take(7).collect();
    assert_eq!((table.len(), some.len(), alive.get()), (0, 7, 7));
    assert!((0..50).all(|key| !table.contains(&key)));
    // Everybody who came out can go in again.
    for object in some {
        let key = object.key;
        table.insert(&key, object).unwrap();
    }
    assert_eq!(table.len(), 7);
    drop(table);
    assert_eq!((alive.get(), slab.len()), (0, 0));
}

#[test]
fn formats_say_what_is_useful() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let table: Table<Simple> = Table::new(&slab, 3);
    assert!(add(&table, &slab, &alive, 1));
    assert_eq!(format!("{table:?}"), "Table { len: 1, buckets: 4, .. }");
    let object = table.get(&1).unwrap();
    assert!(format!("{:?}", Ref::stable(&object).node).contains("is_in_table: true"));
    let error = table.insert(&2, object).unwrap_err();
    assert_eq!(error.to_string(), "the object is in a table already");
    assert!(format!("{error:?}").starts_with("InTable("));
    assert!(format!("{:?}", table.drain()).starts_with("Drain"));
}
