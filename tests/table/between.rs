//! What happens between two steps of a look-up, made to happen by its own comparison.

use std::cell::RefCell;
use std::sync::atomic::Ordering::*;

use graceperiod::table::{CandidateOf, Index, SlabOf, Table};
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

/// A slab and two tables that live as long as the process, so that hooks can name them.
struct World {
    slab: SlabOf<Hooked>,
    here: Hashed,
    there: Hashed,
    alive: Alive,
}

fn world() -> &'static World {
    let slab = slab::<Immediate>();
    let tables = [(); 2].map(|()| Table::with_hasher(&slab, 1, Build::default()));
    let [here, there] = tables;
    Box::leak(Box::new(World {
        slab,
        here,
        there,
        alive: Alive::new(),
    }))
}

impl World {
    fn add(&self, key: u64) {
        assert!(add(&self.here, &self.slab, &self.alive, key));
    }

    fn done(&self) {
        self.here.clear();
        self.there.clear();
        assert_eq!((self.alive.get(), self.slab.len()), (0, 0));
    }
}

fn next(hook: impl FnOnce() + 'static) {
    NEXT.set(Some(Box::new(hook)));
}

#[test]
fn an_object_that_gets_the_key_after_it_was_removed_is_not_found() {
    let world = world();
    for look in [
        |world: &World| world.here.get(&2).is_some(),
        |world: &World| world.here.peek(&2, Stable::read).is_some(),
        |world: &World| world.here.contains(&2),
        |world: &World| world.here.remove(&2).is_some(),
        |world: &World| {
            world
                .here
                .insert(&2, object::<Simple>(&world.slab, &world.alive, 2))
                .is_err()
        },
    ] {
        world.add(1);
        next(|| {
            let object = world.here.remove(&1).unwrap();
            Ref::stable(&object).set(2);
            // Alive, so that only its term tells.
            std::mem::forget(object.clone());
            drop(object);
        });
        assert!(!look(world));
        world.here.clear();
    }
}

#[test]
fn an_object_that_has_moved_to_another_table_is_not_found_here() {
    let world = world();
    world.add(1);
    // Met first, since it came last.
    world.add(3);
    next(|| {
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
    let world = world();
    world.add(1);
    let kept = std::rc::Rc::new(RefCell::new(None));
    let keep = std::rc::Rc::clone(&kept);
    next(move || {
        let old = world.here.remove(&1).unwrap();
        let index = Ref::key(&old).index();
        drop(old);
        let new = object::<Simple>(&world.slab, &world.alive, 2);
        assert_eq!(
            Ref::key(&new).index(),
            index,
            "the slot freed last comes first"
        );
        *keep.borrow_mut() = Some(new);
    });
    assert!(world.here.get(&2).is_none());
    let new = kept.take().unwrap();
    world.here.insert(&2, new).unwrap();
    assert!(world.here.get(&2).is_some());
    world.done();
}

#[test]
fn a_key_that_is_inserted_while_an_insertion_compares_is_a_duplicate() {
    let world = world();
    world.add(1);
    next(|| world.add(2));
    let late = object::<Simple>(&world.slab, &world.alive, 2);
    let error = world.here.insert(&2, late).unwrap_err();
    assert!(error.into_existing().is_some());
    assert_eq!(world.here.len(), 2);
    world.done();
}

#[test]
fn a_key_that_is_removed_while_an_insertion_compares_is_free() {
    let world = world();
    world.add(2);
    next(|| drop(world.here.remove(&2).unwrap()));
    let late = object::<Simple>(&world.slab, &world.alive, 2);
    world.here.insert(&2, late).unwrap();
    assert_eq!(world.here.len(), 1);
    world.done();
}

#[test]
fn an_object_that_is_renamed_while_an_insertion_compares_is_compared_again() {
    let world = world();
    world.add(1);
    world.add(3);
    // 1 has been compared when 3 is asked; it gets the key then. Found in the order of the list, newest first.
    next(|| {
        next(|| {
            let object = world.here.remove(&3).unwrap();
            Ref::stable(&object).set(2);
            world.here.insert(&2, object).unwrap();
        });
    });
    let late = object::<Simple>(&world.slab, &world.alive, 2);
    let error = world.here.insert(&2, late).unwrap_err();
    assert!(error.into_existing().is_some());
    assert_eq!(world.here.len(), 2);
    world.done();
}
