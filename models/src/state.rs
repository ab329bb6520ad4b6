//! One state of a run: where each thread is, and shared memory.

use std::hash::{Hash, Hasher};

use crate::cpu::{Cpu, Keep, Stop, Then};
use crate::memory::{Broken, Memory, Model};
use crate::op::{Kind, Op};
use crate::place::PLACES;
use crate::plan::Plan;
use crate::rules::Rules;

/// Answers that a piece of code gets at most.
const ANSWERS: usize = 24;

/// Where a thread is.
#[derive(Clone, Debug)]
struct Thread {
    act: u8,
    keep: Keep,
    answers: [u8; ANSWERS],
    len: u8,
    /// What it wants to do now; none at its end. Follows from the rest.
    wants: Option<Op>,
}

impl Hash for Thread {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(self.act);
        self.keep.hash(state);
        self.answers[..usize::from(self.len)].hash(state);
    }
}

/// A state.
#[derive(Clone, Debug)]
pub(crate) struct State {
    threads: Vec<Thread>,
    memory: Memory,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.threads.hash(state);
        self.memory.hash(state);
    }
}

/// What a run is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World<'a> {
    pub(crate) plans: &'a [Plan],
    pub(crate) rules: &'a Rules,
}

/// One step from a state.
#[derive(Debug)]
pub(crate) struct Move {
    /// Where it leads, unless it breaks a property.
    pub(crate) to: Result<State, Broken>,
    /// The line of a trace, if one was asked for.
    pub(crate) line: String,
}

impl State {
    pub(crate) fn new(
        model: Model,
        initial: &[u8; PLACES],
        world: World<'_>,
    ) -> Result<Self, Broken> {
        let thread = Thread {
            act: 0,
            keep: Keep::default(),
            answers: [0; ANSWERS],
            len: 0,
            wants: None,
        };
        let mut state = Self {
            threads: vec![thread; world.plans.len()],
            memory: Memory::new(model, world.plans.len(), initial),
        };
        for thread in 0..world.plans.len() {
            state.run_on(thread, world)?;
        }
        Ok(state)
    }

    /// Whether every thread has ended.
    pub(crate) fn is_final(&self) -> bool {
        self.threads.iter().all(|t| t.wants.is_none())
    }

    /// What the threads kept as their results.
    pub(crate) fn results(&self) -> Vec<u8> {
        self.threads.iter().map(|t| t.keep.result).collect()
    }

    /// Every step that can be taken now.
    pub(crate) fn moves(&self, world: World<'_>, traced: bool) -> Vec<Move> {
        let mut moves = Vec::new();
        for (memory, thread, what) in self.memory.drains() {
            let threads = self.threads.clone();
            let name = if traced { world.plans[thread].name } else { "" };
            moves.push(Move {
                to: Ok(Self { threads, memory }),
                line: format!("{name:<4}{what}"),
            });
        }
        for (thread, state) in self.threads.iter().enumerate() {
            if let Some(op) = &state.wants {
                self.moves_of(thread, op, world, traced, &mut moves);
            }
        }
        moves
    }

    fn moves_of(
        &self,
        thread: usize,
        op: &Op,
        world: World<'_>,
        traced: bool,
        moves: &mut Vec<Move>,
    ) {
        let name = world.plans[thread].name;
        let line = |answer: Option<u8>, note: &str| match (traced, answer) {
            (false, _) => String::new(),
            (true, Some(answer)) => format!("{name:<4}{}", op.describe(answer, note)),
            (true, None) => format!("{name:<4}{}", op.describe(1, note)),
        };
        let outcomes = match self.memory.perform(thread, op) {
            Ok(outcomes) => outcomes,
            Err(broken) => {
                moves.push(Move {
                    to: Err(broken),
                    line: line(Some(0), ""),
                });
                return;
            }
        };
        for outcome in outcomes {
            let threads = self.threads.clone();
            let memory = outcome.memory;
            let mut next = Self { threads, memory };
            let line = line(outcome.answer, outcome.note);
            let to = match outcome.answer {
                Some(answer) => next.answer(thread, answer, world).map(|()| next),
                None => Ok(next),
            };
            moves.push(Move { to, line });
        }
        if op.kind == Kind::Choose || (op.kind == Kind::Heavy && world.rules.may_refuse) {
            let mut next = self.clone();
            let other = u8::from(op.kind == Kind::Choose);
            moves.push(Move {
                to: next.answer(thread, other, world).map(|()| next),
                line: line(Some(other), ""),
            });
        }
    }

    /// Gives a thread its answer and lets it run up to its next operation.
    fn answer(&mut self, thread: usize, answer: u8, world: World<'_>) -> Result<(), Broken> {
        let state = &mut self.threads[thread];
        state.push(answer);
        self.run_on(thread, world)?;
        let running = self.threads.iter().enumerate();
        let running = running.filter(|(_, t)| t.wants.is_some());
        self.memory
            .tidy(running.fold(0, |mask, (t, _)| mask | 1 << t));
        Ok(())
    }

    fn run_on(&mut self, thread: usize, world: World<'_>) -> Result<(), Broken> {
        let acts = &world.plans[thread].acts;
        let state = &mut self.threads[thread];
        loop {
            let Some(act) = acts.get(usize::from(state.act)) else {
                state.end(acts.len());
                return Ok(());
            };
            let answers = &state.answers[..usize::from(state.len)];
            let mut cpu = Cpu::new(answers, state.keep, world.rules);
            match act.run(&mut cpu) {
                Err(Stop::At(op)) if self.memory.is_nothing(&op) => state.push(0),
                Err(Stop::At(op)) => {
                    state.wants = Some(op);
                    return Ok(());
                }
                Err(Stop::Broken(property)) => return Err(Broken(property)),
                Ok(then) => {
                    state.keep = cpu.keep;
                    state.go_on(then, acts.len());
                }
            }
        }
    }
}

impl Thread {
    fn push(&mut self, answer: u8) {
        self.answers[usize::from(self.len)] = answer;
        self.len += 1;
    }

    fn go_on(&mut self, then: Then, acts: usize) {
        self.len = 0;
        match then {
            Then::Next => {
                self.act += 1;
                self.keep.stage = Default::default();
            }
            Then::Stage(stage) => self.keep.stage = stage,
            Then::End => self.end(acts),
        }
    }

    fn end(&mut self, acts: usize) {
        self.act = acts as u8;
        self.keep = Keep {
            result: self.keep.result,
            ..Keep::default()
        };
        self.wants = None;
    }
}
