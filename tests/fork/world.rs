//! One of everything, what other threads do with it, and what must work in a child.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use graceperiod::queue::{Drain, DropQueue};
use graceperiod::table::{CandidateOf, Index, Table, TableNode};
use graceperiod::{AfterGrace, Domain, Global, Immediate, RcuCell, Slab};

#[derive(Debug)]
pub(crate) struct Stable {
    key: AtomicU64,
    node: TableNode,
}

graceperiod::node!(pub(crate) Hash: Stable.node);

pub(crate) struct ByKey;

impl Index for ByKey {
    type Node = Hash;
    type Value = u64;
    type Policy = Immediate;
    type Domain = Global;
    type Key = u64;

    fn matches(candidate: &CandidateOf<'_, Self>, key: &u64) -> bool {
        candidate.stable().key.load(Relaxed) == *key
    }
}

/// Counts its drops.
pub(crate) struct Counted(pub(crate) Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

pub(crate) struct World {
    pub(crate) table: Table<ByKey>,
    pub(crate) slab: Slab<Stable, u64>,
    pub(crate) graced: Slab<(), Box<u64>, AfterGrace, Domain>,
    pub(crate) cell: RcuCell<u64>,
    pub(crate) queue: DropQueue<Box<u64>>,
    pub(crate) inline: DropQueue<Box<u64>>,
    pub(crate) domain: Domain,
    pub(crate) worked: Domain,
    pub(crate) stop: AtomicBool,
}

impl World {
    pub(crate) fn new() -> Self {
        let slab = Slab::new(|_| Stable {
            key: AtomicU64::new(0),
            node: TableNode::new(),
        });
        let domain = Domain::new();
        let queue = |drain| {
            let builder = DropQueue::builder().drain(drain).domain(&domain);
            builder.build().expect("settings that agree")
        };
        Self {
            table: Table::new(&slab, 2),
            slab,
            graced: Slab::builder().domain(&domain).build(|_| ()),
            cell: RcuCell::new(0),
            queue: queue(Drain::Worker),
            inline: queue(Drain::Inline),
            worked: Domain::builder()
                .worker(true)
                .max_delay(Duration::from_millis(1))
                .build(),
            domain,
            stop: AtomicBool::new(false),
        }
    }

    /// Repeats `step` on `threads` threads while `meanwhile` runs, which begins once all of them have.
    pub(crate) fn storm(
        &self,
        threads: u64,
        step: impl Fn(&Self, u64) + Sync,
        meanwhile: impl FnOnce(),
    ) {
        let (begun, begins) = mpsc::channel();
        thread::scope(|scope| {
            for thread in 0..threads {
                let (begun, step) = (begun.clone(), &step);
                scope.spawn(move || {
                    let mut n = thread << 32;
                    while !self.stop.load(Relaxed) {
                        step(self, n);
                        if n == thread << 32 {
                            begun.send(()).expect("the test waits");
                        }
                        n += 1;
                    }
                });
            }
            for _ in 0..threads {
                begins.recv().expect("all begin");
            }
            let stop = Stop(&self.stop);
            meanwhile();
            drop(stop);
        });
        self.stop.store(false, Relaxed);
    }

    pub(crate) fn insert(&self, key: u64) {
        let vacant = self.slab.reserve();
        vacant.stable().key.store(key, Relaxed);
        drop(self.table.insert_vacant(&key, vacant, key));
    }

    /// Uses everything.
    pub(crate) fn exercise(&self) {
        self.wait();
        self.retire();
        self.fill_slabs();
        self.fill_table();
        self.fill_queues();
        self.let_the_worker_work();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    self.retire();
                    self.fill_slabs();
                    self.fill_queues();
                });
            }
        });
        self.wait();
    }

    fn wait(&self) {
        for domain in [&self.domain, &self.worked] {
            domain.synchronize();
            domain.barrier();
        }
        graceperiod::synchronize();
        graceperiod::barrier();
    }

    fn retire(&self) {
        let dropped = Arc::new(AtomicUsize::new(0));
        for _ in 0..2_500 {
            graceperiod::retire(Box::new(Counted(Arc::clone(&dropped))));
            self.domain
                .retire(Box::new((Counted(Arc::clone(&dropped)), [0_u64; 4])));
            self.worked.retire(Box::new(Counted(Arc::clone(&dropped))));
            let counted = Counted(Arc::clone(&dropped));
            graceperiod::defer(move || drop(counted));
            self.cell
                .replace(*self.cell.load(&graceperiod::enter()) + 1);
        }
        self.wait();
        assert_eq!(dropped.load(Relaxed), 10_000);
    }

    fn fill_slabs(&self) {
        let refs: Vec<_> = (0..1_000).map(|n| self.slab.insert(n)).collect();
        for (n, found) in (0..).zip(&refs) {
            assert_eq!(**found, n);
            let again = self.slab.get(graceperiod::Ref::key(found));
            assert_eq!(again.as_deref(), Some(&n));
        }
        drop(refs);
        let refs: Vec<_> = (0..1_000)
            .map(|n| self.graced.insert(Box::new(n)))
            .collect();
        drop(refs);
        self.domain.barrier();
        drop(self.graced.insert(Box::new(1)));
    }

    fn fill_table(&self) {
        let base = 1 << 60;
        for key in base..base + 100 {
            self.insert(key);
            assert_eq!(self.table.get(&key).as_deref(), Some(&key));
        }
        for key in base..base + 100 {
            assert!(self.table.remove(&key).is_some());
            assert!(self.table.get(&key).is_none());
        }
    }

    fn fill_queues(&self) {
        for queue in [&self.queue, &self.inline] {
            for n in 0..1_000 {
                queue.push(Box::new(n)).expect("nobody has stopped it");
            }
            queue.kick();
            queue.flush();
            queue.barrier();
        }
    }

    /// Retires, and has the worker alone drop it.
    fn let_the_worker_work(&self) {
        let dropped = Arc::new(AtomicUsize::new(0));
        self.worked.retire(Box::new(Counted(Arc::clone(&dropped))));
        let begun = Instant::now();
        while dropped.load(Relaxed) == 0 {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "the domain's worker rests"
            );
            thread::sleep(Duration::from_millis(1));
        }
        self.queue.push(Box::new(1)).expect("nobody has stopped it");
        while self.queue.stats().waiting > 0 {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "the queue's worker rests"
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Claims that counts are exact where nothing runs.
    pub(crate) fn check_counts(&self) {
        for domain in [&self.domain, &self.worked] {
            assert_eq!(domain.drain().left, 0);
            let stats = domain.stats();
            assert_eq!((stats.pending_objects, stats.pending_bytes), (0, 0));
            assert_eq!(stats.readers, 0);
        }
        for queue in [&self.queue, &self.inline] {
            queue.barrier();
            let stats = queue.stats();
            assert_eq!((stats.waiting, stats.queued), (0, stats.dropped));
        }
        assert_eq!(self.graced.stats().waiting, 0);
        let members = self.table.len();
        assert_eq!(self.table.drain().count(), members);
        assert!(self.table.is_empty());
    }

    /// Ends everything, in a child in which nobody else will use it.
    ///
    /// # Safety
    ///
    /// 1. The world isn't used any more.
    pub(crate) unsafe fn end(&self) {
        // SAFETY: (1).
        let world = unsafe { std::ptr::read(self) };
        world.queue.stop().expect("nobody has panicked");
        drop(world);
        // In the parent other tests use it.
        assert_eq!(graceperiod::drain().left, 0);
        let stats = graceperiod::stats();
        assert_eq!((stats.pending_objects, stats.pending_bytes), (0, 0));
        assert_eq!(stats.readers, 0);
    }
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
