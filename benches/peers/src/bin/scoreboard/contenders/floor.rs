//! What nothing can be faster than: a store on either side of the section, and a box that is freed at once.

use std::sync::atomic::{
    AtomicPtr, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release, Ordering::SeqCst, compiler_fence, fence,
};

use super::boxed::BoxCell;
use crate::payload::Payload;
use crate::scheme::{Role, Scheme};

thread_local! {
    static WORD: AtomicUsize = const { AtomicUsize::new(0) };
}

/// A section that protects nothing; leaves on drop.
pub struct Section;

impl Drop for Section {
    #[inline]
    fn drop(&mut self) {
        WORD.with(|word| word.store(0, Release));
    }
}

#[inline]
fn load<P: Payload>(cell: &AtomicPtr<P>) -> u64 {
    // SAFETY: a floor's cell that is read is never replaced meanwhile: it takes no part where it would be.
    unsafe { &*cell.load(Acquire) }.first()
}

#[inline]
fn replace<P: Payload>(cell: &BoxCell<P>, value: P) {
    let old = cell.0.swap(Box::into_raw(Box::new(value)), AcqRel);
    // SAFETY: nobody reads the cells that are replaced, and the swap made the old box ours alone.
    let old = unsafe { Box::from_raw(old) };
    old.leave();
    drop(old);
}

/// A thread-local store, a compiler fence and a store; malloc and free at once.
pub struct Floor;

impl Scheme for Floor {
    const NAME: &'static str = "floor";
    const ROLES: &'static [Role] = &[Role::Guard, Role::Deref, Role::Update, Role::Stall];

    type Cell<P: Payload> = BoxCell<P>;
    type Local = ();
    type Guard<'a, P: Payload> = Section;

    fn new() -> Self {
        Self
    }

    fn cell<P: Payload>(&self, value: P) -> BoxCell<P> {
        BoxCell::new(value)
    }

    fn local(&self) {}

    #[inline]
    fn enter<'a, P: Payload>(&'a self, (): &'a mut (), _: &'a BoxCell<P>) -> Section {
        WORD.with(|word| word.store(1, Relaxed));
        compiler_fence(SeqCst);
        Section
    }

    #[inline]
    fn load<P: Payload>(_: &mut Section, cell: &BoxCell<P>) -> u64 {
        load(&cell.0)
    }

    #[inline]
    fn replace<P: Payload>(&self, (): &mut (), cell: &BoxCell<P>, value: P) {
        replace(cell, value);
    }
}

/// The same section with a full fence, as without asymmetric fences.
pub struct SeqCstFence;

impl Scheme for SeqCstFence {
    const NAME: &'static str = "floor:seqcst";
    const ROLES: &'static [Role] = &[Role::Guard, Role::Deref];

    type Cell<P: Payload> = BoxCell<P>;
    type Local = ();
    type Guard<'a, P: Payload> = Section;

    fn new() -> Self {
        Self
    }

    fn cell<P: Payload>(&self, value: P) -> BoxCell<P> {
        BoxCell::new(value)
    }

    fn local(&self) {}

    #[inline]
    fn enter<'a, P: Payload>(&'a self, (): &'a mut (), _: &'a BoxCell<P>) -> Section {
        WORD.with(|word| word.store(1, Relaxed));
        fence(SeqCst);
        Section
    }

    #[inline]
    fn load<P: Payload>(_: &mut Section, cell: &BoxCell<P>) -> u64 {
        load(&cell.0)
    }

    #[inline]
    fn replace<P: Payload>(&self, (): &mut (), cell: &BoxCell<P>, value: P) {
        replace(cell, value);
    }
}
