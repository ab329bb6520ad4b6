//! Imports point downwards, and neighbours do not know each other.

use super::{
    LAYERS, NEIGHBOURS,
    paths::{NamedPath, paths},
    source::{Role, Source, Violation, assert_holds, lines_refused},
};

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

fn check(source: &Source) -> Vec<Violation> {
    let module = source.module();
    let own = module.first().copied().unwrap_or("lib");
    if layer_of(own).is_none() {
        let what = format!("`{own}` has no layer; put it into LAYERS of tests/layering.rs");
        return vec![Violation::new(source, 0, what)];
    }
    let inline_modules = inline_modules(source);
    let mut violations = Vec::new();
    for path in paths(source) {
        if source.role(path.line) == Role::TestModule {
            continue;
        }
        let depth = module.len()
            + inline_modules
                .iter()
                .filter(|(start, end)| (*start..*end).contains(&path.start))
                .count();
        if let Some(target) = module_named(source, &path, depth)
            && let Some(what) = refusal(own, target)
        {
            violations.push(Violation::new(source, path.line, what));
        }
    }
    violations
}

/// Where the bodies of `mod name { .. }` start and end.
fn inline_modules(source: &Source) -> Vec<(usize, usize)> {
    (0..source.tokens.len())
        .filter(|&at| source.tokens[at].is("mod") && source.starts_with(at + 2, &["{"]))
        .map(|at| (at + 2, source.after_group(at + 2)))
        .collect()
}

/// The top-level module that `path` reaches into, if it starts from the crate's root; `depth` modules
/// lie between the root and the path.
fn module_named<'a>(source: &Source, path: &'a NamedPath, depth: usize) -> Option<&'a str> {
    let supers = path
        .segments
        .iter()
        .take_while(|segment| *segment == "super")
        .count();
    let from_root = path.segments[0] == "crate";
    let next = if from_root {
        path.segments.get(1)?
    } else if supers > 0 && supers == depth {
        path.segments.get(supers)?
    } else {
        return None;
    };
    // An exported macro has no path but the root's.
    let is_macro = source.starts_with(path.start + 3, &["!"]);
    if layer_of(next).is_some() {
        Some(next)
    } else if from_root && is_macro {
        None
    } else {
        Some("lib")
    }
}

fn refusal(own: &str, target: &str) -> Option<String> {
    let (from, to) = (layer_of(own)?, layer_of(target)?);
    if own == target || to < from || NEIGHBOURS.contains(&(own, target)) {
        None
    } else if target == "lib" {
        Some(format!(
            "`{own}` imports from the crate's root; name the module that defines the item"
        ))
    } else if to > from {
        Some(format!(
            "`{own}` imports `{target}` from a layer above; pass it in as a parameter or a trait of a \
             lower layer, or move the item down"
        ))
    } else {
        Some(format!(
            "`{own}` imports its neighbour `{target}`; meet in a layer below, or list the pair in \
             NEIGHBOURS of tests/layering.rs"
        ))
    }
}

#[test]
fn imports_point_downwards() {
    assert_holds("the order of the layers is", check);
}

#[test]
fn an_import_from_above_is_refused() {
    let text = "use crate::{tuning, fence::light,\n slab::Slab};\nfn f() { crate::table::g() }";
    assert_eq!(lines_refused("rcu/epoch.rs", text, check), [2, 3]);
}

#[test]
fn an_import_from_a_neighbour_is_refused_unless_listed() {
    assert_eq!(
        lines_refused("slab/mod.rs", "use crate::queue::DropQueue;", check),
        [1]
    );
    assert_eq!(
        lines_refused("fence/mod.rs", "use crate::thread::Record;", check),
        [1]
    );
    assert_eq!(
        lines_refused("thread.rs", "use crate::fence::light;", check),
        [0; 0]
    );
}

#[test]
fn the_way_through_super_is_seen() {
    let text = "use super::super::slab::Key;\nuse super::record;\nmod a { use super::super::super::cell; }";
    assert_eq!(lines_refused("rcu/epoch.rs", text, check), [1, 3]);
    assert_eq!(
        lines_refused("counter.rs", "use super::{sync, rcu::Guard};", check),
        [1]
    );
}

#[test]
fn the_way_through_the_root_is_refused() {
    assert_eq!(
        lines_refused("slab/mod.rs", "use crate::Guard;\nuse crate::*;", check),
        [1, 2]
    );
    assert_eq!(
        lines_refused("table/node.rs", "crate::node!(A: B.c);", check),
        [0; 0]
    );
    assert_eq!(
        lines_refused("lib.rs", "pub use crate::rcu::Guard;", check),
        [0; 0]
    );
}

#[test]
fn unit_tests_may_look_up_and_their_helpers_may_not() {
    let text = "#[cfg(test)]\nmod tests { use crate::table::Table; }\n#[cfg(test)]\nuse crate::cell::RcuCell;";
    assert_eq!(lines_refused("slab/mod.rs", text, check), [4]);
}

#[test]
fn a_module_without_a_layer_is_refused() {
    assert_eq!(lines_refused("util.rs", "", check), [1]);
}
