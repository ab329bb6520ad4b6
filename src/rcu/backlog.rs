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

use crate::tuning::BATCH;

use super::batch::{Hand, List, Owned};

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
    /// The open batch, if there is one with room.
    #[inline]
    pub(super) fn open(&mut self) -> Option<&mut Owned> {
        self.open.as_mut().filter(|open| open.has_room())
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

    #[inline]
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Moves a few ready thunks into the empty hand.
    #[inline]
    pub(super) fn pop_ready(&mut self, hand: &mut Hand) -> Spent {
        match self.ready.pop_into(hand) {
            // A thread's first, small one isn't worth keeping.
            Some(used) if self.spare.is_none() && used.size() == BATCH => {
                self.spare = Some(used);
                None
            }
            used => used,
        }
    }

    /// Objects that needn't wait any more.
    pub(super) fn ready_objects(&self) -> usize {
        self.ready.objects()
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

    /// Objects and bytes in all stages, without those taken out. Walks over all of them.
    pub(super) fn left(&mut self) -> (u64, u64) {
        let open = self.open.as_mut().map_or((0, 0), Owned::left);
        let parts = [open, self.waiting.left(), self.ready.left()];
        parts.iter().fold((0, 0), |sum, part| {
            (sum.0 + part.0, sum.1.wrapping_add(part.1))
        })
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
