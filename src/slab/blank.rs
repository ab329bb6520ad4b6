//! What a constructor is told about the slot that it builds for.

use std::fmt;
use std::marker::PhantomData;

use crate::rcu::Global;
use crate::reclaim::ReadSection;

use super::link::Link;
use super::policy::{Immediate, Part, Policy};
use super::slot::SlotPtr;

/// A slot whose stable part is being built.
pub struct Blank<
    'a,
    S: Send + Sync + 'static,
    V: Send + Sync + 'static = (),
    P: Policy<D> = Immediate,
    D: ReadSection = Global,
> {
    index: u64,
    inner: &'a D::Inner,
    slot: PhantomData<SlotPtr<S, V, P, D>>,
}

impl<'a, S: Part, V: Part, P: Policy<D>, D: ReadSection> Blank<'a, S, V, P, D> {
    pub(super) fn new(index: u64, inner: &'a D::Inner) -> Self {
        Self {
            index,
            inner,
            slot: PhantomData,
        }
    }

    /// Returns the slot's index, as in [`Key::index`](super::Key::index).
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Returns an empty link for the stable part.
    #[must_use]
    pub fn link(&self) -> Link<S, V, P, D> {
        Link::new(self.inner.clone())
    }
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> fmt::Debug for Blank<'_, S, V, P, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blank")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}
