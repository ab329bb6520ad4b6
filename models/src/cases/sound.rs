//! The protocol as it is, and the variant with a second look at `E`: nothing may break.

use crate::explore::Run;
use crate::memory::Model;
use crate::rules::{Rules, Variant};

use super::scene;
use super::{ALL, Case, Expected, NONE, TSO, TSO_VIEWS};

/// Name, scene, the models of a quick run, and what the scene shows.
type Row = (
    &'static str,
    fn(Rules) -> Run,
    &'static [Model],
    &'static str,
);

const ROWS: &[Row] = &[
    ("one-guard", scene::one_guard, ALL, "a guard, two periods"),
    (
        "one-driver",
        scene::one_driver,
        ALL,
        "two guards, hot and cold, two periods",
    ),
    (
        "three-periods",
        scene::three_periods,
        TSO,
        "three guards, three periods",
    ),
    (
        "two-drivers",
        scene::two_drivers,
        TSO_VIEWS,
        "drivers that help each other",
    ),
    (
        "helpers",
        scene::helpers,
        TSO,
        "the same, for one period more",
    ),
    (
        "three-hands",
        scene::three_hands,
        TSO,
        "two drivers, and a retirer that only waits",
    ),
    ("two-readers", scene::two_readers, TSO, "two records"),
    (
        "two-readers-two-drivers",
        scene::two_readers_two_drivers,
        NONE,
        "two of each",
    ),
    (
        "two-retirers",
        scene::two_retirers,
        ALL,
        "two objects, two cookies, two drivers",
    ),
    (
        "nested",
        scene::nested,
        TSO,
        "a guard inside a guard, and a clone",
    ),
    (
        "refreshed",
        scene::refreshed,
        ALL,
        "refresh, fence mode on and off",
    ),
    (
        "refreshed-twice",
        scene::refreshed_twice,
        ALL,
        "refresh, two periods",
    ),
    (
        "mode-on-and-off",
        scene::mode_on_and_off,
        TSO,
        "fence mode, two guards, two periods",
    ),
    (
        "mode-off-and-on",
        scene::mode_off_and_on,
        ALL,
        "fence mode from the start",
    ),
    (
        "announced",
        scene::announced,
        ALL,
        "read, announce, read again, nested",
    ),
    (
        "retire-and-read",
        scene::retire_and_read,
        ALL,
        "threads that read, retire and drive",
    ),
    (
        "retire-inside",
        scene::retire_inside,
        ALL,
        "the same, unlinking inside a guard",
    ),
    (
        "drive-and-read",
        scene::drive_and_read,
        ALL,
        "drive, announced, then read",
    ),
    (
        "exit-and-claim",
        scene::exit_and_claim,
        ALL,
        "a record changes hands",
    ),
    (
        "orphan",
        scene::orphan,
        ALL,
        "a record that its late owner's guard still uses",
    ),
    (
        "abandoned",
        scene::abandoned,
        TSO,
        "a record without a thread is parked without a fence",
    ),
    (
        "registration",
        scene::registration,
        ALL,
        "a record is published during a scan",
    ),
    (
        "owned",
        scene::owned,
        ALL,
        "an owned guard changes threads, and its record its owner",
    ),
    (
        "owned-two-drivers",
        scene::owned_under_two_drivers,
        NONE,
        "the same, two drivers, fence mode on",
    ),
    ("refused", scene::refused, TSO, "heavy fences begin to fail"),
    (
        "dying-driver",
        scene::dying_driver,
        ALL,
        "a driver dies at any step; the others get through",
    ),
    (
        "dying-driver-of-two",
        scene::dying_driver_of_two,
        TSO,
        "the same, two records",
    ),
];

/// Each scene by both variants.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (kind, variant) in [
        ("engine", Variant::StoreFirst),
        ("second-look", Variant::SecondLook),
    ] {
        for &(name, scene, quick, about) in ROWS {
            let is_engine = variant == Variant::StoreFirst;
            cases.push(Case {
                name: format!("{kind}/{name}"),
                about,
                models: ALL,
                quick: if is_engine || quick.is_empty() {
                    quick
                } else {
                    TSO
                },
                expected: Expected::Holds,
                scene,
                rules: Rules {
                    variant,
                    ..Rules::ENGINE
                },
            });
        }
    }
    cases
}
