//! Holds the rules of the source tree that no compiler holds, by reading `src` as text.
//!
//! Each rule is a file below `tests/layering/` with two kinds of tests: one that runs it over `src`,
//! and some that run it over a few bad lines, so that the rule itself is seen to fail. What a rule
//! allows stands in the tables here; changing the design means changing a table, in plain sight.
//!
//! A violation names file, line and rule, and says what to do.

#[path = "layering/constants.rs"]
mod constants;
#[path = "layering/edges.rs"]
mod edges;
#[path = "layering/layers.rs"]
mod layers;
#[path = "layering/lexer.rs"]
mod lexer;
#[path = "layering/names.rs"]
mod names;
#[path = "layering/orderings.rs"]
mod orderings;
#[path = "layering/paths.rs"]
mod paths;
#[path = "layering/sites.rs"]
mod sites;
#[path = "layering/size.rs"]
mod size;
#[path = "layering/source.rs"]
mod source;

/// The modules by layer, lowest first: a module imports from lower layers only, never from its own.
const LAYERS: &[&[&str]] = &[
    &["sync", "tuning", "prefetch"],
    &["fence", "thread", "counter"],
    &["reclaim"],
    &["rcu"],
    &["slab", "queue", "cell"],
    &["table", "backend"],
    &["root"],
    &["lib"],
];

/// The imports between neighbours that are allowed all the same: (who, from whom).
const NEIGHBOURS: &[(&str, &str)] = &[("thread", "fence"), ("thread", "counter")];

/// What loom replaces, and the only module that may name it.
const SHIMMED: &[&str] = &[
    "std::sync::atomic",
    "core::sync::atomic",
    "std::sync::Mutex",
    "std::sync::Condvar",
    "std::sync::RwLock",
    "std::cell::UnsafeCell",
    "core::cell::UnsafeCell",
    "std::thread",
    "std::thread_local",
    "loom",
];
const SHIM: &[&str] = &["sync.rs", "sync/"];

/// What only the files that talk to the operating system may ask or call.
const SYSTEM_CFGS: &[&str] = &[
    "unix",
    "windows",
    "target_os",
    "target_arch",
    "target_family",
    "target_env",
];
const SYSTEM_CRATES: &[&str] = &["libc", "std::os"];
const SYSTEM_FILES: &[&str] = &["fence.rs", "fence/", "slab/map.rs", "prefetch.rs"];

/// Where a `SeqCst` may stand.
const SEQ_CST_FILES: &[&str] = &["fence.rs", "fence/"];

/// Where `edge!` itself spells the orderings out.
const SPELLED_OUT: &[&str] = &["sync/edge.rs"];

/// Where fences are made, and so name no edge.
const FENCES_THEMSELVES: &[&str] = &["fence/mod.rs", "fence/linux.rs", "fence/symmetric.rs"];

/// Where a number may be named: the tuning knobs, and the layouts of packed words.
const CONSTANT_FILES: &[&str] = &[
    "tuning.rs",
    "rcu/epoch.rs",
    "rcu/thunk.rs",
    "slab/state.rs",
    "table/bucket.rs",
];

/// How far above an atomic operation its comment may end, in lines.
const COMMENT_REACH: usize = 6;

/// The longest file and the longest function, in lines, tests not counted.
const MAX_FILE_LINES: usize = 450;
const MAX_FUNCTION_LINES: usize = 80;
