//! One writer at full speed, and threads that hold it up: what waits meanwhile, and what an update costs.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use crate::args::Options;
use crate::backlog::Watch;
use crate::board::{Entry, Pass, Sample};
use crate::lanes::{self, Lane, Round};
use crate::payload::{Counted, Payload, Plain};
use crate::row;
use crate::scheme::{self, Role, Scheme, Visitor};

use super::{Lazy, lazy};

/// Updates between two looks at the clock.
const STEP: u32 = 64;

/// Most updates while a reader stalls, so that the machine's memory holds what waits.
const MOST_UPDATES: u64 = 32_000_000;

/// Objects that were there before the reader stalled.
const LIVE_SET: usize = 20_000;

/// Time between two loads of a slow reader.
const SLOW: Duration = Duration::from_micros(100);

/// Threads that once entered and then did nothing any more.
const PARKED: usize = 1_000;

/// Room that a parked thread has for its stack.
const PARKED_STACK: usize = 64 << 10;

/// What the other thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    /// Stays inside a guard; all that is retired is younger.
    Young,
    /// The same, with one object in 64 older.
    OldLiveSet,
    /// Entered once, left, and idles.
    IdleThread,
    /// Keeps loading inside one guard.
    SlowReader,
    /// The same, and refreshes it before each load.
    Refreshing,
}

impl Scene {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Young, ""),
        (Self::OldLiveSet, "old-live-set"),
        (Self::IdleThread, "idle-thread"),
        (Self::SlowReader, "slow-reader"),
        (Self::Refreshing, "slow-reader-refresh"),
    ];
}

/// Does until the end of the sample what the scene says.
fn hold_up<S: Scheme>(scene: Scene, scheme: &S, lane: &Lane<'_>, cell: &S::Cell<Counted>) {
    let mut local = scheme.local();
    let mut guard = scheme.enter(&mut local, cell);
    black_box(S::load(&mut guard, cell));
    if scene == Scene::IdleThread {
        drop(guard);
        S::idle(&mut local);
        lane.begin();
        while lane.goes_on() {
            thread::sleep(SLOW);
        }
        return;
    }
    lane.begin();
    while lane.goes_on() {
        thread::sleep(SLOW);
        if scene == Scene::Refreshing {
            S::refresh(&mut guard);
        }
        if matches!(scene, Scene::SlowReader | Scene::Refreshing) {
            black_box(S::load(&mut guard, cell));
        }
    }
}

/// Updates at full speed until the end of the sample.
fn write<S: Scheme>(
    scheme: &S,
    lane: &Lane<'_>,
    cell: &S::Cell<Counted>,
    old: &[S::Cell<Counted>],
) {
    let mut local = scheme.local();
    let mut old = old.iter().cycle();
    let mut left = MOST_UPDATES;
    lane.measure(STEP, |times| {
        if left < u64::from(times) {
            thread::sleep(SLOW);
            return;
        }
        left -= u64::from(times);
        for _ in 1..times {
            scheme.replace(&mut local, cell, Counted::fresh());
        }
        scheme.replace(&mut local, old.next().unwrap_or(cell), Counted::fresh());
    });
}

fn stalled<S: Scheme>(scene: Scene, scheme: &S, duration: Duration) -> Sample {
    let round = Round {
        duration,
        warm_up: Duration::ZERO,
    };
    let live = if scene == Scene::OldLiveSet {
        LIVE_SET
    } else {
        0
    };
    let watch = RefCell::new(Watch::begin(2, live as u64 + 2, false));
    let cells: Vec<_> = (0..live).map(|_| scheme.cell(Counted::fresh())).collect();
    let (written, seen) = (scheme.cell(Counted::fresh()), scheme.cell(Counted::fresh()));
    let mut look = || watch.borrow_mut().look();
    let ns = lanes::run(2, round, Some(&mut look), |lane| {
        if lane.index == 0 {
            write(scheme, lane, &written, &cells);
        } else if matches!(scene, Scene::SlowReader | Scene::Refreshing) {
            hold_up(scene, scheme, lane, &written);
        } else {
            hold_up(scene, scheme, lane, &seen);
        }
    });
    Sample {
        ns: Some(ns),
        held: Some(watch.into_inner().end()),
    }
}

/// The cost of an update while so many threads are parked.
fn parked<S: Scheme>(scheme: &S, threads: usize, round: Round) -> Sample {
    let (arrived, leave) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    let ns = thread::scope(|scope| {
        for _ in 0..threads {
            let builder = thread::Builder::new().stack_size(PARKED_STACK);
            let park = || {
                let cell = scheme.cell(Plain::fresh());
                let mut local = scheme.local();
                drop(scheme.enter(&mut local, &cell));
                S::idle(&mut local);
                arrived.wait();
                leave.wait();
            };
            builder
                .spawn_scoped(scope, park)
                .expect("the system has room for the threads");
        }
        arrived.wait();
        let ns = lanes::run(1, round, None, |lane| {
            let cell = scheme.cell(Plain::fresh());
            let mut local = scheme.local();
            lane.measure(STEP, |times| {
                for _ in 0..times {
                    scheme.replace(&mut local, &cell, Plain::fresh());
                }
            });
        });
        leave.wait();
        ns
    });
    scheme.settle();
    Sample {
        ns: Some(ns),
        held: None,
    }
}

struct Stalls {
    stall: Duration,
    entries: Vec<Entry>,
}

impl Stalls {
    fn add(
        &mut self,
        name: &str,
        scene: &'static str,
        threads: usize,
        once: bool,
        run: impl Fn(Pass, Round) -> Sample + 'static,
    ) {
        self.entries.push(Entry {
            contender: if scene.is_empty() {
                name.to_owned()
            } else {
                row::variant(name, scene)
            },
            threads,
            apart: true,
            counted: false,
            once,
            beside_floor: false,
            run: Box::new(run),
        });
    }

    fn add_parked<S: Scheme>(&mut self, scheme: &Lazy<S>) {
        for (threads, scene) in [(0, "parked-0"), (PARKED, "parked-1000")] {
            let scheme = scheme.clone();
            self.add(S::NAME, scene, threads + 1, false, move |_, round| {
                parked(&**scheme, threads, round)
            });
        }
    }
}

impl Visitor for Stalls {
    fn visit<S: Scheme>(&mut self) {
        if !scheme::takes_part::<S>(Role::Stall) {
            return;
        }
        let scheme = lazy::<S>();
        let stall = self.stall;
        let is_floor = row::family(S::NAME) == "floor";
        for (scene, name) in Scene::ALL {
            // The floor holds nothing back in any scene; in one it shows that the count can be trusted.
            let is_other = is_floor && scene != Scene::Young;
            if is_other || (scene == Scene::Refreshing && !S::REFRESHES) {
                continue;
            }
            let scheme = scheme.clone();
            self.add(S::NAME, name, 2, true, move |_, _| {
                stalled(scene, &**scheme, stall)
            });
        }
        if !is_floor {
            self.add_parked(&scheme);
        }
    }
}

/// Section `stall`.
pub fn entries(options: &Options) -> Vec<Entry> {
    let mut stalls = Stalls {
        stall: options.stall(),
        entries: Vec::new(),
    };
    scheme::each(&mut stalls);
    stalls.entries
}
