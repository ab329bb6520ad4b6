//! A walk over real files: every path of a tree is looked up in the cache from several threads, while another thread
//! evicts inodes and reads them again; every answer is checked against what the file system said.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::attributes::{Attributes, InodeId};
use crate::cache::{Cache, Config, DropMode};
use crate::handle::{Inode, Lookup};
use crate::store::Store;
use crate::tree::{Tree, stat};
use crate::workload::{End, Plan, Run, Sample, Stop, run_threads};

/// Inodes that the evicting thread throws out by name each time it comes by, and reads again.
const EVICT: usize = 32;

/// LRU entries that it has the shrinker look at.
const SHRINK: usize = 256;

/// How long it sleeps between.
const PAUSE: Duration = Duration::from_millis(1);

/// Mismatches that are told in full.
const TOLD: usize = 20;

pub(crate) struct Walk {
    pub(crate) threads: usize,
    pub(crate) tree: Arc<Tree>,
    /// An inode whose size the cache is made to get wrong.
    pub(crate) planted: Option<InodeId>,
}

/// What a walk found out.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Findings {
    pub(crate) paths: usize,
    pub(crate) inodes: usize,
    /// Times that an inode was read from the file system.
    pub(crate) reads: u64,
    /// Inodes that left the cache while look-ups ran.
    pub(crate) evictions: u64,
    /// Paths whose file changed, or went, between the scan and a check. They prove nothing either way.
    pub(crate) changed: usize,
    pub(crate) vanished: usize,
    /// Paths for which the cache said something else than the file system.
    pub(crate) mismatched: usize,
    /// The first of them.
    pub(crate) mismatches: Vec<Mismatch>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Mismatch {
    pub(crate) path: PathBuf,
    pub(crate) cached: String,
    pub(crate) real: String,
}

impl Findings {
    /// Says what the walk has to be failed for.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        let untold = self.mismatched - self.mismatches.len();
        let more = (untold > 0).then(|| format!("and {untold} more paths"));
        self.mismatches.iter().map(Mismatch::to_string).chain(more)
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agreed = self.paths - self.changed - self.vanished - self.mismatched;
        write!(
            f,
            "{agreed} of {} paths agree ({} inodes; {} evictions, {} reads); {} changed and {} vanished meanwhile, {} differ",
            self.paths,
            self.inodes,
            self.evictions,
            self.reads,
            self.changed,
            self.vanished,
            self.mismatched
        )
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: the cache says {}, the file system {}",
            self.path.display(),
            self.cached,
            self.real
        )
    }
}

/// What became of a path since the scan.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Fate {
    Same,
    Changed,
    Vanished,
}

impl Plan for Walk {
    fn prepare<S: Store>(&self, drop: DropMode) -> Box<dyn Run> {
        let objects = self.tree.inodes;
        let config = Config {
            objects,
            device: 0,
            first_number: 1,
            journaled: false,
            drop,
        };
        let running = Running::<S> {
            threads: self.threads,
            cache: Cache::new(config),
            fates: self
                .tree
                .entries
                .iter()
                .map(|_| AtomicU8::new(Fate::Same as u8))
                .collect(),
            tree: self.tree.clone(),
            planted: self.planted,
            reads: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            mismatches: Mutex::default(),
        };
        for index in 0..running.tree.entries.len() {
            running.check(index);
        }
        Box::new(running)
    }
}

struct Running<S: Store> {
    threads: usize,
    cache: Cache<S>,
    tree: Arc<Tree>,
    planted: Option<InodeId>,
    /// One [`Fate`] per entry of the tree.
    fates: Vec<AtomicU8>,
    reads: AtomicU64,
    evictions: AtomicU64,
    mismatches: Mutex<BTreeMap<usize, Mismatch>>,
}

impl<S: Store> Running<S> {
    /// Looks one path up, and compares what the cache says with what the scan saw.
    fn check(&self, index: usize) {
        let expected = &self.tree.entries[index].attributes;
        if let Some(inode) = self.look_up(index)
            && inode.attributes() != expected
        {
            self.judge(index, inode.attributes());
        }
    }

    /// Returns the inode of a path, read from the file system if it is not cached; `None` if the file is gone.
    fn look_up(&self, index: usize) -> Option<Inode<'_, S>> {
        let entry = &self.tree.entries[index];
        let new = match self.cache.iget(entry.id) {
            Lookup::Cached(inode) => return Some(inode),
            Lookup::New(new) => new,
        };
        // Relaxed: a tally, read after the threads have been joined.
        self.reads.fetch_add(1, Ordering::Relaxed);
        match stat(&entry.path) {
            Ok((id, mut attributes)) if id == entry.id => {
                if self.planted == Some(id) {
                    attributes.size += 1;
                }
                Some(new.fill(attributes))
            }
            // The name is gone, or another file's by now. The unfilled inode leaves the cache again.
            _ => {
                self.set_fate(index, Fate::Vanished);
                None
            }
        }
    }

    /// Finds out who is right when cache and scan disagree, by asking the file system once more: files change.
    fn judge(&self, index: usize, cached: &Attributes) {
        let entry = &self.tree.entries[index];
        match stat(&entry.path) {
            Ok((id, now)) if id == entry.id && now == entry.attributes => {
                let (cached, real) = cached.differences(&now);
                let mismatch = Mismatch {
                    path: entry.path.clone(),
                    cached,
                    real,
                };
                self.mismatches
                    .lock()
                    .expect("nothing panics under this lock")
                    .insert(index, mismatch);
            }
            Ok((id, _)) if id == entry.id => self.set_fate(index, Fate::Changed),
            _ => self.set_fate(index, Fate::Vanished),
        }
    }

    fn set_fate(&self, index: usize, fate: Fate) {
        // Relaxed: read after the threads have been joined.
        self.fates[index].store(fate as u8, Ordering::Relaxed);
    }

    fn fated(&self, fate: Fate) -> usize {
        // Relaxed: as above.
        self.fates
            .iter()
            .filter(|each| each.load(Ordering::Relaxed) == fate as u8)
            .count()
    }

    /// Checks all paths at least once, in an order of this thread's own, until the time is over.
    fn look_everything_up(&self, thread: usize, stop: &Stop) -> u64 {
        let paths = self.tree.entries.len();
        let stride = coprime_stride(paths);
        let mut index = thread * paths / self.threads;
        let mut looked_up = 0;
        while looked_up < paths as u64 || !stop.requested() {
            self.check(index);
            looked_up += 1;
            index = (index + stride) % paths;
        }
        looked_up
    }

    fn evict_and_read_again(&self, stop: &Stop) {
        let paths = self.tree.entries.len();
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        while !stop.requested() {
            let mut evicted = self.cache.shrink(SHRINK);
            for _ in 0..EVICT {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let index = (random >> 32) as usize % paths;
                evicted += usize::from(self.cache.evict(self.tree.entries[index].id));
                self.check(index);
            }
            // Relaxed: a tally, read after the threads have been joined.
            self.evictions.fetch_add(evicted as u64, Ordering::Relaxed);
            thread::sleep(PAUSE);
        }
    }
}

impl<S: Store> Run for Running<S> {
    fn sample(&mut self, length: Duration) -> Sample {
        let this = &*self;
        run_threads(
            this.threads + 1,
            Some(length),
            || this.cache.waiting(),
            |thread, stop| {
                if thread < this.threads {
                    return this.look_everything_up(thread, stop);
                }
                this.evict_and_read_again(stop);
                0
            },
        )
    }

    fn check(&self) -> Result<(), String> {
        self.cache.check_idle(None)
    }

    fn finish(self: Box<Self>) -> End {
        let (changed, vanished) = (self.fated(Fate::Changed), self.fated(Fate::Vanished));
        let mismatches = self
            .mismatches
            .into_inner()
            .expect("nothing panics under this lock");
        let findings = Findings {
            paths: self.tree.entries.len(),
            inodes: self.tree.inodes,
            reads: self.reads.into_inner(),
            evictions: self.evictions.into_inner(),
            changed,
            vanished,
            mismatched: mismatches.len(),
            mismatches: mismatches.into_values().take(TOLD).collect(),
        };
        End {
            counters: self.cache.umount(),
            findings: Some(findings),
        }
    }
}

/// Returns a step that comes by every one of `n` places before it repeats.
fn coprime_stride(n: usize) -> usize {
    // A prime that does not divide `n` has no factor in common with it.
    [7919, 7907, 7901, 1]
        .into_iter()
        .find(|prime| !n.is_multiple_of(*prime) || *prime == 1)
        .unwrap_or(1)
}
