//! Walking over all slots, a piece at a time.
//!
//! Slots don't move, so a place is enough to go on from, and an incarnation that lives throughout a lap is met once in
//! it. The walk needs no lock: numbers of pages are given out in ascending order, so the first one that has no line in the
//! directory ends a lap.

use std::ptr::NonNull;

use crate::reclaim::ReadSection;

use super::candidate::Candidate;
use super::page::Page;
use super::policy::{Part, Policy};
use super::{OTHER_GUARD, Slab};

/// A place in a slab's slots, from which a scan goes on: the hand of a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// Index of the next slot, as if the slab's first were 0.
    at: u64,
    laps: u64,
}

impl Cursor {
    /// Begins with the first slot.
    #[must_use]
    pub const fn new() -> Self {
        Self { at: 0, laps: 0 }
    }

    /// Returns how often the end was reached; there a scan stops, and the next one begins anew.
    #[must_use]
    pub const fn laps(self) -> u64 {
        self.laps
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Slab<S, V, P, D> {
    /// Looks at `n` more slots, and goes over those that are alive.
    ///
    /// Ends early at the end of a lap. The cursor moves as the iterator does, so a scan that is broken off goes on
    /// behind the last one that it has shown. An incarnation that lives throughout a lap is shown once in it.
    ///
    /// Between two pieces the guard can be left, so that memory doesn't wait for a long walk:
    ///
    /// ```
    /// use graceperiod::{Cursor, Slab};
    /// let slab: Slab<(), u64> = Slab::new(|_| ());
    /// let held: Vec<_> = (0..1_000).map(|n| slab.insert(n)).collect();
    /// let mut cursor = Cursor::new();
    /// let mut sum = 0;
    /// while cursor.laps() == 0 {
    ///     let guard = graceperiod::enter();
    ///     let piece = slab.scan(&guard, &mut cursor, 64);
    ///     sum += piece.filter_map(|found| found.try_get()).map(|value| *value).sum::<u64>();
    /// }
    /// assert_eq!(sum, 499_500);
    /// # drop(held);
    /// ```
    ///
    /// What it shows can't outlive the guard:
    ///
    /// ```compile_fail,E0505
    /// use graceperiod::{Cursor, Slab};
    /// let slab: Slab<(), u64> = Slab::new(|_| ());
    /// let guard = graceperiod::enter();
    /// let found = slab.scan(&guard, &mut Cursor::new(), 1).next();
    /// drop(guard);
    /// assert!(found.is_none());
    /// ```
    ///
    /// while this compiles:
    ///
    /// ```
    /// use graceperiod::{Cursor, Slab};
    /// let slab: Slab<(), u64> = Slab::new(|_| ());
    /// let guard = graceperiod::enter();
    /// let found = slab.scan(&guard, &mut Cursor::new(), 1).next();
    /// assert!(found.is_none());
    /// drop(guard);
    /// ```
    ///
    /// # Panics
    ///
    /// If the guard belongs to another domain.
    pub fn scan<'g>(
        &self,
        guard: &'g D::Guard<'_>,
        cursor: &mut Cursor,
        n: usize,
    ) -> impl Iterator<Item = Candidate<'g, S, V, P, D>> {
        assert!(D::admits(&self.core().inner, guard), "{OTHER_GUARD}");
        let mut left = n;
        std::iter::from_fn(move || self.step(guard, cursor, &mut left))
    }

    /// Goes over all incarnations that live, inside one guard: what waits for readers waits for all of it.
    ///
    /// # Panics
    ///
    /// If the guard belongs to another domain.
    pub fn iter<'g>(
        &self,
        guard: &'g D::Guard<'_>,
    ) -> impl Iterator<Item = Candidate<'g, S, V, P, D>> {
        assert!(D::admits(&self.core().inner, guard), "{OTHER_GUARD}");
        let (mut cursor, mut left) = (Cursor::new(), usize::MAX);
        std::iter::from_fn(move || self.step(guard, &mut cursor, &mut left))
    }

    fn step<'g>(
        &self,
        guard: &'g D::Guard<'_>,
        cursor: &mut Cursor,
        left: &mut usize,
    ) -> Option<Candidate<'g, S, V, P, D>> {
        let directory = &self.core().directory;
        while *left > 0 {
            *left -= 1;
            let place = Page::<S, V, P, D>::locate(cursor.at);
            let place =
                place.and_then(|(number, slot)| Some((number, directory.line(number)?, slot)));
            let Some((number, line, slot)) = place else {
                *cursor = Cursor {
                    at: 0,
                    laps: cursor.laps + 1,
                };
                *left = 0;
                break;
            };
            // At least Acquire: pairs with the Release in Directory::publish (O43).
            let page = NonNull::new(D::protect_load(guard, line));
            // SAFETY: the guard keeps the page, which leaves the directory before it is retired.
            let slot = page.and_then(|page| unsafe { Page::built_slot(page, slot) });
            let Some(slot) = slot else {
                cursor.at = Page::<S, V, P, D>::index(number + 1, 0);
                continue;
            };
            cursor.at += 1;
            // SAFETY: as above.
            if let Some(found) = unsafe { Candidate::see(slot, guard) } {
                return Some(found);
            }
        }
        None
    }
}
