//! The comparison in sentences, each as strong as its evidence and no stronger.

use crate::units::figure as figure_of;
use crate::units::{counted, list, range};
use digest::compare::{Comparison, KEPT, MetricComparison, Outcome, Over, Sample, Siblings, Side, repetitions_needed};
use digest::names::{axis_title, measured_on, varying};
use model::factor::capitalised;
use model::quantity::Unit;
use model::{LatencyKind, Substrate};
use std::collections::{BTreeMap, BTreeSet};

/// What was compared, and five sentences.
pub(super) const ON_FIRST_SCREEN: usize = 6;

pub(crate) const FIGURES: &str = "A side's figure is the geometric mean over its repetitions (of shares the mean), and over its runs where it has several.";

pub(crate) fn title(metric: &str) -> &str {
    match metric {
        "stdev" => "jitter",
        other => other,
    }
}

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

/// From this ratio on a change is given as a factor and not in percent.
pub(super) const FACTOR: f64 = 3.0;

/// What sentences about one comparison have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) names: [&'a str; 2],
    /// Figures that were tested.
    pub(super) tests: usize,
    /// Sets of figures that were tested.
    pub(super) sets: usize,
    /// What corrected p-values are compared with.
    pub(super) level: f64,
    pub(super) sample: Sample,
    /// Whether figures are tested, or only described.
    pub(super) is_tested: bool,
}

/// A change with its sign: `+12 %`, `−8 %`, `3.4 times`.
pub(super) fn change(ratio: f64) -> String {
    if ratio >= FACTOR {
        return format!("{} times", factor(ratio));
    }
    let sign = if ratio >= 1.0 { "+" } else { "−" };
    format!("{sign}{}", percent(ratio - 1.0))
}

/// Whether a change with this interval is given as a factor: one sentence has one unit.
fn is_factor(ratio: f64, interval: Option<[f64; 2]>) -> bool {
    interval.map_or(ratio, |[_, high]| high.max(ratio)) >= FACTOR
}

/// An interval of a ratio: `−3.0 to +5.0 %`, `2.1 to 3.4 times`; both ends in one unit.
pub(super) fn ratio_interval([low, high]: [f64; 2]) -> String {
    if high >= FACTOR {
        return format!("{} to {} times", factor(low), factor(high));
    }
    format!("{} to {}", change(low).trim_end_matches(" %"), change(high))
}

/// A factor: `2.1`, below 1 with two digits after the point, and from 100 on without any.
fn factor(ratio: f64) -> String {
    let digits = match ratio {
        v if v < 0.95 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{ratio:.digits$}")
}

pub(super) fn signed(unit: Unit, value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "+" };
    match unit {
        // Shares are told in percentage points, so that nobody takes them for a change.
        Unit::Share => format!("{sign}{}", figure_of(Unit::Share, value.abs()).replace(" %", " points")),
        unit => format!("{sign}{}", figure_of(unit, value.abs())),
    }
}

/// Two ends of an interval, whose unit in words is said once.
pub(super) fn to(low: &str, high: &str) -> String {
    let unit = [" points", " per million"].into_iter().find(|unit| high.ends_with(unit));
    let low = unit.and_then(|unit| low.strip_suffix(unit)).unwrap_or(low);
    format!("{low} to {high}")
}

/// The 95 % interval of what is compared: `−3 to +5 %`.
pub(crate) fn bounds(figure: &MetricComparison) -> Option<String> {
    ends(figure, |interval| interval)
}

/// The 95 % interval of a claim, whose verb says the direction, from the nearer end: `8 to 15 %`.
pub(crate) fn extent(figure: &MetricComparison) -> Option<String> {
    let near_first = |[low, high]: [f64; 2]| if figure.difference > 0.0 { [low, high] } else { [high, low] };
    ends(figure, near_first).map(|text| text.replace(['+', '−'], ""))
}

fn ends(figure: &MetricComparison, order: impl Fn([f64; 2]) -> [f64; 2]) -> Option<String> {
    match (figure.ratio_ci95, figure.difference_ci95) {
        (Some(interval), _) => Some(ratio_interval(order(interval))),
        (None, Some(interval)) => {
            let [first, second] = order(interval).map(|end| signed(figure.quantity.unit(), end));
            Some(to(&first, &second))
        }
        (None, None) => None,
    }
}

/// The largest difference that the interval leaves possible.
pub(crate) fn most(figure: &MetricComparison) -> Option<String> {
    match (figure.ratio_ci95, figure.difference_ci95) {
        (Some([_, high]), _) if high >= FACTOR => Some(format!("{} times", factor(high))),
        (Some([low, high]), _) => Some(percent((high - 1.0).max(1.0 - low))),
        (None, Some([low, high])) => {
            let far = signed(figure.quantity.unit(), high.max(-low).max(0.0));
            Some(far.trim_start_matches('+').to_owned())
        }
        (None, None) => None,
    }
}

fn interval(figure: &MetricComparison) -> String {
    let over = match figure.over {
        Over::Batches => ", over the batches of one repetition each",
        Over::OneRun => ", over the repetitions of one run each",
        Over::Siblings => ", with the spread between runs",
        Over::Samples => "",
    };
    bounds(figure).map(|text| format!(" (95 % {text}{over})")).unwrap_or_default()
}

/// How large the effect is: `+12 %`, or the difference where ratios mean nothing.
pub(crate) fn size(figure: &MetricComparison) -> String {
    let unit = figure.quantity.unit();
    match figure.ratio {
        Some(ratio) if unit != Unit::Share && is_factor(ratio, figure.ratio_ci95) => format!("{} times", factor(ratio)),
        Some(ratio) if unit != Unit::Share => change(ratio),
        _ => signed(unit, figure.difference),
    }
}

pub(crate) fn p_word(p: f64) -> String {
    if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") }
}

fn corrected(figure: &MetricComparison, tests: usize) -> String {
    let p = figure.p_corrected.map(p_word).unwrap_or_default();
    if tests > 1 { format!("{p} after correction for {tests} comparisons") } else { p }
}

fn samples(figure: &MetricComparison, sample: Sample) -> String {
    let (a, b, word) = (figure.a_values.len(), figure.b_values.len(), sample.word());
    if (a, b) == (1, 1) { format!("1 {word} each") } else { format!("{a} and {b} {word}s") }
}

/// What so few samples can reach, and how many could reach more.
pub(super) fn limit_of(figure: &MetricComparison, sample: Sample, sets: usize, level: f64) -> String {
    let (few, word) = (samples(figure, sample), sample.word());
    if figure.incomplete {
        let lacking = format!("not every {word} has this figure ({few} have {})", figure.metric);
        return format!("{lacking}: measure longer (seconds)");
    }
    if figure.a_values.len().min(figure.b_values.len()) < 2 {
        return format!("{few} cannot show how far {word}s scatter, {} each could", stats::samples_needed(sets, level));
    }
    let after = if sets > 1 { " after correction" } else { "" };
    let needed = stats::samples_needed(sets, level);
    format!("{few} cannot bring p below {:.2}{after}, {needed} each could", figure.smallest_p)
}

pub(super) fn sentence(figure: &MetricComparison, kind: LatencyKind, context: Context<'_>) -> String {
    let (quantity, unit) = (figure.quantity.0, figure.quantity.unit());
    let Context { names: [a, b], tests, sets, level, sample, .. } = context;
    let what = figure.quantity.0.name(kind);
    let both = format!("{what} {} against {}", figure_of(unit, figure.b), figure_of(unit, figure.a));
    let bounds = interval(figure);
    let [more, less] = quantity.verbs;
    let verb = if figure.difference > 0.0 { more } else { less };
    match figure.outcome {
        Outcome::Higher | Outcome::Lower => {
            let size = size(figure);
            let by = if size.ends_with(" times") {
                format!(", {size}")
            } else {
                format!(" by {}", &size.trim_start_matches(['+', '−']))
            };
            let bounds = extent(figure).map(|text| format!(" (95 % {text})")).unwrap_or_default();
            format!("{b} {verb} than {a}{by}{bounds}: {both}, {}.", corrected(figure, tests))
        }
        Outcome::NoDifference => {
            let most = most(figure).unwrap_or_else(|| format!("what one {} scatters", sample.word()));
            format!("No difference of {what} seen larger than {most}{bounds}: {both}.")
        }
        Outcome::Unclear => {
            let alone = figure.p.map(p_word).unwrap_or_default();
            let p = if tests > 1 { format!("{alone} alone, {}", corrected(figure, tests)) } else { alone };
            let why = if figure.p_corrected.is_some_and(|p| p > level) {
                "not significant"
            } else {
                "but the interval includes zero"
            };
            format!("Not clear: {both}, {}{bounds}, {why} ({p}).", size(figure))
        }
        Outcome::TooFew => {
            let why = limit_of(figure, sample, sets, level);
            format!("{}, {}{bounds}: not decided, {why}.", capitalised(&both), size(figure))
        }
        Outcome::Same if figure.metric == "loss" && figure.a == 0.0 => "No message was lost on either side.".to_owned(),
        Outcome::Same => format!("The same {what} in every {}: {}.", sample.word(), figure_of(unit, figure.a)),
        Outcome::NotTested => {
            format!("Measured, not tested ({}): {both}, {}{bounds}.", samples(figure, sample), size(figure))
        }
        Outcome::Untrusted => format!("Nothing is claimed, as repetitions cannot be trusted: {both}."),
    }
}

/// What was compared, then effects, how far to trust them, and the rest; no effect pushes trust beyond [`ON_FIRST_SCREEN`].
pub(super) fn summary(comparison: &Comparison, siblings: &Siblings, context: Context<'_>) -> Vec<String> {
    let Context { sets, level, is_tested, .. } = context;
    let identical =
        comparison.cells.iter().all(|cell| cell.metrics.iter().all(|figure| figure.a_values == figure.b_values));
    let is_same = identical && comparison.interleaved;
    let mut effects = match (is_same, is_tested) {
        (true, _) => vec!["Both sides are the same results.".to_owned()],
        (false, true) => headlines(comparison, sets, level),
        (false, false) => Vec::new(),
    };
    let caveats = caveats(comparison, sets, siblings);
    let room = (ON_FIRST_SCREEN - 1).saturating_sub(caveats.len()).max(1);
    let further = effects.split_off(room.min(effects.len()));
    let mut out = vec![opening(comparison)];
    out.extend(effects.into_iter().chain(caveats).chain(further));
    if is_tested && !is_same {
        out.extend(tally(comparison, sets));
    }
    out
}

fn caveats(comparison: &Comparison, sets: usize, siblings: &Siblings) -> Vec<String> {
    let (a, b) = (&comparison.a, &comparison.b);
    let mut out: Vec<String> = one_run(comparison, sets, siblings).into_iter().collect();
    if !comparison.interleaved {
        out.push(
            "The sides were measured in different runs, not interleaved. Every difference includes what else changed in \
             between (temperature, neighbours, other work), and no test can separate it."
                .to_owned(),
        );
    }
    if a.substrate != b.substrate {
        out.push(format!(
            "The sides are of different substrates: {} was measured {} ({}), {} {} ({}). What differs between substrates is \
             part of every difference.",
            a.name,
            measured_on(a.substrate),
            a.substrate,
            b.name,
            measured_on(b.substrate),
            b.substrate
        ));
    }
    if a.substrate == Substrate::SimulatedTime && a.substrate == b.substrate {
        out.push(format!(
            "Both sides were measured {} ({}): the figures are no performance of any hardware.",
            measured_on(a.substrate),
            a.substrate
        ));
    }
    let mixed: Vec<String> = KEPT
        .into_iter()
        .filter_map(|name| Some(format!("{name} {} with {name} {}", a.factors.get(name)?, b.factors.get(name)?)))
        .collect();
    if !mixed.is_empty() {
        out.push(format!("Different messages are compared, as asked for: {}.", list(&mixed)));
    }
    out.extend(untrusted(comparison));
    out
}

fn one_run(comparison: &Comparison, sets: usize, siblings: &Siblings) -> Option<String> {
    if comparison.sample != Sample::Run || comparison.a.runs.len().min(comparison.b.runs.len()) > 1 {
        return None;
    }
    let used = comparison.cells.iter().flat_map(|cell| &cell.metrics).any(|figure| figure.over == Over::Siblings);
    let count = counted(siblings.groups.iter().map(Vec::len).sum::<usize>(), "other run");
    let spread = match (used, siblings.place.is_empty()) {
        (true, _) => format!(
            "Intervals include the spread between runs of this host, from {count} of the same plan in {}.",
            siblings.place
        ),
        (false, true) => "The spread between runs is not known: intervals are too narrow.".to_owned(),
        (false, false) => format!(
            "The spread between runs of this host is not known ({count} of the same plan in {}, 3 are needed): intervals \
             are too narrow.",
            siblings.place
        ),
    };
    let needed = repetitions_needed(sets);
    Some(format!(
        "One run a side: nothing is claimed, because repetitions of one run do not show how much runs differ. {spread} Measure {needed} runs a side (windhover campaign run PLAN --repeat-runs {needed}) and compare them \
         (windhover compare A1 A2 … --with B1 B2 …); or make what differs an axis of one plan, whose order mixes its values \
         (windhover compare RUN --axis FACTOR)."
    ))
}

fn opening(comparison: &Comparison) -> String {
    let (a, b) = (&comparison.a, &comparison.b);
    let times = match range(comparison.cells.iter().flat_map(|cell| [cell.a.repetitions, cell.b.repetitions])).as_str()
    {
        "" => String::new(),
        "1" => ", 1 repetition".to_owned(),
        several => format!(", {several} repetitions"),
    };
    let times = match (comparison.sample, comparison.a.runs.len(), comparison.b.runs.len()) {
        (Sample::Repetition, ..) => format!("{times} a side"),
        (Sample::Boot | Sample::Visit, ..) => {
            let boots = |figure: &MetricComparison| figure.a_values.len().min(figure.b_values.len());
            let boots = range(comparison.cells.iter().flat_map(|cell| cell.metrics.iter().map(boots)));
            format!(", {boots} {}s a side{times} of each cell on a side", comparison.sample.word())
        }
        (Sample::Run, a, b) if a == b => format!(", {} a side{times} of each cell on a side", counted(a, "run")),
        (Sample::Run, a, b) => format!(", {a} and {b} runs{times} of each cell on a side"),
    };
    let varying: Vec<String> = varying(comparison.cells.iter().map(|cell| &cell.factors)).into_iter().collect();
    let over = if varying.is_empty() { String::new() } else { format!(", matched by {}", list(&varying)) };
    let cells = counted(comparison.cells.len(), "pair");
    let both = if comparison.interleaved {
        format!("{} against {} in {}", b.name, a.name, a.run)
    } else {
        let word = |side: &Side, factor: &str| side.factors.get(factor).cloned().unwrap_or("none".to_owned());
        let differing: BTreeSet<&String> = a.factors.keys().chain(b.factors.keys()).collect();
        let others: Vec<String> = differing
            .into_iter()
            .map(|factor| format!("{} {} and {}", axis_title(factor), word(a, factor), word(b, factor)))
            .collect();
        let apart = if others.is_empty() { String::new() } else { format!(" ({})", others.join("; ")) };
        format!("{} = {} against {} = {}{apart}", b.name, b.run, a.name, a.run)
    };
    format!("{both}: {cells} of cells{over}{times}.")
}

type Labelled<'c> = (&'c str, &'c MetricComparison);

/// The significant differences of single cells by size: of the headline figures or, where there is none, of all.
fn claimed<'c>(mut figures: Vec<Labelled<'c>>, word: impl Fn(Labelled<'c>) -> String) -> Vec<String> {
    const MOST: usize = 3;
    figures.retain(|(_, figure)| figure.outcome.is_claim());
    if figures.iter().any(|(_, figure)| figure.quantity.is_headline()) {
        figures.retain(|(_, figure)| figure.quantity.is_headline());
    }
    let size = |figure: &MetricComparison| figure.ratio.map_or(f64::INFINITY, |ratio| ratio.ln().abs());
    figures.sort_by(|a, b| size(b.1).total_cmp(&size(a.1)));
    let rest = figures.len().saturating_sub(MOST);
    let mut out: Vec<String> = figures.into_iter().take(MOST).map(word).collect();
    if rest > 0 {
        out.push(format!("{} more of single cells are in the tables.", counted(rest, "significant difference")));
    }
    out
}

/// What is said of all cells together, else of the cells themselves: the significant differences first, by size.
fn headlines(comparison: &Comparison, sets: usize, level: f64) -> Vec<String> {
    let single = comparison.cells.len() == 1;
    let all = || comparison.sets().flat_map(|set| set.metrics.iter().map(move |figure| (set.label, figure)));
    let headline = |(_, figure): &Labelled<'_>| figure.quantity.is_headline();
    let overall: usize = comparison.overall.iter().map(|overall| overall.metrics.len()).sum();
    // Cells of several probes are not summed up: the first ones stand for them.
    let first: usize = comparison.cells.iter().take(2).map(|cell| cell.metrics.len()).sum();
    let spoken = if single { usize::MAX } else { overall.max(if overall == 0 { first } else { 0 }) };
    let word = |(label, figure): Labelled<'_>| match single {
        true => figure.sentence.clone(),
        false => format!("{}: {}", capitalised(label), figure.sentence),
    };
    let (few, shown): (Vec<Labelled<'_>>, Vec<Labelled<'_>>) = all()
        .take(spoken)
        .filter(headline)
        .filter(|(_, figure)| !matches!(figure.outcome, Outcome::Same | Outcome::Untrusted))
        .partition(|(_, figure)| figure.outcome == Outcome::TooFew);
    let mut out: Vec<String> = shown.into_iter().map(word).collect();
    if !single {
        out.extend(claimed(all().skip(spoken).collect(), word));
    }
    // More repetitions help the one, longer ones the other.
    let (short, few): (Vec<_>, Vec<_>) = few.into_iter().partition(|(_, figure)| figure.incomplete);
    out.extend([few, short].iter().filter_map(|few| too_few(few, comparison, (sets, level), single)));
    let mut losses = all().skip(overall).filter(|(_, figure)| figure.metric == "loss").peekable();
    if losses.peek().is_some() && losses.all(|(_, figure)| figure.a == 0.0 && figure.b == 0.0) {
        out.push("No message was lost on either side.".to_owned());
    }
    out
}

fn too_few(
    few: &[(&str, &MetricComparison)],
    comparison: &Comparison,
    (sets, level): (usize, f64),
    single: bool,
) -> Option<String> {
    let (_, first) = few.first()?;
    let sample = comparison.sample;
    let why = limit_of(first, sample, sets, level);
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for (label, figure) in few {
        let word = format!("{} {}{}", figure.metric, size(figure), interval(figure));
        match groups.last_mut() {
            Some((last, words)) if last == label => words.push(word),
            _ => groups.push((label, vec![word])),
        }
    }
    let groups: Vec<String> = groups
        .into_iter()
        .map(|(label, words)| if single { words.join(", ") } else { format!("{label} {}", words.join(", ")) })
        .collect();
    Some(format!("Measured, not decided: {}; {why}.", groups.join("; ")))
}

fn tally(comparison: &Comparison, sets: usize) -> Option<String> {
    let figures: Vec<&MetricComparison> = comparison.cells.iter().flat_map(|cell| &cell.metrics).collect();
    let count = |wanted: &[Outcome]| figures.iter().filter(|figure| wanted.contains(&figure.outcome)).count();
    let compared = figures.len() - count(&[Outcome::Same, Outcome::Untrusted]);
    if compared == 0 || comparison.cells.len() == 1 {
        return None;
    }
    let few = count(&[Outcome::TooFew]);
    let lacking = |figure: &&MetricComparison| figure.outcome == Outcome::TooFew && figure.incomplete;
    let short: BTreeSet<&str> = figures.iter().copied().filter(lacking).map(|figure| figure.metric.as_str()).collect();
    let lacked = figures.iter().copied().filter(lacking).count();
    let mut parts = vec![
        format!("{} differ significantly", count(&[Outcome::Higher, Outcome::Lower])),
        format!("{} show no difference", count(&[Outcome::NoDifference])),
        format!("{} are inconclusive", count(&[Outcome::Unclear]) + few),
    ];
    let word = comparison.sample.word();
    let mut why = Vec::new();
    if few > lacked {
        let needed = counted(repetitions_needed(sets), word);
        why.push(format!("{} for too few {word}s: so many at once need {needed} a side", few - lacked));
    }
    if lacked > 0 {
        let short: Vec<String> = short.into_iter().map(str::to_owned).collect();
        let short = list(&short);
        why.push(format!("{lacked} as not every {word} has {short}: measure longer (seconds)"));
    }
    if let (false, Some(last)) = (why.is_empty(), parts.last_mut()) {
        last.push_str(&format!(" ({})", why.join("; ")));
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
    let mut only: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for cell in &comparison.cells {
        for (side, own, other) in [(&comparison.a, &cell.a, &cell.b), (&comparison.b, &cell.b, &cell.a)] {
            for finding in own.findings.iter().filter(|finding| !other.findings.contains(finding)) {
                *only.entry((&side.name, finding)).or_default() += 1;
            }
        }
    }
    let word = |((side, finding), cells): ((&str, &str), usize)| {
        format!("{finding} only in {side} ({})", counted(cells, "cell"))
    };
    let words: Vec<String> = only.into_iter().map(word).collect();
    if !words.is_empty() {
        out.push(format!("The verdicts differ: {}.", words.join("; ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_as_people_say_them() {
        assert_eq!([1.12, 0.92, 1.004, 3.4].map(change), ["+12 %", "−8.0 %", "+0.4 %", "3.4 times"].map(str::to_owned));
        assert_eq!(ratio_interval([0.97, 1.05]), "−3.0 to +5.0 %");
        assert_eq!(ratio_interval([2.1, 3.4]), "2.1 to 3.4 times");
        assert_eq!(ratio_interval([0.8, 4.2]), "0.80 to 4.2 times");
        assert_eq!(signed(Unit::Share, 0.005), "+0.50 points");
        assert_eq!((p_word(0.0004), p_word(0.0286)), ("p < 0.001".to_owned(), "p = 0.029".to_owned()));
    }
}
