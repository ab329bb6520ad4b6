//! Shared memory: what an operation may answer, and what it leaves behind.

mod history;
mod tso;
mod view;
mod views;

use crate::op::Op;
use crate::place::PLACES;

use tso::Tso;
use views::Views;

/// A memory model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Model {
    /// Total store order: a store buffer for each thread. A heavy fence sees each thread's buffer empty once.
    Tso,
    /// A view machine after C11: loads may be stale. A heavy fence is a sequentially consistent fence of all threads at
    /// one instant.
    Views,
    /// The same, but a heavy fence orders with light fences only, as C++ P1202 has it.
    Asym,
}

impl Model {
    /// Every model.
    pub const ALL: [Self; 3] = [Self::Tso, Self::Views, Self::Asym];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tso => "tso",
            Self::Views => "views",
            Self::Asym => "asym",
        }
    }
}

/// The memory of one state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Memory {
    Tso(Tso),
    Views(Views),
}

/// One way in which an operation can go.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) memory: Memory,
    /// What the thread learns; none if the operation has only begun.
    pub(crate) answer: Option<u8>,
    /// What a trace adds.
    pub(crate) note: &'static str,
}

/// What a run can't survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) &'static str);

impl Memory {
    pub(crate) fn new(model: Model, threads: usize, initial: &[u8; PLACES]) -> Self {
        match model {
            Model::Tso => Self::Tso(Tso::new(threads, initial)),
            Model::Views => Self::Views(Views::new(false, threads, initial)),
            Model::Asym => Self::Views(Views::new(true, threads, initial)),
        }
    }

    /// Whether the operation means nothing here, so that it needs no step.
    pub(crate) fn is_nothing(&self, op: &Op) -> bool {
        match self {
            Self::Tso(_) => Tso::is_nothing(op),
            Self::Views(views) => views.is_nothing(op),
        }
    }

    /// All the ways in which a thread's operation can go now; none while it has to wait.
    pub(crate) fn perform(&self, thread: usize, op: &Op) -> Result<Vec<Outcome>, Broken> {
        match self {
            Self::Tso(tso) => tso.perform(thread, op),
            Self::Views(views) => views.perform(thread, op),
        }
    }

    /// What memory may do by itself, with a description: a store becomes visible.
    pub(crate) fn drains(&self) -> Vec<(Memory, usize, String)> {
        match self {
            Self::Tso(tso) => tso.drains(),
            Self::Views(_) => Vec::new(),
        }
    }

    /// Forgets what no thread that is left can see. `running` has a bit for each thread that hasn't ended.
    pub(crate) fn tidy(&mut self, running: u8) {
        if let Self::Views(views) = self {
            views.tidy(running);
        }
    }
}
