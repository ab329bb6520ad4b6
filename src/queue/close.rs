//! How a queue comes to its end.
//!
//! # Protocol
//!
//! Whoever stops the queue sets `closed`, visits every node, takes its open buffer, seals its line and handles both. A push
//! that was accepted is in one of them by then, and none is accepted later (O72, O71). Then the worker ends, and running
//! handlers are waited for.
//!
//! A queue that is dropped where nobody may wait (inside its own handler) is finished by whoever runs that handler.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::fence::full;
use crate::reclaim::{Stage, Waiting};
use crate::sync::{Arc, Relaxed, edge};
use crate::thread::{discard, frame};

use super::core::Core;
use super::local::Local;
use super::takeover::take_opens;

impl<T: Send + 'static> Core<T> {
    /// Refuses pushes, handles everything and waits for handlers on other threads and for the worker's end.
    pub(super) fn stop(&self) {
        self.refuse_pushes();
        self.empty(&self.nodes.lend());
        self.worker.finish();
        self.worker.join();
        self.wait_for_runners();
    }

    /// Refuses pushes from now on, but for those that are under way.
    pub(super) fn refuse_pushes(&self) {
        // Relaxed: the fence and the turns at each node order it before a push's look (O72).
        self.closed.store(true, Relaxed);
        edge!(O72, full());
    }

    /// Handles everything that was accepted. Pushes are refused already.
    pub(super) fn empty(&self, runner: &Local<T>) {
        let _mark = runner.handled.running.begin();
        for (node, taken) in take_opens(self.nodes.iter()) {
            let mut taken = taken.unwrap_or_else(|| node.take_open());
            node.seal();
            taken.in_line = u64::MAX;
            self.drain_taken(runner, node, taken);
        }
    }

    /// The user's handle is dropped: stops as far as this thread may wait here.
    pub(super) fn close(self: &Arc<Self>) {
        self.refuse_pushes();
        if self.is_handling() {
            // Relaxed: read by this thread when its handler has returned; the worker needs no such hint.
            self.abandoned.store(true, Relaxed);
            self.worker.finish();
        } else if frame::is_open() {
            let core = NonNull::from(Box::leak(Box::new(Arc::clone(self))));
            // SAFETY: `close_later` takes the box that was leaked here, once, and doesn't unwind.
            let job = unsafe { frame::Job::new(self.nodes.id(), core.cast(), close_later::<T>) };
            frame::run_or_leave(job);
        } else {
            self.close_here();
        }
    }

    fn close_here(&self) {
        if self.is_inside_guard() || frame::is_open() {
            // A handler on another thread may wait for this guard's end, or for its own turn to close a queue on this
            // thread, so nobody is waited for.
            if !self.worker.finish() {
                self.empty(&self.nodes.lend());
            }
        } else {
            self.stop();
        }
    }

    /// Finishes a queue that was dropped inside the handler which this thread has just run.
    fn finish_abandoned(&self, runner: &Local<T>) {
        // Relaxed: stored by this thread, if it concerns it.
        if self.abandoned.swap(false, Relaxed) {
            self.empty(runner);
        }
    }
}

/// Closes the queue whose core `data` points to.
///
/// # Safety
///
/// 1. `data` is a leaked `Box<Arc<Core<T>>>`, which this call takes.
unsafe fn close_later<T: Send + 'static>(data: NonNull<()>) {
    // SAFETY: (1).
    let core = unsafe { Box::from_raw(data.cast::<Arc<Core<T>>>().as_ptr()) };
    core.close_here();
}

/// The attached domain's barrier covers the queue.
impl<T: Send + 'static> Stage for Core<T> {
    fn id(&self) -> u64 {
        self.nodes.id()
    }

    fn collect(&self) {
        // Items wait for no grace period.
    }

    fn settle(&self) {
        assert!(
            !self.is_handling(),
            "graceperiod: barrier() of a domain inside a handler or hook of a queue attached to it would wait for itself; \
             return from it first"
        );
        let runner = self.nodes.lend();
        self.drain_everything(&runner);
        self.finish_abandoned(&runner);
    }

    fn waiting(&self) -> Waiting {
        let objects = self.nodes.iter().map(Local::waiting).sum::<u64>();
        Waiting::new(objects, objects * size_of::<T>() as u64)
    }
}

impl<T: Send + 'static> Drop for Core<T> {
    fn drop(&mut self) {
        // What is a user's is dropped here, where its panic goes no further.
        let handler = self.handler.take();
        let panics = &self.panics;
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(handler)));
        let unhooked = catch_unwind(AssertUnwindSafe(|| panics.set_hook(None)));
        let payloads = [dropped.err(), unhooked.err(), panics.take()];
        payloads.into_iter().flatten().for_each(discard);
    }
}
