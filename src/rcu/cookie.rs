//! Grace periods that can be polled.

use std::fmt;

use crate::reclaim::Polled;
#[cfg(not(loom))]
use crate::thread::Payload;
use crate::thread::Snooze;

use super::global::Global;

/// A cookie for a grace period: of the readers that lived when it was taken.
///
/// Made by [`start_grace_period`](crate::start_grace_period) or
/// [`Domain::start_grace_period`](crate::Domain::start_grace_period). It keeps nothing waiting and may be dropped at any
/// time. Once it has elapsed, what those readers read happens before whatever follows the answer.
///
/// ```
/// let guard = graceperiod::enter();
/// let period = graceperiod::start_grace_period();
/// assert!(!period.has_elapsed());
/// drop(guard);
/// period.wait();
/// assert!(period.has_elapsed());
/// ```
///
/// It can be awaited, too, which blocks no thread: `period.await`.
#[doc(alias = "get_state_synchronize_rcu")]
#[doc(alias = "start_poll_synchronize_rcu")]
#[must_use = "a grace period that nobody asks for passes unnoticed"]
pub struct GracePeriod<D: Polled = Global> {
    inner: D::Inner,
    cookie: u64,
}

impl<D: Polled> GracePeriod<D> {
    pub(super) fn start(inner: D::Inner) -> Self {
        let cookie = D::cookie(&inner);
        Self { inner, cookie }
    }

    /// The identity of the domain.
    #[cfg(not(loom))]
    pub(super) fn id(&self) -> u64 {
        D::id(&self.inner)
    }

    /// Runs the domain's hooks that are due.
    #[cfg(not(loom))]
    pub(super) fn tend(&self) {
        D::tend(&self.inner);
    }

    /// Takes the panic of foreign code that ran for this wait.
    #[cfg(not(loom))]
    pub(super) fn report_panic(&self, payload: Payload) {
        D::report_panic(&self.inner, payload);
    }

    /// Whether the grace period has passed.
    ///
    /// Makes an attempt at completing it itself, at most one every few microseconds over all threads, so that polling
    /// alone is enough to get there. Never waits, and runs nobody's code. True once the domain has closed.
    #[doc(alias = "poll_state_synchronize_rcu")]
    pub fn has_elapsed(&self) -> bool {
        if D::has_elapsed(&self.inner, self.cookie) {
            return true;
        }
        D::advance(&self.inner);
        D::has_elapsed(&self.inner, self.cookie)
    }

    /// Waits for the grace period, driving it.
    ///
    /// # Panics
    ///
    /// Panics inside a guard of the same domain on this thread, for which it would wait for ever.
    #[doc(alias = "cond_synchronize_rcu")]
    pub fn wait(&self) {
        if self.has_elapsed() {
            return;
        }
        assert!(
            !D::is_inside(&self.inner),
            "graceperiod: waiting for a grace period inside a guard of the same domain would wait for itself; \
             drop this thread's guards first"
        );
        let mut snooze = Snooze::new();
        while !self.has_elapsed() {
            snooze.wait();
        }
    }
}

impl<D: Polled> Clone for GracePeriod<D> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            cookie: self.cookie,
        }
    }
}

impl<D: Polled> fmt::Debug for GracePeriod<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GracePeriod")
            .field("cookie", &self.cookie)
            .finish_non_exhaustive()
    }
}
