//! A domain's optional thread: closes what idles, drives grace periods, drops what is ready.
//!
//! The worker is an inner reference. It ends when the domain closes, and whoever closes joins it, unless that is the
//! worker itself. The child of a fork has no worker until the fork's end starts another, or the next thread that would
//! wake it.

use std::io;

use crate::sync::{Arc, AtomicBool, edge, now, park_timeout, thread};

use super::core::Core;
use super::limit::nanos;

/// The handle by which the thread is woken, and by which the close ends it.
#[derive(Debug)]
pub(super) struct Worker {
    name: String,
    stop: Arc<AtomicBool>,
    /// None in the child of a fork, for as long as no other thread could be started.
    thread: Option<thread::JoinHandle<()>>,
}

impl Worker {
    pub(super) fn start(core: &Arc<Core>, name: String) -> io::Result<()> {
        if name.contains('\0') {
            let what = "a thread's name can't contain a NUL character";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut worker = Self {
            name,
            stop: Arc::new(AtomicBool::new(false)),
            thread: None,
        };
        worker.spawn(core)?;
        *core.worker.lock() = Some(worker);
        Ok(())
    }

    fn spawn(&mut self, core: &Arc<Core>) -> io::Result<()> {
        let (inner, stopped) = (Arc::clone(core), Arc::clone(&self.stop));
        let builder = thread::Builder::new().name(self.name.clone());
        self.thread = Some(builder.spawn(move || {
            // Acquire: pairs with the Release in stop (O29).
            while !stopped.load(edge!(O29, Acquire)) {
                park_timeout(inner.config.max_delay);
                inner.tick();
            }
        })?);
        Ok(())
    }

    /// Ends the thread, and waits for it if told so, but not for itself.
    pub(super) fn stop(self, wait: bool) {
        // Release: pairs with the Acquire in the thread's loop (O29).
        self.stop.store(true, edge!(O29, Release));
        let Some(thread) = self.thread else { return };
        thread.thread().unpark();
        if wait && thread.thread().id() != thread::current().id() {
            // The loop runs foreign code only where panics are caught.
            let _ended = thread.join();
        }
    }

    /// Forgets the thread, in the child of a fork that has left it behind: neither joins nor detaches what isn't there.
    pub(super) fn forget_thread(&mut self) {
        std::mem::forget(self.thread.take());
    }
}

impl Core {
    /// Wakes the worker if there is one; starts it again if a fork has left it behind.
    pub(super) fn kick(&self) {
        let mut worker = self.worker.lock();
        match &mut *worker {
            Some(Worker {
                thread: Some(thread),
                ..
            }) => thread.thread().unpark(),
            Some(worker) => {
                if let Some(core) = self.shared() {
                    // The next kick tries again.
                    let _started = worker.spawn(&core);
                }
            }
            None => {}
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
