//! Finding one of 16,384 entries by its key, and replacing one; every contender hashes alike.

use std::{
    hash::{BuildHasherDefault, Hasher},
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
};

use criterion::Criterion;
use dashmap::DashMap;
use graceperiod::{
    Global, Immediate, Slab,
    table::{CandidateOf, Index, SlabOf, Table, TableNode},
};
use graceperiod_peers::{OURS, run};

const ENTRIES: u64 = 16_384;

/// Coprime to the number of entries, so that each key comes round once before any comes again.
const STRIDE: u64 = 10_007;

struct Entry {
    node: TableNode,
    key: AtomicU64,
}

graceperiod::node!(EntryNode: Entry.node);

struct ByKey;

impl Index for ByKey {
    type Node = EntryNode;
    type Value = u64;
    type Policy = Immediate;
    type Domain = Global;
    type Key = u64;

    fn matches(candidate: &CandidateOf<'_, Self>, key: &u64) -> bool {
        // Relaxed: the table decides whether the answer counts.
        candidate.stable().key.load(Ordering::Relaxed) == *key
    }
}

/// A multiplication, folded: cheap enough that the tables are measured and not the hash.
#[derive(Default)]
struct Folded(u64);

impl Hasher for Folded {
    fn write(&mut self, _: &[u8]) {
        unreachable!("the keys are whole words");
    }

    fn write_u64(&mut self, key: u64) {
        let product = u128::from(key ^ self.0) * 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type BuildFolded = BuildHasherDefault<Folded>;

/// Ours, with what its entries live in.
struct Ours {
    slab: SlabOf<ByKey>,
    table: Table<ByKey, BuildFolded>,
}

impl Ours {
    fn filled() -> Ours {
        let slab: SlabOf<ByKey> = Slab::new(|_| Entry {
            node: TableNode::new(),
            key: AtomicU64::new(0),
        });
        // Four buckets for each entry, as the docs advise.
        let buckets = 4 * ENTRIES as usize;
        let table = Table::with_hasher(&slab, buckets, BuildFolded::default());
        let ours = Ours { slab, table };
        (0..ENTRIES).for_each(|key| ours.insert(key));
        ours
    }

    fn insert(&self, key: u64) {
        let vacant = self.slab.reserve();
        // Relaxed: publishing the entry publishes its key.
        vacant.stable().key.store(key, Ordering::Relaxed);
        let inserted = self.table.insert_vacant(&key, vacant, key);
        assert!(inserted.is_ok(), "the key is not in the table");
    }
}

fn filled_dashmap() -> DashMap<u64, u64, BuildFolded> {
    let map = DashMap::with_hasher(BuildFolded::default());
    for key in 0..ENTRIES {
        map.insert(key, key);
    }
    map
}

/// The keys, round and round.
fn next(key: &mut u64) -> u64 {
    *key = (*key + STRIDE) % ENTRIES;
    black_box(*key)
}

fn hit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("table hit");
    let mut key = 0;
    group.bench_function(OURS, |b| {
        let ours = Ours::filled();
        b.iter(|| *ours.table.get(&next(&mut key)).expect("every key is there"));
    });
    group.bench_function("graceperiod peek", |b| {
        let ours = Ours::filled();
        // Relaxed: the table decides whether the answer counts.
        let read = |entry: &Entry| entry.key.load(Ordering::Relaxed);
        b.iter(|| {
            ours.table
                .peek(&next(&mut key), read)
                .expect("every key is there")
        });
    });
    group.bench_function("dashmap", |b| {
        let map = filled_dashmap();
        b.iter(|| *map.get(&next(&mut key)).expect("every key is there"));
    });
    group.finish();
}

fn replace(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("table remove and insert");
    let mut key = 0;
    group.bench_function(OURS, |b| {
        let ours = Ours::filled();
        b.iter(|| {
            let key = next(&mut key);
            drop(ours.table.remove(&key));
            ours.insert(key);
        });
    });
    group.bench_function("dashmap", |b| {
        let map = filled_dashmap();
        b.iter(|| {
            let key = next(&mut key);
            map.remove(&key);
            map.insert(key, key);
        });
    });
    group.finish();
}

fn main() {
    run("table hit", hit);
    run("table remove and insert", replace);
}
