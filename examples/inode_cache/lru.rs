//! Inodes without a user, oldest first. An entry is a mere tag: it keeps nothing alive, and an inode that
//! died meanwhile is found out when its turn comes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::counter::{Counter, Padded, SHARDS, shard};

/// How many listed inodes of one thread die between two looks at the share of dead entries.
const CHECK_EVERY: i64 = 1024;

pub(crate) struct Lru<T> {
    shards: [Padded<Mutex<VecDeque<T>>>; SHARDS],
    /// The shard that the next scan starts at.
    hand: AtomicUsize,
    entries: Counter,
    stale: Counter,
    sweep_due: AtomicBool,
}

impl<T> Lru<T> {
    pub(crate) fn new() -> Self {
        Lru {
            shards: std::array::from_fn(|_| Padded::default()),
            hand: AtomicUsize::new(0),
            entries: Counter::default(),
            stale: Counter::default(),
            sweep_due: AtomicBool::new(false),
        }
    }

    /// Appends one entry.
    pub(crate) fn push(&self, tag: T) {
        self.entries.add(1);
        self.lock(shard()).push_back(tag);
    }

    /// Takes up to `n` of the oldest entries, from one shard after another.
    pub(crate) fn take(&self, n: usize) -> Vec<T> {
        let mut taken = Vec::new();
        for _ in 0..SHARDS {
            // Relaxed: scans only have to take turns.
            let hand = self.hand.fetch_add(1, Ordering::Relaxed) % SHARDS;
            let mut entries = self.lock(hand);
            let part = entries.len().min(n - taken.len());
            taken.extend(entries.drain(..part));
            if taken.len() == n {
                break;
            }
        }
        self.entries.add(-(taken.len() as i64));
        taken
    }

    /// Notes that a listed inode died.
    pub(crate) fn note_stale(&self) {
        if self.stale.add(1) % CHECK_EVERY == 0 && self.stale.sum() * 2 > self.entries.sum() {
            // Relaxed: a hint to whoever asks next.
            self.sweep_due.store(true, Ordering::Relaxed);
        }
    }

    /// Drops every entry that `alive` denies, once most of them are dead.
    pub(crate) fn sweep_if_due(&self, alive: impl Fn(&T) -> bool) {
        // Relaxed, both: at worst two threads sweep.
        if !self.sweep_due.load(Ordering::Relaxed) || !self.sweep_due.swap(false, Ordering::Relaxed)
        {
            return;
        }
        self.stale.add(-self.stale.sum());
        for shard in 0..SHARDS {
            // Looked through without the lock: `alive` takes locks of its own.
            let mut entries = std::mem::take(&mut *self.lock(shard));
            let before = entries.len();
            entries.retain(&alive);
            self.entries.add(entries.len() as i64 - before as i64);
            let mut present = self.lock(shard);
            entries.append(&mut present);
            *present = entries;
        }
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, VecDeque<T>> {
        self.shards[shard]
            .0
            .lock()
            .expect("nothing panics under the LRU's lock")
    }
}
