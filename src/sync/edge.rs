//! The orderings and fences of the edges between threads, each told where it stands.
//!
//! `edge!(O21, Release)` is `Release`, and `edge!(O20, full())` is `full()`: the macro writes down which edge of
//! `docs/orderings.md` needs it, and `tests/layering.rs` lets no ordering stronger than Relaxed stand without. Only in
//! loom's models under `cfg(weaken)` does it ask whether its *site* (file, line and column) is the one that
//! `ci/weaken.sh` has picked, and answers with a weaker ordering, or leaves the fence out.

#[cfg(not(all(loom, weaken)))]
macro_rules! edge {
    ($($edge:ident)+, Acquire) => {
        $crate::sync::Acquire
    };
    ($($edge:ident)+, Release) => {
        $crate::sync::Release
    };
    ($($edge:ident)+, AcqRel) => {
        $crate::sync::AcqRel
    };
    ($($edge:ident)+, $fence:expr) => {
        $fence
    };
}

#[cfg(all(loom, weaken))]
macro_rules! edge {
    ($($edge:ident)+, Acquire) => { $crate::sync::edge!(@ $crate::sync::Acquire) };
    ($($edge:ident)+, Release) => { $crate::sync::edge!(@ $crate::sync::Release) };
    ($($edge:ident)+, AcqRel) => { $crate::sync::edge!(@ $crate::sync::AcqRel) };
    ($($edge:ident)+, $fence:expr) => {
        match $crate::sync::weakened(file!(), line!(), column!()) {
            Some(_) => $crate::sync::Fence::left_out(),
            None => $fence,
        }
    };
    (@ $ordering:expr) => {
        $crate::sync::weakened(file!(), line!(), column!()).unwrap_or($ordering)
    };
}

pub(crate) use edge;

#[cfg(all(loom, weaken))]
pub(crate) use weaken::{Fence, weakened};

#[cfg(all(loom, weaken))]
mod weaken {
    use std::collections::HashSet;
    use std::io::Write;
    use std::sync::atomic::Ordering;
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
    use std::sync::{Mutex, OnceLock};

    /// `src/file.rs:line:column:word`, where the word is an ordering; for a fence, any. Or `none`, to be told only which
    /// sites are reached.
    const VARIABLE: &str = "GRACEPERIOD_WEAKEN";

    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Site {
        file: String,
        line: u32,
        column: u32,
    }

    /// A site, and its ordering in this run.
    fn parse(text: &str) -> Option<(Site, Ordering)> {
        let mut parts = text.split(':');
        let site = Site {
            file: parts.next()?.to_owned(),
            line: parts.next()?.parse().ok()?,
            column: parts.next()?.parse().ok()?,
        };
        let to = match parts.next()? {
            "Acquire" => Acquire,
            "Release" => Release,
            "Relaxed" => Relaxed,
            _ => return None,
        };
        parts.next().is_none().then_some((site, to))
    }

    enum Asked {
        Nothing,
        Reached(Mutex<HashSet<Site>>),
        Weaken(Site, Ordering),
    }

    impl Asked {
        fn by_environment() -> Self {
            match std::env::var(VARIABLE).as_deref() {
                Err(_) => Self::Nothing,
                Ok("none") => Self::Reached(Mutex::default()),
                Ok(text) => match parse(text) {
                    Some((site, to)) => Self::Weaken(site, to),
                    None => panic!("{VARIABLE} holds no site: {text}"),
                },
            }
        }
    }

    /// What this site's ordering is weakened to, if it is the one.
    pub(crate) fn weakened(file: &str, line: u32, column: u32) -> Option<Ordering> {
        static ASKED: OnceLock<Asked> = OnceLock::new();
        match ASKED.get_or_init(Asked::by_environment) {
            Asked::Nothing => None,
            Asked::Reached(told) => {
                tell(told, file, line, column);
                None
            }
            Asked::Weaken(site, to) => {
                let is_it = site.line == line && site.column == column && site.file == file;
                is_it.then_some(*to)
            }
        }
    }

    /// Tells the script once that a site was reached, past the test runner's capture.
    fn tell(told: &Mutex<HashSet<Site>>, file: &str, line: u32, column: u32) {
        let file = file.to_owned();
        let site = Site { file, line, column };
        // A model that fails may have poisoned it, which does no harm.
        let mut told = told.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if told.insert(site.clone()) {
            let Site { file, line, column } = site;
            let _ = writeln!(std::io::stderr(), "reached {file}:{line}:{column}");
        }
    }

    /// What a fence answers.
    pub(crate) trait Fence {
        /// The answer of one that isn't made.
        fn left_out() -> Self;
    }

    impl Fence for () {
        fn left_out() {}
    }

    impl Fence for bool {
        fn left_out() -> Self {
            true
        }
    }
}
