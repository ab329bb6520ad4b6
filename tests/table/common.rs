//! An object whose identity is in the stable part, and what counts its drops.

use std::hash::{BuildHasher, Hasher};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use graceperiod::reclaim::ReadSection;
use graceperiod::table::{CandidateOf, Index, RefOf, SlabOf, Table, TableNode};
use graceperiod::{Policy, Slab};

/// Whether the environment has slabs keep freed slots back, so that claims about their reuse don't hold.
pub(crate) fn keeps_freed_slots() -> bool {
    std::env::var("GRACEPERIOD_SLAB_DEBUG").is_ok_and(|mode| mode == "quarantine")
}

/// The stable part: a key, its complement for telling a torn read, and two nodes.
#[derive(Debug)]
pub(crate) struct Stable {
    pub(crate) key: AtomicU64,
    pub(crate) complement: AtomicU64,
    pub(crate) node: TableNode,
    pub(crate) other: TableNode,
}

impl Stable {
    pub(crate) fn new() -> Self {
        Self {
            key: AtomicU64::new(0),
            complement: AtomicU64::new(!0),
            node: TableNode::new(),
            other: TableNode::new(),
        }
    }

    pub(crate) fn set(&self, key: u64) {
        self.key.store(key, Release);
        self.complement.store(!key, Release);
    }

    pub(crate) fn read(&self) -> (u64, u64) {
        (self.key.load(Relaxed), self.complement.load(Relaxed))
    }
}

graceperiod::node!(pub(crate) First: Stable.node);
graceperiod::node!(pub(crate) Second: Stable.other);

/// Counts what lives.
#[derive(Clone, Default)]
pub(crate) struct Alive(Arc<AtomicUsize>);

impl Alive {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn value(&self, key: u64) -> Value {
        self.0.fetch_add(1, Relaxed);
        Value {
            key,
            alive: self.clone(),
        }
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Acquire)
    }
}

/// A value that knows its key.
pub(crate) struct Value {
    pub(crate) key: u64,
    alive: Alive,
}

impl Drop for Value {
    fn drop(&mut self) {
        self.alive.0.fetch_sub(1, Release);
    }
}

/// An index by the key, over any node, policy and domain.
pub(crate) struct By<N, P, D>(PhantomData<(N, P, D)>);

impl<N, P, D> Index for By<N, P, D>
where
    N: graceperiod::table::Node<Stable = Stable>,
    P: Policy<D>,
    D: ReadSection,
{
    type Node = N;
    type Value = Value;
    type Policy = P;
    type Domain = D;
    type Key = u64;

    fn matches(candidate: &CandidateOf<'_, Self>, key: &u64) -> bool {
        candidate.stable().key.load(Relaxed) == *key
    }
}

/// A hasher that gives every key the same hash.
#[derive(Clone, Copy, Default)]
pub(crate) struct Constant;

impl Hasher for Constant {
    fn finish(&self) -> u64 {
        42
    }
    fn write(&mut self, _: &[u8]) {}
}

/// Builds a hasher that is the default one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Build<H>(PhantomData<fn() -> H>);

impl<H: Hasher + Default> BuildHasher for Build<H> {
    type Hasher = H;
    fn build_hasher(&self) -> H {
        H::default()
    }
}

/// A hasher that leaves integers as they are.
#[derive(Clone, Copy, Default)]
pub(crate) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

pub(crate) fn slab<P: Policy<graceperiod::Global>>() -> Slab<Stable, Value, P> {
    Slab::new(|_| Stable::new())
}

/// Makes an object with a key that is in no table.
pub(crate) fn object<I>(slab: &SlabOf<I>, alive: &Alive, key: u64) -> RefOf<I>
where
    I: Index<Value = Value, Node: graceperiod::table::Node<Stable = Stable>>,
{
    let vacant = slab.reserve();
    vacant.stable().set(key);
    vacant.publish(alive.value(key))
}

/// Inserts a new object under its key; whether the key was free.
pub(crate) fn add<I, H>(table: &Table<I, H>, slab: &SlabOf<I>, alive: &Alive, key: u64) -> bool
where
    I: Index<Value = Value, Key = u64, Node: graceperiod::table::Node<Stable = Stable>>,
    H: BuildHasher,
{
    let vacant = slab.reserve();
    vacant.stable().set(key);
    table.insert_vacant(&key, vacant, alive.value(key)).is_ok()
}

/// A cheap generator of numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// What a thread does, once or again and again.
pub(crate) type Work<'a, R = ()> = Box<dyn FnMut() -> R + Send + 'a>;

/// Does all of it at the same time, once.
///
/// Joins each thread, here and below: ThreadSanitizer doesn't see the end of a scope.
pub(crate) fn together<'a, R: Send>(works: impl IntoIterator<Item = Work<'a, R>>) -> Vec<R> {
    thread::scope(|scope| {
        let threads: Vec<_> = works.into_iter().map(|work| scope.spawn(work)).collect();
        let results = threads.into_iter().map(|thread| thread.join());
        results.map(|result| result.expect("no panic")).collect()
    })
}

/// Does all of it at the same time, again and again, for a while.
pub(crate) fn for_a_while<'a>(works: impl IntoIterator<Item = Work<'a>>) {
    let end = Instant::now() + Duration::from_millis(400);
    together(works.into_iter().map(|mut work| {
        let repeat = move || {
            while Instant::now() < end {
                (0..16).for_each(|_| work());
            }
        };
        Box::new(repeat) as Work<'a>
    }));
}
