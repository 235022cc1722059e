//! Small words: counts and lists as sentences have them, each thing once.

use std::collections::BTreeMap;

/// Joins words as a sentence does: `a, b and c`.
pub fn list(words: &[String]) -> String {
    model::text::listed(words, "and")
}

/// Each of some things once, in the order found.
pub fn each_once<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for one in all {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    kept
}

/// Values by key, those of one key in the order found.
pub fn by_key<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, Vec<V>> {
    pairs.into_iter().fold(BTreeMap::new(), |mut all, (key, value)| {
        all.entry(key).or_insert_with(Vec::new).push(value);
        all
    })
}

/// The nearest whole number; 0 of what is below.
pub fn whole(value: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count; `as` saturates")]
    let whole = value.round().max(0.0) as u64;
    whole
}

/// A count in groups of three, separated by narrow no-break spaces: for HTML.
pub fn grouped(count: u64) -> String {
    in_threes(count, '\u{202f}')
}

/// A count in groups of three, separated by commas: for sentences.
pub fn commas(count: u64) -> String {
    in_threes(count, ',')
}

fn in_threes(count: u64, separator: char) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(separator);
        }
        out.push(digit);
    }
    out
}

/// A size in bytes as axis labels have it (`32`, `1k`, `64k`, `1M`).
pub fn size(bytes: u64) -> String {
    if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) {
        format!("{}M", bytes >> 20)
    } else if bytes >= 1024 && bytes.is_multiple_of(1024) {
        format!("{}k", bytes >> 10)
    } else {
        bytes.to_string()
    }
}

pub use model::text::counted;
/// What came from outside must not steer a terminal or break a table.
pub use model::text::visible_line as plain;
