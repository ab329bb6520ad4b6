//! Forking: every structure of the process in a state that the child can go on from.
//!
//! # Protocol
//!
//! A child has one thread, a copy of the one that forked. What the others were doing stays half done in it. So whoever
//! forks
//!
//! 1. locks the list of all structures, which keeps out other forks and the building of structures;
//! 2. holds each structure: takes its locks, and keeps all owners out of their sections;
//! 3. makes one heavy fence for all, and waits for the owners that were inside;
//! 4. forks. The parent lets go of everything. The child first resets each structure: what was the other threads' becomes
//!    nobody's, and counts become what is there; then it lets go, and starts threads again.
//!
//! Other threads don't take nodes that step 2 could miss: a new node is published before its thread looks whether
//! somebody forks, and if so waits (O13).
//!
//! # Invariants
//!
//! - I1: no thread waits for this lock, or for a new node, while it has a lock or a taker's turn of any structure. So step 2
//!   comes to an end, in whichever order it takes the structures.
//! - I2: what is done without a lock (pushing a node, a stack, a ring; words of readers) leaves a state that another thread
//!   may look at after every single store. The child sees the memory as such a look: while the system copies the address
//!   space it holds writes back, so what the child gets is one moment's.
//!
//! # Orderings
//!
//! - O13: a node's publication, full fence, look at who forks | who forks, full fence, walk of the nodes: the walk finds the
//!   node, or its thread waits before it opens a section.

use std::fmt;

use crate::fence::{self, full};
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Relaxed, Weak, edge, global, now};
use crate::tuning::PRUNE_FROM;

#[cfg(not(loom))]
use super::driver::TheDriver;
use super::{frame, local};

/// A structure that must not be caught half done by a fork.
pub(crate) trait Forkable: Send + Sync + 'static {
    /// Takes all locks, and keeps all owners out from the next heavy fence on.
    fn hold(&self) -> Box<dyn Held + '_>;

    /// Starts the threads that the structure had, in the child, once nothing is held any more.
    fn restart(self: Arc<Self>) {}
}

/// A structure in the hands of the thread that forks; dropping it lets go.
pub(crate) trait Held {
    /// Waits for owners that are inside. `heavy` tells what the heavy fence after all holding said.
    fn settle(&mut self, heavy: bool);

    /// Makes what was other threads' nobody's, in the child.
    ///
    /// # Safety
    ///
    /// 1. The calling thread is the only one of the process, and made the fork.
    /// 2. Nothing will use what guards of other threads protected.
    unsafe fn reset(&mut self);
}

/// One structure, kept.
enum Structure {
    Static(&'static dyn Forkable),
    Shared(Arc<dyn Forkable>),
}

impl Structure {
    fn get(&self) -> &dyn Forkable {
        match self {
            Self::Static(structure) => *structure,
            Self::Shared(structure) => &**structure,
        }
    }
}

/// All structures but the global domain.
struct List {
    all: Vec<Weak<dyn Forkable>>,
    /// Number from which those that have gone are looked for.
    prune_at: usize,
}

global! {
    fn list() -> Mutex<List> = Mutex::new(List { all: Vec::new(), prune_at: PRUNE_FROM });
}

global! {
    /// The number of the thread that forks, or 0.
    fn forking() -> AtomicU64 = AtomicU64::new(0);
}

/// Adds a structure that has just been built. Waits for a fork under way; runs nobody's code.
pub(crate) fn register(structure: Weak<dyn Forkable>) {
    // Models don't fork, and would explore this lock.
    if cfg!(loom) {
        return;
    }
    let mut list = list().lock();
    if list.all.len() >= list.prune_at {
        list.all.retain(|structure| structure.strong_count() > 0);
        list.prune_at = PRUNE_FROM.max(list.all.len() * 2);
    }
    list.all.push(structure);
}

/// Waits for a fork under way, on a thread that has just published a node.
pub(super) fn wait_after_publication() {
    if !cfg!(loom) {
        // Orders the node's publication before the look (O13).
        edge!(O13, full());
        wait_for_fork();
    }
}

/// Waits for a fork under way, unless it is the calling thread's own; whether there was one.
pub(super) fn wait_for_fork() -> bool {
    if cfg!(loom) {
        return false;
    }
    // Relaxed: where it matters, the fence above orders it (O13).
    let by = forking().load(Relaxed);
    let waits = by != 0 && by != local::number();
    if waits {
        drop(list().lock());
    }
    waits
}

/// Everything of this crate held still for a fork; made by [`prepare_fork`](crate::prepare_fork).
///
/// The parent drops it, also if the fork failed. The child calls [`child`](Self::child), or drops it, which does the same:
/// the two are told apart by the process's number.
///
/// It stays on its thread:
///
/// ```compile_fail,E0277
/// // SAFETY: nobody forks.
/// let guard = unsafe { graceperiod::prepare_fork() };
/// std::thread::spawn(move || drop(guard));
/// ```
///
/// ```
/// // SAFETY: nobody forks.
/// let guard = unsafe { graceperiod::prepare_fork() };
/// drop(guard);
/// ```
#[must_use = "what is held still goes on when this is dropped"]
pub struct ForkGuard {
    /// Borrows from `structures`, and goes before them.
    held: Vec<Box<dyn Held>>,
    structures: Vec<Structure>,
    list: Option<MutexGuard<'static, List>>,
    parent: u32,
}

impl ForkGuard {
    /// Holds `first`, which lives for good, and everything registered.
    ///
    /// # Safety
    ///
    /// As [`prepare_fork`](crate::prepare_fork).
    pub(crate) unsafe fn prepare(first: &'static dyn Forkable) -> Self {
        refuse_misuse();
        // A clock that another thread is about to start would never be started in the child.
        now();
        let list = list().lock();
        // Relaxed: the fence orders it (O13).
        forking().store(local::number(), Relaxed);
        // Orders the store before the walks over the nodes (O13).
        edge!(O13, full());
        let shared = list.all.iter().filter_map(Weak::upgrade);
        let structures: Vec<_> = [
            Structure::Static(first),
            #[cfg(not(loom))]
            Structure::Static(&TheDriver),
        ]
        .into_iter()
        .chain(shared.map(Structure::Shared))
        .collect();
        let mut held: Vec<_> = structures.iter().map(hold).collect();
        // Orders all the revocations before the looks at the owners (O3).
        let heavy = edge!(O3, fence::heavy());
        for structure in &mut held {
            structure.settle(heavy);
        }
        Self {
            held,
            structures,
            list: Some(list),
            parent: std::process::id(),
        }
    }

    /// Makes everything usable in the child, whose only thread this is: what other threads held is nobody's there.
    ///
    /// Background threads of domains and queues are started again; where that fails, by the next use that needs them.
    ///
    /// # Panics
    ///
    /// In the parent, where nothing is changed. (A process with the number 1 whose child has the number 1 in a namespace of
    /// its own can't be told from its child, and must not fork that way.)
    pub fn child(self) {
        assert!(
            self.is_child(),
            "graceperiod: ForkGuard::child() in the parent, whose other threads live; drop the guard there instead"
        );
    }

    fn is_child(&self) -> bool {
        std::process::id() != self.parent
    }

    fn let_go(&mut self) {
        self.held.clear();
        // Relaxed: whoever still sees it waits for the lock, which is given back next.
        forking().store(0, Relaxed);
        self.list = None;
    }
}

/// Panics where a fork would cut something in two that this thread itself is doing.
fn refuse_misuse() {
    // Relaxed: only this thread stores its own number.
    let is_second = forking().load(Relaxed) == local::number();
    assert!(
        !is_second,
        "graceperiod: prepare_fork() while this thread has a ForkGuard already; drop that one first, or fork under it"
    );
    assert!(
        !frame::is_open(),
        "graceperiod: prepare_fork() inside a destructor, constructor, handler or hook that this crate runs, whose rest the \
         child would have to run too; fork outside of it"
    );
}

fn hold(structure: &Structure) -> Box<dyn Held> {
    let structure: *const dyn Forkable = structure.get();
    // SAFETY: the guard keeps the structures in place until it has dropped what borrows from them: counted references, or
    // for good.
    let structure: &'static dyn Forkable = unsafe { &*structure };
    structure.hold()
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        if !self.is_child() {
            return self.let_go();
        }
        fence::ask_again();
        for structure in &mut self.held {
            // SAFETY: the promises of `prepare`: this is the child of a fork (1), which does without what other threads
            // protected (2).
            unsafe { structure.reset() };
        }
        self.let_go();
        for structure in &self.structures {
            // The global domain has no thread, and futures start theirs.
            if let Structure::Shared(structure) = structure {
                Arc::clone(structure).restart();
            }
        }
    }
}

impl fmt::Debug for ForkGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForkGuard")
            .field("structures", &self.structures.len())
            .finish_non_exhaustive()
    }
}
