//! A lock-free list of per-thread nodes that are reused and never move.
//!
//! # Protocol
//!
//! A thread claims a free node, or pushes a new one at the head. Nodes stay in the list until the registry goes, so
//! that anybody may walk it at any time.
//!
//! | state | meaning | next | who moves it |
//! |---|---|---|---|
//! | `FREE` | nobody's | `USED` | any thread, by compare-exchange |
//! | `USED` | a thread's own | `FREE`, `ORPHAN` | its owner |
//! | `ORPHAN` | its owner has gone, but something of the owner's still uses it | `USED` | any thread that sees it idle, by compare-exchange |
//!
//! # Invariants
//!
//! - I1: an orphan that was idle once stays idle until it is claimed: only what its late owner left can make it busy. It
//!   may be claimed and orphaned anew at any time, though, so whoever claims it looks only afterwards.
//!
//! # Orderings
//!
//! - O11: publishing a node (Release compare-exchange on the head; all changes of the head are read-modify-writes, so
//!   each continues the earlier ones' release sequences) -> the walk's and the next publisher's look at the head (Acquire).
//! - O12: giving a node up (Release) -> claiming it (Acquire): the new owner sees all that the old one did to it.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr;

use crate::prefetch::prefetch;
use crate::sync::{AtomicPtr, AtomicU8, Relaxed, edge};
use crate::tuning::WALK_AHEAD;

use super::fork::{wait_after_publication, wait_for_fork};

const FREE: u8 = 0;
const USED: u8 = 1;
const ORPHAN: u8 = 2;

/// A thread's part of a structure.
///
/// What a walk needs lies in front, beside what the value has first.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Node<T> {
    next: *mut Node<T>,
    /// The node that a walk comes to [`WALK_AHEAD`] steps later, or null; to be fetched meanwhile.
    ahead: *mut Node<T>,
    state: AtomicU8,
    pub(crate) value: T,
    /// Stands for the plain fields, which loom can't watch.
    #[cfg(loom)]
    traced: crate::sync::UnsafeCell<()>,
}

impl<T> Node<T> {
    /// Gives the node up for another thread to claim; `orphan` if something of the caller's still uses it.
    pub(crate) fn give_up(&self, orphan: bool) {
        // Release: pairs with the Acquire in Registry::claim (O12). [X3]
        self.state
            .store(if orphan { ORPHAN } else { FREE }, edge!(O12, Release));
    }

    /// Claims this very node, if nobody owns it and `usable` accepts it.
    pub(crate) fn try_claim(&self, usable: impl Fn(&T) -> bool) -> bool {
        // Relaxed: only a hint; the compare-exchange decides. [K1]
        let state = self.state.load(Relaxed);
        // Acquire: pairs with the Release in give_up (O12). [K3]
        // Relaxed on failure: nothing is read.
        if state == USED
            || !usable(&self.value)
            || self
                .state
                .compare_exchange(state, USED, edge!(O12, Acquire), Relaxed)
                .is_err()
        {
            return false;
        }
        // Once more, now that nobody else can: between the look and the exchange another thread may have claimed the node,
        // entered a guard on it and orphaned it again.
        let claimed = usable(&self.value);
        if !claimed {
            // Release: as in give_up (O12). [X3]
            self.state.store(state, edge!(O12, Release));
        }
        claimed
    }

    /// The node that was published before this one.
    fn next(&self) -> *mut Node<T> {
        #[cfg(loom)]
        self.traced.with(|_| ());
        self.next
    }

    /// Whether no thread owns the node.
    pub(crate) fn is_abandoned(&self) -> bool {
        // Acquire: pairs with the Release in give_up (O12). [K1]
        self.state.load(edge!(O12, Acquire)) != USED
    }
}

/// All nodes of one structure.
pub(crate) struct Registry<T> {
    head: AtomicPtr<Node<T>>,
}

// SAFETY: nodes are shared by reference among threads and dropped by whoever drops the registry.
unsafe impl<T: Send + Sync> Send for Registry<T> {}
// SAFETY: as above; the list itself changes by atomic operations only.
unsafe impl<T: Send + Sync> Sync for Registry<T> {}

impl<T> Registry<T> {
    crate::sync::const_fn! {
        pub(crate) fn new() -> Self {
            Self { head: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// Takes a node for the calling thread: a free one or an orphan that `usable` accepts, or a new one.
    ///
    /// `usable` must refuse an orphan that something of its late owner's still uses.
    pub(crate) fn claim(&self, make: impl FnOnce() -> T, usable: impl Fn(&T) -> bool) -> &Node<T> {
        match self.try_claim(make, usable) {
            Some(node) => node,
            None => handle_alloc_error(Layout::new::<Node<T>>()),
        }
    }

    /// As [`claim`](Self::claim); `None` if there is no memory for a new node.
    pub(crate) fn try_claim(
        &self,
        make: impl FnOnce() -> T,
        usable: impl Fn(&T) -> bool,
    ) -> Option<&Node<T>> {
        loop {
            for node in self {
                if node.try_claim(&usable) {
                    return Some(node);
                }
            }
            // What a fork keeps is usable again afterwards.
            if !wait_for_fork() {
                return self.push(make());
            }
        }
    }

    fn push(&self, value: T) -> Option<&Node<T>> {
        // A box that may fail: a slice of one has the same layout.
        let mut one = Vec::new();
        one.try_reserve_exact(1).ok()?;
        one.push(Node {
            value,
            state: AtomicU8::new(USED),
            next: ptr::null_mut(),
            ahead: ptr::null_mut(),
            #[cfg(loom)]
            traced: crate::sync::UnsafeCell::new(()),
        });
        let node = Box::into_raw(one.into_boxed_slice()).cast::<Node<T>>();
        // Acquire, here and on failure: pairs with the Release below (O11), since `ahead_of` follows the head.
        let mut head = self.head.load(edge!(O11, Acquire));
        loop {
            // SAFETY: the node isn't published yet, so this thread alone has it.
            unsafe { (*node).next = head };
            // SAFETY: as above.
            unsafe { (*node).ahead = Self::ahead_of(head) };
            // Release: pairs with the Acquire in iter (O11); makes the node's fields visible. [B2]
            match self.head.compare_exchange_weak(
                head,
                node,
                edge!(O11, Release),
                edge!(O11, Acquire),
            ) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        wait_after_publication();
        // SAFETY: nodes live as long as the registry, which `&self` borrows.
        Some(unsafe { &*node })
    }

    /// The node [`WALK_AHEAD`] steps before one that is to be pushed on `head`.
    fn ahead_of(head: *mut Node<T>) -> *mut Node<T> {
        let mut node = head;
        for _ in 1..WALK_AHEAD {
            // SAFETY: null or a published node, whose `next` never changes.
            match unsafe { node.as_ref() } {
                Some(published) => node = published.next(),
                None => break,
            }
        }
        node
    }

    /// Walks all nodes, newest first.
    pub(crate) fn iter(&self) -> Iter<'_, T> {
        Iter {
            // Acquire: pairs with the Release in push (O11). [B3]
            // SAFETY: the head is null or a node, and nodes live as long as the registry, which `&self` borrows.
            node: unsafe { self.head.load(edge!(O11, Acquire)).as_ref() },
        }
    }
}

impl<'a, T> IntoIterator for &'a Registry<T> {
    type Item = &'a Node<T>;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> Drop for Registry<T> {
    fn drop(&mut self) {
        // Relaxed: `&mut self` excludes everybody else.
        let mut node = self.head.load(Relaxed);
        while !node.is_null() {
            // SAFETY: every node came from a box of this layout in push, is in the list once, and nobody borrows it any more.
            let owned = unsafe { Box::from_raw(node) };
            node = owned.next;
        }
    }
}

impl<T> std::fmt::Debug for Registry<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

/// Walk over a [`Registry`].
#[derive(Debug)]
pub(crate) struct Iter<'a, T> {
    node: Option<&'a Node<T>>,
}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Self { node: self.node }
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a Node<T>;

    fn next(&mut self) -> Option<&'a Node<T>> {
        let node = self.node?;
        prefetch(node.ahead);
        // SAFETY: `next` is null or a node, is never changed after publication, and nodes live as long as the registry.
        self.node = unsafe { node.next().as_ref() };
        Some(node)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn free_nodes_are_claimed_again_before_new_ones_are_made() {
        let registry = Registry::new();
        let first: *const _ = registry.claim(|| 1, |_| true);
        let second = registry.claim(|| 2, |_| true);
        assert_eq!(second.value, 2);
        registry.iter().nth(1).expect("two nodes").give_up(false);
        let again: *const _ = registry.claim(|| 3, |_| true);
        assert_eq!(first, again);
        assert_eq!(registry.iter().count(), 2);
    }

    #[test]
    fn busy_orphan_is_left_alone() {
        let registry = Registry::new();
        registry.claim(|| 1, |_| true).give_up(true);
        assert_eq!(registry.claim(|| 2, |_| false).value, 2);
        assert_eq!(registry.claim(|| 3, |_| true).value, 1);
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::{Acquire, Arc, AtomicBool, Release};

    #[test]
    fn o11_whoever_publishes_a_node_sees_those_before_it() {
        loom::model(|| {
            let registry = Arc::new(Registry::new());
            let other = Arc::clone(&registry);
            let other = loom::thread::spawn(move || {
                other.claim(|| (), |()| true);
            });
            registry.claim(|| (), |()| true);
            other.join().expect("no panic");
            assert_eq!(registry.iter().count(), 2);
        });
    }

    #[test]
    fn o12_orphan_that_is_in_use_again_is_nobodys() {
        loom::model(|| {
            let registry = Arc::new(Registry::new());
            let unused = |busy: &AtomicBool| !busy.load(Acquire);
            registry
                .claim(|| AtomicBool::new(false), unused)
                .give_up(true);
            let other = Arc::clone(&registry);
            let late = loom::thread::spawn(move || {
                let node = other.claim(|| AtomicBool::new(false), unused);
                node.value.store(true, Release);
                node.give_up(true);
            });
            let node = registry.claim(|| AtomicBool::new(false), unused);
            assert!(!node.value.load(Acquire));
            late.join().expect("no panic");
        });
    }

    #[test]
    fn o12_whoever_sees_a_node_abandoned_sees_what_was_left_in_it() {
        loom::model(|| {
            let registry = Arc::new(Registry::new());
            let node = registry.claim(|| AtomicBool::new(false), |_| true);
            let other = Arc::clone(&registry);
            let other = loom::thread::spawn(move || {
                for node in other.iter().filter(|node| node.is_abandoned()) {
                    assert!(node.value.load(Relaxed));
                }
            });
            node.value.store(true, Relaxed);
            node.give_up(false);
            other.join().expect("no panic");
        });
    }

    /// What a node's owner writes.
    struct Own(crate::sync::UnsafeCell<u32>);

    // SAFETY: only who owns the node writes; loom checks that.
    unsafe impl Sync for Own {}

    impl Own {
        fn add(&self) {
            // SAFETY: the caller owns the node.
            self.0.with_mut(|value| unsafe { *value += 1 });
        }
    }

    #[test]
    fn o12_node_that_is_put_back_hands_on_what_was_left_in_it() {
        loom::model(|| {
            let registry = Arc::new(Registry::new());
            registry.claim(|| Own(crate::sync::UnsafeCell::new(0)), |_| true);
            let beside = |run: fn(&Node<Own>)| {
                let registry = Arc::clone(&registry);
                loom::thread::spawn(move || run(registry.iter().next().expect("there is one")))
            };
            let owner = beside(|node| {
                node.value.add();
                node.give_up(true);
            });
            let picky = beside(|node| {
                // Usable at first sight, and no more once it is claimed.
                let looks = std::cell::Cell::new(0);
                node.try_claim(|_| looks.replace(1) == 0);
            });
            let node = registry.iter().next().expect("there is one");
            if node.try_claim(|_| true) {
                node.value.add();
            }
            for thread in [owner, picky] {
                thread.join().expect("no panic");
            }
        });
    }
}
