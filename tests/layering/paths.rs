//! The paths that a file names, with `use a::{b, c::d}` taken apart into `a::b` and `a::c::d`.

use super::source::Source;

/// Words that may stand before a path with leading colons, as in `use ::std::fmt`.
const KEYWORDS: &[&str] = &["as", "dyn", "for", "impl", "in", "mut", "return", "use"];

/// One path, as it is written.
#[derive(Debug)]
pub(crate) struct NamedPath {
    pub(crate) segments: Vec<String>,
    /// The token that it starts with.
    pub(crate) start: usize,
    /// The line of its last segment.
    pub(crate) line: usize,
}

impl NamedPath {
    pub(crate) fn starts_with(&self, prefix: &[&str]) -> bool {
        self.segments.len() >= prefix.len() && self.segments.iter().zip(prefix).all(|(a, b)| a == b)
    }
}

/// Every path in `source`; a single word is one, too.
pub(crate) fn paths(source: &Source) -> Vec<NamedPath> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(token) = source.tokens.get(at) {
        if token.is("::") && at > 0 && source.tokens[at - 1].is(">") {
            // What follows `<T as Trait>::` belongs to a type and not to a module.
            at += 2;
        } else if token.is_word() && !KEYWORDS.contains(&token.text.as_str()) {
            at = UseTree {
                source,
                start: at,
                found: &mut found,
            }
            .read(at, &[]);
        } else {
            at += 1;
        }
    }
    found
}

struct UseTree<'a> {
    source: &'a Source,
    start: usize,
    found: &'a mut Vec<NamedPath>,
}

impl UseTree<'_> {
    /// Reads what follows `prefix` from token `at` on, and returns the token after it.
    fn read(&mut self, at: usize, prefix: &[String]) -> usize {
        let Some(token) = self.source.tokens.get(at) else {
            return at;
        };
        if token.is("{") {
            return self.read_group(at, prefix);
        }
        if !token.is_word() && !token.is("*") {
            self.keep(at - 1, prefix.to_vec());
            return at;
        }
        let mut segments = prefix.to_vec();
        segments.push(token.text.clone());
        if self.source.starts_with(at + 1, &["::"]) {
            return self.read(at + 2, &segments);
        }
        self.keep(at, segments);
        at + 1
    }

    fn read_group(&mut self, open: usize, prefix: &[String]) -> usize {
        let end = self.source.after_group(open);
        let mut at = open + 1;
        while at + 1 < end {
            at = self.read(at, prefix);
            // Past a renaming, and past the comma.
            while at + 1 < end && !self.source.tokens[at].is(",") {
                at += 1;
            }
            at += 1;
        }
        end
    }

    fn keep(&mut self, last: usize, segments: Vec<String>) {
        let line = self.source.tokens[last].line;
        self.found.push(NamedPath {
            segments,
            start: self.start,
            line,
        });
    }
}

#[test]
fn nested_imports_are_taken_apart() {
    let text =
        "use std::{cell::{Cell, UnsafeCell as Raw}, sync::*,\n fmt};\n<T as a::B>::c::<d::E>();";
    let source = Source::parse("x.rs", text);
    let all: Vec<String> = paths(&source)
        .iter()
        .map(|path| path.segments.join("::"))
        .collect();
    let imports = [
        "std::cell::Cell",
        "std::cell::UnsafeCell",
        "std::sync::*",
        "std::fmt",
    ];
    assert_eq!(all[..4], imports);
    assert_eq!(all[4..], ["T", "a::B", "d::E"]);
    assert_eq!(paths(&source)[3].line, 1);
}
