//! A bound that several slabs share.
//!
//! # Protocol
//!
//! A page is paid for before it is built, under one lock, and its price comes back when it is retired or can't be built.
//! So the bound is never passed, whoever builds at the same time. A slab that finds it used up asks the others for pages
//! that hold nothing, and tries again.

use std::fmt;

use crate::sync::{Arc, Mutex, MutexGuard, Weak};
use crate::thread::{Forkable, Held, register};

/// A bound on the memory of several slabs together, in slots or bytes: [`SlabBuilder::budget`](super::SlabBuilder::budget).
///
/// It counts slots that are built and the pages that they are in, whether they are in use or not. A reservation that finds
/// it used up pays: that thread takes back all magazines of its own slab, then has the other slabs give up pages that hold
/// nothing, and then fails. A page that was given up and waits for its readers is no longer the slab's but its domain's,
/// whose own limits hold; a domain that is at its limit is asked for no more.
///
/// ```
/// use graceperiod::{Budget, ReserveError, Slab};
///
/// let budget = Budget::objects(3);
/// let files: Slab<(), String> = Slab::builder().budget(&budget).build(|_| ());
/// let directories: Slab<(), u32> = Slab::builder().budget(&budget).build(|_| ());
/// let file = files.insert("a".to_owned());
/// assert_eq!(budget.used_objects(), 3);
/// assert!(matches!(directories.try_reserve(), Err(ReserveError::OverBudget)));
/// drop(file);
/// assert!(directories.try_reserve().is_ok());
/// ```
#[derive(Clone)]
pub struct Budget {
    shared: Arc<Shared>,
}

struct Shared {
    max_objects: usize,
    max_bytes: usize,
    ledger: Mutex<Ledger>,
}

#[derive(Default)]
struct Ledger {
    objects: usize,
    bytes: usize,
    members: Vec<Weak<dyn Member>>,
}

/// A slab that shares a budget.
pub(super) trait Member: Send + Sync {
    /// The slab's identity.
    fn id(&self) -> u64;

    /// Gives up pages that hold nothing; returns their number. Runs nobody's code but what the domain runs to make room.
    fn give_way(&self) -> usize;

    /// Slots and bytes of the pages that it has.
    ///
    /// # Safety
    ///
    /// 1. The process has no other thread.
    unsafe fn has(&self) -> (usize, usize);
}

impl Forkable for Shared {
    fn hold(&self) -> Box<dyn Held + '_> {
        Box::new(HeldBudget(self.ledger.lock()))
    }
}

/// A budget held still for a fork.
struct HeldBudget<'a>(MutexGuard<'a, Ledger>);

impl Held for HeldBudget<'_> {
    fn settle(&mut self, _: bool) {}

    /// What vanished threads had paid for, and not built, is nobody's.
    unsafe fn reset(&mut self) {
        let (mut objects, mut bytes) = (0, 0);
        for member in self.0.members.iter().filter_map(Weak::upgrade) {
            // SAFETY: (1) of the trait.
            let has = unsafe { member.has() };
            (objects, bytes) = (objects + has.0, bytes + has.1);
        }
        (self.0.objects, self.0.bytes) = (objects, bytes);
    }
}

impl Budget {
    /// Bounds the number of slots.
    ///
    /// # Panics
    ///
    /// If `max` is 0.
    #[must_use]
    pub fn objects(max: usize) -> Self {
        Self::both(max, usize::MAX)
    }

    /// Bounds the bytes of pages. A page has 64 KiB, or what eight slots need.
    ///
    /// # Panics
    ///
    /// If `max` is 0.
    #[must_use]
    pub fn bytes(max: usize) -> Self {
        Self::both(usize::MAX, max)
    }

    /// Bounds the number of slots and the bytes of pages.
    ///
    /// # Panics
    ///
    /// If one of them is 0.
    #[must_use]
    pub fn both(max_objects: usize, max_bytes: usize) -> Self {
        assert!(
            max_objects > 0 && max_bytes > 0,
            "graceperiod: slabs with a budget of 0 could hold nothing; ask for at least 1",
        );
        let shared = Shared {
            max_objects,
            max_bytes,
            ledger: Mutex::default(),
        };
        let shared = Arc::new(shared);
        let forkable: Weak<dyn Forkable> = Arc::<Shared>::downgrade(&shared);
        register(forkable);
        Self { shared }
    }

    /// Returns the number of slots that are built.
    #[must_use]
    pub fn used_objects(&self) -> usize {
        self.shared.ledger.lock().objects
    }

    /// Returns the bytes of the pages that the slabs have.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.shared.ledger.lock().bytes
    }

    /// Adds a slab.
    pub(super) fn join(&self, member: Weak<dyn Member>) {
        let mut ledger = self.shared.ledger.lock();
        ledger.members.retain(|member| member.strong_count() > 0);
        ledger.members.push(member);
    }

    /// Pays for a page with at most `wanted` slots; returns how many it may have, perhaps none.
    pub(super) fn claim(&self, wanted: usize, bytes: usize) -> usize {
        let mut ledger = self.shared.ledger.lock();
        let granted = wanted.min(self.room(&ledger, bytes));
        if granted == 0 {
            return 0;
        }
        ledger.objects += granted;
        ledger.bytes += bytes;
        granted
    }

    /// Whether a page of so many bytes could have no slot at all.
    pub(super) fn is_used_up(&self, bytes: usize) -> bool {
        self.room(&self.shared.ledger.lock(), bytes) == 0
    }

    /// Slots that a page may have.
    fn room(&self, ledger: &Ledger, bytes: usize) -> usize {
        if bytes > self.shared.max_bytes - ledger.bytes {
            return 0;
        }
        self.shared.max_objects - ledger.objects
    }

    /// Takes back what was paid for a page.
    pub(super) fn give_back(&self, slots: usize, bytes: usize) {
        let mut ledger = self.shared.ledger.lock();
        ledger.objects -= slots;
        ledger.bytes -= bytes;
    }

    /// Has the slabs but `own` give up pages that hold nothing; whether any did.
    pub(super) fn ask_others(&self, own: u64) -> bool {
        let mut gave = false;
        let mut asked = 0;
        // One at a time, without the lock: letting go of the last reference to a slab runs its user's code.
        while let Some(member) = self.member(asked) {
            asked += 1;
            if let Some(other) = member.upgrade().filter(|other| other.id() != own) {
                gave |= other.give_way() > 0;
            }
        }
        gave
    }

    fn member(&self, at: usize) -> Option<Weak<dyn Member>> {
        self.shared.ledger.lock().members.get(at).cloned()
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("max_objects", &self.shared.max_objects)
            .field("max_bytes", &self.shared.max_bytes)
            .finish_non_exhaustive()
    }
}
