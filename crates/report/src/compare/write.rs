//! The comparison as text, Markdown and CSV.

use super::words::{p_word, size};
use super::{CellComparison, Comparison, Comparisons, Difference, GateOutcome, Metric, MetricComparison, Outcome};
use crate::csv::{field_line, number};
use crate::layout::{Column, Grid, paragraph};
use crate::markdown::{quote, row};
use crate::units::figure as figure_of;
use model::quantity::Unit;
use std::collections::BTreeMap;

/// The columns of [`Comparisons::csv`], with their meaning:
///
/// | column | meaning |
/// |---|---|
/// | `a`, `b` | what the sides are called |
/// | `a_run`, `b_run` | their run directories, separated by blanks |
/// | `cell` | the matched cells, in words; `all N cells of …` for all together |
/// | `factors` | the factors that both share, `name=value` separated by blanks |
/// | `metric` | `p50`, `p99`, `intended.p99`, `loss` … |
/// | `unit` | `ns`, `share` (0 to 1), `per_second`, `bits_per_second`, `per_million` |
/// | `a_value`, `b_value` | the sides' figures: geometric means over the trusted values, of shares means |
/// | `a_repetitions`, `b_repetitions` | values in them: repetitions of one run that is compared in itself, else runs |
/// | `ratio`, `ratio_low`, `ratio_high` | b / a with its 95 % interval |
/// | `difference`, `difference_low`, `difference_high` | b - a with its 95 % interval, in the unit |
/// | `p`, `p_corrected` | of the permutation test alone, and corrected for all tests |
/// | `smallest_p` | the smallest corrected p that so many values can reach |
/// | `outcome` | `higher`, `lower`, `no-difference`, `unclear`, `too-few`, `same`, `untrusted` |
///
/// An empty field means that there is no figure.
pub const COMPARE_CSV_COLUMNS: [&str; 22] = [
    "a",
    "b",
    "a_run",
    "b_run",
    "cell",
    "factors",
    "metric",
    "unit",
    "a_value",
    "b_value",
    "a_repetitions",
    "b_repetitions",
    "ratio",
    "ratio_low",
    "ratio_high",
    "difference",
    "difference_low",
    "difference_high",
    "p",
    "p_corrected",
    "smallest_p",
    "outcome",
];

fn unit(figure: &MetricComparison) -> Unit {
    figure.metric.parse::<Metric>().map_or(Unit::Ns, Metric::unit)
}

fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Higher => "higher",
        Outcome::Lower => "lower",
        Outcome::NoDifference => "none seen",
        Outcome::Unclear => "not clear",
        Outcome::TooFew => "too few",
        Outcome::Same => "the same",
        Outcome::Untrusted => "! not trusted",
    }
}

/// The cells of one row of a table of figures.
pub(crate) fn figure_row(figure: &MetricComparison) -> Vec<String> {
    let unit = unit(figure);
    let bounds = match super::words::bounds(figure, unit) {
        Some(text) if figure.outcome != Outcome::Same => text,
        _ => "–".to_owned(),
    };
    let p = figure
        .p_corrected
        // One against one: every dealing is as extreme as the measured one.
        .filter(|_| figure.a_values.len().max(figure.b_values.len()) > 1)
        .map_or_else(|| "–".to_owned(), |p| p_word(p).trim_start_matches("p ").trim_start_matches("= ").to_owned());
    let own = if figure.outcome == Outcome::Same { "–".to_owned() } else { size(figure, unit) };
    vec![
        figure.metric.clone(),
        figure_of(unit, figure.a),
        figure_of(unit, figure.b),
        own,
        bounds,
        p,
        outcome_word(figure.outcome).to_owned(),
    ]
}

pub(crate) fn heads(comparison: &Comparison) -> [String; 7] {
    [
        "figure".to_owned(),
        comparison.a.name.clone(),
        comparison.b.name.clone(),
        "change".to_owned(),
        "95 %".to_owned(),
        "p".to_owned(),
        String::new(),
    ]
}

fn grid(comparison: &Comparison, figures: &[MetricComparison]) -> Grid {
    let columns = heads(comparison).into_iter().enumerate().map(|(index, title)| Column {
        heading: vec![title],
        right: (1..=5).contains(&index),
        max: None,
    });
    Grid { columns: columns.collect(), rows: figures.iter().map(figure_row).collect(), ..Grid::default() }
}

fn push(out: &mut String, grid: &Grid, width: usize) {
    for line in grid.text(width.saturating_sub(2)).lines() {
        out.push_str("  ");
        out.push_str(line);
        out.push('\n');
    }
}

/// Differences whose sides both are short stand on one line.
pub(crate) fn difference(difference: &Difference) -> String {
    let word = |text: &Option<String>| match text.as_deref() {
        None => "not known".to_owned(),
        Some("") => "none".to_owned(),
        Some(text) => text.to_owned(),
    };
    format!("{}: {} | {}", difference.what, word(&difference.a), word(&difference.b))
}

fn gate_head(gate: &GateOutcome) -> String {
    let verdict = match (gate.broken, gate.undecided) {
        (true, _) => "BROKEN",
        (false, true) => "UNDECIDED",
        (false, false) => "kept",
    };
    let cells = if gate.judged == 1 { "1 pair of cells".to_owned() } else { format!("{} pairs of cells", gate.judged) };
    let needed = gate.needed.as_ref().filter(|_| gate.undecided).map(|needed| format!("; {needed} would decide"));
    format!("gate '{}': {verdict}, judged in {cells}{}", gate.gate, needed.unwrap_or_default())
}

/// As plain text.
pub(super) fn text(comparisons: &Comparisons, width: usize, all: bool) -> String {
    let mut out = paragraph("", &comparisons.title, width);
    out.push_str(&paragraph("", super::FIGURES, width));
    for comparison in &comparisons.comparisons {
        out.push('\n');
        for sentence in &comparison.summary {
            out.push_str(&paragraph("- ", sentence, width));
        }
        for line in &comparison.unmatched {
            out.push_str(&paragraph("- ", line, width));
        }
        if !comparison.differences.is_empty() {
            out.push_str(&format!("\nWhat else differs ({} | {})\n", comparison.a.name, comparison.b.name));
            for one in &comparison.differences {
                out.push_str(&paragraph("  ", &difference(one), width));
            }
        }
        for overall in &comparison.overall {
            out.push_str(&format!("\n{} ({})\n", overall.label, overall.kind.title()));
            push(&mut out, &grid(comparison, &overall.metrics), width);
        }
        // Where cells are summed up, single ones are shown when asked for.
        if all || comparison.overall.is_empty() || comparison.cells.len() <= 4 {
            for cell in &comparison.cells {
                out.push_str(&format!("\n{} ({})\n", cell.label, cell.kind.title()));
                if let Some(why) = &cell.excluded {
                    out.push_str(&paragraph("  ! ", &format!("excluded from claims: {why}"), width));
                }
                push(&mut out, &grid(comparison, &cell.metrics), width);
            }
        } else {
            let hidden = comparison.cells.len();
            out.push_str(&format!("\n{hidden} pairs of cells one by one: --all, or --format csv.\n"));
        }
    }
    if !comparisons.gates.is_empty() {
        out.push('\n');
    }
    for gate in &comparisons.gates {
        out.push_str(&paragraph("", &gate_head(gate), width));
        for cell in &gate.cells {
            out.push_str(&paragraph("  ", &cell.sentence, width));
        }
        for line in &gate.not_judged {
            out.push_str(&paragraph("  not judged: ", line, width));
        }
    }
    out
}

/// As Markdown.
pub(super) fn markdown(comparisons: &Comparisons) -> String {
    let mut out = format!("# {}\n\n{}\n", quote(&comparisons.title), quote(super::FIGURES));
    for comparison in &comparisons.comparisons {
        out.push_str(&format!("\n## {} against {}\n\n", quote(&comparison.b.name), quote(&comparison.a.name)));
        for sentence in comparison.summary.iter().chain(&comparison.unmatched) {
            out.push_str(&format!("- {}\n", quote(sentence)));
        }
        if !comparison.differences.is_empty() {
            out.push_str("\n### What else differs\n\n");
            out.push_str(&row(&["what".to_owned(), quote(&comparison.a.name), quote(&comparison.b.name)]));
            out.push_str(&row(&["---".to_owned(), "---".to_owned(), "---".to_owned()]));
            for one in &comparison.differences {
                let word = |text: &Option<String>| quote(text.as_deref().unwrap_or("not known"));
                out.push_str(&row(&[quote(&one.what), word(&one.a), word(&one.b)]));
            }
        }
        for overall in &comparison.overall {
            out.push_str(&format!("\n### {} ({})\n\n", quote(&overall.label), overall.kind.title()));
            out.push_str(&markdown_table(comparison, &overall.metrics));
        }
        for cell in &comparison.cells {
            out.push_str(&format!("\n### {} ({})\n\n", quote(&cell.label), cell.kind.title()));
            if let Some(why) = &cell.excluded {
                out.push_str(&format!("**\\!** excluded from claims: {}\n\n", quote(why)));
            }
            out.push_str(&markdown_table(comparison, &cell.metrics));
        }
    }
    for gate in &comparisons.gates {
        out.push_str(&format!("\n**{}**\n\n", quote(&gate_head(gate))));
        for cell in &gate.cells {
            out.push_str(&format!("- {}\n", quote(&cell.sentence)));
        }
        for line in &gate.not_judged {
            out.push_str(&format!("- not judged: {}\n", quote(line)));
        }
    }
    out
}

fn markdown_table(comparison: &Comparison, figures: &[MetricComparison]) -> String {
    let mut out = row(&heads(comparison).map(|head| quote(&head)));
    out.push_str(&row(&["---", "---:", "---:", "---:", "---:", "---:", "---"].map(str::to_owned)));
    for figure in figures {
        out.push_str(&row(&figure_row(figure).iter().map(|cell| quote(cell)).collect::<Vec<_>>()));
    }
    out
}

/// As CSV.
pub(super) fn csv(comparisons: &Comparisons) -> String {
    let mut out = field_line(&COMPARE_CSV_COLUMNS.map(str::to_owned));
    for comparison in &comparisons.comparisons {
        let empty = BTreeMap::new();
        let overall = comparison.overall.iter().map(|overall| (&overall.label, &empty, &overall.metrics));
        let cells = comparison.cells.iter().map(|cell: &CellComparison| (&cell.label, &cell.factors, &cell.metrics));
        for (label, factors, metrics) in overall.chain(cells) {
            let shared: Vec<String> = factors.iter().map(|(name, value)| format!("{name}={value}")).collect();
            for figure in metrics {
                out.push_str(&field_line(&csv_row(comparison, label, &shared.join(" "), figure)));
            }
        }
    }
    out
}

fn csv_row(comparison: &Comparison, label: &str, factors: &str, figure: &MetricComparison) -> Vec<String> {
    let end = |interval: Option<[f64; 2]>, high: bool| number(interval.map(|[a, b]| if high { b } else { a }));
    let outcome = serde_json::to_value(figure.outcome).ok();
    vec![
        comparison.a.name.clone(),
        comparison.b.name.clone(),
        comparison.a.runs.join(" "),
        comparison.b.runs.join(" "),
        label.to_owned(),
        factors.to_owned(),
        figure.metric.clone(),
        figure.unit.clone(),
        number(Some(figure.a)),
        number(Some(figure.b)),
        figure.a_values.len().to_string(),
        figure.b_values.len().to_string(),
        number(figure.ratio),
        end(figure.ratio_ci95, false),
        end(figure.ratio_ci95, true),
        number(Some(figure.difference)),
        end(figure.difference_ci95, false),
        end(figure.difference_ci95, true),
        number(figure.p),
        number(figure.p_corrected),
        number(Some(figure.smallest_p)),
        outcome.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default().to_owned(),
    ]
}
