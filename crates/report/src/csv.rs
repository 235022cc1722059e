//! The report as CSV (RFC 4180: rows end in CR LF): one row a cell, its repetitions combined, and one row a published
//! figure. An empty field means that there is no figure.

use crate::Report;
use crate::document::Headline;
use crate::papers::{COLUMNS as COLUMNS_OF_PAPERS, columns as columns_of_papers};
use digest::CellInfo;
use model::quantity::{self, Combine, Group, Quantity, Unit};
use model::{LatencyKind, Probe};
use std::collections::{BTreeMap, BTreeSet};
use store::CsvColumns;

/// A cell, or a published figure.
struct Row<'a> {
    source: &'a str,
    factors: &'a BTreeMap<String, String>,
    probe: Probe,
    protocol: &'a str,
    size_bytes: u64,
    kind: LatencyKind,
    figures: Figures<'a>,
}

enum Figures<'a> {
    Measured(&'a CellInfo),
    Published(&'a Headline),
}

impl<'a> Row<'a> {
    fn cell(&self) -> Option<&'a CellInfo> {
        match self.figures {
            Figures::Measured(info) => Some(info),
            Figures::Published(_) => None,
        }
    }

    fn value(&self, id: &str) -> Option<f64> {
        match (&self.figures, id) {
            (Figures::Measured(info), _) => info.value(id),
            (Figures::Published(headline), "mean") => Some(headline.mean_ns),
            (Figures::Published(headline), "stdev") => headline.stdev_ns,
            (Figures::Published(_), _) => None,
        }
    }
}

/// The columns after those of the factors, which are named by axis and stand in alphabetical order. Those of figures are in
/// docs/generated/quantities.md.
///
/// | column | meaning |
/// |---|---|
/// | `source` | `measured`, or the publication (`redhawk-2012`, `redhawk-7.5`) that the row quotes |
/// | `substrate` | a word of [`model::facts::Substrate`]; empty for published rows |
/// | `run` | run directory |
/// | `probe`, `protocol`, `size_bytes` | what was measured |
/// | `kind` | what the times are: `rtt_half` or `rtt` |
/// | `repetitions`, `left_out` | repetitions combined, and left out because they cannot be trusted |
/// | `p50_low_ns`, `p50_high_ns` | smallest and largest median of a repetition |
/// | `saturated` | what could not keep up, with the evidence |
/// | `mark` | empty, `*` disturbed, `!` invalid or repetitions left out |
/// | `findings` | words of the findings, separated by blanks |
fn columns<'a>(axes: BTreeSet<&'a str>) -> CsvColumns<'a, Row<'a>> {
    let p50 = |row: &Row<'_>, end: usize| Some(ns(row.cell()?.range("p50")?[end]));
    CsvColumns::none()
        .each(axes, |columns, axis| columns.column(axis, move |row: &Row<'a>| row.factors.get(axis)))
        .column("source", |row| Some(row.source))
        .column("substrate", |row| Some(row.cell()?.substrate.word()))
        .column("run", |row| Some(&row.cell()?.run))
        .column("probe", |row| Some(row.probe.word()))
        .column("protocol", |row| Some(row.protocol))
        .column("size_bytes", |row| Some(row.size_bytes))
        .column("kind", |row| Some(row.kind.word()))
        .column("repetitions", |row| Some(row.cell()?.repetitions))
        .column("left_out", |row| Some(row.cell()?.left_out))
        .each([Group::Latency], figures)
        .column("p50_low_ns", move |row| p50(row, 0))
        .column("p50_high_ns", move |row| p50(row, 1))
        .each([Group::Messages, Group::Transactions, Group::Ping, Group::Schedule], figures)
        .column("saturated", |row| row.cell()?.words.get("saturated"))
        .each([Group::Intended, Group::Lateness, Group::OneWay, Group::Segments, Group::Flows], figures)
        .each([Group::Stream, Group::Working], figures)
        .column("mark", |row| Some(row.cell()?.mark.sign()))
        .column("findings", |row| {
            let findings = row.cell()?.findings.iter();
            Some(findings.map(|finding| finding.id.as_str()).collect::<Vec<_>>().join(" "))
        })
        .each([Group::Fates, Group::PgmEnds, Group::Pgm, Group::Cpu, Group::Load, Group::Corrected], figures)
        .each([Group::Tool, Group::Wake, Group::Cycle], figures)
}

/// The quantities of a group, a column each: times to a tenth of a nanosecond, all others in full.
fn figures<'a>(columns: CsvColumns<'a, Row<'a>>, group: Group) -> CsvColumns<'a, Row<'a>> {
    let shown = quantity::of_group(group).filter(|one| !one.csv_cells.is_empty() && one.combine != Combine::Never);
    columns.each(shown, |columns, one: &'static Quantity| {
        columns.column(&*one.csv_cells, |row| {
            let value = row.value(&one.id)?;
            Some(if one.unit == Unit::Ns { ns(value) } else { number(Some(value)) })
        })
    })
}

/// The names of the columns after those of the factors.
pub fn csv_columns() -> Vec<String> {
    columns(BTreeSet::new()).names().into_iter().map(str::to_owned).collect()
}

/// A number in full, with a point; empty where there is none.
pub(crate) fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map(|value| format!("{value}")).unwrap_or_default()
}

fn ns(ns: f64) -> String {
    format!("{ns:.1}").trim_end_matches(".0").to_owned()
}

impl Report {
    /// One row a cell, for spreadsheets and scripts; see [`csv_columns`].
    pub fn csv(&self) -> String {
        let document = &self.document;
        let mut axes: BTreeSet<&str> =
            document.cells.iter().flat_map(|info| info.factors.keys().map(String::as_str)).collect();
        let measured = document.cells.iter().map(|info| Row {
            source: "measured",
            factors: &info.factors,
            probe: info.probe,
            protocol: &info.protocol,
            size_bytes: info.size_bytes,
            kind: info.kind,
            figures: Figures::Measured(info),
        });
        let mut rows: Vec<Row<'_>> = measured.collect();
        for block in &document.blocks {
            let Some(source) = &block.published else { continue };
            axes.extend(document.axes.iter().map(String::as_str));
            let figures = block.rows.iter().flat_map(|row| {
                let figures = COLUMNS_OF_PAPERS.into_iter().zip(columns_of_papers(&row.headlines));
                figures.filter_map(move |(column, headline)| Some((row, column, headline?)))
            });
            rows.extend(figures.map(|(row, (probe, protocol), headline)| Row {
                source,
                factors: &row.factors,
                probe,
                protocol,
                size_bytes: 32,
                kind: document.kind,
                figures: Figures::Published(headline),
            }));
        }
        // The run has its own column.
        axes.remove("run");
        columns(axes).text(&rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a quantity whose group no list of columns names.
    #[test]
    fn every_quantity_with_a_column_is_in_the_file() {
        let heads = csv_columns();
        let combined = quantity::all().iter().filter(|one| one.combine != Combine::Never);
        for quantity in combined.filter(|one| !one.csv_cells.is_empty()) {
            assert_eq!(heads.iter().filter(|head| **head == quantity.csv_cells).count(), 1, "{}", quantity.csv_cells);
        }
    }
}
