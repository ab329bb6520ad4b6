//! Splits Rust text into code and comments, and code into tokens.

/// One line, split: what the compiler reads and what people read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// The code, without comments and without what stands inside string and character literals.
    pub(crate) code: String,
    /// The text of the line's comments, slashes included.
    pub(crate) comment: String,
}

/// A word, a number, `::` or one sign of punctuation, with its line, counted from 0.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Token {
    pub(crate) fn is(&self, text: &str) -> bool {
        self.text == text
    }

    pub(crate) fn is_word(&self) -> bool {
        self.text.starts_with(is_word_char) && !self.is_number()
    }

    pub(crate) fn is_number(&self) -> bool {
        self.text.starts_with(|c: char| c.is_ascii_digit())
    }
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Splits `text` into lines of code and comment.
pub(crate) fn split(text: &str) -> Vec<Line> {
    let mut splitter = Splitter {
        chars: text.chars().collect(),
        at: 0,
        lines: vec![Line::default()],
    };
    while splitter.at < splitter.chars.len() {
        splitter.step();
    }
    splitter.lines
}

/// Cuts the code of `lines` into tokens.
pub(crate) fn tokens(lines: &[Line]) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (line, text) in lines.iter().enumerate() {
        let mut rest = text.code.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = if is_word_char(first) {
                rest.find(|c| !is_word_char(c)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            let (token, after) = rest.split_at(length);
            tokens.push(Token {
                text: token.to_owned(),
                line,
            });
            rest = after.trim_start();
        }
    }
    tokens
}

struct Splitter {
    chars: Vec<char>,
    at: usize,
    lines: Vec<Line>,
}

impl Splitter {
    fn step(&mut self) {
        if self.looking_at("//") {
            while self.peek(0).is_some_and(|c| c != '\n') {
                self.comment();
            }
        } else if self.looking_at("/*") {
            self.block_comment();
        } else if let Some(hashes) = self.raw_string() {
            self.skip_raw_string(hashes);
        } else if self.looking_at("\"") {
            self.skip_quoted('"');
        } else if self.character_literal() {
            self.skip_quoted('\'');
        } else {
            self.code();
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn looking_at(&self, text: &str) -> bool {
        text.chars()
            .enumerate()
            .all(|(ahead, c)| self.peek(ahead) == Some(c))
    }

    fn last_line(&mut self) -> &mut Line {
        self.lines
            .last_mut()
            .expect("there is a line from the start")
    }

    /// Takes one character, and hands it back unless it ended the line.
    fn take(&mut self) -> Option<char> {
        let c = self.chars[self.at];
        self.at += 1;
        if c == '\n' {
            self.lines.push(Line::default());
            return None;
        }
        Some(c)
    }

    fn code(&mut self) {
        if let Some(c) = self.take() {
            self.last_line().code.push(c);
        }
    }

    fn comment(&mut self) {
        if let Some(c) = self.take() {
            self.last_line().comment.push(c);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.chars.len() {
            let (open, close) = (self.looking_at("/*"), self.looking_at("*/"));
            if open || close {
                self.comment();
            }
            self.comment();
            depth = if open { depth + 1 } else { depth };
            depth = if close { depth - 1 } else { depth };
            if depth == 0 {
                return;
            }
        }
    }

    /// If a raw string starts here (`r"`, `r#"`), how many hashes fence it.
    fn raw_string(&self) -> Option<usize> {
        let before = self.at.checked_sub(1).map(|at| self.chars[at]);
        let inside_a_word = before.is_some_and(|c| is_word_char(c) && c != 'b' && c != 'c');
        if self.peek(0) != Some('r') || inside_a_word {
            return None;
        }
        let hashes = self.chars[self.at + 1..]
            .iter()
            .take_while(|&&c| c == '#')
            .count();
        (self.peek(1 + hashes) == Some('"')).then_some(hashes)
    }

    fn skip_raw_string(&mut self, hashes: usize) {
        let end = format!("\"{}", "#".repeat(hashes));
        self.last_line().code.push_str("\"\"");
        self.at += 2 + hashes;
        while self.at < self.chars.len() && !self.looking_at(&end) {
            self.take();
        }
        self.at += end.len();
    }

    /// Whether the quote here opens a character and not a lifetime.
    fn character_literal(&self) -> bool {
        self.peek(0) == Some('\'') && (self.peek(1) == Some('\\') || self.peek(2) == Some('\''))
    }

    fn skip_quoted(&mut self, quote: char) {
        self.last_line().code.push_str("\"\"");
        self.at += 1;
        while let Some(c) = self.peek(0) {
            self.take();
            if c == quote {
                return;
            }
            if c == '\\' && self.peek(0).is_some() {
                self.take();
            }
        }
    }
}

fn code_of(text: &str) -> Vec<String> {
    split(text)
        .into_iter()
        .map(|line| line.code.trim().to_owned())
        .collect()
}

#[test]
fn strings_and_comments_are_no_code() {
    let text = "a(\"// no \\\" SeqCst\"); // SeqCst\nb('\"', '\\'', 'x); /* SeqCst\n*/ c(r#\"\"SeqCst\"#);";
    assert_eq!(
        code_of(text),
        ["a(\"\");", "b(\"\", \"\", 'x);", "c(\"\");"]
    );
    assert_eq!(split(text)[0].comment, "// SeqCst");
}

#[test]
fn lines_keep_their_numbers_through_long_literals() {
    assert_eq!(
        code_of("a(\"x\ny\"\n); /* /* \n */ */ b"),
        ["a(\"\"", "", ");", "b"]
    );
}

#[test]
fn tokens_keep_paths_apart_from_colons() {
    let found = tokens(&split("x: a::b<'_>\n= 1_0u8;"));
    let text: Vec<&str> = found.iter().map(|token| token.text.as_str()).collect();
    assert_eq!(
        text,
        [
            "x", ":", "a", "::", "b", "<", "'", "_", ">", "=", "1_0u8", ";"
        ]
    );
    assert_eq!(found[9].line, 1);
}
