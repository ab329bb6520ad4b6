//! An inode, in the two parts that a type-stable slab asks for: the [`Head`], which is built once per
//! slot and outlives every file that lives there, and the [`Body`], which belongs to one file.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};

use crate::attributes::{Attributes, InodeId};

/// The value of an inode: dropped with the last reference, made anew for the next file.
pub(crate) struct Body {
    id: InodeId,
    attributes: OnceLock<Attributes>,
    /// The link count that `unlink` works on; starts at what the attributes say.
    links: AtomicU32,
}

impl Body {
    /// Starts an inode whose attributes are yet to be read.
    pub(crate) fn unread(id: InodeId) -> Self {
        Body {
            id,
            attributes: OnceLock::new(),
            links: AtomicU32::new(1),
        }
    }

    /// Starts an inode that is complete from the first moment.
    pub(crate) fn complete(id: InodeId, attributes: Attributes) -> Self {
        let links = AtomicU32::new(attributes.links);
        Body {
            id,
            attributes: OnceLock::from(attributes),
            links,
        }
    }

    /// Sets the attributes. Only the one thread that inserted the inode calls this, and once.
    pub(crate) fn fill(&self, attributes: Attributes) {
        // Relaxed: other threads wait for the head's lock before they look at a new inode.
        self.links.store(attributes.links, Ordering::Relaxed);
        self.attributes
            .set(attributes)
            .expect("an inode is filled once");
    }

    pub(crate) fn id(&self) -> InodeId {
        self.id
    }

    /// Returns what was read; `None` only while the inode is new.
    pub(crate) fn attributes(&self) -> Option<&Attributes> {
        self.attributes.get()
    }

    pub(crate) fn links(&self) -> u32 {
        // Relaxed: the last user of an inode took its lock after every other user's last step.
        self.links.load(Ordering::Relaxed)
    }

    /// Removes one name; `false` if none was left.
    pub(crate) fn unlink(&self) -> bool {
        // Relaxed: as in `links`; only the number itself counts.
        self.links
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |links| {
                links.checked_sub(1)
            })
            .is_ok()
    }
}

/// Where an inode stands in its life.
///
/// | phase | in the hash | who may move it on |
/// |---|---|---|
/// | `New` | yes | the thread that inserted it: to `Live`, or to `Gone` if reading failed |
/// | `Live` | yes | who finds no user under the lock: to `Gone` |
/// | `Gone` | no | the owner of the slot's next life |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    New,
    Live,
    Gone,
}

/// What the inode's lock protects.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) users: u32,
    /// An LRU entry for this life exists.
    pub(crate) listed: bool,
    /// Used since the shrinker last came by: the second chance.
    pub(crate) referenced: bool,
    sleepers: u32,
}

/// The stable part of an inode. A thread that a look-up led astray may lock it at any time, whoever lives
/// there, so it is built by the slab's constructor and never rebuilt.
#[derive(Debug)]
pub(crate) struct Head {
    state: Mutex<State>,
    changed: Condvar,
}

impl Head {
    /// Builds the head of an empty slot.
    pub(crate) fn vacant() -> Self {
        let state = State {
            phase: Phase::Gone,
            users: 0,
            listed: false,
            referenced: false,
            sleepers: 0,
        };
        Head {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Builds a head that starts its only life at once.
    pub(crate) fn used(phase: Phase) -> Self {
        let head = Head::vacant();
        head.begin(phase);
        head
    }

    /// Starts a life with one user. Called by the only owner, before the inode can be found.
    pub(crate) fn begin(&self, phase: Phase) {
        let mut state = self.lock();
        (state.phase, state.users, state.listed, state.referenced) = (phase, 1, false, false);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing panics under an inode's lock")
    }

    /// Sleeps until the inode is no longer new.
    pub(crate) fn wait_while_new<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        state.sleepers += 1;
        let mut state = self
            .changed
            .wait_while(state, |state| state.phase == Phase::New)
            .expect("nothing panics under an inode's lock");
        state.sleepers -= 1;
        state
    }

    /// Moves to `phase` and wakes those who wait for that.
    pub(crate) fn advance(&self, state: &mut State, phase: Phase) {
        state.phase = phase;
        // Waking costs a system call even if nobody sleeps.
        if state.sleepers > 0 {
            self.changed.notify_all();
        }
    }
}
