//! The memory models themselves, by small programs whose outcomes are known.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use graceperiod_models::Model::{self, Asym, Tso, Views};
use graceperiod_models::cpu::{Cpu, Run as Answer, Then};
use graceperiod_models::explore::{Run, Verdict, explore};
use graceperiod_models::op::Change;
use graceperiod_models::op::Order::{self, Acquire, Relaxed, Release};
use graceperiod_models::place::{PLACES, Place};
use graceperiod_models::plan::{Act, Plan};
use graceperiod_models::rules::Rules;
use graceperiod_models::step::Step::{Z1, Z2};

const X: Place = Place(0);
const Y: Place = Place(1);

/// A thread of a litmus test: it says what it saw.
fn thread(
    name: &'static str,
    body: impl Fn(&mut Cpu<'_>) -> Answer<u8> + Send + Sync + 'static,
) -> Plan {
    let act = Act::once(move |cpu| {
        cpu.keep.result = body(cpu)?;
        Ok(())
    });
    Plan::new(name, [act])
}

fn explored(model: Model, plans: Vec<Plan>) -> (Verdict, BTreeSet<Vec<u8>>) {
    let run = Run {
        plans,
        rules: Rules::ENGINE,
        initial: [0; PLACES],
        must_end: true,
    };
    let explored = explore(&run, model, 1_000_000, &AtomicU64::new(0));
    (explored.verdict, explored.results)
}

fn outcomes(model: Model, plans: Vec<Plan>) -> BTreeSet<Vec<u8>> {
    let (verdict, results) = explored(model, plans);
    assert_eq!(verdict, Verdict::Holds);
    results
}

/// Whether an outcome can be seen.
fn sees(model: Model, plans: Vec<Plan>, outcome: &[u8]) -> bool {
    outcomes(model, plans).contains(outcome)
}

#[derive(Clone, Copy)]
enum Fence {
    None,
    Light,
    Heavy,
    Full,
}

fn fence(cpu: &mut Cpu<'_>, fence: Fence) -> Answer<()> {
    match fence {
        Fence::None => Ok(()),
        Fence::Light => cpu.light(Z2),
        Fence::Heavy => cpu.heavy(Z2).map(drop),
        Fence::Full => cpu.full(Z2),
    }
}

/// Each stores its own place and loads the other's: may both miss?
fn both_miss(model: Model, first: Fence, second: Fence) -> bool {
    let side = |name, mine, other, between| {
        thread(name, move |cpu| {
            cpu.store(Z1, mine, 1, Release)?;
            fence(cpu, between)?;
            cpu.load(Z1, other, Acquire)
        })
    };
    let plans = vec![side("a", X, Y, first), side("b", Y, X, second)];
    sees(model, plans, &[0, 0])
}

#[test]
fn store_buffering_shows_without_fences_and_not_with_full_ones() {
    for model in Model::ALL {
        assert!(both_miss(model, Fence::None, Fence::None));
        assert!(both_miss(model, Fence::Full, Fence::None));
        assert!(!both_miss(model, Fence::Full, Fence::Full));
    }
}

#[test]
fn light_orders_with_heavy_and_not_with_light() {
    for model in Model::ALL {
        assert!(!both_miss(model, Fence::Light, Fence::Heavy));
        assert!(!both_miss(model, Fence::Heavy, Fence::Heavy));
        assert!(both_miss(model, Fence::Light, Fence::Light));
        assert!(both_miss(model, Fence::Light, Fence::Full));
    }
}

#[test]
fn heavy_orders_with_nothing_but_fences_after_p1202() {
    assert!(both_miss(Asym, Fence::None, Fence::Heavy));
    // The kernel's own one does more: it interrupts whoever runs.
    assert!(!both_miss(Tso, Fence::None, Fence::Heavy));
    assert!(!both_miss(Views, Fence::None, Fence::Heavy));
}

#[test]
fn heavy_fence_reaches_one_processor_after_the_other() {
    const Z: Place = Place(2);
    let torn = |model| {
        let reader = |name, mine, other| {
            thread(name, move |cpu| {
                cpu.store(Z1, mine, 1, Relaxed)?;
                cpu.light(Z2)?;
                cpu.load(Z1, other, Relaxed)
            })
        };
        let driver = thread("d", |cpu| {
            cpu.store(Z1, Z, 1, Relaxed)?;
            cpu.heavy(Z2)?;
            cpu.load(Z1, X, Relaxed)
        });
        // `b` stores before the fence and `a` after it, and yet `a` misses what `b` stored.
        let plans = vec![reader("a", X, Y), reader("b", Y, Z), driver];
        sees(model, plans, &[0, 0, 0])
    };
    assert!(torn(Tso));
    assert!(torn(Asym));
    assert!(!torn(Views));
}

/// A message: data, then a flag. May the flag be seen without the data?
fn flag_without_data(model: Model, store: Order, load: Order) -> bool {
    let writer = thread("w", move |cpu| {
        cpu.store(Z1, X, 1, Relaxed)?;
        cpu.store(Z1, Y, 1, store)?;
        Ok(0)
    });
    let reader = thread("r", move |cpu| {
        let flag = cpu.load(Z1, Y, load)?;
        Ok(2 * flag + cpu.load(Z1, X, Relaxed)?)
    });
    sees(model, vec![writer, reader], &[0, 2])
}

#[test]
fn message_passing_needs_release_and_acquire_but_on_x86() {
    for model in [Views, Asym] {
        assert!(!flag_without_data(model, Release, Acquire));
        assert!(flag_without_data(model, Relaxed, Acquire));
        assert!(flag_without_data(model, Release, Relaxed));
    }
    assert!(!flag_without_data(Tso, Relaxed, Relaxed));
}

#[test]
fn read_modify_write_continues_a_release_sequence_and_a_store_does_not() {
    let passes_on = |by_store: bool| {
        let writer = thread("w", |cpu| {
            cpu.store(Z1, X, 1, Relaxed)?;
            cpu.store(Z1, Y, 1, Release)?;
            Ok(0)
        });
        let between = thread("b", move |cpu| {
            if cpu.load(Z1, Y, Relaxed)? == 0 {
                return Ok(0);
            }
            if by_store {
                cpu.store(Z1, Y, 2, Relaxed)?;
            } else {
                let change = Change::Exchange {
                    expected: 1,
                    new: 2,
                };
                cpu.change(Z1, Y, change, Relaxed)?;
            }
            Ok(1)
        });
        let reader = thread("r", |cpu| {
            let flag = cpu.load(Z1, Y, Acquire)?;
            Ok(2 * flag + cpu.load(Z1, X, Relaxed)?)
        });
        !sees(Views, vec![writer, between, reader], &[0, 1, 4])
    };
    assert!(passes_on(false));
    assert!(!passes_on(true));
}

#[test]
fn readers_may_disagree_on_the_order_of_two_writers_only_without_a_total_store_order() {
    let disagree = |model, between| {
        let writer = |name, place| {
            thread(name, move |cpu| {
                cpu.store(Z1, place, 1, Release)?;
                Ok(0)
            })
        };
        let reader = |name, first, second| {
            thread(name, move |cpu| {
                let one = cpu.load(Z1, first, Acquire)?;
                fence(cpu, between)?;
                Ok(2 * one + cpu.load(Z1, second, Acquire)?)
            })
        };
        let plans = vec![
            writer("x", X),
            writer("y", Y),
            reader("a", X, Y),
            reader("b", Y, X),
        ];
        sees(model, plans, &[0, 0, 2, 2])
    };
    assert!(disagree(Views, Fence::None));
    assert!(!disagree(Views, Fence::Full));
    assert!(!disagree(Tso, Fence::None));
}

#[test]
fn stores_of_two_threads_may_be_ordered_against_time() {
    // 2+2W: each place ends with the value of whoever stored first there.
    let crossed = |model| {
        let side = |name, first, second, value| {
            thread(name, move |cpu| {
                cpu.store(Z1, first, value, Relaxed)?;
                cpu.store(Z1, second, 3 - value, Relaxed)?;
                Ok(0)
            })
        };
        let witness = |name, place| {
            thread(name, move |cpu| {
                // What it sees last, after a 2, can't be overwritten by it in modification order.
                let one = cpu.load(Z1, place, Relaxed)?;
                Ok(4 * one + cpu.load(Z1, place, Relaxed)?)
            })
        };
        // Place X: 2 then 1; place Y: 2 then 1.
        let plans = vec![
            side("a", X, Y, 1),
            side("b", Y, X, 1),
            witness("p", X),
            witness("q", Y),
        ];
        sees(model, plans, &[0, 0, 4 * 2 + 1, 4 * 2 + 1])
    };
    assert!(crossed(Views));
    assert!(!crossed(Tso));
}

#[test]
fn nothing_comes_between_the_halves_of_a_read_modify_write() {
    for model in Model::ALL {
        let add = |name, bit| thread(name, move |cpu| cpu.change(Z1, X, Change::Or(bit), Relaxed));
        let results = outcomes(model, vec![add("a", 1), add("b", 2), add("c", 4)]);
        // Each sees exactly those before it: the six orders, and nothing else.
        assert_eq!(results.len(), 6);
    }
}

#[test]
fn plain_store_can_not_stand_between_a_read_modify_write_and_what_it_read() {
    for model in Model::ALL {
        let change = thread("a", |cpu| cpu.change(Z1, X, Change::Or(1), Relaxed));
        let store = thread("b", |cpu| {
            cpu.store(Z1, X, 2, Relaxed)?;
            cpu.load(Z1, X, Relaxed)
        });
        // 0, then 2, then 1: the change would have read the 0 over the 2.
        assert!(!sees(model, vec![change, store], &[0, 1]));
    }
}

#[test]
fn free_must_come_after_every_use_by_happens_before() {
    let verdict = |model, store: Order| {
        let user = thread("u", move |cpu| {
            cpu.use_object(Z1, 1)?;
            cpu.store(Z1, X, 1, store)?;
            Ok(0)
        });
        let freer = thread("f", |cpu| {
            if cpu.load(Z1, X, Acquire)? == 1 {
                cpu.free(Z2, 1)?;
            }
            Ok(0)
        });
        explored(model, vec![user, freer]).0
    };
    assert_eq!(verdict(Views, Release), Verdict::Holds);
    assert!(matches!(verdict(Views, Relaxed), Verdict::Fails(_)));
    // On x86 the order in time is enough.
    assert_eq!(verdict(Tso, Relaxed), Verdict::Holds);
}

#[test]
fn thread_that_waits_for_ever_is_stuck() {
    let waiter = Act::new(|cpu| {
        let again = Then::Stage(cpu.keep.stage);
        let is_set = cpu.load(Z1, X, Acquire)? != 0;
        Ok(if is_set { Then::Next } else { again })
    });
    let setter = thread("s", |cpu| {
        if cpu.choose(Z2)? {
            cpu.store(Z1, X, 1, Release)?;
        }
        Ok(0)
    });
    for model in Model::ALL {
        let plans = vec![Plan::new("w", [waiter.clone()]), setter.clone()];
        assert!(matches!(explored(model, plans).0, Verdict::Stuck(_)));
    }
}
