//! One shared pointer that is mostly read: where each contender wins.

use std::hint::black_box;

use crate::args::Options;
use crate::board::Entry;
use crate::lanes;
use crate::payload::{Payload as _, Plain};
use crate::row;
use crate::scheme::{self, Role, Scheme, Visitor};

use super::{THREADS, lazy};

/// Reads to one update.
pub const READS: &[u32] = &[1, 10, 100, 1_000, 10_000];

/// Operations between two looks at the clock, at least; whole rounds of reads and one update.
const STEP: u32 = 64;

struct Mixes {
    threads: Vec<usize>,
    entries: Vec<Entry>,
}

impl Visitor for Mixes {
    fn visit<S: Scheme>(&mut self) {
        if !scheme::takes_part::<S>(Role::Mix) {
            return;
        }
        let scheme = lazy::<S>();
        for (&threads, &reads) in self
            .threads
            .iter()
            .flat_map(|n| READS.iter().map(move |r| (n, r)))
        {
            let scheme = scheme.clone();
            let name = row::variant(S::NAME, &format!("reads-{reads}"));
            let entry = Entry::timed(&name, threads, move |round| {
                let cell = scheme.cell(Plain::fresh());
                let rounds = STEP.div_ceil(reads + 1);
                let ns = lanes::run(threads, round, None, |lane| {
                    let mut local = scheme.local();
                    lane.measure(rounds * (reads + 1), |_| {
                        for _ in 0..rounds {
                            black_box(scheme.enter_load_leave(&mut local, &cell, reads));
                            scheme.replace(&mut local, &cell, Plain::fresh());
                        }
                    });
                });
                drop(cell);
                scheme.settle();
                ns
            });
            self.entries.push(entry);
        }
    }
}

/// Section `mix`.
pub fn entries(options: &Options) -> Vec<Entry> {
    let mut mixes = Mixes {
        threads: options.threads_or(THREADS),
        entries: Vec::new(),
    };
    scheme::each(&mut mixes);
    mixes.entries
}
