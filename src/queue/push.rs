//! What a push does beside storing.

use std::ptr::NonNull;

use crate::fence::full;
use crate::sync::{Arc, Relaxed, edge, now};
use crate::thread::frame;

use super::builder::Drain;
use super::core::Core;
use super::error::TryPushError;
use super::local::{Aim, Local, Stored};

/// What a push does when as many items wait as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtLimit {
    /// Handles some of its own thread's, or passes the limit where it may not.
    Handle,
    /// Gives up.
    Refuse,
}

/// What became of an attempt to get below the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// Some was made, or the handler has used it up again.
    Made,
    /// Others hold what could be handled.
    Contended,
}

impl<T: Send + 'static> Core<T> {
    /// Stores `value` for a later batch.
    #[inline]
    pub(super) fn push(
        self: &Arc<Self>,
        value: T,
        at_limit: AtLimit,
    ) -> Result<(), TryPushError<T>> {
        let Some(node) = self.nodes.find() else {
            return self.push_slow(value, at_limit);
        };
        // SAFETY: the node is this thread's own (1); no section outlasts a call, and none calls foreign code (2).
        match unsafe { node.value.store(value, self.settings.batch) } {
            Ok(Stored::Plain) => Ok(()),
            Ok(stored) => {
                self.follow_up(&node.value, stored);
                Ok(())
            }
            Err(value) => self.push_slow(value, at_limit),
        }
    }

    #[cold]
    fn push_slow(self: &Arc<Self>, value: T, at_limit: AtLimit) -> Result<(), TryPushError<T>> {
        // Relaxed: spares a thread its registration; storing looks again.
        if self.closed.load(Relaxed) {
            return Err(TryPushError::Stopped(value));
        }
        let own = self.nodes.own();
        let may_handle = self.may_handle();
        if may_handle && self.drains_inline() {
            // What a guard or a handler kept from being handled.
            self.drain_line(&own, &own, own.waiting());
        }
        if self.room(&own) == 0 {
            own.limit_hits.add(1);
            if at_limit == AtLimit::Refuse {
                return Err(TryPushError::Full(value));
            }
            if may_handle && self.make_room(&own) == Room::Contended {
                return self.handle_alone(&own, value);
            }
        }
        let aim = Aim {
            room: self.room(&own),
            batch: self.settings.batch,
            looks: self.looks(),
            now: now(),
        };
        // SAFETY: the node is this thread's own (1); no section outlasts a call, and none calls foreign code (2).
        match unsafe { own.store_slow(value, aim, &self.closed) } {
            Ok(stored) => {
                self.follow_up(&own, stored);
                Ok(())
            }
            Err(value) => Err(TryPushError::Stopped(value)),
        }
    }

    /// Tells the worker, or drains inline. Runs without a section.
    fn follow_up(self: &Arc<Self>, own: &Local<T>, stored: Stored) {
        if self.settings.drain == Drain::Worker {
            let start = match stored {
                Stored::First => self.worker.tell_first(),
                Stored::Full => self.worker.tell_ready(),
                Stored::Plain | Stored::Look => false,
            };
            if start {
                self.start_worker();
            }
        }
        let looks = matches!(stored, Stored::Look | Stored::Full);
        if looks && self.drains_inline() && self.may_handle() {
            let late = own.since().is_some_and(|since| self.is_late(since, now()));
            if late {
                self.drain_own(own);
            } else {
                self.drain_line(own, own, own.waiting());
            }
            self.adopt(own);
        }
    }

    /// Handles what one of the threads that ended has left.
    fn adopt(&self, own: &Local<T>) {
        if self.nodes.was_left_behind()
            && let Some(node) = self.nodes.abandoned()
        {
            let _mark = own.handled.running.begin();
            match node.try_take_open() {
                Some(taken) => self.drain_taken(own, node, taken),
                // A push doesn't wait.
                None => self.nodes.set_left_behind(),
            }
        }
    }

    /// How many more items may wait on this thread.
    fn room(&self, own: &Local<T>) -> u64 {
        self.settings.limit.saturating_sub(own.waiting())
    }

    /// Whether batches run where they become full.
    fn drains_inline(&self) -> bool {
        match self.settings.drain {
            Drain::Worker => self.worker.has_failed(),
            Drain::Inline => true,
            Drain::Manual => false,
        }
    }

    /// Whether late items are for pushes to notice.
    fn looks(&self) -> bool {
        match self.settings.drain {
            Drain::Worker => !self.worker.is_driving(),
            Drain::Inline => true,
            Drain::Manual => false,
        }
    }

    /// Handles this thread's own items until one more may wait, but no more than wait now.
    fn make_room(&self, own: &Local<T>) -> Room {
        let most = own.waiting();
        let mut done = 0;
        while self.room(own) == 0 && done < most {
            let _mark = own.handled.running.begin();
            // The open buffer only if there is no other.
            let buffer = own.pop().or_else(|| {
                // SAFETY: as in push.
                let open = unsafe { own.take_own() };
                Some(own.counted(open.ok()??))
            });
            match buffer {
                Some(buffer) => {
                    done += buffer.count();
                    self.finish(own, own, buffer);
                }
                None if self.room(own) == 0 => return Room::Contended,
                None => break,
            }
        }
        Room::Made
    }

    /// Handles a value at once that would pass the limit.
    pub(super) fn handle_alone(&self, own: &Local<T>, value: T) -> Result<(), TryPushError<T>> {
        let mark = own.handled.running.begin();
        // Orders the mark before the look at `closed` (O72).
        edge!(O72, full());
        // Relaxed: stopping waits for marks after it has set it (O72).
        if self.closed.load(Relaxed) {
            return Err(TryPushError::Stopped(value));
        }
        self.handle_now(own, value);
        drop(mark);
        Ok(())
    }

    /// Handles a value as a batch of its own. `own` is this thread's.
    fn handle_now(&self, own: &Local<T>, value: T) {
        let _mark = own.handled.running.begin();
        let buffer = own.bypass(value, self.settings.batch);
        self.finish(own, own, buffer);
    }

    /// Handles a value before it returns; inside the queue's own handler, when that has returned.
    pub(super) fn push_now(self: &Arc<Self>, value: T) {
        if !self.is_handling() {
            return self.handle_now(&self.nodes.own(), value);
        }
        let late = Late {
            core: Arc::clone(self),
            value,
        };
        let data = NonNull::from(Box::leak(Box::new(late))).cast();
        // SAFETY: `handle_late` takes the box that was leaked here, once, on this thread, and doesn't unwind.
        let job = unsafe { frame::Job::new(self.nodes.id(), data, handle_late::<T>) };
        frame::run_or_leave_with_owner(job);
    }
}

/// A value that came up inside the handler.
struct Late<T: Send + 'static> {
    core: Arc<Core<T>>,
    value: T,
}

/// Handles the value that `data` points to.
///
/// # Safety
///
/// 1. `data` is a leaked `Box<Late<T>>`, which this call takes.
unsafe fn handle_late<T: Send + 'static>(data: NonNull<()>) {
    // SAFETY: (1).
    let late = unsafe { Box::from_raw(data.cast::<Late<T>>().as_ptr()) };
    let Late { core, value } = *late;
    // A node of its own: nobody may hold the queue's handle any more.
    core.handle_now(&core.nodes.lend(), value);
}
