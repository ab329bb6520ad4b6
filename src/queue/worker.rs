//! The background thread of a queue, and how it is told.
//!
//! # Protocol
//!
//! The thread works until it finds nothing, says that it is about to sleep, looks once more and sleeps. A push stores
//! its item, looks whether the thread sleeps and, if so, says that it is awake and wakes it; the next pushes see it awake
//! and neither write nor call the system.
//!
//! | state | meaning | next | who moves it |
//! |---|---|---|---|
//! | `NONE` | never needed so far | `AWAKE`, `FAILED` | the push that needs it, by compare-exchange |
//! | `AWAKE` | looks at every node before it sleeps | `DOZING`, `PARKED` | the thread |
//! | `DOZING` | sleeps for the longest delay at most, so late items need no wake | `AWAKE` | the thread, or a full batch |
//! | `PARKED` | sleeps until told | `AWAKE` | the thread, or any first item |
//! | `FAILED` | could not be started: pushes drain inline | | |
//!
//! # Orderings
//!
//! - O75: item stored, full fence, `state` | `state` stored, full fence, nodes: the Dekker pair. Either the push sees the
//!   thread asleep or the thread sees the item.
//! - O76: `kicked` set (Release) -> taken by the thread (Acquire): it sees what was pushed before the kick.

use std::time::Duration;

use crate::fence::full;
use crate::sync::{AtomicBool, AtomicU8, Mutex, MutexGuard, Relaxed, edge, park_timeout, thread};

const NONE: u8 = 0;
const AWAKE: u8 = 1;
const DOZING: u8 = 2;
const PARKED: u8 = 3;
const FAILED: u8 = 4;

/// What the thread found before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// Something to do at once.
    Now,
    /// The oldest item becomes late then.
    In(Duration),
    /// Nothing waits.
    Nothing,
}

/// The queue's side of its thread.
#[derive(Debug)]
pub(super) struct Worker {
    state: AtomicU8,
    join: Mutex<Option<thread::JoinHandle<()>>>,
    finish: AtomicBool,
    kicked: AtomicBool,
    name: String,
}

/// A worker's handle in the hands of a thread that forks.
#[derive(Debug)]
pub(super) struct HeldWorker<'a> {
    worker: &'a Worker,
    join: MutexGuard<'a, Option<thread::JoinHandle<()>>>,
}

impl HeldWorker<'_> {
    /// Forgets the thread, in the child of a fork that has left it behind: neither joins nor detaches what isn't there.
    pub(super) fn forget_thread(&mut self) {
        std::mem::forget(self.join.take());
        // Relaxed: there is one thread.
        if self.worker.is_driving() {
            self.worker.state.store(NONE, Relaxed);
        }
    }
}

impl Worker {
    pub(super) fn new(name: String) -> Self {
        Self {
            state: AtomicU8::new(NONE),
            join: Mutex::new(None),
            finish: AtomicBool::new(false),
            kicked: AtomicBool::new(false),
            name,
        }
    }

    /// Tells the thread of a first item: only a parked one has to know. Whether one has to be started.
    pub(super) fn tell_first(&self) -> bool {
        // Orders the push before the look at the thread's state (O75).
        edge!(O75, full());
        // Relaxed: the fence orders it (O75).
        let state = self.state.load(Relaxed);
        if state == PARKED {
            self.wake(state);
        }
        state == NONE
    }

    /// Tells the thread that there is something to do at once. Whether one has to be started.
    pub(super) fn tell_ready(&self) -> bool {
        // Orders the push before the look at the thread's state (O75).
        edge!(O75, full());
        // Relaxed: the fence orders it (O75).
        let state = self.state.load(Relaxed);
        if matches!(state, DOZING | PARKED) {
            self.wake(state);
        }
        state == NONE
    }

    /// Makes the thread take what is not late, too. Whether one has to be started.
    pub(super) fn kick(&self) -> bool {
        // Release: pairs with the Acquire in was_kicked (O76); the items are visible to the round that it starts.
        self.kicked.store(true, edge!(O76, Release));
        self.tell_ready()
    }

    /// Wakes a thread that was seen to sleep.
    ///
    /// Its handle is there: whoever started it had taken the lock by then. Had he not, his lock would come after the one
    /// here, and so would the state that was seen, which can't be.
    #[cold]
    fn wake(&self, seen: u8) {
        // Relaxed: if it fails, somebody else has woken the thread, or it woke up and looks again (O75).
        if self
            .state
            .compare_exchange(seen, AWAKE, Relaxed, Relaxed)
            .is_ok()
            && let Some(join) = &*self.join.lock()
        {
            join.thread().unpark();
        }
    }

    /// Starts the thread, if nobody else does.
    #[cold]
    pub(super) fn start(&self, run: impl FnOnce() + Send + 'static) {
        // Relaxed: the winner does the rest under the lock.
        if self
            .state
            .compare_exchange(NONE, AWAKE, Relaxed, Relaxed)
            .is_err()
        {
            return;
        }
        let mut join = self.join.lock();
        // Relaxed: ordered by the lock, which whoever finishes takes after storing.
        if self.finish.load(Relaxed) {
            return;
        }
        self.spawn(&mut join, run);
    }

    fn spawn(
        &self,
        join: &mut Option<thread::JoinHandle<()>>,
        run: impl FnOnce() + Send + 'static,
    ) {
        match thread::Builder::new().name(self.name.clone()).spawn(run) {
            Ok(handle) => *join = Some(handle),
            // Relaxed: a push that doesn't see it yet leaves its items to the next one.
            Err(_) => self.state.store(FAILED, Relaxed),
        }
    }

    /// Locks the handle, for a fork.
    pub(super) fn hold(&self) -> HeldWorker<'_> {
        HeldWorker {
            worker: self,
            join: self.join.lock(),
        }
    }

    /// Starts the thread again that a fork has left behind, if it is needed: also to finish.
    pub(super) fn restart(&self, run: impl FnOnce() + Send + 'static) {
        // Relaxed: there is one thread.
        if self.state.load(Relaxed) == NONE {
            // Relaxed: as above.
            self.state.store(AWAKE, Relaxed);
            self.spawn(&mut self.join.lock(), run);
        }
    }

    /// What happens if the system has no thread to give.
    #[cfg(all(test, not(loom)))]
    pub(super) fn fail(&self) {
        // Relaxed: the test's own thread.
        self.state.store(FAILED, Relaxed);
    }

    /// Whether the thread drives the queue, so that pushes need not.
    pub(super) fn is_driving(&self) -> bool {
        // Relaxed: a hint.
        !matches!(self.state.load(Relaxed), NONE | FAILED)
    }

    pub(super) fn has_failed(&self) -> bool {
        // Relaxed: a hint.
        self.state.load(Relaxed) == FAILED
    }

    /// Makes the thread finish, without waiting for it; `false` if there is none.
    pub(super) fn finish(&self) -> bool {
        // Relaxed: the lock below orders it before a start; the fence of tell_ready before the look at the state (O75).
        self.finish.store(true, Relaxed);
        let exists = self.join.lock().is_some();
        self.tell_ready();
        exists
    }

    /// Waits until the thread has ended. Returns at once on the thread itself, and where another call waits.
    pub(super) fn join(&self) {
        let join = self.join.lock().take();
        if let Some(join) = join
            && join.thread().id() != thread::current().id()
        {
            // Whoever has just called it awake may find no handle any more by which to unpark it.
            join.thread().unpark();
            // The thread catches what foreign code throws, so there is no panic to pass on.
            let _ended = join.join();
        }
    }

    // What follows is for the thread itself.

    pub(super) fn is_finishing(&self) -> bool {
        // Relaxed: ordered by the fence in announce (O75).
        self.finish.load(Relaxed)
    }

    /// Whether somebody wants everything now; says so once.
    pub(super) fn was_kicked(&self) -> bool {
        // Relaxed, Acquire: only a hint, then the swap, which pairs with the Release in kick (O76).
        self.kicked.load(Relaxed) && self.kicked.swap(false, edge!(O76, Acquire))
    }

    /// Takes a kick up again that couldn't be followed everywhere.
    pub(super) fn kick_again(&self) {
        // Relaxed: the thread's own note to itself.
        self.kicked.store(true, Relaxed);
    }

    /// Sleeps until told or until `pending` is late; returns whether nothing at all was pending.
    ///
    /// `look` runs after the thread has said that it sleeps. One that found nothing dozes first and parks only if
    /// `idle` says that it did so before.
    pub(super) fn sleep(
        &self,
        idle: bool,
        longest: Duration,
        look: impl FnOnce() -> Pending,
    ) -> bool {
        self.announce(if idle { PARKED } else { DOZING });
        // Relaxed: ordered by the fence in announce (O75).
        let told = self.is_finishing() || self.kicked.load(Relaxed);
        let pending = if told { Pending::Now } else { look() };
        match pending {
            Pending::Nothing if idle => self.park(),
            Pending::Nothing => park_timeout(longest),
            Pending::In(time) if !idle => park_timeout(time),
            Pending::In(_) | Pending::Now => {}
        }
        // Relaxed: the thread looks at everything before it announces the next sleep (O75).
        self.state.store(AWAKE, Relaxed);
        pending == Pending::Nothing
    }

    fn announce(&self, state: u8) {
        // Relaxed: the fence orders it (O75).
        self.state.store(state, Relaxed);
        edge!(O75, full());
    }

    fn park(&self) {
        // Relaxed: only whether somebody has woken the thread; what he stored is looked for after (O75).
        while self.state.load(Relaxed) == PARKED {
            thread::park();
        }
    }
}
