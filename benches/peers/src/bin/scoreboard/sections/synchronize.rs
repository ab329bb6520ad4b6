//! The latency of one grace period, as the thread sees it that waits.

use std::hint::black_box;

use crate::args::Options;
use crate::board::Entry;
use crate::lanes::Lane;
use crate::payload::{Payload as _, Plain};
use crate::scheme::{self, Role, Scheme, Visitor};
use crate::{lanes, machine, row};

use super::lazy;

/// Sections that the reader enters between two looks at the flag.
const READS: u32 = 64;

#[derive(Default)]
struct Waits {
    entries: Vec<Entry>,
}

impl Waits {
    /// Adds a row beside a running reader, and one alone.
    fn add(
        &mut self,
        name: &str,
        wait: impl Fn(&Lane<'_>) + Clone + Sync + 'static,
        read: impl Fn(&Lane<'_>) + Clone + Sync + 'static,
    ) {
        for threads in [2, 1] {
            let name = if threads == 1 {
                row::variant(name, "alone")
            } else {
                name.to_owned()
            };
            let (wait, read) = (wait.clone(), read.clone());
            self.entries
                .push(Entry::timed(&name, threads, move |round| {
                    lanes::run(threads, round, None, |lane| match lane.index {
                        0 => wait(lane),
                        _ => read(lane),
                    })
                }));
        }
    }
}

impl Visitor for Waits {
    fn visit<S: Scheme>(&mut self) {
        if !scheme::takes_part::<S>(Role::Synchronize) {
            return;
        }
        let scheme = lazy::<S>();
        let reader = scheme.clone();
        let read = move |lane: &Lane<'_>| {
            let cell = reader.cell(Plain::fresh());
            let mut local = reader.local();
            lane.accompany(|| {
                black_box(reader.enter_load_leave(&mut local, &cell, READS));
            });
        };
        let wait = move |lane: &Lane<'_>| {
            // Takes part itself: some who know of no reader at all do nothing.
            let cell = scheme.cell(Plain::fresh());
            let mut local = scheme.local();
            black_box(scheme.enter_load_leave(&mut local, &cell, 1));
            lane.measure(1, |_| scheme.synchronize());
        };
        self.add(S::NAME, wait, read);
    }
}

/// Section `synchronize`. The thread beside a bare membarrier only counts.
pub fn entries(_: &Options) -> Vec<Entry> {
    let mut waits = Waits::default();
    if machine::has_membarrier() {
        let count = |lane: &Lane<'_>| {
            let mut count = 0_u64;
            lane.accompany(|| count = black_box(count + 1));
        };
        let wait = |lane: &Lane<'_>| lane.measure(1, |_| machine::membarrier());
        waits.add("membarrier", wait, count);
    }
    scheme::each(&mut waits);
    waits.entries
}
