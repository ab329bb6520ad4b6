//! What one thread has retired and not yet dropped.
//!
//! An object goes from the open batch to the waiting list, when the batch closes and takes a cookie, and from there to
//! the ready list, when its grace period has passed. The owner works on it in sections of its biased lock; others take
//! it over whole.
//!
//! # Invariants
//!
//! - I1: nothing here allocates, frees or runs user code, since all of it happens under the lock: new batches come from
//!   outside, used-up ones go out.

use super::batch::{List, Owned};
use super::thunk::Thunk;

/// The three stages of a thread's retired objects.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    open: Option<Owned>,
    waiting: List,
    ready: List,
    spare: Option<Owned>,
    /// Objects and bytes above which the owner helps next, where that is above the domain's limit: help was in vain.
    pub(super) help_at: (usize, usize),
}

/// A batch that has been used up, to be freed outside the lock.
pub(super) type Spent = Option<Owned>;

impl Backlog {
    /// Adds to the open batch; hands the thunk back if there is none, or it is full, or holds `most` bytes already.
    #[inline]
    pub(super) fn push(&mut self, thunk: Thunk, most: usize) -> Result<(), Thunk> {
        match &mut self.open {
            Some(open) if open.bytes() < most || open.len() == 0 => open.push(thunk),
            _ => Err(thunk),
        }
    }

    /// Closes the open batch under `cookie`.
    pub(super) fn seal(&mut self, cookie: u64) {
        if let Some(mut open) = self.open.take() {
            open.seal(cookie);
            self.waiting.push_back(open);
        }
    }

    /// Opens a batch for the next objects: the given one, or the spare.
    pub(super) fn install(&mut self, fresh: Option<Owned>) -> Spent {
        debug_assert!(self.open.is_none());
        let (open, spent) = match (fresh, self.spare.take()) {
            (Some(fresh), spare) => (Some(fresh), spare),
            (None, spare) => (spare, None),
        };
        self.open = open.map(|mut batch| {
            batch.renew();
            batch
        });
        spent
    }

    pub(super) fn has_spare(&self) -> bool {
        self.spare.is_some()
    }

    pub(super) fn has_open(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.len() > 0)
    }

    /// Moves batches whose grace period has passed to the ready list.
    pub(super) fn ripen(&mut self, elapsed: impl Fn(u64) -> bool) {
        while self.waiting.first_cookie().is_some_and(&elapsed) {
            if let Some(batch) = self.waiting.pop_front() {
                self.ready.push_back(batch);
            }
        }
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes one ready thunk out.
    #[inline]
    pub(super) fn pop_ready(&mut self) -> (Option<Thunk>, Spent) {
        let (thunk, used) = self.ready.pop_thunk();
        match used {
            Some(used) if self.spare.is_none() => {
                self.spare = Some(used);
                (thunk, None)
            }
            used => (thunk, used),
        }
    }

    /// Objects that wait for readers.
    pub(super) fn waiting_objects(&self) -> usize {
        self.objects() - self.ready.objects()
    }

    /// Bytes that wait for readers.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.bytes().saturating_sub(self.ready.bytes())
    }

    /// Objects in all stages.
    pub(super) fn objects(&self) -> usize {
        let open = self.open.as_ref().map_or(0, Owned::len);
        open + self.waiting.objects() + self.ready.objects()
    }

    /// Bytes in all stages.
    pub(super) fn bytes(&self) -> usize {
        let open = self.open.as_ref().map_or(0, Owned::bytes);
        open.saturating_add(self.waiting.bytes())
            .saturating_add(self.ready.bytes())
    }

    /// Adopts batches of others.
    pub(super) fn adopt(&mut self, list: &mut List) {
        self.waiting.append(list);
    }

    /// Takes everything out, closing the open batch under `cookie`. The owner's next push finds no open batch.
    pub(super) fn take_all(&mut self, cookie: u64) -> (List, Spent) {
        let spent = if self.has_open() {
            self.seal(cookie);
            None
        } else {
            self.open.take()
        };
        let mut all = std::mem::take(&mut self.ready);
        all.append(&mut self.waiting);
        (all, spent)
    }
}
