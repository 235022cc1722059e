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
use model::quantity::{self, Group, Quantity};
use model::run::RunStep;
use model::{Finding, ResultDocument, Role};
use std::collections::BTreeSet;

/// One row: a result, with its run where it is of one.
#[derive(Debug, Clone, Copy)]
pub struct CsvRow<'a> {
    pub run: Option<(&'a Run, &'a RunStep)>,
    pub result: &'a ResultDocument,
}

impl<'a> CsvRow<'a> {
    /// A result that is of no run.
    pub fn of(result: &'a ResultDocument) -> Self {
        Self { run: None, result }
    }
}

/// Factors that have a column of their own, in the order of their columns.
const FACTORS: [&str; 7] = ["probe", "protocol", "load", "stack", "receive", "policy", "cpu"];

/// The CSV text of results; the module's text has the columns. Labels and further factors of any row make a column for
/// all. Without rows it is the column names alone. Errors: [`StoreError::Encode`] for a figure that is no number (NaN, infinity), with
/// its column.
pub fn csv<'a>(rows: impl IntoIterator<Item = CsvRow<'a>>) -> Result<String, StoreError> {
    let rows: Vec<CsvRow<'a>> = rows.into_iter().collect();
    let labels: BTreeSet<&str> =
        rows.iter().filter_map(|row| row.run).flat_map(|(run, _)| run.run.labels.keys().map(String::as_str)).collect();
    let known = |name: &&str| *name != "size" && !FACTORS.contains(name);
    let factors: BTreeSet<&str> =
        rows.iter().flat_map(|row| row.result.factors.keys().map(String::as_str)).filter(known).collect();
    // All of them have the same rungs.
    let ladder = rows.iter().map(|row| row.result.ladder.as_slice()).find(|ladder| !ladder.is_empty()).unwrap_or(&[]);
    let broken = |row: &CsvRow<'_>| {
        quantity::all()
            .iter()
            .find(|one| !one.csv.is_empty() && one.of(row.result).is_some_and(|value| !value.is_finite()))
    };
    if let Some(quantity) = rows.iter().find_map(broken) {
        let why = "it is no number, which a result must not hold".to_owned();
        return Err(StoreError::Encode { what: format!("CSV column {}", quantity.csv), why });
    }
    let columns = CsvColumns::none()
        .column("run", |row: &CsvRow<'a>| Some(row.run?.0.path.file_name()?.to_string_lossy()))
        .column("step", |row| Some(row.run?.1.index))
        .column("cell", |row| row.result.cell.as_ref())
        .column("repetition", |row| row.result.repetition)
        .column("substrate", |row| Some(row.run?.0.run.substrate))
        .each(labels, |columns, label| {
            columns.column(format!("label_{label}"), move |row| row.run?.0.run.labels.get(label))
        })
        .each(FACTORS, |columns, factor| columns.column(factor, move |row| recorded(row.result, factor)))
        .column("size_bytes", |row| row.result.size())
        .each(factors, |columns, factor| {
            columns.column(format!("factor_{factor}"), move |row| row.result.factor(factor))
        })
        .each(Role::ALL, |columns, role| {
            columns.column(format!("{role}_host"), move |row| row.result.ends.first(role)?.host.as_ref())
        })
        .column("started_ns", |row| Some(row.result.started_ns))
        .each([Group::Tool], figures)
        .column("latency_kind", |row| Some(row.result.latency.as_ref()?.kind.word()))
        .each([Group::Latency, Group::Intended, Group::Lateness, Group::Schedule], figures)
        .each(ladder.iter().enumerate(), |columns, (at, rung)| {
            columns.column(format!("ladder_p{}_ns", rung.percent), move |row| row.result.ladder.get(at)?.ns)
        })
        .column("saturated", |row| Some(&row.result.rate.as_ref()?.saturated.as_ref()?.who))
        .each([Group::OneWay, Group::Pgm, Group::Fates, Group::Flows, Group::Stream, Group::Working], figures)
        .each([Group::Ping, Group::Messages, Group::Wake, Group::Transactions], figures)
        .column("connect_each", |row| Some(row.result.transactions.as_ref()?.connect_each))
        .each([Group::Cpu, Group::Load], figures)
        .column("load_steady", |row| Some(row.result.load.as_ref()?.steady))
        .each([Group::Corrected, Group::Segments, Group::PgmEnds, Group::Cycle], figures)
        .column("trusted", |row| Some(row.result.verdict.trusted))
        .column("invalid", |row| Some(ids(&row.result.verdict.invalid)))
        .column("disturbed", |row| Some(ids(&row.result.verdict.disturbed)));
    Ok(columns.text(&rows))
}

/// The quantities of a group, a column each.
fn figures<'a>(columns: CsvColumns<'a, CsvRow<'a>>, group: Group) -> CsvColumns<'a, CsvRow<'a>> {
    let shown = quantity::of_group(group).filter(|one| !one.csv.is_empty());
    columns.each(shown, |columns, one: &'static Quantity| columns.column(&*one.csv, |row| one.of(row.result)))
}

/// A factor as the cell has it, or as the initiator was told where nothing varied it.
fn recorded(result: &ResultDocument, factor: &str) -> Option<String> {
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

type Read<'a, R> = Box<dyn Fn(&R) -> String + 'a>;

/// The columns of a CSV file, each with what it has in a row of type `R`: a column is written once.
pub struct CsvColumns<'a, R>(Vec<(String, Read<'a, R>)>);

impl<'a, R> CsvColumns<'a, R> {
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// One more; empty in rows where it is not known.
    #[must_use]
    pub fn column<T: ToString>(mut self, name: impl Into<String>, read: impl Fn(&R) -> Option<T> + 'a) -> Self {
        let text = move |row: &R| read(row).map(|value| value.to_string()).unwrap_or_default();
        self.0.push((name.into(), Box::new(text)));
        self
    }

    #[must_use]
    pub fn each<T>(self, all: impl IntoIterator<Item = T>, more: impl FnMut(Self, T) -> Self) -> Self {
        all.into_iter().fold(self, more)
    }

    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }

    pub fn text<'r>(&self, rows: impl IntoIterator<Item = &'r R>) -> String
    where
        R: 'r,
    {
        let line = |row| csv_line(&self.0.iter().map(|(_, read)| read(row)).collect::<Vec<_>>());
        rows.into_iter().fold(csv_line(&self.names()), |text, row| text + &line(row))
    }
}

/// The ids of findings, each once, in the order found.
fn ids(findings: &[Finding]) -> String {
    let mut seen = BTreeSet::new();
    let words = findings.iter().map(|finding| finding.id.word()).filter(|word| seen.insert(*word));
    words.collect::<Vec<_>>().join(" ")
}
