//! Which ids a slab's slots have, and those that are given out on request only.
//!
//! # Protocol
//!
//! Ids begin where the builder says, below the tag bits. Reserved ones are the first slots of page 0, which has nothing
//! else, is built when the first of them is asked for, and stays. The way of its slots back from a life is another one
//! than that of plain ones: their page names no thread's cache, so that giving back a plain slot needn't ask what it is.
//!
//! # Orderings
//!
//! - O55: the reserved page built (Release) -> a later request (Acquire): that its slots are in the depot.

use std::ptr::NonNull;

use crate::reclaim::ReadSection;
use crate::sync::{Arc, AtomicU8, Relaxed, edge};
use crate::thread::{NoReclaim, Snooze, frame};
use crate::tuning::{ID_ROOM, TAG_BITS_MAX};

use super::Slab;
use super::candidate::Candidate;
use super::chain::Chain;
use super::core::Core;
use super::error::{InsertError, ReserveError};
use super::generations::Generations;
use super::handle::{Ref, Vacant};
use super::key::Key;
use super::kind::Kind;
use super::page::Page;
use super::policy::{Part, Policy};
use super::slot::{Slot, SlotPtr};
use super::state::{LAST_GENERATION, before_reuse};

/// What the builder has chosen.
#[derive(Clone, Debug, Default)]
pub(super) struct IdChoice {
    pub(super) first_index: u64,
    pub(super) tag_bits: u32,
    pub(super) tag: u64,
    pub(super) reserved: usize,
    pub(super) generation_base: u64,
    pub(super) generations: Option<Generations>,
}

/// Which ids a slab's slots have.
#[derive(Debug)]
pub(super) struct Ids {
    /// Index of the first slot, with the tag.
    first: u64,
    /// How many ids from there are given out on request only.
    pub(super) reserved: usize,
    /// Whether their page is built.
    page: AtomicU8,
}

const NONE: u8 = 0;
const BUILDING: u8 = 1;
const BUILT: u8 = 2;

impl IdChoice {
    /// Looks whether the choice can be had.
    pub(super) fn check(&self, page_slots: usize, max_objects: usize) -> Ids {
        assert!(
            self.tag_bits <= TAG_BITS_MAX,
            "graceperiod: a key has room for at most {TAG_BITS_MAX} tag bits",
        );
        let room = u64::MAX >> self.tag_bits;
        assert!(
            self.tag_bits == 0 && self.tag == 0
                || self.tag_bits > 0 && self.tag >> self.tag_bits == 0,
            "graceperiod: the tag doesn't fit its {} bits",
            self.tag_bits,
        );
        assert!(
            self.first_index <= room - ID_ROOM,
            "graceperiod: `first_index` leaves no room for ids above it; choose at most {}",
            room - ID_ROOM,
        );
        assert!(
            self.generation_base < LAST_GENERATION,
            "graceperiod: `generation_base` leaves no generation above it; choose less than {LAST_GENERATION}",
        );
        let most = page_slots.min(max_objects);
        assert!(
            self.reserved <= most,
            "graceperiod: reserved ids have to fit one page and `max_objects`; reserve at most {most}",
        );
        let tag = if self.tag_bits == 0 {
            0
        } else {
            self.tag << (u64::BITS - self.tag_bits)
        };
        Ids {
            first: tag | self.first_index,
            reserved: self.reserved,
            page: AtomicU8::new(NONE),
        }
    }
}

impl Ids {
    /// Index of the first slot.
    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    /// Place of a reserved id in its page.
    pub(super) fn reserved_at(&self, index: u64) -> Option<usize> {
        let local = usize::try_from(self.local(index)).ok()?;
        (local < self.reserved).then_some(local)
    }

    /// Whether the caller is to build the page of reserved ids.
    fn claim_page(&self) -> bool {
        // Relaxed: nothing is read but what this thread makes itself, or under locks.
        let claimed = self.page.compare_exchange(NONE, BUILDING, Relaxed, Relaxed);
        claimed.is_ok()
    }

    /// Whether the page of reserved ids is built.
    fn has_page(&self) -> bool {
        // Acquire: pairs with the Release in finish_page (O55).
        self.page.load(edge!(O55, Acquire)) == BUILT
    }

    /// Ends the building of the page.
    fn finish_page(&self, is_built: bool) {
        let now = if is_built { BUILT } else { NONE };
        // Release: pairs with the Acquire in has_page (O55).
        self.page.store(now, edge!(O55, Release));
    }

    /// Settles, in the child of a fork, whether the page is built; returns how many slots are claimed for one that isn't.
    pub(super) fn settle_page(&self, is_there: bool) -> usize {
        let now = if is_there { BUILT } else { NONE };
        // Relaxed: there is one thread.
        self.page.store(now, Relaxed);
        if is_there { 0 } else { self.reserved }
    }

    /// An index as if the first slot's were 0; out of every slab's range if it is below that, or has another tag.
    #[inline]
    pub(super) const fn local(&self, index: u64) -> u64 {
        index.wrapping_sub(self.first)
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Core<S, V, P, D> {
    /// Takes the slot of a reserved id; the caller owns it.
    fn reserve_at(self: &Arc<Self>, index: u64) -> Result<SlotPtr<S, V, P, D>, ReserveError> {
        let place = self.ids.reserved_at(index);
        let place = place.ok_or(ReserveError::NotReserved { index })?;
        self.refuse_inside_constructor();
        self.build_reserved(index)?;
        let slot = {
            // Under it the page can't leave; it does if all of its slots have had their last life.
            let mut depot = self.depot.lock();
            // Acquire: pairs with the Release in Directory::publish (O43).
            let line = self
                .directory
                .line(0)
                .map(|line| line.load(edge!(O43, Acquire)));
            let page = line.and_then(NonNull::new);
            // SAFETY: the page can't leave under the lock.
            let slot = page.and_then(|page| unsafe { Page::built_slot(page, place) });
            slot.filter(|&slot| depot.take_reserved(slot))
        };
        let slot = slot.ok_or(ReserveError::Taken { index })?;
        // The new owner's own fence, as in reserve.
        before_reuse();
        // SAFETY: this thread owns the slot, which was poisoned when it was set aside or built.
        unsafe { self.check_poison(slot) };
        Ok(slot)
    }

    /// Builds the page of reserved ids, unless that was done.
    fn build_reserved(self: &Arc<Self>, index: u64) -> Result<(), ReserveError> {
        let mut snooze = Snooze::new();
        while !self.ids.claim_page() {
            if self.ids.has_page() {
                return Ok(());
            }
            snooze.wait();
        }
        // What the constructor drops may ask, too: not before the page is there, or another thread may try.
        frame::shelter(|| {
            let built = self.add_reserved_page(index);
            self.ids.finish_page(built.is_ok());
            built
        })
    }

    fn add_reserved_page(self: &Arc<Self>, index: u64) -> Result<(), ReserveError> {
        let (slots, bytes) = (self.ids.reserved, Page::<S, V, P, D>::BYTES);
        let floor = self.directory.open_withheld(0);
        let floor = floor.map_err(|_| ReserveError::OutOfMemory { bytes })?;
        if floor >= LAST_GENERATION {
            return Err(ReserveError::Taken { index });
        }
        // Their capacity is claimed already.
        let paid = self.growth.pay(slots, bytes);
        if paid < slots {
            if paid > 0 {
                self.growth.refund(paid, bytes);
            }
            return Err(ReserveError::OverBudget);
        }
        let built = self.add_page(0, slots, floor, Kind::Reserved { floor });
        if built.is_err() {
            self.growth.refund(slots, bytes);
        }
        if let Err(chain) = self.depot.set_aside(built?) {
            Self::bring_home(chain);
        }
        Ok(())
    }

    /// Adds a clean slot of a page that isn't plain to the free ones.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the slot, which holds no value, and gives it up if the answer is true.
    pub(super) unsafe fn give_back_special(&self, slot: SlotPtr<S, V, P, D>) -> bool {
        // SAFETY: (1): an owned slot keeps its page.
        if !unsafe { raise(slot) } {
            return false;
        }
        // SAFETY: (1).
        unsafe { self.poison(slot) };
        // SAFETY: as above.
        let exhausted = unsafe { Slot::state(slot) }.is_exhausted();
        let mut chain = Chain::EMPTY;
        // SAFETY: (1).
        unsafe { chain.push(slot) };
        let refused = if exhausted {
            self.depot.park(chain)
        } else {
            self.depot.set_aside(chain)
        };
        if let Err(chain) = refused {
            Self::bring_home(chain);
        }
        true
    }

    /// As [`give_back_special`](Self::give_back_special), for a dead slot whose value waits for a grace period: the domain
    /// waits for it, since a magazine's slots are anybody's afterwards.
    ///
    /// # Safety
    ///
    /// 1. The caller took the count to 0, and gives the slot up if the answer is true.
    pub(super) unsafe fn bury_special(self: &Arc<Self>, slot: SlotPtr<S, V, P, D>) -> bool {
        // SAFETY: (1): an owned slot keeps its page.
        if !unsafe { raise(slot) } {
            return false;
        }
        self.count(self.find_cache(), |c| &c.settled, |c| &c.settled, 1);
        // This may be anybody's `Drop`: nobody else's destructors here, and no waiting.
        let _quiet = NoReclaim::begin();
        let bytes = size_of::<Slot<S, V, P, D>>();
        // SAFETY: (1): no reader that enters from now on can find the incarnation; `drop_reserved` takes the slot over.
        unsafe { D::retire_raw(&self.inner, slot.cast(), Self::drop_reserved, bytes) };
        true
    }

    unsafe fn drop_reserved(slot: NonNull<()>) {
        let slot = slot.cast();
        // SAFETY: from `bury_special`: the slot hasn't been given up.
        let core = unsafe { Page::<S, V, P, D>::hold_core(slot) };
        frame::within(D::id(&core.inner), || {
            // SAFETY: dead, and the readers that saw it alive have gone.
            unsafe { Self::clean(slot) };
            // SAFETY: clean now.
            let given = unsafe { core.give_back_special(slot) };
            debug_assert!(given, "a reserved slot");
        });
    }
}

/// Raises a free slot's generation above its page's floor, if it had a restored key; true if it has a reserved id.
///
/// # Safety
///
/// 1. The caller owns the slot.
unsafe fn raise<S: Part, V: Part, P: Policy<D>, D: ReadSection>(slot: SlotPtr<S, V, P, D>) -> bool {
    // SAFETY: (1): an owned slot keeps its page.
    let kind = unsafe { Page::kind(slot) };
    // SAFETY: as above.
    let state = unsafe { Slot::state(slot) };
    let next = state.own().generation().max(kind.floor() + 1);
    state.skip_to(next.min(LAST_GENERATION));
    matches!(kind, Kind::Reserved { .. })
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Slab<S, V, P, D> {
    /// Reserves the slot of one of the [reserved ids](super::SlabBuilder::reserve_ids).
    ///
    /// May build their page, which runs the constructor, or wait for a thread that does.
    ///
    /// # Errors
    ///
    /// [`ReserveError::NotReserved`] for every other id, [`ReserveError::Taken`] while the id has an owner, or waits for
    /// a grace period, and those of building.
    pub fn try_reserve_at(&self, index: u64) -> Result<Vacant<S, V, P, D>, ReserveError> {
        let slot = self.core().reserve_at(index)?;
        // SAFETY: `reserve_at` gave the slot away, and it is clean.
        Ok(unsafe { Vacant::new(slot) })
    }

    /// Publishes a value under one of the [reserved ids](super::SlabBuilder::reserve_ids), such as a FUSE root's.
    ///
    /// ```
    /// use graceperiod::{Immediate, Ref, Slab};
    /// const FUSE_ROOT_ID: u64 = 1;
    /// let inodes: Slab<(), &str, Immediate> =
    ///     Slab::builder().first_index(FUSE_ROOT_ID).reserve_ids(1).build(|_| ());
    /// let root = inodes.insert_at(FUSE_ROOT_ID, "root").expect("nobody has it");
    /// let file = inodes.insert("file");
    /// assert_eq!(Ref::key(&root).index(), FUSE_ROOT_ID);
    /// assert!(Ref::key(&file).index() > FUSE_ROOT_ID);
    /// assert!(inodes.insert_at(FUSE_ROOT_ID, "another").is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_reserve_at`](Self::try_reserve_at), with the value.
    pub fn insert_at(&self, index: u64, value: V) -> Result<Ref<S, V, P, D>, InsertError<V>> {
        match self.try_reserve_at(index) {
            Ok(vacant) => Ok(vacant.publish(value)),
            Err(reason) => Err(InsertError::new(value, reason)),
        }
    }

    /// Returns a reference to the incarnation that an index has at present, for protocols whose requests carry no
    /// generation. Enters a guard itself.
    ///
    /// A late request may meet another object than the one it was made for: where a generation can be had,
    /// [`get`](Self::get) is the better question.
    #[must_use]
    pub fn get_index(&self, index: u64) -> Option<Ref<S, V, P, D>> {
        let guard = self.domain().enter();
        loop {
            // What died in between has been followed by another one, or by none.
            if let Some(found) = self.candidate_index(&guard, index)?.try_get() {
                return Some(found);
            }
        }
    }

    /// Looks at the incarnation that an index has at present. Writes nothing.
    ///
    /// # Panics
    ///
    /// If the guard belongs to another domain.
    #[must_use]
    pub fn candidate_index<'g>(
        &self,
        guard: &'g D::Guard<'_>,
        index: u64,
    ) -> Option<Candidate<'g, S, V, P, D>> {
        let slot = self.locate(guard, index)?;
        // SAFETY: found inside the guard, in the directory, which a page leaves before it is retired.
        unsafe { Candidate::see(slot, guard) }
    }

    /// Whether `key` has this slab's tag, and may thus have come from it.
    #[must_use]
    pub fn has_tag_of(&self, key: Key) -> bool {
        self.core().ids.local(key.index()) < ID_ROOM
    }
}
