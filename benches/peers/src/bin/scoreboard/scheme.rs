//! What a contender has to offer, and the list of all contenders.

use std::sync::atomic::{Ordering, compiler_fence};

use crate::contenders;
use crate::payload::Payload;

/// What a contender can be measured at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Entering and leaving a section, with nothing loaded.
    Guard,
    /// Entering, loading through a shared pointer, and leaving.
    Deref,
    /// Replacing what a pointer refers to.
    Update,
    /// Reads and updates of one pointer mixed.
    Mix,
    /// Waiting for a grace period.
    Synchronize,
    /// Updates while readers misbehave.
    Stall,
}

/// A way to share a pointer between readers and writers: a contender.
///
/// Each does the work in the way its documentation shows.
pub trait Scheme: Send + Sync + Sized + 'static {
    /// The contender's name in the rows.
    const NAME: &'static str;
    /// What it takes part in.
    const ROLES: &'static [Role];
    /// Whether it may leave a heap behind that slows the next contender, so that it gets a process of its own.
    const SWELLS: bool = false;
    /// Whether [`refresh`](Self::refresh) does something.
    const REFRESHES: bool = false;

    /// A shared pointer to a payload.
    type Cell<P: Payload>: Send + Sync;
    /// What a thread keeps while it takes part.
    type Local;
    /// A read-side critical section.
    type Guard<'a, P: Payload>;

    /// Makes the contender ready.
    fn new() -> Self;
    /// Makes a shared pointer.
    fn cell<P: Payload>(&self, value: P) -> Self::Cell<P>;
    /// Lets the calling thread take part.
    fn local(&self) -> Self::Local;
    /// Enters a section in which `cell` may be loaded.
    fn enter<'a, P: Payload>(
        &'a self,
        local: &'a mut Self::Local,
        cell: &'a Self::Cell<P>,
    ) -> Self::Guard<'a, P>;
    /// Reads the payload's first word, and keeps the payload protected.
    fn load<'a, P: Payload>(guard: &mut Self::Guard<'a, P>, cell: &'a Self::Cell<P>) -> u64;
    /// Looks at the pointer inside a section, allocates, swaps in and retires the old payload; outside of the section
    /// where the contender can.
    fn replace<P: Payload>(&self, local: &mut Self::Local, cell: &Self::Cell<P>, value: P);

    /// Moves a section to the present.
    fn refresh<P: Payload>(_guard: &mut Self::Guard<'_, P>) {}
    /// Does what the documentation asks of a thread that will idle for long.
    fn idle(_local: &mut Self::Local) {}
    /// Waits for one grace period.
    fn synchronize(&self) {
        unreachable!("{} can't wait for a grace period", Self::NAME)
    }
    /// Tries to have everything dropped that was retired, between two samples.
    fn settle(&self) {}

    /// Enters and leaves that many times.
    #[inline]
    fn enter_leave<P: Payload>(&self, local: &mut Self::Local, cell: &Self::Cell<P>, times: u32) {
        for _ in 0..times {
            drop(self.enter(local, cell));
            compiler_fence(Ordering::SeqCst);
        }
    }

    /// Enters, loads and leaves that many times.
    #[inline]
    fn enter_load_leave<P: Payload>(
        &self,
        local: &mut Self::Local,
        cell: &Self::Cell<P>,
        times: u32,
    ) -> u64 {
        let mut sum = 0_u64;
        for _ in 0..times {
            let mut guard = self.enter(local, cell);
            sum = sum.wrapping_add(Self::load(&mut guard, cell));
            drop(guard);
            compiler_fence(Ordering::SeqCst);
        }
        sum
    }
}

/// Returns whether the contender takes part.
pub fn takes_part<S: Scheme>(role: Role) -> bool {
    S::ROLES.contains(&role)
}

/// What is done with every contender.
pub trait Visitor {
    /// Does it with one.
    fn visit<S: Scheme>(&mut self);
}

/// Shows every contender to `visitor`, the floors first.
pub fn each(visitor: &mut impl Visitor) {
    visitor.visit::<contenders::floor::Floor>();
    visitor.visit::<contenders::floor::SeqCstFence>();
    visitor.visit::<contenders::graceperiod::Global>();
    visitor.visit::<contenders::graceperiod::Reader>();
    visitor.visit::<contenders::graceperiod::Owned>();
    visitor.visit::<contenders::graceperiod::Nested>();
    visitor.visit::<contenders::graceperiod::Bare>();
    visitor.visit::<contenders::graceperiod::TypeStable>();
    visitor.visit::<contenders::crossbeam::Crossbeam>();
    visitor.visit::<contenders::seize::Seize>();
    visitor.visit::<contenders::haphazard::Haphazard>();
    visitor.visit::<contenders::sdd::Sdd>();
    visitor.visit::<contenders::kovan::Kovan>();
    visitor.visit::<contenders::arc_swap::ArcSwap>();
    visitor.visit::<contenders::rwlock::Std>();
    visitor.visit::<contenders::rwlock::ParkingLot>();
    #[cfg(liburcu)]
    contenders::liburcu::each(visitor);
}
