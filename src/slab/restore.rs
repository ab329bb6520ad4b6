//! Giving objects of an earlier process the keys that they had.
//!
//! A restored key's generation is at or below its page's floor, where no key of this slab is. So that its slot's next
//! life isn't there either, the slots of such a page take the long way back from a life, on which they are raised above
//! the floor.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use crate::reclaim::ReadSection;
use crate::thread::frame;

use super::Slab;
use super::error::{InsertError, ReserveError};
use super::handle::{Ref, Vacant};
use super::key::Key;
use super::kind::Kind;
use super::page::Page;
use super::policy::{Part, Policy};
use super::slot::Slot;
use super::state::{LAST_GENERATION, StateWord};

/// Slots of pages that are being restored, by their place in the page.
type Places<S, V, P, D> = Vec<Option<Vacant<S, V, P, D>>>;

/// Restores objects under the keys that they had in an earlier slab; from [`Slab::restore`].
///
/// The pages that it has begun are its own until it is dropped; then their other slots are everybody's.
pub struct Restore<
    'a,
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    slab: &'a Slab<S, V, P, D>,
    pages: BTreeMap<usize, Places<S, V, P, D>>,
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Slab<S, V, P, D> {
    /// Begins to restore objects under the keys that they had in an earlier slab of the same layout: the same types,
    /// `first_index` and tag.
    ///
    /// Best done before anything is inserted, since an id that has a new owner can't be restored. Together with
    /// [`generations`](super::SlabBuilder::generations), a key of the earlier slab then names either the object that was
    /// restored under it, or nothing.
    ///
    /// ```
    /// use graceperiod::{Immediate, Ref, Slab};
    /// let files: Slab<(), &str, Immediate> = Slab::builder().build(|_| ());
    /// let (stays, goes) = (files.insert("stays"), files.insert("goes"));
    /// let handles = (Ref::key(&stays), Ref::key(&goes));
    /// let earlier = files.generations();
    /// // In the next process:
    /// let files: Slab<(), &str, Immediate> = Slab::builder().generations(earlier).build(|_| ());
    /// let stays = files.restore().insert(handles.0, "stays").expect("its id is free");
    /// let another = files.insert("another");
    /// assert_eq!(files.get(handles.0).as_deref(), Some(&"stays"));
    /// assert!(files.get(handles.1).is_none());
    /// # drop((stays, another));
    /// ```
    pub fn restore(&self) -> Restore<'_, S, V, P, D> {
        Restore {
            slab: self,
            pages: BTreeMap::new(),
        }
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Restore<'_, S, V, P, D> {
    /// Publishes a value under a key.
    ///
    /// Takes memory for every page up to the key's, about 24 bytes each, and builds that page.
    ///
    /// # Errors
    ///
    /// [`ReserveError::NotReserved`] if no slab of this layout gives out such a key, [`ReserveError::Taken`] if its id
    /// has, or has had, an owner in this slab, and those of building a page; with the value.
    pub fn insert(&mut self, key: Key, value: V) -> Result<Ref<S, V, P, D>, InsertError<V>> {
        match self.vacant(key) {
            Ok(vacant) => Ok(vacant.publish(value)),
            Err(reason) => Err(InsertError::new(value, reason)),
        }
    }

    /// The slot of a key, with that for its next.
    fn vacant(&mut self, key: Key) -> Result<Vacant<S, V, P, D>, ReserveError> {
        let index = key.index();
        let (taken, none) = (
            ReserveError::Taken { index },
            ReserveError::NotReserved { index },
        );
        let ids = &self.slab.core().ids;
        let local = ids.local(index);
        let place = Page::<S, V, P, D>::locate(local);
        let Some((number, slot)) = place.filter(|_| key.generation() <= LAST_GENERATION) else {
            return Err(none);
        };
        if ids.reserved_at(index).is_some() {
            let vacant = self.slab.try_reserve_at(index)?;
            // SAFETY: an owned slot keeps its page.
            let floor = unsafe { Page::kind(vacant.slot()) }.floor();
            // SAFETY: as above.
            let state = unsafe { Slot::state(vacant.slot()) };
            return if state.own().generation() == floor {
                rewind(state, key);
                Ok(vacant)
            } else {
                // Given back unused.
                Err(taken)
            };
        }
        if slot >= Page::<S, V, P, D>::SLOTS || number == 0 && ids.reserved > 0 {
            return Err(none);
        }
        let places = match self.pages.entry(number) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(begin(self.slab, number, index)?),
        };
        let full = ReserveError::Full {
            max_objects: self.slab.core().growth.max_objects,
        };
        let vacant = places.get_mut(slot).ok_or(full)?.take().ok_or(taken)?;
        // SAFETY: an owned slot keeps its page.
        rewind(unsafe { Slot::state(vacant.slot()) }, key);
        Ok(vacant)
    }
}

/// Lets the next life of a slot that has had none be the key's.
fn rewind(state: &StateWord, key: Key) {
    state.skip_to(key.generation() - 1);
}

/// Builds a page for restored keys.
fn begin<S: Part, V: Part, P: Policy<D>, D: ReadSection>(
    slab: &Slab<S, V, P, D>,
    number: usize,
    index: u64,
) -> Result<Places<S, V, P, D>, ReserveError> {
    let core = slab.core();
    core.refuse_inside_constructor();
    let full = ReserveError::Full {
        max_objects: core.growth.max_objects,
    };
    let no_line = ReserveError::OutOfMemory {
        bytes: Page::<S, V, P, D>::BYTES,
    };
    let floor = core.directory.take_number_at(number).map_err(|_| no_line)?;
    let floor = floor.ok_or(ReserveError::Taken { index })?;
    let bytes = Page::<S, V, P, D>::BYTES;
    // As in grow.
    let built = frame::shelter(|| {
        let building = core.growth.begin();
        let wanted = core.growth.claim(Page::<S, V, P, D>::SLOTS);
        let slots = core.growth.pay(wanted, bytes);
        core.growth.give_back(wanted - slots);
        let built = match (wanted, slots) {
            (0, _) => Err(full),
            (_, 0) => Err(ReserveError::OverBudget),
            (_, _) => core.add_page(number, slots, floor, Kind::Restored { floor }),
        };
        if built.is_err() {
            core.directory.put_number(number, Some(floor));
            core.growth.give_back(slots);
        }
        if built.is_err() && slots > 0 {
            core.growth.refund(slots, bytes);
        }
        drop(building);
        built
    });
    let slots = built?.into_list();
    // SAFETY: the chain owned its slots, which are clean.
    Ok(slots
        .map(|slot| Some(unsafe { Vacant::new(slot) }))
        .collect())
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> fmt::Debug for Restore<'_, S, V, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Restore")
            .field("slab", self.slab)
            .field("pages", &self.pages.len())
            .finish()
    }
}
