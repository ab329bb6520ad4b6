//! What the domain's barrier asks of a slab whose dead slots wait for a grace period.
//!
//! # Protocol
//!
//! - `collect` gives every part-full magazine of dead slots its cookie and takes the ripe ones back, so that all that is
//!   dead waits in the depot.
//! - `settle`, a grace period later, takes out whatever is ripe, drops it, and waits for those that other threads have in
//!   hand. A slot leaves a list only under a mark that was begun before: what isn't in a list is under a mark.

use crate::fence::{Revoked, heavy};
use crate::reclaim::{ReadSection, Stage, Waiting};
use crate::sync::edge;
use crate::thread::{Node, Snooze, frame};

use super::cache::{Cache, Magazines};
use super::core::Core;
use super::depot::Open;
use super::policy::{Part, Policy};
use super::slot::Slot;
use super::waiting::Queue;

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Core<S, V, P, D> {
    /// Shows all threads' magazines to `each`; false if some couldn't be had, because the system refused a heavy fence:
    /// those stay with their owners. The caller holds the depot's lock.
    fn take_over(&self, mut each: impl FnMut(&mut Magazines<S, V, P, D>)) -> bool {
        let mut rest = self.caches.iter().peekable();
        let mut all = true;
        while rest.peek().is_some() {
            let mut revoked = Vec::new();
            // One fence for all of them, or one for each if there is no memory for a list.
            if revoked.try_reserve(rest.clone().count()).is_ok() {
                revoked.extend(rest.by_ref().map(|node| node.value.revoke()));
                all &= Self::take_revoked(revoked, &mut each);
            } else {
                let one = rest.next().map(|node| node.value.revoke());
                all &= Self::take_revoked(one, &mut each);
            }
        }
        if !all {
            self.fence_idle();
        }
        all
    }

    /// Makes a heavy fence, and shows the magazines of owners that are known to be outside to `each`; false if some aren't.
    fn take_revoked<'a>(
        revoked: impl IntoIterator<Item = Revoked<'a, Magazines<S, V, P, D>>>,
        each: &mut impl FnMut(&mut Magazines<S, V, P, D>),
    ) -> bool {
        // Orders all the revocations before the looks at the owners (O3).
        let heavy = edge!(O3, heavy());
        let mut all = true;
        for revoked in revoked {
            if heavy {
                each(&mut revoked.take(heavy));
            } else if let Ok(mut taken) = revoked.try_take(heavy) {
                each(&mut taken);
            } else {
                all = false;
            }
        }
        all
    }

    /// The system has refused the heavy fence: only a section with a full fence tells that an owner is outside. Makes one
    /// for the calling thread, and in the place of threads that have gone.
    #[cold]
    pub(super) fn fence_idle(&self) {
        if let Some(cache) = self.find_cache() {
            // SAFETY: the thread's own cache, and no section of it is open.
            drop(unsafe { cache.enter() });
        }
        for node in &self.caches {
            if node.is_abandoned() && node.try_claim(|_| true) {
                // SAFETY: claimed, so it is this thread's own for now.
                drop(unsafe { node.value.enter() });
                node.give_up(false);
            }
        }
    }

    /// Takes all threads' magazines back into the depot, as far as they can be had.
    pub(super) fn take_over_all(&self, depot: &mut Open<'_, S, V, P, D>) -> bool {
        self.take_over(|magazines| {
            for chain in magazines.take_clean() {
                depot.put(chain);
            }
            self.take_dead(magazines, depot);
        })
    }

    /// Takes one thread's dead slots back into the depot.
    fn take_dead(&self, magazines: &mut Magazines<S, V, P, D>, depot: &mut Open<'_, S, V, P, D>) {
        depot.put_ripe(magazines.ripe.take());
        let open = magazines.take_open();
        if !open.is_empty() {
            depot.wait(self.seal(open));
        }
    }

    /// Gives every dead slot a cookie, and leaves none outside the depot; false if some couldn't be had.
    pub(super) fn collect_dead(&self) -> bool {
        let mut depot = self.depot.lock();
        if depot.is_closed() {
            return true;
        }
        self.take_over(|magazines| self.take_dead(magazines, &mut depot))
    }

    /// Drops everything whose grace period has elapsed, and waits for those who are doing the same; false if some
    /// couldn't be had.
    pub(super) fn settle_dead(&self) -> bool {
        let mut all = true;
        self.drop_dead(|depot| {
            if !depot.is_closed() {
                all = self.take_over(|magazines| depot.put_ripe(magazines.ripe.take()));
            }
            depot.take_all_ripe(&self.inner)
        });
        for other in &self.caches {
            other.value.running.wait();
        }
        all
    }

    /// Drops the values of what `take` takes out under the depot's lock, under a mark.
    pub(super) fn drop_dead(
        &self,
        take: impl FnOnce(&mut Open<'_, S, V, P, D>) -> Queue<S, V, P, D>,
    ) {
        // A cache of its own, since a mark has one writer and this thread may have none.
        self.drop_dead_with(self.caches.claim(Cache::new, |_| true), take);
    }

    /// As [`drop_dead`](Self::drop_dead), with a cache that the caller has claimed, which goes back afterwards.
    pub(super) fn drop_dead_with(
        &self,
        node: &Node<Cache<S, V, P, D>>,
        take: impl FnOnce(&mut Open<'_, S, V, P, D>) -> Queue<S, V, P, D>,
    ) {
        // For those whom the system has refused a heavy fence.
        // SAFETY: claimed by this thread.
        drop(unsafe { node.value.enter() });
        let mark = node.value.running.begin();
        let dead = take(&mut self.depot.lock());
        self.drop_ripe(dead, &node.value);
        drop(mark);
        node.give_up(false);
    }

    fn drop_ripe(&self, mut ripe: Queue<S, V, P, D>, cache: &Cache<S, V, P, D>) {
        while let Some(dead) = ripe.pop() {
            frame::within(D::id(&self.inner), || {
                for slot in dead.slots {
                    // SAFETY: dead, and the readers that saw it alive have gone.
                    unsafe { Self::clean(slot) };
                    cache.counts.settled.add(1);
                    // One by one: somebody may be waiting for the first while the others' destructors take long.
                    // SAFETY: this thread owns the slot, which is clean.
                    unsafe { self.put_aside(slot) };
                }
            });
        }
    }

    /// Dead slots that wait in the slab.
    pub(super) fn waiting_objects(&self) -> u64 {
        // In this order, so that a slot that dies and settles in between isn't missing from the first sum only.
        let settled = self.sum(|c| &c.settled, |c| &c.settled);
        let died = self.sum(|c| &c.died, |c| &c.died);
        if P::WAITS {
            died.saturating_sub(settled)
        } else {
            0
        }
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Stage for Core<S, V, P, D> {
    /// The domain's, since values are dropped in its name.
    fn id(&self) -> u64 {
        D::id(&self.inner)
    }

    fn collect(&self) {
        let mut snooze = Snooze::new();
        while !self.collect_dead() {
            snooze.wait();
        }
    }

    fn settle(&self) {
        let mut snooze = Snooze::new();
        while !self.settle_dead() {
            snooze.wait();
        }
    }

    fn waiting(&self) -> Waiting {
        let objects = self.waiting_objects();
        Waiting::new(objects, objects * size_of::<Slot<S, V, P, D>>() as u64)
    }
}
