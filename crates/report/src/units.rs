//! Figures as people read them. No figure changes its meaning here: only unit, rounding and grouping.

pub use digest::text::commas;
pub(crate) use digest::text::{by_key, counted, each_once, grouped, list, plain, size, whole};
use model::quantity::Unit;
use std::collections::BTreeSet;

/// Microseconds with four significant digits, from nanoseconds: what tables hold. A histogram knows no more.
pub(crate) fn us(ns: f64) -> String {
    let us = ns / 1000.0;
    let decimals = match us.abs() {
        v if v < 9.9995 => 3,
        v if v < 99.995 => 2,
        v if v < 999.95 => 1,
        _ => 0,
    };
    format!("{us:.decimals$}")
}

/// As [`us`]; a dash where there is no figure.
pub(crate) fn us_or_dash(ns: Option<f64>) -> String {
    ns.map_or_else(|| "–".to_owned(), us)
}

/// Microseconds with one decimal below a millisecond, none above; a dash where there is no figure.
pub(crate) fn us_short(ns: Option<f64>) -> String {
    let us = ns.map(|ns| ns / 1000.0);
    us.map_or_else(|| "–".to_owned(), |us| if us < 999.95 { format!("{us:.1}") } else { format!("{us:.0}") })
}

/// Units of time, each with how many ns it is from where on.
const TIMES: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];

/// A value in the largest of some units that is not larger than it; `below` a unit by so little it counts as one.
fn scaled(value: f64, units: &[(f64, &'static str)], below: f64) -> (f64, &'static str) {
    let fits = |(size, _): &&(f64, &str)| value.abs() >= size * below;
    let (size, unit) = units.iter().rev().find(fits).or(units.first()).copied().unwrap_or((1.0, ""));
    (value / size, unit)
}

/// A span of time with the unit that suits it and about three significant digits: what sentences hold.
pub(crate) fn span(ns: f64) -> String {
    let (value, unit) = scaled(ns, &TIMES, 1.0);
    format!("{} {unit}", three_digits(value))
}

/// Two spans joined by a word, with one unit where they have the same: `5.46 to 5.94 µs`.
pub(crate) fn spans(a: f64, joint: &str, b: f64) -> String {
    let (first, second) = (span(a), span(b));
    match (first.split_once(' '), second.split_once(' ')) {
        (Some((value, unit)), Some((_, other))) if unit == other => format!("{value} {joint} {second}"),
        _ => format!("{first} {joint} {second}"),
    }
}

/// About three significant digits.
pub(crate) fn three_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Two decimals without trailing zeros.
fn short(value: f64) -> String {
    format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A span on an axis: no trailing zeros (`500 ns`, `2 µs`, `1.5 ms`).
pub(crate) fn tick(ns: f64) -> String {
    let (value, unit) = scaled(ns, &TIMES, 0.9995);
    if ns == 0.0 { "0".to_owned() } else { format!("{} {unit}", short(value)) }
}

/// A count on an axis (`0`, `500`, `10k`, `1.5M`; k is 1000).
pub(crate) fn count_tick(count: f64) -> String {
    let (value, unit) = scaled(count, &[(1.0, ""), (1e3, "k"), (1e6, "M")], 0.9995);
    short(value) + unit
}

/// Bits a second with the unit that suits them: `942 Mbit/s`.
pub(crate) fn bits(per_second: f64) -> String {
    let (value, unit) = scaled(per_second, &[(1.0, "bit/s"), (1e3, "kbit/s"), (1e6, "Mbit/s"), (1e9, "Gbit/s")], 1.0);
    format!("{} {unit}", three_digits(value))
}

/// A figure of a quantity with its unit, as sentences have it.
pub(crate) fn figure(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Ns => span(value),
        Unit::Us => format!("{} µs", three_digits(value)),
        Unit::Share => share(value),
        Unit::Percent => format!("{} %", three_digits(value)),
        Unit::PerSecond => format!("{}/s", number(value)),
        Unit::Bits => bits(value),
        Unit::PerMillion => format!("{} per million", number(value)),
        Unit::Bytes => format!("{} B", number(value)),
        Unit::Count | Unit::Number => number(value),
    }
}

/// A number that is counted, with as many digits as a person reads.
fn number(value: f64) -> String {
    if value < 100.0 { three_digits(value) } else { commas(whole(value)) }
}

/// A rate as it is: whole with groups, small ones with their fraction.
pub(crate) fn pps(rate: f64) -> String {
    if rate < 100.0 && rate.fract() != 0.0 { format!("{rate:.2}") } else { commas(whole(rate)) }
}

/// A share in percent, or in millionths where that would be zeros.
fn share(value: f64) -> String {
    let percent = value * 100.0;
    if percent == 0.0 {
        "0 %".to_owned()
    } else if percent.abs() < 0.01 {
        format!("{} ppm", three_digits(value * 1e6))
    } else {
        format!("{} %", three_digits(percent))
    }
}

/// A share in percent with as many digits as tell it from none and from all.
pub(crate) fn percent(part: f64, whole: f64) -> String {
    if whole <= 0.0 {
        return "– %".to_owned();
    }
    let percent = 100.0 * part / whole;
    let digits = (2..=6_usize).find(|&digits| {
        let shown = format!("{percent:.digits$}").parse::<f64>().unwrap_or(percent);
        (shown == 0.0) == (part == 0.0) && (shown == 100.0) == ((part - whole).abs() < f64::EPSILON * whole)
    });
    let digits = digits.unwrap_or(2);
    format!("{percent:.digits$} %")
}

/// The smallest and the largest of some counts: `3`, `3 to 5`; empty of none.
pub(crate) fn range(counts: impl IntoIterator<Item = usize>) -> String {
    let counts: BTreeSet<usize> = counts.into_iter().collect();
    match (counts.first(), counts.last()) {
        (Some(low), Some(high)) if low < high => format!("{low} to {high}"),
        (low, _) => low.map(ToString::to_string).unwrap_or_default(),
    }
}

/// A wall-clock time since 1970 for people: `2026-11-21 21:43:04 UTC`.
pub(crate) fn utc(ns: u64) -> String {
    let text = store::utc_text(ns);
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or("");
    let date = [part(0, 4), part(4, 6), part(6, 8)].join("-");
    format!("{date} {} UTC", [part(9, 11), part(11, 13), part(13, 15)].join(":"))
}

/// A text with a capital first letter.
pub(crate) fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

/// Escapes text for HTML and SVG, attributes included.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in model::text::visible(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_for_people() {
        let known = [5_912.34, 0.0, -41_459.0, 9_999.7, 116_250.0, 1_580_032.0, 999_960.0].map(us);
        assert_eq!(known, ["5.912", "0.000", "-41.46", "10.00", "116.2", "1580", "1000"]);
        assert_eq!(span(5_912.0), "5.91 µs");
        assert_eq!(span(50_140_000.0), "50.1 ms");
        assert_eq!(span(412.0), "412 ns");
        assert_eq!(spans(5_461.0, "to", 5_938.0), "5.46 to 5.94 µs");
        assert_eq!(spans(412.0, "and", 5_938.0), "412 ns and 5.94 µs");
        assert_eq!(tick(1_500_000.0), "1.5 ms");
        assert_eq!(tick(1_000.0), "1 µs");
        assert_eq!([0.0, 500.0, 10_000.0, 1_500_000.0].map(count_tick), ["0", "500", "10k", "1.5M"]);
        assert_eq!(bits(941.6e6), "942 Mbit/s");
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!((size(1472), size(65_536), size(0)), ("1472".to_owned(), "64k".to_owned(), "0".to_owned()));
        assert_eq!(utc(1_795_297_384_000_000_000), "2026-11-21 21:43:04 UTC");
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }

    #[test]
    fn a_finding_of_both_ends_is_named_once() {
        assert_eq!(each_once(["other-tasks", "steal", "other-tasks"]), ["other-tasks", "steal"]);
    }

    #[test]
    fn figures_say_their_unit() {
        assert_eq!(figure(Unit::Ns, 59_130.0), "59.1 µs");
        assert_eq!([0.0012, 0.0, 0.000_02].map(|value| figure(Unit::Share, value)), ["0.12 %", "0 %", "20.0 ppm"]);
        assert_eq!(figure(Unit::PerSecond, 19_999.6), "20,000/s");
        assert_eq!(
            (figure(Unit::Bits, 942.3e6), figure(Unit::Us, 1.5)),
            ("942 Mbit/s".to_owned(), "1.50 µs".to_owned())
        );
        assert_eq!(
            [0.0, 0.5, 12_345.4].map(|value| figure(Unit::PerMillion, value)),
            ["0 per million", "0.50 per million", "12,345 per million"]
        );
    }

    #[test]
    fn nothing_from_outside_becomes_markup_or_steers_a_terminal() {
        assert_eq!(escape("<script>\"'&\u{1b}\u{202e}"), "&lt;script&gt;&quot;&#39;&amp;\\u001b\\u202e");
        assert_eq!(plain("a\u{1b}[31m\nb"), "a\\u001b[31m b");
    }
}
