//! What the worker's thread does.

use std::time::Duration;

use crate::sync::{Arc, now, thread};

use super::builder::Drain;
use super::core::{Core, take_opens};
use super::local::Local;
use super::worker::Pending;

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

    fn run(&self) {
        let runner = self.nodes.lend();
        let longest = Duration::from_nanos(self.settings.max_delay);
        let mut idle = false;
        while !self.worker.is_finishing() {
            idle = !self.work(&runner) && self.worker.sleep(idle, longest, || self.pending());
        }
        // Nothing is left, whoever told the thread to end.
        self.empty(&runner);
    }

    /// Handles what is ready or late, a thread's items together; whether there was anything.
    fn work(&self, runner: &Local<T>) -> bool {
        let everything = self.worker.was_kicked();
        let now = now();
        let is_late = |since| everything || self.is_late(since, now);
        let mut found = false;
        for node in self.nodes.iter().filter(|node| node.waiting() > 0) {
            found |= self.drain_line(runner, node, node.waiting());
        }
        let late = self
            .nodes
            .iter()
            .filter(|node| node.since().is_some_and(is_late));
        let _mark = runner.handled.running.begin();
        for (node, taken) in take_opens(late) {
            match taken {
                Some((open, in_line)) => self.drain_taken(runner, node, open, in_line),
                // Its thread is pushing, or has lost the processor as it did.
                None => thread::yield_now(),
            }
            found = true;
        }
        found
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
