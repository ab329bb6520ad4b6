//! The sections, one file per kind of work.
//!
//! A new one is a file with a function that makes a [`Card`] of entries, and a line in [`ALL`].

mod guard;
mod mix;
mod stall;
mod synchronize;
mod update;

pub use mix::READS;

use std::sync::{Arc, LazyLock};

use crate::args::Options;
use crate::board::Entry;
use crate::scheme::Scheme;

/// A kind of work that the contenders do.
#[derive(Debug)]
pub struct Section {
    /// As on the command line and in the rows.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// What it measures.
    pub entries: fn(&Options) -> Vec<Entry>,
}

/// Every section, in the order in which they are measured.
pub const ALL: &[Section] = &[
    Section {
        name: "guard",
        about: "enter and leave a read-side section",
        entries: guard::enter_leave,
    },
    Section {
        name: "guard-deref",
        about: "enter, load through a shared pointer, leave",
        entries: guard::enter_load_leave,
    },
    Section {
        name: "synchronize",
        about: "wait for one grace period, beside a running reader and alone",
        entries: synchronize::entries,
    },
    Section {
        name: "update",
        about: "allocate a box, swap it in, retire the old one; each thread its own pointer",
        entries: update::own,
    },
    Section {
        name: "update-shared",
        about: "the same, all threads on one pointer",
        entries: update::shared,
    },
    Section {
        name: "stall",
        about: "objects held back by readers that stall, idle or are slow; the cost of 1,000 parked threads",
        entries: stall::entries,
    },
    Section {
        name: "mix",
        about: "reads of one pointer with an update now and then, from 1:1 to 1:10,000",
        entries: mix::entries,
    },
];

/// Numbers of threads where nothing else is asked for.
const THREADS: &[usize] = &[1, 2, 8];

/// A contender that is made when it is first used, by the thread that measures.
type Lazy<S> = Arc<LazyLock<S>>;

fn lazy<S: Scheme>() -> Lazy<S> {
    Arc::new(LazyLock::new(S::new))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;

    use super::*;
    use crate::board::Pass;
    use crate::lanes::Round;

    const TINY: Round = Round {
        duration: Duration::from_millis(2),
        warm_up: Duration::from_micros(100),
    };

    fn entries(section: &str) -> Vec<Entry> {
        let options = Options::parse_from(["scoreboard", "--threads", "1,2"]);
        let section = ALL.iter().find(|known| known.name == section);
        (section.expect("the section is known").entries)(&options)
    }

    /// One test, since counted objects are counted over the whole process.
    #[test]
    fn every_contender_enters_and_updates_and_the_floor_holds_nothing_back() {
        for entry in entries("guard-deref") {
            let ns = (entry.run)(Pass::Timed, TINY).ns;
            assert!(ns.is_some_and(|ns| ns > 0.0), "{}: {ns:?}", entry.contender);
        }
        for entry in entries("update") {
            let held = (entry.run)(Pass::Counted, TINY).held;
            let held = held.expect("a counted pass tells what waits");
            // Each thread has one in hand between the swap and the drop.
            let in_hand = entry.threads as u64;
            if entry.contender == "floor" {
                assert!(held.peak <= in_hand, "{held:?}");
            }
            if entry.contender.contains("call-rcu") {
                assert!(held.peak > in_hand && held.delay.count > 0, "{held:?}");
            }
        }
    }
}
