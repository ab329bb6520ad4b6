//! A thread's record in a domain: the word that drivers read, and the thread's own part.
//!
//! # Protocol
//!
//! The steps of the reader:
//!
//! - *enter*, hot: `w = word`; if it is idle without `S`: `word = w + 1` (Release); compiler fence; `e = E` (Acquire). If
//!   `w == e`, the reader is inside; else *cold* with `e`. The look comes after the store: one that comes before says
//!   nothing, since a reader that was preempted between the two could land its store after later periods have come to
//!   trust its parked word. A second look before the store would be sound, and cost 0.1 ns.
//! - *enter*, nested: `word + 1`, no fence: the outermost guard protects.
//! - *enter*, cold (a new epoch, `S`, or `F`): `word = (E, 1)`, with `S` iff `F` (Release); full fence.
//! - *leave*: `word - 1` (Release).
//! - *refresh*, of a thread's only guard: `word = (E, 1)`, with `S` iff `F` (Release); full fence.
//! - *announce*, outside guards: compare-exchange `(x, 0) -> (E, 0)`, never from `S`.
//!
//! # Invariants
//!
//! - I1: only the record's owner stores `word`, but for a driver's parking of an idle one. The owner is the thread that claimed the node; an orphan's owner is
//!   whoever holds the guards and readers that are left.
//! - I2: an orphan without a [`Reader`](super::Reader) and with an idle word stays so. Readers are looked at first: only
//!   a reader can turn an idle word busy.
//!
//! # Orderings
//!
//! - O20: enter's store, fence | the driver's advance of `E`, full fence (see `clock`): the driver sees the reader inside,
//!   or the reader sees all that came before the driver's fence. The reader's fence is full in the cold path. In the hot
//!   one it is the compiler's, and the driver's heavy fence does the rest before it parks an idle word (O26).
//! - O21: every store of `word` (Release) -> the driver's scan (Acquire): what a guard read happens before the end of
//!   the period that waited for it. The store of a later enter counts as well, since it follows the leave.
//! - O22: the driver's advance of `E` (Release) -> enter's load of `E` (Acquire): a reader that entered in the new epoch
//!   sees all that came before it, so that the driver may pass it by.
//! - O23: a reader's going, and the last leave (Release) -> claiming an orphan (Acquire).

use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use crate::counter::Local;
use crate::fence::{self, Biased};
use crate::sync::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, Relaxed, ThreadHandle, edge,
    this_thread,
};
use crate::thread::{Registry, Running, local};
use crate::tuning::{BATCH, FIRST_BATCH};

use super::backlog::Backlog;
use super::clock::Clock;
use super::epoch::{Epoch, Word};
use super::owned;

/// A thread's part of a domain.
///
/// The word comes first, in the line of the node's links, which is all that a scan touches.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Record {
    /// Written by the owner at every enter and leave, read by drivers.
    word: AtomicU64,
    /// The domain's identity, and its clock.
    domain: u64,
    clock: NonNull<Clock>,
    records: NonNull<Registry<Record>>,
    /// The thread that claimed the record last, for its name.
    thread: Mutex<Option<ThreadHandle>>,
    /// Live [`Reader`](super::Reader)s of the owner.
    readers: AtomicU32,
    /// The thread that claimed the record last, by [`local::number`]; 0 if it is an owned guard's.
    owner: AtomicU64,
    pub(super) own: CachePadded<Own>,
}

/// What a thread retires and drops. Written by the owner, or by whoever took the backlog over.
#[derive(Debug, Default)]
pub(super) struct Own {
    pub(super) backlog: Biased<Backlog>,
    /// Destructors that this thread has in hand.
    pub(super) running: Running,
    pub(super) retired: Local,
    pub(super) retired_bytes: Local,
    pub(super) dropped: Local,
    pub(super) dropped_bytes: Local,
    /// When the owner last opened a batch, by the shim's clock; 0 while the backlog is known to be empty.
    touched: AtomicU64,
    /// Batches that the owner has closed since it last asked for a grace period.
    batches: AtomicU64,
    /// Whether an open frame of the owner's will drop some of the backlog.
    owes: AtomicBool,
    /// Objects that permits allow the owner to retire.
    pub(super) permitted: AtomicUsize,
}

impl Own {
    /// Notes that the backlog holds something; within a section of it.
    pub(super) fn touch(&self, now: u64) {
        // Relaxed: a hint for those who look for idle backlogs.
        self.touched.store(now.max(1), Relaxed);
    }

    /// Notes that the backlog has been taken over; within the taker's turn.
    pub(super) fn untouch(&self) {
        // Relaxed: as in touch.
        self.touched.store(0, Relaxed);
    }

    /// Counts a batch that the owner has closed; true for every `share`th.
    pub(super) fn count_batch(&self, share: u64) -> bool {
        // Relaxed: the owner's own count.
        let batches = self.batches.load(Relaxed) + 1;
        let due = batches >= share;
        // Relaxed: as above.
        self.batches.store(if due { 0 } else { batches }, Relaxed);
        due
    }

    /// Notes that a frame has been told to drop some of the backlog; false if one had been already.
    pub(super) fn begin_debt(&self) -> bool {
        // Relaxed: the owner's own note.
        !self.owes.swap(true, Relaxed)
    }

    /// Notes that the frame has done so.
    pub(super) fn end_debt(&self) {
        // Relaxed: as in begin_debt.
        self.owes.store(false, Relaxed);
    }

    /// Whether the backlog may hold something that its owner hasn't touched since `oldest`, or has no owner.
    pub(super) fn is_held_since(&self, oldest: u64, abandoned: bool) -> bool {
        // Relaxed: as in touch.
        let touched = self.touched.load(Relaxed);
        touched != 0 && (abandoned || touched <= oldest)
    }
}

// SAFETY: the clock is shared among threads, and so is everything else.
unsafe impl Send for Record {}
// SAFETY: as above.
unsafe impl Sync for Record {}

impl Record {
    /// Makes a record of a domain whose clock and registry stay where they are for as long as the record lives.
    pub(super) fn new(domain: u64, clock: &Clock, records: &Registry<Self>) -> Self {
        Self {
            word: AtomicU64::new(Word::IDLE.bits()), // [B1]
            domain,
            clock: NonNull::from(clock),
            records: NonNull::from(records),
            thread: Mutex::new(None),
            readers: AtomicU32::new(0),
            owner: AtomicU64::new(0),
            own: CachePadded::new(Own::default()),
        }
    }

    pub(super) fn domain(&self) -> u64 {
        self.domain
    }

    /// Enters; only the owner may call it (I1).
    #[inline]
    pub(super) fn enter(&self, clock: &Clock) {
        let word = self.own_word(); // [E1]
        if !word.may_enter_unfenced() {
            return self.enter_cold(clock, word);
        }
        // Release: pairs with the Acquire in observe (O21); an earlier guard's reads come before. [E2]
        self.word
            .store(word.nested_once().bits(), edge!(O21, Release));
        // The reader's half of O26. [E3]
        edge!(O26, fence::compiler());
        let epoch = clock.epoch(); // [E4]
        if !word.is_current(epoch) {
            self.enter_fenced(epoch);
        }
    }

    #[cold]
    fn enter_cold(&self, clock: &Clock, word: Word) {
        if word.is_idle() {
            self.enter_fenced(clock.epoch()); // [E5]
        } else {
            self.nest();
        }
    }

    #[cold]
    fn enter_fenced(&self, epoch: Epoch) {
        // Release: pairs with the Acquire in observe (O21); an earlier guard's reads come before. [E6]
        self.word
            .store(Word::entered(epoch).bits(), edge!(O21, Release));
        // Orders the store with all of the guard's reads against the driver's fence (O20). [E7]
        edge!(O20, fence::full());
    }

    /// Moves the owner's only guard to the present epoch; false if there are more. Only the owner may call it (I1).
    pub(super) fn refresh(&self) -> bool {
        // [R1]
        if !self.own_word().is_only_guard() {
            return false;
        }
        // [R2]
        // SAFETY: the clock lives as long as its domain's records.
        self.enter_fenced(unsafe { self.clock.as_ref() }.epoch());
        true
    }

    /// Enters on a record that was just claimed for an owned guard, or moves that guard to the present.
    pub(super) fn enter_owned(&self, clock: &Clock) {
        // [W1]
        // Release: pairs with the Acquire in observe (O21); what the guard read so far comes before. [W2]
        self.word.store(
            Word::entered_owned(clock.epoch()).bits(),
            edge!(O21, Release),
        );
        // Orders the store with all of the guard's reads against the driver's fence (O20). [W3]
        edge!(O20, fence::full());
    }

    /// Moves the owned guard that has this record to the present; only who has that exclusively may call it.
    pub(super) fn refresh_owned(&self) {
        debug_assert!(self.is_nobodys() && self.own_word().is_only_guard());
        // SAFETY: the clock lives as long as its domain's records.
        self.enter_owned(unsafe { self.clock.as_ref() });
    }

    /// Enters the same domain on another record, which is no thread's.
    pub(super) fn enter_another(&self) -> NonNull<Self> {
        // SAFETY: the clock lives as long as its domain's records.
        let clock = unsafe { self.clock.as_ref() };
        // SAFETY: so does the registry.
        owned::enter(unsafe { self.records.as_ref() }, self.domain, clock)
    }

    /// Tells drivers that the owner, if it is idle, has seen the present epoch; only the owner may call it (I1).
    pub(super) fn announce(&self, clock: &Clock) {
        let mut word = self.own_word(); // [A1]
        // [A2]
        while let Some(announced) = word.announced(clock.epoch()) {
            // AcqRel: Release pairs with the Acquire in observe (O21). A plain store could undo a driver's parking. [A3]
            // Relaxed on failure: the loop looks again.
            match self.word.compare_exchange(
                word.bits(),
                announced.bits(),
                edge!(O21, AcqRel),
                Relaxed,
            ) {
                Ok(_) => return,
                Err(_) => word = self.own_word(), // [A1]
            }
        }
    }

    /// Parks the owner's own word, if it is idle, since nobody knows when it will be used again; only the owner may call
    /// it. It needs no heavy fence: the owner's last guard is behind it.
    pub(super) fn park_own(&self) {
        let word = self.own_word(); // [X1]
        if word.is_idle() && word != word.parked() {
            // Whoever was faster has parked it as well. [X2]
            let _parked = self.park(word);
        }
    }

    /// Parks an idle word that a driver has seen, after its heavy fence. False if the word has moved on.
    pub(super) fn park(&self, seen: Word) -> bool {
        // AcqRel: Release hands on to later drivers that trust the parked word; Acquire pairs with the owner's last
        // Release (O21). Relaxed on failure: the driver looks again. [P2]
        self.word
            .compare_exchange(
                seen.bits(),
                seen.parked().bits(),
                edge!(O21, AcqRel),
                Relaxed,
            )
            .is_ok()
    }

    /// Adds a guard to the live ones; only the owner may call it (I1).
    #[inline]
    pub(super) fn nest(&self) {
        let word = self.own_word(); // [N1]
        debug_assert!(!word.is_idle());
        // Release: pairs with the Acquire in observe (O21). Nothing new is protected, so no fence. [N2]
        self.word.store(word.nested().bits(), edge!(O21, Release));
    }

    /// Leaves one guard; only the owner may call it (I1).
    #[inline]
    pub(super) fn leave(&self) {
        let word = self.own_word(); // [L1]
        debug_assert!(!word.is_idle());
        // Release: pairs with the Acquire in observe (O21); the guard's reads come before. [L2]
        self.word.store(word.left().bits(), edge!(O21, Release));
    }

    /// Counts a retired object; only the owner may call it.
    #[inline]
    pub(super) fn count_retired(&self, bytes: usize) {
        self.own.retired.add(1);
        self.own.retired_bytes.add(bytes as u64);
    }

    /// How many objects the owner's next batch is for.
    pub(super) fn batch_size(&self) -> usize {
        if self.own.retired.get() < FIRST_BATCH as u64 {
            FIRST_BATCH
        } else {
            BATCH
        }
    }

    /// Takes a retired object off the count again, since it is counted elsewhere; only the owner may call it.
    pub(super) fn uncount_retired(&self, bytes: usize) {
        self.own.retired.add(1_u64.wrapping_neg());
        self.own.retired_bytes.add((bytes as u64).wrapping_neg());
    }

    /// Whether the owner is inside a guard; only the owner gets an answer that lasts.
    pub(super) fn is_inside(&self) -> bool {
        !self.own_word().is_idle()
    }

    /// The word as a driver sees it.
    pub(super) fn observe(&self) -> Word {
        // Acquire: pairs with the Release in enter, nest and leave (O21).
        Word::from_bits(self.word.load(edge!(O21, Acquire)))
    }

    #[inline]
    fn own_word(&self) -> Word {
        // Relaxed: only the owner stores the word, but for a parking, and whoever relies on that sees it by other means (I1).
        Word::from_bits(self.word.load(Relaxed))
    }

    /// Counts a reader; only the owner may call it. Aborts at half the count's range: a wrapped count would let the
    /// record go while it is in use.
    pub(super) fn add_reader(&self) {
        // Relaxed: the owner's own count; it matters to others only when it falls.
        let readers = self.readers.load(Relaxed) + 1;
        if readers > u32::MAX / 2 {
            std::process::abort();
        }
        // Relaxed: as above.
        self.readers.store(readers, Relaxed);
    }

    /// Notes that the calling thread has claimed the record.
    pub(super) fn note_owner(&self) {
        // Relaxed: only asked for by the same thread.
        self.owner.store(local::number(), Relaxed);
        self.note_thread();
    }

    /// Notes that the record was claimed for an owned guard.
    pub(super) fn note_nobody(&self) {
        // Relaxed: the guard's users get it from whoever entered (O31).
        self.owner.store(0, Relaxed);
        self.note_thread();
    }

    fn note_thread(&self) {
        let before = self.thread.lock().replace(this_thread());
        drop(before);
    }

    /// Locks the thread's handle, for a fork.
    pub(super) fn hold(&self) -> MutexGuard<'_, Option<ThreadHandle>> {
        self.thread.lock()
    }

    /// The name of the thread that claimed the record last.
    pub(super) fn thread_name(&self) -> Option<String> {
        let thread = self.thread.lock().clone()?;
        thread.name().map(String::from)
    }

    /// Whether the record is an owned guard's, so that several threads may use it at once. Asked of a record in use, whose
    /// owner doesn't change.
    #[inline]
    pub(super) fn is_nobodys(&self) -> bool {
        // Relaxed: as in note_nobody.
        self.owner.load(Relaxed) == 0
    }

    /// Whether the calling thread claimed the record last.
    pub(super) fn is_own(&self) -> bool {
        // Relaxed: as in note_owner; another thread's number never equals this one's.
        self.owner.load(Relaxed) == local::number()
    }

    /// Ends whatever a thread that a fork has left behind was doing with the record, in the child: its guards, readers,
    /// permits, debts and marks. Nobody else uses the record meanwhile.
    pub(super) fn reset(&self) {
        // Relaxed, three times: there is one thread.
        self.word.store(Word::IDLE.bits(), Relaxed);
        self.readers.store(0, Relaxed);
        self.own.permitted.store(0, Relaxed);
        self.own.end_debt();
        self.own.running.end_for_child();
    }

    /// Uncounts a reader; only the owner may call it.
    pub(super) fn remove_reader(&self) {
        // Relaxed: the owner's own count.
        let left = self.readers.load(Relaxed) - 1;
        // Release: pairs with the Acquire in is_unused (O23).
        self.readers.store(left, edge!(O23, Release));
    }

    /// Whether neither a guard nor a reader uses the record (I2).
    pub(super) fn is_unused(&self) -> bool {
        // Acquire: pairs with the Release in remove_reader (O23). Readers first, see I2. [K2]
        self.readers.load(edge!(O23, Acquire)) == 0 && self.observe().is_idle()
    }
}
