//! Incarnations that the slab itself owns: by the kept bit, or by a bulk.
//!
//! # Protocol
//!
//! Ownership by the slab is one count of the slot; who removes takes it over by one step on the state word
//! ([`state`](super::state)), so of two removals one gets it. When the user handle goes, the slab gives up all that it
//! owns: nobody could remove it any more.
//!
//! # Orderings
//!
//! - O54: the slab's ownership noted, full fence, load of `closed` | `closed = true`, heavy, walk over all slots
//!   (Dekker): the closing slab sees what a reference that outlives it gives to it, or the giver sees that it has closed,
//!   and takes it back.

use crate::fence::full;
use crate::reclaim::ReadSection;
use crate::sync::{Relaxed, edge};
use crate::tuning::SCAN_CHUNK;

use super::Slab;
use super::candidate::Candidate;
use super::core::Core;
use super::error::InsertError;
use super::handle::Ref;
use super::key::Key;
use super::page::Page;
use super::policy::{Part, Policy};
use super::scan::Cursor;
use super::slot::{Slot, SlotPtr};

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Core<S, V, P, D> {
    /// Notes that the slab owns a count of this slot now, of which the caller has another one; false if it may have closed
    /// without seeing that.
    pub(super) fn may_own(slot: SlotPtr<S, V, P, D>) -> bool {
        // SAFETY: a counted slot keeps its page and the core.
        let core = unsafe { Page::borrow_core(slot) };
        core.note_owning();
        // Dekker with closing (O54).
        edge!(O54, full());
        // Relaxed: the fence orders it after the note.
        !core.closed.load(Relaxed)
    }

    pub(super) fn note_owning(&self) {
        // Relaxed: it is only ever set; the fence, or the handle that is dropped later, orders it before the closing.
        if !self.owning.load(Relaxed) {
            // Relaxed: as above.
            self.owning.store(true, Relaxed);
        }
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Ref<S, V, P, D> {
    /// Gives this reference to the slab: the incarnation lives until its key is [removed](Slab::remove), or the slab is
    /// dropped.
    ///
    /// The slab owns an incarnation once. If it does already, or if it has been dropped, this only drops the reference.
    ///
    /// ```
    /// use graceperiod::{Ref, Slab};
    /// let slab: Slab<(), String> = Slab::new(|_| ());
    /// let key = Ref::keep(slab.insert("kept".to_owned()));
    /// assert_eq!(slab.get(key).as_deref().map(String::as_str), Some("kept"));
    /// let removed = slab.remove(key).expect("kept");
    /// assert!(slab.remove(key).is_none());
    /// // As long as anybody has it, it is found.
    /// assert!(slab.get(key).is_some());
    /// drop(removed);
    /// assert!(slab.get(key).is_none());
    /// ```
    pub fn keep(this: Self) -> Key {
        let key = Self::key(&this);
        // A second reference stays behind, for the look at the slab.
        let given = this.clone();
        // SAFETY: a counted slot keeps its page.
        if !unsafe { Slot::state(this.slot()) }.keep() {
            return key;
        }
        let _ = given.into_slot();
        if !Core::may_own(this.slot()) {
            drop(this.take_kept());
        }
        key
    }

    /// Whether the slab owns the incarnation, at this moment.
    fn is_kept(&self) -> bool {
        // SAFETY: a counted slot keeps its page.
        unsafe { Slot::state(self.slot()) }.own().is_kept()
    }

    fn take_kept(&self) -> Option<Self> {
        // SAFETY: a counted slot keeps its page.
        let state = unsafe { Slot::state(self.slot()) };
        let taken = state.remove(state.own().generation());
        // SAFETY: the slab's count is this call's.
        taken.then(|| unsafe { Self::from_slot(self.slot()) })
    }

    /// Takes over all that the slab owns of this incarnation, as one reference.
    fn take_owned(&self) -> Option<Self> {
        let retained = self.take_retained();
        retained
            .or_else(|| self.take_kept())
            .inspect(|_| drop(self.take_kept()))
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Slab<S, V, P, D> {
    /// Publishes a value that the slab owns, as [`insert`](Self::insert) and [`Ref::keep`] would, in one step.
    ///
    /// # Panics
    ///
    /// As [`reserve`](Self::reserve).
    pub fn insert_kept(&self, value: V) -> Key {
        self.core().note_owning();
        self.reserve().publish_kept(value)
    }

    /// Publishes a value that the slab owns, if there is a slot.
    ///
    /// # Errors
    ///
    /// As [`try_reserve`](Self::try_reserve), with the value.
    pub fn try_insert_kept(&self, value: V) -> Result<Key, InsertError<V>> {
        self.core().note_owning();
        match self.try_reserve() {
            Ok(vacant) => Ok(vacant.publish_kept(value)),
            Err(reason) => Err(InsertError::new(value, reason)),
        }
    }

    /// Takes over the reference that the slab has of the incarnation that `key` names.
    ///
    /// Of several callers one gets it. The key goes on naming the incarnation until its last reference goes.
    #[must_use = "dropping the reference may end the incarnation"]
    pub fn remove(&self, key: Key) -> Option<Ref<S, V, P, D>> {
        let guard = self.domain().enter();
        self.candidate(&guard, key)?.remove()
    }

    /// Takes everything over that the slab owns, one incarnation after the other, kept or retained.
    ///
    /// Each is handed out once, also to several callers at the same time; what the slab comes to own meanwhile may be
    /// missed. No guard is held between two of them. Each object that lives is counted for a moment on the way, so this may
    /// be what drops it. Ids go on where they were: no key of before matches afterwards.
    pub fn drain(&self) -> impl Iterator<Item = Ref<S, V, P, D>> {
        let mut cursor = Cursor::new();
        std::iter::from_fn(move || {
            loop {
                if let Some(owned) = self.next_alive(&mut cursor)?.take_owned() {
                    return Some(owned);
                }
            }
        })
    }

    /// Drops all references that the slab owns, kept or retained; returns the number of incarnations.
    ///
    /// As [`drain`](Self::drain).
    pub fn clear(&self) -> usize {
        self.drain().count()
    }

    /// Removes and drops what the slab keeps and `is_unwanted` says so of; returns how many.
    ///
    /// No guard is held while the closure runs. What is retained in bulk stays.
    pub fn remove_where(&self, mut is_unwanted: impl FnMut(&Ref<S, V, P, D>) -> bool) -> usize {
        let mut cursor = Cursor::new();
        let mut removed = 0;
        while let Some(found) = self.next_alive(&mut cursor) {
            if found.is_kept() && is_unwanted(&found) && found.take_kept().is_some() {
                removed += 1;
            }
        }
        removed
    }

    /// The next incarnation of a lap, counted, so that no guard is held when it goes.
    fn next_alive(&self, cursor: &mut Cursor) -> Option<Ref<S, V, P, D>> {
        while cursor.laps() == 0 {
            let guard = self.domain().enter();
            let mut chunk = self.scan(&guard, cursor, SCAN_CHUNK);
            if let Some(found) = chunk.find_map(|candidate| candidate.try_get()) {
                return Some(found);
            }
        }
        None
    }

    /// Gives up what the slab owns, since its user handle goes. It has closed already.
    pub(super) fn disown(&self) {
        // Relaxed: the closing's heavy fence came before it (O54).
        if self.core().owning.load(Relaxed) {
            self.clear();
        }
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Candidate<'_, S, V, P, D> {
    /// As [`Slab::remove`], for this incarnation.
    #[must_use = "dropping the reference may end the incarnation"]
    pub fn remove(&self) -> Option<Ref<S, V, P, D>> {
        // SAFETY: the guard keeps the page.
        let state = unsafe { Slot::state(self.slot()) };
        let taken = state.remove(self.generation());
        // SAFETY: the slab's count is this call's.
        taken.then(|| unsafe { Ref::from_slot(self.slot()) })
    }
}
