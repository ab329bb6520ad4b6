//! What a thread without a cache works with during one call: it is running its last thread-local destructors, the slab has
//! closed or is in a debug mode, or there was no memory.

use std::ops::Deref;
use std::ptr::NonNull;

use crate::reclaim::ReadSection;
use crate::thread::{Home, Node};

use super::cache::Cache;
use super::core::Core;
use super::policy::{Part, Policy};

/// A cache for the length of a call. What is left in it goes to the depot afterwards.
pub(super) struct StandIn<
    'a,
    S: Send + Sync + 'static,
    V: Send + Sync + 'static,
    P: Policy<D>,
    D: ReadSection,
> {
    core: &'a Core<S, V, P, D>,
    node: &'a Node<Cache<S, V, P, D>>,
}

impl<S: Part, V: Part, P: Policy<D>, D: ReadSection> Core<S, V, P, D> {
    /// `None` if there is no memory.
    pub(super) fn stand_in(&self) -> Option<StandIn<'_, S, V, P, D>> {
        let node = self.caches.try_claim(Cache::new, |_| true)?;
        Some(StandIn { core: self, node })
    }
}

impl<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> Deref
    for StandIn<'_, S, V, P, D>
{
    type Target = Cache<S, V, P, D>;

    fn deref(&self) -> &Self::Target {
        &self.node.value
    }
}

impl<S: Send + Sync + 'static, V: Send + Sync + 'static, P: Policy<D>, D: ReadSection> Drop
    for StandIn<'_, S, V, P, D>
{
    fn drop(&mut self) {
        // SAFETY: the node was claimed from this core's registry, and isn't used any more.
        unsafe { self.core.take_back(NonNull::from(self.node).cast()) };
    }
}
