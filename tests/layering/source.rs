//! The files of `src` as the rules see them, and how a rule reports what it found.

use std::{fmt, fs, path::Path};

use super::lexer::{self, Line, Token};

/// What a line is for; tests are free of some rules.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// Part of the crate: every rule holds.
    Library,
    /// Compiled for tests only, but not in a module of tests: a hook, a helper.
    TestSupport,
    /// In `mod tests`, or in a module of loom models.
    TestModule,
}

/// The first words of what a comma does not end.
const ITEM_KEYWORDS: &[&str] = &[
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "macro_rules",
    "mod",
    "static",
    "struct",
    "trait",
    "type",
    "union",
    "unsafe",
    "use",
];

/// One file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Relative to `src`, with forward slashes.
    pub(crate) path: String,
    pub(crate) lines: Vec<Line>,
    pub(crate) tokens: Vec<Token>,
    /// One per line.
    roles: Vec<Role>,
    /// Modules that are declared for tests only and stand in files of their own, with their role.
    test_files: Vec<(String, Role)>,
}

impl Source {
    pub(crate) fn parse(path: &str, text: &str) -> Source {
        let lines = lexer::split(text);
        let tokens = lexer::tokens(&lines);
        let roles = vec![Role::Library; lines.len()];
        let mut source = Source {
            path: path.to_owned(),
            lines,
            tokens,
            roles,
            test_files: vec![],
        };
        source.mark_tests();
        source
    }

    pub(crate) fn role(&self, line: usize) -> Role {
        self.roles[line]
    }

    pub(crate) fn is_library(&self, line: usize) -> bool {
        self.roles[line] == Role::Library
    }

    /// Whether the file is one of `files`; an entry that ends in a slash stands for a directory.
    pub(crate) fn is_among(&self, files: &[&str]) -> bool {
        files.iter().any(|file| match file.strip_suffix('/') {
            Some(_) => self.path.starts_with(file),
            None => self.path == *file,
        })
    }

    /// The path of the file's module below the crate: `rcu/epoch.rs` is `["rcu", "epoch"]`.
    pub(crate) fn module(&self) -> Vec<&str> {
        let mut path: Vec<&str> = self.path.trim_end_matches(".rs").split('/').collect();
        if matches!(path.last(), Some(&"lib" | &"mod")) {
            path.pop();
        }
        path
    }

    /// The token after the bracket, brace or parenthesis that closes the one at `open`.
    pub(crate) fn after_group(&self, open: usize) -> usize {
        let mut depth = 0;
        for (at, token) in self.tokens.iter().enumerate().skip(open) {
            match token.text.as_str() {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at + 1;
            }
        }
        self.tokens.len()
    }

    /// The token after the item that starts at `start`: past its semicolon, its body, or, for a field
    /// or a match arm, its comma.
    fn after_item(&self, start: usize) -> usize {
        let is_import = self.starts_with(start, &["use"]);
        let is_item = ITEM_KEYWORDS
            .iter()
            .any(|keyword| self.starts_with(start, &[keyword]));
        let mut at = start;
        while let Some(token) = self.tokens.get(at) {
            match token.text.as_str() {
                ";" => return at + 1,
                "," if !is_item => return at + 1,
                "{" if !is_import => return self.after_group(at),
                "}" => return at,
                "(" | "[" | "{" => at = self.after_group(at),
                _ => at += 1,
            }
        }
        at
    }

    pub(crate) fn starts_with(&self, at: usize, text: &[&str]) -> bool {
        text.iter()
            .enumerate()
            .all(|(i, text)| self.tokens.get(at + i).is_some_and(|t| t.is(text)))
    }

    /// Gives the lines of everything below a `#[cfg(test)]` or `#[test]` their role.
    fn mark_tests(&mut self) {
        let mut at = 0;
        while at < self.tokens.len() {
            let inner = self.starts_with(at, &["#", "!", "["]);
            if !inner && !self.starts_with(at, &["#", "["]) {
                at += 1;
                continue;
            }
            let open = if inner { at + 2 } else { at + 1 };
            let end = self.after_group(open);
            if !self.asks_for_tests(open + 1, end - 1) {
                at = end;
            } else if inner {
                self.mark_all(Role::TestModule);
                return;
            } else {
                at = self.mark_item(at, end);
            }
        }
    }

    /// Whether the attribute between two tokens is `test`, or a `cfg` that holds in tests alone.
    fn asks_for_tests(&self, start: usize, end: usize) -> bool {
        let words: Vec<&str> = self.tokens[start..end]
            .iter()
            .map(|t| t.text.as_str())
            .collect();
        match words[..] {
            ["test"] => true,
            ["cfg", ..] => {
                let is_negated = words
                    .windows(3)
                    .any(|window| window == ["not", "(", "test"]);
                words.contains(&"test") && !words.contains(&"any") && !is_negated
            }
            _ => false,
        }
    }

    /// Marks the item whose attributes start at `start`, one of which ends before `at`.
    fn mark_item(&mut self, start: usize, mut at: usize) -> usize {
        while self.starts_with(at, &["#", "["]) {
            at = self.after_group(at + 1);
        }
        let mut keyword = at;
        while self.starts_with(keyword, &["pub"]) || self.starts_with(keyword, &["("]) {
            keyword = if self.tokens[keyword].is("(") {
                self.after_group(keyword)
            } else {
                keyword + 1
            };
        }
        let mut role = Role::TestSupport;
        if self.starts_with(keyword, &["mod"]) {
            let name = self.tokens[keyword + 1].text.clone();
            if name == "tests" || name.contains("loom") || name.contains("model") {
                role = Role::TestModule;
            }
            if self.starts_with(keyword + 2, &[";"]) {
                self.test_files.push((name, role));
            }
        }
        let end = self.after_item(keyword);
        let last = self.tokens[end - 1].line;
        self.roles[self.tokens[start].line..=last].fill(role);
        end
    }

    fn mark_all(&mut self, role: Role) {
        self.roles.fill(role);
    }
}

/// Every file below `src`, by path.
pub(crate) fn tree() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    read_directory(&root, "", &mut sources);
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(
        sources.iter().any(|source| source.path == "lib.rs"),
        "found no lib.rs below src"
    );
    mark_test_files(&mut sources);
    sources
}

fn read_directory(directory: &Path, prefix: &str, sources: &mut Vec<Source>) {
    for entry in fs::read_dir(directory).expect("src is readable") {
        let entry = entry.expect("src is readable").path();
        let name = entry
            .file_name()
            .and_then(|name| name.to_str())
            .expect("names are UTF-8");
        let path = format!("{prefix}{name}");
        if entry.is_dir() {
            read_directory(&entry, &format!("{path}/"), sources);
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&entry).expect("sources are UTF-8");
            sources.push(Source::parse(&path, &text));
        }
    }
}

/// Carries the role of `#[cfg(test)] mod name;` over to the file that it names and to those below.
fn mark_test_files(sources: &mut [Source]) {
    let mut marked = Vec::new();
    for source in sources.iter() {
        for (name, role) in &source.test_files {
            let mut module = source.module();
            module.push(name);
            marked.push((module.join("/"), *role));
        }
    }
    for source in sources {
        let module = source.module().join("/") + "/";
        for (prefix, role) in &marked {
            if module.starts_with(&format!("{prefix}/")) {
                source.mark_all(*role);
            }
        }
    }
}

/// What a rule found.
#[derive(Debug)]
pub(crate) struct Violation {
    path: String,
    line: usize,
    what: String,
}

impl Violation {
    /// `line` counts from 0, `what` says what stands there and what to do about it.
    pub(crate) fn new(source: &Source, line: usize, what: impl Into<String>) -> Violation {
        Violation {
            path: format!("src/{}", source.path),
            line,
            what: what.into(),
        }
    }

    /// A violation in a file outside `src`.
    pub(crate) fn elsewhere(path: &str, line: usize, what: impl Into<String>) -> Violation {
        Violation {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line + 1, self.what)
    }
}

/// Runs a rule over every file of `src`.
pub(crate) fn assert_holds(rule: &str, check: impl Fn(&Source) -> Vec<Violation>) {
    assert_none(rule, tree().iter().flat_map(check).collect());
}

/// Fails with one line per violation.
pub(crate) fn assert_none(rule: &str, violations: Vec<Violation>) {
    let lines: Vec<String> = violations.iter().map(|v| format!("\n  {v}")).collect();
    assert!(
        violations.is_empty(),
        "{} broken at {} places:{}",
        rule,
        lines.len(),
        lines.concat()
    );
}

/// The lines, counted from 1, that `check` complains about in a made-up file.
pub(crate) fn lines_refused(
    path: &str,
    text: &str,
    check: impl Fn(&Source) -> Vec<Violation>,
) -> Vec<usize> {
    check(&Source::parse(path, text))
        .iter()
        .map(|violation| violation.line + 1)
        .collect()
}

#[test]
fn test_code_is_told_from_library_code() {
    let text = "\
fn library() {}
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Helper { field: u8 }
#[cfg(not(test))]
fn library_too() {}
#[cfg(all(test, not(loom)))]
mod tests {}
#[cfg(all(test, loom))]
mod loom_models {
    fn model() {}
}
struct Probe { #[cfg(test)]
    count: u8,
    library: u8,
}
#[cfg(test)]
use std::{fmt, fs};
fn last() {}";
    let source = Source::parse("slab/page.rs", text);
    use Role::{Library as L, TestModule as M, TestSupport as S};
    assert_eq!(
        source.roles,
        [L, S, S, S, L, L, M, M, M, M, M, M, S, S, L, L, S, S, L]
    );
}

#[test]
fn a_test_module_in_a_file_of_its_own_is_test_code() {
    let mut sources = [
        Source::parse("slab/mod.rs", "#[cfg(test)]\nmod tests;\nmod page;"),
        Source::parse("slab/tests.rs", "fn t() {}"),
        Source::parse("slab/tests/recycle.rs", "fn t() {}"),
        Source::parse("slab/page.rs", "fn t() {}"),
    ];
    mark_test_files(&mut sources);
    let roles = sources.map(|source| source.role(0));
    use Role::{Library as L, TestModule as M};
    assert_eq!(roles, [M, M, M, L]);
}
