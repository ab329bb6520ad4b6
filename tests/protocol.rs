//! Stresses the protocol where no model reaches: asymmetric fences on real hardware.
//!
//! A missing fence shows only if memory is freed the moment a grace period allows it. So each writer swaps an object out,
//! waits for one grace period and poisons the object at once. Readers of all habits look on: busy ones, ones that idle
//! until they are parked, ones that are preempted inside, and ones that are born and die.
//!
//! Runs for two seconds; `GRACEPERIOD_STRESS_SECONDS` makes it longer (`just stress`).

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use graceperiod::Domain;

const ALIVE: u64 = 0xa11f_e000_a11f_e000;
const POISON: u64 = 0xdead_dead_dead_dead;

/// Objects are recycled and never given back, so that a late look sees poison and not a page fault.
struct Object([AtomicU64; 4]);

impl Object {
    fn new(words: u64) -> Box<Self> {
        Box::new(Self([const { AtomicU64::new(0) }; 4].map(|word| {
            word.store(words, Ordering::Relaxed);
            word
        })))
    }

    fn fill(&self, words: u64) {
        for word in &self.0 {
            word.store(words, Ordering::Relaxed);
        }
    }

    fn is_alive(&self) -> bool {
        self.0
            .iter()
            .all(|word| word.load(Ordering::Relaxed) == ALIVE)
    }
}

/// A line that both sides write, so that a reader's stores queue up behind it.
#[repr(align(128))]
struct Contended(AtomicU64);

struct Stage {
    domain: Domain,
    contended: [Contended; 24],
    slots: [AtomicPtr<Object>; 2],
    stop: AtomicBool,
    reads: AtomicU64,
    bad: AtomicU64,
}

impl Stage {
    /// Fills the processor's store buffer with stores that take long, so that the next one stays in it for a while.
    fn clog(&self) {
        for line in &self.contended {
            line.0.store(1, Ordering::Relaxed);
        }
    }

    fn read(&self, slot: usize, pause: impl Fn()) {
        let _guard = self.domain.enter();
        let object = self.slots[slot].load(Ordering::Acquire);
        // SAFETY: objects are never freed while the test runs.
        let object = unsafe { &*object };
        let first = object.is_alive();
        pause();
        if !(first && object.is_alive()) {
            self.bad.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write(&self, slot: usize, objects: &[Box<Object>]) -> u64 {
        let mut periods = 0;
        for object in objects.iter().cycle() {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            object.fill(ALIVE);
            let old =
                self.slots[slot].swap(std::ptr::from_ref(&**object).cast_mut(), Ordering::AcqRel);
            self.domain.synchronize();
            periods += 1;
            // SAFETY: as above; and no reader looks at it any more.
            unsafe { &*old }.fill(POISON);
            self.clog();
        }
        periods
    }

    fn until_stopped(&self, mut step: impl FnMut()) {
        let mut reads = 0;
        while !self.stop.load(Ordering::Relaxed) {
            step();
            reads += 1;
        }
        self.reads.fetch_add(reads, Ordering::Relaxed);
    }
}

/// Some tenths of a microsecond.
fn spin() {
    (0..60).for_each(|_| std::hint::spin_loop());
}

/// A reader's habit.
type Habit = fn(&Stage);

/// Busy, with its stores held up, and looks for a while.
fn busy(stage: &Stage) {
    stage.until_stopped(|| {
        stage.clog();
        stage.read(0, spin);
    });
}

/// Idles between reads, for longer than a driver waits before it parks the word.
fn idle(stage: &Stage) {
    stage.until_stopped(|| {
        (0..20).for_each(|_| stage.read(0, spin));
        thread::sleep(Duration::from_micros(60));
    });
}

/// Gives the processor away inside.
fn yielding(stage: &Stage) {
    stage.until_stopped(|| stage.read(0, thread::yield_now));
}

/// Is born, reads a little, and dies.
fn short_lived(stage: &Stage) {
    stage.until_stopped(|| {
        thread::scope(|inner| {
            inner.spawn(|| (0..50).for_each(|_| stage.read(1, || ())));
        });
    });
}

fn stress(writers: usize, habits: &[Habit], seconds: Duration) -> (u64, u64) {
    let initial = [Object::new(ALIVE), Object::new(ALIVE)];
    let objects: Vec<Vec<_>> = (0..writers)
        .map(|_| (0..8).map(|_| Object::new(POISON)).collect())
        .collect();
    let stage = Stage {
        domain: Domain::new(),
        contended: [const { Contended(AtomicU64::new(0)) }; 24],
        slots: [0, 1]
            .map(|slot| AtomicPtr::new(std::ptr::from_ref::<Object>(&initial[slot]).cast_mut())),
        stop: AtomicBool::new(false),
        reads: AtomicU64::new(0),
        bad: AtomicU64::new(0),
    };
    let periods = thread::scope(|scope| {
        let stage = &stage;
        for habit in habits {
            scope.spawn(move || habit(stage));
        }
        let writers: Vec<_> = objects
            .iter()
            .enumerate()
            .map(|(slot, objects)| scope.spawn(move || stage.write(slot, objects)))
            .collect();
        let begun = Instant::now();
        while begun.elapsed() < seconds && stage.bad.load(Ordering::Relaxed) == 0 {
            thread::sleep(Duration::from_millis(10));
        }
        stage.stop.store(true, Ordering::Relaxed);
        let periods = writers
            .into_iter()
            .map(|writer| writer.join().expect("no panic"));
        periods.sum()
    });
    (periods, stage.bad.into_inner())
}

#[test]
fn no_reader_sees_memory_that_a_grace_period_gave_back() {
    let seconds = std::env::var("GRACEPERIOD_STRESS_SECONDS");
    let seconds = seconds.map_or(2, |text| text.parse().expect("a number of seconds"));
    let third = Duration::from_secs(seconds) / 3;
    // One reader against one writer leaves each a processor, which is where a missing fence shows soonest.
    let scenes: [(usize, &[Habit]); 3] = [
        (1, &[busy]),
        (1, &[busy, idle]),
        (2, &[busy, idle, yielding, short_lived]),
    ];
    for (writers, habits) in scenes {
        let (periods, bad) = stress(writers, habits, third);
        println!("{writers} writers: {periods} grace periods");
        assert_eq!(bad, 0, "bad reads in {periods} grace periods");
        assert!(periods > 0);
    }
}
