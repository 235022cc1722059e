//! The comparison in sentences, each as strong as its evidence and no stronger.

use super::evidence::{LEVEL, repetitions_needed};
use super::gate::{Gate, Limit};
use super::metric::{Metric, Unit};
use super::{CellSide, Comparison, MetricComparison, Outcome};
use crate::names::{axis_title, measured_on};
use crate::units::{counted, list};
use model::LatencyKind;
use std::collections::{BTreeMap, BTreeSet};

/// A percentage with as many digits as it needs.
pub(super) fn percent(share: f64) -> String {
    let value = share.abs() * 100.0;
    match value {
        v if v < 0.095 => format!("{v:.2} %"),
        v if v < 9.95 => format!("{v:.1} %"),
        // Nothing falls by 100 %.
        v if (98.5..100.0).contains(&v) => format!("{:.1} %", v.min(99.9)),
        v => format!("{v:.0} %"),
    }
}

/// A change with its sign: `+12 %`, `−8 %`, `3.4 times`.
pub(super) fn change(ratio: f64) -> String {
    if ratio >= 3.0 {
        return format!("{ratio:.1} times");
    }
    let sign = if ratio >= 1.0 { "+" } else { "−" };
    format!("{sign}{}", percent(ratio - 1.0))
}

/// An interval of a ratio: `−3 to +5 %`.
fn ratio_interval([low, high]: [f64; 2]) -> String {
    if low >= 3.0 {
        return format!("{low:.1} to {high:.1} times");
    }
    let (first, second) = (change(low), change(high));
    let first = if second.ends_with(" %") { first.trim_end_matches(" %").to_owned() } else { first };
    format!("{first} to {second}")
}

fn signed(unit: Unit, value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "+" };
    match unit {
        // Shares are told in percentage points, so that nobody takes them for a change.
        Unit::Share => format!("{sign}{}", Unit::Share.figure(value.abs()).replace(" %", " points")),
        unit => format!("{sign}{}", unit.figure(value.abs())),
    }
}

/// Two ends of an interval, whose unit in words is said once.
fn to(low: &str, high: &str) -> String {
    let unit = [" points", " per million"].into_iter().find(|unit| high.ends_with(unit));
    let low = unit.and_then(|unit| low.strip_suffix(unit)).unwrap_or(low);
    format!("{low} to {high}")
}

/// The 95 % interval of what is compared: `−3 to +5 %`.
pub(super) fn bounds(figure: &MetricComparison, unit: Unit) -> Option<String> {
    match (figure.ratio_ci95, figure.difference_ci95) {
        (Some(interval), _) => Some(ratio_interval(interval)),
        (None, Some([low, high])) => Some(to(&signed(unit, low), &signed(unit, high))),
        (None, None) => None,
    }
}

/// The same as a clause.
fn interval(figure: &MetricComparison, unit: Unit) -> Option<String> {
    let text = bounds(figure, unit)?;
    let over = if figure.interval_over.as_deref() == Some("batches") {
        ", over the batches of one repetition each"
    } else {
        ""
    };
    Some(format!("95 % {text}{over}"))
}

/// The 95 % interval of a claim, whose verb says the direction: `8 to 15 %`.
fn extent(figure: &MetricComparison, unit: Unit) -> Option<String> {
    match (figure.ratio_ci95, figure.difference_ci95) {
        (Some([low, high]), _) if high <= 1.0 => {
            Some(format!("{} to {}", percent(high - 1.0).trim_end_matches(" %"), percent(low - 1.0)))
        }
        (Some([low, high]), _) if high < 3.0 => {
            Some(format!("{} to {}", percent(low - 1.0).trim_end_matches(" %"), percent(high - 1.0)))
        }
        (Some(interval), _) => Some(ratio_interval(interval)),
        (None, Some([low, high])) => {
            let mut ends = [low.abs(), high.abs()];
            ends.sort_by(f64::total_cmp);
            let [near, far] = ends.map(|end| signed(unit, end).trim_start_matches('+').to_owned());
            Some(to(&near, &far))
        }
        (None, None) => None,
    }
}

/// How large the effect is: `+12 %`, or the difference where ratios mean nothing.
pub(super) fn size(figure: &MetricComparison, unit: Unit) -> String {
    match figure.ratio {
        Some(ratio) if unit != Unit::Share => change(ratio),
        _ => signed(unit, figure.difference),
    }
}

pub(super) fn p_word(p: f64) -> String {
    if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") }
}

fn corrected(figure: &MetricComparison, tests: usize) -> String {
    let p = figure.p_corrected.map(p_word).unwrap_or_default();
    if tests > 1 { format!("{p} after correction for {tests} comparisons") } else { p }
}

fn repetitions(figure: &MetricComparison) -> String {
    let (a, b) = (figure.a_values.len(), figure.b_values.len());
    if (a, b) == (1, 1) { "1 repetition each".to_owned() } else { format!("{a} and {b} repetitions") }
}

/// What so few repetitions can reach, and how many could reach more.
fn limit_of(figure: &MetricComparison, sets: usize) -> String {
    let after = if sets > 1 { " after correction" } else { "" };
    format!(
        "{} cannot bring p below {:.2}{after}, {} each could",
        repetitions(figure),
        figure.smallest_p,
        repetitions_needed(sets)
    )
}

/// One figure of two cells.
pub(super) fn sentence(
    metric: Metric,
    kind: LatencyKind,
    names: &[String; 2],
    figure: &MetricComparison,
    tests: usize,
    sets: usize,
    incomplete: bool,
) -> String {
    let unit = metric.unit();
    let [a, b] = names;
    let what = metric.name(kind);
    let both = format!("{what} {} against {}", unit.figure(figure.b), unit.figure(figure.a));
    let bounds = interval(figure, unit).map(|text| format!(" ({text})")).unwrap_or_default();
    let (more, less) = metric.comparatives();
    let verb = if figure.difference > 0.0 { more } else { less };
    match figure.outcome {
        Outcome::Higher | Outcome::Lower => {
            let by = match figure.ratio {
                Some(ratio) if unit != Unit::Share && ratio < 3.0 => format!(" by {}", percent(ratio - 1.0)),
                Some(ratio) if unit != Unit::Share => format!(", {ratio:.1} times"),
                _ => format!(" by {}", signed(unit, figure.difference.abs()).trim_start_matches('+')),
            };
            let bounds = extent(figure, unit).map(|text| format!(" (95 % {text})")).unwrap_or_default();
            format!("{b} {verb} than {a}{by}{bounds}: {both}, {}.", corrected(figure, tests))
        }
        Outcome::NoDifference => {
            let most = match (figure.ratio_ci95, figure.difference_ci95) {
                (Some([low, high]), _) => {
                    let far = (high - 1.0).max(1.0 - low);
                    if high >= 3.0 { format!("{high:.1} times") } else { percent(far) }
                }
                (None, Some([low, high])) => signed(unit, high.max(-low).max(0.0)).trim_start_matches('+').to_owned(),
                (None, None) => "what one repetition scatters".to_owned(),
            };
            format!("No difference of {what} seen larger than {most}{bounds}: {both}.")
        }
        Outcome::Unclear => {
            let alone = figure.p.map(p_word).unwrap_or_default();
            let p = if tests > 1 { format!("{alone} alone, {}", corrected(figure, tests)) } else { alone };
            let why = if figure.p_corrected.is_some_and(|p| p > LEVEL) {
                "which chance may do"
            } else {
                "but the interval leaves room for none"
            };
            format!("Not clear: {both}, {}{bounds}, {why} ({p}).", size(figure, unit))
        }
        Outcome::TooFew => {
            let fewest = figure.a_values.len().min(figure.b_values.len());
            let why = if incomplete {
                "not every repetition has this figure".to_owned()
            } else if fewest < 2 {
                format!("{} cannot tell how far repetitions scatter", repetitions(figure))
            } else {
                limit_of(figure, sets)
            };
            format!("Too few repetitions to tell: {both}, {}{bounds}; {why}.", size(figure, unit))
        }
        Outcome::Same => match metric {
            Metric::Loss if figure.a == 0.0 => "No message was lost on either side.".to_owned(),
            _ => format!("The same {what} in every repetition: {}.", unit.figure(figure.a)),
        },
        Outcome::Untrusted => format!("Nothing is claimed, as repetitions cannot be trusted: {both}."),
    }
}

/// Why a pair of cells is excluded from claims.
pub(super) fn excluded(names: &[String; 2], a: &CellSide, b: &CellSide) -> String {
    let side = |name: &str, side: &CellSide| {
        format!("{name} has no repetition that can be trusted ({})", list(&side.findings))
    };
    // A side that has trusted repetitions says how many it left out; one that has none used all.
    let words: Vec<String> = [(&names[0], a), (&names[1], b)]
        .into_iter()
        .filter(|(_, own)| own.mark == crate::Mark::Invalid && own.left_out == 0)
        .map(|(name, own)| side(name, own))
        .collect();
    list(&words)
}

/// The comparison as a whole.
pub(super) fn summary(
    comparison: &Comparison,
    sets: usize,
    differing: &BTreeMap<String, (Option<String>, Option<String>)>,
) -> Vec<String> {
    let (a, b) = (&comparison.a, &comparison.b);
    let mut out = vec![opening(comparison, differing)];
    if a.substrate != b.substrate {
        out.push(format!(
            "The sides are of different substrates: {} was measured {} ({}), {} {} ({}). What differs between substrates is \
             part of every difference below.",
            a.name,
            measured_on(a.substrate),
            a.substrate,
            b.name,
            measured_on(b.substrate),
            b.substrate
        ));
    }
    let mixed: Vec<String> = ["size", "rate", "protocol", "probe"]
        .into_iter()
        .filter_map(|factor| match differing.get(factor)? {
            (Some(x), Some(y)) => Some(format!("{factor} {x} with {factor} {y}")),
            _ => None,
        })
        .collect();
    if !mixed.is_empty() {
        out.push(format!("Different messages are compared, as asked for: {}.", list(&mixed)));
    }
    let identical =
        comparison.cells.iter().all(|cell| cell.metrics.iter().all(|figure| figure.a_values == figure.b_values));
    if identical && comparison.interleaved {
        out.push("Both sides are the same results.".to_owned());
    }
    if !(identical && comparison.interleaved) {
        out.extend(headlines(comparison, sets));
        out.extend(tally(comparison, sets));
    }
    out.extend(untrusted(comparison));
    if !comparison.interleaved {
        out.push(
            "The runs were measured one after the other and not interleaved: what else changed in between (temperature, \
             neighbours, other work) is part of every difference, and no test can tell it from what was meant to differ."
                .to_owned(),
        );
    }
    out
}

fn opening(comparison: &Comparison, differing: &BTreeMap<String, (Option<String>, Option<String>)>) -> String {
    let (a, b) = (&comparison.a, &comparison.b);
    let repetitions: BTreeSet<usize> =
        comparison.cells.iter().flat_map(|cell| [cell.a.repetitions, cell.b.repetitions]).collect();
    let times = match (repetitions.first(), repetitions.last()) {
        (Some(low), Some(high)) if low == high => format!(", {} a side", counted(*low, "repetition")),
        (Some(low), Some(high)) => format!(", {low} to {high} repetitions a side"),
        _ => String::new(),
    };
    let factors: BTreeSet<&String> = comparison.cells.iter().flat_map(|cell| cell.factors.keys()).collect();
    let varying: Vec<String> = factors
        .into_iter()
        .filter(|name| comparison.cells.iter().map(|cell| cell.factors.get(*name)).collect::<BTreeSet<_>>().len() > 1)
        .cloned()
        .collect();
    let over = if varying.is_empty() { String::new() } else { format!(", matched by {}", list(&varying)) };
    let cells = counted(comparison.cells.len(), "pair");
    let both = if comparison.interleaved {
        format!("{} against {} in {}", b.name, a.name, a.run)
    } else {
        let others: Vec<String> = differing
            .iter()
            .map(|(factor, (x, y))| {
                let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
                format!("{} {} and {}", axis_title(factor), word(x), word(y))
            })
            .collect();
        let apart = if others.is_empty() { String::new() } else { format!(" ({})", others.join("; ")) };
        format!("{} = {} against {} = {}{apart}", b.name, b.run, a.name, a.run)
    };
    format!("{both}: {cells} of cells{over}{times}.")
}

fn metric(figure: &MetricComparison) -> Option<Metric> {
    figure.metric.parse().ok()
}

/// What is said of all cells together, else of the cells themselves: the sure differences first, by size.
fn headlines(comparison: &Comparison, sets: usize) -> Vec<String> {
    const MOST: usize = 6;
    let all: Vec<(&str, &MetricComparison)> = comparison
        .cells
        .iter()
        .flat_map(|cell| cell.metrics.iter().map(|figure| (cell.label.as_str(), figure)))
        .collect();
    let headline = |(_, figure): &(&str, &MetricComparison)| metric(figure).is_some_and(Metric::is_headline);
    let whole: Vec<(&str, &MetricComparison)> = comparison
        .overall
        .iter()
        .flat_map(|overall| overall.metrics.iter().map(|figure| (overall.label.as_str(), figure)))
        .filter(headline)
        .collect();
    let single = comparison.cells.len() == 1;
    let mut shown: Vec<(&str, &MetricComparison)> =
        if single { all.iter().copied().filter(headline).collect() } else { whole };
    shown.retain(|(_, figure)| figure.outcome != Outcome::Same);
    let mut out: Vec<String> = Vec::new();
    let word = |label: &str, sentence: &str| if single { sentence.to_owned() } else { told(label, sentence) };
    out.extend(
        shown.iter().filter(|(_, figure)| figure.outcome != Outcome::TooFew).map(|(label, f)| word(label, &f.sentence)),
    );
    let few: Vec<(&str, &MetricComparison)> =
        shown.into_iter().filter(|(_, figure)| figure.outcome == Outcome::TooFew).collect();
    out.extend(too_few(&few, sets, single));
    if !single {
        let mut sure: Vec<(&str, &MetricComparison)> = all
            .iter()
            .copied()
            .filter(headline)
            .filter(|(_, figure)| matches!(figure.outcome, Outcome::Higher | Outcome::Lower))
            .collect();
        let size = |figure: &MetricComparison| figure.ratio.map_or(f64::INFINITY, |ratio| ratio.ln().abs());
        sure.sort_by(|a, b| size(b.1).total_cmp(&size(a.1)));
        let rest = sure.len().saturating_sub(MOST);
        out.extend(sure.into_iter().take(MOST).map(|(label, figure)| told(label, &figure.sentence)));
        if rest > 0 {
            out.push(format!("{} more of single cells are in the tables.", counted(rest, "sure difference")));
        }
    }
    let losses: Vec<&MetricComparison> =
        all.iter().map(|(_, figure)| *figure).filter(|figure| metric(figure) == Some(Metric::Loss)).collect();
    if !losses.is_empty() && losses.iter().all(|figure| figure.a == 0.0 && figure.b == 0.0) {
        out.push("No message was lost on either side.".to_owned());
    }
    out
}

/// What too few repetitions show, told at once: as measured, and claimed by nobody.
fn too_few(few: &[(&str, &MetricComparison)], sets: usize, single: bool) -> Option<String> {
    let (_, first) = few.first()?;
    let why = if first.a_values.len().min(first.b_values.len()) < 2 {
        format!("{} cannot tell how far repetitions scatter", repetitions(first))
    } else {
        limit_of(first, sets)
    };
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for (label, figure) in few {
        let unit = metric(figure).map_or(Unit::Time, Metric::unit);
        let bounds = interval(figure, unit).map(|text| format!(" ({text})")).unwrap_or_default();
        let word = format!("{} {}{bounds}", figure.metric, size(figure, unit));
        match groups.last_mut() {
            Some((last, words)) if last == label => words.push(word),
            _ => groups.push((label, vec![word])),
        }
    }
    let groups: Vec<String> = groups
        .into_iter()
        .map(|(label, words)| if single { words.join(", ") } else { format!("{label} {}", words.join(", ")) })
        .collect();
    Some(format!(
        "Too few repetitions to tell: {why}. As measured, and not to be told from chance: {}.",
        groups.join("; ")
    ))
}

fn told(label: &str, sentence: &str) -> String {
    let mut letters = label.chars();
    let label: String = letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect());
    format!("{label}: {sentence}")
}

/// How many comparisons came to what.
fn tally(comparison: &Comparison, sets: usize) -> Option<String> {
    let figures: Vec<&MetricComparison> = comparison.cells.iter().flat_map(|cell| &cell.metrics).collect();
    let count = |wanted: &[Outcome]| figures.iter().filter(|figure| wanted.contains(&figure.outcome)).count();
    let compared = figures.len() - count(&[Outcome::Same, Outcome::Untrusted]);
    if compared == 0 || comparison.cells.len() == 1 {
        return None;
    }
    let mut parts = vec![
        format!("{} differ for sure", count(&[Outcome::Higher, Outcome::Lower])),
        format!("in {} no difference was seen", count(&[Outcome::NoDifference])),
    ];
    let (unclear, few) = (count(&[Outcome::Unclear]), count(&[Outcome::TooFew]));
    if unclear > 0 {
        parts.push(format!("{unclear} are not clear"));
    }
    if few > 0 {
        parts.push(format!(
            "{few} have too few repetitions to tell (for so many at once, {} a side are needed)",
            counted(repetitions_needed(sets), "repetition")
        ));
    }
    Some(format!("Of {compared} figures of single cells {}.", list(&parts)))
}

/// Cells whose verdicts leave something out or differ.
fn untrusted(comparison: &Comparison) -> Vec<String> {
    let mut out = Vec::new();
    for cell in &comparison.cells {
        if let Some(why) = &cell.excluded {
            out.push(format!("Excluded from claims: {}: {why}.", cell.label));
            continue;
        }
        let left: Vec<String> = [(&comparison.a, &cell.a), (&comparison.b, &cell.b)]
            .into_iter()
            .filter(|(_, side)| side.left_out > 0)
            .map(|(side, own)| format!("{} of {}", counted(own.left_out, "repetition"), side.name))
            .collect();
        if !left.is_empty() {
            out.push(format!("{}: {} left out, as they cannot be trusted.", cell.label, list(&left)));
        }
    }
    let few = model::FindingId::FewSamples.word();
    let mut only: BTreeMap<(String, String), usize> = BTreeMap::new();
    for cell in &comparison.cells {
        for (side, own, other) in [(&comparison.a, &cell.a, &cell.b), (&comparison.b, &cell.b, &cell.a)] {
            for finding in own.findings.iter().filter(|finding| **finding != few && !other.findings.contains(finding)) {
                *only.entry((side.name.clone(), finding.clone())).or_default() += 1;
            }
        }
    }
    let words: Vec<String> = only
        .into_iter()
        .map(|((side, finding), cells)| format!("{finding} only in {side} ({})", counted(cells, "cell")))
        .collect();
    if !words.is_empty() {
        out.push(format!("The verdicts differ: {}.", words.join("; ")));
    }
    out
}

/// What became of a gate in one cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged {
    pub(super) holds: bool,
    pub(super) broken: bool,
    pub(super) significant: bool,
    /// Whether the interval lies beyond the limit as a whole.
    pub(super) beyond: bool,
    pub(super) interval: Option<[f64; 2]>,
}

/// A gate in one cell.
pub(super) fn gate(gate: &Gate, figure: &MetricComparison, kind: LatencyKind, label: &str, judged: Judged) -> String {
    let unit = gate.metric.unit();
    let value = match gate.limit {
        Limit::Own(_) => unit.figure(figure.b),
        Limit::Change(_) => {
            format!("{} ({} against {})", size(figure, unit), unit.figure(figure.b), unit.figure(figure.a))
        }
        Limit::Difference(_) => {
            format!("{} ({} against {})", signed(unit, figure.difference), unit.figure(figure.b), unit.figure(figure.a))
        }
    };
    let head = format!("{label}: {} {value}", gate.metric.name(kind));
    if !judged.holds {
        return format!("{head}: kept.");
    }
    let bounds = match (gate.limit, judged.interval) {
        (_, None) => "no interval".to_owned(),
        (Limit::Change(_), Some([low, high])) => format!("95 % {}", ratio_interval([1.0 + low, 1.0 + high])),
        (Limit::Difference(_), Some([low, high])) => format!("95 % {}", to(&signed(unit, low), &signed(unit, high))),
        (Limit::Own(_), Some([low, high])) => format!("95 % {}", to(&unit.figure(low), &unit.figure(high))),
    };
    let evidence = match (judged.significant, judged.beyond) {
        (true, true) => "the evidence is significant, and its interval lies beyond the limit as a whole",
        (true, false) => "that there is a difference is significant, but its interval reaches back over the limit",
        (false, _) if figure.outcome == Outcome::TooFew => "too few repetitions to tell it from chance",
        (false, true) => "the interval lies beyond the limit, but the test does not tell the difference from chance",
        (false, false) => "the evidence is not significant",
    };
    let p = match (gate.limit, figure.p_corrected) {
        (Limit::Own(_), _) | (_, None) => String::new(),
        (_, Some(_)) if figure.outcome == Outcome::TooFew => String::new(),
        (_, Some(p)) => format!(", {}", p_word(p)),
    };
    let fate = if judged.broken { "broken" } else { "not counted as broken" };
    format!("{head}: {fate}; {evidence} ({bounds}{p}).")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_as_people_say_them() {
        assert_eq!([1.12, 0.92, 1.004, 3.4].map(change), ["+12 %", "−8.0 %", "+0.4 %", "3.4 times"].map(str::to_owned));
        assert_eq!(ratio_interval([0.97, 1.05]), "−3.0 to +5.0 %");
        assert_eq!(ratio_interval([2.1, 3.4]), "+110 % to 3.4 times");
        assert_eq!(signed(Unit::Share, 0.005), "+0.50 points");
        assert_eq!((p_word(0.0004), p_word(0.0286)), ("p < 0.001".to_owned(), "p = 0.029".to_owned()));
    }
}
