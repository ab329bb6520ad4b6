//! The model's steps, the comments in the engine and the table in `docs/orderings.md` name each other.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use graceperiod_models::step::Step;

const TABLE: &str = "docs/orderings.md";
const FILES: &[&str] = &["rcu/record", "rcu/clock", "thread/registry"];

/// A step's name, and where it stands: `rcu/record::enter`.
type Places = BTreeSet<(String, String)>;

fn read(path: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = root.join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names in brackets in the comments of a source file, each with the function that it stands in.
fn steps_in(file: &str, text: &str) -> Places {
    let mut places = Places::new();
    let mut function = "";
    for line in text.lines() {
        let (code, comment) = line.split_once("//").unwrap_or((line, ""));
        if let Some((_, rest)) = code.split_once("fn ") {
            function = rest.split(['(', '<']).next().unwrap_or(rest);
        }
        for part in comment.split('[').skip(1) {
            let name = part.split(']').next().unwrap_or(part);
            if is_step(name) {
                places.insert((name.to_owned(), format!("{file}::{function}")));
            }
        }
    }
    places
}

fn is_step(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_ascii_uppercase())
        && name.len() > 1
        && letters.all(|c| c.is_ascii_digit())
}

/// The rows of the table: name, what the step does, and the functions that it stands in.
fn rows(text: &str) -> Vec<(String, String, Vec<String>)> {
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?;
        let functions = cells.get(3)?.split(',').map(|f| f.trim().trim_matches('`'));
        is_step(name).then(|| {
            let functions = functions.filter(|f| f.contains("::")).map(str::to_owned);
            (name.to_owned(), cells[2].to_owned(), functions.collect())
        })
    });
    rows.collect()
}

#[test]
fn every_step_has_a_row_and_every_row_a_step() {
    let rows = rows(&read(TABLE));
    let listed: Vec<(&str, String)> = rows
        .iter()
        .map(|(name, what, _)| (name.as_str(), what.replace('`', "")))
        .collect();
    let wanted: Vec<(&str, String)> = Step::ALL
        .iter()
        .filter(|step| !step.is_outside())
        .map(|step| (step.name(), step.what().to_owned()))
        .collect();
    assert_eq!(
        listed, wanted,
        "{TABLE} on the left, models/src/step.rs on the right"
    );
}

#[test]
fn every_step_stands_in_the_engine_where_the_table_says() {
    let mut found = Places::new();
    for file in FILES {
        found.extend(steps_in(file, &read(&format!("src/{file}.rs"))));
    }
    let mut listed = Places::new();
    for (name, _, functions) in rows(&read(TABLE)) {
        listed.extend(
            functions
                .into_iter()
                .map(|function| (name.clone(), function)),
        );
    }
    let missing: Vec<_> = listed.difference(&found).collect();
    let unlisted: Vec<_> = found.difference(&listed).collect();
    assert!(
        missing.is_empty(),
        "in {TABLE}, but not in src: {missing:?}"
    );
    assert!(
        unlisted.is_empty(),
        "in src, but not in {TABLE}: {unlisted:?}"
    );
}

#[test]
fn comments_in_functions_are_found_and_other_brackets_are_not() {
    let text = "fn one(&self) {\n  x(); // Release (O21). [E3]\n}\nfn two<T>() {\n  // [K1]\n  y[E5]; // see [I1x], [`Z`]\n}";
    let expected = [("E3", "f::one"), ("K1", "f::two")];
    let expected = expected.map(|(name, place)| (name.to_owned(), place.to_owned()));
    assert_eq!(steps_in("f", text), Places::from(expected));
}
