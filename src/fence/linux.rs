//! Light as a compiler fence, heavy as a `membarrier` that makes every running thread of the process run a full fence.
//!
//! | state | light | heavy | next |
//! |---|---|---|---|
//! | `UNKNOWN` | asks the kernel first | asks the kernel first | `EXPEDITED`, `FULL` |
//! | `EXPEDITED` | compiler fence | system call | `REFUSED` |
//! | `FULL` | full fence | full fence | |
//! | `REFUSED` | full fence | full fence, says that it failed | |
//!
//! The child of a fork begins with `UNKNOWN`.
//!
//! A thread may look at the state just before it becomes `REFUSED` and make one more compiler fence. That is why a heavy
//! fence that failed promises nothing about light ones, ever.
//!
//! Source: membarrier(2), `MEMBARRIER_CMD_PRIVATE_EXPEDITED`. Never `MEMBARRIER_CMD_GLOBAL`, which waits for a grace
//! period of the kernel and fails under `nohz_full`.

use crate::sync::{AtomicU8, Relaxed};

use super::full;

/// Whether light fences are full ones for good.
pub(crate) const ALWAYS_FULL: bool = false;

const UNKNOWN: u8 = 0;
const EXPEDITED: u8 = 1;
const FULL: u8 = 2;
const REFUSED: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// The rare side of an asymmetric pair. False if it doesn't order with light fences, because the kernel has refused it.
pub(crate) fn heavy() -> bool {
    match decided() {
        EXPEDITED if membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) => true,
        FULL => {
            full();
            true
        }
        _ => {
            // Relaxed: as in `decided`.
            STATE.store(REFUSED, Relaxed);
            full();
            false
        }
    }
}

/// Whether light fences are full ones at present. Whoever makes one asks first.
#[inline]
pub(crate) fn is_light_full() -> bool {
    decided() != EXPEDITED
}

/// Forgets what the kernel has said, in the child of a fork, before anything else is done there.
pub(crate) fn ask_again() {
    // Relaxed: there is one thread, and what it and the others did before the fork needs no fence.
    STATE.store(UNKNOWN, Relaxed);
}

#[inline]
fn decided() -> u8 {
    // Relaxed: the state guards no data, and nobody relies on a light fence that came before a decision.
    match STATE.load(Relaxed) {
        UNKNOWN => decide(),
        state => state,
    }
}

/// Registers the process. Several threads may; the kernel doesn't mind, and they come to the same answer.
#[cold]
fn decide() -> u8 {
    let registered = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    let state = if registered { EXPEDITED } else { FULL };
    // Relaxed: the state guards no data. A thread that was slower must not undo a decision.
    match STATE.compare_exchange(UNKNOWN, state, Relaxed, Relaxed) {
        Ok(_) => state,
        Err(now) => now,
    }
}

fn membarrier(command: libc::c_int) -> bool {
    let none: libc::c_int = 0;
    // SAFETY: the system call takes two integers and touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, none, none) == 0 }
}
