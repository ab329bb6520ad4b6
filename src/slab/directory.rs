//! From a page's number to the page.
//!
//! # Protocol
//!
//! Lines live in segments, each twice as long as the one before; segments are never moved or freed while the slab's
//! memory lasts, so a look-up takes two loads and no lock. A number is taken before its page is built, since the
//! constructor may ask for the index; it is put back if that fails, and when the page leaves.
//!
//! # Invariants
//!
//! - I1: a line names a page only while all of its slots are built and it isn't retired.
//! - I2: a number that has had a page remembers a generation that no slot of that page has passed; the next page under
//!   that number begins there, so the generations of an index never fall.
//! - I3: the list of free numbers has room for every number there is, so putting one back never allocates.
//!
//! # Orderings
//!
//! - O43: [`publish`](Directory::publish) (Release) -> the caller's protected load of [`Directory::line`] (Acquire): the
//!   page's header and its slots.
//! - O44: a new segment (Release compare-exchange) -> [`Directory::line`] (Acquire): its lines.

use std::collections::TryReserveError;
use std::fmt;
use std::ptr::{self, NonNull};

use crate::sync::{AtomicPtr, Mutex, MutexGuard, Relaxed, edge};
use crate::tuning::{DIRECTORY_FIRST, DIRECTORY_SEGMENTS};

use super::generations::Floors;
use super::state::LAST_GENERATION;

/// Maps numbers to pages of type `T`.
pub(super) struct Directory<T> {
    segments: [AtomicPtr<AtomicPtr<T>>; DIRECTORY_SEGMENTS],
    numbers: Mutex<Numbers>,
}

/// The numbers given out.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// Generation that the next page begins with, for every number that was ever given out.
    begin: Vec<u64>,
    free: Vec<usize>,
    /// The same for those that weren't.
    floors: Floors,
}

impl Numbers {
    /// Makes room for all numbers below `len`.
    fn try_reserve(&mut self, len: usize) -> Result<(), TryReserveError> {
        self.begin
            .try_reserve(len.saturating_sub(self.begin.len()))?;
        self.free.try_reserve(len.saturating_sub(self.free.len()))
    }

    /// Adds the next number, which has room.
    fn add(&mut self) -> (usize, u64) {
        let number = self.begin.len();
        let begin = self.floors.of(number);
        self.begin.push(begin);
        (number, begin)
    }
}

/// There is no memory for another line.
#[derive(Debug)]
pub(super) struct NoLine;

impl<T> Directory<T> {
    /// The first `withheld` numbers are never given out.
    pub(super) fn new(floors: Floors, withheld: usize) -> Self {
        let mut numbers = Numbers {
            floors,
            ..Numbers::default()
        };
        for _ in 0..withheld {
            numbers.add();
        }
        Self {
            segments: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            numbers: Mutex::new(numbers),
        }
    }

    /// Takes a free number, and the generation that its slots begin with.
    pub(super) fn take_number(&self) -> Result<(usize, u64), NoLine> {
        let mut numbers = self.numbers.lock();
        if let Some(number) = numbers.free.pop() {
            return Ok((number, numbers.begin[number]));
        }
        loop {
            let number = numbers.begin.len();
            // I3: room for every number including the new one.
            numbers.try_reserve(number + 1).map_err(|_| NoLine)?;
            // The one before may have been withheld so far.
            self.grow(number.saturating_sub(1))?;
            self.grow(number)?;
            let (number, begin) = numbers.add();
            if begin < LAST_GENERATION {
                return Ok((number, begin));
            }
        }
    }

    /// Takes this number, and returns the generation that its slots begin with; `None` if somebody has it, or if it is
    /// never used again.
    pub(super) fn take_number_at(&self, number: usize) -> Result<Option<u64>, NoLine> {
        let mut numbers = self.numbers.lock();
        // I3.
        let len = number.checked_add(1).ok_or(NoLine)?;
        numbers.try_reserve(len).map_err(|_| NoLine)?;
        while numbers.begin.len() < len {
            self.grow(numbers.begin.len().saturating_sub(1))?;
            self.grow(numbers.begin.len())?;
            let (added, begin) = numbers.add();
            if begin < LAST_GENERATION {
                numbers.free.push(added);
            }
        }
        let Some(at) = numbers.free.iter().rposition(|&free| free == number) else {
            return Ok(None);
        };
        // Keeps the order in which the others are given out.
        numbers.free.remove(at);
        Ok(Some(numbers.begin[number]))
    }

    /// The generation that the page of a withheld number begins with, which has a line from now on.
    pub(super) fn open_withheld(&self, number: usize) -> Result<u64, NoLine> {
        let numbers = self.numbers.lock();
        self.grow(number)?;
        Ok(numbers.begin[number])
    }

    /// The generation that the next page begins with, of every number that may ever have had a page, and of those behind.
    pub(super) fn floors(&self) -> (u64, Vec<u64>) {
        let numbers = self.numbers.lock();
        let rest = (numbers.begin.len()..numbers.floors.len()).map(|n| numbers.floors.of(n));
        let all = numbers.begin.iter().copied().chain(rest);
        (numbers.floors.beyond(), all.collect())
    }

    /// Puts a number back; its next page's slots begin with `begin`. `None`: it is never used again.
    pub(super) fn put_number(&self, number: usize, begin: Option<u64>) {
        let mut numbers = self.numbers.lock();
        numbers.begin[number] = begin.unwrap_or(LAST_GENERATION);
        if begin.is_some() {
            numbers.free.push(number);
        }
    }

    /// Keeps everybody from taking and putting back numbers.
    pub(super) fn hold(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock()
    }

    /// All pages that can be found, for the child of a fork.
    pub(super) fn pages(&self) -> impl Iterator<Item = NonNull<T>> {
        let lines = (0..).map_while(|number| self.line(number));
        // Relaxed: the child of a fork has one thread.
        lines.filter_map(|line| NonNull::new(line.load(Relaxed)))
    }

    /// Lets the page be found.
    pub(super) fn publish(&self, number: usize, page: NonNull<T>) {
        let line = self.line(number).expect("the number was given out");
        // Release: pairs with the Acquire of the caller of line (O43).
        line.store(page.as_ptr(), edge!(O43, Release));
    }

    /// Lets the page be found no more. The caller retires it afterwards.
    pub(super) fn withdraw(&self, number: usize) {
        let line = self.line(number).expect("the number was given out");
        // Relaxed: the store orders nothing itself; retiring the page does.
        line.store(ptr::null_mut(), Relaxed);
    }

    /// The line of a number, if it was ever given out: null or a page.
    #[inline]
    pub(super) fn line(&self, number: usize) -> Option<&AtomicPtr<T>> {
        let (segment, offset) = place(number)?;
        // Acquire: pairs with the Release in grow (O44); makes the lines visible.
        let lines = self.segments.get(segment)?.load(edge!(O44, Acquire));
        if lines.is_null() {
            return None;
        }
        // SAFETY: `place` keeps the offset below the segment's length.
        let line = unsafe { lines.add(offset) };
        // SAFETY: segments live as long as the directory, which `&self` borrows.
        Some(unsafe { &*line })
    }

    /// Makes sure that the number has a line, as all before it have. Called under the lock.
    fn grow(&self, number: usize) -> Result<(), NoLine> {
        let (segment, _) = place(number).ok_or(NoLine)?;
        let place = self.segments.get(segment).ok_or(NoLine)?;
        // Relaxed: stored under the lock, and not followed here.
        if !place.load(Relaxed).is_null() {
            return Ok(());
        }
        let length = length(segment);
        let mut lines = Vec::new();
        lines.try_reserve_exact(length).map_err(|_| NoLine)?;
        lines.resize_with(length, || AtomicPtr::new(ptr::null_mut()));
        let lines: Box<[AtomicPtr<T>]> = lines.into_boxed_slice();
        // Release: pairs with the Acquire in line (O44).
        place.store(Box::into_raw(lines).cast(), edge!(O44, Release));
        Ok(())
    }
}

const fn length(segment: usize) -> usize {
    DIRECTORY_FIRST << segment
}

/// Segment and offset of a number.
#[inline]
fn place(number: usize) -> Option<(usize, usize)> {
    let shifted = number.checked_add(DIRECTORY_FIRST)?;
    let segment = (shifted / DIRECTORY_FIRST).ilog2() as usize;
    Some((segment, shifted - length(segment)))
}

impl<T> Drop for Directory<T> {
    fn drop(&mut self) {
        for (segment, lines) in self.segments.iter().enumerate() {
            // Relaxed: `&mut self` comes after every store.
            let lines = lines.load(Relaxed);
            if !lines.is_null() {
                let lines = ptr::slice_from_raw_parts_mut(lines, length(segment));
                // SAFETY: it came from a box of this length in grow, and `&mut self` excludes everybody else.
                drop(unsafe { Box::from_raw(lines) });
            }
        }
    }
}

impl<T> fmt::Debug for Directory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Relaxed;

    #[test]
    fn every_number_has_a_line_of_its_own() {
        let mut last = (0, 0);
        for number in 1..100_000 {
            let next = place(number).expect("in range");
            if next.0 == last.0 {
                assert_eq!(next.1, last.1 + 1);
            } else {
                assert_eq!((next, last.1 + 1), ((last.0 + 1, 0), length(last.0)));
            }
            last = next;
        }
        assert_eq!(place(usize::MAX), None);
    }

    #[test]
    fn numbers_come_back_with_their_generation() {
        let directory = Directory::<u8>::new(Floors::default(), 0);
        let taken: Vec<_> = (0..1_000)
            .map(|_| directory.take_number().expect("memory").0)
            .collect();
        assert_eq!(taken, (0..1_000).collect::<Vec<_>>());
        directory.put_number(700, Some(5));
        directory.put_number(20, None);
        assert_eq!(directory.take_number().expect("memory"), (700, 5));
        assert_eq!(directory.take_number().expect("memory"), (1_000, 0));
    }

    #[test]
    fn withdrawn_and_unknown_pages_are_not_found() {
        let directory = Directory::<u8>::new(Floors::default(), 0);
        let (number, _) = directory.take_number().expect("memory");
        directory.publish(number, NonNull::dangling());
        // Relaxed: this thread's own stores.
        assert!(
            !directory
                .line(number)
                .expect("a line")
                .load(Relaxed)
                .is_null()
        );
        directory.withdraw(number);
        // Relaxed: as above.
        assert!(
            directory
                .line(number)
                .expect("a line")
                .load(Relaxed)
                .is_null()
        );
        assert!(directory.line(1 << 40).is_none());
        assert!(directory.line(usize::MAX).is_none());
    }
}
