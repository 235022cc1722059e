//! The report as CSV (RFC 4180: rows end in CR LF): one row a cell, its repetitions combined, and one row a published
//! figure. Times are nanoseconds; an empty field means that there is no figure.

use crate::document::{CellInfo, Document, Headline};
use crate::papers::columns;
use model::LatencyKind;
use std::collections::BTreeSet;

/// The columns after those of the factors, with their meaning:
///
/// | column | meaning |
/// |---|---|
/// | `source` | `measured`, or the publication (`redhawk-2012`, `redhawk-7.5`) that the row quotes |
/// | `substrate` | `metal`, `vm`, `simulated`, `netns`, `loopback`; empty for published rows |
/// | `run` | run directory |
/// | `probe`, `protocol`, `size_bytes` | what was measured |
/// | `kind` | what the times are: `rtt_half` or `rtt` |
/// | `repetitions`, `left_out` | repetitions combined, and left out because they cannot be trusted |
/// | `count` | messages timed |
/// | `mean_ns`, `stdev_ns` | over all messages, from exact moments; stdev is the sample standard deviation |
/// | `min_ns` … `max_ns` | from the merged histogram (3 digits); a quantile with fewer than 10 messages beyond it is empty |
/// | `p50_low_ns`, `p50_high_ns` | smallest and largest median of a repetition |
/// | `sent`, `lost` | messages |
/// | `transactions_per_second` | `rr` only |
/// | `mark` | empty, `*` disturbed, `!` not to be trusted or repetitions left out |
/// | `findings` | words of the findings, separated by blanks |
///
/// The factors stand before them, one column each, named by axis, in alphabetical order.
pub const CSV_COLUMNS: [&str; 28] = [
    "source",
    "substrate",
    "run",
    "probe",
    "protocol",
    "size_bytes",
    "kind",
    "repetitions",
    "left_out",
    "count",
    "mean_ns",
    "stdev_ns",
    "min_ns",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "p99_9_ns",
    "p99_99_ns",
    "p99_999_ns",
    "max_ns",
    "p50_low_ns",
    "p50_high_ns",
    "sent",
    "lost",
    "transactions_per_second",
    "mdev_ns",
    "mark",
    "findings",
];

fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// One row of fields.
pub(crate) fn field_line(fields: &[String]) -> String {
    let mut out = fields.iter().map(|text| field(text)).collect::<Vec<_>>().join(",");
    out.push_str("\r\n");
    out
}

/// A number in full, with a point; empty where there is none.
pub(crate) fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map(|value| format!("{value}")).unwrap_or_default()
}

fn ns(value: Option<f64>) -> String {
    value.map(|ns| format!("{ns:.1}").trim_end_matches(".0").to_owned()).unwrap_or_default()
}

fn word(kind: LatencyKind) -> &'static str {
    match kind {
        LatencyKind::RttHalf => "rtt_half",
        LatencyKind::Rtt => "rtt",
        LatencyKind::OneWay => "one_way",
    }
}

/// The whole report.
pub(crate) fn report(document: &Document) -> String {
    let mut axes: BTreeSet<&String> = document.cells.iter().flat_map(|info| info.factors.keys()).collect();
    if document.blocks.iter().any(|block| block.published.is_some()) {
        axes.extend(&document.axes);
    }
    // The run has its own column.
    axes.retain(|axis| axis.as_str() != "run");
    let mut heads: Vec<String> = axes.iter().map(|axis| (*axis).clone()).collect();
    heads.extend(CSV_COLUMNS.map(str::to_owned));
    let mut out = field_line(&heads);
    for info in &document.cells {
        let mut fields: Vec<String> =
            axes.iter().map(|axis| info.factors.get(*axis).cloned().unwrap_or_default()).collect();
        fields.extend(measured(info));
        out.push_str(&field_line(&fields));
    }
    let pairs = [("rr", "tcp"), ("rr", "udp"), ("pingpong", "tcp"), ("pingpong", "udp")];
    for block in &document.blocks {
        let Some(source) = &block.published else { continue };
        for row in &block.rows {
            for ((probe, protocol), headline) in pairs.into_iter().zip(columns(&row.headlines)) {
                let Some(headline) = headline else { continue };
                let mut fields: Vec<String> =
                    axes.iter().map(|axis| row.factors.get(*axis).cloned().unwrap_or_default()).collect();
                fields.extend(published(source, probe, protocol, document.kind, headline));
                out.push_str(&field_line(&fields));
            }
        }
    }
    out
}

fn measured(info: &CellInfo) -> Vec<String> {
    let findings: Vec<&str> = info.findings.iter().map(|finding| finding.id.as_str()).collect();
    vec![
        "measured".to_owned(),
        info.substrate.word().to_owned(),
        info.run.clone(),
        info.probe.clone(),
        info.protocol.clone(),
        info.size_bytes.to_string(),
        word(info.kind).to_owned(),
        info.repetitions.to_string(),
        info.left_out.to_string(),
        info.count.to_string(),
        ns(info.mean_ns),
        ns(info.stdev_ns),
        ns(info.min_ns),
        ns(info.p50_ns),
        ns(info.p90_ns),
        ns(info.p99_ns),
        ns(info.p99_9_ns),
        ns(info.p99_99_ns),
        ns(info.p99_999_ns),
        ns(info.max_ns),
        ns(info.p50_range.map(|range| range.low_ns)),
        ns(info.p50_range.map(|range| range.high_ns)),
        info.sent.to_string(),
        info.lost.to_string(),
        info.rate.as_ref().map(|rate| format!("{:.1}", rate.per_second)).unwrap_or_default(),
        ns(info.mdev_ns),
        info.mark.sign().to_owned(),
        findings.join(" "),
    ]
}

fn published(source: &str, probe: &str, protocol: &str, kind: LatencyKind, headline: &Headline) -> Vec<String> {
    let mut fields = vec![String::new(); CSV_COLUMNS.len()];
    let known = [
        ("source", source.to_owned()),
        ("probe", probe.to_owned()),
        ("protocol", protocol.to_owned()),
        ("size_bytes", "32".to_owned()),
        ("kind", word(kind).to_owned()),
        ("mean_ns", ns(Some(headline.mean_ns))),
        ("stdev_ns", ns(headline.stdev_ns)),
    ];
    for (column, value) in CSV_COLUMNS.iter().zip(&mut fields) {
        if let Some((_, text)) = known.iter().find(|(name, _)| name == column) {
            value.clone_from(text);
        }
    }
    fields
}
