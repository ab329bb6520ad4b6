//! What the user's handle, the worker and the attached domain share, and how batches are run.
//!
//! # Protocol
//!
//! Whoever runs batches begins its own [`Running`](crate::thread::Running) mark, pops one buffer, runs the handler on it
//! in a frame of the queue, and ends the mark. Whoever waits empties the lines first and waits for every mark after.
//!
//! # Invariants
//!
//! - I1: no user code runs in an owner's section, in a taker's turn or with a lock held.
//! - I2: handlers of one queue never nest on a thread: what runs batches refuses or puts off while the queue's frame is
//!   open.

use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::reclaim::Stage;
use crate::sync::{Arc, AtomicBool, Weak, now, panicking};
use crate::thread::{Panics, Snooze, frame, is_quiet};

use super::batch::Batch;
use super::buffer::Buffer;
use super::builder::{Attachment, Settings};
use super::local::{Kept, Local};
use super::nodes::Nodes;
use super::stats::QueueStats;
use super::takeover::{Taken, take_opens};
use super::worker::Worker;

/// The user's handler.
pub(super) type Handler<T> = Box<dyn Fn(Batch<'_, T>) + Send + Sync>;

/// One queue.
pub(super) struct Core<T: Send + 'static> {
    pub(super) nodes: Arc<Nodes<T>>,
    pub(super) settings: Settings,
    /// No push is accepted any more.
    pub(super) closed: AtomicBool,
    pub(super) panics: Panics,
    pub(super) worker: CachePadded<Worker>,
    /// Empty only while the core is dropped.
    pub(super) handler: Option<Handler<T>>,
    attachment: Option<Attachment>,
    /// The queue was dropped where nobody could wait; whoever runs its batches finishes it.
    pub(super) abandoned: AtomicBool,
}

impl<T: Send + 'static> Core<T> {
    pub(super) fn new(
        settings: Settings,
        name: String,
        handler: Handler<T>,
        panics: Panics,
        attachment: Option<Attachment>,
    ) -> Arc<Self> {
        Arc::new(Self {
            nodes: Arc::new(Nodes::new(settings.places())),
            settings,
            closed: AtomicBool::new(false),
            panics,
            worker: CachePadded::new(Worker::new(name)),
            handler: Some(handler),
            attachment,
            abandoned: AtomicBool::new(false),
        })
    }

    /// Makes the domain's barrier cover this queue.
    pub(super) fn attach(self: &Arc<Self>) {
        if let Some(attachment) = &self.attachment {
            let stage: Weak<dyn Stage> = Arc::<Self>::downgrade(self);
            attachment.attach(stage);
        }
    }

    /// Whether the calling thread is running a batch of this queue.
    pub(super) fn is_handling(&self) -> bool {
        frame::is_open_for(self.nodes.id())
    }

    /// Whether the calling thread is inside a guard of the attached domain.
    pub(super) fn is_inside_guard(&self) -> bool {
        self.attachment
            .as_ref()
            .is_some_and(|attachment| attachment.is_inside())
    }

    /// Whether a push may run batches here.
    pub(super) fn may_handle(&self) -> bool {
        !self.is_handling() && !panicking() && !is_quiet() && !self.is_inside_guard()
    }

    /// Panics where `call` would nest handlers.
    pub(super) fn refuse_in_handler(&self, call: &str) {
        assert!(
            !self.is_handling(),
            "graceperiod: DropQueue::{call}() inside a handler or hook of the same queue, which don't nest; return from \
             it first, or use push(), push_now() or kick(), which leave the rest for later"
        );
    }

    /// Panics where `call` would wait for its own caller.
    pub(super) fn refuse_to_wait(&self, call: &str) {
        self.refuse_in_handler(call);
        assert!(
            !self.is_inside_guard(),
            "graceperiod: DropQueue::{call}() inside a guard of the domain that the queue is attached to, for which a \
             handler on another thread may wait; drop this thread's guards first, or use kick(), which doesn't wait"
        );
    }

    /// Runs the handler on a buffer. The caller has begun a mark on `runner`, which this thread owns.
    pub(super) fn handle(&self, runner: &Local<T>, buffer: &mut Buffer<T>) {
        let count = buffer.count();
        frame::run(self.nodes.id(), || {
            if let Some(handler) = &self.handler {
                self.panics
                    .catch(|| handler(Batch::new(&mut buffer.items, &self.panics)));
            }
            Batch::new(&mut buffer.items, &self.panics).drop_rest();
        });
        runner.handled.items.add(count);
        runner.handled.batches.add(1);
    }

    /// Handles a buffer that was popped from `from` and gives it back. The caller has begun a mark on `runner`.
    pub(super) fn finish(&self, runner: &Local<T>, from: &Local<T>, mut buffer: Box<Buffer<T>>) {
        self.handle(runner, &mut buffer);
        from.put_spare(buffer, self.settings.batch);
    }

    /// Handles `count` items of the line of `from`, or a few more: whole buffers. Returns whether there were any.
    pub(super) fn drain_line(&self, runner: &Local<T>, from: &Local<T>, count: u64) -> bool {
        let mut done = 0;
        while done < count {
            let _mark = runner.handled.running.begin();
            let Some(buffer) = from.pop() else {
                break;
            };
            done += buffer.count();
            self.finish(runner, from, buffer);
        }
        done > 0
    }

    /// Handles what waits in `own`, this thread's node, now.
    pub(super) fn drain_own(&self, own: &Local<T>) {
        let _mark = own.handled.running.begin();
        let mut snooze = Snooze::new();
        let open = loop {
            // SAFETY: the node is this thread's own (1); no section outlasts a call, and none calls foreign code (2).
            match unsafe { own.take_own() } {
                Ok(open) => break open,
                Err(Kept) => snooze.wait(),
            }
        };
        let in_line = own.waiting();
        self.drain_taken(own, own, Taken { open, in_line });
    }

    /// Handles what was taken over from `from`: `in_line` items of its line, or a few more, and then what it had open. One
    /// mark of the caller's is for all, since the open buffer is in hand while the older ones are handled.
    pub(super) fn drain_taken(&self, runner: &Local<T>, from: &Local<T>, taken: Taken<T>) {
        let mut done = 0;
        while done < taken.in_line {
            let Some(buffer) = from.pop_settled() else {
                break;
            };
            done += buffer.count();
            self.finish(runner, from, buffer);
        }
        if let Some(buffer) = taken.open {
            self.finish(runner, from, from.counted(buffer));
        }
    }

    /// Handles what waits now, of all threads, and waits for what others have in hand.
    pub(super) fn drain_everything(&self, runner: &Local<T>) {
        {
            let _mark = runner.handled.running.begin();
            let waiting = self.nodes.iter().filter(|node| node.waiting() > 0);
            for (node, taken) in take_opens(waiting) {
                let taken = taken.unwrap_or_else(|| node.take_open());
                self.drain_taken(runner, node, taken);
            }
        }
        self.wait_for_runners();
    }

    /// Waits until what other threads have in hand is done.
    pub(super) fn wait_for_runners(&self) {
        for node in self.nodes.iter() {
            node.handled.running.wait();
        }
    }

    /// Handles up to `at_most` items of all threads; returns how many it were.
    pub(super) fn drain_some(&self, runner: &Local<T>, at_most: u64) -> u64 {
        let mut done = 0;
        for node in self.nodes.iter().filter(|node| node.waiting() > 0) {
            let until = at_most.min(done + node.waiting());
            while done < until {
                let _mark = runner.handled.running.begin();
                let Some(buffer) = node.pop_part(until - done) else {
                    break;
                };
                done += buffer.count();
                self.finish(runner, node, buffer);
            }
        }
        done
    }

    pub(super) fn stats(&self) -> QueueStats {
        let mut stats = QueueStats {
            panics: self.panics.count(),
            ..QueueStats::default()
        };
        let mut oldest = None;
        for node in self.nodes.iter() {
            let (queued, waiting) = node.counts();
            stats.queued += queued;
            stats.waiting += waiting;
            stats.dropped += node.handled.items.get();
            stats.batches += node.handled.batches.get();
            stats.limit_hits += node.limit_hits.get();
            oldest = oldest.into_iter().chain(node.oldest()).min();
        }
        stats.oldest_age = oldest.map(|since| Duration::from_nanos(now().saturating_sub(since)));
        stats
    }
}
