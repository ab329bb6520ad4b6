//! What users do around the protocol: find and use objects, unlink, retire and free them, hand guards over.

use crate::cpu::Then;
use crate::op::Change;
use crate::op::Order::{Acquire, Release};
use crate::place::{E, MAIL, POINTERS};
use crate::plan::Act;
use crate::rules::Mistake;
use crate::step::Step::{C1, U1, U2, U3, U4, U5, U6};
use crate::word::Epoch;

use super::driver;

/// Loads the pointer to an object, inside a guard.
#[must_use]
pub fn find(object: u8) -> Act {
    Act::once(move |cpu| {
        let pointer = POINTERS[usize::from(object) - 1];
        cpu.keep.held = cpu.load(U2, pointer, Acquire)?;
        Ok(())
    })
}

/// Uses what was found, if anything was.
#[must_use]
pub fn use_found() -> Act {
    Act::once(|cpu| {
        if cpu.keep.held != 0 {
            cpu.use_object(U3, cpu.keep.held)?;
        }
        cpu.keep.held = 0;
        Ok(())
    })
}

/// Unlinks an object, and takes a cookie.
#[must_use]
pub fn unlink(object: u8) -> Act {
    Act::once(move |cpu| {
        cpu.store(U1, POINTERS[usize::from(object) - 1], 0, Release)?;
        let is_plain =
            cpu.rules.has(Mistake::CookieByLoad) || cpu.rules.has(Mistake::CookieByLoadPlusOne);
        let epoch = if is_plain {
            cpu.load(C1, E, Acquire)?
        } else {
            cpu.change(C1, E, Change::Nothing, Release)?
        };
        cpu.keep.cookie = Epoch(epoch).number();
        Ok(())
    })
}

/// Waits until the cookie has elapsed, driving nothing.
#[must_use]
pub fn wait() -> Act {
    Act::new(|cpu| {
        let is_over = driver::has_elapsed(cpu)?;
        let again = Then::Stage(cpu.keep.stage);
        Ok(if is_over { Then::Next } else { again })
    })
}

/// Frees an object.
#[must_use]
pub fn free(object: u8) -> Act {
    Act::once(move |cpu| {
        cpu.keep.cookie = 0;
        cpu.free(U4, object)
    })
}

/// Sends the guard with what it has found to another thread.
#[must_use]
pub fn send() -> Act {
    Act::once(|cpu| {
        cpu.store(U5, MAIL, cpu.keep.held + 1, Release)?;
        cpu.keep.held = 0;
        Ok(())
    })
}

/// Waits for a guard, and takes it with what it has found.
#[must_use]
pub fn receive() -> Act {
    Act::new(|cpu| {
        let mail = cpu.load(U6, MAIL, Acquire)?;
        if mail == 0 {
            return Ok(Then::Stage(cpu.keep.stage));
        }
        cpu.keep.held = mail - 1;
        Ok(Then::Next)
    })
}
