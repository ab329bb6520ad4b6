//! Panics of foreign code: caught where it runs, told to a hook or kept for whoever waits.

use std::any::Any;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};

use crate::counter::Shared;
use crate::sync::{Arc, Mutex, MutexGuard, panicking};
use crate::tuning::PAYLOADS_DEEP;

/// What a panic carries.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Takes a foreign panic.
pub(crate) type Hook = Arc<dyn Fn(Payload) + Send + Sync>;

/// The panics of one domain's or queue's foreign code.
pub(crate) struct Panics {
    hook: Mutex<Option<Hook>>,
    first: Mutex<Option<Payload>>,
    count: Shared,
}

impl Panics {
    crate::sync::const_fn! {
        pub(crate) fn new() -> Self {
            Self {
                hook: Mutex::new(None),
                first: Mutex::new(None),
                count: Shared::new(),
            }
        }
    }

    pub(crate) fn set_hook(&self, hook: Option<Hook>) {
        let before = std::mem::replace(&mut *self.hook.lock(), hook);
        // A user's closure: dropped without the lock.
        drop(before);
    }

    /// Runs foreign code that must not unwind into its caller.
    pub(crate) fn catch(&self, code: impl FnOnce()) {
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(code)) {
            self.report(payload);
        }
    }

    /// Tells the hook; without one, or if it panics itself, keeps the first payload for [`resume`](Self::resume).
    pub(crate) fn report(&self, payload: Payload) {
        self.count.add(1);
        let hook = self.hook.lock().clone();
        let kept = match hook {
            None => payload,
            // Moved in, since the last reference drops what the user's closure holds.
            Some(hook) => match panic::catch_unwind(AssertUnwindSafe(move || hook(payload))) {
                Ok(()) => return,
                Err(payload) => payload,
            },
        };
        let surplus = {
            let mut first = self.first.lock();
            match *first {
                None => {
                    *first = Some(kept);
                    None
                }
                Some(_) => Some(kept),
            }
        };
        if let Some(payload) = surplus {
            discard(payload);
        }
    }

    /// Locks everything here, for a fork.
    pub(crate) fn hold(&self) -> HeldPanics<'_> {
        HeldPanics {
            _hook: self.hook.lock(),
            _first: self.first.lock(),
        }
    }

    /// Takes the kept payload.
    pub(crate) fn take(&self) -> Option<Payload> {
        self.first.lock().take()
    }

    /// Goes on with the kept panic, if there is one and the thread isn't panicking already.
    pub(crate) fn resume(&self) {
        if !panicking()
            && let Some(payload) = self.take()
        {
            panic::resume_unwind(payload);
        }
    }

    /// Number of panics so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }
}

/// Panics in the hands of a thread that forks.
pub(crate) struct HeldPanics<'a> {
    _hook: MutexGuard<'a, Option<Hook>>,
    _first: MutexGuard<'a, Option<Payload>>,
}

impl fmt::Debug for HeldPanics<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldPanics").finish_non_exhaustive()
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        let hook = self.hook.lock().take();
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(move || drop(hook))) {
            discard(payload);
        }
        if let Some(payload) = self.take() {
            discard(payload);
        }
    }
}

impl fmt::Debug for Panics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Panics")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

/// Drops a payload whose own destructor may panic, with a payload that may in turn. Leaks the rest of an endless chain.
pub(crate) fn discard(mut payload: Payload) {
    for _ in 0..PAYLOADS_DEEP {
        match panic::catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(again) => payload = again,
        }
    }
    std::mem::forget(payload);
}
