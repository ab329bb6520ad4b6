//! Names that belong to a few files alone: what loom replaces, what the operating system offers, and
//! `SeqCst`.

use super::{
    SEQ_CST_FILES, SHIM, SHIMMED, SYSTEM_CFGS, SYSTEM_CRATES, SYSTEM_FILES,
    lexer::Token,
    paths::{NamedPath, paths},
    source::{Role, Source, Violation, assert_holds, lines_refused},
};

fn check_shim(source: &Source) -> Vec<Violation> {
    if source.is_among(SHIM) {
        return Vec::new();
    }
    let mut violations: Vec<Violation> = Vec::new();
    for path in paths(source) {
        let is_fence =
            source.is_among(SEQ_CST_FILES) && path.segments.ends_with(&["SeqCst".into()]);
        if source.role(path.line) == Role::TestModule || is_fence {
            continue;
        }
        if let Some(name) = SHIMMED.iter().find(|name| reaches(&path, name)) {
            let what =
                format!("`{name}` is named; take it from crate::sync, which loom can replace");
            violations.push(Violation::new(source, path.line, what));
        }
    }
    for (at, token) in source.tokens.iter().enumerate() {
        let is_library = source.role(token.line) != Role::TestModule;
        if is_library && token.is("thread_local") && source.starts_with(at + 1, &["!"]) {
            let what =
                "`thread_local!` is called; use the macro of crate::sync, which loom can replace";
            violations.push(Violation::new(source, token.line, what));
        }
    }
    violations
}

/// Whether `path` names `name`, something inside it, or the module that holds it as a whole.
fn reaches(path: &NamedPath, name: &str) -> bool {
    let name: Vec<&str> = name.split("::").collect();
    let mut path_end = path.segments.len();
    if matches!(path.segments[path_end - 1].as_str(), "*" | "self") {
        path_end -= 1;
    }
    // A lone word is no path: `cfg(loom)`.
    if path.segments.len() < 2 {
        return false;
    }
    let holds_it = path_end > 1 && path_end < name.len();
    path.starts_with(&name) || holds_it && path.segments[..path_end] == name[..path_end]
}

fn check_system(source: &Source) -> Vec<Violation> {
    if source.is_among(SYSTEM_FILES) {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for at in 0..source.tokens.len() {
        let is_cfg = source.tokens[at].is("cfg") || source.tokens[at].is("cfg_attr");
        let open = if source.starts_with(at + 1, &["!"]) {
            at + 2
        } else {
            at + 1
        };
        if !is_cfg || !source.starts_with(open, &["("]) {
            continue;
        }
        for token in &source.tokens[open..source.after_group(open)] {
            if SYSTEM_CFGS.contains(&token.text.as_str()) {
                let what = format!(
                    "`cfg({})` decides here; let a function of {SYSTEM_FILES:?} hide the difference",
                    token.text
                );
                violations.push(Violation::new(source, token.line, what));
            }
        }
    }
    for path in paths(source) {
        if let Some(name) = SYSTEM_CRATES.iter().find(|name| reaches(&path, name)) {
            let what = format!("`{name}` is named; call it through a function of {SYSTEM_FILES:?}");
            violations.push(Violation::new(source, path.line, what));
        }
    }
    violations
}

fn check_seq_cst(source: &Source) -> Vec<Violation> {
    if source.is_among(SEQ_CST_FILES) {
        return Vec::new();
    }
    let what = "`SeqCst` hides which edge is meant; name the edge's own ordering, or call a fence of \
                crate::fence";
    let is_library = |token: &&Token| source.role(token.line) != Role::TestModule;
    let tokens = source.tokens.iter().filter(is_library);
    let found = tokens.filter(|token| token.is("SeqCst"));
    found
        .map(|token| Violation::new(source, token.line, what))
        .collect()
}

#[test]
fn only_the_shim_names_what_loom_replaces() {
    assert_holds("the rule of crate::sync is", check_shim);
}

#[test]
fn only_the_system_files_know_the_system() {
    assert_holds("the rule of the system files is", check_system);
}

#[test]
fn seq_cst_stands_only_in_fences() {
    assert_holds("the rule of SeqCst is", check_seq_cst);
}

#[test]
fn a_primitive_past_the_shim_is_refused() {
    let text = "\
use std::{sync::{Arc, atomic::AtomicU64}, fmt};
use std::sync::{self, Arc};
use ::std::sync::*;
fn f() { std::thread::yield_now() }
thread_local! { static A: u8 = 0; }
fn g() { loom::model(|| {}) }
use std::sync::Arc; // std::sync::Mutex
#[cfg(loom)] fn h(std: u8) {}";
    assert_eq!(
        lines_refused("slab/mod.rs", text, check_shim),
        [1, 2, 3, 4, 6, 5]
    );
    assert_eq!(lines_refused("sync.rs", text, check_shim), [0; 0]);
    let in_test = "#[cfg(test)]\nmod tests { use std::thread; }";
    assert_eq!(lines_refused("slab/mod.rs", in_test, check_shim), [0; 0]);
    let fence = "use std::sync::atomic::Ordering::SeqCst;\nuse std::sync::atomic::fence;";
    assert_eq!(lines_refused("fence/mod.rs", fence, check_shim), [2]);
}

#[test]
fn a_look_at_the_system_is_refused() {
    let text = "\
#[cfg(all(unix, not(loom)))]
fn f() { slice.windows(2); if cfg!(target_os = \"linux\") {} }
use std::os::fd::RawFd;
use libc::mmap;";
    assert_eq!(
        lines_refused("slab/page.rs", text, check_system),
        [1, 2, 3, 4]
    );
    assert_eq!(lines_refused("slab/map.rs", text, check_system), [0; 0]);
    assert_eq!(lines_refused("fence/linux.rs", text, check_system), [0; 0]);
}

#[test]
fn a_stray_seq_cst_is_refused() {
    let text = "// SeqCst\nword.load(Ordering::SeqCst);";
    assert_eq!(lines_refused("rcu/epoch.rs", text, check_seq_cst), [2]);
    assert_eq!(lines_refused("fence/mod.rs", text, check_seq_cst), [0; 0]);
    let in_test = "#[cfg(test)]\nmod tests { use std::sync::atomic::Ordering::SeqCst; }";
    assert_eq!(
        lines_refused("rcu/epoch.rs", in_test, check_seq_cst),
        [0; 0]
    );
}
