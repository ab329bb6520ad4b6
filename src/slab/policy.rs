//! When a dead incarnation's value is dropped and its slot reused.

use std::fmt;

use crate::reclaim::{Polled, ReadSection, Stage};
use crate::sync::Weak;

/// What may live in a slot: anything that threads can share and that borrows nothing.
///
/// Implemented for every such type; there is nothing to do. It shortens the bounds of methods. The types themselves spell
/// them out: only so can a value hold references to values of its own type, which makes its being `Send` depend on itself,
/// and the compiler accepts such a circle only if it runs through auto traits alone.
pub trait Part: Send + Sync + 'static {}

impl<T: Send + Sync + 'static> Part for T {}

/// When a slot whose last reference has gone is reused: [`Immediate`] or [`AfterGrace`].
///
/// Sealed: there are these two.
pub trait Policy<D: ReadSection>: machine::Machine<D> {}

/// The value is dropped by the thread that drops the last reference, at once, and the slot is reused at once, also
/// under a reader's eyes.
///
/// What the kernel calls `SLAB_TYPESAFE_BY_RCU`. Readers check again what they have found.
#[doc(alias = "SLAB_TYPESAFE_BY_RCU")]
#[doc(alias = "SLAB_DESTROY_BY_RCU")]
#[derive(Clone, Copy, Debug)]
pub enum Immediate {}

/// The value lives on until a grace period after the last reference went; until then the slot isn't reused.
///
/// What the kernel does with `call_rcu` per object, with one cookie per magazine of freed slots here. The value is
/// dropped when its slot is recycled by [`reserve`](super::Slab::reserve) or [`insert`](super::Slab::insert), or by a
/// barrier of the domain, by [`shrink`](super::Slab::shrink), or after the slab has closed.
#[doc(alias = "call_rcu")]
#[derive(Clone, Copy, Debug)]
pub enum AfterGrace {}

impl<D: ReadSection> Policy<D> for Immediate {}
impl<D: Polled> Policy<D> for AfterGrace {}

pub(super) mod machine {
    use super::{AfterGrace, Immediate, Polled, ReadSection, Stage, Weak, fmt};

    /// What a policy needs of its domain.
    pub trait Machine<D: ReadSection>: fmt::Debug + Send + Sync + Sized + 'static {
        /// Whether dead slots wait for a grace period.
        const WAITS: bool;

        /// What a slot must remember while its magazine waits: a cookie, and the next magazine.
        type Stamp: Copy + 'static;

        /// A stamp that nobody has set.
        const BLANK: Self::Stamp;

        fn stamp(cookie: u64, next: *mut ()) -> Self::Stamp;
        fn parts(stamp: Self::Stamp) -> (u64, *mut ());
        fn cookie(inner: &D::Inner) -> u64;
        fn has_elapsed(inner: &D::Inner, cookie: u64) -> bool;
        fn advance(inner: &D::Inner);
        fn is_inside(inner: &D::Inner) -> bool;
        fn attach(inner: &D::Inner, stage: Weak<dyn Stage>);
    }

    /// Never asked for a grace period.
    impl<D: ReadSection> Machine<D> for Immediate {
        const WAITS: bool = false;
        type Stamp = ();
        const BLANK: Self::Stamp = ();

        fn stamp(_: u64, _: *mut ()) -> Self::Stamp {}
        fn parts((): Self::Stamp) -> (u64, *mut ()) {
            (0, std::ptr::null_mut())
        }
        fn cookie(_: &D::Inner) -> u64 {
            0
        }
        fn has_elapsed(_: &D::Inner, _: u64) -> bool {
            true
        }
        fn advance(_: &D::Inner) {}
        fn is_inside(_: &D::Inner) -> bool {
            false
        }
        fn attach(_: &D::Inner, _: Weak<dyn Stage>) {}
    }

    impl<D: Polled> Machine<D> for AfterGrace {
        const WAITS: bool = true;
        type Stamp = (u64, *mut ());
        const BLANK: Self::Stamp = (0, std::ptr::null_mut());

        fn stamp(cookie: u64, next: *mut ()) -> Self::Stamp {
            (cookie, next)
        }
        fn parts(stamp: Self::Stamp) -> (u64, *mut ()) {
            stamp
        }
        fn cookie(inner: &D::Inner) -> u64 {
            D::cookie(inner)
        }
        fn has_elapsed(inner: &D::Inner, cookie: u64) -> bool {
            D::has_elapsed(inner, cookie)
        }
        fn advance(inner: &D::Inner) {
            D::advance(inner);
        }
        fn is_inside(inner: &D::Inner) -> bool {
            D::is_inside(inner)
        }
        fn attach(inner: &D::Inner, stage: Weak<dyn Stage>) {
            D::attach(inner, stage);
        }
    }
}
