//! Insertion: a key that is in the table is refused in the same step.
//!
//! The lock is held for a walk that compares hashes. Members with the same hash are compared after it is given back, and
//! the walk is made again: once it meets nobody new, the key isn't there, and the object goes in. Each round more means
//! that somebody else has inserted.

use std::hash::BuildHasher;

use crate::reclaim::ReadSection;
use crate::slab::Ref;

use super::Table;
use super::bucket::Locked;
use super::error::{DuplicateVacant, TableInsertError};
use super::index::{Index, RefOf, VacantOf};
use super::name::checked;
use super::namesakes::Namesakes;
use super::object::node_of;

/// A locked bucket in which nobody has the key.
struct Place<'t> {
    bucket: Locked<'t>,
    hash: u64,
}

impl Place<'_> {
    /// Links an object and gives its count to the table.
    ///
    /// # Safety
    ///
    /// 1. Its node is what `checked` approved, and was claimed for the table after this place was found.
    /// 2. Its slot is one of the table's slab.
    unsafe fn fill<I: Index>(mut self, object: RefOf<I>) {
        let slot = object.into_slot();
        // SAFETY: the count, now the table's, keeps the page.
        let node = unsafe { node_of::<I>(slot) };
        // SAFETY: as above; a real node is there (1).
        unsafe { node.as_ref() }.set_hash(self.hash);
        // SAFETY: the table's count keeps the page until after the unlink; the page is retired in the domain, which then
        // waits for its guards (2). The node was claimed (1).
        unsafe { self.bucket.link(node) };
    }
}

impl<I: Index, H: BuildHasher> Table<I, H> {
    /// Puts an object into the table, which takes over the reference.
    ///
    /// The object's identity must be set. While it is in the table it mustn't change.
    ///
    /// # Errors
    ///
    /// [`Duplicate`](TableInsertError::Duplicate) if a member has the key; else
    /// [`InTable`](TableInsertError::InTable) if the object's node is in a table, this one or another. Both hand the
    /// reference back.
    ///
    /// # Panics
    ///
    /// If the object belongs to another slab than the table.
    pub fn insert(&self, key: &I::Key, object: RefOf<I>) -> Result<(), TableInsertError<I>> {
        self.assert_own(object.slot());
        let node = checked::<I::Node>(Ref::stable(&object));
        let place = match self.place(key) {
            Ok(place) => place,
            Err(existing) => {
                return Err(TableInsertError::Duplicate {
                    existing,
                    rejected: object,
                });
            }
        };
        if !node.claim(self.id) {
            drop(place);
            return Err(TableInsertError::InTable(object));
        }
        // SAFETY: claimed and checked; the slab is the table's.
        unsafe { place.fill::<I>(object) };
        self.members.add();
        Ok(())
    }

    /// Publishes a value in a reserved slot and puts the object into the table, in one step: who is refused has published
    /// nothing, and who finds the key finds the object.
    ///
    /// Returns a reference beside the table's own. The identity must be set, as for [`insert`](Self::insert), or come with
    /// the value.
    ///
    /// # Errors
    ///
    /// [`DuplicateVacant`] if a member has the key. Slot and value are handed back.
    ///
    /// # Panics
    ///
    /// If the slot belongs to another slab than the table.
    pub fn insert_vacant(
        &self,
        key: &I::Key,
        vacant: VacantOf<I>,
        value: I::Value,
    ) -> Result<RefOf<I>, DuplicateVacant<I>> {
        self.assert_own(vacant.slot());
        let node = checked::<I::Node>(vacant.stable());
        let place = match self.place(key) {
            Ok(place) => place,
            Err(existing) => {
                return Err(DuplicateVacant {
                    existing,
                    vacant,
                    value,
                });
            }
        };
        node.claim_vacant(self.id);
        let object = vacant.publish(value);
        let own = object.clone();
        // SAFETY: claimed and checked; the slab is the table's.
        unsafe { place.fill::<I>(own) };
        self.members.add();
        Ok(object)
    }

    /// Finds a place for the key, or who has it.
    fn place(&self, key: &I::Key) -> Result<Place<'_>, RefOf<I>> {
        let hash = self.hash(key);
        let head = self.buckets.of(hash);
        let guard = self.domain.enter();
        let mut namesakes = Namesakes::<I>::new();
        loop {
            let bucket = head.lock(head.end());
            namesakes.list(self.id, &bucket, hash, &guard);
            if namesakes.are_compared() {
                return Ok(Place { bucket, hash });
            }
            drop(bucket);
            if let Some(existing) = namesakes.find(key, |member| member.candidate.try_get()) {
                return Err(existing);
            }
        }
    }
}
