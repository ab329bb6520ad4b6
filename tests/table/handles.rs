//! Domains, and what outlives what.

use std::panic::{AssertUnwindSafe, catch_unwind};

use graceperiod::table::{Node, Table, TableNode};
use graceperiod::{Domain, Global, Immediate, Ref, Slab};

use super::common::*;

type Own = By<First, Immediate, Domain>;
type Simple = By<First, Immediate, Global>;

fn message(code: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(code)).expect_err("a panic");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast::<&str>().expect("a text")).to_owned(),
    }
}

fn own_slab(domain: &Domain) -> Slab<Stable, Value, Immediate, Domain> {
    Slab::builder().domain(domain).build(|_| Stable::new())
}

#[test]
fn a_guard_of_another_domain_is_refused() {
    let (domain, other) = (Domain::new(), Domain::new());
    let (alive, slab) = (Alive::new(), own_slab(&domain));
    let table: Table<Own> = Table::new(&slab, 4);
    assert!(add(&table, &slab, &alive, 1));
    let guard = domain.enter();
    assert!(table.find(&guard, &1).is_some());
    let guard = other.enter();
    let said = message(|| assert!(table.find(&guard, &1).is_some()));
    assert!(said.contains("another domain"), "{said}");
}

#[test]
fn an_object_of_another_slab_is_refused() {
    let (alive, slab, other) = (Alive::new(), slab::<Immediate>(), slab::<Immediate>());
    let table: Table<Simple> = Table::new(&slab, 4);
    let stranger = object::<Simple>(&other, &alive, 1);
    let said = message(|| drop(table.insert(&1, stranger.clone())));
    assert!(said.contains("another slab"), "{said}");
    let vacant = other.reserve();
    let said = message(|| drop(table.insert_vacant(&1, vacant, alive.value(1))));
    assert!(said.contains("another slab"), "{said}");
    assert!(!Ref::stable(&stranger).node.is_in_table());
    drop(stranger);
    assert_eq!((table.len(), alive.get()), (0, 0));
}

#[test]
fn a_table_without_buckets_is_refused() {
    let slab = slab::<Immediate>();
    let said = message(|| drop(Table::<Simple>::new(&slab, 0)));
    assert!(said.contains("at least 1"), "{said}");
    let said = message(|| drop(Table::<Simple>::new(&slab, usize::MAX)));
    assert!(said.contains("can't have"), "{said}");
}

#[test]
fn the_table_may_outlive_the_slab() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let table: Table<Simple> = Table::new(&slab, 4);
    for key in 0..10 {
        assert!(add(&table, &slab, &alive, key));
    }
    drop(slab);
    assert_eq!(table.get(&3).unwrap().key, 3);
    let removed = table.remove(&3).unwrap();
    table.insert(&3, removed).unwrap();
    assert_eq!(alive.get(), 10);
    drop(table);
    assert_eq!(alive.get(), 0);
}

#[test]
fn the_slab_may_outlive_the_table() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let table: Table<Simple> = Table::new(&slab, 4);
    assert!(add(&table, &slab, &alive, 1));
    let kept = table.get(&1).unwrap();
    assert!(add(&table, &slab, &alive, 2));
    drop(table);
    assert_eq!((alive.get(), slab.len()), (1, 1));
    assert!(!Ref::stable(&kept).node.is_in_table());
    let table: Table<Simple> = Table::new(&slab, 4);
    table.insert(&1, kept).unwrap();
    assert!(table.contains(&1));
}

#[test]
fn the_table_holds_its_domain_open() {
    let domain = Domain::new();
    let (alive, slab) = (Alive::new(), own_slab(&domain));
    let table: Table<Own> = Table::new(&slab, 4);
    assert!(add(&table, &slab, &alive, 1));
    drop((slab, domain));
    assert_eq!(table.get(&1).unwrap().key, 1);
    drop(table);
    assert_eq!(alive.get(), 0);
}

#[test]
fn what_a_guard_found_outlives_the_table() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let table: Table<Simple> = Table::new(&slab, 4);
    assert!(add(&table, &slab, &alive, 1));
    let guard = graceperiod::enter();
    let found = table.find(&guard, &1).unwrap();
    drop((table, slab));
    assert_eq!(found.stable().read().0, 1);
    assert!(found.try_get().is_none());
}

/// Says that the first node is the second.
struct Liar;

impl Node for Liar {
    type Stable = Stable;
    const OFFSET: usize = First::OFFSET;
    fn node(stable: &Stable) -> &TableNode {
        &stable.other
    }
}

/// Hands out a node that is in nobody's stable part.
struct Stranger;

impl Node for Stranger {
    type Stable = Stable;
    const OFFSET: usize = First::OFFSET;
    fn node(_: &Stable) -> &TableNode {
        static NODE: TableNode = TableNode::new();
        &NODE
    }
}

fn is_refused<N: Node<Stable = Stable>>() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let table: Table<By<N, Immediate, Global>> = Table::new(&slab, 4);
    let object = object::<Simple>(&slab, &alive, 1);
    let said = message(|| drop(table.insert(&1, object)));
    assert!(said.contains("two different fields"), "{said}");
    assert_eq!((table.len(), alive.get()), (0, 0));
}

#[test]
fn a_name_that_lies_is_refused() {
    is_refused::<Liar>();
    is_refused::<Stranger>();
}
