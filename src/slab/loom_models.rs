//! Loom models of the whole slab, in a domain without readers to wait for.
//!
//! A magazine holds one slot and a page two, so that every path to the depot and back is short. Stable part and value
//! hold cells that loom tracks: a missing edge is a race on one of them.

use std::any::Any;
use std::ptr::NonNull;

use loom::sync::Arc;
use loom::thread;

use crate::reclaim::{Polled, ReadSection, Stage};
use crate::sync::{AtomicPtr, AtomicU64, Relaxed, UnsafeCell, Weak, edge};

use super::grow::Growth;
use super::{AfterGrace, Immediate, Key, Policy, Ref, Released, Slab};

/// A domain whose grace periods are over at once: right only where no reader outlives a page or a value.
#[derive(Clone, Debug)]
struct Still;

// SAFETY: not in general; each model sees to it that no reader is inside when something is retired.
unsafe impl ReadSection for Still {
    type Guard<'d> = ();
    type Inner = ();

    fn enter(&self) {}
    fn inner(&self) {}
    fn id((): &()) -> u64 {
        u64::MAX
    }
    fn admits((): &(), (): &()) -> bool {
        true
    }
    fn protect_load<T>((): &(), source: &AtomicPtr<T>) -> *mut T {
        // Acquire: what the trait asks for (O43, O50).
        source.load(edge!(O43 O50, Acquire))
    }
    unsafe fn retire_raw((): &(), ptr: NonNull<()>, drop: unsafe fn(NonNull<()>), _: usize) {
        // SAFETY: as the implementation's.
        unsafe { drop(ptr) };
    }
    fn report_panic((): &(), payload: Box<dyn Any + Send>) {
        std::panic::resume_unwind(payload);
    }
}

// SAFETY: as above.
unsafe impl Polled for Still {
    fn cookie((): &()) -> u64 {
        0
    }
    fn has_elapsed((): &(), _: u64) -> bool {
        true
    }
    fn advance((): &()) {}
    fn is_inside((): &()) -> bool {
        false
    }
    fn attach((): &(), _: Weak<dyn Stage>) {}
}

/// A cell that loom watches.
struct Watched(UnsafeCell<u64>);

// SAFETY: the models use the cell only where the slab says that they own it or may read it; loom checks that.
unsafe impl Sync for Watched {}
// SAFETY: as above.
unsafe impl Send for Watched {}

impl Watched {
    fn new(value: u64) -> Self {
        Self(UnsafeCell::new(value))
    }

    fn set(&self, value: u64) {
        // SAFETY: the caller owns the slot.
        self.0.with_mut(|place| unsafe { *place = value });
    }

    fn get(&self) -> u64 {
        // SAFETY: the caller has a reference, or found the slot.
        self.0.with(|place| unsafe { *place })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Counts as a write.
        self.set(u64::MAX);
    }
}

/// A stable part that counts its drops.
struct Counted(std::sync::Arc<std::sync::atomic::AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        // Relaxed: read when the model's threads have ended.
        self.0.fetch_add(1, Relaxed);
    }
}

type Tested<S, V, P = Immediate> = Slab<S, V, P, Still>;

fn slab<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<Still>>(
    max: usize,
    stable: impl Fn() -> S + Send + Sync + 'static,
) -> Tested<S, V, P> {
    Slab::builder()
        .domain(&Still)
        .max_objects(max)
        .build(move |_| stable())
}

fn model(code: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(code);
}

/// Owns a slot twice in a row, and touches everything.
fn insert_and_drop(slab: &Tested<Watched, Watched>, n: u64) {
    for _ in 0..2 {
        let vacant = slab.reserve();
        vacant.stable().set(n);
        let value = vacant.publish(Watched::new(n));
        assert_eq!((Ref::stable(&value).get(), value.get()), (n, n));
    }
}

#[test]
fn o45_slots_go_from_thread_to_thread_one_owner_after_the_other() {
    model(|| {
        let slab = Arc::new(slab(2, || Watched::new(0)));
        let held = slab.reserve();
        let other = {
            let slab = Arc::clone(&slab);
            thread::spawn(move || {
                drop(held);
                insert_and_drop(&slab, 1);
            })
        };
        insert_and_drop(&slab, 2);
        other.join().expect("no panic");
        assert_eq!(slab.len(), 0);
        assert_eq!(slab.shrink(), 1);
    });
}

/// One thread finds a page by key that another one builds after `held` slots.
fn page_that_is_found_is_built(held: u64) {
    model(move || {
        let slab = Arc::new(slab::<_, _, Immediate>(8, || Watched::new(7)));
        let held: Vec<_> = (0..held).map(|_| slab.reserve()).collect();
        let index = Arc::new(AtomicU64::new(u64::MAX));
        let other = {
            let (slab, index) = (Arc::clone(&slab), Arc::clone(&index));
            thread::spawn(move || {
                let value = slab.insert(Watched::new(8));
                // Relaxed: the index says nothing that the slab doesn't.
                index.store(Ref::key(&value).index(), Relaxed);
                value
            })
        };
        // Relaxed: as above.
        let index = index.load(Relaxed);
        if let Some(found) = slab.candidate(&(), Key::from_raw(index, 1).expect("a generation")) {
            assert_eq!(found.stable().get(), 7);
            assert_eq!(found.try_get().expect("held by the other").get(), 8);
        }
        drop(other.join().expect("no panic"));
        drop(held);
    });
}

#[test]
fn o43_page_that_is_found_is_built() {
    // In a segment of the directory that is there already.
    page_that_is_found_is_built(4);
}

#[test]
fn o43_generations_are_read_from_built_slots() {
    model(|| {
        let slab = Arc::new(slab::<_, _, Immediate>(2, || ()));
        let other = {
            let slab = Arc::clone(&slab);
            thread::spawn(move || slab.generations())
        };
        let value = slab.insert(Watched::new(1));
        other.join().expect("no panic");
        drop(value);
    });
}

#[test]
fn o44_line_of_a_new_segment_is_built() {
    page_that_is_found_is_built(2);
}

#[test]
fn o46_dead_values_are_dropped_by_whoever_settles() {
    model(|| {
        let slab = Arc::new(slab::<_, _, AfterGrace>(2, || ()));
        let value = slab.insert(Watched::new(1));
        let other = {
            let slab = Arc::clone(&slab);
            thread::spawn(move || {
                assert_eq!(value.get(), 1);
                drop(value);
                drop(slab);
            })
        };
        slab.core.collect_dead();
        slab.core.settle_dead();
        other.join().expect("no panic");
        slab.core.collect_dead();
        slab.core.settle_dead();
        assert_eq!(slab.stats().waiting, 0);
    });
}

fn closing_brings_every_slot_home<P: Policy<Still>>() {
    model(|| {
        let drops = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let each = std::sync::Arc::clone(&drops);
        let slab: Tested<(Counted, Watched), Watched, P> = Slab::builder()
            .domain(&Still)
            .max_objects(2)
            .on_free(|stable: &(Counted, Watched)| stable.1.set(5))
            .build(move |_| (Counted(std::sync::Arc::clone(&each)), Watched::new(0)));
        let first = slab.insert(Watched::new(1));
        let second = slab.insert(Watched::new(2));
        let other = thread::spawn(move || {
            assert_eq!(first.get(), 1);
            Ref::stable(&first).1.set(3);
            drop(first);
        });
        Ref::stable(&second).1.set(4);
        drop(second);
        drop(slab);
        other.join().expect("no panic");
        // Relaxed: all is over.
        assert_eq!(drops.load(Relaxed), 2);
    });
}

#[test]
fn o47_o48_closing_brings_every_slot_home_immediate() {
    closing_brings_every_slot_home::<Immediate>();
}

#[test]
fn o47_o48_closing_brings_every_slot_home_after_grace() {
    closing_brings_every_slot_home::<AfterGrace>();
}

#[test]
fn o49_whoever_finds_another_one_building_gets_a_slot() {
    model(|| {
        let slab = Arc::new(slab::<_, u64, Immediate>(2, || ()));
        let other = {
            let slab = Arc::clone(&slab);
            thread::spawn(move || slab.try_insert(1).expect("there is room for two"))
        };
        let mine = slab.try_insert(2).expect("there is room for two");
        assert_eq!(*other.join().expect("no panic") + *mine, 3);
    });
}

#[test]
fn o49_nobody_takes_a_slab_for_full_that_is_being_filled() {
    model(|| {
        // What stands for the depot: a search of it without any fence.
        let (growth, slots) = (
            Arc::new(Growth::new(1, None, 0)),
            Arc::new(AtomicU64::new(0)),
        );
        let builder = {
            let (growth, slots) = (Arc::clone(&growth), Arc::clone(&slots));
            thread::spawn(move || {
                let building = growth.begin();
                assert_eq!(growth.claim(1), 1);
                // Relaxed: the end of the building publishes it.
                slots.store(1, Relaxed);
                drop(building);
            })
        };
        let quiet = growth.quiet();
        // Relaxed: ordered by what the thread knows of the builder, else not.
        let is_found = slots.load(Relaxed) == 1;
        if growth.is_full() && quiet.is_some() && quiet == growth.quiet() {
            assert!(is_found, "full, with nobody building");
        }
        builder.join().expect("no panic");
    });
}

#[test]
fn o50_exchange_puts_in_what_is_alive_and_whole() {
    model(|| {
        let slab = Arc::new(slab::<_, _, Immediate>(2, || ()));
        let link = Arc::new(slab.link());
        let other = {
            let (slab, link) = (Arc::clone(&slab), Arc::clone(&link));
            thread::spawn(move || {
                let put = link.compare_exchange(None, Some(slab.insert(Watched::new(1))));
                assert!(put.is_ok_and(|old| old.is_none()));
            })
        };
        if let Some(value) = link.get(&()) {
            assert_eq!(value.get(), 1);
        }
        other.join().expect("no panic");
    });
}

#[test]
fn o50_what_a_link_owns_is_alive_and_whole() {
    model(|| {
        let slab = Arc::new(slab::<_, _, Immediate>(2, || ()));
        let link = Arc::new(slab.link());
        let other = {
            let (slab, link) = (Arc::clone(&slab), Arc::clone(&link));
            thread::spawn(move || {
                link.set(Some(slab.insert(Watched::new(1))));
                link.set(Some(slab.insert(Watched::new(2))));
            })
        };
        if let Some(value) = link.get(&()) {
            assert!((1..=2).contains(&value.get()));
        }
        if let Some(value) = link.take() {
            assert!((1..=2).contains(&value.get()));
        }
        other.join().expect("no panic");
    });
}

#[test]
fn o51_load_never_answers_with_an_incarnation_that_the_link_never_owned() {
    model(|| {
        let slab = Arc::new(slab::<_, _, Immediate>(1, || ()));
        let link = Arc::new(slab.link());
        link.set(Some(slab.insert(1_u64)));
        let other = {
            let (slab, link) = (Arc::clone(&slab), Arc::clone(&link));
            thread::spawn(move || {
                drop(link.take());
                slab.insert(2)
            })
        };
        if let Some(found) = link.load(&()) {
            assert_eq!(found.key().generation(), 1);
        }
        drop(other.join().expect("no panic"));
    });
}

#[test]
fn o53_last_of_the_bulk_has_every_use_behind_it() {
    model(|| {
        let slab = Arc::new(slab::<_, _, Immediate>(1, || ()));
        let value = slab.insert(Watched::new(1));
        let key = Ref::key(&value);
        Ref::retain(&value, 1);
        let other = {
            let slab = Arc::clone(&slab);
            thread::spawn(move || {
                assert_eq!(value.get(), 1);
                // The bulk's from now on, or one of those that it has already.
                Ref::retain(&value, 1);
                drop(value);
                slab.release(key, 1)
            })
        };
        let mine = slab.release(key, 1);
        let others = other.join().expect("no panic");
        assert_ne!(others, Released::Unknown);
        let lasts = [mine, others].map(|r| usize::from(r == Released::Last));
        // Once, or twice if the bulk was empty in between.
        assert!(lasts[0] + lasts[1] >= 1);
        assert!(slab.is_empty());
    });
}

/// The thread that begins the bulk touches the state word no more; only the bulk's word tells that it has been there.
#[test]
fn o53_bulk_is_over_before_the_free_list_writes_its_link() {
    model(|| {
        let slab = Arc::new(slab::<_, u64, Immediate>(1, || ()));
        let value = slab.insert(1);
        let key = Ref::key(&value);
        let other = {
            let slab = Arc::clone(&slab);
            thread::spawn(move || slab.retain(key, 2))
        };
        let released = slab.release(key, 2);
        drop(value);
        let retained = other.join().expect("no panic");
        let is_left = retained && released == Released::Unknown;
        assert_eq!(slab.len(), usize::from(is_left));
    });
}

/// Two requests for an object whose slot goes to the next one meanwhile: the count's place is the free list's link.
#[test]
fn o53_bulk_of_one_life_never_meets_the_free_list_or_the_next_life() {
    model(|| {
        let slab = Arc::new(slab::<_, u64, Immediate>(1, || ()));
        let value = slab.insert(1);
        let key = Ref::key(&value);
        Ref::retain(&value, 1);
        drop(value);
        let other = {
            let slab = Arc::clone(&slab);
            thread::spawn(move || slab.retain(key, 1))
        };
        let released = slab.release(key, 1);
        let next = slab.try_insert(2).ok();
        let retained = other.join().expect("no panic");
        assert_ne!(released, Released::Unknown);
        match &next {
            Some(next) => assert_eq!(slab.retained(Ref::key(next)), 0),
            None => assert!(retained),
        }
        assert_eq!(slab.retained(key), u64::from(retained));
    });
}

/// A second object keeps the page, which the closing walk reads: this domain waits for no reader.
fn closing_takes_what_is_given_to_the_slab(give: fn(Ref<(), Counted, Immediate, Still>)) {
    model(move || {
        let drops = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let slab: Tested<(), Counted> = slab(2, || ());
        let held = slab.insert(Counted(std::sync::Arc::default()));
        let value = slab.insert(Counted(std::sync::Arc::clone(&drops)));
        let other = thread::spawn(move || give(value));
        drop(slab);
        other.join().expect("no panic");
        // Relaxed: all is over.
        assert_eq!(drops.load(Relaxed), 1);
        drop(held);
    });
}

#[test]
fn o54_closing_takes_what_is_kept() {
    closing_takes_what_is_given_to_the_slab(|value| {
        Ref::keep(value);
    });
}

#[test]
fn o54_closing_takes_what_is_retained() {
    closing_takes_what_is_given_to_the_slab(|value| Ref::retain(&value, 1));
}

#[test]
fn o40_what_is_published_for_the_slab_is_whole() {
    model(|| {
        let slab = Arc::new(slab::<_, _, Immediate>(1, || ()));
        let other = {
            let slab = Arc::clone(&slab);
            thread::spawn(move || slab.insert_kept(Watched::new(8)))
        };
        let key = Key::from_raw(0, 1).expect("a generation");
        // Again and again: loom doesn't come back to a load that another thread's load hides.
        let value = loop {
            if let Some(value) = slab.remove(key) {
                break value;
            }
            thread::yield_now();
        };
        assert_eq!(value.get(), 8);
        assert_eq!(other.join().expect("no panic"), key);
    });
}

#[test]
fn o52_of_two_removers_one_drops_the_value() {
    model(|| {
        let slab = Arc::new(slab::<_, _, Immediate>(1, || ()));
        let key = slab.insert_kept(Watched::new(1));
        let other = {
            let slab = Arc::clone(&slab);
            thread::spawn(move || slab.remove(key).map(|value| value.get()))
        };
        let mine = slab.remove(key).map(|value| value.get());
        let others = other.join().expect("no panic");
        assert_eq!(mine.xor(others), Some(1));
        assert!(slab.is_empty());
    });
}

#[test]
fn o55_whoever_asks_for_a_reserved_id_finds_its_page_built() {
    model(|| {
        let slab: Arc<Tested<Watched, Watched>> = Arc::new(
            Slab::builder()
                .domain(&Still)
                .max_objects(2)
                .reserve_ids(2)
                .build(|_| Watched::new(7)),
        );
        let ask = |slab: &Tested<Watched, Watched>, index| {
            let value = slab.insert_at(index, Watched::new(index)).expect("free");
            assert_eq!((Ref::stable(&value).get(), value.get()), (7, index));
        };
        let other = {
            let slab = Arc::clone(&slab);
            thread::spawn(move || ask(&slab, 0))
        };
        ask(&slab, 1);
        other.join().expect("no panic");
    });
}
