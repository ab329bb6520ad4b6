//! Biased locks that nobody may be inside while the process forks.
//!
//! # Protocol
//!
//! Keep the owners of all locks out, make one heavy fence, settle each lock. If the system refuses the fence, a lock whose
//! owner has idled since can't be told from one whose owner has just gone inside. Such a lock stays in *doubt*: that does
//! the parent no harm, and the child replaces its value without a look at it.

use std::fmt;

use crate::sync::thread;
use crate::tuning::FORK_YIELDS;

use super::{Biased, Revoked, Taken};

/// A lock whose owner is kept out until this is dropped.
pub(crate) struct Kept<'a, T> {
    revoked: Option<Revoked<'a, T>>,
    taken: Option<Taken<'a, T>>,
}

impl<'a, T> Kept<'a, T> {
    /// Keeps the owner out from the next heavy fence on, waiting for other takers.
    pub(crate) fn new(lock: &'a Biased<T>) -> Self {
        Self {
            revoked: Some(lock.revoke_waiting()),
            taken: None,
        }
    }

    /// Waits for the owner's section to end, unless that is in doubt. `heavy` tells what the heavy fence said.
    pub(crate) fn settle(&mut self, heavy: bool) {
        let mut yields = 0;
        while let Some(revoked) = self.revoked.take() {
            match revoked.try_take(heavy) {
                Ok(taken) => self.taken = Some(taken),
                Err(revoked) => {
                    self.revoked = Some(revoked);
                    if !heavy && yields == FORK_YIELDS {
                        return;
                    }
                    yields += u32::from(!heavy);
                    thread::yield_now();
                }
            }
        }
    }

    /// The value, unless the lock is in doubt.
    pub(crate) fn get(&mut self) -> Option<&mut T> {
        self.taken.as_deref_mut()
    }

    /// The value; if the lock is in doubt, `fresh` in its place. The old one is leaked then.
    ///
    /// # Safety
    ///
    /// 1. The process has no other thread, and this one has no section of the lock open.
    pub(crate) unsafe fn get_or_replace(&mut self, fresh: T) -> &mut T {
        if let Some(revoked) = self.revoked.take() {
            // SAFETY: (1).
            self.taken = Some(unsafe { revoked.replace(fresh) });
        }
        self.taken.as_deref_mut().expect("taken or revoked")
    }
}

impl<T> fmt::Debug for Kept<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::heavy;
    use super::*;

    #[test]
    fn kept_owner_steps_back_until_the_fork_is_over() {
        let lock = Biased::new(1);
        let mut kept = Kept::new(&lock);
        kept.settle(heavy());
        // SAFETY: this thread is the owner, and no section is open.
        assert!(unsafe { lock.try_enter() }.is_none());
        assert_eq!(kept.get(), Some(&mut 1));
        drop(kept);
        // SAFETY: as above.
        assert!(unsafe { lock.try_enter() }.is_some());
    }

    #[test]
    fn value_of_a_lock_in_doubt_is_replaced_unseen() {
        let lock = Biased::new(String::from("old"));
        // SAFETY: this thread is the owner, and no section is open.
        let section = unsafe { lock.try_enter() };
        let mut kept = Kept::new(&lock);
        kept.settle(false);
        assert_eq!(kept.get(), None);
        // The owner has vanished inside its section. The test keeps the leak checker content.
        let old = std::mem::take(&mut *section.expect("nobody is inside"));
        // SAFETY: this thread alone knows the lock.
        assert_eq!(unsafe { kept.get_or_replace(String::from("new")) }, "new");
        drop((kept, old));
        assert_eq!(*lock.try_take().expect("nobody is inside"), "new");
    }
}
