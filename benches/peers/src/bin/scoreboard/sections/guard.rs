//! Read-side sections, empty or with one load.

use std::hint::black_box;

use crate::args::Options;
use crate::board::Entry;
use crate::lanes;
use crate::payload::{Payload as _, Plain};
use crate::scheme::{self, Role, Scheme, Visitor};

use super::{THREADS, lazy};

/// Sections between two looks at the clock.
const STEP: u32 = 1_024;

struct Guards {
    role: Role,
    threads: Vec<usize>,
    entries: Vec<Entry>,
}

impl Visitor for Guards {
    fn visit<S: Scheme>(&mut self) {
        if !scheme::takes_part::<S>(self.role) {
            return;
        }
        let role = self.role;
        let scheme = lazy::<S>();
        for &threads in &self.threads {
            let scheme = scheme.clone();
            self.entries
                .push(Entry::timed(S::NAME, threads, move |round| {
                    let cell = scheme.cell(Plain::fresh());
                    lanes::run(threads, round, None, |lane| {
                        let mut local = scheme.local();
                        lane.measure(STEP, |times| {
                            if role == Role::Guard {
                                scheme.enter_leave(&mut local, &cell, times);
                            } else {
                                black_box(scheme.enter_load_leave(&mut local, &cell, times));
                            }
                        });
                    })
                }));
        }
    }
}

fn entries(role: Role, options: &Options) -> Vec<Entry> {
    let threads = options.threads_or(THREADS);
    let mut guards = Guards {
        role,
        threads,
        entries: Vec::new(),
    };
    scheme::each(&mut guards);
    guards.entries
}

/// Section `guard`.
pub fn enter_leave(options: &Options) -> Vec<Entry> {
    entries(Role::Guard, options)
}

/// Section `guard-deref`.
pub fn enter_load_leave(options: &Options) -> Vec<Entry> {
    entries(Role::Deref, options)
}
