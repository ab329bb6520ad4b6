//! A view machine after C11: each place has all its stores in modification order, and each thread a view of how far it
//! can't help having seen.
//!
//! A load may answer any message from the thread's view on; a store may be put anywhere behind it, but not between a
//! read-modify-write and what that has read. There is no load buffering: a load never sees a store that the exploration
//! has yet to make. Frees are checked by happens-before, not by order in time.
//!
//! Source: Kang, Hur, Lahav, Vafeiadis, Dreyer, "A promising semantics for relaxed-memory concurrency" (POPL 2017), its
//! section 3 without promises.

use crate::op::{Change, Kind, Op, Order};
use crate::place::{PLACES, Place};

use super::history::{History, Message};
use super::view::{THREADS, View};
use super::{Broken, Memory, Outcome};

/// The memory of one state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Views {
    /// Whether heavy fences order with light ones alone.
    asymmetric: bool,
    freed: u8,
    threads: Vec<Thread>,
    history: History,
    /// What the sequentially consistent fences so far have seen.
    full: View,
    /// What the heavy fences so far have seen.
    heavy: View,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Thread {
    /// What it has seen.
    seen: View,
    /// What an acquiring fence would have it see.
    read: View,
    /// What it had seen at its last releasing fence.
    fenced: View,
    /// What it had seen, or read, at its last light fence.
    light: View,
}

impl Thread {
    /// Sees a message at a position of a place, acquiring or not.
    fn see(&mut self, place: usize, position: usize, message: &Message, order: Order) {
        let position = position as u8;
        self.seen.at[place] = self.seen.at[place].max(position);
        self.read.at[place] = self.read.at[place].max(position);
        self.read.join(&message.view);
        if order.acquires() {
            self.seen.join(&message.view);
        }
    }

    /// The view of a message that it stores at a position of a place.
    fn publish(&mut self, place: usize, position: usize, order: Order) -> View {
        let position = position as u8;
        self.seen.at[place] = position;
        self.read.at[place] = self.read.at[place].max(position);
        let mut view = if order.releases() {
            self.seen
        } else {
            self.fenced
        };
        view.at[place] = position;
        view
    }
}

impl Views {
    pub(super) fn new(asymmetric: bool, threads: usize, initial: &[u8; PLACES]) -> Self {
        assert!(threads <= THREADS, "a case of a few threads");
        let nothing = View::default();
        let thread = Thread {
            seen: View::START,
            read: View::START,
            fenced: View::START,
            light: nothing,
        };
        Self {
            asymmetric,
            freed: 0,
            threads: vec![thread; threads],
            history: History::new(initial),
            full: nothing,
            heavy: nothing,
        }
    }

    pub(super) fn is_nothing(&self, op: &Op) -> bool {
        op.kind == Kind::Light && !self.asymmetric
    }

    pub(super) fn perform(&self, thread: usize, op: &Op) -> Result<Vec<Outcome>, Broken> {
        match op.kind {
            Kind::Load(place, order) => return Ok(self.load(thread, place, order)),
            Kind::Store(place, value, order) => return Ok(self.store(thread, place, value, order)),
            Kind::Change(place, change, order) => {
                return Ok(self.change(thread, place, change, order));
            }
            Kind::Use(object) if self.freed & (1 << object) != 0 => {
                return Err(Broken("use after free"));
            }
            Kind::Free(object) if !self.threads[thread].seen.knows_uses(object) => {
                return Err(Broken(
                    "race: an earlier use doesn't happen before the free",
                ));
            }
            _ => {}
        }
        let mut next = self.clone();
        match op.kind {
            Kind::Full => next.full_fence(thread),
            Kind::Light => next.light_fence(thread),
            Kind::Heavy => next.heavy_fence(thread),
            Kind::Use(object) => next.note_use(thread, object),
            Kind::Free(object) => next.freed |= 1 << object,
            _ => {}
        }
        let answer = u8::from(op.kind == Kind::Heavy);
        Ok(vec![next.outcome(answer, "")])
    }

    fn outcome(self, answer: u8, note: &'static str) -> Outcome {
        Outcome {
            memory: Memory::Views(self),
            answer: Some(answer),
            note,
        }
    }

    fn load(&self, thread: usize, place: Place, order: Order) -> Vec<Outcome> {
        let place = place.index();
        let messages = self.history.of(place);
        let from = usize::from(self.threads[thread].seen.at[place]);
        (from..messages.len())
            .map(|position| {
                let mut next = self.clone();
                next.threads[thread].see(place, position, &messages[position], order);
                let note = is_stale(position, messages.len());
                next.outcome(messages[position].value, note)
            })
            .collect()
    }

    fn store(&self, thread: usize, place: Place, value: u8, order: Order) -> Vec<Outcome> {
        let place = place.index();
        let messages = self.history.of(place);
        let from = usize::from(self.threads[thread].seen.at[place]) + 1;
        (from..=messages.len())
            .filter(|&position| !messages.get(position).is_some_and(|m| m.is_attached))
            .map(|position| {
                let mut next = self.clone();
                next.put(thread, place, position, value, order, None);
                let is_last = position == messages.len();
                next.outcome(
                    0,
                    if is_last {
                        ""
                    } else {
                        ", before what is there"
                    },
                )
            })
            .collect()
    }

    fn change(&self, thread: usize, place: Place, change: Change, order: Order) -> Vec<Outcome> {
        let place = place.index();
        let messages = self.history.of(place);
        let from = usize::from(self.threads[thread].seen.at[place]);
        let mut outcomes = Vec::new();
        for (position, message) in messages.iter().enumerate().skip(from) {
            let new = change.of(message.value);
            let is_taken = messages.get(position + 1).is_some_and(|m| m.is_attached);
            if new.is_some() && is_taken {
                continue;
            }
            let mut next = self.clone();
            next.threads[thread].see(place, position, message, order);
            if let Some(new) = new {
                next.put(thread, place, position + 1, new, order, Some(message.view));
            }
            outcomes.push(next.outcome(message.value, is_stale(position, messages.len())));
        }
        outcomes
    }

    /// Puts a message at a position; `continues` is the view of what a read-modify-write has read.
    fn put(
        &mut self,
        thread: usize,
        place: usize,
        position: usize,
        value: u8,
        order: Order,
        continues: Option<View>,
    ) {
        let room = |view: &mut View| view.make_room(place, position as u8);
        self.outside().for_each(room);
        let mut view = self.threads[thread].publish(place, position, order);
        if let Some(earlier) = continues {
            // What was read stands before the new message, so its view needs no room.
            view.join(&earlier);
        }
        let message = Message {
            value,
            is_attached: continues.is_some(),
            view,
        };
        self.history.insert(place, position, message);
    }

    /// Every view but those of messages.
    fn outside(&mut self) -> impl Iterator<Item = &mut View> {
        self.threads
            .iter_mut()
            .flat_map(|t| [&mut t.seen, &mut t.read, &mut t.fenced, &mut t.light])
            .chain([&mut self.full, &mut self.heavy])
    }

    fn full_fence(&mut self, thread: usize) {
        let own = &mut self.threads[thread];
        own.seen.join(&own.read);
        own.seen.join_places(&self.full);
        own.read = own.seen;
        own.fenced = own.seen;
        self.full.join_places(&own.seen);
    }

    fn light_fence(&mut self, thread: usize) {
        let own = &mut self.threads[thread];
        own.seen.join_places(&self.heavy);
        own.read.join_places(&self.heavy);
        own.light = View::default();
        own.light.join_places(&own.read);
    }

    fn heavy_fence(&mut self, thread: usize) {
        if self.asymmetric {
            let read = self.threads[thread].read;
            let mut seen = self.threads[thread].seen;
            seen.join(&read);
            let mut all = seen;
            all.join_places(&self.heavy);
            self.heavy.join_places(&seen);
            for other in &self.threads {
                all.join_places(&other.light);
            }
            self.threads[thread].seen = all;
            self.full_fence(thread);
            let seen = self.threads[thread].seen;
            self.threads[thread].light.join_places(&seen);
            return;
        }
        for other in &self.threads {
            self.full.join_places(&other.read);
        }
        for other in &mut self.threads {
            other.seen.join_places(&self.full);
            other.read.join_places(&self.full);
            // Only what the others do from here on carries it; a fence of theirs at this instant releases as well.
            other.fenced.join_places(&other.seen);
        }
        self.full_fence(thread);
    }

    fn note_use(&mut self, thread: usize, object: u8) {
        self.outside()
            .for_each(|view| view.miss_use(object, thread));
        self.history
            .views()
            .for_each(|view| view.miss_use(object, thread));
        let own = &mut self.threads[thread];
        own.seen.know_use(object, thread);
        own.read.know_use(object, thread);
    }

    pub(super) fn tidy(&mut self, running: u8) {
        for (thread, state) in self.threads.iter_mut().enumerate() {
            if running & (1 << thread) == 0 {
                // Later heavy fences still reach what the thread has done.
                let light = state.light;
                let read = state.read;
                let nothing = View::default();
                *state = Thread {
                    seen: nothing,
                    read: nothing,
                    fenced: nothing,
                    light,
                };
                state.read.join_places(&read);
            }
        }
        for place in 0..PLACES {
            let alive = self.threads.iter().enumerate();
            let alive = alive.filter(|(thread, _)| running & (1 << thread) != 0);
            let newest = self.history.of(place).len() as u8 - 1;
            let first = alive.map(|(_, t)| t.seen.at[place]).min().unwrap_or(newest);
            if first > 0 {
                self.history.forget(place, first);
                self.outside().for_each(|view| view.forget(place, first));
            }
        }
    }
}

fn is_stale(position: usize, messages: usize) -> &'static str {
    if position + 1 < messages {
        ", stale"
    } else {
        ""
    }
}
