//! What the shared pointers refer to: 32 bytes, plain for timing, and counted for the backlog and the delay.

use std::cell::Cell;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Threads that may count at once; the others share one slot.
pub const MOST_LANES: usize = 64;

/// One object in this many remembers when it was retired.
const STAMPED: u64 = 64;

/// What a shared pointer refers to.
pub trait Payload: Send + Sync + 'static {
    /// Makes one.
    fn fresh() -> Self;
    /// Its first word.
    fn first(&self) -> u64;
    /// Remembers, if it is counted, that it is being retired.
    fn leave(&self);
    /// Whether it is counted.
    const COUNTED: bool;
}

/// Nothing but 32 bytes.
pub struct Plain([u64; 4]);

impl Payload for Plain {
    const COUNTED: bool = false;

    #[inline]
    fn leave(&self) {}

    #[inline]
    fn fresh() -> Self {
        Self([1; 4])
    }

    #[inline]
    fn first(&self) -> u64 {
        self.0[0]
    }
}

/// 32 bytes that are counted when they are made and when they are dropped.
pub struct Counted {
    word: u64,
    run: u64,
    /// Whether the delay of this one is measured.
    is_stamped: bool,
    /// When it was retired, in nanoseconds; 0 before.
    left: AtomicU64,
}

impl Payload for Counted {
    const COUNTED: bool = true;

    #[inline]
    fn fresh() -> Self {
        let slot = slot();
        let serial = slot.made.load(Relaxed) + 1;
        slot.made.store(serial, Relaxed);
        Self {
            word: 1,
            run: RUN.load(Relaxed),
            is_stamped: serial.is_multiple_of(STAMPED),
            left: AtomicU64::new(0),
        }
    }

    #[inline]
    fn first(&self) -> u64 {
        self.word
    }

    #[inline]
    fn leave(&self) {
        if self.is_stamped {
            self.left.store(now(), Relaxed);
        }
    }
}

impl Drop for Counted {
    #[inline]
    fn drop(&mut self) {
        // What an earlier run left behind is nobody's any more.
        if self.run == RUN.load(Relaxed) {
            let left = *self.left.get_mut();
            let delay = (left != 0).then(|| now() - left);
            slot().count_drop(delay);
        }
    }
}

/// One thread's counts, written by it alone.
#[repr(align(128))]
struct Slot {
    made: AtomicU64,
    dropped: AtomicU64,
    delays: AtomicU64,
    delay_sum: AtomicU64,
    delay_max: AtomicU64,
}

impl Slot {
    const fn new() -> Self {
        Self {
            made: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            delays: AtomicU64::new(0),
            delay_sum: AtomicU64::new(0),
            delay_max: AtomicU64::new(0),
        }
    }

    #[inline]
    fn count_drop(&self, delay: Option<u64>) {
        if ptr::eq(self, &SHARED) {
            self.dropped.fetch_add(1, Relaxed);
        } else {
            self.dropped.store(self.dropped.load(Relaxed) + 1, Relaxed);
        }
        if let Some(delay) = delay {
            self.delays.fetch_add(1, Relaxed);
            self.delay_sum.fetch_add(delay, Relaxed);
            self.delay_max.fetch_max(delay, Relaxed);
        }
    }

    fn clear(&self) {
        for count in [
            &self.made,
            &self.dropped,
            &self.delays,
            &self.delay_sum,
            &self.delay_max,
        ] {
            count.store(0, Relaxed);
        }
    }
}

/// The run whose objects are counted.
static RUN: AtomicU64 = AtomicU64::new(0);
static LANES: [Slot; MOST_LANES] = [const { Slot::new() }; MOST_LANES];
/// For threads that no lane belongs to, such as a peer's worker.
static SHARED: Slot = Slot::new();

thread_local! {
    static MINE: Cell<&'static Slot> = const { Cell::new(&SHARED) };
}

#[inline]
fn slot() -> &'static Slot {
    MINE.get()
}

/// Gives the calling thread the counts of lane `index`.
pub fn count_on(index: usize) {
    MINE.set(&LANES[index]);
}

fn slots() -> impl Iterator<Item = &'static Slot> {
    LANES.iter().chain([&SHARED])
}

/// Nanoseconds since the first call, never 0.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed().as_nanos();
    u64::try_from(elapsed).expect("a run ends within centuries") + 1
}

/// Begins a run: objects made from now on are counted, from 0.
///
/// To be called while no lane runs.
pub fn begin() {
    RUN.fetch_add(1, Relaxed);
    slots().for_each(Slot::clear);
}

/// Counted objects that were made and not dropped yet.
pub fn alive() -> u64 {
    // What is dropped in between makes the answer too small, and never too large.
    let made: u64 = slots().map(|slot| slot.made.load(Relaxed)).sum();
    let dropped: u64 = slots().map(|slot| slot.dropped.load(Relaxed)).sum();
    made.saturating_sub(dropped)
}

/// Objects that each lane made so far.
pub fn made(lane: usize) -> u64 {
    LANES[lane].made.load(Relaxed)
}

/// How long the objects of a run waited from retire to drop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delay {
    pub count: u64,
    pub sum: u64,
    pub max: u64,
}

/// The delays of the run so far, in nanoseconds.
pub fn delay() -> Delay {
    let mut all = Delay::default();
    for slot in slots() {
        all.count += slot.delays.load(Relaxed);
        all.sum += slot.delay_sum.load(Relaxed);
        all.max = all.max.max(slot.delay_max.load(Relaxed));
    }
    all
}
