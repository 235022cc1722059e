//! Whether a gate holds, cell by cell.

use super::words;
use crate::units::figure as figure_of;
use digest::cells;
use digest::compare::{
    CellComparison, CompareError, CompareOptions, Comparison, Comparisons, FEWEST, Gate, GateCell, GateOutcome, LEVEL,
    Limit, MetricComparison, Outcome, Sample, own, p_against, repetitions_needed,
};
use model::LatencyKind;
use std::collections::BTreeSet;

/// One gate in one cell before the correction is known.
struct GateFigure<'c> {
    label: String,
    figure: &'c MetricComparison,
    kind: LatencyKind,
    sample: Sample,
    /// What is held against the limit, and its 95 % interval.
    value: f64,
    limit: f64,
    interval: Option<[f64; 2]>,
    /// The interval decides, not the test: of limits that no difference would break, and of one side alone.
    by_interval: bool,
    /// Whether both sides are compared, and not the second side alone.
    relative: bool,
    /// Two-sided p of that against the limit, once corrected for all such cells of all gates.
    p: Option<f64>,
}

struct Gated<'c> {
    gate: &'c Gate,
    found: Vec<GateFigure<'c>>,
    not_judged: Vec<String>,
}

/// All gates over all cells that they fit. What intervals decide is corrected over all of them by Holm.
pub(super) fn judge(made: &Comparisons, options: &CompareOptions) -> Result<Vec<GateOutcome>, CompareError> {
    let sets = made.sets;
    let mut all = options.gates.iter().map(|gate| collect(gate, &made.comparisons)).collect::<Result<Vec<_>, _>>()?;
    let mut judged: Vec<&mut f64> =
        all.iter_mut().flat_map(|gated| &mut gated.found).filter_map(|found| found.p.as_mut()).collect();
    let corrected = stats::holm(&judged.iter().map(|p| **p).collect::<Vec<_>>());
    for (p, corrected) in judged.iter_mut().zip(corrected) {
        **p = corrected;
    }
    Ok(all.into_iter().map(|gated| conclude(gated, sets, options)).collect())
}

fn collect<'c>(gate: &'c Gate, comparisons: &'c [Comparison]) -> Result<Gated<'c>, CompareError> {
    let several = comparisons.len() > 1;
    let (mut found, mut not_judged): (Vec<GateFigure<'_>>, Vec<String>) = (Vec::new(), Vec::new());
    let mut untrusted = 0;
    for comparison in comparisons {
        for cell in comparison.cells.iter().filter(|cell| fits(gate, cell, comparison)) {
            let label = if several {
                format!("{} · {} against {}", cell.label, comparison.b.name, comparison.a.name)
            } else {
                cell.label.clone()
            };
            let word = gate.metric.to_string();
            let figure = cell.metrics.iter().find(|figure| figure.metric == word);
            match (figure, &cell.excluded) {
                (_, Some(why)) => {
                    untrusted += 1;
                    not_judged.push(format!("{label}: {why}"));
                }
                (None, None) => not_judged.push(format!("{label}: it has no {word} on both sides")),
                (Some(figure), None) => found.push(measure(gate, figure, cell.kind, comparison.sample, label)),
            }
        }
    }
    if found.is_empty() {
        if untrusted > 0 {
            return Err(CompareError::GateUntrusted { gate: gate.to_string() });
        }
        let why = match not_judged.first() {
            Some(first) if gate.metric.0.statistic().is_some() => {
                format!("{first} (a quantile needs 10 messages beyond it)")
            }
            Some(first) => first.clone(),
            None => {
                let known: BTreeSet<String> = comparisons
                    .iter()
                    .flat_map(|comparison| &comparison.cells)
                    .flat_map(|cell| &cell.factors)
                    .flat_map(|(factor, value)| cells::askable(value).map(move |word| format!("{factor}={word}")))
                    .collect();
                format!("no compared cell fits; there are {}", known.into_iter().collect::<Vec<_>>().join(", "))
            }
        };
        return Err(CompareError::GateIdle { gate: gate.to_string(), why });
    }
    Ok(Gated { gate, found, not_judged })
}

fn conclude(gated: Gated<'_>, sets: usize, options: &CompareOptions) -> GateOutcome {
    let Gated { gate, found, not_judged } = gated;
    let needed = found.iter().find_map(|found| undecided(found, sets, options)).map(|(needed, _)| needed);
    let mut cells: Vec<(f64, GateCell)> =
        found.into_iter().map(|found| gate_cell(gate, found, sets, options)).collect();
    // The nearest to being broken first.
    cells.sort_by(|a, b| b.0.total_cmp(&a.0));
    let judged = cells.len();
    let mut cells: Vec<GateCell> = cells.into_iter().map(|(_, cell)| cell).collect();
    let (broken, undecided) = (cells.iter().any(|cell| cell.broken), cells.iter().any(|cell| cell.undecided));
    if broken {
        cells.retain(|cell| cell.broken);
    } else if undecided {
        cells.retain(|cell| cell.undecided);
    } else {
        cells.truncate(1);
    }
    GateOutcome { gate: gate.to_string(), broken, undecided, needed, cells, judged, not_judged }
}

fn fits(gate: &Gate, cell: &CellComparison, comparison: &Comparison) -> bool {
    gate.only.iter().all(|(factor, value)| {
        let is = |own: Option<&String>| own.is_some_and(|own| cells::is_asked(own, value));
        is(cell.factors.get(factor)) || is(comparison.b.factors.get(factor)) || is(comparison.a.factors.get(factor))
    })
}

fn measure<'c>(
    gate: &Gate,
    figure: &'c MetricComparison,
    kind: LatencyKind,
    sample: Sample,
    label: String,
) -> GateFigure<'c> {
    let change = match figure.ratio {
        Some(ratio) => ratio - 1.0,
        None if figure.difference > 0.0 => f64::INFINITY,
        None => 0.0,
    };
    let change_ci = figure.ratio_ci95.map(|interval| interval.map(|ratio| ratio - 1.0));
    let (value, limit, interval) = match gate.limit {
        Limit::Change(limit) => (change, limit, change_ci),
        Limit::Difference(limit) => (figure.difference, limit, figure.difference_ci95),
        Limit::Own(limit) => {
            (figure.b, limit, own(&figure.b_own, limit, gate.metric.unit()).map(|(interval, _)| interval))
        }
    };
    // Where no change at all would break it too, a difference is no evidence: only the interval is.
    let relative = !matches!(gate.limit, Limit::Own(_));
    let by_interval = !relative || gate.relation.holds(0.0, limit);
    let p = by_interval.then(|| p_of(gate, figure)).flatten();
    // On the right side of the limit there is no evidence against it.
    let p = p.map(|p| if gate.relation.holds(value, limit) { p } else { 1.0 });
    GateFigure { label, figure, kind, sample, value, limit, interval, by_interval, relative, p }
}

/// Two-sided p of the figure against the limit; `None` where nothing shows how far it scatters.
fn p_of(gate: &Gate, figure: &MetricComparison) -> Option<f64> {
    let ratio = figure.ratio.filter(|_| figure.ratio_ci95.is_some());
    let of_ratio = |limit: f64| {
        let (ratio, error) = (ratio?, figure.error?);
        Some(if limit > 0.0 { p_against(ratio.ln(), limit.ln(), error) } else { 0.0 })
    };
    match gate.limit {
        Limit::Own(limit) => own(&figure.b_own, limit, gate.metric.unit()).map(|(_, p)| p),
        Limit::Change(limit) => of_ratio(1.0 + limit),
        Limit::Difference(limit) if ratio.is_some() => of_ratio(1.0 + limit / figure.a),
        Limit::Difference(limit) => Some(p_against(figure.difference, limit, figure.error?)),
    }
}

/// What would decide the gate, and why it cannot be decided: no figure could break it, or it compares single runs.
fn undecided(found: &GateFigure<'_>, sets: usize, options: &CompareOptions) -> Option<(String, String)> {
    let (figure, word) = (found.figure, found.sample.word());
    let needed = repetitions_needed(sets);
    let single = found.sample != Sample::Repetition && figure.a_values.len().min(figure.b_values.len()) < 2;
    let relative = found.relative;
    if relative && single {
        return Some((format!("{needed} {word}s a side"), words::limit_of(figure, found.sample, sets, LEVEL)));
    }
    if !options.significant {
        return None;
    }
    if found.by_interval {
        return found.p.is_none().then(|| {
            let (few, least) = (figure.b_own.len(), FEWEST);
            let word = if relative || figure.b_values.len() > 1 { word } else { "repetition" };
            let few = if relative {
                words::limit_of(figure, found.sample, sets, LEVEL)
            } else {
                format!("{few} {word}s have no interval, {least} have")
            };
            (format!("{least} {word}s a side"), few)
        });
    }
    (figure.outcome == Outcome::TooFew).then(|| {
        // More of the same would lack it again.
        let needed = if figure.incomplete {
            format!("{word}s that all have the figure")
        } else {
            format!("{needed} {word}s a side")
        };
        (needed, words::limit_of(figure, found.sample, sets, LEVEL))
    })
}

/// A gate in one cell, with how far beyond its limit the figure is (for sorting).
fn gate_cell(gate: &Gate, found: GateFigure<'_>, sets: usize, options: &CompareOptions) -> (f64, GateCell) {
    let GateFigure { figure, value, limit, interval, by_interval, p, .. } = found;
    let holds = gate.relation.holds(value, limit);
    let beyond = interval
        .is_some_and(|[low, high]| gate.relation.holds(if gate.relation.upwards() { low } else { high }, limit));
    let differs = matches!(figure.outcome, Outcome::Higher | Outcome::Lower);
    let significant = if by_interval { p.is_some_and(|p| p <= LEVEL) } else { differs };
    let why = undecided(&found, sets, options).map(|(_, why)| why);
    let undecided = why.is_some();
    let broken = !undecided && holds && (significant || !options.significant);
    let bounds = bounds(gate, interval);
    let outcome = if let Some(why) = why {
        format!("undecided; {why} ({bounds})")
    } else if !holds {
        "kept".to_owned()
    } else {
        let evidence = match (significant, beyond) {
            (true, true) => "the evidence is significant, and its interval lies beyond the limit as a whole",
            (true, false) => "that there is a difference is significant, but its interval reaches back over the limit",
            (false, _) if figure.outcome == Outcome::TooFew && found.relative => {
                "too few samples to tell it from chance"
            }
            (false, true) => "the interval lies beyond the limit, but after correction the evidence is not significant",
            (false, false) => "the evidence is not significant",
        };
        let p = if by_interval { p } else { figure.p_corrected.filter(|_| figure.outcome != Outcome::TooFew) };
        let p = p.map(|p| format!(", {}", words::p_word(p))).unwrap_or_default();
        let verdict = if broken { "broken" } else { "not counted as broken" };
        format!("{verdict}; {evidence} ({bounds}{p})")
    };
    let name = gate.metric.0.name(found.kind);
    let sentence = format!("{}: {name} {}: {outcome}.", found.label, held(gate, figure));
    let excess = if gate.relation.upwards() { value - limit } else { limit - value };
    (excess, GateCell { label: found.label, broken, undecided, significant: holds && significant, sentence })
}

fn held(gate: &Gate, figure: &MetricComparison) -> String {
    let unit = gate.metric.unit();
    let (a, b) = (figure_of(unit, figure.a), figure_of(unit, figure.b));
    match gate.limit {
        Limit::Own(_) => b,
        Limit::Change(_) => format!("{} ({b} against {a})", words::size(figure)),
        Limit::Difference(_) => format!("{} ({b} against {a})", words::signed(unit, figure.difference)),
    }
}

fn bounds(gate: &Gate, interval: Option<[f64; 2]>) -> String {
    let unit = gate.metric.unit();
    let Some([low, high]) = interval else { return "no interval".to_owned() };
    let bounds = match gate.limit {
        Limit::Change(_) => words::ratio_interval([1.0 + low, 1.0 + high]),
        Limit::Difference(_) => words::to(&words::signed(unit, low), &words::signed(unit, high)),
        Limit::Own(_) => words::to(&figure_of(unit, low), &figure_of(unit, high)),
    };
    format!("95 % {bounds}")
}
