//! A domain held still for a fork, and made whole in the child.
//!
//! In the child the records of the other threads are nobody's: their guards and readers have gone, their marks have
//! ended. Their backlogs stay, for the next thread that retires or makes a barrier. What they had in hand is leaked, and
//! counted as dropped, so that nothing is pending for ever. The calling thread's own record stays as it is, with its guards
//! and readers, and so do those of owned guards: nobody can tell whose they are.

use crate::fence::{self, Kept};
use crate::reclaim::Stage;
use crate::sync::{Arc, MutexGuard, Relaxed, ThreadHandle, Weak};
use crate::thread::{Forkable, Held, HeldPanics, Node};

use super::backlog::Backlog;
use super::core::Core;
use super::global;
use super::record::Record;
use super::stall::Told;
use super::worker::Worker;

/// The global domain.
pub(crate) fn forkable_global() -> &'static dyn Forkable {
    global::core()
}

struct HeldDomain<'a> {
    core: &'a Core,
    worker: MutexGuard<'a, Option<Worker>>,
    _stages: MutexGuard<'a, Vec<Weak<dyn Stage>>>,
    _panics: HeldPanics<'a>,
    _stalls: MutexGuard<'a, Told>,
    _names: Vec<MutexGuard<'a, Option<ThreadHandle>>>,
    backlogs: Vec<(&'a Node<Record>, Kept<'a, Backlog>)>,
}

impl Forkable for Core {
    fn hold(&self) -> Box<dyn Held + '_> {
        Box::new(HeldDomain {
            core: self,
            worker: self.worker.lock(),
            _stages: self.stages.lock(),
            _panics: self.panics.hold(),
            _stalls: self.stalls.hold(),
            _names: self.records.iter().map(|node| node.value.hold()).collect(),
            // In the order of the list, as barriers do.
            backlogs: self
                .records
                .iter()
                .map(|node| (node, Kept::new(&node.value.own.backlog)))
                .collect(),
        })
    }

    fn restart(self: Arc<Self>) {
        self.kick();
    }
}

impl Held for HeldDomain<'_> {
    fn settle(&mut self, heavy: bool) {
        if !heavy {
            // Leaves no doubt about this thread's own, and about those that are nobody's.
            let _own = self.core.registered().map(|own| drop(own.section()));
        }
        for (node, kept) in &mut self.backlogs {
            if !heavy {
                self.core.stand_in(node);
            }
            kept.settle(heavy);
        }
    }

    unsafe fn reset(&mut self) {
        let core = self.core;
        if fence::is_light_full() {
            core.clock.set_fenced_for_good();
        }
        // Relaxed: there is one thread, and it makes no barrier.
        core.barriers.store(0, Relaxed);
        let (mut objects, mut bytes) = (0, 0_u64);
        for (node, kept) in &mut self.backlogs {
            if kept.get().is_none() {
                node.value.own.untouch();
            }
            // SAFETY: (1) of the trait; no section outlasts a call, and this thread isn't inside one.
            let backlog = unsafe { kept.get_or_replace(Backlog::default()) };
            let left = backlog.left();
            (objects, bytes) = (objects + left.0, bytes.wrapping_add(left.1));
            core.reset_record(node);
        }
        self.count_lost(objects, bytes);
        if let Some(worker) = &mut *self.worker {
            worker.forget_thread();
        }
    }
}

impl HeldDomain<'_> {
    /// Counts as dropped what is in no backlog any more.
    fn count_lost(&self, objects: u64, bytes: u64) {
        let Some((some, _)) = self.backlogs.first() else {
            return;
        };
        let (pending_objects, pending_bytes) = self.core.pending_in_records();
        let own = &some.value.own;
        own.dropped.add(pending_objects.wrapping_sub(objects));
        own.dropped_bytes.add(pending_bytes.wrapping_sub(bytes));
    }
}

impl Core {
    /// Gives up a record that isn't the calling thread's, in the child.
    fn reset_record(&self, node: &Node<Record>) {
        let record = &node.value;
        let is_registered = self
            .registered()
            .is_some_and(|own| std::ptr::eq(&raw const *own, record));
        if is_registered {
            return;
        }
        // A guard of this thread, which has given its own record back at exit; or an owned one, wherever it is, unless its
        // thread was still entering.
        let is_owned = record.is_nobodys() && node.is_abandoned();
        let is_in_use = (record.is_own() || is_owned) && !record.is_unused();
        if !is_in_use {
            record.reset();
        }
        node.give_up(is_in_use);
    }

    /// Objects and bytes retired and not dropped, by the counts.
    fn pending_in_records(&self) -> (u64, u64) {
        let mut pending = (0_u64, 0_u64);
        for node in &self.records {
            let own = &node.value.own;
            let objects = own.retired.get().wrapping_sub(own.dropped.get());
            let bytes = own
                .retired_bytes
                .get()
                .wrapping_sub(own.dropped_bytes.get());
            pending.0 = pending.0.wrapping_add(objects);
            pending.1 = pending.1.wrapping_add(bytes);
        }
        pending
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::Domain;
    use super::*;

    #[test]
    fn record_of_a_thread_that_is_gone_is_as_good_as_new() {
        let domain = Domain::new();
        let core = &domain.core;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mine = core.borrow_record();
                mine.enter(&core.clock);
                mine.add_reader();
                assert!(mine.own.begin_debt());
                // Relaxed: this thread's own.
                mine.own.permitted.store(3, Relaxed);
                std::mem::forget(mine.own.running.begin());
                std::mem::forget(mine);
            });
        });
        let node = core.records.iter().next().expect("a record");
        assert!(node.value.is_inside() && !node.is_abandoned());
        core.reset_record(node);
        let mine = core.borrow_record();
        assert!(std::ptr::eq(&raw const *mine, &raw const node.value));
        assert!(!mine.is_inside() && mine.is_unused() && !mine.own.running.is_begun());
        assert!(mine.own.begin_debt());
        // Relaxed: this thread's own.
        assert_eq!(mine.own.permitted.load(Relaxed), 0);
    }

    #[test]
    fn record_of_the_thread_that_forks_stays_its_own() {
        let domain = Domain::new();
        drop(domain.enter());
        let core = &domain.core;
        let node = core.records.iter().next().expect("a record");
        core.reset_record(node);
        assert!(!node.is_abandoned());
        let guard = domain.enter();
        core.reset_record(node);
        assert!(!node.is_abandoned() && node.value.is_inside());
        drop(guard);
    }
}
