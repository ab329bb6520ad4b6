//! The reader's steps: enter, nest, leave, refresh, announce; and the same of owned guards.

use crate::cpu::{Cpu, Run};
use crate::op::Order::{AcqRel, Acquire, Relaxed, Release};
use crate::place::{E, Record};
use crate::plan::Act;
use crate::rules::{Mistake, Variant};
use crate::step::Step::{
    A1, A2, A3, E1, E2, E3, E4, E5, E6, E7, L1, L2, N1, N2, R1, R2, V1, V2, V3, V4, V5, W1, W2, W3,
    Z1,
};
use crate::word::{Epoch, Word};

/// Enters, outermost or nested.
#[must_use]
pub fn enter(record: Record) -> Act {
    Act::once(move |cpu| match cpu.rules.variant {
        Variant::StoreFirst => enter_by_store_first(cpu, record),
        Variant::SecondLook => enter_by_second_look(cpu, record),
    })
}

fn enter_by_store_first(cpu: &mut Cpu<'_>, record: Record) -> Run<()> {
    let word = Word(cpu.load(E1, record.word(), Relaxed)?);
    if !word.may_enter_unfenced() {
        return enter_cold(cpu, record, word);
    }
    cpu.store(E2, record.word(), word.nested().0, Release)?;
    cpu.light(E3)?;
    if cpu.rules.has(Mistake::NoLook) {
        return Ok(());
    }
    let epoch = Epoch(cpu.load(E4, E, Acquire)?);
    if word.is_current(epoch) {
        return Ok(());
    }
    enter_anew(cpu, record, epoch)
}

fn enter_cold(cpu: &mut Cpu<'_>, record: Record, word: Word) -> Run<()> {
    if !word.is_idle() {
        return nest_now(cpu, record);
    }
    let epoch = Epoch(cpu.load(E5, E, Acquire)?);
    enter_fenced(cpu, record, epoch)
}

/// Enters from an idle word without `S` that isn't of the present epoch, or while `F` is set.
fn enter_anew(cpu: &mut Cpu<'_>, record: Record, epoch: Epoch) -> Run<()> {
    if cpu.rules.has(Mistake::LookOnlyFences) {
        return cpu.full(E7);
    }
    if !epoch.is_fenced(cpu.rules.f()) && cpu.rules.has(Mistake::NewEpochUnfenced) {
        return store_entered(cpu, record, epoch).and_then(|()| cpu.light(E3));
    }
    enter_fenced(cpu, record, epoch)
}

/// The other way to enter: one compare decides everything, and after the store comes a second look at `E`.
fn enter_by_second_look(cpu: &mut Cpu<'_>, record: Record) -> Run<()> {
    let epoch = Epoch(cpu.load(V1, E, Acquire)?);
    let word = Word(cpu.load(V2, record.word(), Relaxed)?);
    if !word.is_current(epoch) {
        return match (word.is_idle(), word.is_parked()) {
            (false, _) => nest_now(cpu, record),
            (true, true) => enter_fenced(cpu, record, epoch),
            (true, false) => enter_anew(cpu, record, epoch),
        };
    }
    cpu.store(V3, record.word(), word.nested().0, Release)?;
    cpu.light(V4)?;
    if cpu.rules.has(Mistake::NoLook) {
        return Ok(());
    }
    let again = Epoch(cpu.load(V5, E, Acquire)?);
    if again == epoch {
        return Ok(());
    }
    enter_anew(cpu, record, again)
}

fn enter_fenced(cpu: &mut Cpu<'_>, record: Record, epoch: Epoch) -> Run<()> {
    store_entered(cpu, record, epoch)?;
    cpu.full(E7)
}

fn store_entered(cpu: &mut Cpu<'_>, record: Record, epoch: Epoch) -> Run<()> {
    let word = Word::entered(epoch, cpu.rules.f());
    cpu.store(E6, record.word(), word.0, Release)
}

/// Adds a guard to one that lives.
#[must_use]
pub fn nest(record: Record) -> Act {
    Act::once(move |cpu| nest_now(cpu, record))
}

fn nest_now(cpu: &mut Cpu<'_>, record: Record) -> Run<()> {
    let word = Word(cpu.load(N1, record.word(), Relaxed)?);
    cpu.store(N2, record.word(), word.nested().0, Release)
}

/// Leaves one guard.
#[must_use]
pub fn leave(record: Record) -> Act {
    Act::once(move |cpu| {
        let word = Word(cpu.load(L1, record.word(), Relaxed)?);
        cpu.check(!word.is_idle(), "who leaves is inside")?;
        cpu.store(L2, record.word(), word.left().0, Release)
    })
}

/// Moves the only guard to the present epoch.
#[must_use]
pub fn refresh(record: Record) -> Act {
    Act::once(move |cpu| {
        let word = Word(cpu.load(R1, record.word(), Relaxed)?);
        if !word.is_only_guard() {
            return Ok(());
        }
        let epoch = Epoch(cpu.load(R2, E, Acquire)?);
        let is_unfenced = cpu.rules.has(Mistake::RefreshUnfenced)
            || (cpu.rules.has(Mistake::RefreshUnfencedWithoutF) && !epoch.is_fenced(cpu.rules.f()));
        if is_unfenced {
            store_entered(cpu, record, epoch)?;
            return cpu.light(E3);
        }
        enter_fenced(cpu, record, epoch)
    })
}

/// Tells drivers that the idle owner has seen the present epoch.
#[must_use]
pub fn announce(record: Record) -> Act {
    Act::once(move |cpu| announce_now(cpu, record))
}

pub(super) fn announce_now(cpu: &mut Cpu<'_>, record: Record) -> Run<()> {
    let also_parked = cpu.rules.has(Mistake::AnnounceFromParked);
    loop {
        let word = Word(cpu.load(A1, record.word(), Relaxed)?);
        let epoch = Epoch(cpu.load(A2, E, Acquire)?);
        let Some(announced) = word.announced(epoch, also_parked) else {
            return Ok(());
        };
        if cpu.rules.has(Mistake::AnnounceByStore) {
            return cpu.store(Z1, record.word(), announced.0, Release);
        }
        if cpu.exchange(A3, record.word(), (word.0, announced.0), AcqRel)? {
            return Ok(());
        }
    }
}

/// Enters an owned guard: always fenced, and `S` stays in the word.
#[must_use]
pub fn enter_owned(record: Record) -> Act {
    Act::once(move |cpu| {
        let epoch = Epoch(cpu.load(W1, E, Acquire)?);
        cpu.store(W2, record.word(), Word::owned(epoch).0, Release)?;
        if cpu.rules.has(Mistake::OwnedUnfenced) {
            return cpu.light(E3);
        }
        cpu.full(W3)
    })
}
