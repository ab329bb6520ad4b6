//! What the threads of a case do.

use std::fmt;
use std::sync::Arc;

use crate::cpu::{Cpu, Run, Stop, Then};

type Body = dyn Fn(&mut Cpu<'_>) -> Run<Then> + Send + Sync;

/// One thing that a thread does: enter, leave, drive a period.
#[derive(Clone)]
pub struct Act(Arc<Body>);

impl Act {
    /// An act that a function describes.
    pub fn new(body: impl Fn(&mut Cpu<'_>) -> Run<Then> + Send + Sync + 'static) -> Self {
        Self(Arc::new(body))
    }

    /// An act of one stage, after which the next one follows.
    pub fn once(body: impl Fn(&mut Cpu<'_>) -> Run<()> + Send + Sync + 'static) -> Self {
        Self::new(move |cpu| body(cpu).map(|()| Then::Next))
    }

    pub(crate) fn run(&self, cpu: &mut Cpu<'_>) -> Run<Then> {
        (self.0)(cpu)
    }

    /// The same act by a thread that may die before any of its steps.
    #[must_use]
    pub fn dying(self) -> Self {
        Self::new(move |cpu| {
            // Each step's answer is preceded by the answer of the choice whether to live on.
            let mut lived = Vec::new();
            loop {
                let mut replay = Cpu::new(&lived, cpu.keep, cpu.rules);
                match self.run(&mut replay) {
                    Err(Stop::At(op)) => {
                        if cpu.choose(op.step)? {
                            return Ok(Then::End);
                        }
                        lived.push(cpu.again(op)?);
                    }
                    other => {
                        cpu.keep = replay.keep;
                        return other;
                    }
                }
            }
        })
    }
}

impl fmt::Debug for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Act").finish_non_exhaustive()
    }
}

/// A thread: its name in traces, and its acts.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name.
    pub name: &'static str,
    /// What it does, in order.
    pub acts: Vec<Act>,
}

impl Plan {
    /// A thread that does these acts.
    #[must_use]
    pub fn new(name: &'static str, acts: impl IntoIterator<Item = Act>) -> Self {
        Self {
            name,
            acts: acts.into_iter().collect(),
        }
    }
}
