//! From matched cells to outcomes: figures, tests, and the correction for many of them.

use super::evidence::{self, Effect, FEWEST, LEVEL, RESOLUTION};
use super::sides::{self, Cells, Matched, Pair, SideCell, Where};
use super::words::Context;
use super::{
    CellComparison, CellSide, CompareError, CompareOptions, Comparison, Comparisons, Metric, MetricComparison, Outcome,
    Overall, Sample, Side, differs, held, words,
};
use crate::RunInput;
use crate::cells::{mark, scale};
use crate::idle::faster_under_load;
use crate::names::{axis_title, is_baseline};
use crate::units::plain;
use model::{LatencyKind, Probe, ResultDocument};
use std::collections::{BTreeMap, BTreeSet};

/// The figures of one cell (or of all together) before the correction is known.
#[derive(Debug, Clone)]
struct Draft {
    metric: Metric,
    a: Vec<f64>,
    b: Vec<f64>,
    /// The second side in each of its own samples, see [`MetricComparison::b_own`].
    b_own: Vec<f64>,
    effect: Effect,
    over: Over,
    /// p alone, and corrected for the figures of the same cell; absent where nothing was tested.
    p: Option<(f64, f64)>,
    /// Whether a sample lacks the figure.
    incomplete: bool,
}

/// What an interval is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    /// The samples of both sides.
    Samples,
    /// The repetitions of one run each; how far runs lie apart is not known.
    OneRun,
    /// The same, and the spread between siblings.
    Siblings,
    /// The batches of one repetition each.
    Batches,
}

impl Over {
    fn word(self, sample: Sample) -> &'static str {
        match (self, sample) {
            (Self::Samples, Sample::Repetition) => "repetitions",
            (Self::Samples, Sample::Run) => "runs",
            (Self::OneRun, _) => "repetitions of one run each",
            (Self::Siblings, _) => "one run each and its siblings",
            (Self::Batches, _) => "batches",
        }
    }
}

/// A set of drafts that was tested at once.
#[derive(Debug, Clone, Default)]
struct Drafts {
    figures: Vec<Draft>,
    excluded: bool,
}

impl Drafts {
    fn tests(&self) -> usize {
        self.figures.iter().filter(|draft| draft.p.is_some()).count()
    }
}

/// How p-values are corrected over all sets.
#[derive(Debug, Clone, Copy)]
struct Family {
    /// Sets that have a test.
    sets: usize,
    /// Figures that were tested.
    tests: usize,
}

/// Two sides before the correction is known.
struct Prepared<'a> {
    /// The first run of the first side.
    run: &'a RunInput,
    a: Side,
    b: Side,
    interleaved: bool,
    sample: Sample,
    differences: Vec<super::Difference>,
    matched: Matched<'a>,
    cells: Vec<Drafts>,
    overall: Vec<(String, Vec<usize>, LatencyKind, Drafts)>,
}

/// See [`Comparisons::new`].
pub(super) fn compare(a: &[RunInput], b: &[RunInput], options: &CompareOptions) -> Result<Comparisons, CompareError> {
    let left = sides::of_runs(a).ok_or(CompareError::OneSide)?;
    let right = sides::of_runs(b);
    let prepared = match (&options.axis, &right) {
        (Some(_), Some(_)) => return Err(CompareError::AxisOfTwo),
        (_, None) if a.len() > 1 => return Err(CompareError::NoSecondSide),
        (Some(_), None) if !options.wheres_b.is_empty() => return Err(CompareError::AxisOfTwo),
        (Some(axis), None) => of_axis(&left, axis, options)?,
        (None, Some(right)) => {
            once_each(a, b)?;
            vec![of_two(&left, right, ["A", "B"], options)?]
        }
        (None, None) => vec![of_one(&left, options)?],
    };
    let title = match (&options.axis, &right) {
        (Some(axis), _) => format!("{}: {} compared", left.name(), plain(axis)),
        (None, Some(right)) => format!("{} against {}", right.name(), left.name()),
        (None, None) => format!("Cells of {} compared", left.name()),
    };
    finish(prepared, title, options)
}

/// With several runs a side each is named once; a single run may be compared with itself.
fn once_each(a: &[RunInput], b: &[RunInput]) -> Result<(), CompareError> {
    let all: Vec<&RunInput> = a.iter().chain(b).collect();
    let twice = all.iter().enumerate().find(|(place, run)| all.iter().skip(place + 1).any(|other| other == *run));
    match twice {
        Some((_, run)) if all.len() > 2 => Err(CompareError::Both { run: plain(&run.name) }),
        _ => Ok(()),
    }
}

/// See [`Comparisons::for_report`].
pub(super) fn for_report(runs: &[RunInput], rtt: bool) -> Vec<Comparisons> {
    let options = CompareOptions { rtt, baseline_only: true, ..CompareOptions::default() };
    let Some((first, rest)) = runs.split_first() else { return Vec::new() };
    let Some(left) = sides::of_runs(std::slice::from_ref(first)) else { return Vec::new() };
    if !rest.is_empty() {
        let prepared = rest
            .iter()
            .zip('B'..='Z')
            .filter_map(|(run, letter)| {
                let right = sides::of_runs(std::slice::from_ref(run))?;
                of_two(&left, &right, ["A", &letter.to_string()], &options).ok()
            })
            .collect();
        return finish(prepared, "The runs compared".to_owned(), &options).into_iter().collect();
    }
    // What a reader asks first comes first; each axis is a question of its own, corrected by itself.
    let first_asked = ["load", "shield", "policy", "stack", "receive", "knob", "os", "nic"];
    let place = |axis: &String| first_asked.iter().position(|name| name == axis).unwrap_or(first_asked.len());
    let mut axes: Vec<String> = left
        .factors()
        .into_iter()
        .filter(|axis| !["probe", "protocol", "size", "rate"].contains(&axis.as_str()) && left.values(axis).len() > 1)
        .collect();
    axes.sort_by_key(place);
    axes.iter()
        .filter_map(|axis| {
            let prepared = of_axis(&left, axis, &options).ok()?;
            let title = format!("What {} is worth", plain(&axis_title(axis).to_lowercase()));
            finish(prepared, title, &options).ok()
        })
        .filter(|comparisons| !comparisons.comparisons.is_empty())
        .collect()
}

fn named(options: &CompareOptions) -> BTreeSet<String> {
    let of = |wheres: &[Where]| wheres.iter().map(|(factor, _)| factor.clone()).collect::<BTreeSet<_>>();
    of(&options.wheres).intersection(&of(&options.wheres_b)).cloned().collect()
}

/// The filters of the second side: its own, and those of the first that it does not replace.
fn second(options: &CompareOptions) -> Vec<Where> {
    let own: BTreeSet<&String> = options.wheres_b.iter().map(|(factor, _)| factor).collect();
    let inherited = options.wheres.iter().filter(|(factor, _)| !own.contains(factor)).cloned();
    inherited.chain(options.wheres_b.iter().cloned()).collect()
}

/// All values of an axis of one run with each other, or each with the baseline.
fn of_axis<'a>(run: &Cells<'a>, axis: &str, options: &CompareOptions) -> Result<Vec<Prepared<'a>>, CompareError> {
    let run = run.filtered(&options.wheres)?;
    let values = run.ranked(axis);
    match values.as_slice() {
        [] => {
            return Err(CompareError::Factor {
                factor: axis.to_owned(),
                run: plain(&run.run.name),
                known: run.factors().into_iter().collect::<Vec<_>>().join(", "),
            });
        }
        [one] => {
            return Err(CompareError::OneValue {
                axis: axis.to_owned(),
                value: one.clone(),
                run: plain(&run.run.name),
            });
        }
        _ => {}
    }
    let base = values.iter().position(|value| is_baseline(axis, value)).unwrap_or(0);
    let mut out = Vec::new();
    for (index, first) in values.iter().enumerate() {
        if options.baseline_only && index != base {
            continue;
        }
        for second in values
            .iter()
            .enumerate()
            .filter(|(other, _)| if options.baseline_only { *other != index } else { *other > index })
        {
            let side = |value: &str| run.filtered(&[(axis.to_owned(), value.to_owned())]);
            let (a, b) = (side(first)?, side(second.1)?);
            let word = |value: &str| sides::side_name(&[(&axis.to_owned(), Some(&value.to_owned()))]);
            let names = [word(first), word(second.1)];
            let named = BTreeSet::from([axis.to_owned()]);
            match prepare(&a, &b, [&names[0], &names[1]], &named, options) {
                Ok(prepared) => out.push(prepared),
                // Values that were not measured under the same conditions have no pair; others may.
                Err(CompareError::Nothing { .. } | CompareError::Apart { .. }) if values.len() > 2 => {}
                Err(error) => return Err(error),
            }
        }
    }
    if out.is_empty() {
        return Err(CompareError::Nothing { a: format!("one {axis}"), b: "another".to_owned() });
    }
    Ok(out)
}

fn of_one<'a>(run: &Cells<'a>, options: &CompareOptions) -> Result<Prepared<'a>, CompareError> {
    let named = named(options);
    if options.wheres_b.is_empty() || options.wheres_b.iter().any(|(factor, _)| !named.contains(factor)) {
        return Err(CompareError::OneSide);
    }
    let (a, b) = (run.filtered(&options.wheres)?, run.filtered(&second(options))?);
    let name = |wheres: &[Where]| {
        let chosen: Vec<_> =
            wheres.iter().filter(|(factor, _)| named.contains(factor)).map(|(f, value)| (f, Some(value))).collect();
        sides::side_name(&chosen)
    };
    let names = [name(&options.wheres), name(&options.wheres_b)];
    prepare(&a, &b, [&names[0], &names[1]], &named, options)
}

fn of_two<'a>(
    left: &Cells<'a>,
    right: &Cells<'a>,
    names: [&str; 2],
    options: &CompareOptions,
) -> Result<Prepared<'a>, CompareError> {
    let (a, b) = (left.filtered(&options.wheres)?, right.filtered(&second(options))?);
    prepare(&a, &b, names, &named(options), options)
}

fn prepare<'a>(
    a: &Cells<'a>,
    b: &Cells<'a>,
    names: [&str; 2],
    named: &BTreeSet<String>,
    options: &CompareOptions,
) -> Result<Prepared<'a>, CompareError> {
    let matched = sides::matched(a, b, names, named)?;
    let metrics = metrics(options);
    let interleaved = std::ptr::eq(a.run, b.run) || (a.run == b.run && a.runs.len() == 1 && b.runs.len() == 1);
    let sample = if interleaved { Sample::Repetition } else { Sample::Run };
    let siblings: Vec<Cells<'_>> =
        options.siblings.groups.iter().filter_map(|group| sides::of_runs(group)).filter(|_| !interleaved).collect();
    let cells: Vec<Drafts> = matched
        .pairs
        .iter()
        .map(|pair| {
            let mut drafts = drafts(&values(pair, &metrics, sample, options), !is_trusted(pair), options);
            single_runs(&mut drafts, pair, sample, &siblings, options);
            drafts
        })
        .collect();
    let overall = overall(&matched.pairs, &cells, &metrics, sample, options);
    let mut differences = if interleaved { Vec::new() } else { differs::of_runs(a.run, b.run) };
    let all = |second: bool| -> Vec<&'a ResultDocument> {
        matched.pairs.iter().flat_map(|pair| if second { pair.b.results() } else { pair.a.results() }).collect()
    };
    differences.extend(differs::of_results(&all(false), &all(true)));
    differences
        .extend([(a, names[0]), (b, names[1])].into_iter().flat_map(|(side, name)| differs::within(side.runs, name)));
    let side = |cells: &Cells<'_>, name: &str, second: bool| Side {
        name: name.to_owned(),
        run: cells.name(),
        runs: cells.runs.iter().map(|run| plain(&run.name)).collect(),
        substrate: cells.substrate,
        started_ns: cells.run.document.started_ns,
        factors: matched
            .differing
            .iter()
            .filter_map(|(factor, (x, y))| Some((factor.clone(), if second { y.clone()? } else { x.clone()? })))
            .collect(),
    };
    Ok(Prepared {
        run: a.run,
        a: side(a, names[0], false),
        b: side(b, names[1], true),
        interleaved,
        sample,
        differences,
        cells,
        overall,
        matched,
    })
}

/// The figures asked for, and those that gates are about.
fn metrics(options: &CompareOptions) -> Vec<Metric> {
    let mut metrics = if options.metrics.is_empty() { Metric::defaults() } else { options.metrics.clone() };
    metrics.extend(options.gates.iter().map(|gate| gate.metric));
    let mut seen = BTreeSet::new();
    metrics.retain(|metric| seen.insert(*metric));
    metrics
}

/// Whether both sides have a repetition that can be trusted.
fn is_trusted(pair: &Pair<'_>) -> bool {
    [&pair.a, &pair.b].into_iter().all(|side| side.results().iter().any(|result| result.verdict.trusted))
}

/// The repetitions that can be trusted; all of them where none can, to be shown and not to be claimed. An entry a run.
fn used<'a>(side: &SideCell<'a>) -> Vec<Vec<&'a ResultDocument>> {
    let none = !side.results().iter().any(|result| result.verdict.trusted);
    let of = |run: &Vec<&'a ResultDocument>| -> Vec<&'a ResultDocument> {
        run.iter().copied().filter(|result| none || result.verdict.trusted).collect()
    };
    side.runs.iter().map(of).collect()
}

/// A figure of both sides in each sample; whether a sample lacks it.
struct Values {
    metric: Metric,
    a: Vec<f64>,
    b: Vec<f64>,
    /// That of the second side in each of its own samples, see [`MetricComparison::b_own`].
    b_own: Vec<f64>,
    incomplete: bool,
}

/// A figure in each of some repetitions that has it.
fn each(results: &[&ResultDocument], metric: Metric, rtt: bool) -> Vec<f64> {
    results.iter().filter_map(|result| metric.of(result, rtt)).collect()
}

fn values(pair: &Pair<'_>, metrics: &[Metric], sample: Sample, options: &CompareOptions) -> Vec<Values> {
    let (a, b) = (used(&pair.a), used(&pair.b));
    metrics
        .iter()
        .filter(|metric| metric.concerns(a.iter().chain(&b).flatten().copied()))
        .filter_map(|&metric| {
            let (x, short_a) = samples(&a, metric, sample, options.rtt);
            let (y, short_b) = samples(&b, metric, sample, options.rtt);
            let runs = b.iter().filter(|run| !run.is_empty()).count();
            let b_own = if runs > 1 { y.clone() } else { each(&b.concat(), metric, options.rtt) };
            let incomplete = short_a || short_b;
            (!x.is_empty() && !y.is_empty()).then_some(Values { metric, a: x, b: y, b_own, incomplete })
        })
        .collect()
}

/// A figure in each sample of a side that has it, and whether one lacks it.
fn samples(runs: &[Vec<&ResultDocument>], metric: Metric, sample: Sample, rtt: bool) -> (Vec<f64>, bool) {
    match sample {
        Sample::Repetition => {
            let all = runs.concat();
            let values = each(&all, metric, rtt);
            let short = values.len() < all.len();
            (values, short)
        }
        Sample::Run => {
            let measured: Vec<&Vec<&ResultDocument>> = runs.iter().filter(|run| !run.is_empty()).collect();
            let values: Vec<f64> =
                measured.iter().filter_map(|run| evidence::centre(&each(run, metric, rtt), metric.unit())).collect();
            let short = values.len() < measured.len();
            (values, short)
        }
    }
}

/// Where a side has one run, intervals cannot come from its samples. They come from the repetitions of each run, and from
/// how far other runs of the same plan lie apart; or from batches, where these are asked for.
fn single_runs(drafts: &mut Drafts, pair: &Pair<'_>, sample: Sample, siblings: &[Cells<'_>], options: &CompareOptions) {
    let (x, y) = (used(&pair.a).concat(), used(&pair.b).concat());
    for draft in &mut drafts.figures {
        let (metric, unit) = (draft.metric, draft.metric.unit());
        if let (true, ([one], [two])) = (options.batches, (x.as_slice(), y.as_slice()))
            && let (Some(within_a), Some(within_b)) =
                (metric.batches(one, options.rtt), metric.batches(two, options.rtt))
            && let Some(found) = evidence::effect_of_batches(draft.effect.a, draft.effect.b, within_a, within_b)
        {
            (draft.effect, draft.over) = (found, Over::Batches);
        } else if sample == Sample::Run && draft.a.len().min(draft.b.len()) == 1 {
            let spread = spread_of_runs(pair, metric, siblings, draft.effect.by_ratio, options.rtt);
            draft.over = if spread.is_some() { Over::Siblings } else { Over::OneRun };
            let within = [each(&x, metric, options.rtt), each(&y, metric, options.rtt)];
            draft.effect.widen(&within, [draft.a.len(), draft.b.len()], spread, unit);
        }
    }
}

/// The standard deviation between runs of the same thing, pooled over the groups of siblings, and its degrees of freedom.
fn spread_of_runs(
    pair: &Pair<'_>,
    metric: Metric,
    siblings: &[Cells<'_>],
    by_ratio: bool,
    rtt: bool,
) -> Option<(f64, f64)> {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for group in siblings {
        for cell in group.cells.iter().filter(|cell| [&pair.a.factors, &pair.b.factors].contains(&&cell.factors)) {
            let (values, _) = samples(&used(cell), metric, Sample::Run, rtt);
            if by_ratio && values.iter().any(|value| *value <= 0.0) {
                continue;
            }
            let values = evidence::compared(&values, by_ratio);
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            squares += values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
            freedom += values.len().saturating_sub(1) as f64;
        }
    }
    (freedom >= evidence::FEWEST as f64 - 1.0).then(|| ((squares / freedom).sqrt(), freedom))
}

fn drafts(values: &[Values], excluded: bool, options: &CompareOptions) -> Drafts {
    let mut figures: Vec<Draft> = values
        .iter()
        .filter_map(|values| {
            let metric = values.metric;
            let effect = evidence::effect(&values.a, &values.b, metric.unit(), metric.is_bucketed())?;
            let (a, b, b_own) = (values.a.clone(), values.b.clone(), values.b_own.clone());
            Some(Draft { metric, a, b, b_own, effect, over: Over::Samples, p: None, incomplete: values.incomplete })
        })
        .collect();
    if !excluded {
        let tested: Vec<usize> = figures
            .iter()
            .enumerate()
            .filter(|(_, draft)| !draft.incomplete && !is_same(&draft.a, &draft.b))
            .map(|(index, _)| index)
            .collect();
        let lists = |second: bool| -> Vec<Vec<f64>> {
            tested
                .iter()
                .filter_map(|index| figures.get(*index))
                .map(|draft| evidence::compared(if second { &draft.b } else { &draft.a }, draft.effect.by_ratio))
                .collect()
        };
        if let Some(joint) = stats::joint_permutation_test(&lists(false), &lists(true), options.seed) {
            for (index, p) in tested.into_iter().zip(joint.p.into_iter().zip(joint.corrected)) {
                if let Some(draft) = figures.get_mut(index) {
                    draft.p = Some(p);
                }
            }
        }
    }
    Drafts { figures, excluded }
}

/// Whether every sample of both sides has the same figure.
fn is_same(a: &[f64], b: &[f64]) -> bool {
    let mut all = a.iter().chain(b);
    all.next().is_none_or(|first| all.all(|value| value.total_cmp(first).is_eq()))
}

/// All cells of a probe and protocol together, round by round: a round (a repetition, or a run) counts where every cell has
/// its figure.
fn overall(
    pairs: &[Pair<'_>],
    cells: &[Drafts],
    metrics: &[Metric],
    sample: Sample,
    options: &CompareOptions,
) -> Vec<(String, Vec<usize>, LatencyKind, Drafts)> {
    let mut groups: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (index, (pair, drafts)) in pairs.iter().zip(cells).enumerate() {
        if !drafts.excluded {
            let get = |name: &str| pair.factors.get(name).map_or("", String::as_str);
            groups.entry((get("probe"), get("protocol"))).or_default().push(index);
        }
    }
    let mut out = Vec::new();
    for ((probe, protocol), members) in groups.into_iter().filter(|(_, members)| members.len() > 1) {
        let side = |second: bool| -> Vec<&SideCell<'_>> {
            members
                .iter()
                .filter_map(|index| pairs.get(*index))
                .map(|pair| if second { &pair.b } else { &pair.a })
                .collect()
        };
        let (left, right) = (side(false), side(true));
        let mut values: Vec<Values> = metrics
            .iter()
            .filter(|metric| metric.concerns(left.iter().chain(&right).flat_map(|cell| cell.results())))
            .filter_map(|&metric| {
                let (a, b) = (rounds(&left, metric, sample, options.rtt), rounds(&right, metric, sample, options.rtt));
                let (b_own, incomplete) = (b.clone(), false);
                (!a.is_empty() && !b.is_empty()).then_some(Values { metric, a, b, b_own, incomplete })
            })
            .collect();
        // Rounds that lack one figure would have to be left out of the test of all: the figure is, instead.
        let most = |pick: fn(&Values) -> usize| values.iter().map(pick).max().unwrap_or(0);
        let (most_a, most_b) = (most(|values| values.a.len()), most(|values| values.b.len()));
        for values in &mut values {
            values.incomplete = values.a.len() < most_a || values.b.len() < most_b;
        }
        if values.is_empty() {
            continue;
        }
        let kind = left.iter().flat_map(|cell| cell.results()).find_map(|result| kind_of(result, options.rtt));
        let label = format!("all {} cells of {probe} {protocol} together", members.len());
        out.push((label, members, kind.unwrap_or(LatencyKind::Rtt), drafts(&values, false, options)));
    }
    out
}

/// The geometric mean over the cells (of what may be 0 the mean) in each round that every cell has.
fn rounds(cells: &[&SideCell<'_>], metric: Metric, sample: Sample, rtt: bool) -> Vec<f64> {
    let mut by_round: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for cell in cells {
        for (run, place) in cell.runs.iter().zip(1..) {
            let trusted = run.iter().zip(1..).filter(|(result, _)| result.verdict.trusted);
            let found: Vec<(u32, f64)> = trusted
                .filter_map(|(result, index)| Some((result.repetition.unwrap_or(index), metric.of(result, rtt)?)))
                .collect();
            match sample {
                Sample::Repetition => {
                    found.into_iter().for_each(|(round, value)| by_round.entry(round).or_default().push(value));
                }
                Sample::Run => {
                    let values: Vec<f64> = found.into_iter().map(|(_, value)| value).collect();
                    by_round.entry(place).or_default().extend(evidence::centre(&values, metric.unit()));
                }
            }
        }
    }
    let logs = evidence::by_ratio(&by_round.values().flatten().copied().collect::<Vec<_>>(), &[], metric.unit());
    by_round
        .into_values()
        .filter(|values| values.len() == cells.len())
        .map(|values| {
            let mean = evidence::compared(&values, logs).iter().sum::<f64>() / values.len() as f64;
            if logs { mean.exp() } else { mean }
        })
        .collect()
}

fn kind_of(result: &ResultDocument, rtt: bool) -> Option<LatencyKind> {
    result.latency.as_ref().map(|latency| scale(result.probe, latency.kind, rtt).1)
}

/// Corrects, concludes and words everything.
fn finish(prepared: Vec<Prepared<'_>>, title: String, options: &CompareOptions) -> Result<Comparisons, CompareError> {
    let mut sets: Vec<&Drafts> = Vec::new();
    for comparison in &prepared {
        sets.extend(&comparison.cells);
        sets.extend(comparison.overall.iter().map(|(_, _, _, drafts)| drafts));
    }
    let tested: Vec<&&Drafts> = sets.iter().filter(|set| set.tests() > 0).collect();
    let family = Family { sets: tested.len(), tests: tested.iter().map(|set| set.tests()).sum() };
    // With one figure a set Holm's correction over sets is valid and sharper; with several only Bonferroni's is.
    let holm = (family.tests == family.sets).then(|| {
        let p: Vec<f64> = tested.iter().flat_map(|set| &set.figures).filter_map(|draft| Some(draft.p?.1)).collect();
        stats::holm(&p)
    });
    let mut holm = holm.map(Vec::into_iter);
    let mut correct = |within: f64| match &mut holm {
        Some(raised) => raised.next().unwrap_or(1.0),
        None => (within * family.sets.max(1) as f64).min(1.0),
    };
    let mut comparisons = Vec::new();
    for comparison in prepared {
        let names = [comparison.a.name.clone(), comparison.b.name.clone()];
        let context = Context { names: &names, tests: family.tests, sets: family.sets, sample: comparison.sample };
        let mut cells: Vec<CellComparison> = Vec::new();
        for (pair, drafts) in comparison.matched.pairs.iter().zip(&comparison.cells) {
            let (a, b) = (cell_side(&pair.a), cell_side(&pair.b));
            let first = pair.a.results();
            let kind = first.iter().find_map(|result| kind_of(result, options.rtt)).unwrap_or_else(|| {
                let probe = first.first().map_or(Probe::Pingpong, |result| result.probe);
                scale(probe, LatencyKind::Rtt, options.rtt).1
            });
            let excluded = drafts.excluded.then(|| words::excluded(&names, &a, &b));
            let metrics = drafts
                .figures
                .iter()
                .map(|draft| conclude(draft, drafts.excluded, kind, context, &mut correct))
                .collect();
            let (label, factors) = (pair.label.clone(), pair.factors.clone());
            cells.push(CellComparison { label, factors, kind, a, b, excluded, metrics });
        }
        let overall = comparison
            .overall
            .iter()
            .map(|(label, members, kind, drafts)| Overall {
                label: label.clone(),
                cells: members.len(),
                kind: *kind,
                metrics: drafts
                    .figures
                    .iter()
                    .map(|draft| conclude(draft, false, *kind, context, &mut correct))
                    .collect(),
            })
            .collect();
        let mut done = Comparison {
            a: comparison.a,
            b: comparison.b,
            interleaved: comparison.interleaved,
            sample: comparison.sample,
            summary: Vec::new(),
            differences: comparison.differences,
            overall,
            cells,
            unmatched: comparison.matched.unmatched,
        };
        done.summary = words::summary(&done, family.sets, &comparison.matched.differing, &options.siblings);
        done.summary.extend(faster_under_load(comparison.run, &done));
        comparisons.push(done);
    }
    let gates = held::judge(&comparisons, family.sets, options)?;
    Ok(Comparisons { format: model::FORMAT, title, tests: family.tests, level: LEVEL, comparisons, gates })
}

fn cell_side(side: &SideCell<'_>) -> CellSide {
    let (used, results) = (used(side), side.results());
    let repetitions = used.iter().map(Vec::len).sum();
    let mut findings: Vec<String> = Vec::new();
    for finding in results.iter().flat_map(|result| result.verdict.iter()) {
        let word = finding.id.word();
        if !findings.contains(&word) {
            findings.push(word);
        }
    }
    CellSide {
        runs: used.iter().filter(|run| !run.is_empty()).count(),
        repetitions,
        left_out: results.len() - repetitions,
        mark: mark(&results),
        findings,
    }
}

/// The smallest p that samples can reach. Of sides that differ in size only one permutation of all is the extreme one.
fn least_p(a: usize, b: usize) -> f64 {
    let both = stats::smallest_p(a, b);
    if a == b { both } else { both / 2.0 }
}

fn conclude(
    draft: &Draft,
    excluded: bool,
    kind: LatencyKind,
    context: Context<'_>,
    correct: &mut impl FnMut(f64) -> f64,
) -> MetricComparison {
    let corrected = draft.p.map(|(_, within)| correct(within));
    let smallest = (least_p(draft.a.len(), draft.b.len()) * context.sets.max(1) as f64).min(1.0);
    let outcome = outcome(draft, excluded, corrected, smallest);
    let unit = draft.metric.unit();
    let effect = &draft.effect;
    let over = (effect.ratio_ci95.is_some() || effect.difference_ci95.is_some())
        .then(|| draft.over.word(context.sample).to_owned());
    let mut done = MetricComparison {
        metric: draft.metric.to_string(),
        unit: unit.word().to_owned(),
        a: effect.a,
        b: effect.b,
        a_values: draft.a.clone(),
        b_values: draft.b.clone(),
        ratio: effect.ratio,
        ratio_ci95: effect.ratio_ci95,
        difference: effect.difference,
        difference_ci95: effect.difference_ci95,
        interval_over: over,
        error: effect.error,
        b_own: draft.b_own.clone(),
        incomplete: draft.incomplete,
        p: draft.p.map(|(alone, _)| alone),
        p_corrected: corrected,
        smallest_p: smallest,
        outcome,
        sentence: String::new(),
    };
    done.sentence = words::sentence(draft.metric, kind, context, &done);
    done
}

fn outcome(draft: &Draft, excluded: bool, corrected: Option<f64>, smallest: f64) -> Outcome {
    if excluded {
        return Outcome::Untrusted;
    }
    if !draft.incomplete && is_same(&draft.a, &draft.b) {
        return Outcome::Same;
    }
    let fewest = draft.a.len().min(draft.b.len());
    let Some(p) = corrected.filter(|_| fewest >= FEWEST && smallest <= LEVEL && draft.over == Over::Samples) else {
        return Outcome::TooFew;
    };
    let effect = &draft.effect;
    let (apart, matters, slight) = match (effect.ratio_ci95, effect.difference_ci95) {
        (Some([low, high]), _) => {
            let size = effect.ratio.unwrap_or(1.0).ln().abs();
            let slight = low > 1.0 - RESOLUTION && high < 1.0 + RESOLUTION;
            (low > 1.0 || high < 1.0, size > RESOLUTION, slight)
        }
        (None, Some([low, high])) => (low > 0.0 || high < 0.0, true, false),
        (None, None) => (false, false, false),
    };
    match (p <= LEVEL, apart) {
        (_, _) if slight => Outcome::NoDifference,
        (true, true) if matters && effect.difference > 0.0 => Outcome::Higher,
        (true, true) if matters => Outcome::Lower,
        (false, false) => Outcome::NoDifference,
        _ => Outcome::Unclear,
    }
}
