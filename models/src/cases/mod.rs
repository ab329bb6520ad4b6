//! Every case: a scene, the rules it runs by, and what it must come to.

mod naive;
mod scene;
mod sound;
mod weak;

use crate::explore::{Run, Verdict};
use crate::memory::Model;
use crate::rules::Rules;

use Model::{Asym, Tso, Views};

/// What a case must come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// No execution breaks a property.
    Holds,
    /// Some execution does.
    Fails,
}

impl Expected {
    /// Whether a verdict is this one.
    #[must_use]
    pub fn is(self, verdict: &Verdict) -> bool {
        match self {
            Self::Holds => *verdict == Verdict::Holds,
            Self::Fails => matches!(verdict, Verdict::Fails(_)),
        }
    }

    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
        }
    }
}

/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its kind and its name, with a slash between.
    pub name: String,
    /// What it shows.
    pub about: &'static str,
    /// The memory models that it is made for.
    pub models: &'static [Model],
    /// Those of them that a quick run takes.
    pub quick: &'static [Model],
    /// What it must come to.
    pub expected: Expected,
    scene: fn(Rules) -> Run,
    rules: Rules,
}

impl Case {
    /// The threads, rules and memory of the case.
    #[must_use]
    pub fn run(&self) -> Run {
        (self.scene)(self.rules)
    }
}

/// Every case, in the order of the table.
#[must_use]
pub fn all() -> Vec<Case> {
    let kinds = [
        sound::cases(),
        naive::cases(),
        naive::harmless(),
        weak::cases(),
        weak::argued(),
    ];
    kinds.into_iter().flatten().collect()
}

const ALL: &[Model] = &[Tso, Views, Asym];
const VIEWS: &[Model] = &[Views, Asym];
const TSO: &[Model] = &[Tso];
const TSO_VIEWS: &[Model] = &[Tso, Views];
const NONE: &[Model] = &[];
const ASYM: &[Model] = &[Asym];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_quick_models_are_among_the_case_s() {
        let cases = all();
        for (at, case) in cases.iter().enumerate() {
            assert!(cases[..at].iter().all(|other| other.name != case.name));
            assert!(case.quick.iter().all(|model| case.models.contains(model)));
        }
    }
}
