//! Every ordering and fence says which edge needs it, in a way that a weakened build can find.

use std::{fs, path::Path};

use super::{
    FENCES_THEMSELVES, SHIM,
    edges::{DOC, edges_in},
    orderings::{imports, is_explained},
    source::{Source, Violation, assert_holds, assert_none, lines_refused, tree},
};

const STRONG: &[&str] = &["Acquire", "Release", "AcqRel"];
const FENCES: &[&str] = &["full", "heavy", "fence"];

/// Refuses an ordering stronger than Relaxed, or a fence, that stands outside `edge!`, and an `edge!` whose edges its
/// comment doesn't name.
fn check(source: &Source) -> Vec<Violation> {
    let mut violations = Vec::new();
    if source.is_among(SHIM) || source.is_among(FENCES_THEMSELVES) {
        return violations;
    }
    let sites = sites(source);
    let mut skipped = imports(source);
    skipped.extend(sites.iter().map(|site| (site.start, site.end)));
    for (at, token) in source.tokens.iter().enumerate() {
        let is_skipped = skipped
            .iter()
            .any(|(start, end)| (*start..*end).contains(&at));
        let is_fence = FENCES.contains(&token.text.as_str())
            && source.tokens.get(at + 1).is_some_and(|next| next.is("("))
            && !source.tokens[at.saturating_sub(1)].is("fn");
        let is_strong = STRONG.contains(&token.text.as_str());
        if !is_skipped && (is_fence || is_strong) && source.is_library(token.line) {
            let what = format!(
                "`{}` stands outside `edge!`; name its edge: `edge!(O1, ...)`",
                token.text
            );
            violations.push(Violation::new(source, token.line, what));
        }
    }
    for site in sites.iter().filter(|site| source.is_library(site.line)) {
        if site.edges.is_empty() {
            let what = "`edge!` begins with the edge's number: `edge!(O1, ...)`".to_owned();
            violations.push(Violation::new(source, site.line, what));
        }
        for edge in &site.edges {
            if !is_explained(&source.lines, site.line, &format!("O{edge}")) {
                let what =
                    format!("O{edge} goes unexplained; name it in the comment above, or not here");
                violations.push(Violation::new(source, site.line, what));
            }
        }
    }
    violations
}

/// One `edge!`.
struct Site {
    line: usize,
    edges: Vec<u32>,
    /// Its tokens.
    start: usize,
    end: usize,
}

fn sites(source: &Source) -> Vec<Site> {
    let starts = (0..source.tokens.len()).filter(|&at| source.starts_with(at, &["edge", "!", "("]));
    starts
        .map(|start| {
            let names = source.tokens[start + 3..]
                .iter()
                .map_while(|token| edges_in(&token.text).next());
            Site {
                line: source.tokens[start].line,
                edges: names.collect(),
                start,
                end: source.after_group(start + 2),
            }
        })
        .collect()
}

#[test]
fn every_ordering_and_fence_names_its_edge() {
    assert_holds("the rule of sites is", check);
}

#[test]
fn every_edge_of_a_site_is_documented() {
    let doc = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(DOC)).expect(DOC);
    let known: Vec<u32> = edges_in(&doc).collect();
    let mut violations = Vec::new();
    for source in &tree() {
        for site in sites(source) {
            for edge in site.edges.iter().filter(|edge| !known.contains(edge)) {
                let what = format!("O{edge} is not in {DOC}");
                violations.push(Violation::new(source, site.line, what));
            }
        }
    }
    assert_none("the rule of documented sites is", violations);
}

#[test]
fn an_ordering_without_an_edge_is_refused() {
    let text = "\
use crate::sync::{Acquire, edge};
fn f() {
    // (O1, O2)
    word.load(Acquire);
    word.load(edge!(O1, Acquire));
    word.store(1, edge!(O1 O2, Release));
    full();
    edge!(O2, full());
    let fence = fence::heavy();
}
fn full() {}
";
    assert_eq!(lines_refused("slab/a.rs", text, check), [4, 7, 9]);
}

#[test]
fn an_edge_that_its_comment_leaves_out_is_refused() {
    let text = "// Acquire: pairs with g (O1).\nword.load(edge!(O1 O2, Acquire));\nedge!(full());";
    assert_eq!(lines_refused("slab/a.rs", text, check), [2, 3]);
}
