//! Total store order: what x86 does.
//!
//! A thread's stores wait in its buffer, in order, and become visible one at a time; its own loads look there first. A
//! read-modify-write and a fence wait until the buffer is empty. A heavy fence then waits until *each* thread's buffer was
//! empty at some moment since the fence began: the kernel interrupts one processor after the other.

use crate::op::{Kind, Op};
use crate::place::{PLACES, Place};

use super::{Broken, Memory, Outcome};

/// Stores that a buffer holds at most; a thread with more waits.
const BUFFER: usize = 4;

/// The memory of one state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tso {
    values: [u8; PLACES],
    freed: u8,
    buffers: Vec<Buffer>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Buffer {
    stores: [(u8, u8); BUFFER],
    len: u8,
    /// While the thread makes a heavy fence: the threads whose buffers it hasn't seen empty.
    awaits: Option<u8>,
}

impl Buffer {
    fn find(&self, place: Place) -> Option<u8> {
        let stores = self.stores[..usize::from(self.len)].iter();
        stores.rev().find(|s| s.0 == place.0).map(|s| s.1)
    }

    fn push(&mut self, place: Place, value: u8) {
        self.stores[usize::from(self.len)] = (place.0, value);
        self.len += 1;
    }

    fn pop(&mut self) -> (u8, u8) {
        let first = self.stores[0];
        self.stores.rotate_left(1);
        self.stores[BUFFER - 1] = (0, 0);
        self.len -= 1;
        first
    }
}

impl Tso {
    pub(super) fn new(threads: usize, initial: &[u8; PLACES]) -> Self {
        Self {
            values: *initial,
            freed: 0,
            buffers: vec![Buffer::default(); threads],
        }
    }

    pub(super) fn is_nothing(op: &Op) -> bool {
        op.kind == Kind::Light
    }

    pub(super) fn perform(&self, thread: usize, op: &Op) -> Result<Vec<Outcome>, Broken> {
        let own = &self.buffers[thread];
        let mut next = self.clone();
        let answer = match op.kind {
            Kind::Load(place, _) => own.find(place).unwrap_or(self.values[place.index()]),
            Kind::Store(..) if usize::from(own.len) == BUFFER => return Ok(Vec::new()),
            Kind::Store(place, value, _) => {
                next.buffers[thread].push(place, value);
                0
            }
            Kind::Change(..) | Kind::Full | Kind::Heavy if own.len > 0 => return Ok(Vec::new()),
            Kind::Change(place, change, _) => {
                let old = self.values[place.index()];
                next.values[place.index()] = change.of(old).unwrap_or(old);
                old
            }
            Kind::Heavy => return Ok(self.heavy(thread)),
            Kind::Full | Kind::Light | Kind::Choose => 0,
            Kind::Use(object) if self.freed & (1 << object) != 0 => {
                return Err(Broken("use after free"));
            }
            Kind::Use(_) => 0,
            Kind::Free(object) => {
                next.freed |= 1 << object;
                0
            }
        };
        Ok(vec![Outcome {
            memory: Memory::Tso(next),
            answer: Some(answer),
            note: "",
        }])
    }

    fn heavy(&self, thread: usize) -> Vec<Outcome> {
        let mut next = self.clone();
        let (answer, note) = match self.buffers[thread].awaits {
            None => {
                let full = (0..self.buffers.len()).filter(|&t| self.buffers[t].len > 0);
                let awaits = full.fold(0, |mask, t| mask | 1 << t);
                next.buffers[thread].awaits = (awaits != 0).then_some(awaits);
                ((awaits == 0).then_some(1), " begins")
            }
            Some(0) => {
                next.buffers[thread].awaits = None;
                (Some(1), "")
            }
            Some(_) => return Vec::new(),
        };
        vec![Outcome {
            memory: Memory::Tso(next),
            answer,
            note: if answer.is_some() { "" } else { note },
        }]
    }

    pub(super) fn drains(&self) -> Vec<(Memory, usize, String)> {
        let full = (0..self.buffers.len()).filter(|&t| self.buffers[t].len > 0);
        full.map(|thread| {
            let mut next = self.clone();
            let (place, value) = next.buffers[thread].pop();
            next.values[usize::from(place)] = value;
            if next.buffers[thread].len == 0 {
                for buffer in &mut next.buffers {
                    buffer.awaits = buffer.awaits.map(|mask| mask & !(1 << thread));
                }
            }
            let what = format!("    {} = {value:#04x} becomes visible", Place(place).name());
            (Memory::Tso(next), thread, what)
        })
        .collect()
    }
}
