//! Numbers that somebody may want to tune stand in one file.

use super::{
    CONSTANT_FILES,
    source::{Source, Violation, assert_holds, lines_refused},
};

const NUMERIC_TYPES: &[&str] = &[
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32",
    "f64", "Duration",
];

/// Refuses a constant of a numeric type with a number in its value. Zero and one are sentinels rather
/// than knobs, and so is what is made of other constants alone.
fn check(source: &Source) -> Vec<Violation> {
    if source.is_among(CONSTANT_FILES) {
        return Vec::new();
    }
    let generic = generic_bodies(source);
    let mut violations = Vec::new();
    for at in 0..source.tokens.len() {
        let Some((name, value)) = numeric_item(source, at) else {
            continue;
        };
        let line = source.tokens[at].line;
        if !source.is_library(line)
            || generic
                .iter()
                .any(|(start, end)| (*start..*end).contains(&at))
        {
            continue;
        }
        let is_duration = source.tokens[at + 3].is("Duration");
        let mut end = value;
        while source.tokens.get(end).is_some_and(|token| !token.is(";")) {
            let token = &source.tokens[end];
            if token.is_number() && (is_duration || !is_zero_or_one(&token.text)) {
                let what = format!(
                    "`{name}` is a number with a name; move it to src/tuning.rs, or, if it lays out a \
                     packed word, list the file in CONSTANT_FILES of tests/layering.rs"
                );
                violations.push(Violation::new(source, line, what));
                break;
            }
            end += 1;
        }
    }
    violations
}

/// The name and the first token of the value, if `const NAME: u32 = value` or a static starts at `at`.
fn numeric_item(source: &Source, at: usize) -> Option<(&str, usize)> {
    let token = &source.tokens[at];
    // `<const N: usize>` is a parameter.
    let is_parameter = at > 0 && matches!(source.tokens[at - 1].text.as_str(), "<" | ",");
    if !(token.is("const") || token.is("static")) || is_parameter {
        return None;
    }
    let [name, colon, kind, equals] = source.tokens.get(at + 1..at + 5)? else {
        return None;
    };
    let is_numeric = colon.is(":") && NUMERIC_TYPES.contains(&kind.text.as_str()) && equals.is("=");
    is_numeric.then_some((name.text.as_str(), at + 5))
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
static SEED: u64 = 0x9e37;";
    assert_eq!(lines_refused("queue/mod.rs", text, check), [1, 2, 3, 4]);
    assert_eq!(lines_refused("tuning.rs", text, check), [0; 0]);
    assert_eq!(lines_refused("slab/state.rs", text, check), [0; 0]);
}

#[test]
fn sentinels_parameters_and_derived_constants_pass() {
    let text = "\
const EMPTY: u64 = 0u64;
const FULL: usize = tuning::BATCH - 1;
struct Ring<const N: usize, const M: usize = 4>;
impl<T> Page<T> { const SLOTS: usize = 4096 / size_of::<T>(); }
const fn f(x: *const u8) -> u8 { 7 }
#[cfg(test)]
const ROUNDS: usize = 1_000;";
    assert_eq!(lines_refused("slab/page.rs", text, check), [0; 0]);
}
