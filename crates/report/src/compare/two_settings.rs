//! The answer to one question typed at the command line: two settings measured in turn, in one sentence and one small table.

use super::worded;
use super::words::{FACTOR, percent, title};
use crate::layout::{Column, Columns, Grid};
use crate::sheet::{Form, SENTENCE, Sheet};
use crate::units::{counted, figure as figure_of, list};
use digest::compare::{
    CellComparison, CompareError, CompareOptions, Comparison, Comparisons, MetricComparison, Outcome, Siblings,
};
use digest::{Metric, RunInput};
use model::quantity::Unit;
use model::{LatencyKind, Probe, ResultDocument};
use stats::Looks;

/// The figures that are tested together, as far as the results have them; and of a stream, which has no round trips.
const TESTED: [&str; 3] = ["p50", "stdev", "p99.9"];
/// Quantiles of them, and messages of a repetition without which it has none.
const QUANTILES: [(&str, &str); 2] = [("p50", "20"), ("p99.9", "10,000")];
const OF_STREAM: [&str; 3] = ["bits", "working.p50", "working.p99"];

enum Line {
    /// The first or the second.
    Side(usize),
    Ratio,
    Interval,
}

/// What two settings measured in turn come to.
#[derive(Debug, Clone)]
pub struct TwoSettings {
    comparisons: Comparisons,
    /// The largest latency of all trusted repetitions of each side, in ns.
    worst_ns: [Option<f64>; 2],
    /// What the sides are called: `with --policy fifo:1`, `without`.
    names: [String; 2],
    /// Whether the results are round trips, of which p99.9 is a figure.
    has_tail: bool,
    is_interrupted: bool,
}

impl TwoSettings {
    /// The factor whose values `a` and `b` tell the results of the two sides apart.
    pub const FACTOR: &str = "side";

    /// Judges the results of a run, which [`Self::FACTOR`] divides into two sides of one cell each. `level` is that of this
    /// look ([`stats::Looks::level`]). Errors: [`CompareError`] where a side has no result, or where they were not measured alike.
    pub fn new(run: &RunInput, names: [String; 2], level: f64) -> Result<Self, CompareError> {
        let first = run.results.first();
        let is_stream = first.is_some_and(|result| result.probe == Probe::Stream);
        let kind = first.and_then(|result| Some(result.latency.as_ref()?.kind));
        let metrics = if is_stream { OF_STREAM } else { TESTED };
        let options = CompareOptions {
            metrics: metrics.iter().map(|word| word.parse()).collect::<Result<_, _>>()?,
            rtt: kind == Some(LatencyKind::Rtt),
            level: Some(level),
            ..CompareOptions::default()
        };
        let judged = Comparisons::judged_sides(run, Self::FACTOR, [&names[0], &names[1]], &options)?;
        let comparisons = worded(judged, std::slice::from_ref(run), &Siblings::default());
        let worst_ns = ["a", "b"].map(|side| worst(&run.results, side, options.rtt));
        Ok(Self { comparisons, worst_ns, names, has_tail: !is_stream, is_interrupted: false })
    }

    /// The same of measurements that somebody ended before the answer was known.
    #[must_use]
    pub fn interrupted(self) -> Self {
        Self { is_interrupted: true, ..self }
    }

    pub fn comparisons(&self) -> &Comparisons {
        &self.comparisons
    }

    /// The figure that the sides differ in most surely, and of several that are as sure the most.
    fn leading(&self) -> Option<&MetricComparison> {
        let size = |figure: &MetricComparison| figure.ratio.map_or(0.0, |ratio| ratio.ln().abs());
        let p = |figure: &MetricComparison| figure.p_corrected.unwrap_or(1.0);
        let decided = self.figures().filter(|figure| figure.outcome.is_claim());
        decided.min_by(|a, b| p(a).total_cmp(&p(b)).then(size(b).total_cmp(&size(a))))
    }

    /// Whether the sides differ in any of the figures that were tested.
    pub fn is_decided(&self) -> bool {
        self.leading().is_some()
    }

    /// Why the answer cannot be trusted; `None` where it can.
    pub fn untrusted(&self) -> Option<String> {
        let found = self.cells().find_map(|cell| {
            let sides = [&cell.a, &cell.b].into_iter().zip(&self.names).zip(self.worst_ns);
            sides.into_iter().find_map(|((side, name), worst)| {
                let (left, all) = (side.left_out, side.left_out + side.repetitions);
                let why = list(&side.invalid());
                match worst {
                    // Of a side without a trusted repetition none is left out.
                    None if cell.excluded.is_some() => Some(format!("no repetition {name} can be trusted ({why})")),
                    _ if left > side.repetitions => {
                        Some(format!("{left} of {all} repetitions {name} cannot be trusted ({why})"))
                    }
                    _ => None,
                }
            })
        });
        let few = || {
            let any = self.figures().any(|figure| figure.outcome != Outcome::TooFew);
            let left_out = self.cells().any(|cell| cell.a.left_out + cell.b.left_out > 0);
            let (counts, needed) = (self.counts(), stats::samples_needed(1, self.comparisons.level));
            let trusted = if left_out { " that can be trusted" } else { "" };
            let remedy = if left_out { "measure on a quieter machine" } else { "raise --at-most" };
            let why = match self.is_interrupted {
                true => format!("interrupted after {counts}{trusted}, {needed} could tell"),
                false => format!("{counts}{trusted} are too few, {needed} could tell: {remedy}"),
            };
            (!any).then_some(why)
        };
        found.or_else(few)
    }

    fn cells(&self) -> impl Iterator<Item = &CellComparison> {
        self.comparisons.comparisons.iter().flat_map(|one: &Comparison| &one.cells)
    }

    fn figures(&self) -> impl Iterator<Item = &MetricComparison> {
        self.cells().flat_map(|cell| &cell.metrics)
    }

    /// `8 repetitions each`.
    fn counts(&self) -> String {
        let counts = self.cells().next().map_or((0, 0), |cell| (cell.a.repetitions, cell.b.repetitions));
        match counts {
            (a, b) if a == b => format!("{} each", counted(a, "repetition")),
            (a, b) => format!("{a} and {b} repetitions"),
        }
    }

    /// How it was measured: `8 repetitions each, interleaved`.
    fn how(&self) -> String {
        format!("{}, interleaved{}", self.counts(), if self.is_interrupted { ", interrupted" } else { "" })
    }

    fn sentence(&self) -> String {
        if let Some(why) = self.untrusted() {
            return format!("Not decided: {why}.");
        }
        let kind = self.cells().next().map_or(LatencyKind::RttHalf, |cell| cell.kind);
        if let Some(figure) = self.leading() {
            let unit = figure.quantity.unit();
            let [a, b] = [figure.a, figure.b].map(|value| figure_of(unit, value));
            let name = figure.quantity.0.name(kind).replace("stdev", title("stdev"));
            let by = figure.ratio.map(|ratio| claim(ratio, figure.ratio_ci95)).unwrap_or_default();
            return format!("{name}: {b} {} against {a} {}{by}, {}.", self.names[1], self.names[0], self.how());
        }
        let complete = self.figures().filter(|figure| !figure.incomplete);
        let (narrow, wide): (Vec<_>, Vec<_>) = complete.partition(|figure| figure.outcome.is_decided());
        let bounds: Vec<String> =
            narrow.into_iter().filter_map(|figure| Some((figure, figure.ratio_ci95?))).map(bound).collect();
        let wide: Vec<String> = wide.into_iter().map(|figure| title(&figure.metric).to_owned()).collect();
        let most = if bounds.is_empty() { String::new() } else { format!(" larger than {}", list(&bounds)) };
        let unclear = if wide.is_empty() { String::new() } else { format!("; not clear for {}", list(&wide)) };
        format!("No difference seen{most}{unclear}: {}.", self.how())
    }

    fn table(&self) -> Grid {
        // Where repetitions lack a figure, those that have it are no fair sample.
        let figures = self.figures().filter(|figure| !figure.incomplete);
        let right = |title: &str| Column { right: true, ..Column::words(title) };
        let dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        let mut rows = vec![Line::Side(0), Line::Side(1)];
        // A ratio of repetitions that are too few, or that cannot be trusted, would be read as the answer.
        if self.untrusted().is_none() {
            rows.extend([Line::Ratio, Line::Interval]);
        }
        Columns::none()
            .words("", |line: &Line| match line {
                Line::Side(at) => self.names[*at].clone(),
                Line::Ratio => "ratio".to_owned(),
                Line::Interval => "95 %".to_owned(),
            })
            .each(figures, |columns, figure| {
                columns.column(right(title(&figure.metric)), move |line| match line {
                    Line::Side(at) => figure_of(figure.quantity.unit(), [figure.a, figure.b][*at]),
                    Line::Ratio => dash(figure.ratio.map(factor)),
                    Line::Interval => {
                        dash(figure.ratio_ci95.map(|[low, high]| format!("{} to {}", factor(low), factor(high))))
                    }
                })
            })
            .column(right("worst"), |line| match line {
                Line::Side(at) => dash(self.worst_ns[*at].map(|ns| figure_of(Unit::Ns, ns))),
                Line::Ratio | Line::Interval => dash(None),
            })
            .grid(rows)
    }

    /// What was left out, and what to type for more.
    fn remarks(&self) -> Vec<String> {
        let mut out = Vec::new();
        for cell in self.cells().filter(|cell| cell.excluded.is_none()) {
            for (name, side) in [(&self.names[0], &cell.a), (&self.names[1], &cell.b)] {
                if side.left_out > 0 {
                    let (left, all) = (side.left_out, side.left_out + side.repetitions);
                    let why = list(&side.invalid());
                    out.push(format!(
                        "{left} of {all} repetitions {name} left out, as they cannot be trusted ({why})."
                    ));
                }
            }
        }
        let lacks = |word: &str| !self.figures().any(|figure| figure.metric == word && !figure.incomplete);
        for (word, least) in QUANTILES.into_iter().filter(|(word, _)| self.has_tail && lacks(word)) {
            out.push(format!("{word} is not compared: each repetition needs {least} messages (--seconds)."));
        }
        let all = self.cells().map(|cell| cell.a.repetitions + cell.a.left_out).max().unwrap_or(0);
        if !self.is_decided() && self.untrusted().is_none() {
            // More repetitions than the last look has are never measured.
            let more = if all < Looks::MOST { "More repetitions" } else { "Longer repetitions" };
            let flag = if all < Looks::MOST { "--at-most" } else { "--seconds" };
            out.push(format!("{more} show smaller differences: raise {flag}."));
        }
        out
    }

    /// One sentence, the table, and what to know beside it, at most `width` columns wide.
    pub fn text(&self, width: usize) -> String {
        self.written(Form::Terminal(width))
    }

    pub fn markdown(&self) -> String {
        self.written(Form::Markdown)
    }

    fn written(&self, form: Form) -> String {
        let (mut sheet, remarks) = (Sheet::new(form), self.remarks());
        sheet.put("", SENTENCE, &self.sentence());
        sheet.plain("\n", "");
        sheet.table(&self.table(), 0);
        sheet.plain(if remarks.is_empty() { "" } else { "\n" }, "");
        remarks.iter().for_each(|remark| sheet.put("", ["\n", "\n"], remark));
        sheet.finish()
    }
}

fn worst(results: &[ResultDocument], side: &str, rtt: bool) -> Option<f64> {
    let max: Metric = "max".parse().ok()?;
    let own = results.iter().filter(|result| result.factor(TwoSettings::FACTOR).as_deref() == Some(side));
    own.filter(|result| result.verdict.trusted).filter_map(|result| max.of(result, rtt)).reduce(f64::max)
}

fn factor(ratio: f64) -> String {
    match ratio {
        v if v < 0.095 => format!("{v:.3}"),
        v if v < 1.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// How much larger or smaller the second side is: `: 3.9 times lower (95 % 3.1 to 4.8)`, `: 22 % higher (95 % 15 to 30 %)`.
fn claim(ratio: f64, interval: Option<[f64; 2]>) -> String {
    let word = if ratio > 1.0 { "higher" } else { "lower" };
    let from_one = |[low, high]: [f64; 2]| if ratio > 1.0 { [low, high] } else { [1.0 / high, 1.0 / low] };
    let far = |ratio: f64| ratio.max(1.0 / ratio);
    // One sentence has one unit.
    if interval.into_iter().flatten().chain([ratio]).any(|end| far(end) >= FACTOR) {
        let bounds = interval.map(from_one).map(|[near, end]| format!(" (95 % {near:.1} to {end:.1})"));
        return format!(": {:.1} times {word}{}", far(ratio), bounds.unwrap_or_default());
    }
    let nearest = |[low, high]: [f64; 2]| if ratio > 1.0 { [low, high] } else { [high, low] };
    let share = |ratio: f64| percent(ratio - 1.0);
    let bounds = interval.map(nearest).map(|[near, end]| {
        let (near, end) = (share(near), share(end));
        format!(" (95 % {} to {end})", near.trim_end_matches(" %"))
    });
    format!(": {} {word}{}", share(ratio), bounds.unwrap_or_default())
}

/// The largest difference that a narrow interval leaves possible: `2.1 % (p50)`.
fn bound((figure, [low, high]): (&MetricComparison, [f64; 2])) -> String {
    format!("{} ({})", percent((high - 1.0).max(1.0 - low)), title(&figure.metric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_as_people_say_them() {
        assert_eq!(claim(0.2564, Some([0.2083, 0.3226])), ": 3.9 times lower (95 % 3.1 to 4.8)");
        assert_eq!(claim(4.0, Some([3.0, 5.0])), ": 4.0 times higher (95 % 3.0 to 5.0)");
        assert_eq!(claim(2.35, Some([1.37, 4.03])), ": 2.4 times higher (95 % 1.4 to 4.0)");
        assert_eq!(claim(1.22, Some([1.15, 1.30])), ": 22 % higher (95 % 15 to 30 %)");
        assert_eq!(claim(0.78, Some([0.72, 0.85])), ": 22 % lower (95 % 15 to 28 %)");
        assert_eq!(
            [0.0123, 0.26, 1.5, 3.94, 250.0].map(factor),
            ["0.012", "0.26", "1.50", "3.9", "250"].map(str::to_owned)
        );
    }
}
