//! What one thread has pushed.
//!
//! # Protocol
//!
//! - The thread stores into its *open* buffer, in an owner's section. The push that fills the buffer moves it to the
//!   thread's [`Line`] in the same section; the next one brings another buffer, which it got outside of any section.
//! - Others pop from the line, and take an open buffer over if it is late or they want everything (a taker's turn). A
//!   thread that finds its section revoked appends a buffer with one item to the line instead of waiting.
//! - Handled buffers go back to the thread's spares, so that nothing is allocated in the steady state.
//!
//! The worker takes full buffers from the line, without a fence, and revokes nothing; a taker's turn costs a heavy fence,
//! so it is left for what is late.
//!
//! # Invariants
//!
//! - I1: an item is in the open buffer, in the line, or under a [`Running`] mark that was begun before its buffer left
//!   either.
//! - I2: an open buffer isn't empty, has room up to `stop_at`, and `stop_at` is never above what the limit admits, unless
//!   `beside` says that the thread has appended to the line meanwhile: then the next push asks anew.
//! - I3: `popped` is at most `queued` for whoever reads it first.
//! - I4: only the node's owner pushes to the line, and has reserved a place for the open buffer and one more whenever it
//!   brings a buffer.
//!
//! # Orderings
//!
//! - O72: `closed`, full fence, walk of the nodes | a node's publication or a mark, full fence, `closed`: the walk finds the
//!   node, or the push is refused; the mark is waited for, or the push is refused. For a node that the walk finds, its
//!   turn orders `closed` before every later section (O2, O3), and sealing its line does so for what is appended (O71).
//! - O73: popping (Release) -> [`Local::waiting`] (Acquire): whoever counts an item as popped sees it as queued, and the
//!   mark under which it was popped.

use crossbeam_utils::CachePadded;

use crate::counter;
use crate::fence::Biased;
use crate::sync::{Acquire, AtomicBool, AtomicU64, Relaxed, edge, fence};
use crate::thread::Running;
use crate::tuning::{QUEUE_LOOK_EVERY, QUEUE_READ_TRIES};

use super::buffer::Buffer;
use super::line::Line;
use super::spares::Spares;

/// No open buffer.
const NEVER: u64 = u64::MAX;

/// What a push found out beside storing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// Nothing.
    Plain,
    /// It was the first of its buffer.
    First,
    /// It is time to look at the clock.
    Look,
    /// A buffer has moved to the line.
    Full,
}

/// A thread's open buffer.
pub(super) type Open<T> = Option<Box<Buffer<T>>>;

/// Another thread is busy with the open buffer.
#[derive(Debug)]
pub(super) struct Kept;

/// How far a buffer may be filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    /// Items that this push and the following ones may add before they meet the limit; 0 if this one passes it.
    pub(super) room: u64,
    /// Items of a full batch.
    pub(super) batch: usize,
    /// Whether pushes look at the clock.
    pub(super) looks: bool,
    pub(super) now: u64,
}

/// One thread's node in a queue.
pub(super) struct Local<T> {
    pub(super) open: Biased<Open<T>>,
    /// When the first item of the open buffer came; a hint, stored by whoever has the turn.
    since: AtomicU64,
    queued: counter::Local,
    /// The open buffer's `stop_at` is out of date.
    beside: AtomicBool,
    pub(super) limit_hits: counter::Local,
    /// What this thread has handled, of whichever thread's.
    pub(super) handled: Handled,
    shared: CachePadded<Shared<T>>,
}

/// What a thread writes as it handles batches.
#[derive(Default)]
pub(super) struct Handled {
    pub(super) running: Running,
    pub(super) items: counter::Local,
    pub(super) batches: counter::Local,
}

/// What other threads write.
struct Shared<T> {
    line: Line<T>,
    popped: AtomicU64,
    spares: Spares<T>,
}

impl<T> Local<T> {
    /// Makes a node whose line has `places` at first.
    pub(super) fn new(places: usize) -> Self {
        Self {
            open: Biased::new(None),
            since: AtomicU64::new(NEVER),
            queued: counter::Local::new(),
            beside: AtomicBool::new(false),
            limit_hits: counter::Local::new(),
            handled: Handled::default(),
            shared: CachePadded::new(Shared {
                line: Line::new(places),
                popped: AtomicU64::new(0),
                spares: Spares::new(),
            }),
        }
    }

    /// Stores `value` if that takes neither a new buffer nor a look at the limit; else hands it back.
    ///
    /// # Safety
    ///
    /// 1. The caller's thread owns the node.
    /// 2. None of its sections is open.
    #[inline]
    pub(super) unsafe fn store(&self, value: T, batch: usize) -> Result<Stored, T> {
        // SAFETY: (1) and (2).
        let Some(mut open) = (unsafe { self.open.try_enter() }) else {
            return Err(value);
        };
        // Relaxed: the owner's own.
        if self.beside.load(Relaxed) {
            return Err(value);
        }
        let Some(buffer) = open.as_mut().filter(|b| b.items.len() < b.stop_at) else {
            return Err(value);
        };
        buffer.trace();
        buffer.items.push_back(value);
        self.queued.add(1);
        if buffer.items.len() < buffer.stop_at {
            return Ok(Stored::Plain);
        }
        // SAFETY: (1).
        Ok(unsafe { self.stop(&mut open, batch) })
    }

    /// The open buffer has reached `stop_at`.
    ///
    /// # Safety
    ///
    /// 1. The caller's thread owns the node.
    #[cold]
    unsafe fn stop(&self, open: &mut Open<T>, batch: usize) -> Stored {
        let Some(buffer) = open.as_mut().filter(|b| b.items.len() < batch) else {
            // SAFETY: (1).
            unsafe { self.hand_over(open) };
            return Stored::Full;
        };
        let len = buffer.items.len();
        // At the limit the buffer stays open, so that batches become full later; but each push has to ask.
        buffer.stop_at = if len < buffer.admitted {
            buffer.admitted.min(len + QUEUE_LOOK_EVERY)
        } else {
            0
        };
        Stored::Look
    }

    /// Stores `value`, with a new buffer if there is no open one; hands it back once the queue is closed.
    ///
    /// # Safety
    ///
    /// As [`store`](Self::store).
    pub(super) unsafe fn store_slow(
        &self,
        value: T,
        aim: Aim,
        closed: &AtomicBool,
    ) -> Result<Stored, T> {
        // Before the section: both may allocate.
        // SAFETY: the caller's (1) and I4.
        unsafe { self.shared.line.ring.reserve() };
        let mut fresh = self.spare(aim.batch);
        fresh.since = aim.now;
        // SAFETY: the caller's (1) and (2).
        let section = unsafe { self.open.try_enter() };
        // Relaxed: ordered by the section's own edges (O2, O3) or the claim of the node (O72); without a section, sealing
        // decides (O71).
        if closed.load(Relaxed) {
            drop(section);
            self.put_spare(fresh, aim.batch);
            return Err(value);
        }
        let Some(mut open) = section else {
            // SAFETY: the caller's (1).
            return unsafe { self.append(value, fresh) };
        };
        let (unused, is_first) = if open.is_some() {
            (Some(fresh), false)
        } else {
            // Relaxed: a hint.
            self.since.store(aim.now, Relaxed);
            (open.replace(fresh), true)
        };
        // Relaxed: the owner's own; it asks anew here.
        self.beside.store(false, Relaxed);
        let is_full = open.as_mut().is_some_and(|b| self.fill(b, value, aim));
        if is_full {
            // SAFETY: the caller's (1).
            unsafe { self.hand_over(&mut open) };
        }
        drop(open);
        if let Some(unused) = unused {
            self.put_spare(unused, aim.batch);
        }
        Ok(match (is_full, is_first) {
            (true, _) => Stored::Full,
            (false, true) => Stored::First,
            (false, false) => Stored::Plain,
        })
    }

    /// Stores into the open buffer and says how far it may be filled from now on (I2); whether it is full.
    fn fill(&self, buffer: &mut Buffer<T>, value: T, aim: Aim) -> bool {
        buffer.trace();
        buffer.items.push_back(value);
        self.queued.add(1);
        let len = buffer.items.len();
        let more = usize::try_from(aim.room.saturating_sub(1)).unwrap_or(usize::MAX);
        buffer.admitted = aim.batch.min(len.saturating_add(more));
        buffer.stop_at = match (more, aim.looks) {
            // At the limit, or past it.
            (0, _) => 0,
            (_, true) => buffer.admitted.min(len + QUEUE_LOOK_EVERY),
            (_, false) => buffer.admitted,
        };
        len >= aim.batch
    }

    /// Appends a buffer of one item to the line: somebody else has his turn at the open buffer.
    ///
    /// # Safety
    ///
    /// 1. The caller's thread owns the node and has just reserved places (I4).
    unsafe fn append(&self, value: T, mut buffer: Box<Buffer<T>>) -> Result<Stored, T> {
        buffer.trace();
        buffer.items.push_back(value);
        // Before the item can be popped (I3).
        self.queued.add(1);
        // Relaxed: the owner's own.
        self.beside.store(true, Relaxed);
        // SAFETY: (1).
        match unsafe { self.shared.line.ring.push(buffer) } {
            Ok(()) => Ok(Stored::Full),
            Err(mut buffer) => {
                self.queued.add(1_u64.wrapping_neg());
                let value = buffer.items.pop_front();
                Err(value.expect("it has just been put there"))
            }
        }
    }

    /// Moves the open buffer to the line.
    ///
    /// # Safety
    ///
    /// 1. The caller's thread owns the node and is inside a section.
    unsafe fn hand_over(&self, open: &mut Open<T>) {
        if let Some(buffer) = self.detach(open) {
            // A ring is sealed after the last buffer could be opened (O72); if not, nothing is lost either.
            // SAFETY: (1), and a place was reserved when the buffer was opened (I4).
            *open = unsafe { self.shared.line.ring.push(buffer) }.err();
        }
    }

    /// Takes the open buffer out. The caller has the turn.
    pub(super) fn detach(&self, open: &mut Open<T>) -> Option<Box<Buffer<T>>> {
        // Relaxed: a hint.
        self.since.store(NEVER, Relaxed);
        open.take()
    }

    /// Takes the open buffer from the owner's side, unless another thread is about to. It isn't counted as popped yet. The
    /// caller has begun a mark (I1).
    ///
    /// # Safety
    ///
    /// As [`store`](Self::store).
    pub(super) unsafe fn take_own(&self) -> Result<Open<T>, Kept> {
        // SAFETY: the caller's (1) and (2).
        let section = unsafe { self.open.try_enter() };
        section.map(|mut open| self.detach(&mut open)).ok_or(Kept)
    }

    /// Lets nothing more into the line. The caller has set `closed` and then taken the open buffer.
    pub(super) fn seal(&self) {
        self.shared.line.ring.seal();
    }

    /// Takes the oldest buffer of the line that nobody is busy with. The caller has begun a mark (I1).
    pub(super) fn pop(&self) -> Option<Box<Buffer<T>>> {
        let popped = self.shared.line.pop()?;
        Some(self.counted(popped))
    }

    /// Takes the oldest buffer of the line and overlooks none. The caller has begun a mark (I1).
    pub(super) fn pop_settled(&self) -> Option<Box<Buffer<T>>> {
        let popped = self.shared.line.settle().pop(u64::MAX)?;
        Some(self.counted(popped))
    }

    /// Puts a value into a buffer that is in no line. The caller owns the node and has begun a mark (I1).
    pub(super) fn bypass(&self, value: T, batch: usize) -> Box<Buffer<T>> {
        let mut buffer = self.spare(batch);
        buffer.items.push_back(value);
        self.queued.add(1);
        self.counted(buffer)
    }

    /// Counts a buffer's items as handed to the handler.
    pub(super) fn counted(&self, mut popped: Box<Buffer<T>>) -> Box<Buffer<T>> {
        popped.trace();
        // Release: pairs with the Acquire in waiting (O73).
        self.shared
            .popped
            .fetch_add(popped.count(), edge!(O73, Release));
        popped
    }

    /// Counts as popped, and as handled, what is neither in the line nor open: `there` items are. For the child of a fork,
    /// which has lost what other threads had in hand.
    pub(super) fn count_lost(&self, there: u64) {
        let lost = self.waiting().saturating_sub(there);
        // Relaxed: the child has one thread.
        self.shared.popped.fetch_add(lost, Relaxed);
    }

    pub(super) fn line(&self) -> &Line<T> {
        &self.shared.line
    }

    /// Number of items that wait: pushed and not yet handed to the handler.
    pub(super) fn waiting(&self) -> u64 {
        // Acquire: pairs with the Release in counted (O73); what was popped counts as queued below (I3).
        let popped = self.shared.popped.load(edge!(O73, Acquire));
        self.queued.get().saturating_sub(popped)
    }

    /// Number of items that were accepted, and of those that wait: of one moment, unless drains follow each other closely.
    pub(super) fn counts(&self) -> (u64, u64) {
        // Acquire: as in waiting (O73).
        let mut popped = self.shared.popped.load(edge!(O73, Acquire));
        for _ in 0..QUEUE_READ_TRIES {
            let queued = self.queued.get();
            // Acquire: the second look at `popped` comes after the look at `queued`.
            edge!(O73, fence(Acquire));
            // Acquire: as in waiting (O73), if it is the next try's first look.
            let still = self.shared.popped.load(edge!(O73, Acquire));
            if still == popped {
                return (queued, queued.saturating_sub(popped));
            }
            popped = still;
        }
        (self.queued.get(), self.waiting())
    }

    /// Whether a buffer of the line waits. A hint.
    pub(super) fn is_ready(&self) -> bool {
        self.shared.line.is_ready()
    }

    /// When the first item of the open buffer came.
    pub(super) fn since(&self) -> Option<u64> {
        // Relaxed: a hint.
        let since = self.since.load(Relaxed);
        (since != NEVER).then_some(since)
    }

    /// When the oldest item that waits came.
    pub(super) fn oldest(&self) -> Option<u64> {
        let in_line = self.shared.line.oldest();
        in_line.into_iter().chain(self.since()).min()
    }

    /// Number of spares.
    #[cfg(all(test, not(loom)))]
    pub(super) fn spares(&self) -> usize {
        self.shared.spares.len()
    }

    fn spare(&self, batch: usize) -> Box<Buffer<T>> {
        self.shared.spares.take(batch)
    }

    /// Keeps an empty buffer for the next batch.
    pub(super) fn put_spare(&self, buffer: Box<Buffer<T>>, batch: usize) {
        self.shared.spares.give(buffer, batch);
    }
}
