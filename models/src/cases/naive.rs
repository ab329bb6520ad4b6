//! Versions that one might think of first. Each is named after what it does; most must fail.

use crate::explore::Run;
use crate::memory::Model;
use crate::rules::Mistake::{self, *};
use crate::rules::{Rules, Variant};

use super::{ALL, Case, Expected, TSO, VIEWS, scene};

/// Name, mistake, scene, and the models that show it.
type Row = (&'static str, Mistake, fn(Rules) -> Run, &'static [Model]);

const ROWS: &[Row] = &[
    ("no-look-after-the-store", NoLook, scene::one_guard, ALL),
    (
        "new-epoch-unfenced",
        NewEpochUnfenced,
        scene::one_guard,
        ALL,
    ),
    (
        "announce-by-plain-store",
        AnnounceByStore,
        scene::announced,
        ALL,
    ),
    (
        "announce-from-parked",
        AnnounceFromParked,
        scene::announced,
        VIEWS,
    ),
    ("cookie-by-plain-load", CookieByLoad, scene::one_guard, ALL),
    (
        "cookie-by-plain-load-two-periods",
        CookieByLoadPlusOne,
        scene::drive_and_read,
        ALL,
    ),
    (
        "advance-by-plain-store",
        AdvanceByStore,
        scene::three_hands,
        ALL,
    ),
    (
        "fence-mode-by-plain-store",
        FenceModeByStore,
        scene::mode_on_and_off,
        ALL,
    ),
    (
        "idle-trusted-without-heavy-fence",
        IdleTrusted,
        scene::one_guard,
        ALL,
    ),
    (
        "idle-trusted-under-f",
        IdleTrustedUnderF,
        scene::refreshed,
        ALL,
    ),
    (
        "s-looked-at-before-nest",
        ParkedBeforeNest,
        scene::mode_off_and_on,
        ALL,
    ),
    (
        "parked-before-heavy-fence",
        ParkBeforeHeavy,
        scene::two_drivers,
        ALL,
    ),
    (
        "heavy-fence-before-advance",
        HeavyBeforeAdvance,
        scene::one_guard,
        ALL,
    ),
    (
        "heavy-fence-of-an-earlier-period",
        HeavyKept,
        scene::announced,
        ALL,
    ),
    (
        "refused-heavy-fence-counted",
        HeavyRefusedCounts,
        scene::refused,
        ALL,
    ),
    ("park-by-plain-store", ParkByStore, scene::one_guard, ALL),
    ("park-unclaimed", ParkUnclaimed, scene::one_guard, ALL),
    ("claim-in-use", ClaimInUse, scene::orphan, ALL),
    (
        "register-unparked",
        RegisterUnparked,
        scene::registration,
        VIEWS,
    ),
    ("owned-unfenced", OwnedUnfenced, scene::owned, ALL),
];

/// Those of the variant with a second look.
const SECOND_LOOK: &[Row] = &[
    ("no-second-look", NoLook, scene::one_guard, ALL),
    (
        "f-shares-its-bit-with-s",
        FenceModeSharesS,
        scene::refreshed,
        TSO,
    ),
];

/// Changes that turn out to be harmless; see `docs/orderings.md` for why the engine doesn't make them.
const HARMLESS: &[Row] = &[
    ("look-only-fences", LookOnlyFences, scene::one_driver, ALL),
    ("refresh-unfenced", RefreshUnfenced, scene::refreshed, ALL),
    (
        "refresh-unfenced-two-periods",
        RefreshUnfenced,
        scene::refreshed_twice,
        ALL,
    ),
    (
        "refresh-unfenced-without-f",
        RefreshUnfencedWithoutF,
        scene::refreshed,
        ALL,
    ),
    (
        "f-shares-its-bit-with-s-that-is-asked-for-first",
        FenceModeSharesS,
        scene::refreshed,
        ALL,
    ),
    ("exit-unparked", ExitUnparked, scene::exit_and_claim, ALL),
];

/// Those that must fail.
pub(super) fn cases() -> Vec<Case> {
    let about = "must fail";
    let engine = ROWS.iter();
    let engine = engine.map(|row| case("naive", about, Expected::Fails, row));
    let other = SECOND_LOOK.iter().map(|row| {
        let mut case = case("naive", about, Expected::Fails, row);
        case.rules.variant = Variant::SecondLook;
        case
    });
    engine.chain(other).collect()
}

/// Those that do no harm.
pub(super) fn harmless() -> Vec<Case> {
    let about = "harmless";
    let rows = HARMLESS.iter();
    rows.map(|row| case("harmless", about, Expected::Holds, row))
        .collect()
}

fn case(
    kind: &str,
    about: &'static str,
    expected: Expected,
    &(name, mistake, scene, models): &Row,
) -> Case {
    Case {
        name: format!("{kind}/{name}"),
        about,
        models,
        quick: &models[..1],
        expected,
        scene,
        rules: Rules {
            mistake: Some(mistake),
            ..Rules::ENGINE
        },
    }
}
