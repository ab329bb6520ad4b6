//! What a thread's code sees of the machine.
//!
//! A thread's code is an ordinary function. It asks the [`Cpu`] for one operation at a time; while the answer isn't
//! known, the call ends the function with [`Stop::At`], and the explorer runs it again, from the start, once it has
//! chosen an answer. So a thread's state is the answers that it got since its last [`Then`], and nothing else.

use crate::op::{Change, Kind, Op, Order};
use crate::place::Place;
use crate::rules::Rules;
use crate::step::Step;

/// Why a thread's code ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It waits for this operation's answer.
    At(Op),
    /// It found that a property doesn't hold.
    Broken(&'static str),
}

/// What a thread's code gets from an operation.
pub type Run<T> = Result<T, Stop>;

/// What comes after a piece of a thread's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The thread's next act.
    Next,
    /// The same act, at another stage, with all answers forgotten but for what was kept.
    Stage(Stage),
    /// The end of the thread.
    End,
}

/// Where inside an act a thread is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names of the driver's parts")]
pub enum Stage {
    #[default]
    Start,
    Announce,
    Fence,
    Scan(u8),
    Heavy,
    Park(u8),
    Complete,
}

/// What a thread remembers from one piece of its code to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Keep {
    /// Where in its act it is.
    pub stage: Stage,
    /// The object that a guard found, or 0.
    pub held: u8,
    /// The cookie that it took, or 0.
    pub cookie: u8,
    /// The period that it drives, or 0.
    pub number: u8,
    /// The period in which its heavy fence gives leave to park, or 0.
    pub heavy: u8,
    /// The records that the present scan has found published.
    pub records: u8,
    /// Whether the present scan met an idle word that it couldn't pass.
    pub unheard: bool,
    /// What a litmus test saw.
    pub result: u8,
}

/// The machine, as one thread sees it while its code runs.
#[derive(Debug)]
pub struct Cpu<'a> {
    answers: &'a [u8],
    /// What stays when the answers are forgotten.
    pub keep: Keep,
    /// The rules of the run.
    pub rules: &'a Rules,
}

impl<'a> Cpu<'a> {
    pub(crate) fn new(answers: &'a [u8], keep: Keep, rules: &'a Rules) -> Self {
        Self {
            answers,
            keep,
            rules,
        }
    }

    fn ask(&mut self, step: Step, kind: Kind) -> Run<u8> {
        match self.answers.split_first() {
            Some((&answer, rest)) => {
                self.answers = rest;
                Ok(answer)
            }
            None => Err(Stop::At(Op { step, kind })),
        }
    }

    /// Asks for an operation that another run of the code has asked for.
    pub(crate) fn again(&mut self, op: Op) -> Run<u8> {
        self.ask(op.step, op.kind)
    }

    /// Loads a place.
    pub fn load(&mut self, step: Step, place: Place, order: Order) -> Run<u8> {
        let order = self.rules.order(step, order);
        self.ask(step, Kind::Load(place, order))
    }

    /// Stores into a place.
    pub fn store(&mut self, step: Step, place: Place, value: u8, order: Order) -> Run<()> {
        let order = self.rules.order(step, order);
        self.ask(step, Kind::Store(place, value, order)).map(drop)
    }

    /// Changes a place by a read-modify-write and answers the old value.
    pub fn change(&mut self, step: Step, place: Place, change: Change, order: Order) -> Run<u8> {
        let order = self.rules.order(step, order);
        self.ask(step, Kind::Change(place, change, order))
    }

    /// Replaces the expected value; whether it was there.
    pub fn exchange(
        &mut self,
        step: Step,
        place: Place,
        (expected, new): (u8, u8),
        order: Order,
    ) -> Run<bool> {
        let change = Change::Exchange { expected, new };
        Ok(self.change(step, place, change, order)? == expected)
    }

    /// Makes a light fence.
    pub fn light(&mut self, step: Step) -> Run<()> {
        if self.rules.is_left_out(step) {
            return Ok(());
        }
        self.ask(step, Kind::Light).map(drop)
    }

    /// Makes a heavy fence; false if it was refused.
    pub fn heavy(&mut self, step: Step) -> Run<bool> {
        if self.rules.is_left_out(step) {
            return Ok(true);
        }
        Ok(self.ask(step, Kind::Heavy)? != 0)
    }

    /// Makes a sequentially consistent fence.
    pub fn full(&mut self, step: Step) -> Run<()> {
        if self.rules.is_left_out(step) {
            return Ok(());
        }
        self.ask(step, Kind::Full).map(drop)
    }

    /// Reads an object.
    pub fn use_object(&mut self, step: Step, object: u8) -> Run<()> {
        self.ask(step, Kind::Use(object)).map(drop)
    }

    /// Frees an object.
    pub fn free(&mut self, step: Step, object: u8) -> Run<()> {
        self.ask(step, Kind::Free(object)).map(drop)
    }

    /// Takes both ways.
    pub fn choose(&mut self, step: Step) -> Run<bool> {
        Ok(self.ask(step, Kind::Choose)? != 0)
    }

    /// Ends the run with a counterexample unless `holds`.
    pub fn check(&self, holds: bool, property: &'static str) -> Run<()> {
        if holds {
            Ok(())
        } else {
            Err(Stop::Broken(property))
        }
    }
}
