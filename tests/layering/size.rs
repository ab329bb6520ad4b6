//! Files and functions stay short enough to read.

use super::{
    MAX_FILE_LINES, MAX_FUNCTION_LINES,
    source::{Source, Violation, assert_holds, lines_refused},
};

fn check_files(source: &Source) -> Vec<Violation> {
    let lines = (0..source.lines.len())
        .filter(|&line| source.is_library(line))
        .count();
    if lines <= MAX_FILE_LINES {
        return Vec::new();
    }
    let what = format!(
        "{lines} lines without its tests, more than {MAX_FILE_LINES}; move one noun to a file of its own"
    );
    vec![Violation::new(source, 0, what)]
}

fn check_functions(source: &Source) -> Vec<Violation> {
    let mut violations = Vec::new();
    for at in 0..source.tokens.len().saturating_sub(1) {
        let line = source.tokens[at].line;
        let is_named = source.tokens[at].is("fn") && source.tokens[at + 1].is_word();
        let Some(end) = is_named.then(|| body_end(source, at)).flatten() else {
            continue;
        };
        let lines = source.tokens[end - 1].line - line + 1;
        if source.is_library(line) && lines > MAX_FUNCTION_LINES {
            let what = format!(
                "`{}` has {lines} lines, more than {MAX_FUNCTION_LINES}; name its steps and move them out",
                source.tokens[at + 1].text
            );
            violations.push(Violation::new(source, line, what));
        }
    }
    violations
}

/// The token after the body of the function at `at`; none if it has no body.
fn body_end(source: &Source, mut at: usize) -> Option<usize> {
    loop {
        match source.tokens.get(at)?.text.as_str() {
            ";" => return None,
            "{" => return Some(source.after_group(at)),
            "(" | "[" => at = source.after_group(at),
            _ => at += 1,
        }
    }
}

#[test]
fn files_are_short() {
    assert_holds("the limit on files is", check_files);
}

#[test]
fn functions_are_short() {
    assert_holds("the limit on functions is", check_functions);
}

#[test]
fn a_long_file_is_refused() {
    let limit = "//\n".repeat(MAX_FILE_LINES - 1);
    let with_tests = format!("{limit}#[cfg(test)]\nmod tests {{\n\n}}");
    assert_eq!(lines_refused("rcu/a.rs", &limit, check_files), [0; 0]);
    assert_eq!(lines_refused("rcu/a.rs", &with_tests, check_files), [0; 0]);
    assert_eq!(
        lines_refused("rcu/a.rs", &format!("{limit}\n"), check_files),
        [1]
    );
}

#[test]
fn a_long_function_is_refused() {
    let body = "a(\"}\");\n".repeat(MAX_FUNCTION_LINES - 2);
    let limit = format!("trait T {{ fn g(x: [u8; 2]); }}\nfn f() {{\n{body}}}\n");
    let over = format!("\nfn f(x: [u8; 2]) {{\n\n{body}}}");
    assert_eq!(lines_refused("rcu/a.rs", &limit, check_functions), [0; 0]);
    assert_eq!(lines_refused("rcu/a.rs", &over, check_functions), [2]);
}
