//! The scenes: which threads there are, and what they do. Rules and expectations are the cases' own.

use crate::explore::Run;
use crate::place::{DONE, E, FREE, HEAD, PLACES, POINTERS, Record, USED};
use crate::plan::{Act, Plan};
use crate::protocol::driver::{drive, synchronize};
use crate::protocol::mode::{fence_mode_off, fence_mode_on};
use crate::protocol::owner::{self, claim, exit, register};
use crate::protocol::reader::{announce, enter, enter_owned, leave, nest, refresh};
use crate::protocol::retirer::{find, free, receive, send, unlink, use_found, wait};
use crate::rules::Rules;
use crate::word::{Epoch, F, Word};

const R0: Record = Record(0);
const R1: Record = Record(1);

/// Two objects, linked; two records that have entered and left in the first epoch; nobody in fence mode.
fn memory() -> [u8; PLACES] {
    let mut memory = [0; PLACES];
    memory[E.index()] = Epoch::FIRST.0;
    memory[DONE.index()] = Epoch::FIRST.number();
    memory[HEAD.index()] = R0.bit() | R1.bit();
    for (pointer, object) in POINTERS.into_iter().zip(1..) {
        memory[pointer.index()] = object;
    }
    for record in [R0, R1] {
        memory[record.word().index()] = Word::idle_in(Epoch::FIRST).0;
        memory[record.node().index()] = USED;
    }
    memory
}

fn run(rules: Rules, plans: impl IntoIterator<Item = Plan>) -> Run {
    Run {
        plans: plans.into_iter().collect(),
        rules,
        initial: memory(),
        must_end: false,
    }
}

/// A guard that finds an object and uses it.
fn read(record: Record, object: u8) -> [Act; 4] {
    [enter(record), find(object), use_found(), leave(record)]
}

fn reader(guards: usize) -> Plan {
    let acts = std::iter::repeat_with(|| read(R0, 1)).take(guards);
    Plan::new("R0", acts.flatten())
}

fn other_reader() -> Plan {
    Plan::new("R1", read(R1, 1))
}

fn driver(name: &'static str, periods: usize, records: u8) -> Plan {
    Plan::new(name, std::iter::repeat_n(drive(records), periods))
}

/// Unlinks, lets others drive, and frees.
fn retirer() -> Plan {
    Plan::new("T0", [unlink(1), wait(), free(1)])
}

/// Unlinks, drives until the cookie has elapsed, and frees.
fn synchronizer(name: &'static str, object: u8, records: u8) -> Plan {
    let sync = synchronize(records, None);
    Plan::new(name, [unlink(object), sync, free(object)])
}

/// One reader with two guards, one driver for two periods.
pub(super) fn one_driver(rules: Rules) -> Run {
    run(rules, [reader(2), driver("D0", 2, 1), retirer()])
}

/// One reader with one guard, one driver for two periods.
pub(super) fn one_guard(rules: Rules) -> Run {
    run(rules, [reader(1), driver("D0", 2, 1), retirer()])
}

/// One reader with three guards, one driver for three periods.
pub(super) fn three_periods(rules: Rules) -> Run {
    run(rules, [reader(3), driver("D0", 3, 1), retirer()])
}

/// One reader with two guards, a retirer that drives, and a driver for one period: the two help each other.
pub(super) fn two_drivers(rules: Rules) -> Run {
    let plans = [reader(2), synchronizer("T0", 1, 1), driver("D1", 1, 1)];
    run(rules, plans)
}

/// The same, with a driver for two periods.
pub(super) fn helpers(rules: Rules) -> Run {
    let plans = [reader(2), synchronizer("T0", 1, 1), driver("D1", 2, 1)];
    run(rules, plans)
}

/// One reader, two drivers for two periods and for one, and a retirer that only waits.
pub(super) fn three_hands(rules: Rules) -> Run {
    let drivers = [driver("D0", 2, 1), driver("D1", 1, 1)];
    let [one, two] = drivers;
    run(rules, [reader(1), one, two, retirer()])
}

/// Two readers, and a driver of two periods.
pub(super) fn two_readers(rules: Rules) -> Run {
    let plans = [reader(1), other_reader(), driver("D0", 2, 2), retirer()];
    run(rules, plans)
}

/// Two readers, a retirer that drives, and a driver.
pub(super) fn two_readers_two_drivers(rules: Rules) -> Run {
    let plans = [
        reader(1),
        other_reader(),
        synchronizer("T0", 1, 2),
        driver("D1", 1, 2),
    ];
    run(rules, plans)
}

/// One reader that looks at two objects, each retired and freed by a thread of its own.
pub(super) fn two_retirers(rules: Rules) -> Run {
    let both = [
        enter(R0),
        find(1),
        use_found(),
        find(2),
        use_found(),
        leave(R0),
    ];
    let plans = [
        Plan::new("R0", both),
        synchronizer("T0", 1, 1),
        synchronizer("T1", 2, 1),
    ];
    run(rules, plans)
}

/// A guard inside a guard, and a clone; the object found first is used last.
pub(super) fn nested(rules: Rules) -> Run {
    let acts = [
        enter(R0),
        find(1),
        enter(R0),
        nest(R0),
        leave(R0),
        leave(R0),
        use_found(),
        leave(R0),
    ];
    let reader = Plan::new("R0", acts.into_iter().chain(read(R0, 1)));
    run(rules, [reader, driver("D0", 2, 1), retirer()])
}

/// A guard that is refreshed, and another one, while fence mode comes and goes.
pub(super) fn refreshed(rules: Rules) -> Run {
    let first = [
        enter(R0),
        find(1),
        use_found(),
        refresh(R0),
        find(1),
        use_found(),
        leave(R0),
    ];
    let reader = Plan::new("R0", first.into_iter().chain(read(R0, 1)));
    let plans = [
        reader,
        synchronizer("T0", 1, 1),
        Plan::new("M", [fence_mode_on(), fence_mode_off()]),
    ];
    run(rules, plans)
}

/// A guard that is refreshed, and another one; two periods.
pub(super) fn refreshed_twice(rules: Rules) -> Run {
    let first = [
        enter(R0),
        find(1),
        use_found(),
        refresh(R0),
        find(1),
        use_found(),
        leave(R0),
    ];
    let reader = Plan::new("R0", first.into_iter().chain(read(R0, 1)));
    run(rules, [reader, driver("D0", 2, 1), retirer()])
}

/// Fence mode comes and goes while a reader enters twice.
pub(super) fn mode_on_and_off(rules: Rules) -> Run {
    let mode = Plan::new("M", [fence_mode_on(), fence_mode_off()]);
    run(rules, [reader(2), mode, driver("D0", 2, 1), retirer()])
}

/// Fence mode goes and comes back while a reader enters twice.
pub(super) fn mode_off_and_on(rules: Rules) -> Run {
    let mode = Plan::new("M", [fence_mode_off(), fence_mode_on()]);
    let plans = [reader(2), mode, synchronizer("T0", 1, 1)];
    let mut run = run(rules, plans);
    run.initial[E.index()] |= F;
    run
}

/// A thread that reads, announces itself, and reads twice over, one guard inside the other.
pub(super) fn announced(rules: Rules) -> Run {
    let after = [
        announce(R0),
        enter(R0),
        find(1),
        nest(R0),
        use_found(),
        leave(R0),
        leave(R0),
    ];
    let announcer = Plan::new("A", read(R0, 1).into_iter().chain(after));
    run(rules, [announcer, driver("D0", 2, 1), retirer()])
}

/// Two threads that each read, unlink what the other reads, drive with their own record announced, free, and one reads
/// again.
pub(super) fn retire_and_read(rules: Rules) -> Run {
    let acts = |own: Record, mine: u8, other: u8| {
        let retire = [unlink(other), synchronize(2, Some(own)), free(other)];
        read(own, mine).into_iter().chain(retire)
    };
    let plans = [
        Plan::new("A0", acts(R0, 1, 2)),
        Plan::new("A1", acts(R1, 2, 1)),
    ];
    run(rules, plans)
}

/// The same, with the unlinking inside a guard.
pub(super) fn retire_inside(rules: Rules) -> Run {
    let acts = |own: Record, mine: u8, other: u8| {
        let (sync, free) = (synchronize(2, Some(own)), free(other));
        [
            enter(own),
            find(mine),
            use_found(),
            unlink(other),
            leave(own),
            sync,
            free,
        ]
    };
    let plans = [
        Plan::new("A0", acts(R0, 1, 2)),
        Plan::new("A1", acts(R1, 2, 1)),
    ];
    run(rules, plans)
}

/// A thread that drives, announced, and then reads; another retires.
pub(super) fn drive_and_read(rules: Rules) -> Run {
    let acts = [unlink(2), synchronize(1, Some(R0)), free(2)];
    let both = Plan::new("A", acts.into_iter().chain(read(R0, 1)));
    run(rules, [both, driver("D0", 1, 1), retirer()])
}

/// A thread reads and exits; another one claims its record and reads.
pub(super) fn exit_and_claim(rules: Rules) -> Run {
    let old = Plan::new("R0", read(R0, 1).into_iter().chain([exit(R0)]));
    let new = Plan::new("R1", [claim(R0)].into_iter().chain(read(R0, 1)));
    let rules = Rules {
        abandons: true,
        ..rules
    };
    run(rules, [old, new, synchronizer("T0", 1, 1)])
}

/// A thread gives its record up inside a guard, and leaves only then; another one claims the record and reads.
pub(super) fn orphan(rules: Rules) -> Run {
    let old = [enter(R0), find(1), exit(R0), use_found(), leave(R0)];
    let new = Plan::new("R1", [claim(R0)].into_iter().chain(read(R0, 1)));
    let rules = Rules {
        abandons: true,
        ..rules
    };
    run(rules, [Plan::new("R0", old), new, synchronizer("T0", 1, 1)])
}

/// An exited thread's record is parked by two drivers without a heavy fence, and claimed by a reader.
pub(super) fn abandoned(rules: Rules) -> Run {
    let old = Plan::new("R0", read(R0, 1).into_iter().chain([exit(R0)]));
    let rules = Rules {
        abandons: true,
        may_refuse: true,
        ..rules
    };
    run(rules, [old, synchronizer("T0", 1, 1), driver("D1", 1, 1)])
}

/// A new record is published while a driver scans.
pub(super) fn registration(rules: Rules) -> Run {
    let acts = [register(R0)].into_iter().chain(read(R0, 1));
    let reader = Plan::new("R0", acts);
    let rules = Rules {
        registers: true,
        ..rules
    };
    let mut run = run(rules, [reader, driver("D0", 2, 1), retirer()]);
    run.initial[HEAD.index()] = 0;
    run.initial[R0.word().index()] = 0;
    run
}

/// An owned guard is entered by one thread, refreshed and left by another; a third one claims its record and reads.
pub(super) fn owned(rules: Rules) -> Run {
    let first = [
        claim(R0),
        enter_owned(R0),
        owner::orphan(R0),
        find(1),
        send(),
    ];
    let second = [
        receive(),
        use_found(),
        enter_owned(R0),
        find(1),
        use_found(),
        leave(R0),
    ];
    let third = [claim(R0)].into_iter().chain(read(R0, 1)).chain([exit(R0)]);
    let plans = [
        Plan::new("A", first),
        Plan::new("B", second),
        Plan::new("C", third),
        synchronizer("T0", 1, 1),
    ];
    let rules = Rules {
        abandons: true,
        ..rules
    };
    let mut run = run(rules, plans);
    run.initial[R0.word().index()] = Word::IDLE.0;
    run.initial[R0.node().index()] = FREE;
    run
}

/// The same, with another driver and fence mode coming.
pub(super) fn owned_under_two_drivers(rules: Rules) -> Run {
    let mut run = owned(rules);
    run.plans.push(driver("D1", 1, 1));
    run.plans.push(Plan::new("M", [fence_mode_on()]));
    run
}

/// The kernel may refuse each heavy fence; a reader with two guards, a retirer that drives, a driver.
pub(super) fn refused(rules: Rules) -> Run {
    let rules = Rules {
        may_refuse: true,
        ..rules
    };
    two_drivers(rules)
}

/// A driver may die before any of its steps; the retirer gets through all the same.
pub(super) fn dying_driver(rules: Rules) -> Run {
    let dying = Plan::new("DX", [drive(1).dying()]);
    let mut run = run(rules, [reader(1), dying, synchronizer("T0", 1, 1)]);
    run.must_end = true;
    run
}

/// The same with two records.
pub(super) fn dying_driver_of_two(rules: Rules) -> Run {
    let dying = Plan::new("DX", [drive(2).dying()]);
    let mut run = run(rules, [reader(1), dying, synchronizer("T0", 1, 2)]);
    run.must_end = true;
    run
}
