//! Giving pages back to the system.
//!
//! # Protocol
//!
//! Under the depot's lock all free slots are gathered and counted by page. A page with all of its slots among them
//! leaves the directory and is retired; the others' slots stay. Slots that are in use, reserved, waiting or in some
//! thread's hand keep their page.

use std::ptr::NonNull;

use crate::reclaim::ReadSection;
use crate::sync::{Arc, now};
use crate::thread::{Snooze, may_run_foreign};

use super::chain::{Chain, List};
use super::core::Core;
use super::page::{Page, PagePtr};
use super::policy::{Part, Policy};

use super::slot::Slot;
use super::state::LAST_GENERATION;

/// What a shrink notes about a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shrink {
    /// Free slots found so far.
    pub(super) free: usize,
    /// Whether the page is among those that leave.
    pub(super) leaves: bool,
    /// The next of those that leave.
    pub(super) next: Option<NonNull<()>>,
}

impl Shrink {
    pub(super) const NONE: Self = Self {
        free: 0,
        leaves: false,
        next: None,
    };
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Core<S, V, P, D> {
    /// Gives back every page that has only free slots; returns their number.
    pub(super) fn shrink(self: &Arc<Self>) -> usize {
        if P::WAITS {
            self.collect_dead();
            let (cookie, begun) = (P::cookie(&self.inner), now());
            let mut snooze = Snooze::new();
            while !P::has_elapsed(&self.inner, cookie)
                && self.may_push_grace(now().saturating_sub(begun))
            {
                snooze.wait();
            }
            if may_run_foreign() {
                self.settle_dead();
            }
        }
        self.retire_leaving()
    }

    /// Retires every page that has only free slots; returns their number.
    pub(super) fn retire_leaving(&self) -> usize {
        let mut leaving = self.gather_leaving();
        let mut pages = 0;
        while let Some(page) = leaving {
            // SAFETY: nobody else has the page any more.
            leaving = unsafe { Page::shrink(page) }.next.map(NonNull::cast);
            // SAFETY: it is in no directory, all of its slots are free and in no list, and it is retired here only.
            unsafe { Page::retire(page) };
            pages += 1;
        }
        pages
    }

    /// Takes the pages that have only free slots out of the directory; the first of a list.
    fn gather_leaving(&self) -> Option<PagePtr<S, V, P, D>> {
        let mut depot = self.depot.lock();
        if depot.is_closed() {
            return None;
        }
        let _ = self.take_over_all(&mut depot);
        let [stored, given, held] = depot.take_clean();
        let exhausted = depot.take_exhausted();
        let lists = [stored, given, held, exhausted].map(|list| self.count_by_page(list));
        let mut leaving = None;
        let [stored, given, held, exhausted] = lists.map(|list| self.split_off(list, &mut leaving));
        for chain in [stored, given] {
            depot.put(self.forget_counts(chain));
        }
        depot.put_in_quarantine(self.forget_counts(held));
        if let Err(chain) = self.depot.park(self.forget_counts(exhausted)) {
            // Closing takes the lock that is held here.
            debug_assert!(chain.is_empty(), "the slab closed under the lock");
        }
        leaving
    }

    /// Notes with each page how many of its slots are in the list.
    fn count_by_page(&self, list: List<S, V, P, D>) -> Chain<S, V, P, D> {
        let mut counted = Chain::EMPTY;
        for slot in list {
            let page = Page::of(slot);
            // SAFETY: the depot's lock is held, and the slot keeps its page.
            let mut shrink = unsafe { Page::shrink(page) };
            shrink.free += 1;
            // SAFETY: as above.
            unsafe { Page::set_shrink(page, shrink) };
            // SAFETY: the list owned the slot.
            unsafe { counted.push(slot) };
        }
        counted
    }

    /// Drops the slots of pages that leave from the chain, and adds those pages to `leaving`.
    fn split_off(
        &self,
        chain: Chain<S, V, P, D>,
        leaving: &mut Option<PagePtr<S, V, P, D>>,
    ) -> Chain<S, V, P, D> {
        let mut staying = Chain::EMPTY;
        for slot in chain.into_list() {
            let page = Page::of(slot);
            // SAFETY: the depot's lock is held, and the slot keeps its page.
            let shrink = unsafe { Page::shrink(page) };
            // SAFETY: as above.
            let number = unsafe { Page::number(page) };
            // SAFETY: as above.
            let built = unsafe { Page::built(page) };
            if shrink.free < built {
                // SAFETY: the chain owned the slot.
                unsafe { staying.push(slot) };
            } else if !shrink.leaves {
                let next = leaving.replace(page).map(PagePtr::cast);
                let now = Shrink {
                    leaves: true,
                    next,
                    ..shrink
                };
                // SAFETY: as above.
                unsafe { Page::set_shrink(page, now) };
                self.directory.withdraw(number);
                self.directory
                    .put_number(number, next_generation(page, built));
                self.growth.page_left(built);
            }
        }
        staying
    }

    fn forget_counts(&self, chain: Chain<S, V, P, D>) -> Chain<S, V, P, D> {
        let mut same = Chain::EMPTY;
        for slot in chain.into_list() {
            // SAFETY: the depot's lock is held, and the slot keeps its page.
            unsafe { Page::set_shrink(Page::of(slot), Shrink::NONE) };
            // SAFETY: the chain owned the slot.
            unsafe { same.push(slot) };
        }
        same
    }
}

/// The generation that the next page of this number begins with; `None` if the number has no lives left.
fn next_generation<S: Part, V: Part, P: Policy<D>, D: ReadSection>(
    page: PagePtr<S, V, P, D>,
    built: usize,
) -> Option<u64> {
    let generations = (0..built).map(|slot| {
        // SAFETY: the page isn't retired yet.
        unsafe { Page::built_slot(page, slot) }.map_or(0, |slot| {
            // SAFETY: as above.
            unsafe { Slot::state(slot) }.own().generation()
        })
    });
    let last = generations.max().unwrap_or(0);
    (last < LAST_GENERATION).then_some(last)
}
