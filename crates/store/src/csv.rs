//! Results as CSV: one row a result, unit-named columns, RFC 4180.
//!
//! The first row holds the column names. Fields are separated by commas and rows end in CR LF; a field that holds a
//! comma, a quote, CR or LF stands in quotes, with quotes doubled (RFC 4180, section 2). A figure that is not known is
//! empty, never 0. Numbers use a point and no grouping; fractions are written in full.
//!
//! Beside the figures, which are those of [`model::quantity`] and stand in its order:
//!
//! | column | meaning |
//! |---|---|
//! | `run` | name of the run directory; empty for a result of no run |
//! | `step` | place in execution order, from 1; the file is `cells/NNNN.json` |
//! | `cell` | the cell's key |
//! | `repetition` | which repetition of the cell, from 1 |
//! | `substrate` | what the hosts are, a word of [`model::facts::Substrate`] |
//! | `label_*` | one column for each label of the runs |
//! | `probe`, `protocol`, `load`, `stack`, `receive`, `policy`, `cpu` | the factors; two-ended ones as `initiator;reflector` |
//! | `size_bytes` | message size |
//! | `factor_*` | one column for each further factor |
//! | `ladder_p*_ns` | percentiles of the ladder, where a result has one |
//! | `initiator_host`, `reflector_host` | names of the hosts |
//! | `started_ns` | wall clock at the first timed message, ns since 1970 |
//! | `latency_kind` | what the latency columns are: `rtt_half` (RTT/2), `rtt`, `one_way` |
//! | `saturated` | what could not keep up: `initiator`, `reflector` or `path` |
//! | `connect_each` | whether each transaction made its own connection |
//! | `load_steady` | whether the load was steady when the measurement began |
//! | `trusted` | whether the figures can be trusted |
//! | `invalid`, `disturbed` | what the verdict found, ids separated by spaces |

use crate::{Run, StoreError};
use model::quantity::{self, Group};
use model::result::Rung;
use model::run::RunStep;
use model::{Finding, ResultDocument, Role};
use std::collections::BTreeSet;

/// One row: a result, with its run where it is of one.
#[derive(Debug, Clone, Copy)]
pub struct CsvRow<'a> {
    /// The run and the step of it.
    pub run: Option<(&'a Run, &'a RunStep)>,
    /// The result.
    pub result: &'a ResultDocument,
}

impl<'a> CsvRow<'a> {
    /// A result that is of no run.
    #[must_use]
    pub fn of(result: &'a ResultDocument) -> Self {
        Self { run: None, result }
    }
}

/// Factors that have a column of their own, in the order of their columns.
const FACTORS: [&str; 7] = ["probe", "protocol", "load", "stack", "receive", "policy", "cpu"];

/// The CSV text of results; the module's text has the columns. Labels and further factors of any row make a column for
/// all. Without rows it is the column names alone.
///
/// # Errors
/// [`StoreError::Encode`] for a figure that is no number (NaN, infinity), with its column.
pub fn csv<'a>(rows: impl IntoIterator<Item = CsvRow<'a>>) -> Result<String, StoreError> {
    let rows: Vec<CsvRow<'a>> = rows.into_iter().collect();
    let labels: BTreeSet<&str> =
        rows.iter().filter_map(|row| row.run).flat_map(|(run, _)| run.run.labels.keys().map(String::as_str)).collect();
    let known = |name: &&str| *name != "size" && !FACTORS.contains(name);
    let factors: BTreeSet<&str> =
        rows.iter().flat_map(|row| row.result.factors.keys().map(String::as_str)).filter(known).collect();
    // All of them have the same rungs.
    let ladder = rows.iter().map(|row| row.result.ladder.as_slice()).find(|ladder| !ladder.is_empty()).unwrap_or(&[]);
    let columns = Columns { labels, factors, ladder };
    let mut text = csv_line(&Fields::of(None, &columns).names);
    for row in &rows {
        let fields = Fields::of(Some(row), &columns);
        if let Some(column) = fields.no_number {
            let why = "it is no number, which a result must not hold".to_owned();
            return Err(StoreError::Encode { what: format!("CSV column {column}"), why });
        }
        text.push_str(&csv_line(&fields.values));
    }
    Ok(text)
}

/// A factor as the cell has it, or as the initiator was told where nothing varied it.
fn known(result: &ResultDocument, factor: &str) -> Option<String> {
    let end = result.ends.first(Role::Initiator)?;
    result.factor(factor).or_else(|| match factor {
        "probe" => Some(result.probe.to_string()),
        // What another tool was told is not known.
        _ if result.is_imported() => None,
        "receive" => Some(end.spec.receive.to_string()),
        "policy" => Some(end.spec.policy.to_string()),
        "cpu" => end.spec.cpu.map(|cpu| cpu.to_string()),
        // A plan's name for the stack of the kernel.
        "stack" if end.preloads.is_empty() => Some("kernel".to_owned()),
        "stack" => Some(end.preloads.iter().map(|preload| preload.library.as_str()).collect::<Vec<_>>().join(":")),
        _ => None,
    })
}

/// One row of fields as RFC 4180 writes it; what steers a terminal is made [`visible`](model::text::visible).
#[must_use]
pub fn csv_line(fields: &[impl AsRef<str>]) -> String {
    let field = |field: &str| {
        let field = model::text::visible(field);
        match field.contains([',', '"', '\r', '\n']) {
            true => format!("\"{}\"", field.replace('"', "\"\"")),
            false => field.into_owned(),
        }
    };
    fields.iter().map(|text| field(text.as_ref())).collect::<Vec<_>>().join(",") + "\r\n"
}

struct Columns<'a> {
    labels: BTreeSet<&'a str>,
    factors: BTreeSet<&'a str>,
    ladder: &'a [Rung],
}

/// The columns of one row. Names and values are pushed together, so that they cannot come apart.
#[derive(Debug, Default)]
struct Fields {
    names: Vec<String>,
    values: Vec<String>,
    /// The first column whose figure is NaN or infinite.
    no_number: Option<String>,
}

impl Fields {
    /// The quantities of some groups.
    fn groups(&mut self, groups: &[Group], result: Option<&ResultDocument>) {
        for quantity in groups.iter().flat_map(|group| quantity::of_group(*group)).filter(|one| !one.csv.is_empty()) {
            let value = result.and_then(|result| quantity.of(result));
            if value.is_some_and(|value| !value.is_finite()) && self.no_number.is_none() {
                self.no_number = Some(quantity.csv.clone());
            }
            self.push(quantity.csv.as_str(), value);
        }
    }

    fn push(&mut self, name: impl Into<String>, value: Option<impl ToString>) {
        self.names.push(name.into());
        self.values.push(value.map_or_else(String::new, |value| value.to_string()));
    }

    /// The columns of a row; of none, for their names.
    fn of(row: Option<&CsvRow<'_>>, columns: &Columns<'_>) -> Self {
        let mut fields = Self::default();
        let Columns { labels, factors, ladder } = columns;
        let result = row.map(|row| row.result);
        let of_run = row.and_then(|row| row.run);
        let run = of_run.map(|(run, _)| run);
        let name = run.and_then(|run| run.path.file_name()).map(|name| name.to_string_lossy().into_owned());
        fields.push("run", name);
        fields.push("step", of_run.map(|(_, step)| step.index));
        fields.push("cell", result.and_then(|result| result.cell.as_ref()));
        fields.push("repetition", result.and_then(|result| result.repetition));
        fields.push("substrate", run.map(|run| run.run.substrate));
        for label in labels {
            fields.push(format!("label_{label}"), run.and_then(|run| run.run.labels.get(*label)));
        }
        for factor in FACTORS {
            fields.push(factor, result.and_then(|result| known(result, factor)));
        }
        fields.push("size_bytes", result.and_then(ResultDocument::size));
        for factor in factors {
            fields.push(format!("factor_{factor}"), result.and_then(|result| result.factor(factor)));
        }
        for role in Role::ALL {
            let host = result.and_then(|result| result.ends.first(role)?.host.as_ref());
            fields.push(format!("{role}_host"), host);
        }
        fields.push("started_ns", result.map(|result| result.started_ns));
        fields.groups(&[Group::Tool], result);
        let kind = result.and_then(|result| result.latency.as_ref()).map(|latency| latency.kind.word());
        fields.push("latency_kind", kind);
        fields.groups(&[Group::Latency, Group::Intended, Group::Lateness, Group::Schedule], result);
        for (at, rung) in ladder.iter().enumerate() {
            let ns = result.and_then(|result| result.ladder.get(at)?.ns);
            fields.push(format!("ladder_p{}_ns", rung.percent), ns);
        }
        let rate = result.and_then(|result| result.rate.as_ref());
        fields.push("saturated", rate.and_then(|rate| rate.saturated.as_ref()).map(|saturated| &saturated.who));
        fields.groups(&[Group::OneWay, Group::Pgm, Group::Fates, Group::Flows, Group::Stream, Group::Working], result);
        fields.groups(&[Group::Ping, Group::Messages, Group::Wake, Group::Transactions], result);
        let transactions = result.and_then(|result| result.transactions.as_ref());
        fields.push("connect_each", transactions.map(|transactions| transactions.connect_each));
        fields.groups(&[Group::Cpu, Group::Load], result);
        fields.push("load_steady", result.and_then(|result| result.load.as_ref()).map(|load| load.steady));
        fields.groups(&[Group::Corrected, Group::Segments, Group::PgmEnds], result);
        let verdict = result.map(|result| &result.verdict);
        fields.push("trusted", verdict.map(|verdict| verdict.trusted));
        fields.push("invalid", verdict.map(|verdict| ids(&verdict.invalid)));
        fields.push("disturbed", verdict.map(|verdict| ids(&verdict.disturbed)));
        fields
    }
}

/// The ids of findings, each once, in the order found.
fn ids(findings: &[Finding]) -> String {
    let mut words: Vec<&str> = Vec::new();
    for finding in findings {
        let word = finding.id.word();
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(" ")
}
