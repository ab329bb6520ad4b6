//! The messages of all places, each place's in modification order.

use crate::place::PLACES;

use super::view::View;

/// One store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Message {
    pub(super) value: u8,
    /// Written by a read-modify-write of the message before it: nothing may come between the two.
    pub(super) is_attached: bool,
    /// What whoever acquires it learns.
    pub(super) view: View,
}

/// The messages, in one allocation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct History {
    messages: Vec<Message>,
    /// Where each place's messages end.
    ends: [u8; PLACES],
}

impl History {
    pub(super) fn new(initial: &[u8; PLACES]) -> Self {
        let message = |&value| Message {
            value,
            is_attached: false,
            view: View::START,
        };
        Self {
            messages: initial.iter().map(message).collect(),
            ends: std::array::from_fn(|place| place as u8 + 1),
        }
    }

    fn start(&self, place: usize) -> usize {
        place
            .checked_sub(1)
            .map_or(0, |before| usize::from(self.ends[before]))
    }

    /// A place's messages.
    pub(super) fn of(&self, place: usize) -> &[Message] {
        &self.messages[self.start(place)..usize::from(self.ends[place])]
    }

    /// Puts a message at a position of a place. The caller has made room in every view outside.
    pub(super) fn insert(&mut self, place: usize, position: usize, message: Message) {
        for other in &mut self.messages {
            other.view.make_room(place, position as u8);
        }
        let at = self.start(place) + position;
        self.messages.insert(at, message);
        for end in &mut self.ends[place..] {
            *end += 1;
        }
    }

    /// Forgets the first messages of a place. The caller forgets them in every view outside.
    pub(super) fn forget(&mut self, place: usize, messages: u8) {
        let start = self.start(place);
        self.messages.drain(start..start + usize::from(messages));
        self.messages[start].is_attached = false;
        for end in &mut self.ends[place..] {
            *end -= messages;
        }
        for other in &mut self.messages {
            other.view.forget(place, messages);
        }
    }

    /// Every message's view.
    pub(super) fn views(&mut self) -> impl Iterator<Item = &mut View> {
        self.messages.iter_mut().map(|message| &mut message.view)
    }
}
