//! Allocating a box, swapping it in and retiring the old one.

use std::cell::RefCell;

use crate::args::Options;
use crate::backlog::Watch;
use crate::board::{Entry, Pass, Sample};
use crate::lanes::{self, Lane, Round};
use crate::payload::{Counted, Payload, Plain};
use crate::scheme::{self, Role, Scheme, Visitor};

use super::{THREADS, lazy};

/// Updates between two looks at the clock.
const STEP: u32 = 64;

struct Updates {
    is_shared: bool,
    threads: Vec<usize>,
    entries: Vec<Entry>,
}

fn replace_all<S: Scheme, P: Payload>(
    scheme: &S,
    lane: &Lane<'_>,
    local: &mut S::Local,
    cell: &S::Cell<P>,
) {
    lane.measure(STEP, |times| {
        for _ in 0..times {
            scheme.replace(local, cell, P::fresh());
        }
    });
}

fn sample<S: Scheme, P: Payload>(
    scheme: &S,
    threads: usize,
    is_shared: bool,
    round: Round,
    look: Option<&mut dyn FnMut()>,
) -> f64 {
    let shared = scheme.cell(P::fresh());
    let ns = lanes::run(threads, round, look, |lane| {
        let mut local = scheme.local();
        if is_shared {
            replace_all(scheme, lane, &mut local, &shared);
        } else {
            replace_all(scheme, lane, &mut local, &scheme.cell(P::fresh()));
        }
    });
    drop(shared);
    ns
}

/// Takes one sample of a contender, and has it clear up.
fn run<S: Scheme>(scheme: &S, threads: usize, is_shared: bool, pass: Pass, round: Round) -> Sample {
    if pass == Pass::Timed {
        let ns = sample::<S, Plain>(scheme, threads, is_shared, round, None);
        scheme.settle();
        return Sample {
            ns: Some(ns),
            held: None,
        };
    }
    let in_use = if is_shared { 1 } else { threads as u64 + 1 };
    let every_lane = !lanes::is_oversubscribed(threads);
    let watch = RefCell::new(Watch::begin(threads, in_use, every_lane));
    let mut look = || watch.borrow_mut().look();
    sample::<S, Counted>(scheme, threads, is_shared, round, Some(&mut look));
    // What waits yet, and can be had dropped, counts with its delay so far.
    scheme.settle();
    Sample {
        ns: None,
        held: Some(watch.into_inner().end()),
    }
}

impl Visitor for Updates {
    fn visit<S: Scheme>(&mut self) {
        if !scheme::takes_part::<S>(Role::Update) {
            return;
        }
        let is_shared = self.is_shared;
        let scheme = lazy::<S>();
        for &threads in &self.threads {
            let scheme = scheme.clone();
            self.entries.push(Entry {
                contender: S::NAME.to_owned(),
                threads,
                apart: S::SWELLS,
                counted: true,
                once: false,
                beside_floor: true,
                run: Box::new(move |pass, round| run(&**scheme, threads, is_shared, pass, round)),
            });
        }
    }
}

fn entries(is_shared: bool, threads: Vec<usize>) -> Vec<Entry> {
    let mut updates = Updates {
        is_shared,
        threads,
        entries: Vec::new(),
    };
    scheme::each(&mut updates);
    updates.entries
}

/// Section `update`: every thread has a pointer of its own.
pub fn own(options: &Options) -> Vec<Entry> {
    entries(false, options.threads_or(THREADS))
}

/// Section `update-shared`.
pub fn shared(options: &Options) -> Vec<Entry> {
    entries(true, options.threads_or(&[2]))
}
