//! A lock that its owner takes without an atomic read-modify-write.
//!
//! # Protocol
//!
//! - Owner: `busy = 1`; light fence; `revoke == 0` with Acquire, else step back; work; `busy = 0` with Release.
//! - Taker: `revoke: 0 -> 1` by compare-exchange (takers exclude each other); heavy fence; wait until `busy == 0`, or
//!   step back; work; `revoke = 0` with Release.
//!
//! `busy` also tells whether the owner's last fence was a full one. A taker whose heavy fence was refused trusts no
//! other: it steps back, or waits for the owner's next section.
//!
//! | `busy` | meaning | next | who moves it |
//! |---|---|---|---|
//! | `IDLE` | nobody inside | `BUSY`, `BUSY + FENCED` | owner |
//! | `BUSY` | owner inside | `IDLE` | owner |
//! | `FENCED` | nobody inside, and the next section makes a full fence too | `BUSY + FENCED` | owner |
//! | `BUSY + FENCED` | owner inside, after a full fence | `FENCED` | owner |
//!
//! # Invariants
//!
//! - I1: at most one thread calls [`Biased::try_enter`], and never from within a section of the same lock. Whoever
//!   hands ownership on orders it by Release and Acquire.
//! - I2: no user code, allocation, panic or system call runs inside an owner's section, so a taker waits for a few
//!   instructions of a running thread at most.
//! - I3: at most one of [`Section`] and [`Taken`] is in use at a time. Owner and taker store, fence and load: at least
//!   one sees the other (Dekker), and the one that sees the other steps back or waits.
//!
//! # Orderings
//!
//! - O1: `busy = 0` (Release) -> the taker's load of `busy` (Acquire): the owner's work is visible to the taker.
//! - O2: `revoke = 0` (Release) -> the owner's load and the next taker's compare-exchange (Acquire): the taker's work is
//!   visible to them. A Relaxed load here races.
//! - O3: `busy = 1`, light | `revoke = 1`, heavy: the Dekker pair of I3.
//!
//! Source: the biased locks of Kawachiya, Koseki and Onodera, "Lock Reservation" (OOPSLA 2002, section 3), without
//! their hand-over of the bias.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::sync::{AtomicBool, AtomicU8, Relaxed, UnsafeCell, edge, thread};

#[cfg(test)]
use super::heavy;
use super::{compiler, full, is_light_full};

const IDLE: u8 = 0;
const BUSY: u8 = 1;
const FENCED: u8 = 2;

/// A `T` that one thread owns and others may take over for a moment.
pub(crate) struct Biased<T> {
    busy: AtomicU8,
    revoke: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: by I3 only one thread at a time reaches `value`, and O1 and O2 order their turns.
unsafe impl<T: Send> Sync for Biased<T> {}

impl<T> Biased<T> {
    pub(crate) fn new(value: T) -> Self {
        let busy = if is_light_full() { FENCED } else { IDLE };
        Self {
            busy: AtomicU8::new(busy),
            revoke: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Opens the owner's section; `None` while a taker is inside.
    ///
    /// # Safety
    ///
    /// 1. The caller is the lock's only owner (I1).
    /// 2. No section of this lock is open on this thread (I1).
    #[inline]
    pub(crate) unsafe fn try_enter(&self) -> Option<Section<'_, T>> {
        let fenced = if is_light_full() { FENCED } else { IDLE };
        // Relaxed: only the owner stores `busy`, and the fence below orders it (O3).
        self.busy.store(BUSY | fenced, Relaxed);
        // Orders `busy` before the look at `revoke` (O3).
        if fenced == FENCED {
            edge!(O3, full());
        } else {
            compiler();
        }
        // Acquire: pairs with the Release in Taken::drop (O2); makes the taker's work visible.
        if self.revoke.load(edge!(O2, Acquire)) {
            // Release: pairs with the Acquire in Biased::is_free (O1); nothing was done, but the taker may go on.
            self.busy.store(fenced, edge!(O1, Release));
            return None;
        }
        Some(Section { lock: self, fenced })
    }

    /// Keeps the owner and other takers out, from the next heavy fence on; `None` if another taker is inside.
    pub(crate) fn revoke(&self) -> Option<Revoked<'_, T>> {
        // Acquire: pairs with the Release in Taken::drop (O2).
        // Relaxed on failure: nothing is read.
        self.revoke
            .compare_exchange(false, true, edge!(O2, Acquire), Relaxed)
            .ok()?;
        Some(Revoked { lock: self })
    }

    /// As [`revoke`](Self::revoke), but waits for other takers.
    pub(crate) fn revoke_waiting(&self) -> Revoked<'_, T> {
        loop {
            match self.revoke() {
                Some(revoked) => return revoked,
                None => thread::yield_now(),
            }
        }
    }

    /// Takes the lock over unless the owner or another taker is inside.
    #[cfg(test)]
    pub(crate) fn try_take(&self) -> Option<Taken<'_, T>> {
        let revoked = self.revoke()?;
        // Orders `revoke` before the look at `busy` (O3).
        let heavy = edge!(O3, heavy());
        revoked.try_take(heavy).ok()
    }

    /// Whether a taker is inside, so that the owner had better go elsewhere. A hint.
    pub(crate) fn is_revoked(&self) -> bool {
        // Relaxed: try_enter decides.
        self.revoke.load(Relaxed)
    }

    /// Whether the owner is outside, as a taker whose heavy fence was made, or was refused, may trust.
    fn is_free(&self, heavy: bool) -> bool {
        // Acquire: pairs with the Release in Section::drop (O1); makes the owner's work visible.
        match self.busy.load(edge!(O1, Acquire)) {
            IDLE => heavy,
            busy => busy & BUSY == 0,
        }
    }
}

impl<T: Default> Default for Biased<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for Biased<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Biased").finish_non_exhaustive()
    }
}

/// The owner's turn.
#[derive(Debug)]
pub(crate) struct Section<'a, T> {
    lock: &'a Biased<T>,
    fenced: u8,
}

/// The owner is kept out, but may still be inside.
#[derive(Debug)]
pub(crate) struct Revoked<'a, T> {
    lock: &'a Biased<T>,
}

impl<'a, T> Revoked<'a, T> {
    /// Turns into the taker's turn if the owner is outside. `heavy` tells what the heavy fence after `revoke` said.
    pub(crate) fn try_take(self, heavy: bool) -> Result<Taken<'a, T>, Self> {
        if self.lock.is_free(heavy) {
            let taken = Taken { lock: self.lock };
            std::mem::forget(self);
            Ok(taken)
        } else {
            Err(self)
        }
    }

    /// Waits for the owner's section to end. `heavy` tells what the heavy fence after `revoke` said.
    pub(crate) fn take(self, heavy: bool) -> Taken<'a, T> {
        let mut revoked = self;
        loop {
            match revoked.try_take(heavy) {
                Ok(taken) => return taken,
                Err(again) => revoked = again,
            }
            thread::yield_now();
        }
    }

    /// Takes the lock with another value, wherever its owner was; the old one is neither looked at nor dropped.
    ///
    /// # Safety
    ///
    /// 1. No other thread is left that could use the lock, and this one has no section of it open.
    pub(crate) unsafe fn replace(self, value: T) -> Taken<'a, T> {
        // SAFETY: (1): nobody else reaches the value.
        self.lock
            .value
            .with_mut(|old| unsafe { std::ptr::write(old, value) });
        // Relaxed: no other thread is left (1).
        self.lock.busy.store(FENCED, Relaxed);
        let taken = Taken { lock: self.lock };
        std::mem::forget(self);
        taken
    }
}

impl<T> Drop for Revoked<'_, T> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in Biased::try_enter (O2); nothing was done.
        self.lock.revoke.store(false, edge!(O2, Release));
    }
}

/// Another thread's turn.
#[derive(Debug)]
pub(crate) struct Taken<'a, T> {
    lock: &'a Biased<T>,
}

impl<T> Drop for Section<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in Biased::is_free (O1); hands the owner's work to a taker.
        self.lock.busy.store(self.fenced, edge!(O1, Release));
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in Biased::try_enter and the takers' compare-exchange (O2).
        self.lock.revoke.store(false, edge!(O2, Release));
    }
}

macro_rules! deref_inside {
    ($($guard:ident)*) => {$(
        impl<T> Deref for $guard<'_, T> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                // SAFETY: by I3 nobody else reaches the value while this turn lasts.
                self.lock.value.with(|value| unsafe { &*value })
            }
        }

        impl<T> DerefMut for $guard<'_, T> {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: by I3 nobody else reaches the value while this turn lasts.
                self.lock.value.with_mut(|value| unsafe { &mut *value })
            }
        }
    )*};
}

deref_inside!(Section Taken);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn owner_steps_back_while_a_taker_is_inside() {
        let lock = Biased::new(0);
        let mut taken = lock.try_take().expect("nobody is inside");
        *taken += 1;
        // SAFETY: this thread is the owner, and no section is open.
        assert!(unsafe { lock.try_enter() }.is_none());
        drop(taken);
        // SAFETY: as above.
        let section = unsafe { lock.try_enter() }.expect("nobody is inside");
        assert_eq!(*section, 1);
    }

    #[test]
    fn taker_skips_a_busy_owner() {
        let lock = Biased::new(0);
        // SAFETY: this thread is the owner, and no section is open.
        let section = unsafe { lock.try_enter() };
        assert!(section.is_some());
        assert!(lock.try_take().is_none());
        drop(section);
        assert!(lock.try_take().is_some());
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;

    fn take(lock: &Biased<u32>) -> u32 {
        match lock.try_take() {
            Some(mut taken) => {
                *taken += 1;
                1
            }
            None => 0,
        }
    }

    fn own(lock: &Biased<u32>) -> u32 {
        // SAFETY: only the model's main thread enters as the owner, one section at a time.
        match unsafe { lock.try_enter() } {
            Some(mut section) => {
                *section += 1;
                1
            }
            None => 0,
        }
    }

    #[test]
    fn o1_o2_o3_owner_and_taker_exclude_each_other() {
        loom::model(|| {
            let lock = Arc::new(Biased::new(0_u32));
            let other = Arc::clone(&lock);
            let taker = loom::thread::spawn(move || take(&other) + take(&other));
            let done = own(&lock) + own(&lock);
            let done = done + taker.join().expect("the taker doesn't panic");
            let total = lock.try_take().expect("nobody is inside");
            assert_eq!(*total, done);
        });
    }

    #[test]
    fn o2_taker_that_steps_back_hands_on_what_the_one_before_did() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let lock = Arc::new(Biased::new(0_u32));
            let takers = [(), ()].map(|()| {
                let lock = Arc::clone(&lock);
                loom::thread::spawn(move || take(&lock))
            });
            let mut done = own(&lock) + own(&lock);
            for taker in takers {
                done += taker.join().expect("the taker doesn't panic");
            }
            let total = lock.try_take().expect("nobody is inside");
            assert_eq!(*total, done);
        });
    }
}
