//! Breadth-first exploration: every state that a run can reach, each once.

use std::collections::{BTreeSet, HashMap, VecDeque, hash_map::Entry};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::fingerprint::{self, BuildIdentity, Fingerprint};
use crate::memory::Model;
use crate::place::PLACES;
use crate::plan::Plan;
use crate::rules::Rules;
use crate::state::{State, World};

/// One run: threads, rules, and the memory that they start with.
#[derive(Clone, Debug)]
pub struct Run {
    /// The threads.
    pub plans: Vec<Plan>,
    /// The rules.
    pub rules: Rules,
    /// What each place holds at first.
    pub initial: [u8; PLACES],
    /// Whether every thread must be able to end, whatever has happened.
    pub must_end: bool,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every state was seen, and nothing is wrong with any.
    Holds,
    /// The steps to a state in which something is wrong, the shortest way.
    Fails(Vec<String>),
    /// From this many states some thread can't end any more.
    Stuck(usize),
    /// No thread can end at all: the case tests nothing.
    NeverEnds,
    /// Nothing wrong among as many states as the bound admits.
    Bounded,
}

/// A run's result.
#[derive(Clone, Debug)]
pub struct Explored {
    /// States seen.
    pub states: usize,
    /// What it came to.
    pub verdict: Verdict,
    /// The results that the threads can end with together.
    pub results: BTreeSet<Vec<u8>>,
}

/// How a state was reached: from which other, by which of its moves.
#[derive(Clone, Copy, Debug)]
struct Origin {
    from: u32,
    by: u8,
}

/// Sees every state of a run under a memory model, up to `bound` states. Counts them in `progress`.
#[must_use]
pub fn explore(run: &Run, model: Model, bound: usize, progress: &AtomicU64) -> Explored {
    let world = World {
        plans: &run.plans,
        rules: &run.rules,
    };
    let start = match State::new(model, &run.initial, world) {
        Ok(start) => start,
        Err(broken) => return Search::default().end(Verdict::Fails(vec![broken.0.to_owned()])),
    };
    let mut search = Search::default();
    search.visit(start.clone(), Origin { from: 0, by: 0 });
    while let Some((state, from)) = search.frontier.pop_front() {
        if state.is_final() {
            search.results.insert(state.results());
            search.finals.push(from);
        }
        for (by, next) in state.moves(world, false).into_iter().enumerate() {
            let origin = Origin { from, by: by as u8 };
            match next.to {
                Ok(next) => {
                    let number = search.visit(next, origin);
                    if run.must_end {
                        search.steps.push((number, from));
                    }
                }
                Err(_) => {
                    let trace = search.trace(start, origin, world);
                    return search.end(Verdict::Fails(trace));
                }
            }
        }
        // Relaxed: only shown.
        progress.store(search.origins.len() as u64, Relaxed);
        if search.origins.len() >= bound {
            return search.end(Verdict::Bounded);
        }
    }
    let verdict = if search.finals.is_empty() {
        Verdict::NeverEnds
    } else {
        match search.stuck(run.must_end) {
            0 => Verdict::Holds,
            stuck => Verdict::Stuck(stuck),
        }
    };
    search.end(verdict)
}

/// What has been seen so far.
#[derive(Debug, Default)]
struct Search {
    numbers: HashMap<Fingerprint, u32, BuildIdentity>,
    origins: Vec<Origin>,
    frontier: VecDeque<(State, u32)>,
    finals: Vec<u32>,
    results: BTreeSet<Vec<u8>>,
    /// For runs that must end: every step backwards, as (to, from).
    steps: Vec<(u32, u32)>,
}

impl Search {
    /// Notes a state, and answers its number.
    fn visit(&mut self, state: State, origin: Origin) -> u32 {
        let fresh = self.origins.len() as u32;
        match self.numbers.entry(fingerprint::of(&state)) {
            Entry::Occupied(seen) => *seen.get(),
            Entry::Vacant(place) => {
                place.insert(fresh);
                self.frontier.push_back((state, fresh));
                self.origins.push(origin);
                fresh
            }
        }
    }

    /// States from which no end can be reached.
    fn stuck(&mut self, asked: bool) -> usize {
        if !asked {
            return 0;
        }
        self.steps.sort_unstable();
        let mut ends = vec![false; self.origins.len()];
        let mut todo = self.finals.clone();
        while let Some(state) = todo.pop() {
            if std::mem::replace(&mut ends[state as usize], true) {
                continue;
            }
            let first = self.steps.partition_point(|step| step.0 < state);
            let before = self.steps[first..].iter();
            todo.extend(before.take_while(|step| step.0 == state).map(|step| step.1));
        }
        ends.iter().filter(|ends| !**ends).count()
    }

    /// Takes the way to a broken state once more, telling each step.
    fn trace(&self, start: State, last: Origin, world: World<'_>) -> Vec<String> {
        let mut way = vec![last.by];
        let mut at = last.from;
        while at != 0 {
            let Origin { from, by } = self.origins[at as usize];
            way.push(by);
            at = from;
        }
        let mut state = start;
        let mut lines = Vec::new();
        for by in way.into_iter().rev() {
            let taken = state.moves(world, true).swap_remove(usize::from(by));
            lines.push(taken.line);
            match taken.to {
                Ok(next) => state = next,
                Err(broken) => lines.push(format!("=> {}", broken.0)),
            }
        }
        lines
    }

    fn end(self, verdict: Verdict) -> Explored {
        Explored {
            states: self.origins.len(),
            verdict,
            results: self.results,
        }
    }
}
