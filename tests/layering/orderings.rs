//! Every atomic ordering is explained beside it, by name.

use super::{
    COMMENT_REACH, SPELLED_OUT,
    lexer::Line,
    source::{Source, Violation, assert_holds, lines_refused},
};

const ORDERINGS: &[&str] = &["Acquire", "Release", "AcqRel", "Relaxed"];

/// Refuses an ordering whose name stands neither in a comment on its line nor in the block of comments
/// that ends close above it.
fn check(source: &Source) -> Vec<Violation> {
    let imports = imports(source);
    let mut violations = Vec::new();
    if source.is_among(SPELLED_OUT) {
        return violations;
    }
    for (at, token) in source.tokens.iter().enumerate() {
        let is_import = imports
            .iter()
            .any(|(start, end)| (*start..*end).contains(&at));
        let is_ordering = ORDERINGS.contains(&token.text.as_str());
        if !is_ordering || is_import || !source.is_library(token.line) {
            continue;
        }
        if !is_explained(&source.lines, token.line, &token.text) {
            let what = format!(
                "`{0}` goes unexplained; write `// {0}: ...` above it, with the edge it is one end of, or \
                 why no edge is needed",
                token.text
            );
            violations.push(Violation::new(source, token.line, what));
        }
    }
    violations
}

/// Where `use` items start and end.
pub(crate) fn imports(source: &Source) -> Vec<(usize, usize)> {
    let starts = (0..source.tokens.len()).filter(|&at| source.tokens[at].is("use"));
    starts
        .map(|at| {
            let length = source.tokens[at..].iter().position(|token| token.is(";"));
            (at, length.map_or(source.tokens.len(), |length| at + length))
        })
        .collect()
}

pub(crate) fn is_explained(lines: &[Line], line: usize, word: &str) -> bool {
    let says_it = |line: &Line| has_word(&line.comment, word);
    let is_comment = |line: &&Line| line.code.trim().is_empty() && !line.comment.is_empty();
    let first = line.saturating_sub(COMMENT_REACH);
    if lines[first..=line].iter().any(says_it) {
        return true;
    }
    // The block may be longer than the reach; it has to end within it.
    let block_end = (first..line)
        .rev()
        .find(|&above| is_comment(&&lines[above]));
    block_end.is_some_and(|end| {
        lines[..=end]
            .iter()
            .rev()
            .take_while(is_comment)
            .any(says_it)
    })
}

/// Whether `word` stands in `text` by itself.
fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|found| found == word)
}

#[test]
fn every_ordering_is_explained() {
    assert_holds("the rule of orderings is", check);
}

#[test]
fn an_unexplained_ordering_is_refused() {
    let text = "\
use crate::sync::Ordering::{Acquire, Relaxed};

fn f(word: &AtomicU64) {
    // Acquire: pairs with the Release in g (O1).
    word.load(Acquire);
    word.load(Relaxed);
    word.store(1, Ordering::Release); // Releases it
}";
    assert_eq!(lines_refused("rcu/epoch.rs", text, check), [6]);
    assert_eq!(
        lines_refused("rcu/epoch.rs", "word.load(Acquire);", check),
        [1]
    );
}

#[test]
fn a_comment_far_above_explains_nothing() {
    let near = format!(
        "// Release: so that.\n{}word.store(1, Release);",
        "a();\n".repeat(5)
    );
    let far = format!(
        "// Release: so that.\n{}word.store(1, Release);",
        "a();\n".repeat(6)
    );
    assert_eq!(lines_refused("rcu/epoch.rs", &near, check), [0; 0]);
    assert_eq!(lines_refused("rcu/epoch.rs", &far, check), [8]);
}

#[test]
fn a_long_comment_explains_from_its_first_line() {
    let text = format!(
        "// AcqRel: so that.\n{}word.swap(1, AcqRel);",
        "// more\n".repeat(9)
    );
    assert_eq!(lines_refused("rcu/epoch.rs", &text, check), [0; 0]);
}

#[test]
fn tests_need_no_explanation() {
    let text = "#[cfg(test)]\nmod tests {\n    fn f() { word.load(Relaxed); }\n}";
    assert_eq!(lines_refused("rcu/epoch.rs", text, check), [0; 0]);
}
