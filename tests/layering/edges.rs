//! An edge between threads has two ends, and a paragraph in the docs.

use std::{collections::BTreeMap, fs, io, path::Path};

use super::source::{Source, Violation, assert_none, tree};

pub(crate) const DOC: &str = "docs/orderings.md";

/// Refuses an edge number that stands at one end only, that the docs don't know, or that stands in the
/// docs alone. Module docs list the edges of their module and tests check them, so neither is an end.
fn check(sources: &[Source], doc: &str) -> Vec<Violation> {
    let mut ends: BTreeMap<u32, Vec<(&Source, usize)>> = BTreeMap::new();
    for source in sources {
        for (line, text) in source.lines.iter().enumerate() {
            if text.comment.starts_with("//!") || !source.is_library(line) {
                continue;
            }
            for number in edges_in(&text.comment) {
                ends.entry(number).or_default().push((source, line));
            }
        }
    }
    let mut documented: BTreeMap<u32, usize> = BTreeMap::new();
    for (line, text) in doc.lines().enumerate() {
        for number in edges_in(text) {
            documented.entry(number).or_insert(line);
        }
    }

    let mut violations = Vec::new();
    for (number, places) in &ends {
        let (source, line) = places[0];
        if places
            .iter()
            .all(|(other, at)| (&other.path, *at) == (&source.path, line))
        {
            let what = format!(
                "O{number} stands here alone; give the comment at its other end the same number"
            );
            violations.push(Violation::new(source, line, what));
        }
        if !documented.contains_key(number) {
            let what = format!("O{number} is not in {DOC}; say there what the edge makes visible");
            violations.push(Violation::new(source, line, what));
        }
    }
    for (number, line) in documented
        .iter()
        .filter(|(number, _)| !ends.contains_key(number))
    {
        let what =
            format!("O{number} stands in no comment of src; drop it here, or number its ends");
        violations.push(Violation::elsewhere(DOC, *line, what));
    }
    violations
}

/// The numbers of the edges, written `O12`, in a text.
pub(crate) fn edges_in(text: &str) -> impl Iterator<Item = u32> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter_map(|word| {
        let digits = word.strip_prefix('O')?;
        digits
            .chars()
            .all(|c| c.is_ascii_digit())
            .then(|| digits.parse().ok())?
    })
}

#[test]
fn every_edge_has_two_ends_and_a_paragraph() {
    let doc = match fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(DOC)) {
        Ok(doc) => doc,
        // Without the page, each edge in src is reported as missing there.
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => panic!("{DOC} is unreadable: {error}"),
    };
    assert_none("the rule of edges is", check(&tree(), &doc));
}

#[cfg(test)]
fn refused(sources: &[(&str, &str)], doc: &str) -> Vec<String> {
    let sources: Vec<Source> = sources
        .iter()
        .map(|(path, text)| Source::parse(path, text))
        .collect();
    check(&sources, doc)
        .iter()
        .map(|v| v.to_string().split(" ").take(2).collect())
        .collect()
}

#[test]
fn an_edge_with_one_end_is_refused() {
    let sources = [
        ("rcu/a.rs", "//! O1, O2.\n// Acquire: O1.\n"),
        ("rcu/b.rs", "// (O2)\n// Release: O1."),
    ];
    assert_eq!(refused(&sources, "O1 and O2"), ["src/rcu/b.rs:1:O2"]);
}

#[test]
fn an_edge_without_a_paragraph_is_refused() {
    let sources = [("rcu/a.rs", "// O7\n// O7, O70x, FOO7, O")];
    assert_eq!(refused(&sources, ""), ["src/rcu/a.rs:1:O7"]);
}

#[test]
fn an_edge_in_the_docs_alone_is_refused() {
    assert_eq!(
        refused(&[], "# Edges\n\n**O3** ..."),
        ["docs/orderings.md:3:O3"]
    );
}
