//! Room for retirements, asked for before anything is unlinked.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::sync::Relaxed;

use super::core::Core;
use super::record::Record;
use super::thunk::Thunk;

/// Leave to retire a number of objects on this thread without passing the domain's limit.
///
/// Made by [`try_permit`](crate::try_permit) or [`Domain::try_permit`](crate::Domain::try_permit) *before* an object is
/// unlinked, so that a writer at its limit can refuse its caller instead of growing. Each retirement uses one up; what is
/// left goes back when the permit is dropped. It stays on its thread, since limits are per thread.
///
/// ```
/// use graceperiod::{Domain, OnLimit};
///
/// let domain = Domain::builder().limit_objects(1_000).on_limit(OnLimit::Fail).build();
/// let mut permit = domain.try_permit(2)?;
/// permit.retire(Box::new([0; 16]));
/// permit.defer(|| ());
/// assert_eq!(permit.left(), 0);
/// # Ok::<(), graceperiod::AtLimit>(())
/// ```
#[must_use = "a permit that is dropped gives its room back"]
pub struct Permit<'d> {
    core: &'d Core,
    record: NonNull<Record>,
    left: usize,
    _stays: PhantomData<*const ()>,
}

impl Core {
    pub(super) fn try_permit(&self, objects: usize) -> Result<Permit<'_>, AtLimit> {
        let mine = self.mine();
        if !self.make_room(mine.owner(), objects) {
            return Err(AtLimit { objects });
        }
        // Relaxed: the thread's own limit.
        mine.own.permitted.fetch_add(objects, Relaxed);
        Ok(Permit {
            core: self,
            record: NonNull::from(&*mine),
            left: objects,
            _stays: PhantomData,
        })
    }

    /// Whether the calling thread may retire one object more, after what [`OnLimit`](super::OnLimit) has it do.
    pub(super) fn has_room_for_one(&self) -> bool {
        self.make_room(self.mine().owner(), 1)
    }
}

impl Permit<'_> {
    /// Returns how many retirements are left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Retires a box that no reader can reach any more. See [`Domain::retire`](crate::Domain::retire).
    ///
    /// # Panics
    ///
    /// Panics if the permit is used up.
    pub fn retire<T: ?Sized + Send + 'static>(&mut self, value: Box<T>) {
        self.use_one();
        // SAFETY: it came from a box that was ours alone, and `T: Send + 'static`.
        self.core
            .retire(|| unsafe { Thunk::drop_box(NonNull::from(Box::leak(value))) });
    }

    /// Retires a box that readers may still see. See [`Domain::retire_ptr`](crate::Domain::retire_ptr).
    ///
    /// # Safety
    ///
    /// As [`Domain::retire_ptr`](crate::Domain::retire_ptr), for the domain of this permit.
    ///
    /// # Panics
    ///
    /// Panics if the permit is used up.
    pub unsafe fn retire_ptr<T: ?Sized + Send + 'static>(&mut self, ptr: NonNull<T>) {
        self.use_one();
        // SAFETY: the caller's promises, and `T: Send + 'static`.
        self.core.retire(|| unsafe { Thunk::drop_box(ptr) });
    }

    /// Calls a closure after a grace period. See [`Domain::defer`](crate::Domain::defer).
    ///
    /// # Panics
    ///
    /// Panics if the permit is used up.
    pub fn defer<F: FnOnce() + Send + 'static>(&mut self, f: F) {
        self.use_one();
        // SAFETY: `Send + 'static`.
        let thunk = unsafe { Thunk::new(f, size_of::<F>()) };
        self.core.retire(|| thunk);
    }

    fn use_one(&mut self) {
        assert!(
            self.left > 0,
            "graceperiod: this permit is used up; ask try_permit() for as many as will be retired"
        );
        self.give_back(1);
    }

    fn give_back(&mut self, objects: usize) {
        self.left -= objects;
        // SAFETY: records live as long as their domain, which the permit borrows.
        let record = unsafe { self.record.as_ref() };
        // Relaxed: as in try_permit. A read-modify-write, since the record may have another owner by now.
        record.own.permitted.fetch_sub(objects, Relaxed);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.give_back(self.left);
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// The calling thread has retired as much as it may, and readers keep it from getting less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AtLimit {
    /// Objects for which there was no room.
    pub objects: usize,
}

impl fmt::Display for AtLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no room to retire {} objects: too many of this thread's wait for readers",
            self.objects
        )
    }
}

impl Error for AtLimit {}
