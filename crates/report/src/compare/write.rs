//! The comparison as text, Markdown and CSV.

use super::words::{FIGURES, ON_FIRST_SCREEN, bounds, p_word, size, title};
use crate::csv::number;
use crate::layout::{Column, Columns, Grid};
use crate::markdown::quote;
use crate::sheet::{Form, SENTENCE, Sheet};
use crate::units::{figure as figure_of, span};
use digest::causes::CauseChange;
use digest::compare::{Comparison, Comparisons, Difference, GateOutcome, LEVEL, MetricComparison, Outcome, Set};
use store::csv_line;

/// Sets of figures on the first screen of a comparison.
const MOST_SETS: usize = 2;

/// The figures that a reader looks for first; where there are none of these, all.
fn main_figures(metrics: &[MetricComparison]) -> Vec<MetricComparison> {
    const FIRST: [&str; 7] = ["p50", "stdev", "p99.9", "max", "bits", "transactions", "loss"];
    let main: Vec<MetricComparison> =
        metrics.iter().filter(|figure| FIRST.contains(&figure.metric.as_str())).cloned().collect();
    if main.is_empty() { metrics.to_vec() } else { main }
}

/// What was compared, and the sentences of the first screen.
fn first_screen(one: &Comparison) -> (&str, &[String]) {
    let first = one.summary.get(..ON_FIRST_SCREEN.min(one.summary.len())).unwrap_or_default();
    first.split_first().map_or(("", &[]), |(opening, sentences)| (opening.as_str(), sentences))
}

/// The sets of the first screen: those with a difference in front.
fn first_sets(one: &Comparison) -> Vec<Set<'_>> {
    let mut sets: Vec<Set<'_>> = one.sets().collect();
    sets.sort_by_key(|set| !set.metrics.iter().any(|figure| figure.outcome.is_claim()));
    sets.truncate(MOST_SETS);
    sets
}

type Row<'c> = (&'c Comparison, &'c Set<'c>, &'c MetricComparison);

/// The columns of [`ComparisonWriter::csv`], with their meaning:
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
pub fn csv_columns() -> Vec<&'static str> {
    COLUMNS.iter().map(|(name, _)| *name).collect()
}

type CsvColumn = (&'static str, fn(Row<'_>) -> String);

const COLUMNS: [CsvColumn; 22] = [
    ("a", |(comparison, ..)| comparison.a.name.clone()),
    ("b", |(comparison, ..)| comparison.b.name.clone()),
    ("a_run", |(comparison, ..)| comparison.a.runs.join(" ")),
    ("b_run", |(comparison, ..)| comparison.b.runs.join(" ")),
    ("cell", |(_, set, _)| set.label.to_owned()),
    ("factors", |(_, set, _)| {
        let shared = set.factors.into_iter().flatten().map(|(name, value)| format!("{name}={value}"));
        shared.collect::<Vec<_>>().join(" ")
    }),
    ("metric", |(.., figure)| figure.metric.clone()),
    ("unit", |(.., figure)| figure.unit.clone()),
    ("a_value", |(.., figure)| number(Some(figure.a))),
    ("b_value", |(.., figure)| number(Some(figure.b))),
    ("a_repetitions", |(.., figure)| figure.a_values.len().to_string()),
    ("b_repetitions", |(.., figure)| figure.b_values.len().to_string()),
    ("ratio", |(.., figure)| number(figure.ratio)),
    ("ratio_low", |(.., figure)| number(figure.ratio_ci95.map(|[low, _]| low))),
    ("ratio_high", |(.., figure)| number(figure.ratio_ci95.map(|[_, high]| high))),
    ("difference", |(.., figure)| number(Some(figure.difference))),
    ("difference_low", |(.., figure)| number(figure.difference_ci95.map(|[low, _]| low))),
    ("difference_high", |(.., figure)| number(figure.difference_ci95.map(|[_, high]| high))),
    ("p", |(.., figure)| number(figure.p)),
    ("p_corrected", |(.., figure)| number(figure.p_corrected)),
    ("smallest_p", |(.., figure)| number(Some(figure.smallest_p))),
    ("outcome", |(.., figure)| figure.outcome.word().to_owned()),
];

pub(super) fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Higher => "higher",
        Outcome::Lower => "lower",
        Outcome::NoDifference => "none seen",
        Outcome::Unclear => "not clear",
        Outcome::TooFew => "not decided",
        Outcome::NotTested => "",
        Outcome::Same => "the same",
        Outcome::Untrusted => "! not trusted",
    }
}

pub(crate) fn grid(comparison: &Comparison, figures: &[MetricComparison]) -> Grid {
    type Figure<'f> = &'f MetricComparison;
    let dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let right = |title: &str| Column { right: true, ..Column::words(title) };
    let differs = |figure: Figure<'_>| figure.outcome != Outcome::Same;
    let p = |figure: Figure<'_>| {
        // A p that cannot become significant says nothing.
        let p = figure.p_corrected.filter(|_| figure.smallest_p <= LEVEL);
        p.map(|p| p_word(p).trim_start_matches("p ").trim_start_matches("= ").to_owned())
    };
    Columns::none()
        .words("figure", |figure: &Figure<'_>| title(&figure.metric).to_owned())
        .column(right(&comparison.a.name), |figure| figure_of(figure.quantity.unit(), figure.a))
        .column(right(&comparison.b.name), |figure| figure_of(figure.quantity.unit(), figure.b))
        .column(right("change"), |figure| dash(differs(figure).then(|| size(figure))))
        .column(right("95 %"), |figure| dash(bounds(figure).filter(|_| differs(figure))))
        .column(right("p"), |figure| dash(p(figure)))
        .words("", |figure| outcome_word(figure.outcome).to_owned())
        .grid(figures)
}

/// What late messages lost on both sides, a row a class; `None` where nothing is known of it, or nothing changed.
pub(crate) fn causes(comparison: &Comparison, set: &Set<'_>) -> Option<(String, Grid)> {
    let changes = set.causes.filter(|changes| !changes.classes.is_empty())?;
    let all = ["all causes".to_owned(), span(changes.a_ns), span(changes.b_ns), signed(changes.b_ns - changes.a_ns)];
    let row = |one: &CauseChange| [one.class.to_string(), span(one.a_ns), span(one.b_ns), signed(one.difference_ns)];
    let rows = changes.classes.iter().map(row).chain([all]).map(Vec::from).collect();
    let right = |title: &str| Column { right: true, ..Column::words(title) };
    let columns = vec![Column::words("cause"), right(&comparison.a.name), right(&comparison.b.name), right("change")];
    let over = match (changes.a_over_ns, changes.b_over_ns) {
        (a, b) if a == b => span(a as f64),
        (a, b) => format!("{} | {}; --explain-over makes that one limit", span(a as f64), span(b as f64)),
    };
    let title = format!("Why late: what each message lost on average; late is over {over}");
    Some((title, Grid { columns, rows, ..Grid::default() }))
}

fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "−" } else { "+" };
    format!("{sign}{}", span(ns.abs()))
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

/// Comparisons as text and files.
pub trait ComparisonWriter {
    /// As plain text within `width` columns: of each comparison the first screen, then the details. `all`: every cell's
    /// figures, not only those of all cells together.
    fn text(&self, width: usize, all: bool) -> String;

    fn markdown(&self) -> String;

    /// One row a figure (RFC 4180); see [`csv_columns`].
    fn csv(&self) -> String;

    /// As JSON. Errors: [`crate::ReportError::Json`] when a figure has no JSON form.
    fn json(&self) -> Result<String, crate::ReportError>;
}

/// A table of differences, which a terminal has as lines.
fn differences(sheet: &mut Sheet, one: &Comparison) {
    let [a, b] = [&one.a.name, &one.b.name];
    if one.differences.is_empty() {
        return;
    }
    sheet.plain(&format!("\nWhat else differs ({a} | {b})\n"), "\n### What else differs\n\n");
    if sheet.is_terminal() {
        one.differences.iter().for_each(|one| sheet.put("  ", SENTENCE, &difference(one)));
        return;
    }
    let word = |text: &Option<String>| text.clone().unwrap_or("not known".to_owned());
    let columns = Columns::none().words("what", |one: &&Difference| one.what.clone());
    let columns = columns.words(a, |one| word(&one.a)).words(b, |one| word(&one.b));
    sheet.table(&Grid { keeps_empty: true, ..columns.grid(&one.differences) }, 0);
}

/// Why the messages of a set were late, below its figures.
fn put_causes(sheet: &mut Sheet, comparison: &Comparison, set: &Set<'_>) {
    if let Some((title, grid)) = causes(comparison, set) {
        sheet.plain("\n", "\n");
        sheet.put("  ", SENTENCE, &title);
        sheet.table(&grid, 2);
    }
}

fn written(made: &Comparisons, form: Form, all: bool) -> String {
    let mut sheet = Sheet::new(form);
    let head = |set: &Set<'_>| format!("{} ({})", set.label, set.kind.title());
    sheet.put("", ["# ", "\n"], &made.title);
    // Who asks with a gate has its answer first.
    made.gates.iter().for_each(|gate| sheet.put("", ["\n**", "**\n"], &gate_head(gate)));
    for comparison in &made.comparisons {
        let (opening, sentences) = first_screen(comparison);
        sheet.put("", ["\n", "\n\n"], opening);
        for set in first_sets(comparison) {
            sheet.plain(&format!("\n{}\n", head(&set)), &format!("{}\n\n", quote(&head(&set))));
            sheet.table(&grid(comparison, &main_figures(set.metrics)), 2);
            put_causes(&mut sheet, comparison, &set);
            sheet.plain("", "\n");
        }
        sheet.plain("\n", "");
        sentences.iter().for_each(|sentence| sheet.put("", SENTENCE, sentence));
    }
    sheet.plain("\nDetails\n", "# Details\n\n");
    sheet.put("", ["", "\n"], FIGURES);
    for comparison in &made.comparisons {
        let [a, b] = [&comparison.a.name, &comparison.b.name].map(|name| quote(name));
        sheet.plain("\n", &format!("\n## {b} against {a}\n\n"));
        for sentence in comparison.summary.iter().skip(ON_FIRST_SCREEN).chain(&comparison.unmatched) {
            sheet.put("- ", ["- ", "\n"], sentence);
        }
        differences(&mut sheet, comparison);
        // In a terminal single cells, where they are summed up, are shown when asked for.
        let (overall, cells) = (comparison.overall.len(), comparison.cells.len());
        let hidden = if all || !sheet.is_terminal() || overall == 0 || cells <= 4 { 0 } else { cells };
        for set in comparison.sets().take(overall + cells - hidden) {
            sheet.plain(&format!("\n{}\n", head(&set)), &format!("\n### {}\n\n", quote(&head(&set))));
            if let Some(why) = set.excluded {
                sheet.plain("", "**\\!** ");
                sheet.put("  ! ", SENTENCE, &format!("excluded from claims: {why}"));
            }
            sheet.table(&grid(comparison, set.metrics), 2);
            if !first_sets(comparison).iter().any(|first| std::ptr::eq(first.metrics, set.metrics)) {
                put_causes(&mut sheet, comparison, &set);
            }
        }
        if hidden > 0 {
            sheet.plain(&format!("\n{hidden} pairs of cells one by one: --all, or --format csv.\n"), "");
        }
    }
    if !made.gates.is_empty() {
        sheet.plain("\n", "");
    }
    for gate in &made.gates {
        sheet.put("", ["\n**", "**\n\n"], &gate_head(gate));
        gate.cells.iter().for_each(|cell| sheet.put("  ", ["- ", "\n"], &cell.sentence));
        gate.not_judged.iter().for_each(|line| sheet.put("  not judged: ", ["- not judged: ", "\n"], line));
    }
    sheet.finish()
}

impl ComparisonWriter for Comparisons {
    fn text(&self, width: usize, all: bool) -> String {
        written(self, Form::Terminal(width), all)
    }

    fn markdown(&self) -> String {
        written(self, Form::Markdown, true)
    }

    fn csv(&self) -> String {
        let mut out = csv_line(&csv_columns());
        for comparison in &self.comparisons {
            for set in comparison.sets() {
                for figure in set.metrics {
                    out.push_str(&csv_line(&COLUMNS.map(|(_, read)| read((comparison, &set, figure)))));
                }
            }
        }
        out
    }

    fn json(&self) -> Result<String, crate::ReportError> {
        crate::error::json_text(self)
    }
}
