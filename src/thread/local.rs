//! From a structure's identity to the calling thread's node in it.
//!
//! # Protocol
//!
//! A small table without a destructor answers most look-ups with one compare. Behind it a map with a destructor
//! remembers every node of the thread; at thread exit it gives them all back. After that, and in destructors of other
//! thread-locals that run later, [`find`] answers `None`, and callers take a path that needs no node.
//!
//! # Invariants
//!
//! - I1: a line of the table names a node that the map holds. Identities are never reused, so a stale structure's line
//!   never matches; it is cleared when the map gives its node back.
//! - I2: the map keeps a counted reference to each structure, so a node outlives its line.

use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};

use crate::sync::{Arc, dropping_local, plain_local};
use crate::tuning::LOCAL_LINES;

use super::discard;

/// A structure with per-thread nodes.
pub(crate) trait Home: Send + Sync + 'static {
    /// Takes the calling thread's node back: the thread ends, or the structure has closed.
    ///
    /// # Safety
    ///
    /// 1. `node` is what the thread registered for this structure.
    /// 2. The thread doesn't use it afterwards.
    unsafe fn take_back(&self, node: NonNull<()>);

    /// Whether the structure has closed and the calling thread isn't using its node further up the stack (in foreign
    /// code that this very call may come from), so that it may be taken back early.
    ///
    /// # Safety
    ///
    /// 1. `node` is what the calling thread registered for this structure.
    unsafe fn is_disused(&self, node: NonNull<()>) -> bool;
}

/// A reference that keeps a structure's memory valid.
#[derive(Clone)]
pub(crate) enum HomeRef {
    /// The global domain.
    Static(&'static dyn Home),
    /// Anything else.
    Shared(Arc<dyn Home>),
}

impl HomeRef {
    fn get(&self) -> &dyn Home {
        match self {
            Self::Static(home) => *home,
            Self::Shared(home) => &**home,
        }
    }
}

#[derive(Clone, Copy)]
struct Line {
    id: u64,
    node: *const (),
}

const EMPTY: Line = Line {
    id: 0,
    node: ptr::null(),
};

struct Entry {
    id: u64,
    node: NonNull<()>,
    home: HomeRef,
}

struct Map(RefCell<Vec<Entry>>);

plain_local! {
    static LINES: [Cell<Line>; LOCAL_LINES] = [const { Cell::new(EMPTY) }; LOCAL_LINES];
    static EXITED: Cell<bool> = Cell::new(false);
}

dropping_local! {
    static MAP: Map = Map(RefCell::new(Vec::new()));
}

fn line_of(id: u64) -> usize {
    // The remainder fits: LOCAL_LINES is small.
    (id % LOCAL_LINES as u64) as usize
}

/// The calling thread's node in the structure `id`, if it has registered one and hasn't exited.
#[inline]
pub(crate) fn find(id: u64) -> Option<NonNull<()>> {
    let line = line_at(id).unwrap_or(EMPTY);
    if line.id == id {
        return NonNull::new(line.node.cast_mut());
    }
    find_slow(id)
}

/// The line for `id`. Plain locals live as long as their thread; loom's go with the others, hence no `with` here.
#[inline]
fn line_at(id: u64) -> Option<Line> {
    LINES.try_with(|lines| lines[line_of(id)].get()).ok()
}

#[cold]
fn find_slow(id: u64) -> Option<NonNull<()>> {
    if has_exited() {
        return None;
    }
    let node = MAP
        .try_with(|map| {
            let entries = map.0.borrow();
            entries.iter().find(|entry| entry.id == id).map(|e| e.node)
        })
        .ok()??;
    remember(id, node);
    Some(node)
}

fn remember(id: u64, node: NonNull<()>) {
    LINES.with(|lines| {
        lines[line_of(id)].set(Line {
            id,
            node: node.as_ptr(),
        });
    });
}

fn forget(id: u64) {
    if line_at(id).is_some_and(|line| line.id == id) {
        LINES.with(|lines| lines[line_of(id)].set(EMPTY));
    }
}

/// Whether the thread has given its nodes back: it is running its last thread-local destructors.
pub(crate) fn has_exited() -> bool {
    EXITED.try_with(Cell::get).unwrap_or(true)
}

/// Remembers a node until the thread ends. The caller has seen [`has_exited`] say no and [`find`] find nothing.
///
/// Nodes of structures that have closed meanwhile are given back.
pub(crate) fn register(id: u64, node: NonNull<()>, home: HomeRef) {
    let closed = MAP.with(|map| {
        let mut entries = map.0.borrow_mut();
        // Split off, so that foreign code in a home's drop runs without the borrow.
        let (mut open, closed): (Vec<_>, Vec<_>) = entries.drain(..).partition(|entry| {
            // SAFETY: the map holds this node for this structure.
            !unsafe { entry.home.get().is_disused(entry.node) }
        });
        open.push(Entry { id, node, home });
        *entries = open;
        closed
    });
    remember(id, node);
    give_back(closed);
}

fn give_back(entries: Vec<Entry>) {
    for entry in entries {
        forget(entry.id);
        // SAFETY: the map held this node for this structure, and the line that named it is gone.
        unsafe { entry.home.get().take_back(entry.node) };
        // The last reference may drop a user's closures; their panic must not end a thread-local destructor.
        let dropped =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(entry.home)));
        if let Err(payload) = dropped {
            discard(payload);
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let _set = EXITED.try_with(|exited| exited.set(true));
        give_back(self.0.take());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::{AtomicBool, AtomicUsize, Relaxed, next_id};

    #[derive(Default)]
    struct Counted {
        back: AtomicUsize,
        closed: AtomicBool,
    }

    impl Home for Counted {
        unsafe fn take_back(&self, _: NonNull<()>) {
            // Relaxed: joined before it is read.
            self.back.fetch_add(1, Relaxed);
        }

        unsafe fn is_disused(&self, _: NonNull<()>) -> bool {
            // Relaxed: set by the test's own thread.
            self.closed.load(Relaxed)
        }
    }

    #[test]
    fn every_node_is_given_back_at_thread_exit() {
        let home = Arc::new(Counted::default());
        let held = Arc::clone(&home);
        std::thread::spawn(move || {
            for _ in 0..LOCAL_LINES * 3 {
                let id = next_id();
                assert!(find(id).is_none());
                register(id, NonNull::dangling(), HomeRef::Shared(held.clone()));
                assert!(find(id).is_some());
            }
        })
        .join()
        .expect("no panic");
        // Relaxed: after the join.
        assert_eq!(home.back.load(Relaxed), LOCAL_LINES * 3);
        assert_eq!(Arc::strong_count(&home), 1);
    }

    #[test]
    fn nodes_of_closed_structures_go_back_at_the_next_registration() {
        let home = Arc::new(Counted::default());
        let id = next_id();
        register(id, NonNull::dangling(), HomeRef::Shared(home.clone()));
        // Relaxed: this thread's own.
        home.closed.store(true, Relaxed);
        let other = Arc::new(Counted::default());
        register(next_id(), NonNull::dangling(), HomeRef::Shared(other));
        assert!(find(id).is_none());
        assert_eq!(Arc::strong_count(&home), 1);
    }
}
