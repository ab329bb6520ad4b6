//! What happens between two steps of a look-up, made to happen by its own comparison.

use std::cell::RefCell;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Mutex};

use graceperiod::table::{CandidateOf, Index, RefOf, SlabOf, Table};
use graceperiod::{Global, Immediate, Ref};

use super::common::*;

type Simple = By<First, Immediate, Global>;

type Hook = Box<dyn FnOnce()>;

thread_local! {
    /// What this thread's next comparison does before it compares.
    static NEXT: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

struct Hooked;

impl Index for Hooked {
    type Node = First;
    type Value = Value;
    type Policy = Immediate;
    type Domain = Global;
    type Key = u64;

    fn matches(candidate: &CandidateOf<'_, Self>, key: &u64) -> bool {
        let next = NEXT.with(RefCell::take);
        if let Some(hook) = next {
            hook();
        }
        candidate.stable().key.load(Relaxed) == *key
    }
}

type Hashed = Table<Hooked, Build<Constant>>;

/// A slab, two tables, and references that hooks have kept.
struct World {
    slab: SlabOf<Hooked>,
    here: Hashed,
    there: Hashed,
    kept: Mutex<Vec<RefOf<Hooked>>>,
    alive: Alive,
}

fn world() -> Arc<World> {
    let slab = slab::<Immediate>();
    let [here, there] = [(); 2].map(|()| Table::with_hasher(&slab, 1, Build::default()));
    Arc::new(World {
        slab,
        here,
        there,
        kept: Mutex::default(),
        alive: Alive::new(),
    })
}

impl World {
    fn add(&self, key: u64) {
        assert!(add(&self.here, &self.slab, &self.alive, key));
    }

    fn object(&self, key: u64) -> RefOf<Hooked> {
        object::<Simple>(&self.slab, &self.alive, key)
    }

    fn keep(&self, object: RefOf<Hooked>) {
        self.kept.lock().unwrap().push(object);
    }

    fn take_kept(&self) -> RefOf<Hooked> {
        self.kept.lock().unwrap().pop().expect("the hook has run")
    }

    /// Lets the next comparison begin with `hook`.
    fn next(self: &Arc<Self>, hook: impl FnOnce(&Self) + 'static) {
        let world = Arc::clone(self);
        NEXT.set(Some(Box::new(move || hook(&world))));
    }

    fn done(&self) {
        self.here.clear();
        self.there.clear();
        assert_eq!((self.alive.get(), self.slab.len()), (0, 0));
    }
}

#[test]
fn an_object_that_gets_the_key_after_it_was_removed_is_not_found() {
    let world = world();
    for look in [
        |world: &World| world.here.get(&2).is_some(),
        |world: &World| world.here.peek(&2, Stable::read).is_some(),
        |world: &World| world.here.contains(&2),
        |world: &World| world.here.remove(&2).is_some(),
        |world: &World| world.here.insert(&2, world.object(2)).is_err(),
    ] {
        world.add(1);
        world.next(|world| {
            let object = world.here.remove(&1).unwrap();
            Ref::stable(&object).set(2);
            // Alive, so that only its term tells.
            world.keep(object);
        });
        assert!(!look(&world));
        drop(world.take_kept());
        world.here.clear();
    }
    world.done();
}

#[test]
fn an_object_that_has_moved_to_another_table_is_not_found_here() {
    let world = world();
    world.add(1);
    // Met first, since it came last.
    world.add(3);
    world.next(|world| {
        let object = world.here.remove(&1).unwrap();
        Ref::stable(&object).set(2);
        world.there.insert(&2, object).unwrap();
    });
    assert!(world.here.get(&2).is_none());
    assert!(world.there.get(&2).is_some());
    world.done();
}

#[test]
fn a_slot_that_was_recycled_for_the_key_but_is_not_inserted_yet_is_not_found() {
    if keeps_freed_slots() {
        return;
    }
    let world = world();
    world.add(1);
    world.next(|world| {
        let old = world.here.remove(&1).unwrap();
        let index = Ref::key(&old).index();
        drop(old);
        let new = world.object(2);
        assert_eq!(
            Ref::key(&new).index(),
            index,
            "the slot freed last comes first"
        );
        world.keep(new);
    });
    assert!(world.here.get(&2).is_none());
    world.here.insert(&2, world.take_kept()).unwrap();
    assert!(world.here.get(&2).is_some());
    world.done();
}

#[test]
fn a_key_that_is_inserted_while_an_insertion_compares_is_a_duplicate() {
    let world = world();
    world.add(1);
    world.next(|world| world.add(2));
    let error = world.here.insert(&2, world.object(2)).unwrap_err();
    assert!(error.into_existing().is_some());
    assert_eq!(world.here.len(), 2);
    world.done();
}

#[test]
fn a_key_that_is_removed_while_an_insertion_compares_is_free() {
    let world = world();
    world.add(2);
    world.next(|world| drop(world.here.remove(&2).unwrap()));
    world.here.insert(&2, world.object(2)).unwrap();
    assert_eq!(world.here.len(), 1);
    world.done();
}

#[test]
fn an_object_that_is_renamed_while_an_insertion_compares_is_compared_again() {
    let world = world();
    world.add(1);
    world.add(3);
    // The list begins without room, so 3, the newest, is compared alone first. It gets the key in its second comparison.
    let inner = Arc::clone(&world);
    world.next(move |_| {
        inner.next(|world| {
            let object = world.here.remove(&3).unwrap();
            Ref::stable(&object).set(2);
            world.here.insert(&2, object).unwrap();
        });
    });
    let error = world.here.insert(&2, world.object(2)).unwrap_err();
    assert!(error.into_existing().is_some());
    assert_eq!(world.here.len(), 2);
    world.done();
}
