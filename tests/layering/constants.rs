//! Numbers that somebody may want to tune stand in one file.

use super::{
    CONSTANT_FILES,
    lexer::Token,
    source::{Source, Violation, assert_holds, lines_refused},
};

const NUMERIC_TYPES: &[&str] = &[
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32",
    "f64", "Duration",
];

/// A constant or static of a numeric type.
struct Item<'a> {
    name: &'a str,
    kind: &'a str,
    line: usize,
    /// Its first token, its visibility included, and the token after its semicolon.
    start: usize,
    end: usize,
    value: &'a [Token],
}

/// Refuses a constant of a numeric type with a number in its value. Zero and one are sentinels rather
/// than knobs, and so is what is made of other constants alone, or counts the states of a word.
fn check(source: &Source) -> Vec<Violation> {
    if source.is_among(CONSTANT_FILES) {
        return Vec::new();
    }
    let generic = generic_bodies(source);
    let is_generic = |item: &Item| {
        generic
            .iter()
            .any(|(start, end)| (*start..*end).contains(&item.start))
    };
    let mut violations = Vec::new();
    let mut before: Option<(Item, Option<u64>)> = None;
    for item in (0..source.tokens.len()).filter_map(|at| numeric_item(source, at)) {
        let state = state_number(&item, before.as_ref());
        let is_knob = item.value.iter().any(|token| {
            token.is_number() && (item.kind == "Duration" || !is_zero_or_one(&token.text))
        });
        if is_knob && state.is_none() && source.is_library(item.line) && !is_generic(&item) {
            let what = format!(
                "`{}` is a number with a name; move it to src/tuning.rs, or, if it lays out a packed \
                 word, list the file in CONSTANT_FILES of tests/layering.rs",
                item.name
            );
            violations.push(Violation::new(source, item.line, what));
        }
        before = Some((item, state));
    }
    violations
}

/// The item that has its `const` or `static` at `at`, if it is numeric.
fn numeric_item(source: &Source, at: usize) -> Option<Item<'_>> {
    let token = &source.tokens[at];
    // `<const N: usize>` is a parameter.
    let is_parameter = at > 0 && matches!(source.tokens[at - 1].text.as_str(), "<" | ",");
    if !(token.is("const") || token.is("static")) || is_parameter {
        return None;
    }
    let [name, colon, kind, equals] = source.tokens.get(at + 1..at + 5)? else {
        return None;
    };
    if !colon.is(":") || !NUMERIC_TYPES.contains(&kind.text.as_str()) || !equals.is("=") {
        return None;
    }
    let after = &source.tokens[at + 5..];
    let value = &after[..after.iter().position(|token| token.is(";"))?];
    let visibility = source.tokens[..at]
        .iter()
        .rev()
        .take_while(|token| matches!(token.text.as_str(), "pub" | "(" | "crate" | "super" | ")"));
    Some(Item {
        name: &name.text,
        kind: &kind.text,
        line: token.line,
        start: at - visibility.count(),
        end: at + 5 + value.len() + 1,
        value,
    })
}

/// The item's number, if it counts states: it is 0, or one more than the state right before it.
fn state_number(item: &Item, before: Option<&(Item, Option<u64>)>) -> Option<u64> {
    let [value] = item.value else { return None };
    let number: u64 = value.text.parse().ok()?;
    let follows = before.is_some_and(|(before, state)| {
        before.end == item.start
            && before.kind == item.kind
            && state.map(|state| state + 1) == Some(number)
    });
    (number == 0 || follows).then_some(number)
}

/// The bodies of traits and generic impls, whose constants are told by their parameters.
fn generic_bodies(source: &Source) -> Vec<(usize, usize)> {
    let mut bodies = Vec::new();
    for at in 0..source.tokens.len() {
        if source.starts_with(at, &["trait"]) || source.starts_with(at, &["impl", "<"]) {
            let length = source.tokens[at..]
                .iter()
                .position(|t| t.is("{") || t.is(";"));
            let open = length.map_or(source.tokens.len(), |length| at + length);
            if source.starts_with(open, &["{"]) {
                bodies.push((open, source.after_group(open)));
            }
        }
    }
    bodies
}

fn is_zero_or_one(number: &str) -> bool {
    let plain = number.replace('_', "");
    let digits = NUMERIC_TYPES
        .iter()
        .find_map(|kind| plain.strip_suffix(kind))
        .unwrap_or(&plain);
    matches!(digits, "0" | "1")
}

#[test]
fn numbers_are_named_in_tuning() {
    assert_holds("the rule of constants is", check);
}

#[test]
fn a_knob_outside_tuning_is_refused() {
    let text = "\
const BATCH: usize = 64;
pub(crate) const DELAY: Duration = Duration::from_millis(1);
impl Queue { const LIMIT: u32 = 1 << 8; }
static SEED: u64 = 0x9e37;
const LOW: u8 = 0;
const HIGH: u8 = 2;
const ONE: u32 = 1;
const TWO: u32 = 2;";
    assert_eq!(
        lines_refused("queue/mod.rs", text, check),
        [1, 2, 3, 4, 6, 8]
    );
    assert_eq!(lines_refused("tuning.rs", text, check), [0; 0]);
    assert_eq!(lines_refused("slab/state.rs", text, check), [0; 0]);
}

#[test]
fn states_sentinels_parameters_and_derived_constants_pass() {
    let text = "\
const IDLE: u8 = 0;
pub(super) const BUSY: u8 = 1;
/// Nobody's.
pub(super) const GONE: u8 = 2;
const EMPTY: u64 = 0u64;
const FULL: usize = tuning::BATCH - 1;
struct Ring<const N: usize, const M: usize = 4>;
impl<T> Page<T> { const SLOTS: usize = 4096 / size_of::<T>(); }
const fn f(x: *const u8) -> u8 { 7 }
#[cfg(test)]
const ROUNDS: usize = 1_000;";
    assert_eq!(lines_refused("slab/page.rs", text, check), [0; 0]);
}
