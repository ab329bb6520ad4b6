//! Each step with less than its ordering, and each fence left out: that must fail, or `docs/orderings.md` argues why not.

use crate::explore::Run;
use crate::memory::Model;
use crate::op::Order::{self, Acquire, Relaxed, Release};
use crate::rules::{Rules, Variant};
use crate::step::Step::{self, *};

use super::{ALL, ASYM, Case, Expected, VIEWS, scene};

/// Step, what is left of its ordering, scene, and the models that show it.
type Row = (Step, Order, fn(Rules) -> Run, &'static [Model]);

const ROWS: &[Row] = &[
    (E2, Relaxed, scene::announced, VIEWS),
    (E3, Relaxed, scene::one_guard, ASYM),
    (E6, Relaxed, scene::one_driver, VIEWS),
    (E7, Relaxed, scene::one_guard, ALL),
    (N2, Relaxed, scene::announced, VIEWS),
    (L2, Relaxed, scene::one_guard, VIEWS),
    (C1, Relaxed, scene::one_guard, VIEWS),
    (H1, Relaxed, scene::one_guard, VIEWS),
    (D4, Relaxed, scene::one_guard, VIEWS),
    (S1, Relaxed, scene::one_driver, VIEWS),
    (P1, Relaxed, scene::one_guard, ALL),
    (G1, Relaxed, scene::one_guard, VIEWS),
    (G1, Acquire, scene::one_guard, VIEWS),
    (K2, Relaxed, scene::orphan, VIEWS),
    (K3, Relaxed, scene::exit_and_claim, VIEWS),
    (X3, Relaxed, scene::exit_and_claim, VIEWS),
    (V3, Relaxed, scene::announced, VIEWS),
    (V4, Relaxed, scene::one_driver, ASYM),
    (W2, Relaxed, scene::owned, VIEWS),
    (W3, Relaxed, scene::owned, ALL),
];

/// Weakenings that nothing shows, since other steps make up for them.
const ARGUED: &[Row] = &[
    (E4, Relaxed, scene::announced, VIEWS),
    (E5, Relaxed, scene::announced, VIEWS),
    (R2, Relaxed, scene::refreshed, VIEWS),
    (A2, Relaxed, scene::announced, VIEWS),
    (A3, Relaxed, scene::announced, VIEWS),
    (D1, Relaxed, scene::two_drivers, VIEWS),
    (D2, Relaxed, scene::two_drivers, VIEWS),
    (D3, Relaxed, scene::two_drivers, VIEWS),
    (P2, Relaxed, scene::two_drivers, VIEWS),
    (G1, Release, scene::two_drivers, VIEWS),
    (M1, Relaxed, scene::refreshed, VIEWS),
    (M2, Relaxed, scene::refreshed, VIEWS),
    (M3, Relaxed, scene::refreshed, VIEWS),
    (M4, Relaxed, scene::refreshed, VIEWS),
    (K1, Relaxed, scene::exit_and_claim, VIEWS),
    (X2, Relaxed, scene::exit_and_claim, VIEWS),
    (B2, Relaxed, scene::registration, VIEWS),
    (B3, Relaxed, scene::registration, VIEWS),
    (V1, Relaxed, scene::announced, VIEWS),
    (V5, Relaxed, scene::announced, VIEWS),
    (W1, Relaxed, scene::owned, VIEWS),
];

/// Those that must fail.
pub(super) fn cases() -> Vec<Case> {
    let about = "must fail";
    let rows = ROWS.iter();
    rows.map(|row| case("weak", about, Expected::Fails, row))
        .collect()
}

/// Those that are argued.
pub(super) fn argued() -> Vec<Case> {
    let about = "implied by other steps";
    let rows = ARGUED.iter();
    rows.map(|row| case("argued", about, Expected::Holds, row))
        .collect()
}

fn case(
    kind: &str,
    about: &'static str,
    expected: Expected,
    &(step, less, scene, models): &Row,
) -> Case {
    let is_second_look = step.name().starts_with('V');
    Case {
        name: format!("{kind}/{}-{less:?}", step.name()).to_lowercase(),
        about,
        models,
        quick: if expected == Expected::Fails {
            &models[..1]
        } else {
            &[]
        },
        expected,
        scene,
        rules: Rules {
            variant: if is_second_look {
                Variant::SecondLook
            } else {
                Variant::StoreFirst
            },
            weakened: Some((step, less)),
            ..Rules::ENGINE
        },
    }
}
