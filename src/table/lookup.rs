//! Look-ups, which write nothing to the table.

use std::hash::BuildHasher;

use crate::reclaim::ReadSection;
use crate::tuning::TABLE_RESTARTS;

use super::Table;
use super::index::{CandidateOf, GuardOf, Index, RefOf, StableOf};
use super::namesakes::Namesakes;
use super::object::Member;
use super::walk::{Step, Walk};

/// What one walk came to.
enum Pass<R> {
    Found(R),
    Absent,
    Astray,
}

impl<I: Index, H: BuildHasher> Table<I, H> {
    /// Returns a counted reference to the object with this key. Enters a guard itself.
    ///
    /// A wrong incarnation is never counted, so none is ever given back.
    #[must_use]
    #[inline]
    pub fn get(&self, key: &I::Key) -> Option<RefOf<I>> {
        let guard = self.domain.enter();
        self.search(&guard, key, |member| member.candidate.try_get())
    }

    /// Returns the object with this key without counting it: it was in the table, and alive, inside this guard.
    ///
    /// # Panics
    ///
    /// If the guard belongs to another domain.
    #[must_use]
    #[inline]
    pub fn find<'g>(&self, guard: &'g GuardOf<'_, I>, key: &I::Key) -> Option<CandidateOf<'g, I>> {
        assert!(
            I::Domain::admits(self.slab.inner(), guard),
            "graceperiod: this guard belongs to another domain than the table; enter the domain of its slab",
        );
        self.search(guard, key, |member| Some(member.candidate))
    }

    /// Reads from the stable part of the object with this key, and writes nothing that threads share.
    ///
    /// The closure may be called several times, also for objects that are recycled under its eyes, and must be total and
    /// bounded; see [`Candidate::read`](crate::Candidate::read). What is returned was read within the life of one object
    /// that had the key.
    #[must_use]
    #[inline]
    pub fn peek<R>(&self, key: &I::Key, mut read: impl FnMut(&StableOf<I>) -> R) -> Option<R> {
        let guard = self.domain.enter();
        self.search(&guard, key, |member| member.candidate.read(&mut read))
    }

    /// Whether an object with this key is in the table.
    #[must_use]
    pub fn contains(&self, key: &I::Key) -> bool {
        let guard = self.domain.enter();
        self.search(&guard, key, |_| Some(())).is_some()
    }

    #[inline]
    fn search<'g, R>(
        &self,
        guard: &'g GuardOf<'_, I>,
        key: &I::Key,
        accept: impl FnMut(Member<'g, I>) -> Option<R>,
    ) -> Option<R> {
        self.search_hashed(guard, key, self.hash(key), accept)
    }

    /// Returns what `accept` makes of the member that has the key. If it refuses, since the object has died, the search
    /// begins anew.
    #[inline]
    pub(super) fn search_hashed<'g, R>(
        &self,
        guard: &'g GuardOf<'_, I>,
        key: &I::Key,
        hash: u64,
        mut accept: impl FnMut(Member<'g, I>) -> Option<R>,
    ) -> Option<R> {
        match self.pass(guard, key, hash, &mut accept) {
            Pass::Found(found) => Some(found),
            Pass::Absent => None,
            Pass::Astray => self.search_again(guard, key, hash, accept),
        }
    }

    #[cold]
    fn search_again<'g, R>(
        &self,
        guard: &'g GuardOf<'_, I>,
        key: &I::Key,
        hash: u64,
        mut accept: impl FnMut(Member<'g, I>) -> Option<R>,
    ) -> Option<R> {
        for _ in 1..TABLE_RESTARTS {
            match self.pass(guard, key, hash, &mut accept) {
                Pass::Found(found) => return Some(found),
                Pass::Absent => return None,
                Pass::Astray => {}
            }
        }
        self.search_locked(guard, key, hash, accept)
    }

    /// Lists who might have the key under the bucket's lock, and compares without it.
    fn search_locked<'g, R>(
        &self,
        guard: &'g GuardOf<'_, I>,
        key: &I::Key,
        hash: u64,
        mut accept: impl FnMut(Member<'g, I>) -> Option<R>,
    ) -> Option<R> {
        let head = self.buckets.of(hash);
        let mut namesakes = Namesakes::new();
        loop {
            namesakes.list(self.id, &head.lock(head.end()), hash, guard);
            let is_complete = namesakes.are_complete();
            let found = namesakes.find(key, &mut accept);
            // A complete list is one moment: who isn't in it was not in the table then.
            if found.is_some() || is_complete {
                return found;
            }
        }
    }

    /// Walks the chain of the hash once.
    #[inline]
    fn pass<'g, R>(
        &self,
        guard: &'g GuardOf<'_, I>,
        key: &I::Key,
        hash: u64,
        accept: &mut impl FnMut(Member<'g, I>) -> Option<R>,
    ) -> Pass<R> {
        let head = self.buckets.of(hash);
        // At least Acquire: pairs with the Release in Locked::link and Locked::drop (O60); makes the first node visible.
        let first = I::Domain::protect_load(guard, head.word());
        // SAFETY: just loaded, and the guard outlives what is found.
        let mut walk = unsafe { Walk::new(head, first) };
        loop {
            let node = match walk.next_with(hash) {
                Step::Node(node) => node,
                Step::End => return Pass::Absent,
                Step::Astray => return Pass::Astray,
            };
            // SAFETY: found inside the guard, in a chain that began in this table.
            let Some(member) = (unsafe { Member::see(self.id, node, guard) }) else {
                continue;
            };
            if I::matches(&member.candidate, key) {
                // What has been recycled since may have sent the walk anywhere.
                return match member.is_still_in().then(|| accept(member)).flatten() {
                    Some(found) => Pass::Found(found),
                    None => Pass::Astray,
                };
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::tests::{Objects, objects};

    #[test]
    fn under_the_lock_a_key_is_found_as_without_it() {
        let Objects { slab, table } = objects(2);
        for key in 0..40 {
            let vacant = slab.reserve();
            vacant.stable().set(key);
            drop(table.insert_vacant(&key, vacant, key).expect("a new key"));
        }
        let guard = crate::enter();
        for key in 0..80 {
            let hash = table.hash(&key);
            let found =
                table.search_locked(&guard, &key, hash, |member| member.candidate.try_get());
            assert_eq!(found.as_deref(), (key < 40).then_some(&key));
            let refused = table.search_locked(&guard, &key, hash, |_| None::<()>);
            assert_eq!(refused, None);
        }
        drop(guard);
        drop((table, slab));
        // The pages wait in the global domain, where a leak checker can't see them.
        crate::barrier();
    }

    #[test]
    fn what_is_always_refused_is_sought_under_the_lock_and_then_absent() {
        let Objects { slab, table } = objects(1);
        let vacant = slab.reserve();
        vacant.stable().set(7);
        drop(table.insert_vacant(&7, vacant, 7).expect("a new key"));
        let guard = crate::enter();
        let mut asked = 0;
        let found = table.search(&guard, &7, |_| {
            asked += 1;
            None::<()>
        });
        assert_eq!(found, None);
        assert!(asked > crate::tuning::TABLE_RESTARTS, "{asked}");
        drop(guard);
        drop((table, slab));
        // As above.
        crate::barrier();
    }
}
