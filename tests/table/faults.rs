//! Foreign code that re-enters, panics, or drops more than it should.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::*;

use graceperiod::table::{CandidateOf, Index, RefOf, SlabOf, Table};
use graceperiod::{Global, Immediate, Ref};

use super::common::*;

type Simple = By<First, Immediate, Global>;

thread_local! {
    /// What the next comparisons on this thread do.
    static MOOD: Cell<Mood> = const { Cell::new(Mood::Calm) };
}

#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Calm,
    ReEnter,
    Panic,
}

/// Goes back into the table that asks.
struct Moody;

/// A key whose hash goes back into the table, too.
struct MoodyKey(u64);

type MoodyPair = (SlabOf<Moody>, Table<Moody, Build<Constant>>);

static TABLE: OnceLock<MoodyPair> = OnceLock::new();

fn moody() -> &'static MoodyPair {
    TABLE.get_or_init(|| {
        let slab = slab::<Immediate>();
        let table = Table::with_hasher(&slab, 2, Build::default());
        (slab, table)
    })
}

fn react() {
    match MOOD.replace(Mood::Calm) {
        Mood::Calm => {}
        Mood::Panic => panic!("in a bad mood"),
        Mood::ReEnter => {
            let (slab, table) = moody();
            let alive = Alive::new();
            let inner = u64::MAX;
            let vacant = slab.reserve();
            vacant.stable().set(inner);
            let object = table.insert_vacant(&MoodyKey(inner), vacant, alive.value(inner));
            assert!(table.contains(&MoodyKey(1)));
            assert!(Ref::ptr_eq(
                &table.remove(&MoodyKey(inner)).unwrap(),
                &object.unwrap()
            ));
            MOOD.set(Mood::ReEnter);
        }
    }
}

impl Hash for MoodyKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        react();
        self.0.hash(state);
    }
}

impl Index for Moody {
    type Node = First;
    type Value = Value;
    type Policy = Immediate;
    type Domain = Global;
    type Key = MoodyKey;

    fn matches(candidate: &CandidateOf<'_, Self>, key: &MoodyKey) -> bool {
        react();
        candidate.stable().key.load(Relaxed) == key.0
    }
}

/// One test, since the moody table is one for all.
#[test]
fn hash_and_comparison_may_re_enter_and_panic() {
    let (slab, table) = moody();
    let alive = Alive::new();
    let new = |key| -> RefOf<Moody> { object::<Simple>(slab, &alive, key) };
    table.insert(&MoodyKey(1), new(1)).unwrap();

    MOOD.set(Mood::ReEnter);
    assert_eq!(table.get(&MoodyKey(1)).unwrap().key, 1);
    assert_eq!(table.peek(&MoodyKey(1), |s| s.read().0), Some(1));
    table.insert(&MoodyKey(2), new(2)).unwrap();
    assert!(table.insert(&MoodyKey(2), new(2)).is_err());
    assert_eq!(table.remove(&MoodyKey(2)).unwrap().key, 2);
    MOOD.set(Mood::Calm);
    assert_eq!((table.len(), alive.get()), (1, 1));

    let panics = |code: &dyn Fn()| {
        MOOD.set(Mood::Panic);
        assert!(catch_unwind(AssertUnwindSafe(code)).is_err());
        assert!(MOOD.get() == Mood::Calm);
    };
    panics(&|| drop(table.get(&MoodyKey(1))));
    panics(&|| drop(table.insert(&MoodyKey(2), new(2))));
    panics(&|| drop(table.remove(&MoodyKey(1))));
    panics(&|| assert!(table.peek(&MoodyKey(1), |_| ()).is_some()));
    assert_eq!((table.len(), alive.get()), (1, 1));
    table.insert(&MoodyKey(3), new(3)).unwrap();
    table.clear();
    assert_eq!((table.len(), alive.get()), (0, 0));
}

/// Compares calmly until the key 13 comes along.
struct PanicsOnMatch;

impl PanicsOnMatch {
    fn table() -> (SlabOf<Self>, Table<Self, Build<Constant>>) {
        let slab = slab::<Immediate>();
        let table = Table::with_hasher(&slab, 1, Build::default());
        (slab, table)
    }
}

impl Index for PanicsOnMatch {
    type Node = First;
    type Value = Value;
    type Policy = Immediate;
    type Domain = Global;
    type Key = u64;

    fn matches(candidate: &CandidateOf<'_, Self>, key: &u64) -> bool {
        assert_ne!(*key, 13, "unlucky");
        candidate.stable().key.load(Relaxed) == *key
    }
}

#[test]
fn a_comparison_that_panics_leaves_the_table_usable() {
    let (slab, table) = PanicsOnMatch::table();
    let alive = Alive::new();
    let unlucky = |code: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(code)).is_err());
    for key in 0..5 {
        assert!(add(&table, &slab, &alive, key));
    }
    unlucky(&|| drop(table.get(&13)));
    unlucky(&|| drop(table.remove(&13)));
    unlucky(&|| assert!(add(&table, &slab, &alive, 13)));
    unlucky(&|| drop(table.insert(&13, object::<Simple>(&slab, &alive, 13))));
    assert_eq!((table.len(), alive.get(), slab.len()), (5, 5, 5));
    for key in 0..5 {
        assert_eq!(table.remove(&key).unwrap().key, key);
    }
    assert!(add(&table, &slab, &alive, 1));
    assert_eq!((table.len(), alive.get()), (1, 1));
}

#[test]
fn a_closure_that_panics_leaves_the_table_usable() {
    let (alive, slab) = (Alive::new(), slab::<Immediate>());
    let table: Table<Simple> = Table::new(&slab, 1);
    assert!(add(&table, &slab, &alive, 1));
    let peek = || table.peek(&1, |_| panic!("no"));
    assert!(catch_unwind(AssertUnwindSafe(peek)).is_err());
    assert!(table.remove(&1).is_some());
    assert_eq!(alive.get(), 0);
}

/// A value whose drop takes the next one out of the table.
mod chain {
    use super::*;

    pub(crate) struct Chained;
    pub(crate) struct Next(
        pub(crate) u64,
        pub(crate) &'static OnceLock<(SlabOf<Chained>, Table<Chained>)>,
    );

    impl Drop for Next {
        fn drop(&mut self) {
            let (_, table) = self.1.get().unwrap();
            drop(table.remove(&self.0));
        }
    }

    impl Index for Chained {
        type Node = First;
        type Value = Next;
        type Policy = Immediate;
        type Domain = Global;
        type Key = u64;

        fn matches(candidate: &CandidateOf<'_, Self>, key: &u64) -> bool {
            candidate.stable().key.load(Relaxed) == *key
        }
    }
}

#[test]
fn destructors_may_remove_from_the_table_that_drops_them() {
    use chain::{Chained, Next};
    static BOTH: OnceLock<(SlabOf<Chained>, Table<Chained>)> = OnceLock::new();
    let (slab, table) = BOTH.get_or_init(|| {
        let slab = graceperiod::Slab::new(|_| Stable::new());
        let table = Table::new(&slab, 4);
        (slab, table)
    });
    let fill = || {
        for key in 0..1_000 {
            let vacant = slab.reserve();
            vacant.stable().set(key);
            drop(table.insert_vacant(&key, vacant, Next(key + 1, &BOTH)));
        }
        assert_eq!(table.len(), 1_000);
    };
    fill();
    drop(table.remove(&0));
    assert_eq!((table.len(), slab.len()), (0, 0));
    fill();
    table.clear();
    assert_eq!((table.len(), slab.len()), (0, 0));
}
