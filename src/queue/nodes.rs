//! The nodes of all threads, and how a thread comes by its own.

use std::ops::Deref;
use std::ptr::NonNull;

use crate::fence::full;
use crate::sync::{Arc, AtomicBool, Relaxed, Weak, edge, next_id};
use crate::thread::{Home, HomeRef, Node, Registry, local};

use super::local::Local;

/// Every thread's part of one queue.
pub(super) struct Nodes<T> {
    id: u64,
    /// Places of a new node's line.
    places: usize,
    all: Registry<Local<T>>,
    /// A thread ended and left items.
    left_behind: AtomicBool,
}

impl<T: Send + 'static> Nodes<T> {
    pub(super) fn new(places: usize) -> Self {
        Self {
            id: next_id(),
            places,
            all: Registry::new(),
            left_behind: AtomicBool::new(false),
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The calling thread's registered node.
    #[inline]
    pub(super) fn find(&self) -> Option<&Node<Local<T>>> {
        let node = local::find(self.id)?;
        // SAFETY: `own` registered it for this identity, which is never reused, and nodes live as long as `self`.
        Some(unsafe { node.cast::<Node<Local<T>>>().as_ref() })
    }

    /// The calling thread's node, for pushing; registered unless the thread has given its nodes back already.
    pub(super) fn own(self: &Arc<Self>) -> Own<'_, T> {
        if let Some(node) = self.find() {
            return self.wrap(node, false);
        }
        if local::has_exited() {
            return self.lend();
        }
        let node = self.claim();
        let home: Weak<dyn Home> = Arc::<Self>::downgrade(self);
        local::register(self.id, NonNull::from(node).cast(), HomeRef::Weak(home));
        self.wrap(node, false)
    }

    /// A node for a while, which this thread doesn't remember.
    pub(super) fn lend(&self) -> Own<'_, T> {
        self.wrap(self.claim(), true)
    }

    fn claim(&self) -> &Node<Local<T>> {
        let node = self.all.claim(|| Local::new(self.places), |_| true);
        // Orders the node's publication before the look at `closed` (O72).
        edge!(O72, full());
        node
    }

    fn wrap<'a>(&'a self, node: &'a Node<Local<T>>, lent: bool) -> Own<'a, T> {
        let nodes = self;
        Own { nodes, node, lent }
    }

    fn give_up(&self, node: &Node<Local<T>>) {
        if node.value.waiting() > 0 {
            self.set_left_behind();
        }
        node.give_up(false);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Local<T>> {
        self.all.iter().map(|node| &node.value)
    }

    /// The nodes with their owners.
    pub(super) fn owned(&self) -> impl Iterator<Item = &Node<Local<T>>> {
        self.all.iter()
    }

    /// Says once after items were left by threads that ended.
    pub(super) fn was_left_behind(&self) -> bool {
        // Relaxed: only hints; whoever adopts finds the node through the registry (O12).
        self.left_behind.load(Relaxed) && self.left_behind.swap(false, Relaxed)
    }

    /// A node that belongs to no thread and has items; says again that there are some if there are more.
    pub(super) fn abandoned(&self) -> Option<&Local<T>> {
        let mut found = self
            .all
            .iter()
            .filter(|node| node.is_abandoned() && node.value.waiting() > 0);
        let first = found.next()?;
        if found.next().is_some() {
            self.set_left_behind();
        }
        Some(&first.value)
    }

    /// Makes somebody look for what ended threads have left.
    pub(super) fn set_left_behind(&self) {
        // Relaxed: a hint.
        self.left_behind.store(true, Relaxed);
    }
}

impl<T: Send + 'static> Home for Nodes<T> {
    unsafe fn take_back(&self, node: NonNull<()>) {
        // SAFETY: `own` registered it, and nodes live as long as `self`.
        let node = unsafe { node.cast::<Node<Local<T>>>().as_ref() };
        self.give_up(node);
    }

    unsafe fn is_disused(&self, _: NonNull<()>) -> bool {
        // Threads keep no counted reference that it would pay to let go of.
        false
    }
}

/// A node that the calling thread owns.
pub(super) struct Own<'a, T: Send + 'static> {
    nodes: &'a Nodes<T>,
    node: &'a Node<Local<T>>,
    lent: bool,
}

impl<T: Send + 'static> Deref for Own<'_, T> {
    type Target = Local<T>;

    fn deref(&self) -> &Local<T> {
        &self.node.value
    }
}

impl<T: Send + 'static> Drop for Own<'_, T> {
    fn drop(&mut self) {
        if self.lent {
            self.nodes.give_up(self.node);
        }
    }
}
