//! The steps of the protocol, by the names that the engine's comments and `docs/orderings.md` use.

macro_rules! steps {
    ($($name:ident $what:literal)*) => {
        /// One step: an operation on shared memory, or a fence.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "`what` says it")]
        pub enum Step { $($name),* }

        impl Step {
            /// Every step.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }

            /// What it does.
            #[must_use]
            pub const fn what(self) -> &'static str {
                match self { $(Self::$name => $what),* }
            }
        }
    };
}

steps! {
    // The reader: `rcu/record`.
    E1 "enter: load the own word"
    E2 "enter, hot: store word + 1"
    E3 "enter, hot: light fence"
    E4 "enter, hot: look at E"
    E5 "enter, cold: load E"
    E6 "enter, cold: store (E, 1)"
    E7 "enter, cold: full fence"
    N1 "nest: load the own word"
    N2 "nest: store word + 1"
    L1 "leave: load the own word"
    L2 "leave: store word - 1"
    R1 "refresh: load the own word"
    R2 "refresh: load E"
    W1 "owned enter: load E"
    W2 "owned enter: store (E, S, 1)"
    W3 "owned enter: full fence"
    A1 "announce: load the own word"
    A2 "announce: load E"
    A3 "announce: compare-exchange (x, 0) to (E, 0)"
    // The driver: `rcu/clock`.
    C1 "cookie: read-modify-write of E"
    H1 "elapsed: load done"
    D1 "open: load E"
    D2 "open: load done"
    D3 "open: compare-exchange E to the next epoch"
    D4 "advance: full fence"
    S1 "scan: load a record's word"
    P1 "park: heavy fence"
    P2 "park: compare-exchange (x, 0) to (x, S)"
    G1 "complete: done to at least this period"
    M1 "fence mode on: load E"
    M2 "fence mode on: set F"
    M3 "fence mode off: load E"
    M4 "fence mode off: clear F"
    // Records that change hands: `rcu/clock`, `rcu/core` and `thread/registry`.
    K1 "abandoned: load the node's state"
    K2 "claim: look at the word"
    K3 "claim: compare-exchange the node's state to used"
    X1 "exit: load the own word"
    X2 "exit: compare-exchange (x, 0) to (x, S)"
    X3 "exit: give the node up"
    B1 "registration: initialise the word"
    B2 "registration: publish the node"
    B3 "scan: load the list's head"
    // Not in the engine: the other way to enter.
    V1 "second-look enter: load E"
    V2 "second-look enter: load the own word"
    V3 "second-look enter: store word + 1"
    V4 "second-look enter: light fence"
    V5 "second-look enter: look at E again"
    // The user's: what the protocol protects.
    U1 "user: unlink the object"
    U2 "user: load the pointer"
    U3 "user: use the object"
    U4 "user: free the object"
    U5 "user: send a guard to another thread"
    U6 "user: receive it"
    // Of wrong versions only.
    Z1 "wrong: plain store in a compare-exchange's place"
    Z2 "wrong: load of E in a scan"
}

impl Step {
    /// Whether the step stands in no engine, but in users' code, in a variant or in a mistake.
    #[must_use]
    pub const fn is_outside(self) -> bool {
        matches!(self.name().as_bytes()[0], b'V' | b'U' | b'Z')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ() {
        for (at, step) in Step::ALL.iter().enumerate() {
            assert!(Step::ALL[..at].iter().all(|s| s.name() != step.name()));
        }
    }
}
