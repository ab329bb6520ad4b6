//! A queue held still for a fork, and made whole in the child.
//!
//! In the child the nodes of the other threads are nobody's, with all that waits in them; a worker starts again if
//! anything waits. What another thread had in hand is leaked, and counted as dropped.

use crate::fence::Kept;
use crate::sync::Arc;
use crate::thread::{Forkable, Held, HeldPanics, Node};

use super::builder::Drain;
use super::core::Core;
use super::line::Settled;
use super::local::{Local, Open};
use super::worker::HeldWorker;

struct HeldLocal<'a, T> {
    node: &'a Node<Local<T>>,
    line: Settled<'a, T>,
    open: Kept<'a, Open<T>>,
}

struct HeldQueue<'a, T: Send + 'static> {
    core: &'a Core<T>,
    locals: Vec<HeldLocal<'a, T>>,
    worker: HeldWorker<'a>,
    _panics: HeldPanics<'a>,
}

impl<T: Send + 'static> Forkable for Core<T> {
    fn hold(&self) -> Box<dyn Held + '_> {
        // Whoever splits a buffer tries for the open one under the line's lock.
        let locals = self.nodes.owned().map(|node| HeldLocal {
            node,
            line: node.value.line().settle(),
            open: Kept::new(&node.value.open),
        });
        Box::new(HeldQueue {
            core: self,
            locals: locals.collect(),
            worker: self.worker.hold(),
            _panics: self.panics.hold(),
        })
    }

    fn restart(self: Arc<Self>) {
        let waits = self.nodes.iter().any(|node| node.waiting() > 0);
        if waits && self.settings.drain == Drain::Worker {
            let core = Arc::clone(&self);
            self.worker.restart(move || core.run());
        }
    }
}

impl<T: Send + 'static> Held for HeldQueue<'_, T> {
    fn settle(&mut self, heavy: bool) {
        let own = self.core.nodes.find().map(std::ptr::from_ref);
        for local in &mut self.locals {
            if !heavy {
                local.fence_idle(own);
            }
            local.open.settle(heavy);
        }
    }

    unsafe fn reset(&mut self) {
        let own = self.core.nodes.find().map(std::ptr::from_ref);
        for local in &mut self.locals {
            // SAFETY: the caller's promises are passed on.
            unsafe { local.recount() };
            if own != Some(std::ptr::from_ref(local.node)) {
                local.node.value.handled.running.end_for_child();
                local.node.give_up(false);
            }
        }
        self.core.nodes.set_left_behind();
        self.count_lost();
        self.worker.forget_thread();
    }
}

impl<T: Send + 'static> HeldQueue<'_, T> {
    /// Counts as handled what has been popped by threads that are gone.
    fn count_lost(&self) {
        let Some(some) = self.locals.first() else {
            return;
        };
        let in_hand = self.core.nodes.iter().map(|node| {
            let (queued, waiting) = node.counts();
            // Whoever handles an item counts it, whosever it was: only the sum is never negative.
            (queued - waiting).wrapping_sub(node.handled.items.get())
        });
        let lost = in_hand.fold(0, u64::wrapping_add);
        some.node.value.handled.items.add(lost);
    }
}

impl<T> HeldLocal<'_, T> {
    /// The system has refused the heavy fence: leaves no doubt about a node that is this thread's own, or nobody's.
    #[cold]
    fn fence_idle(&self, own: Option<*const Node<Local<T>>>) {
        let local = &self.node.value;
        if own == Some(std::ptr::from_ref(self.node)) {
            // SAFETY: the thread's own, and no section of it is open.
            drop(unsafe { local.open.try_enter() });
        } else if self.node.is_abandoned() && self.node.try_claim(|_| true) {
            // SAFETY: claimed, so it is this thread's own for now.
            drop(unsafe { local.open.try_enter() });
            self.node.give_up(false);
        }
    }

    /// Makes the node's counts those of what is there.
    ///
    /// # Safety
    ///
    /// 1. The process has no other thread, and this one has no section of the node open.
    unsafe fn recount(&mut self) {
        let local = &self.node.value;
        if self.open.get().is_none() {
            // Whatever is open is lost.
            drop(local.detach(&mut None));
        }
        // SAFETY: (1).
        let open = unsafe { self.open.get_or_replace(None) };
        let in_open = open.as_ref().map_or(0, |buffer| buffer.count());
        // SAFETY: (1).
        local.count_lost(in_open + unsafe { self.line.items() });
    }
}
