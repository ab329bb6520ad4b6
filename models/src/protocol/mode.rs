//! Fence mode: `F` comes and goes at any time.

use crate::cpu::{Cpu, Run};
use crate::op::Change;
use crate::op::Order::{AcqRel, Acquire, Release};
use crate::place::E;
use crate::plan::Act;
use crate::rules::Mistake;
use crate::step::Step::{M1, M2, M3, M4, Z1};
use crate::word::Epoch;

/// Has every enter fenced from now on.
#[must_use]
pub fn fence_mode_on() -> Act {
    Act::once(set_fenced)
}

/// Lets enters go without a fence again.
#[must_use]
pub fn fence_mode_off() -> Act {
    Act::once(|cpu| {
        let f = cpu.rules.f();
        if !Epoch(cpu.load(M3, E, Acquire)?).is_fenced(f) {
            return Ok(());
        }
        cpu.change(M4, E, Change::And(!f), AcqRel).map(drop)
    })
}

pub(super) fn set_fenced(cpu: &mut Cpu<'_>) -> Run<()> {
    let f = cpu.rules.f();
    let epoch = Epoch(cpu.load(M1, E, Acquire)?);
    if epoch.is_fenced(f) {
        return Ok(());
    }
    if cpu.rules.has(Mistake::FenceModeByStore) {
        return cpu.store(Z1, E, epoch.0 | f, Release);
    }
    cpu.change(M2, E, Change::Or(f), AcqRel).map(drop)
}
