//! A domain's optional thread: closes what idles, drives grace periods, drops what is ready.
//!
//! The worker is an inner reference. It ends when the domain closes, and whoever closes joins it, unless that is the
//! worker itself.

use std::io;

use crate::sync::{Acquire, Arc, AtomicBool, Release, now, park_timeout, thread};

use super::core::Core;
use super::limit::nanos;

/// The handle by which the close ends the thread.
#[derive(Debug)]
pub(super) struct Worker {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Worker {
    pub(super) fn start(core: &Arc<Core>, name: String) -> io::Result<Self> {
        if name.contains('\0') {
            let what = "a thread's name can't contain a NUL character";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (inner, stopped) = (Arc::clone(core), Arc::clone(&stop));
        let thread = thread::Builder::new().name(name).spawn(move || {
            // Acquire: pairs with the Release in stop (O29).
            while !stopped.load(Acquire) {
                park_timeout(inner.config.max_delay);
                inner.tick();
            }
        })?;
        *core.worker.lock() = Some(thread.thread().clone());
        Ok(Self { stop, thread })
    }

    /// Ends the thread, and waits for it if told so, but not for itself.
    pub(super) fn stop(self, wait: bool) {
        // Release: pairs with the Acquire in the thread's loop (O29).
        self.stop.store(true, Release);
        self.thread.thread().unpark();
        if wait && self.thread.thread().id() != thread::current().id() {
            // The loop runs foreign code only where panics are caught.
            let _ended = self.thread.join();
        }
    }
}

impl Core {
    /// Wakes the worker if there is one.
    pub(super) fn kick(&self) {
        if let Some(worker) = &*self.worker.lock() {
            worker.unpark();
        }
    }

    fn tick(&self) {
        let mine = self.borrow_record();
        let now = now();
        let since = if self.config.drop_at_retire {
            now.saturating_sub(nanos(self.config.max_delay))
        } else {
            now
        };
        self.take_over(mine.owner(), since);
        if mine.own.is_held_since(now, true) {
            self.clock.advance(&self.records, None);
            self.look_for_stalls();
            self.ripen(mine.owner());
            self.drop_ready(mine.owner(), usize::MAX);
        }
    }
}
