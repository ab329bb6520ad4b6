//! A page: one aligned mapping with a header, and slots behind it.
//!
//! A page's size is a power of two and its address a multiple of it, so the header is found from any slot's address by
//! masking, and a reference to a slot needs no second word.
//!
//! # Invariants
//!
//! - I1: the header holds a counted reference to the slab's core: whoever keeps a slot from coming home keeps its page,
//!   and the page keeps the core.
//! - I2: the constructor has run for every one of the first `built` slots before the page can be found; those behind them
//!   are never touched.
//! - I3: a page is retired once: by the shrink that finds all of its slots free, or by the return that brings the last
//!   one home after the slab has closed.
//!
//! # Orderings
//!
//! - O47: [`Page::bring_home`] (the Release half) -> the one that brings the last slot home (the Acquire half): whatever
//!   happened to the other slots.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::reclaim::ReadSection;
use crate::sync::{Arc, AtomicUsize, NOBODY, UnsafeCell, edge};
use crate::thread::{NoReclaim, frame};
use crate::tuning::{PAGE_BYTES, PAGE_SLOTS_MAX, PAGE_SLOTS_MIN};

use super::blank::Blank;
use super::core::Core;
use super::error::ReserveError;
use super::kind::Kind;
use super::map;
use super::policy::{Part, Policy};
use super::shrink::Shrink;
use super::slot::{Slot, SlotPtr};

/// Pointer to a page.
pub(super) type PagePtr<S, V, P, D> = NonNull<Page<S, V, P, D>>;

/// What stands at the start of a page.
#[repr(C)]
pub(crate) struct Page<
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    core: NonNull<Core<S, V, P, D>>,
    number: usize,
    /// Under what the slots' way back finds the thread's cache: the slab's identity, or 0 for the long way.
    local_id: u64,
    /// Index of the first slot.
    first_index: u64,
    kind: Kind,
    /// Never written again; a cell only so that loom sees who looks at it too early.
    built: UnsafeCell<usize>,
    /// Slots that have come home after the slab closed.
    returned: AtomicUsize,
    /// Written by a shrink, under the depot's lock.
    shrink: UnsafeCell<Shrink>,
}

/// Where the slots begin.
const fn first(header: usize, align: usize) -> usize {
    header.next_multiple_of(align)
}

const fn page_bytes(first: usize, slot: usize) -> usize {
    let needed = first + slot * PAGE_SLOTS_MIN;
    if needed > PAGE_BYTES {
        needed.next_power_of_two()
    } else {
        PAGE_BYTES
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Page<S, V, P, D> {
    const FIRST: usize = first(size_of::<Self>(), align_of::<Slot<S, V, P, D>>());

    /// Size and alignment of a page.
    pub(super) const BYTES: usize = page_bytes(Self::FIRST, size_of::<Slot<S, V, P, D>>());

    /// Slots of a page.
    pub(super) const SLOTS: usize = {
        let room = (Self::BYTES - Self::FIRST) / size_of::<Slot<S, V, P, D>>();
        if room > PAGE_SLOTS_MAX {
            PAGE_SLOTS_MAX
        } else {
            room
        }
    };

    /// Bits of an index that tell the slot; those above tell the page.
    pub(super) const SLOT_BITS: u32 = usize::BITS - (Self::SLOTS - 1).leading_zeros();

    /// Page number and slot of an index; what is out of range has none.
    #[inline]
    pub(super) fn locate(index: u64) -> Option<(usize, usize)> {
        let number = usize::try_from(index >> Self::SLOT_BITS).ok()?;
        let slot = usize::try_from(index & ((1 << Self::SLOT_BITS) - 1)).ok()?;
        Some((number, slot))
    }

    pub(super) fn index(number: usize, slot: usize) -> u64 {
        (number as u64) << Self::SLOT_BITS | slot as u64
    }

    /// The page of a slot.
    #[inline]
    pub(super) fn of(slot: SlotPtr<S, V, P, D>) -> PagePtr<S, V, P, D> {
        let base = slot
            .as_ptr()
            .cast::<u8>()
            .map_addr(|a| a & !(Self::BYTES - 1));
        // SAFETY: a page begins at a mapped address, which isn't null, and slots lie inside their page.
        unsafe { NonNull::new_unchecked(base) }.cast()
    }

    /// The core of a slot's slab.
    ///
    /// # Safety
    ///
    /// 1. The slot's page isn't unmapped.
    #[inline]
    pub(super) unsafe fn core_of(slot: SlotPtr<S, V, P, D>) -> NonNull<Core<S, V, P, D>> {
        // SAFETY: (1); the header is never written after it was built, but for its cells.
        unsafe { (*Self::of(slot).as_ptr()).core }
    }

    /// The core of a slot's slab, as a reference.
    ///
    /// # Safety
    ///
    /// 1. The slot's page isn't unmapped, and the core isn't dropped, during `'a`.
    #[inline]
    pub(crate) unsafe fn borrow_core<'a>(slot: SlotPtr<S, V, P, D>) -> &'a Core<S, V, P, D> {
        // SAFETY: (1).
        let core = unsafe { Self::core_of(slot) };
        // SAFETY: (1); the page holds a count (I1).
        unsafe { core.as_ref() }
    }

    /// A counted reference to the core of a slot's slab.
    ///
    /// # Safety
    ///
    /// 1. The slot's page isn't unmapped.
    pub(super) unsafe fn hold_core(slot: SlotPtr<S, V, P, D>) -> Arc<Core<S, V, P, D>> {
        // SAFETY: (1).
        let core = unsafe { Self::core_of(slot) }.as_ptr();
        // SAFETY: the pointer came from `Arc::into_raw`, and the page holds a count (I1).
        unsafe { Arc::increment_strong_count(core) };
        // SAFETY: the count that was just added is this reference's.
        unsafe { Arc::from_raw(core) }
    }

    /// The index of a slot.
    ///
    /// # Safety
    ///
    /// 1. The slot's page isn't unmapped.
    pub(super) unsafe fn index_of(slot: SlotPtr<S, V, P, D>) -> u64 {
        let page = Self::of(slot);
        // SAFETY: (1).
        let first = unsafe { (*page.as_ptr()).first_index };
        let offset = slot.addr().get() - page.addr().get() - Self::FIRST;
        first + (offset / size_of::<Slot<S, V, P, D>>()) as u64
    }

    /// Under what a slot's way back finds the thread's cache.
    ///
    /// # Safety
    ///
    /// 1. The slot's page isn't unmapped.
    #[inline]
    pub(super) unsafe fn local_id(slot: SlotPtr<S, V, P, D>) -> u64 {
        // SAFETY: (1); the header is never written after it was built, but for its cells.
        unsafe { (*Self::of(slot).as_ptr()).local_id }
    }

    /// What becomes of a slot when it is free.
    ///
    /// # Safety
    ///
    /// 1. The slot's page isn't unmapped.
    pub(super) unsafe fn kind(slot: SlotPtr<S, V, P, D>) -> Kind {
        // SAFETY: (1); as above.
        unsafe { (*Self::of(slot).as_ptr()).kind }
    }

    /// The slot of a number below [`SLOTS`](Self::SLOTS).
    ///
    /// # Safety
    ///
    /// 1. The page isn't unmapped.
    #[inline]
    unsafe fn slot(page: PagePtr<S, V, P, D>, slot: usize) -> SlotPtr<S, V, P, D> {
        debug_assert!(slot < Self::SLOTS);
        let offset = Self::FIRST + slot * size_of::<Slot<S, V, P, D>>();
        // SAFETY: (1): inside the mapping.
        unsafe { page.byte_add(offset) }.cast()
    }

    /// The slot of a number, if it is built.
    ///
    /// # Safety
    ///
    /// 1. The page isn't unmapped.
    #[inline]
    pub(super) unsafe fn built_slot(
        page: PagePtr<S, V, P, D>,
        slot: usize,
    ) -> Option<SlotPtr<S, V, P, D>> {
        // SAFETY: (1).
        let built = unsafe { Self::built(page) };
        // SAFETY: (1); `built` is at most `SLOTS`.
        (slot < built).then(|| unsafe { Self::slot(page, slot) })
    }

    /// Number of slots.
    ///
    /// # Safety
    ///
    /// 1. The page isn't unmapped.
    #[inline]
    pub(super) unsafe fn built(page: PagePtr<S, V, P, D>) -> usize {
        // SAFETY: (1).
        let cell = unsafe { &(*page.as_ptr()).built };
        // SAFETY: never written again.
        cell.with(|built| unsafe { *built })
    }

    /// Number in the directory.
    ///
    /// # Safety
    ///
    /// 1. The page isn't unmapped.
    pub(super) unsafe fn number(page: PagePtr<S, V, P, D>) -> usize {
        // SAFETY: (1).
        unsafe { (*page.as_ptr()).number }
    }

    /// What a shrink notes here.
    ///
    /// # Safety
    ///
    /// 1. The caller holds the depot's lock or is alone with the page, which isn't unmapped.
    pub(super) unsafe fn shrink(page: PagePtr<S, V, P, D>) -> Shrink {
        // SAFETY: (1).
        let cell = unsafe { &(*page.as_ptr()).shrink };
        // SAFETY: (1): nobody else reaches it.
        cell.with(|shrink| unsafe { *shrink })
    }

    /// Sets what a shrink notes here.
    ///
    /// # Safety
    ///
    /// 1. The caller holds the depot's lock, and the page isn't unmapped.
    pub(super) unsafe fn set_shrink(page: PagePtr<S, V, P, D>, now: Shrink) {
        // SAFETY: (1).
        let cell = unsafe { &(*page.as_ptr()).shrink };
        // SAFETY: (1): nobody else reaches it.
        cell.with_mut(|shrink| unsafe { *shrink = now });
    }

    /// Maps a page and builds its first `slots` slots, each beginning after `generation`. Runs the constructor.
    pub(super) fn build(
        core: &Arc<Core<S, V, P, D>>,
        number: usize,
        slots: usize,
        generation: u64,
        kind: Kind,
    ) -> Result<PagePtr<S, V, P, D>, ReserveError> {
        let out_of_memory = ReserveError::OutOfMemory { bytes: Self::BYTES };
        let page = map::map(Self::BYTES).ok_or(out_of_memory)?.cast::<Self>();
        let mut site = Site {
            page,
            built: 0,
            core,
        };
        let local_id = match kind {
            Kind::Plain => core.id,
            Kind::Reserved { .. } | Kind::Restored { .. } => NOBODY,
        };
        let first_index = core.ids.first() + Self::index(number, 0);
        let filled = catch_unwind(AssertUnwindSafe(|| {
            site.fill(first_index, slots, generation)
        }));
        match filled {
            Err(payload) => return Err(ReserveError::Panicked(payload)),
            Ok(Err(error)) => return Err(ReserveError::Constructor(error)),
            Ok(Ok(())) => {}
        }
        std::mem::forget(site);
        let core = Arc::into_raw(Arc::clone(core)).cast_mut();
        let header = Self {
            // SAFETY: `Arc::into_raw` never returns null.
            core: unsafe { NonNull::new_unchecked(core) },
            number,
            local_id,
            first_index,
            kind,
            built: UnsafeCell::new(slots),
            returned: AtomicUsize::new(0),
            shrink: UnsafeCell::new(Shrink::NONE),
        };
        // SAFETY: mapped, aligned, and nobody else's yet.
        unsafe { page.write(header) };
        Ok(page)
    }

    /// Takes a slot home for good; the last one retires the page.
    ///
    /// Takes no reference to the page or the core, since both may be gone before it returns.
    ///
    /// # Safety
    ///
    /// 1. The slab has closed, and the caller owns the slot, which holds no value, and gives it up.
    pub(super) unsafe fn bring_home(slot: SlotPtr<S, V, P, D>) {
        let page = Self::of(slot);
        // SAFETY: (1): until this slot has come home the page can't be retired.
        let built = unsafe { Self::built(page) };
        // SAFETY: as above, until the addition; nothing is touched after it.
        let returned = unsafe { &(*page.as_ptr()).returned };
        // AcqRel: the Release half of each pairs with the Acquire half of the last (O47).
        let before = returned.fetch_add(1, edge!(O47, AcqRel));
        if before + 1 == built {
            // What happened to the other slots came before (O47).
            // SAFETY: all slots have come home, and only this call saw it, so the page is this thread's (I3).
            let number = unsafe { Self::number(page) };
            // SAFETY: as above.
            let core = unsafe { (*page.as_ptr()).core };
            // SAFETY: the page's own count keeps the core until it is retired.
            unsafe { core.as_ref() }.directory.withdraw(number);
            // SAFETY: no line of the directory and no reference leads to the page any more.
            unsafe { Self::retire(page) };
        }
    }

    /// Hands the page to its domain: readers may still be looking at it.
    ///
    /// # Safety
    ///
    /// 1. No directory and no reference leads to the page, and nobody has retired it.
    pub(super) unsafe fn retire(page: PagePtr<S, V, P, D>) {
        // SAFETY: (1): the page is the caller's.
        let core = unsafe { (*page.as_ptr()).core };
        // A clone, since the core may go with the page before the call returns.
        // SAFETY: the page's count keeps the core (I1).
        let inner = unsafe { core.as_ref() }.inner.clone();
        // SAFETY: (1).
        let built = unsafe { Self::built(page) };
        // From here on it is the domain's that it waits.
        // SAFETY: as above.
        unsafe { core.as_ref() }.growth.refund(built, Self::BYTES);
        // This may be anybody's `Drop`: nobody else's destructors here, and no waiting.
        let _quiet = NoReclaim::begin();
        // SAFETY: (1): no reader that enters from now on can find the page; `destroy` takes what `build` made.
        unsafe { D::retire_raw(&inner, page.cast(), Self::destroy, Self::BYTES) };
    }

    /// Drops the stable parts and unmaps the page.
    unsafe fn destroy(page: NonNull<()>) {
        let page = page.cast::<Self>();
        // SAFETY: the page was retired, and its readers have gone: it is this call's alone.
        let header = unsafe { page.read() };
        // SAFETY: the page's own count, from `build`.
        let core = unsafe { Arc::from_raw(header.core.as_ptr()) };
        let site = Site {
            page,
            // SAFETY: the header is this call's own.
            built: header.built.with(|built| unsafe { *built }),
            core: &core,
        };
        drop(site);
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> fmt::Debug for Page<S, V, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// A page that nobody can find: being built, or on its way out.
struct Site<'a, S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> {
    page: PagePtr<S, V, P, D>,
    /// Slots with a stable part.
    built: usize,
    core: &'a Arc<Core<S, V, P, D>>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Site<'_, S, V, P, D> {
    fn fill(&mut self, first_index: u64, slots: usize, generation: u64) -> Result<(), Failure> {
        for slot in 0..slots {
            let index = first_index + slot as u64;
            let blank = Blank::new(index, &self.core.inner);
            let stable = frame::run(self.core.id, || (self.core.constructor)(&blank))?;
            // SAFETY: the site's page is mapped.
            let slot = unsafe { Page::slot(self.page, slot) };
            // SAFETY: unused memory of a page that nobody can find.
            unsafe { Slot::build(slot, generation, stable) };
            self.built += 1;
        }
        Ok(())
    }
}

impl<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> Drop
    for Site<'_, S, V, P, D>
{
    fn drop(&mut self) {
        frame::run(D::id(&self.core.inner), || {
            for slot in 0..self.built {
                // SAFETY: the site's page is mapped.
                let slot = unsafe { Page::slot(self.page, slot) };
                // SAFETY: built, and nobody can reach it; each is dropped once.
                let drop = || unsafe { Slot::drop_in_place(slot) };
                // A panic of one stable part must not keep the others.
                if let Err(payload) = catch_unwind(AssertUnwindSafe(drop)) {
                    D::report_panic(&self.core.inner, payload);
                }
            }
        });
        // SAFETY: mapped by `build`, and not used any more.
        unsafe { map::unmap(self.page.cast(), Page::<S, V, P, D>::BYTES) };
    }
}
