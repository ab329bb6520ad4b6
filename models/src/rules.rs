//! What a run changes about the protocol: its variant, one mistake, one weakened step.

use crate::op::Order;
use crate::step::Step;
use crate::word;

/// How a reader enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Store, and only then load `E` and compare: what the engine does.
    StoreFirst,
    /// Load `E`, compare, store, and look at `E` a second time.
    SecondLook,
}

/// A change of the protocol's steps; most are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The hot enter doesn't look at `E` after its store.
    NoLook,
    /// A look that finds another epoch makes a full fence, but stores no new word.
    LookOnlyFences,
    /// The cold enter of a merely new epoch makes a light fence.
    NewEpochUnfenced,
    /// The announcement is a plain store.
    AnnounceByStore,
    /// A parked word is announced, too.
    AnnounceFromParked,
    /// A refresh makes a light fence.
    RefreshUnfenced,
    /// The same while `F` isn't set only.
    RefreshUnfencedWithoutF,
    /// The cookie is a plain load of `E`.
    CookieByLoad,
    /// The same, and two completed periods are asked for.
    CookieByLoadPlusOne,
    /// `E` is advanced by load and store.
    AdvanceByStore,
    /// `F` is set by load and store.
    FenceModeByStore,
    /// `F` and `S` are the same bit.
    FenceModeSharesS,
    /// Idle words pass a scan.
    IdleTrusted,
    /// Idle words pass a scan that sees `F`.
    IdleTrustedUnderF,
    /// A word with `S` passes a scan, be there a guard or not.
    ParkedBeforeNest,
    /// `S` is set first, then comes the heavy fence.
    ParkBeforeHeavy,
    /// The heavy fence comes first, then `E` is advanced.
    HeavyBeforeAdvance,
    /// A heavy fence counts in later periods as well.
    HeavyKept,
    /// A heavy fence that was refused counts.
    HeavyRefusedCounts,
    /// Parking is a plain store.
    ParkByStore,
    /// Words of live threads are parked as if their threads had gone.
    ParkUnclaimed,
    /// A record is claimed without a look at its word.
    ClaimInUse,
    /// A thread gives its record up without parking it.
    ExitUnparked,
    /// A new record begins as if it had entered in the present epoch.
    RegisterUnparked,
    /// An owned guard's enter makes a light fence.
    OwnedUnfenced,
}

/// The rules of one run.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How a reader enters.
    pub variant: Variant,
    /// What is done differently.
    pub mistake: Option<Mistake>,
    /// A step with less than its ordering; a fence that is weakened is left out.
    pub weakened: Option<(Step, Order)>,
    /// Whether the kernel may refuse any heavy fence.
    pub may_refuse: bool,
    /// Whether records are published while the case runs.
    pub registers: bool,
    /// Whether records lose their owners while the case runs.
    pub abandons: bool,
}

impl Rules {
    /// The engine's protocol.
    pub const ENGINE: Self = Self {
        variant: Variant::StoreFirst,
        mistake: None,
        weakened: None,
        may_refuse: false,
        registers: false,
        abandons: false,
    };

    /// Whether this mistake is made.
    #[must_use]
    pub fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// The ordering that a step really gets.
    #[must_use]
    pub fn order(&self, step: Step, order: Order) -> Order {
        match self.weakened {
            Some((weakened, less)) if weakened == step => less,
            _ => order,
        }
    }

    /// Whether a fence is left out.
    #[must_use]
    pub fn is_left_out(&self, step: Step) -> bool {
        self.weakened.is_some_and(|(weakened, _)| weakened == step)
    }

    /// The bit of `E` that is `F`.
    #[must_use]
    pub fn f(&self) -> u8 {
        if self.has(Mistake::FenceModeSharesS) {
            word::F_AS_S
        } else {
            word::F
        }
    }
}
