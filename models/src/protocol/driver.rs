//! The driver's steps: open a period, scan the records, park idle ones, complete the period.
//!
//! A driver here is always late: it parks as soon as it meets an idle word. One that waits first is one that began later.

use crate::cpu::{Cpu, Run, Stage, Then};
use crate::op::Change;
use crate::op::Order::{AcqRel, Acquire, Release};
use crate::place::{DONE, E, HEAD, Record};
use crate::plan::Act;
use crate::rules::Mistake;
use crate::step::Step::{B3, D1, D2, D3, D4, G1, H1, P1, P2, S1, Z1, Z2};
use crate::word::{Epoch, Word};

use super::{mode, owner, reader};

/// Who drives, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// How many records there are.
    pub records: u8,
    /// The driver's own one, which it announces.
    pub own: Option<Record>,
    /// Whether it goes on until its cookie has elapsed, or until one period is complete.
    pub until_elapsed: bool,
}

/// Drives until a period is complete.
#[must_use]
pub fn drive(records: u8) -> Act {
    Act::new(move |cpu| {
        let driver = Driver {
            records,
            own: None,
            until_elapsed: false,
        };
        attempt(cpu, driver)
    })
}

/// Drives until the thread's cookie has elapsed: `synchronize`, after the cookie.
#[must_use]
pub fn synchronize(records: u8, own: Option<Record>) -> Act {
    Act::new(move |cpu| {
        let driver = Driver {
            records,
            own,
            until_elapsed: true,
        };
        attempt(cpu, driver)
    })
}

/// Whether the thread's cookie has elapsed.
pub(super) fn has_elapsed(cpu: &mut Cpu<'_>) -> Run<bool> {
    let done = cpu.load(H1, DONE, Acquire)?;
    let more = u8::from(cpu.rules.has(Mistake::CookieByLoadPlusOne));
    Ok(done > cpu.keep.cookie + more)
}

/// One attempt at the open period; the next one follows at once.
fn attempt(cpu: &mut Cpu<'_>, driver: Driver) -> Run<Then> {
    match cpu.keep.stage {
        Stage::Start => {
            if driver.until_elapsed && has_elapsed(cpu)? {
                return Ok(end(cpu));
            }
            if cpu.rules.has(Mistake::HeavyBeforeAdvance) {
                cpu.heavy(P1)?;
                cpu.keep.heavy = 1;
            }
            cpu.keep.number = open(cpu)?;
            Ok(Then::Stage(Stage::Announce))
        }
        Stage::Announce => {
            if let Some(own) = driver.own {
                reader::announce_now(cpu, own)?;
            }
            Ok(Then::Stage(Stage::Fence))
        }
        Stage::Fence => {
            cpu.full(D4)?;
            begin_scan(cpu, driver)?;
            Ok(Then::Stage(Stage::Scan(0)))
        }
        Stage::Scan(at) => {
            let parks = is_fence_kept(cpu);
            let next = match scan(cpu, driver, at, parks)? {
                Look::Inside => Stage::Start,
                _ if at + 1 < driver.records => Stage::Scan(at + 1),
                _ if cpu.keep.unheard => Stage::Heavy,
                _ => Stage::Complete,
            };
            Ok(to(cpu, next))
        }
        Stage::Heavy => {
            let heavy = cpu.heavy(P1)?;
            if !heavy {
                mode::set_fenced(cpu)?;
            }
            if heavy || cpu.rules.has(Mistake::HeavyRefusedCounts) {
                cpu.keep.heavy = cpu.keep.number;
            }
            begin_scan(cpu, driver)?;
            Ok(Then::Stage(Stage::Park(0)))
        }
        Stage::Park(at) => {
            let parks = cpu.keep.heavy != 0;
            let next = match scan(cpu, driver, at, parks)? {
                Look::Inside => Stage::Start,
                _ if at + 1 < driver.records => Stage::Park(at + 1),
                _ if cpu.keep.unheard => Stage::Start,
                _ => Stage::Complete,
            };
            Ok(to(cpu, next))
        }
        Stage::Complete => {
            let number = cpu.keep.number;
            cpu.change(G1, DONE, Change::Max(number), AcqRel)?;
            if driver.until_elapsed {
                return Ok(to(cpu, Stage::Start));
            }
            Ok(end(cpu))
        }
    }
}

/// Goes to a stage. An attempt that is over leaves nothing behind.
fn to(cpu: &mut Cpu<'_>, stage: Stage) -> Then {
    if matches!(stage, Stage::Start | Stage::Complete) {
        cpu.keep.unheard = false;
        cpu.keep.records = 0;
    }
    if stage == Stage::Start {
        cpu.keep.number = 0;
    }
    if !cpu.rules.has(Mistake::HeavyKept) && matches!(stage, Stage::Start | Stage::Complete) {
        cpu.keep.heavy = 0;
    }
    Then::Stage(stage)
}

fn end(cpu: &mut Cpu<'_>) -> Then {
    to(cpu, Stage::Start);
    Then::Next
}

/// Answers the number of a period that is open, opening the next one if none is.
fn open(cpu: &mut Cpu<'_>) -> Run<u8> {
    loop {
        let epoch = Epoch(cpu.load(D1, E, Acquire)?);
        let done = cpu.load(D2, DONE, Acquire)?;
        if done < epoch.number() {
            return Ok(epoch.number());
        }
        let next = epoch.next();
        if cpu.rules.has(Mistake::AdvanceByStore) {
            cpu.store(Z1, E, next.0, Release)?;
            return Ok(next.number());
        }
        if cpu.exchange(D3, E, (epoch.0, next.0), AcqRel)? {
            return Ok(next.number());
        }
    }
}

/// Finds out which records there are.
fn begin_scan(cpu: &mut Cpu<'_>, driver: Driver) -> Run<()> {
    cpu.keep.unheard = false;
    cpu.keep.records = if cpu.rules.registers {
        cpu.load(B3, HEAD, Acquire)?
    } else {
        (1 << driver.records) - 1
    };
    Ok(())
}

/// What a driver made of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Passed or parked.
    Through,
    /// A guard of an earlier epoch.
    Inside,
    /// Idle, old, and not to be parked without a heavy fence.
    Unheard,
}

/// Scans one record.
fn scan(cpu: &mut Cpu<'_>, driver: Driver, at: u8, parks: bool) -> Run<Look> {
    let record = Record(at);
    debug_assert!(at < driver.records);
    if cpu.keep.records & record.bit() == 0 {
        return Ok(Look::Through);
    }
    loop {
        let word = Word(cpu.load(S1, record.word(), Acquire)?);
        if passes(cpu, word)? {
            return Ok(Look::Through);
        }
        if !word.is_idle() {
            return Ok(Look::Inside);
        }
        if cpu.rules.has(Mistake::ParkBeforeHeavy) {
            if !cpu.exchange(P2, record.word(), (word.0, word.parked().0), AcqRel)? {
                continue;
            }
            cpu.heavy(P1)?;
            continue;
        }
        if !parks && owner::park_abandoned(cpu, record)? {
            continue;
        }
        if !parks {
            cpu.keep.unheard = true;
            return Ok(Look::Unheard);
        }
        if cpu.rules.has(Mistake::ParkByStore) {
            cpu.store(Z1, record.word(), word.parked().0, Release)?;
            return Ok(Look::Through);
        }
        if cpu.exchange(P2, record.word(), (word.0, word.parked().0), AcqRel)? {
            return Ok(Look::Through);
        }
    }
}

/// Whether the driver needn't wait for a word's owner.
fn passes(cpu: &mut Cpu<'_>, word: Word) -> Run<bool> {
    let rules = cpu.rules;
    let is_parked = word.is_parked() && (word.is_idle() || rules.has(Mistake::ParkedBeforeNest));
    if word.is_since(cpu.keep.number) || is_parked {
        return Ok(true);
    }
    if word.is_idle() && rules.has(Mistake::IdleTrustedUnderF) {
        return Ok(Epoch(cpu.load(Z2, E, Acquire)?).is_fenced(rules.f()));
    }
    Ok(word.is_idle() && rules.has(Mistake::IdleTrusted))
}

/// Whether a wrong version takes an earlier heavy fence for one of this period.
fn is_fence_kept(cpu: &Cpu<'_>) -> bool {
    let wrong = [Mistake::HeavyKept, Mistake::HeavyBeforeAdvance];
    cpu.keep.heavy != 0 && wrong.into_iter().any(|mistake| cpu.rules.has(mistake))
}
