//! The report as CSV (RFC 4180: rows end in CR LF): one row a cell, its repetitions combined, and one row a published
//! figure. An empty field means that there is no figure.

use crate::Report;
use crate::document::Headline;
use crate::papers::{COLUMNS as COLUMNS_OF_PAPERS, columns};
use digest::CellInfo;
use model::quantity::{self, Combine, Group, Quantity, Unit};
use model::{LatencyKind, Probe};
use std::collections::BTreeSet;
use store::csv_line;

/// A column, or those of all quantities of a group.
enum Column {
    Words(&'static str, fn(&CellInfo) -> String),
    Figures(Group),
}

use Column::{Figures, Words};

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
const COLUMNS: &[Column] = &[
    Words("source", |_| "measured".to_owned()),
    Words("substrate", |info| info.substrate.word().to_owned()),
    Words("run", |info| info.run.clone()),
    Words("probe", |info| info.probe.word().to_owned()),
    Words("protocol", |info| info.protocol.clone()),
    Words("size_bytes", |info| info.size_bytes.to_string()),
    Words("kind", |info| info.kind.word().to_owned()),
    Words("repetitions", |info| info.repetitions.to_string()),
    Words("left_out", |info| info.left_out.to_string()),
    Figures(Group::Latency),
    Words("p50_low_ns", |info| ns(info.range("p50").map(|range| range[0]))),
    Words("p50_high_ns", |info| ns(info.range("p50").map(|range| range[1]))),
    Figures(Group::Messages),
    Figures(Group::Transactions),
    Figures(Group::Ping),
    Figures(Group::Schedule),
    Words("saturated", |info| info.words.get("saturated").cloned().unwrap_or_default()),
    Figures(Group::Intended),
    Figures(Group::Lateness),
    Figures(Group::OneWay),
    Figures(Group::Segments),
    Figures(Group::Flows),
    Figures(Group::Stream),
    Figures(Group::Working),
    Words("mark", |info| info.mark.sign().to_owned()),
    Words("findings", |info| info.findings.iter().map(|finding| finding.id.as_str()).collect::<Vec<_>>().join(" ")),
    Figures(Group::Fates),
    Figures(Group::PgmEnds),
    Figures(Group::Pgm),
    Figures(Group::Cpu),
    Figures(Group::Load),
    Figures(Group::Corrected),
    Figures(Group::Tool),
    Figures(Group::Wake),
];

fn of_group(group: Group) -> impl Iterator<Item = &'static Quantity> {
    quantity::of_group(group).filter(|one| !one.csv_cells.is_empty() && one.combine != Combine::Never)
}

/// The names of the columns after those of the factors.
#[must_use]
pub fn csv_columns() -> Vec<&'static str> {
    let names = |column: &Column| match column {
        Words(name, _) => vec![*name],
        Figures(group) => of_group(*group).map(|quantity| quantity.csv_cells.as_str()).collect(),
    };
    COLUMNS.iter().flat_map(names).collect()
}

/// A number in full, with a point; empty where there is none.
pub(crate) fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map(|value| format!("{value}")).unwrap_or_default()
}

fn ns(value: Option<f64>) -> String {
    value.map(|ns| format!("{ns:.1}").trim_end_matches(".0").to_owned()).unwrap_or_default()
}

impl Report {
    /// One row a cell, for spreadsheets and scripts; see [`csv_columns`].
    #[must_use]
    pub fn csv(&self) -> String {
        let document = &self.document;
        let mut axes: BTreeSet<&String> = document.cells.iter().flat_map(|info| info.factors.keys()).collect();
        if document.blocks.iter().any(|block| block.published.is_some()) {
            axes.extend(&document.axes);
        }
        // The run has its own column.
        axes.retain(|axis| axis.as_str() != "run");
        let mut heads: Vec<String> = axes.iter().map(|axis| (*axis).clone()).collect();
        heads.extend(csv_columns().into_iter().map(str::to_owned));
        let mut out = csv_line(&heads);
        for info in &document.cells {
            let mut fields: Vec<String> =
                axes.iter().map(|axis| info.factors.get(*axis).cloned().unwrap_or_default()).collect();
            fields.extend(measured(info));
            out.push_str(&csv_line(&fields));
        }
        for block in &document.blocks {
            let Some(source) = &block.published else { continue };
            for row in &block.rows {
                for ((probe, protocol), headline) in COLUMNS_OF_PAPERS.into_iter().zip(columns(&row.headlines)) {
                    let Some(headline) = headline else { continue };
                    let mut fields: Vec<String> =
                        axes.iter().map(|axis| row.factors.get(*axis).cloned().unwrap_or_default()).collect();
                    fields.extend(published(source, probe, protocol, document.kind, headline));
                    out.push_str(&csv_line(&fields));
                }
            }
        }
        out
    }
}

fn measured(info: &CellInfo) -> Vec<String> {
    let fields = |column: &Column| match column {
        Words(_, read) => vec![read(info)],
        Figures(group) => of_group(*group).map(|quantity| field_of(quantity, info)).collect(),
    };
    COLUMNS.iter().flat_map(fields).collect()
}

/// Times to a tenth of a nanosecond, all others in full.
fn field_of(quantity: &Quantity, info: &CellInfo) -> String {
    let value = info.value(&quantity.id);
    if quantity.unit == Unit::Ns { ns(value) } else { number(value) }
}

fn published(source: &str, probe: Probe, protocol: &str, kind: LatencyKind, headline: &Headline) -> Vec<String> {
    let known = [
        ("source", source.to_owned()),
        ("probe", probe.word().to_owned()),
        ("protocol", protocol.to_owned()),
        ("size_bytes", "32".to_owned()),
        ("kind", kind.word().to_owned()),
        ("mean_ns", ns(Some(headline.mean_ns))),
        ("stdev_ns", ns(headline.stdev_ns)),
    ];
    let field = |column: &str| known.iter().find(|(name, _)| *name == column).map(|(_, text)| text.clone());
    csv_columns().into_iter().map(|column| field(column).unwrap_or_default()).collect()
}
