//! From matched cells to outcomes: figures, tests, and the correction for many of them.

use super::evidence::{FEWEST, LEVEL, NARROW, RESOLUTION};
use super::sides::{self, Cells, Pair, SideCell, Where};
use super::{
    CellComparison, CellSide, CompareError, CompareOptions, Comparison, Comparisons, Difference, MetricComparison,
    Outcome, Over, Overall, Sample, Side, Tests, differs,
};
use crate::causes::changes;
use crate::cells::{kind_of, mark, shown};
use crate::combine::{by_ratio, centre, compared, mean};
use crate::names::{asked_first, axis_title, is_baseline};
use crate::text::{by_key, each_once, list, plain};
use crate::{Mark, Metric, RunInput};
use model::ResultDocument;
use model::plan::{Factors, Question, default_question};
use model::quantity::Combine;
use stats::Judgement;
use std::collections::BTreeSet;

impl Comparisons {
    /// Compares the runs of two sides or, without a second side, cells of one run. Sentences are left out, and so are gates. Errors:
    /// [`CompareError`].
    pub fn judged(a: &[RunInput], b: &[RunInput], options: &CompareOptions) -> Result<Self, CompareError> {
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
        Ok(finish(prepared, title, options))
    }

    /// What a report shows of its runs. Of one run: the primary comparisons, tested together, then each axis against its
    /// baseline, described. Of several runs: each one against the first.
    pub fn judged_for_report(runs: &[RunInput], rtt: bool) -> Vec<Self> {
        let options = CompareOptions { rtt, baseline_only: true, seed: 2012, ..CompareOptions::default() };
        let Some((first, rest)) = runs.split_first() else { return Vec::new() };
        let Some(left) = sides::of_runs(std::slice::from_ref(first)) else { return Vec::new() };
        if !rest.is_empty() {
            let prepared = rest
                .iter()
                .zip('B'..='Z')
                .filter(|(run, _)| run.document.substrate == first.document.substrate)
                .filter_map(|(run, letter)| {
                    let right = sides::of_runs(std::slice::from_ref(run))?;
                    of_two(&left, &right, ["A", &letter.to_string()], &options).ok()
                })
                .collect();
            let made = finish(prepared, "The runs compared".to_owned(), &options);
            return Some(made).filter(|made| !made.comparisons.is_empty()).into_iter().collect();
        }
        let mut axes: Vec<String> = left.factors().into_iter().collect();
        axes.retain(|axis| !sides::KEPT.contains(&axis.as_str()) && left.values(axis).len() > 1);
        axes.sort_by_key(|axis| asked_first(axis));
        // The largest of all messages is in the tables: that of a typical repetition beside it would be a second value.
        let metrics: Vec<Metric> =
            Metric::defaults().into_iter().filter(|metric| metric.0.combine != Combine::Max).collect();
        let described = CompareOptions { tests: Tests::None, metrics, ..options.clone() };
        let of_axis = |axis: &String| {
            let prepared = of_axis(&left, axis, &described).ok()?;
            let title = format!("What {} is worth: measured, not tested", plain(&axis_title(axis).to_lowercase()));
            Some(finish(prepared, title, &described))
        };
        let made = std::iter::once(primary(&left, &options)).chain(axes.iter().filter_map(of_axis));
        made.filter(|comparisons| !comparisons.comparisons.is_empty()).collect()
    }

    /// Compares the two sides of a run that the values `a` and `b` of a factor divide it into, one cell each: what else differs
    /// was asked for, be it a factor of the message. Errors: [`CompareError`] where a side has no result, or where they were not
    /// measured alike.
    pub fn judged_sides(
        run: &RunInput,
        factor: &str,
        names: [&str; 2],
        options: &CompareOptions,
    ) -> Result<Self, CompareError> {
        let all = sides::of_runs(std::slice::from_ref(run)).ok_or(CompareError::OneSide)?;
        let [a, b] = ["a", "b"].map(|side| all.filtered(&[(factor.to_owned(), side.to_owned())]));
        let named: BTreeSet<String> = sides::KEPT.into_iter().chain([factor]).map(str::to_owned).collect();
        let prepared = prepare(&a?, &b?, names, &named, options)?;
        Ok(finish(vec![prepared], format!("{} against {}", names[1], names[0]), options))
    }
}

/// The comparisons that a run's plan asks for, in the order of its questions.
fn primary(run: &Cells<'_>, options: &CompareOptions) -> Comparisons {
    let of_question = |question: &Question| {
        let metrics = question.quantity.iter().filter_map(|id| id.parse().ok()).collect();
        let wheres = question.filter.iter().map(|(factor, value)| (factor.clone(), value.clone())).collect();
        let values = question.values.clone();
        let options = CompareOptions { metrics, wheres, values, tests: Tests::Pairs, ..options.clone() };
        // A plan that was cut short lacks some. Where more than the axis differs, none of its values is the cause alone.
        let found = of_axis(run, &question.axis, &options).unwrap_or_default();
        found.into_iter().filter(|one| one.a.factors.len() <= 1).collect::<Vec<_>>()
    };
    let asked = questions(run);
    let mut prepared: Vec<Comparison> = asked.iter().flat_map(of_question).collect();
    // Nobody asked for what is asked by default and was not measured.
    if run.run.document.ask.is_empty() {
        prepared.iter_mut().flat_map(|one| &mut one.cells).for_each(|cell| cell.lacking.clear());
    }
    finish(prepared, "The primary comparisons".to_owned(), options)
}

/// What a run's plan asks; of a run without a plan, or with one of an older version, what is asked by default.
fn questions(run: &Cells<'_>) -> Vec<Question> {
    let asked = &run.run.document.ask;
    let words = |cell: &SideCell<'_>| -> Factors {
        let values = cell.factors.iter().map(|(axis, value)| (axis.clone(), value.as_str().into()));
        values.collect()
    };
    match asked.is_empty() {
        true => default_question(&run.cells.iter().map(words).collect::<Vec<_>>()),
        false => asked.clone(),
    }
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
fn of_axis<'a>(run: &Cells<'a>, axis: &str, options: &CompareOptions) -> Result<Vec<Comparison>, CompareError> {
    let run = run.filtered(&options.wheres)?;
    let values = if options.values.is_empty() { run.ranked(axis) } else { options.values.clone() };
    match values.as_slice() {
        [] => return Err(run.unknown(axis)),
        [one] => {
            let (axis, run) = (axis.to_owned(), plain(&run.run.name));
            return Err(CompareError::OneValue { axis, value: one.clone(), run });
        }
        _ => {}
    }
    let baseline = || values.iter().position(|value| is_baseline(axis, value)).unwrap_or(0);
    let base = if options.values.is_empty() { baseline() } else { 0 };
    let all = 0..values.len();
    let pairs: Vec<(usize, usize)> = if options.baseline_only {
        all.filter(|other| *other != base).map(|other| (base, other)).collect()
    } else {
        all.flat_map(|first| (first + 1..values.len()).map(move |second| (first, second))).collect()
    };
    let named = BTreeSet::from([axis.to_owned()]);
    let mut out = Vec::new();
    for (first, second) in pairs {
        let side = |at: usize| run.filtered(&[(axis.to_owned(), values[at].clone())]);
        let word = |at: usize| sides::side_name(&[(&axis.to_owned(), Some(&values[at]))]);
        match prepare(&side(first)?, &side(second)?, [&word(first), &word(second)], &named, options) {
            Ok(prepared) => out.push(prepared),
            // Values that were not measured under the same conditions have no pair; others may.
            Err(CompareError::Nothing { .. } | CompareError::Apart { .. }) if values.len() > 2 => {}
            Err(error) => return Err(error),
        }
    }
    if out.is_empty() {
        return Err(CompareError::Nothing { a: format!("one {axis}"), b: "another".to_owned() });
    }
    Ok(out)
}

fn of_one<'a>(run: &Cells<'a>, options: &CompareOptions) -> Result<Comparison, CompareError> {
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
) -> Result<Comparison, CompareError> {
    let (a, b) = (left.filtered(&options.wheres)?, right.filtered(&second(options))?);
    prepare(&a, &b, names, &named(options), options)
}

fn differences<'a>(
    [a, b]: [&Cells<'a>; 2],
    names: [&str; 2],
    pairs: &[Pair<'a>],
    interleaved: bool,
) -> Vec<Difference> {
    let results = |of: fn(&Pair<'a>) -> Vec<&'a ResultDocument>| pairs.iter().flat_map(of).collect::<Vec<_>>();
    let (of_a, of_b) = (results(|pair| pair.a.results()), results(|pair| pair.b.results()));
    let mut differences =
        if interleaved { differs::of_boots(a.run, &of_a, &of_b) } else { differs::of_runs(a.run, b.run) };
    differences.extend(differs::of_results(&of_a, &of_b));
    differences
        .extend([(a, names[0]), (b, names[1])].into_iter().flat_map(|(side, name)| differs::within(side.runs, name)));
    differences
}

fn prepare<'a>(
    a: &Cells<'a>,
    b: &Cells<'a>,
    names: [&str; 2],
    named: &BTreeSet<String>,
    options: &CompareOptions,
) -> Result<Comparison, CompareError> {
    let mut matched = sides::matched(a, b, names, named)?;
    let metrics = metrics(options);
    let interleaved = std::ptr::eq(a.run, b.run) || (a.run == b.run && a.runs.len() == 1 && b.runs.len() == 1);
    let sample = match interleaved {
        true => sides::split_boots(&mut matched).unwrap_or(Sample::Repetition),
        false => Sample::Run,
    };
    let siblings: Vec<Cells<'_>> =
        options.siblings.groups.iter().filter_map(|group| sides::of_runs(group)).filter(|_| !interleaved).collect();
    let cell = |pair: &Pair<'a>| {
        let (side_a, side_b) = (cell_side(&pair.a, sample), cell_side(&pair.b, sample));
        let trusted = [&pair.a, &pair.b].iter().all(|side| side.results().iter().any(|one| one.verdict.trusted));
        let excluded = (!trusted).then(|| excluded(names, &side_a, &side_b));
        let mut figures = figures(pair, &metrics, sample, options.rtt);
        if let Some(level) = options.level {
            figures.iter_mut().for_each(|figure| figure.widen_to(level));
        }
        if trusted && options.tests != Tests::None {
            test(&mut figures, options.seed);
        }
        single_runs(&mut figures, pair, sample, &siblings, options);
        let is_asked = trusted && options.tests == Tests::Pairs;
        let is_lacking = |id: &String| is_asked && figures.iter().all(|figure| figure.metric != *id);
        let lacking = metrics.iter().map(ToString::to_string).filter(is_lacking).collect();
        CellComparison {
            label: pair.label.clone(),
            factors: pair.factors.clone(),
            kind: kind_of(&pair.a.results(), options.rtt),
            a: side_a,
            b: side_b,
            excluded,
            metrics: figures,
            lacking,
            causes: changes(&used(&pair.a).concat(), &used(&pair.b).concat()),
        }
    };
    let cells: Vec<CellComparison> = matched.pairs.iter().map(cell).collect();
    let mut overall = match options.tests {
        Tests::Pairs => Vec::new(),
        Tests::All | Tests::None => overall(&matched.pairs, &cells, &metrics, sample, options),
    };
    for all in &mut overall {
        all.label.push_str(&sides::simulated([a.substrate, b.substrate]));
    }
    let differences = differences([a, b], names, &matched.pairs, interleaved);
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
    let comparison = Comparison {
        a: side(a, names[0], false),
        b: side(b, names[1], true),
        interleaved,
        sample,
        summary: Vec::new(),
        differences,
        overall,
        cells,
        unmatched: matched.unmatched,
    };
    Ok(comparison)
}

fn metrics(options: &CompareOptions) -> Vec<Metric> {
    let mut metrics = if options.metrics.is_empty() { Metric::defaults() } else { options.metrics.clone() };
    metrics.extend(options.gates.iter().map(|gate| gate.metric));
    each_once(metrics)
}

/// The repetitions that can be trusted; all of them where none can, to be shown and not to be claimed. An entry a run.
fn used<'a>(side: &SideCell<'a>) -> Vec<Vec<&'a ResultDocument>> {
    let none = !side.results().iter().any(|result| result.verdict.trusted);
    let of = |run: &Vec<&'a ResultDocument>| -> Vec<&'a ResultDocument> {
        run.iter().copied().filter(|result| none || result.verdict.trusted).collect()
    };
    side.runs.iter().map(of).collect()
}

fn each(results: &[&ResultDocument], metric: Metric, rtt: bool) -> Vec<f64> {
    results.iter().filter_map(|result| metric.of(result, rtt)).collect()
}

fn figures(pair: &Pair<'_>, metrics: &[Metric], sample: Sample, rtt: bool) -> Vec<MetricComparison> {
    let (a, b) = (used(&pair.a), used(&pair.b));
    let single = b.iter().filter(|run| !run.is_empty()).count() <= 1;
    metrics
        .iter()
        .filter(|metric| metric.concerns(a.iter().chain(&b).flatten().copied()))
        .filter_map(|&metric| {
            let ((x, short_a), (y, short_b)) = (samples(&a, metric, sample, rtt), samples(&b, metric, sample, rtt));
            let mut figure = MetricComparison::of(metric, x, y)?;
            figure.incomplete = short_a || short_b;
            if single {
                figure.b_own = each(&b.concat(), metric, rtt);
            }
            Some(figure)
        })
        .collect()
}

/// A figure in each sample of a side that has it, and whether one lacks it.
fn samples(runs: &[Vec<&ResultDocument>], metric: Metric, sample: Sample, rtt: bool) -> (Vec<f64>, bool) {
    let (values, all) = match sample {
        Sample::Repetition => {
            let all = runs.concat();
            (each(&all, metric, rtt), all.len())
        }
        Sample::Run | Sample::Boot | Sample::Visit => {
            let measured: Vec<&Vec<&ResultDocument>> = runs.iter().filter(|run| !run.is_empty()).collect();
            let centres = measured.iter().filter_map(|run| centre(&each(run, metric, rtt), metric.unit()));
            (centres.collect(), measured.len())
        }
    };
    let short = values.len() < all;
    (values, short)
}

/// Of one run a side, intervals come from its repetitions, and how far other runs of the plan lie apart, or from batches if asked.
fn single_runs(
    figures: &mut [MetricComparison],
    pair: &Pair<'_>,
    sample: Sample,
    siblings: &[Cells<'_>],
    options: &CompareOptions,
) {
    let [x, y] = [used(&pair.a).concat(), used(&pair.b).concat()];
    for figure in figures {
        let (metric, rtt) = (figure.quantity, options.rtt);
        if let (true, ([one], [two])) = (options.batches, (x.as_slice(), y.as_slice()))
            && let (Some(a), Some(b)) = (metric.batches(one, rtt), metric.batches(two, rtt))
            && figure.over_batches([a, b])
        {
            continue;
        }
        if sample != Sample::Repetition && figure.a_values.len().min(figure.b_values.len()) == 1 {
            let spread = spread_of_runs(pair, metric, siblings, figure.by_ratio, rtt);
            figure.widen(&[each(&x, metric, rtt), each(&y, metric, rtt)], spread);
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
            let values = compared(&values, by_ratio);
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            squares += values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
            freedom += values.len().saturating_sub(1) as f64;
        }
    }
    (freedom >= FEWEST as f64 - 1.0).then(|| ((squares / freedom).sqrt(), freedom))
}

/// Tests the figures of a set together: each gets its p alone, and corrected for the others.
fn test(figures: &mut [MetricComparison], seed: u64) {
    let mut tested: Vec<&mut MetricComparison> =
        figures.iter_mut().filter(|figure| !figure.incomplete && !figure.is_same()).collect();
    let lists = |of: fn(&MetricComparison) -> &[f64]| -> Vec<Vec<f64>> {
        tested.iter().map(|figure| compared(of(figure), figure.by_ratio)).collect()
    };
    let (a, b) = (lists(|figure| &figure.a_values), lists(|figure| &figure.b_values));
    if let Some(joint) = stats::joint_permutation_test(&a, &b, seed) {
        for (figure, (p, corrected)) in tested.iter_mut().zip(joint.p.into_iter().zip(joint.corrected)) {
            (figure.p, figure.p_corrected) = (Some(p), Some(corrected));
        }
    }
}

/// All cells of a probe and protocol together; a round (a repetition, or a run) counts where every cell has its figure.
fn overall(
    pairs: &[Pair<'_>],
    cells: &[CellComparison],
    metrics: &[Metric],
    sample: Sample,
    options: &CompareOptions,
) -> Vec<Overall> {
    let groups = by_key(pairs.iter().zip(cells).filter(|(_, cell)| cell.excluded.is_none()).map(|(pair, _)| {
        let get = |name: &str| pair.factors.get(name).map_or("", String::as_str);
        ((get("probe"), get("protocol")), pair)
    }));
    let mut out = Vec::new();
    for ((probe, protocol), members) in groups.into_iter().filter(|(_, members)| members.len() > 1) {
        let left: Vec<&SideCell<'_>> = members.iter().map(|pair| &pair.a).collect();
        let right: Vec<&SideCell<'_>> = members.iter().map(|pair| &pair.b).collect();
        let mut figures: Vec<MetricComparison> = metrics
            .iter()
            .filter(|metric| metric.concerns(left.iter().chain(&right).flat_map(|cell| cell.results())))
            .filter_map(|&metric| {
                let of = |cells: &[&SideCell<'_>]| rounds(cells, metric, sample, options.rtt);
                MetricComparison::of(metric, of(&left), of(&right))
            })
            .collect();
        // Rounds that lack one figure would have to be left out of the test of all: the figure is, instead.
        let most = |pick: fn(&MetricComparison) -> usize| figures.iter().map(pick).max().unwrap_or(0);
        let (most_a, most_b) = (most(|figure| figure.a_values.len()), most(|figure| figure.b_values.len()));
        for figure in &mut figures {
            figure.incomplete = figure.a_values.len() < most_a || figure.b_values.len() < most_b;
        }
        if figures.is_empty() {
            continue;
        }
        if options.tests == Tests::All {
            test(&mut figures, options.seed);
        }
        let label = format!("all {} cells of {probe} {protocol} together", members.len());
        let kind = kind_of(&left.iter().flat_map(|cell| cell.results()).collect::<Vec<_>>(), options.rtt);
        out.push(Overall { label, cells: members.len(), kind, metrics: figures });
    }
    out
}

/// The geometric mean over the cells (of what may be 0 the mean) in each round that every cell has.
fn rounds(cells: &[&SideCell<'_>], metric: Metric, sample: Sample, rtt: bool) -> Vec<f64> {
    let mut figures: Vec<(u32, f64)> = Vec::new();
    for cell in cells {
        for (run, place) in cell.runs.iter().zip(1..) {
            let trusted = run.iter().zip(1..).filter(|(result, _)| result.verdict.trusted);
            let found: Vec<(u32, f64)> = trusted
                .filter_map(|(result, index)| Some((result.repetition.unwrap_or(index), metric.of(result, rtt)?)))
                .collect();
            match sample {
                Sample::Repetition => figures.extend(found),
                Sample::Run | Sample::Boot | Sample::Visit => {
                    let values: Vec<f64> = found.into_iter().map(|(_, value)| value).collect();
                    figures.extend(centre(&values, metric.unit()).map(|value| (place, value)));
                }
            }
        }
    }
    let logs = by_ratio(&figures.iter().map(|(_, value)| *value).collect::<Vec<_>>(), &[], metric.unit());
    let whole = stats::whole_rounds(figures, cells.len());
    let means = whole.iter().filter_map(|values| mean(&compared(values, logs)));
    means.map(|mean| if logs { mean.exp() } else { mean }).collect()
}

fn finish(mut comparisons: Vec<Comparison>, title: String, options: &CompareOptions) -> Comparisons {
    let level = options.level.unwrap_or(LEVEL);
    let is_tested = options.tests != Tests::None;
    let tested = |metrics: &[MetricComparison]| metrics.iter().filter_map(|figure| figure.p_corrected).collect();
    let mut p: Vec<Vec<f64>> =
        comparisons.iter().flat_map(|one| one.sets().map(|set| tested(set.metrics)).collect::<Vec<_>>()).collect();
    p.retain(|set| !set.is_empty());
    let (sets, tests) = (p.len(), p.iter().map(Vec::len).sum());
    let mut corrected = stats::correct_sets(&p).into_iter();
    for done in &mut comparisons {
        let sample = done.sample;
        for (excluded, metrics) in done.sets_mut() {
            for figure in metrics {
                figure.p_corrected = figure.p_corrected.and_then(|_| corrected.next());
                let smallest = least_p(figure.a_values.len(), figure.b_values.len()) * sets.max(1) as f64;
                figure.smallest_p = smallest.min(1.0);
                figure.outcome = match (excluded, is_tested) {
                    (true, _) => Outcome::Untrusted,
                    (false, true) => outcome(figure, level),
                    (false, false) if figure.is_same() => Outcome::Same,
                    (false, false) => Outcome::NotTested,
                };
                let has_interval = figure.ratio_ci95.is_some() || figure.difference_ci95.is_some();
                figure.interval_over = has_interval.then(|| figure.over.words(sample));
            }
        }
    }
    Comparisons { format: model::FORMAT, title, tests, sets, is_tested, level, comparisons, gates: Vec::new() }
}

fn excluded(names: [&str; 2], a: &CellSide, b: &CellSide) -> String {
    let side = |name: &str, side: &CellSide| {
        format!("{name} has no repetition that can be trusted ({})", list(&side.invalid()))
    };
    // A side that has trusted repetitions says how many it left out; one that has none used all.
    let words: Vec<String> = [(names[0], a), (names[1], b)]
        .into_iter()
        .filter(|(_, own)| own.mark == Mark::Invalid && own.left_out == 0)
        .map(|(name, own)| side(name, own))
        .collect();
    list(&words)
}

fn cell_side(side: &SideCell<'_>, sample: Sample) -> CellSide {
    let (used, results) = (used(side), side.results());
    let repetitions = used.iter().map(Vec::len).sum();
    let findings = results.iter().flat_map(|result| shown(&result.verdict)).map(|finding| finding.id.to_string());
    let measured = used.iter().filter(|run| !run.is_empty()).count();
    CellSide {
        runs: if matches!(sample, Sample::Boot | Sample::Visit) { measured.min(1) } else { measured },
        repetitions,
        left_out: results.len() - repetitions,
        mark: mark(&results),
        findings: each_once(findings),
    }
}

/// The smallest p that samples can reach. Of sides that differ in size only one permutation of all is the extreme one.
fn least_p(a: usize, b: usize) -> f64 {
    let both = stats::smallest_p(a, b);
    if a == b { both } else { both / 2.0 }
}

fn outcome(figure: &MetricComparison, level: f64) -> Outcome {
    if !figure.incomplete && figure.is_same() {
        return Outcome::Same;
    }
    let enough = figure.a_values.len().min(figure.b_values.len()) >= FEWEST && figure.smallest_p <= level;
    let Some(p) = figure.p_corrected.filter(|_| enough && figure.over == Over::Samples) else {
        return Outcome::TooFew;
    };
    let of = |difference, interval, least, narrow| {
        stats::Evidence { difference, interval: Some(interval), p: Some(p), least, narrow }.judge(level)
    };
    let judgement = match (figure.ratio_ci95, figure.difference_ci95) {
        (Some(interval), _) => of(figure.ratio.unwrap_or(1.0).ln(), interval.map(f64::ln), RESOLUTION, NARROW.ln()),
        (None, Some(interval)) => of(figure.difference, interval, 0.0, f64::INFINITY),
        (None, None) => Judgement::Unclear,
    };
    match judgement {
        Judgement::Higher => Outcome::Higher,
        Judgement::Lower => Outcome::Lower,
        Judgement::NoDifference => Outcome::NoDifference,
        Judgement::Unclear => Outcome::Unclear,
    }
}
