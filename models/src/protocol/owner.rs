//! How records change hands: registration, exit, claiming, and the parking of abandoned ones.

use crate::cpu::{Cpu, Run, Then};
use crate::op::Change;
use crate::op::Order::{AcqRel, Acquire, Relaxed, Release};
use crate::place::{E, FREE, HEAD, ORPHAN, Record, USED};
use crate::plan::Act;
use crate::rules::Mistake;
use crate::step::Step::{B1, B2, E5, K1, K2, K3, X1, X2, X3};
use crate::word::{Epoch, Word};

/// Makes a record, and publishes it.
#[must_use]
pub fn register(record: Record) -> Act {
    Act::once(move |cpu| {
        let mut word = Word::IDLE;
        if cpu.rules.has(Mistake::RegisterUnparked) {
            word = Word::idle_in(Epoch(cpu.load(E5, E, Acquire)?));
        }
        cpu.store(B1, record.word(), word.0, Relaxed)?;
        let bit = record.bit();
        cpu.change(B2, HEAD, Change::Or(bit), Release).map(drop)
    })
}

/// Gives the record up at the thread's end: parked, and as an orphan if a guard still uses it.
#[must_use]
pub fn exit(record: Record) -> Act {
    Act::once(move |cpu| {
        if !cpu.rules.has(Mistake::ExitUnparked) {
            park_own(cpu, record)?;
        }
        let is_unused = is_unused(cpu, record)?;
        give_up(cpu, record, if is_unused { FREE } else { ORPHAN })
    })
}

/// Gives the record of an owned guard up as soon as the guard is inside: it is the guard's alone from then on.
#[must_use]
pub fn orphan(record: Record) -> Act {
    Act::once(move |cpu| give_up(cpu, record, ORPHAN))
}

/// Waits until nobody owns the record, and claims it.
#[must_use]
pub fn claim(record: Record) -> Act {
    Act::new(move |cpu| {
        let is_mine = try_claim(cpu, record)?;
        let again = Then::Stage(cpu.keep.stage);
        Ok(if is_mine { Then::Next } else { again })
    })
}

/// Parks the idle word of a record whose thread has gone, as its owner for a moment. Whether it did.
pub(super) fn park_abandoned(cpu: &mut Cpu<'_>, record: Record) -> Run<bool> {
    if cpu.rules.has(Mistake::ParkUnclaimed) {
        park_own(cpu, record)?;
        return Ok(true);
    }
    if !cpu.rules.abandons {
        return Ok(false);
    }
    let is_abandoned = cpu.load(K1, record.node(), Acquire)? != USED;
    if !is_abandoned || !try_claim(cpu, record)? {
        return Ok(false);
    }
    park_own(cpu, record)?;
    give_up(cpu, record, FREE)?;
    Ok(true)
}

fn try_claim(cpu: &mut Cpu<'_>, record: Record) -> Run<bool> {
    let state = cpu.load(K1, record.node(), Relaxed)?;
    if state == USED || !is_unused(cpu, record)? {
        return Ok(false);
    }
    if !cpu.exchange(K3, record.node(), (state, USED), Acquire)? {
        return Ok(false);
    }
    let claimed = is_unused(cpu, record)?;
    if !claimed {
        give_up(cpu, record, state)?;
    }
    Ok(claimed)
}

fn is_unused(cpu: &mut Cpu<'_>, record: Record) -> Run<bool> {
    if cpu.rules.has(Mistake::ClaimInUse) {
        return Ok(true);
    }
    Ok(Word(cpu.load(K2, record.word(), Acquire)?).is_idle())
}

fn park_own(cpu: &mut Cpu<'_>, record: Record) -> Run<()> {
    let word = Word(cpu.load(X1, record.word(), Relaxed)?);
    if word.is_idle() && word != word.parked() {
        let park = (word.0, word.parked().0);
        cpu.exchange(X2, record.word(), park, AcqRel)?;
    }
    Ok(())
}

fn give_up(cpu: &mut Cpu<'_>, record: Record, state: u8) -> Run<()> {
    cpu.store(X3, record.node(), state, Release)
}
