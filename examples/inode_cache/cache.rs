//! The inode cache: `iget`, `iput`, `create` and `unlink`, the shrinker and `umount`, over any [`Store`].
//!
//! A look-up first takes a reference, which says that the memory stays, and then the inode's lock, under which
//! it learns whether the inode is still in the cache and becomes its user. An inode without users stays cached,
//! on the LRU; one without users and links goes. Locks nest in this order: superblock, inode, store.

use std::slice;
use std::sync::{Arc, MutexGuard};

use clap::ValueEnum;
use graceperiod::DropQueue;

use crate::attributes::{Attributes, InodeId};
use crate::counter::Counter;
use crate::handle::{Inode, Lookup, NewInode};
use crate::inode::{Body, Phase, State};
use crate::iunique::IUnique;
use crate::lru::Lru;
use crate::store::{Pin, Store};
use crate::superblock::Superblock;

/// How a cache is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// About how many inodes will live in it.
    pub(crate) objects: usize,
    /// The device number of the inodes that `create` makes.
    pub(crate) device: u64,
    /// The first number that `create` proposes.
    pub(crate) first_number: u32,
    /// Whether freeing a deleted inode writes a log record under the superblock's lock.
    pub(crate) journaled: bool,
    /// Who frees deleted inodes.
    pub(crate) drop: DropMode,
}

/// Who frees a deleted inode, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DropMode {
    /// The last user, at once
    Serial,
    /// A worker, in batches
    Deferred,
}

/// What is in a cache; all zero after `umount`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Counters {
    /// Inodes in the cache.
    pub(crate) nr_inodes: i64,
    /// Those of them that nobody uses.
    pub(crate) nr_unused: i64,
    /// Entries of the hash table, as the store counts them.
    pub(crate) hashed: usize,
    /// Objects that wait for a grace period or for their deferred drop.
    pub(crate) waiting: u64,
}

pub(crate) struct Cache<S: Store> {
    core: Arc<Core<S>>,
    /// Where deleted inodes wait to be freed, unless their last users do it.
    deferred: Option<DropQueue<S::Pin>>,
}

impl<S: Store> Cache<S> {
    pub(crate) fn new(config: Config) -> Self {
        let core = Arc::new(Core::new(config));
        let deferred = (config.drop == DropMode::Deferred).then(|| {
            let core = core.clone();
            DropQueue::builder()
                .name("iput")
                // What the handler leaves in the batch is dropped after it, with no lock held.
                .handler(move |batch| core.reap(batch.as_slice()))
                .build()
                .expect("the default sizes fit each other")
        });
        Cache { core, deferred }
    }

    /// Returns the inode with this id, which the caller then uses; if it is not cached, a new one that the caller has to
    /// fill, while everybody else who asks for it waits.
    pub(crate) fn iget(&self, id: InodeId) -> Lookup<'_, S> {
        loop {
            let pin = match self.core.store.get(id) {
                Some(pin) => pin,
                None => match self.core.insert(Body::unread(id), Phase::New) {
                    Ok(pin) => return Lookup::New(NewInode::new(self, pin)),
                    // Somebody was faster; our own inode is gone already.
                    Err(existing) => existing,
                },
            };
            if self.core.start_use(&pin) {
                return Lookup::Cached(Inode::new(self, pin));
            }
            // It went between the look-up and the lock. It is out of the table, so this ends.
        }
    }

    /// Returns the inode with this id if it is cached.
    pub(crate) fn ilookup(&self, id: InodeId) -> Option<Inode<'_, S>> {
        let pin = self.core.store.get(id)?;
        self.core.start_use(&pin).then(|| Inode::new(self, pin))
    }

    /// Makes a file under a number that no other inode has.
    pub(crate) fn create(&self, attributes: Attributes) -> Inode<'_, S> {
        loop {
            let id = InodeId {
                device: self.core.device,
                number: self.core.unique.propose().into(),
            };
            // The insert is check and reservation in one.
            let body = Body::complete(id, attributes.clone());
            if let Ok(pin) = self.core.insert(body, Phase::Live) {
                return Inode::new(self, pin);
            }
        }
    }

    /// Looks at `n` inodes of the LRU and evicts those that have no user and were not used since the last look.
    pub(crate) fn shrink(&self, n: usize) -> usize {
        self.core.shrink(n)
    }

    /// Evicts one inode if nobody uses it.
    pub(crate) fn evict(&self, id: InodeId) -> bool {
        let Some(pin) = self.core.store.get(id) else {
            return false;
        };
        self.core.evict_unused(&pin)
    }

    /// Waits until what this thread put off is done.
    pub(crate) fn flush(&self) {
        if let Some(queue) = &self.deferred {
            queue.flush();
        }
    }

    /// How many objects wait for readers or for their deferred drop.
    pub(crate) fn waiting(&self) -> u64 {
        let queued = self
            .deferred
            .as_ref()
            .map_or(0, |queue| queue.stats().waiting);
        queued + self.core.store.waiting()
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters {
            nr_inodes: self.core.nr_inodes.sum(),
            nr_unused: self.core.nr_unused.sum(),
            hashed: self.core.store.len(),
            waiting: self.waiting(),
        }
    }

    /// Waits until nothing waits any more, and says what is wrong with the counters of a cache in which no inode
    /// is in use, and that holds `inodes` of them, if that is known.
    pub(crate) fn check_idle(&self, inodes: Option<i64>) -> Result<(), String> {
        self.settle();
        let counters = self.counters();
        let nr_inodes = inodes.unwrap_or(counters.nr_inodes);
        let expected = Counters {
            nr_inodes,
            nr_unused: nr_inodes,
            hashed: usize::try_from(nr_inodes).map_err(|_| format!("{counters:?}"))?,
            waiting: 0,
        };
        if counters == expected {
            Ok(())
        } else {
            Err(format!("an idle cache has {counters:?}, not {expected:?}"))
        }
    }

    /// Empties the cache. Fails if an inode is still in use or any counter does not come down to zero.
    pub(crate) fn umount(self) -> Result<Counters, String> {
        self.settle();
        let busy = self.core.empty();
        self.settle();
        let left = self.counters();
        match (busy, left == Counters::default()) {
            (0, true) => Ok(left),
            (0, false) => Err(format!("counters left after umount: {left:?}")),
            (busy, _) => Err(format!("{busy} inodes busy after umount: {left:?}")),
        }
    }

    fn settle(&self) {
        if let Some(queue) = &self.deferred {
            queue.barrier();
        }
        self.core.store.settle();
    }

    /// Ends one use of an inode.
    pub(crate) fn iput(&self, pin: S::Pin) {
        let Err(pin) = self.core.end_use(pin) else {
            return;
        };
        match &self.deferred {
            Some(queue) => queue
                .push(pin)
                .expect("nobody stops the queue while the cache is there"),
            None => self.core.reap(slice::from_ref(&pin)),
        }
    }

    /// Completes a new inode and wakes those who wait for it.
    pub(crate) fn unlock_new(&self, pin: &S::Pin, attributes: Attributes) {
        pin.body().fill(attributes);
        let head = pin.head();
        head.advance(&mut head.lock(), Phase::Live);
    }

    /// Throws a new inode away, since it could not be read; those who wait for it look again.
    pub(crate) fn fail_new(&self, pin: &S::Pin) {
        self.core.evict_locked(pin, pin.head().lock());
    }
}

/// What the queue works on, too.
struct Core<S: Store> {
    store: S,
    lru: Lru<S::Tag>,
    unique: IUnique,
    superblock: Superblock,
    device: u64,
    nr_inodes: Counter,
    nr_unused: Counter,
}

impl<S: Store> Core<S> {
    fn new(config: Config) -> Self {
        let superblock = if config.journaled {
            Superblock::journaled()
        } else {
            Superblock::in_memory()
        };
        Core {
            store: S::with_capacity(config.objects),
            lru: Lru::new(),
            unique: IUnique::starting_at(config.first_number),
            superblock,
            device: config.device,
            nr_inodes: Counter::default(),
            nr_unused: Counter::default(),
        }
    }

    fn insert(&self, body: Body, phase: Phase) -> Result<S::Pin, S::Pin> {
        let pin = self.store.insert(body, phase)?;
        self.nr_inodes.add(1);
        Ok(pin)
    }

    /// Makes the caller a user; `false` if the inode has left the cache.
    fn start_use(&self, pin: &S::Pin) -> bool {
        let mut state = pin.head().lock();
        if state.phase == Phase::Gone {
            return false;
        }
        if state.users == 0 {
            self.nr_unused.add(-1);
        }
        state.users += 1;
        if state.phase == Phase::New {
            state = pin.head().wait_while_new(state);
        }
        state.phase == Phase::Live
    }

    /// Ends a use, unless it is the last one of a deleted inode: then the use comes back, to be ended by `reap`.
    fn end_use(&self, pin: S::Pin) -> Result<(), S::Pin> {
        let mut state = pin.head().lock();
        if state.users == 1 && pin.body().links() == 0 {
            drop(state);
            return Err(pin);
        }
        state.users -= 1;
        if state.users == 0 {
            self.nr_unused.add(1);
            state.referenced = true;
            if !state.listed {
                state.listed = true;
                self.lru.push(S::tag(&pin));
            }
        }
        Ok(())
    }

    /// Ends one use of each of these deleted inodes, and frees those that nobody has picked up meanwhile.
    /// Takes the superblock's lock once.
    fn reap(&self, pins: &[S::Pin]) {
        let mut transaction = self.superblock.begin();
        for pin in pins {
            let mut state = pin.head().lock();
            state.users -= 1;
            if state.users == 0 {
                transaction.free(pin.body().id());
                self.evict_locked(pin, state);
            }
        }
        transaction.commit();
        self.sweep_lru();
    }

    fn shrink(&self, n: usize) -> usize {
        let mut evicted = 0;
        for tag in self.lru.take(n) {
            let Some(pin) = self.store.by_tag(tag) else {
                continue;
            };
            let mut state = pin.head().lock();
            if state.users > 0 || !state.listed {
                // Its last user lists it again.
                state.listed = false;
            } else if state.referenced {
                state.referenced = false;
                drop(state);
                self.lru.push(tag);
            } else {
                state.listed = false;
                self.nr_unused.add(-1);
                self.evict_locked(&pin, state);
                evicted += 1;
            }
        }
        evicted
    }

    fn evict_unused(&self, pin: &S::Pin) -> bool {
        let state = pin.head().lock();
        let unused = state.users == 0 && state.phase == Phase::Live;
        if unused {
            self.nr_unused.add(-1);
            self.evict_locked(pin, state);
            self.sweep_lru();
        }
        unused
    }

    /// Takes an inode out of the cache. It is unhashed under its lock, so whoever finds it gone
    /// and looks again does not find it again.
    fn evict_locked(&self, pin: &S::Pin, mut state: MutexGuard<'_, State>) {
        self.store.remove(pin);
        self.nr_inodes.add(-1);
        if std::mem::take(&mut state.listed) {
            self.lru.note_stale();
        }
        pin.head().advance(&mut state, Phase::Gone);
    }

    /// Drops the LRU's dead entries once they are the majority.
    fn sweep_lru(&self) {
        self.lru.sweep_if_due(|&tag| {
            self.store
                .by_tag(tag)
                .is_some_and(|pin| pin.head().lock().listed)
        });
    }

    /// Evicts everything; returns how many inodes were in use all the same.
    fn empty(&self) -> usize {
        let mut busy = 0;
        for pin in self.store.drain() {
            let mut state = pin.head().lock();
            if state.users > 0 {
                busy += 1;
                continue;
            }
            self.nr_inodes.add(-1);
            self.nr_unused.add(-1);
            pin.head().advance(&mut state, Phase::Gone);
        }
        busy
    }
}
