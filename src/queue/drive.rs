//! What the worker's thread does.

use std::time::Duration;

use crate::sync::{Arc, now};
use crate::thread::Snooze;

use super::builder::Drain;
use super::core::Core;
use super::local::Local;
use super::takeover::take_opens;
use super::worker::Pending;

/// What the thread found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Done,
    /// Nothing but late items of threads that were pushing, or lost the processor as they did.
    KeptOut,
    Nothing,
}

impl<T: Send + 'static> Core<T> {
    /// Starts the worker's thread; if that fails, pushes drain inline from now on.
    pub(super) fn start_worker(self: &Arc<Self>) {
        let core = Arc::clone(self);
        self.worker.start(move || core.run());
    }

    /// Makes the worker take everything, if anything waits.
    pub(super) fn kick(self: &Arc<Self>) {
        let waits = self.nodes.iter().any(|node| node.waiting() > 0);
        if waits && self.settings.drain == Drain::Worker && self.worker.kick() {
            self.start_worker();
        }
    }

    /// Handles up to `at_most` items here; the worker hears of what is left of a buffer.
    pub(super) fn drain(self: &Arc<Self>, at_most: u64) -> u64 {
        let done = self.drain_some(&self.nodes.own(), at_most);
        let left = self.nodes.iter().any(Local::is_ready);
        if left && self.settings.drain == Drain::Worker && self.worker.tell_ready() {
            self.start_worker();
        }
        done
    }

    pub(super) fn run(&self) {
        let runner = self.nodes.lend();
        let longest = Duration::from_nanos(self.settings.max_delay);
        let mut idle = false;
        let mut snooze = Snooze::new();
        while !self.worker.is_finishing() {
            match self.work(&runner) {
                Work::Done => (idle, snooze) = (false, Snooze::new()),
                Work::KeptOut => snooze.wait(),
                Work::Nothing => idle = self.worker.sleep(idle, longest, || self.pending()),
            }
        }
        // Nothing is left, whoever told the thread to end.
        self.empty(&runner);
    }

    /// Handles what is ready or late, a thread's items together.
    fn work(&self, runner: &Local<T>) -> Work {
        let everything = self.worker.was_kicked();
        let now = now();
        let is_late = |since| everything || self.is_late(since, now);
        let mut work = Work::Nothing;
        for node in self.nodes.iter().filter(|node| node.waiting() > 0) {
            if self.drain_line(runner, node, node.waiting()) {
                work = Work::Done;
            }
        }
        let late = |node: &&Local<T>| node.since().is_some_and(is_late);
        let _mark = runner.handled.running.begin();
        for (node, taken) in take_opens(self.nodes.iter().filter(late)) {
            match taken {
                Some(taken) => {
                    self.drain_taken(runner, node, taken);
                    work = Work::Done;
                }
                None if everything => self.worker.kick_again(),
                None => {}
            }
            if work == Work::Nothing {
                work = Work::KeptOut;
            }
        }
        work
    }

    /// What the thread would find.
    fn pending(&self) -> Pending {
        let mut oldest = None;
        for node in self.nodes.iter().filter(|node| node.waiting() > 0) {
            if node.is_ready() {
                return Pending::Now;
            }
            oldest = oldest.into_iter().chain(node.since()).min();
        }
        let Some(since) = oldest else {
            return Pending::Nothing;
        };
        let age = now().saturating_sub(since);
        match self.settings.max_delay.checked_sub(age) {
            Some(left) if left > 0 => Pending::In(Duration::from_nanos(left)),
            _ => Pending::Now,
        }
    }

    /// Whether an item that came at `since` has waited for longer than it may.
    pub(super) fn is_late(&self, since: u64, now: u64) -> bool {
        now.saturating_sub(since) >= self.settings.max_delay
    }
}
