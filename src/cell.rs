//! Cells whose value readers see without a lock and writers replace whole.
//!
//! # Protocol
//!
//! The value lives in a box. A load is one pointer read under a guard; a replacement publishes a new box and retires the
//! old one.
//!
//! # Invariants
//!
//! - I1: the pointer is null (in an [`RcuOption`] only) or came from a box that this cell owns.
//! - I2: a box that was taken out of the cell is retired in the cell's domain, once.
//!
//! # Orderings
//!
//! - O80: publishing by swap or compare-exchange (Release) -> the protected load (Acquire): the value's construction.
//!   The swap's Acquire half sees the construction of the value that it retires.

use std::fmt;
use std::ptr::{self, NonNull};

use crate::rcu::Global;
use crate::reclaim::ReadSection;
use crate::sync::{AtomicPtr, Relaxed, edge};

/// A cell that may be empty. See [`RcuCell`] for one that never is.
///
/// ```
/// use graceperiod::RcuOption;
///
/// let cell = RcuOption::empty();
/// cell.replace(Some("hello"));
/// let guard = graceperiod::enter();
/// assert_eq!(cell.load(&guard), Some(&"hello"));
/// cell.take();
/// assert_eq!(cell.load(&guard), None);
/// ```
pub struct RcuOption<T: 'static, D: ReadSection = Global> {
    value: AtomicPtr<T>,
    domain: D::Inner,
}

/// A cell that always holds a value: readers load a reference under a guard, writers replace the whole.
///
/// The old value is retired: dropped after a grace period, by the rules of [`retire`](crate::retire). Dropping the cell
/// retires the last one.
///
/// ```
/// use graceperiod::RcuCell;
///
/// let config = RcuCell::new(vec!["a", "b"]);
/// let guard = graceperiod::enter();
/// let before = config.load(&guard);
/// config.replace(vec!["c"]);
/// assert_eq!(*before, ["a", "b"]);
/// assert_eq!(*config.load(&guard), ["c"]);
/// ```
///
/// What waits for readers may be dropped on any thread, so it must be `Send`:
///
/// ```compile_fail,E0277
/// graceperiod::RcuCell::new(std::rc::Rc::new(1));
/// ```
///
/// ```
/// graceperiod::RcuCell::new(std::sync::Arc::new(1));
/// ```
#[doc(alias = "rcu_dereference")]
#[doc(alias = "rcu_assign_pointer")]
pub struct RcuCell<T: 'static, D: ReadSection = Global>(RcuOption<T, D>);

fn boxed<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes back the value of a box that was never published.
///
/// # Safety
///
/// 1. `ptr` came from [`boxed`] and nobody else has it.
unsafe fn unboxed<T>(ptr: *mut T) -> T {
    // SAFETY: (1).
    *unsafe { Box::from_raw(ptr) }
}

impl<T: Send + Sync + 'static> RcuOption<T> {
    /// Makes an empty cell in the global domain.
    #[must_use]
    pub fn empty() -> Self {
        Self::empty_in(&Global)
    }

    /// Makes a cell in the global domain.
    #[must_use]
    pub fn new(value: Option<T>) -> Self {
        Self::new_in(value, &Global)
    }
}

impl<T: Send + Sync + 'static, D: ReadSection> RcuOption<T, D> {
    /// Makes an empty cell in `domain`.
    #[must_use]
    pub fn empty_in(domain: &D) -> Self {
        Self::new_in(None, domain)
    }

    /// Makes a cell in `domain`. It may outlive it, but can't be loaded from then on.
    #[must_use]
    pub fn new_in(value: Option<T>, domain: &D) -> Self {
        Self {
            value: AtomicPtr::new(value.map_or(ptr::null_mut(), boxed)),
            domain: domain.inner(),
        }
    }

    /// Returns the present value, which stays valid until the guard goes. Never waits, and runs nobody's code.
    ///
    /// Acquire: what happened before the value was published is visible.
    ///
    /// # Panics
    ///
    /// Panics if the guard belongs to another domain.
    #[inline]
    pub fn load<'g>(&self, guard: &'g D::Guard<'_>) -> Option<&'g T> {
        // SAFETY: null or the cell's box (I1); retired no earlier than it was taken out, so the guard protects it.
        unsafe { self.protected(guard).as_ref() }
    }

    #[inline]
    fn protected(&self, guard: &D::Guard<'_>) -> *mut T {
        assert!(
            D::admits(&self.domain, guard),
            "graceperiod: this cell belongs to another domain than the guard; enter the domain that it was made in"
        );
        // Acquire, by the trait's promise: pairs with the Release in swap and exchange (O80).
        D::protect_load(guard, &self.value)
    }

    /// Replaces the value and retires the old one.
    ///
    /// May run ready destructors and wait at the limit, as [`retire`](crate::retire) says.
    pub fn replace(&self, value: Option<T>) {
        self.retire(self.swap(value.map_or(ptr::null_mut(), boxed)));
    }

    /// Empties the cell and retires the value. Returns whether there was one.
    pub fn take(&self) -> bool {
        let old = self.swap(ptr::null_mut());
        self.retire(old);
        !old.is_null()
    }

    /// As [`replace`](Self::replace), unless the calling thread has retired as much as it may; then the cell stays as it
    /// is and `value` comes back.
    ///
    /// What is done about the limit first, [`OnLimit`](crate::OnLimit) says.
    ///
    /// # Errors
    ///
    /// Fails at the domain's limit, in objects or bytes.
    pub fn try_replace(&self, value: Option<T>) -> Result<(), Option<T>> {
        if !D::has_room(&self.domain) {
            return Err(value);
        }
        self.replace(value);
        Ok(())
    }

    /// Replaces the value if it is still the very one that `current` refers to, else hands `value` back.
    ///
    /// # Errors
    ///
    /// Fails if the cell holds another value, also an equal one. (Values of size zero can't be told apart.)
    pub fn compare_exchange(&self, current: Option<&T>, value: Option<T>) -> Result<(), Option<T>> {
        let current = current.map_or(ptr::null_mut(), |value| ptr::from_ref(value).cast_mut());
        let fresh = value.map_or(ptr::null_mut(), boxed);
        match self.exchange(current, fresh) {
            Ok(()) => Ok(()),
            // SAFETY: made above, and not published.
            Err(()) => Err((!fresh.is_null()).then(|| unsafe { unboxed(fresh) })),
        }
    }

    /// Replaces the value by what `f` makes of it, again if somebody else was faster. Lock-free.
    ///
    /// Since the old value is retired inside a guard, nothing bounds a loop of updates under one guard.
    ///
    /// # Panics
    ///
    /// Panics if the guard belongs to another domain; passes on a panic of `f`, with the cell unchanged.
    pub fn update(&self, guard: &D::Guard<'_>, mut f: impl FnMut(Option<&T>) -> Option<T>) {
        loop {
            let current = self.protected(guard);
            // SAFETY: as in load.
            let fresh = f(unsafe { current.as_ref() }).map_or(ptr::null_mut(), boxed);
            if self.exchange(current, fresh).is_ok() {
                return;
            }
            if !fresh.is_null() {
                // SAFETY: made above, and not published.
                drop(unsafe { unboxed(fresh) });
            }
        }
    }

    fn swap(&self, fresh: *mut T) -> *mut T {
        // AcqRel: Release pairs with the Acquire in protected (O80); Acquire with the Release that published the old one.
        self.value.swap(fresh, edge!(O80, AcqRel))
    }

    fn exchange(&self, current: *mut T, fresh: *mut T) -> Result<(), ()> {
        // Release: pairs with the Acquire in protected (O80). What is taken out, `current` has shown to this thread.
        // Relaxed on failure: nothing is read.
        match self
            .value
            .compare_exchange(current, fresh, edge!(O80, Release), Relaxed)
        {
            Ok(old) => {
                self.retire(old);
                Ok(())
            }
            Err(_) => Err(()),
        }
    }
}

impl<T: 'static, D: ReadSection> RcuOption<T, D> {
    fn retire(&self, old: *mut T) {
        if let Some(old) = NonNull::new(old) {
            // SAFETY: taken out of the cell, so no later reader reaches it, and dropped once (I2). Every way to put a value
            // in asks that it be `Send`.
            unsafe { D::retire_box(&self.domain, old) };
        }
    }
}

impl<T: 'static, D: ReadSection> Drop for RcuOption<T, D> {
    fn drop(&mut self) {
        // Relaxed: `&mut self` comes after every store. Readers may still hold what they loaded, so the value is retired.
        let old = self.value.load(Relaxed);
        self.retire(old);
    }
}

impl<T: Send + Sync + 'static> RcuCell<T> {
    /// Makes a cell in the global domain.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self::new_in(value, &Global)
    }
}

impl<T: Send + Sync + 'static, D: ReadSection> RcuCell<T, D> {
    /// Makes a cell in `domain`. It may outlive it, but can't be loaded from then on.
    #[must_use]
    pub fn new_in(value: T, domain: &D) -> Self {
        Self(RcuOption::new_in(Some(value), domain))
    }

    /// Returns the present value, which stays valid until the guard goes. Never waits, and runs nobody's code.
    ///
    /// Acquire: what happened before the value was published is visible.
    ///
    /// # Panics
    ///
    /// Panics if the guard belongs to another domain.
    #[inline]
    pub fn load<'g>(&self, guard: &'g D::Guard<'_>) -> &'g T {
        // SAFETY: never null, since all ways to change the cell give a value; else as in RcuOption::load.
        unsafe { &*self.0.protected(guard) }
    }

    /// Replaces the value and retires the old one.
    ///
    /// May run ready destructors and wait at the limit, as [`retire`](crate::retire) says.
    pub fn replace(&self, value: T) {
        self.0.replace(Some(value));
    }

    /// As [`replace`](Self::replace), unless the calling thread has retired as much as it may; then the cell stays as it
    /// is and `value` comes back.
    ///
    /// What is done about the limit first, [`OnLimit`](crate::OnLimit) says.
    ///
    /// # Errors
    ///
    /// Fails at the domain's limit, in objects or bytes.
    ///
    /// ```
    /// use graceperiod::{Domain, OnLimit, RcuCell};
    ///
    /// let domain = Domain::builder().limit_objects(64).on_limit(OnLimit::Fail).build();
    /// let cell = RcuCell::new_in(0, &domain);
    /// let reader = domain.enter();
    /// let refused = (1..).find(|n| cell.try_replace(*n).is_err());
    /// assert_eq!(refused, Some(65));
    /// drop(reader);
    /// domain.barrier();
    /// assert!(cell.try_replace(65).is_ok());
    /// ```
    pub fn try_replace(&self, value: T) -> Result<(), T> {
        if !D::has_room(&self.0.domain) {
            return Err(value);
        }
        self.replace(value);
        Ok(())
    }

    /// Replaces the value if it is still the very one that `current` refers to, else hands `value` back.
    ///
    /// # Errors
    ///
    /// Fails if the cell holds another value, also an equal one. (Values of size zero can't be told apart.)
    pub fn compare_exchange(&self, current: &T, value: T) -> Result<(), T> {
        let current = ptr::from_ref(current).cast_mut();
        let fresh = boxed(value);
        self.0
            .exchange(current, fresh)
            // SAFETY: made above, and not published.
            .map_err(|()| unsafe { unboxed(fresh) })
    }

    /// Replaces the value by what `f` makes of it, again if somebody else was faster. Lock-free.
    ///
    /// Since the old value is retired inside a guard, nothing bounds a loop of updates under one guard.
    ///
    /// # Panics
    ///
    /// Panics if the guard belongs to another domain; passes on a panic of `f`, with the cell unchanged.
    pub fn update(&self, guard: &D::Guard<'_>, mut f: impl FnMut(&T) -> T) {
        self.0.update(guard, |current| current.map(&mut f));
    }
}

impl<T: Send + Sync + 'static> Default for RcuOption<T> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<T: Default + Send + Sync + 'static> Default for RcuCell<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: Send + Sync + 'static> From<T> for RcuCell<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Send + Sync + 'static> From<Option<T>> for RcuOption<T> {
    fn from(value: Option<T>) -> Self {
        Self::new(value)
    }
}

// No look at the value: without a guard nothing protects it.
impl<T: 'static, D: ReadSection> fmt::Debug for RcuOption<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RcuOption").finish_non_exhaustive()
    }
}

impl<T: 'static, D: ReadSection> fmt::Debug for RcuCell<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RcuCell").finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod loom_models;
