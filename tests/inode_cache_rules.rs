//! The rules of the example's inode cache, for every strategy and both ways to drop.

#![expect(dead_code, reason = "the example uses the rest of its modules")]

#[path = "../examples/inode_cache/attributes.rs"]
mod attributes;
#[path = "../examples/inode_cache/cache.rs"]
mod cache;
#[path = "../examples/inode_cache/counter.rs"]
mod counter;
#[path = "../examples/inode_cache/handle.rs"]
mod handle;
#[path = "../examples/inode_cache/hasher.rs"]
mod hasher;
#[path = "../examples/inode_cache/inode.rs"]
mod inode;
#[path = "../examples/inode_cache/iunique.rs"]
mod iunique;
#[path = "../examples/inode_cache/lru.rs"]
mod lru;
#[path = "../examples/inode_cache/progress.rs"]
mod progress;
#[path = "../examples/inode_cache/store.rs"]
mod store;
#[path = "../examples/inode_cache/strategy/mod.rs"]
mod strategy;
#[path = "../examples/inode_cache/superblock.rs"]
mod superblock;
#[path = "../examples/inode_cache/tree.rs"]
mod tree;
#[path = "../examples/inode_cache/workload/mod.rs"]
mod workload;

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;

use crate::attributes::{Attributes, InodeId};
use crate::cache::{Cache, Config, Counters, DropMode};
use crate::handle::Lookup;
use crate::lru::Lru;
use crate::store::Store;
use crate::strategy::Strategy;
use crate::workload::{End, Plan, Run, Sample};

const DEVICE: u64 = 7;

fn id(number: u64) -> InodeId {
    InodeId {
        device: DEVICE,
        number,
    }
}

fn sized(size: u64) -> Attributes {
    Attributes {
        size,
        ..Attributes::empty_file()
    }
}

fn config(drop: DropMode) -> Config {
    Config {
        objects: 64,
        device: DEVICE,
        first_number: 1,
        journaled: true,
        drop,
    }
}

fn read_in<S: Store>(cache: &Cache<S>, number: u64) {
    match cache.iget(id(number)) {
        Lookup::New(new) => drop(new.fill(sized(number))),
        Lookup::Cached(inode) => assert_eq!(inode.attributes(), &sized(number)),
    }
}

fn in_use_and_unused<S: Store>(cache: &Cache<S>) -> (i64, i64) {
    let Counters {
        nr_inodes,
        nr_unused,
        ..
    } = cache.counters();
    (nr_inodes - nr_unused, nr_unused)
}

#[test]
fn dead_lru_entries_are_swept_once_they_are_the_majority() {
    let lru = Lru::new();
    (0..1500).for_each(|tag| lru.push(tag));
    for dead in 1..=1024 {
        lru.note_stale();
        lru.sweep_if_due(|&tag| tag >= 1024);
        let left = lru.take(2000);
        assert_eq!(left.len(), if dead < 1024 { 1500 } else { 476 });
        left.into_iter().for_each(|tag| lru.push(tag));
    }
}

/// A rule is over when it has been prepared.
struct Done;

impl Run for Done {
    fn sample(&mut self, _length: Duration) -> Sample {
        unreachable!("rules are not measured")
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> End {
        unreachable!("rules are not measured")
    }
}

static ALONE: Mutex<()> = Mutex::new(());

/// Runs a rule, a generic function of the drop mode, over everything.
macro_rules! rule {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            use rules::$name;

            // The figures of the global domain are everybody's.
            let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
            struct Rule;
            impl Plan for Rule {
                fn prepare<S: Store>(&self, drop: DropMode) -> Box<dyn Run> {
                    $name::<S>(drop);
                    Box::new(Done)
                }
            }
            for strategy in Strategy::value_variants() {
                for drop in DropMode::value_variants() {
                    println!("{strategy:?}, {drop:?}");
                    strategy.prepare(&Rule, *drop);
                }
            }
        }
    )*};
}

rule! {
    a_new_inode_keeps_others_waiting_until_it_is_filled
    a_failed_read_lets_the_next_one_try
    one_of_many_duplicate_inserts_wins
    numbers_wrap_and_pass_over_those_in_use
    a_used_inode_gets_a_second_chance_from_the_shrinker
    an_inode_in_use_is_never_evicted
    a_deleted_inode_lives_until_its_last_user_goes
    counters_are_exact_while_nothing_runs
    umount_reports_an_inode_that_is_still_in_use
    everybody_at_once_leaves_nothing_behind
}

mod rules {
    use super::*;

    pub(super) fn a_new_inode_keeps_others_waiting_until_it_is_filled<S: Store>(drop: DropMode) {
        let cache = Cache::<S>::new(config(drop));
        let Lookup::New(new) = cache.iget(id(5)) else {
            panic!("nothing is cached yet")
        };
        let (arrived, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    arrived.fetch_add(1, Ordering::SeqCst);
                    let Lookup::Cached(inode) = cache.iget(id(5)) else {
                        panic!("a second new inode")
                    };
                    answered.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(inode.attributes(), &sized(5));
                });
            }
            while arrived.load(Ordering::SeqCst) < 3 {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(5));
            assert_eq!(answered.load(Ordering::SeqCst), 0);
            mem::drop(new.fill(sized(5)));
        });
        assert_eq!(cache.umount(), Ok(Counters::default()));
    }

    pub(super) fn a_failed_read_lets_the_next_one_try<S: Store>(drop: DropMode) {
        let cache = Cache::<S>::new(config(drop));
        let Lookup::New(new) = cache.iget(id(5)) else {
            panic!("nothing is cached yet")
        };
        thread::scope(|scope| {
            let waiting = scope.spawn(|| match cache.iget(id(5)) {
                Lookup::New(new) => new.fill(sized(6)).attributes().size,
                Lookup::Cached(_) => panic!("an inode that was never read"),
            });
            thread::sleep(Duration::from_millis(5));
            mem::drop(new);
            assert_eq!(waiting.join().expect("it gets the inode to fill"), 6);
        });
        assert_eq!(in_use_and_unused(&cache), (0, 1));
        assert_eq!(cache.umount(), Ok(Counters::default()));
    }

    pub(super) fn one_of_many_duplicate_inserts_wins<S: Store>(drop: DropMode) {
        let cache = Cache::<S>::new(config(drop));
        for number in 1..=50 {
            let (start, won) = (Barrier::new(4), AtomicUsize::new(0));
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        start.wait();
                        if let Lookup::New(new) = cache.iget(id(number)) {
                            won.fetch_add(1, Ordering::SeqCst);
                            new.fill(sized(number));
                        }
                    });
                }
            });
            assert_eq!(won.into_inner(), 1);
        }
        assert_eq!(in_use_and_unused(&cache), (0, 50));
        assert_eq!(cache.umount(), Ok(Counters::default()));
    }

    pub(super) fn numbers_wrap_and_pass_over_those_in_use<S: Store>(drop: DropMode) {
        let cache = Cache::<S>::new(Config {
            first_number: u32::MAX - 1,
            ..config(drop)
        });
        read_in(&cache, 2);
        read_in(&cache, 3);
        let made: Vec<_> = (0..5).map(|_| cache.create(sized(0))).collect();
        let numbers: Vec<_> = made.iter().map(|inode| inode.id().number).collect();
        assert_eq!(
            numbers,
            [u64::from(u32::MAX) - 1, u64::from(u32::MAX), 1, 4, 5]
        );
        mem::drop(made);
        assert_eq!(cache.umount(), Ok(Counters::default()));
    }

    pub(super) fn a_used_inode_gets_a_second_chance_from_the_shrinker<S: Store>(drop: DropMode) {
        let cache = Cache::<S>::new(config(drop));
        (1..=4).for_each(|number| read_in(&cache, number));
        assert_eq!(cache.shrink(4), 0);
        read_in(&cache, 2);
        assert_eq!(cache.shrink(4), 3);
        assert!(cache.ilookup(id(2)).is_some() && cache.ilookup(id(3)).is_none());
        assert_eq!((cache.shrink(1), cache.shrink(1)), (0, 1));
        assert_eq!(in_use_and_unused(&cache), (0, 0));
        assert_eq!(cache.umount(), Ok(Counters::default()));
    }

    pub(super) fn an_inode_in_use_is_never_evicted<S: Store>(drop: DropMode) {
        let cache = Cache::<S>::new(config(drop));
        read_in(&cache, 1);
        let held = cache.ilookup(id(1)).expect("it was just read");
        assert_eq!(
            (cache.shrink(8), cache.shrink(8), cache.evict(id(1))),
            (0, 0, false)
        );
        mem::drop(held);
        assert!(cache.evict(id(1)) && !cache.evict(id(1)));
        assert_eq!(cache.umount(), Ok(Counters::default()));
    }

    pub(super) fn a_deleted_inode_lives_until_its_last_user_goes<S: Store>(drop: DropMode) {
        let cache = Cache::<S>::new(config(drop));
        let open = cache.create(Attributes {
            links: 2,
            ..sized(9)
        });
        let named = cache.ilookup(open.id()).expect("it is in use");
        assert!(named.unlink() && named.unlink() && !named.unlink());
        mem::drop(named);
        assert_eq!(
            (open.attributes().size, in_use_and_unused(&cache)),
            (9, (1, 0))
        );
        let number = open.id();
        mem::drop(open);
        cache.flush();
        assert!(cache.ilookup(number).is_none());
        assert_eq!(cache.umount(), Ok(Counters::default()));
    }

    pub(super) fn counters_are_exact_while_nothing_runs<S: Store>(drop: DropMode) {
        let cache = Cache::<S>::new(config(drop));
        (1..=10).for_each(|number| read_in(&cache, number));
        let held: Vec<_> = (1..=3)
            .filter_map(|number| cache.ilookup(id(number)))
            .collect();
        assert_eq!(
            (in_use_and_unused(&cache), cache.counters().hashed),
            ((3, 7), 10)
        );
        held[0].unlink();
        mem::drop(held);
        cache.flush();
        assert_eq!(
            (in_use_and_unused(&cache), cache.counters().hashed),
            ((0, 9), 9)
        );
        assert_eq!(cache.umount(), Ok(Counters::default()));
    }

    pub(super) fn umount_reports_an_inode_that_is_still_in_use<S: Store>(drop: DropMode) {
        let cache = Cache::<S>::new(config(drop));
        mem::forget(cache.create(sized(0)));
        let problem = cache.umount().expect_err("an inode is busy");
        assert!(problem.contains("1 inodes busy"), "{problem}");
    }

    /// Few inodes, many threads, every operation: what one of them gets wrong shows in the counters.
    pub(super) fn everybody_at_once_leaves_nothing_behind<S: Store>(drop: DropMode) {
        let cache = Cache::<S>::new(config(drop));
        thread::scope(|scope| {
            for thread in 0..4u64 {
                let cache = &cache;
                scope.spawn(move || {
                    let mut random = thread + 1;
                    for _ in 0..3_000 {
                        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                        one_random_step(cache, random >> 33);
                    }
                });
            }
        });
        assert_eq!(cache.umount(), Ok(Counters::default()));
    }

    fn one_random_step<S: Store>(cache: &Cache<S>, random: u64) {
        // Away from the numbers that `create` takes.
        let number = (1 << 40) + (random >> 4) % 8;
        match random % 16 {
            0 => drop(cache.create(sized(0)).unlink()),
            1 => drop(cache.evict(id(number))),
            2 => drop(cache.shrink(3)),
            3 | 4 => {
                if let Some(inode) = cache.ilookup(id(number)) {
                    inode.unlink();
                }
            }
            5 => {
                if let Lookup::New(unread) = cache.iget(id(number)) {
                    drop(unread);
                }
            }
            _ => read_in(cache, number),
        }
    }
}
