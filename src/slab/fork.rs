//! A slab held still for a fork, and made whole in the child.
//!
//! In the child the caches of the other threads are nobody's, with all that is in them. Slots that those threads had
//! reserved, or had in hand between two lists, are leaked, as is each incarnation of which they held the references.
//! Counts are set to what is there, so that nothing waits, or is being built, for ever.

use crate::fence::Kept;
use crate::reclaim::ReadSection;
use crate::sync::{MutexGuard, Relaxed};
use crate::thread::{Forkable, Held, Node};

use super::cache::{Cache, Magazines};
use super::core::Core;
use super::depot::Open;
use super::directory::Numbers;
use super::page::Page;
use super::policy::{Part, Policy};

type Owner<'a, S, V, P, D> = (&'a Node<Cache<S, V, P, D>>, Kept<'a, Magazines<S, V, P, D>>);

struct HeldSlab<
    'a,
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    core: &'a Core<S, V, P, D>,
    caches: Vec<Owner<'a, S, V, P, D>>,
    depot: Open<'a, S, V, P, D>,
    _numbers: MutexGuard<'a, Numbers>,
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Forkable for Core<S, V, P, D> {
    fn hold(&self) -> Box<dyn Held + '_> {
        // The depot's lock comes before the caches, and before the numbers.
        let depot = self.depot.lock();
        let caches = self.caches.iter().map(|node| (node, node.value.keep()));
        Box::new(HeldSlab {
            core: self,
            caches: caches.collect(),
            depot,
            _numbers: self.directory.hold(),
        })
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Held for HeldSlab<'_, S, V, P, D> {
    fn settle(&mut self, heavy: bool) {
        if !heavy {
            self.core.fence_idle();
        }
        for (_, kept) in &mut self.caches {
            kept.settle(heavy);
        }
    }

    unsafe fn reset(&mut self) {
        let own = self.core.find_cache().map(std::ptr::from_ref);
        let mut dead = 0;
        for (node, kept) in &mut self.caches {
            // SAFETY: (1) of the trait; no section outlasts a call, and this thread isn't inside one.
            dead += unsafe { kept.get_or_replace(Magazines::EMPTY) }.dead();
            if own != Some(&raw const node.value) {
                node.value.running.end_for_child();
                node.give_up(false);
            }
        }
        if P::WAITS {
            dead += self.depot.count_waiting();
            let lost = self.core.waiting_objects().saturating_sub(dead as u64);
            self.core.strays.settled.add(lost);
        }
        // SAFETY: (1) of the trait.
        let (pages, slots) = unsafe { self.core.count_pages() };
        let line = self.core.directory.line(0);
        // Relaxed: there is one thread.
        let is_there = line.is_some_and(|line| !line.load(Relaxed).is_null());
        let claimed = self.core.ids.settle_page(is_there);
        self.core.growth.recount(pages, slots + claimed);
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Core<S, V, P, D> {
    /// Pages that can be found, and their slots.
    ///
    /// # Safety
    ///
    /// 1. The process has no other thread.
    pub(super) unsafe fn count_pages(&self) -> (usize, usize) {
        self.directory.pages().fold((0, 0), |(pages, slots), page| {
            // SAFETY: a page that can be found is mapped, and no other thread is left that could retire it (1).
            let built = unsafe { Page::<S, V, P, D>::built(page) };
            (pages + 1, slots + built)
        })
    }
}
