//! From a structure's identity to the calling thread's node in it.
//!
//! # Protocol
//!
//! A small table without a destructor answers most look-ups with one compare. Behind it a map with a destructor
//! remembers every node of the thread; at thread exit it gives them all back. After that, and in destructors of other
//! thread-locals that run later, [`find`] answers `None`, and callers take a path that needs no node.
//!
//! Entries of structures that have gone are forgotten when the map has doubled, which runs nobody's code. What a counted
//! reference keeps, [`sweep`] lets go of, where foreign code may run.
//!
//! # Invariants
//!
//! - I1: a line of the table names a node that the map holds. Identities are never reused, so a stale structure's line
//!   never matches; it is cleared when the map gives its node back.
//! - I2: whoever looks a structure up has a reference to it, and its nodes live as long as it does.

use std::alloc::{Layout, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};

use crate::sync::{Arc, Weak, dropping_local, next_id, plain_local};
use crate::tuning::{LOCAL_LINES, PRUNE_FROM};

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

/// The way from a thread's map to a structure.
#[derive(Clone)]
pub(crate) enum HomeRef {
    /// The global domain, which never goes.
    Static(&'static dyn Home),
    /// Keeps the structure's memory valid until the thread ends or sweeps.
    Shared(Arc<dyn Home>),
    /// Keeps nothing.
    Weak(Weak<dyn Home>),
}

impl HomeRef {
    fn has_gone(&self) -> bool {
        matches!(self, Self::Weak(home) if home.strong_count() == 0)
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

impl Entry {
    /// Whether a counted reference could be let go of.
    fn is_disused(&self) -> bool {
        match &self.home {
            // SAFETY: the map holds this node for this structure.
            HomeRef::Shared(home) => unsafe { home.is_disused(self.node) },
            HomeRef::Static(_) | HomeRef::Weak(_) => self.home.has_gone(),
        }
    }

    /// Gives the node back and lets go of the structure. Doesn't unwind.
    fn give_back(self) {
        forget(self.id);
        let Self { node, home, .. } = self;
        let given = panic::catch_unwind(AssertUnwindSafe(move || match home {
            // SAFETY: the map held this node for this structure, and the line that named it is gone.
            HomeRef::Static(home) => unsafe { home.take_back(node) },
            // SAFETY: as above. The last reference may drop a user's closures.
            HomeRef::Shared(home) => unsafe { home.take_back(node) },
            HomeRef::Weak(home) => {
                if let Some(home) = home.upgrade() {
                    // SAFETY: as above.
                    unsafe { home.take_back(node) };
                }
            }
        }));
        if let Err(payload) = given {
            discard(payload);
        }
    }
}

#[derive(Default)]
struct Entries {
    all: Vec<Entry>,
    /// Number of entries from which those that have gone are looked for.
    prune_at: usize,
}

struct Map(RefCell<Entries>);

plain_local! {
    static LINES: [Cell<Line>; LOCAL_LINES] = [const { Cell::new(EMPTY) }; LOCAL_LINES];
    static EXITED: Cell<bool> = Cell::new(false);
    static NUMBER: Cell<u64> = Cell::new(0);
}

dropping_local! {
    static MAP: Map = Map(RefCell::new(Entries { all: Vec::new(), prune_at: PRUNE_FROM }));
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
            let entry = entries.all.iter().find(|entry| entry.id == id);
            entry.map(|entry| entry.node)
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

/// The calling thread's number, never reused and never 0.
pub(crate) fn number() -> u64 {
    let number = NUMBER.try_with(Cell::get).unwrap_or(0);
    if number != 0 {
        return number;
    }
    let fresh = next_id();
    let _set = NUMBER.try_with(|number| number.set(fresh));
    fresh
}

/// Whether the thread has given its nodes back: it is running its last thread-local destructors.
pub(crate) fn has_exited() -> bool {
    EXITED.try_with(Cell::get).unwrap_or(true)
}

/// Remembers a node until the thread ends. The caller has seen [`has_exited`] say no and [`find`] find nothing.
///
/// Runs nobody's code.
pub(crate) fn register(id: u64, node: NonNull<()>, home: HomeRef) {
    if !try_register(id, node, home) {
        handle_alloc_error(Layout::new::<Entry>());
    }
}

/// As [`register`]; false if there is no memory, and the node stays the caller's.
pub(crate) fn try_register(id: u64, node: NonNull<()>, home: HomeRef) -> bool {
    let registered = MAP.with(|map| {
        let mut entries = map.0.borrow_mut();
        if entries.all.len() >= entries.prune_at {
            entries.all.retain(|entry| !entry.home.has_gone());
            entries.prune_at = PRUNE_FROM.max(entries.all.len() * 2);
        }
        let has_room = entries.all.try_reserve(1).is_ok();
        if has_room {
            entries.all.push(Entry { id, node, home });
        }
        has_room
    });
    if registered {
        remember(id, node);
    }
    registered
}

/// Gives the nodes of closed structures back. Runs what dropping those structures runs; doesn't unwind.
pub(crate) fn sweep() {
    loop {
        // One at a time, so that foreign code runs without the borrow.
        let disused = MAP.try_with(|map| {
            let mut entries = map.0.borrow_mut();
            let at = entries.all.iter().position(Entry::is_disused)?;
            Some(entries.all.swap_remove(at))
        });
        match disused {
            Ok(Some(entry)) => entry.give_back(),
            Ok(None) | Err(_) => return,
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let _set = EXITED.try_with(|exited| exited.set(true));
        for entry in self.0.take().all {
            entry.give_back();
        }
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
    fn nodes_of_closed_structures_go_back_at_a_sweep() {
        let home = Arc::new(Counted::default());
        let id = next_id();
        register(id, NonNull::dangling(), HomeRef::Shared(home.clone()));
        // Relaxed: this thread's own.
        home.closed.store(true, Relaxed);
        register(
            next_id(),
            NonNull::dangling(),
            HomeRef::Shared(Arc::new(Counted::default())),
        );
        assert!(find(id).is_some());
        sweep();
        assert!(find(id).is_none());
        assert_eq!(Arc::strong_count(&home), 1);
    }

    #[test]
    fn structures_that_have_gone_are_forgotten() {
        for _ in 0..PRUNE_FROM * 4 {
            let home: Arc<dyn Home> = Arc::new(Counted::default());
            register(
                next_id(),
                NonNull::dangling(),
                HomeRef::Weak(Arc::downgrade(&home)),
            );
        }
        let entries = MAP.with(|map| map.0.borrow().all.len());
        assert!(entries <= PRUNE_FROM, "{entries} entries");
    }
}
