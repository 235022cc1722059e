//! Whether a gate holds, cell by cell.

use super::gate::{Gate, Limit};
use super::metric::Metric;
use super::{
    CellComparison, CompareError, CompareOptions, Comparison, GateCell, GateOutcome, MetricComparison, Outcome,
    evidence, words,
};
use model::LatencyKind;
use std::collections::BTreeSet;

/// A gate over all cells that it fits.
pub(super) fn judge(
    gate: &Gate,
    comparisons: &[Comparison],
    options: &CompareOptions,
) -> Result<GateOutcome, CompareError> {
    let several = comparisons.len() > 1;
    let (mut found, mut not_judged): (Vec<(f64, GateCell)>, Vec<String>) = (Vec::new(), Vec::new());
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
                (Some(figure), None) => found.push(gate_cell(gate, figure, cell.kind, label, options)),
            }
        }
    }
    if found.is_empty() {
        if untrusted > 0 {
            return Err(CompareError::GateUntrusted { gate: gate.to_string() });
        }
        let why = match not_judged.first() {
            Some(first) if matches!(gate.metric, Metric::Time(..)) => {
                format!("{first} (a quantile needs 10 messages beyond it)")
            }
            Some(first) => first.clone(),
            None => {
                let known: BTreeSet<String> = comparisons
                    .iter()
                    .flat_map(|comparison| &comparison.cells)
                    .flat_map(|cell| &cell.factors)
                    .map(|(factor, value)| format!("{factor}={value}"))
                    .collect();
                format!("no compared cell fits; there are {}", known.into_iter().collect::<Vec<_>>().join(", "))
            }
        };
        return Err(CompareError::GateIdle { gate: gate.to_string(), why });
    }
    // The nearest to being broken first.
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let judged = found.len();
    let broken = found.iter().any(|(_, cell)| cell.broken);
    let mut cells: Vec<GateCell> = found.into_iter().map(|(_, cell)| cell).collect();
    if broken {
        cells.retain(|cell| cell.broken);
    } else {
        cells.truncate(1);
    }
    Ok(GateOutcome { gate: gate.to_string(), broken, cells, judged, not_judged })
}

fn fits(gate: &Gate, cell: &CellComparison, comparison: &Comparison) -> bool {
    gate.only.iter().all(|(factor, value)| {
        let number = |text: &str| text.parse::<f64>().ok();
        let is = |own: Option<&String>| {
            own.is_some_and(|own| own == value || number(own).is_some_and(|own| Some(own) == number(value)))
        };
        is(cell.factors.get(factor)) || is(comparison.b.factors.get(factor)) || is(comparison.a.factors.get(factor))
    })
}

/// A gate in one cell, with how far beyond its limit the figure is (for sorting).
fn gate_cell(
    gate: &Gate,
    figure: &MetricComparison,
    kind: LatencyKind,
    label: String,
    options: &CompareOptions,
) -> (f64, GateCell) {
    let change = match figure.ratio {
        Some(ratio) => ratio - 1.0,
        None if figure.difference > 0.0 => f64::INFINITY,
        None => 0.0,
    };
    let change_ci = figure.ratio_ci95.map(|interval| interval.map(|ratio| ratio - 1.0));
    let unit = gate.metric.unit();
    let (value, limit, interval) = match gate.limit {
        Limit::Change(limit) => (change, limit, change_ci),
        Limit::Difference(limit) => (figure.difference, limit, figure.difference_ci95),
        Limit::Own(limit) => (figure.b, limit, evidence::own_interval(&figure.b_values, unit)),
    };
    let holds = gate.compare.holds(value, limit);
    let beyond =
        interval.is_some_and(|[low, high]| gate.compare.holds(if gate.compare.upwards() { low } else { high }, limit));
    let differs = matches!(figure.outcome, Outcome::Higher | Outcome::Lower);
    let relative = !matches!(gate.limit, Limit::Own(_));
    // Where no change at all would break it too, a difference is no evidence: only the interval is.
    let significant = if relative && !gate.compare.holds(0.0, limit) { differs } else { beyond };
    let broken = holds && (significant || !options.significant);
    let sentence =
        words::gate(gate, figure, kind, &label, words::Judged { holds, broken, significant, beyond, interval });
    let excess = if gate.compare.upwards() { value - limit } else { limit - value };
    (excess, GateCell { label, broken, significant: holds && significant, sentence })
}
