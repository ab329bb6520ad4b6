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
    use std::io::Write;
    use std::sync::OnceLock;
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// `src/file.rs:line:column:word`, where the word is an ordering; for a fence, any.
    const VARIABLE: &str = "GRACEPERIOD_WEAKEN";

    struct Site {
        file: String,
        line: u32,
        column: u32,
        to: Ordering,
    }

    impl Site {
        fn parse(text: &str) -> Option<Self> {
            let mut parts = text.split(':');
            let site = Self {
                file: parts.next()?.to_owned(),
                line: parts.next()?.parse().ok()?,
                column: parts.next()?.parse().ok()?,
                to: match parts.next()? {
                    "Acquire" => Acquire,
                    "Release" => Release,
                    "Relaxed" => Relaxed,
                    _ => return None,
                },
            };
            parts.next().is_none().then_some(site)
        }
    }

    /// What this site's ordering is weakened to, if it is the one.
    pub(crate) fn weakened(file: &str, line: u32, column: u32) -> Option<Ordering> {
        static SITE: OnceLock<Option<Site>> = OnceLock::new();
        let site = SITE.get_or_init(|| {
            let text = std::env::var(VARIABLE).ok()?;
            let site = Site::parse(&text);
            Some(site.unwrap_or_else(|| panic!("{VARIABLE} holds no site: {text}")))
        });
        let site = site.as_ref()?;
        if site.line != line || site.column != column || site.file != file {
            return None;
        }
        tell();
        Some(site.to)
    }

    /// Tells the script once that the site was reached, past the test runner's capture.
    fn tell() {
        static TOLD: AtomicBool = AtomicBool::new(false);
        // Relaxed: twice would do no harm.
        if !TOLD.swap(true, Relaxed) {
            let _ = std::io::stderr().write_all(b"weakened\n");
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
