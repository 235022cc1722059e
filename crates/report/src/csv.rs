//! The report as CSV (RFC 4180: rows end in CR LF): one row a cell, its repetitions combined, and one row a published
//! figure. Times are nanoseconds; an empty field means that there is no figure.

use crate::document::{CellInfo, Document, Headline, PaceInfo, PgmEndInfo, PgmInfo, StreamInfo};
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
/// | `asked_pps`, `achieved_pps` | messages a second asked for and sent, mean of the repetitions; `pace` only |
/// | `behind`, `most_behind` | messages sent more than an interval late; most that were due at once |
/// | `saturated` | what could not keep up, with the evidence |
/// | `intended_…`, `lateness_…` | RTT from the intended send time, and actual less intended send time: from the merged histograms; quantiles of the middle repetition where a run of an older version has none |
/// | `out_…`, `back_…`, `one_way_error_ns` | one-way times of the middle repetition, and half the width within which the clocks' offset lies; empty without, and for several reflectors |
/// | `send_p50_ns` … `near_kernel_p50_ns` | medians of the parts of the round trip, where stamps were taken |
/// | `up_bits_per_second`, `down_bits_per_second` | payload delivered, mean of the repetitions; `stream` only |
/// | `up_lost_share`, `down_lost_share` | share of the datagrams lost; empty for TCP |
/// | `up_rfc3550_jitter_ns`, `down_rfc3550_jitter_ns` | interarrival jitter of the middle repetition |
/// | `up_retransmits`, `down_retransmits` | segments sent again; empty for UDP |
/// | `working_p50_ns`, `working_p99_ns` | RTT of a ping-pong beside the stream |
/// | `mark` | empty, `*` disturbed, `!` not to be trusted or repetitions left out |
/// | `findings` | words of the findings, separated by blanks |
/// | `pgm_repaired_…`, `pgm_held_…`, `pgm_untouched_…` | messages, and their RTT from the actual send: those that were lost and repaired, those that came in time and waited behind a repair, and the rest; over PGM only |
/// | `pgm_initiator_…`, `pgm_reflectors_…` | what the initiator, and all reflectors together, counted over PGM: packets that were `missing` when a later one came, `recovered` (came after all) or `lost` for good, and `duplicates`; `naks_sent` for them and `ncfs_received`; `naks_received` for what it had sent, `ncfs_sent` and `repairs_sent` in answer |
/// | `…_parity_sent`, `…_parity_received`, `…_rebuilt` | of the same: parity packets sent, unasked and on demand, which are not among the repairs; those that came and were kept to repair with; of the recovered, packets computed from parity |
///
/// The factors stand before them, one column each, named by axis, in alphabetical order.
pub const CSV_COLUMNS: [&str; 99] = [
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
    "asked_pps",
    "achieved_pps",
    "behind",
    "most_behind",
    "saturated",
    "intended_mean_ns",
    "intended_p50_ns",
    "intended_p99_ns",
    "intended_p99_9_ns",
    "intended_max_ns",
    "lateness_mean_ns",
    "lateness_p50_ns",
    "lateness_p99_ns",
    "lateness_p99_9_ns",
    "lateness_max_ns",
    "out_p50_ns",
    "out_p99_ns",
    "back_p50_ns",
    "back_p99_ns",
    "one_way_error_ns",
    "send_p50_ns",
    "wire_p50_ns",
    "far_kernel_p50_ns",
    "far_application_p50_ns",
    "near_kernel_p50_ns",
    "up_bits_per_second",
    "up_lost_share",
    "up_rfc3550_jitter_ns",
    "up_retransmits",
    "down_bits_per_second",
    "down_lost_share",
    "down_rfc3550_jitter_ns",
    "down_retransmits",
    "working_p50_ns",
    "working_p99_ns",
    "mark",
    "findings",
    "pgm_repaired_messages",
    "pgm_repaired_p50_ns",
    "pgm_repaired_p99_ns",
    "pgm_repaired_max_ns",
    "pgm_held_messages",
    "pgm_held_p50_ns",
    "pgm_held_p99_ns",
    "pgm_held_max_ns",
    "pgm_untouched_messages",
    "pgm_untouched_p50_ns",
    "pgm_untouched_p99_ns",
    "pgm_untouched_max_ns",
    "pgm_initiator_missing",
    "pgm_initiator_recovered",
    "pgm_initiator_lost",
    "pgm_initiator_duplicates",
    "pgm_initiator_naks_sent",
    "pgm_initiator_naks_received",
    "pgm_initiator_ncfs_sent",
    "pgm_initiator_ncfs_received",
    "pgm_initiator_repairs_sent",
    "pgm_reflectors_missing",
    "pgm_reflectors_recovered",
    "pgm_reflectors_lost",
    "pgm_reflectors_duplicates",
    "pgm_reflectors_naks_sent",
    "pgm_reflectors_naks_received",
    "pgm_reflectors_ncfs_sent",
    "pgm_reflectors_ncfs_received",
    "pgm_reflectors_repairs_sent",
    "pgm_initiator_parity_sent",
    "pgm_initiator_parity_received",
    "pgm_initiator_rebuilt",
    "pgm_reflectors_parity_sent",
    "pgm_reflectors_parity_received",
    "pgm_reflectors_rebuilt",
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
    let mut fields = vec![
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
    ];
    fields.extend(paced(info.pace.as_ref()));
    fields.extend(streamed(info.stream.as_ref()));
    fields.extend([info.mark.sign().to_owned(), findings.join(" ")]);
    fields.extend(repaired(info.pace.as_ref().and_then(|pace| pace.pgm.as_ref())));
    fields
}

fn paced(pace: Option<&PaceInfo>) -> Vec<String> {
    let mut fields = vec![
        number(pace.map(|pace| pace.asked_pps)),
        number(pace.map(|pace| pace.achieved_pps)),
        pace.map(|pace| pace.behind.to_string()).unwrap_or_default(),
        pace.map(|pace| pace.most_behind.to_string()).unwrap_or_default(),
        pace.and_then(|pace| pace.saturated.clone()).unwrap_or_default(),
    ];
    for own in [pace.and_then(|pace| pace.intended), pace.and_then(|pace| pace.lateness)] {
        let own = own.unwrap_or_default();
        fields.extend([own.mean_ns, own.p50_ns, own.p99_ns, own.p99_9_ns, own.max_ns].map(ns));
    }
    let way = |word: &str| {
        let mut ways = pace.into_iter().flat_map(|pace| &pace.one_way);
        ways.find(|way| way.way == word && way.host.is_none())
    };
    for word in ["out", "back"] {
        let figures = way(word).map(|way| way.figures).unwrap_or_default();
        fields.extend([figures.p50_ns, figures.p99_ns].map(ns));
    }
    fields.push(way("out").map(|way| way.error_ns.to_string()).unwrap_or_default());
    for name in ["send", "wire", "far-kernel", "far-application", "near-kernel"] {
        let part = pace.and_then(|pace| pace.parts.iter().find(|part| part.name == name));
        fields.push(ns(part.and_then(|part| part.figures.p50_ns)));
    }
    fields
}

fn repaired(pgm: Option<&PgmInfo>) -> Vec<String> {
    let mut fields = Vec::new();
    for name in ["repaired", "held", "untouched"] {
        let fate = pgm.and_then(|pgm| pgm.fates.iter().find(|fate| fate.fate == name && fate.host.is_none()));
        let figures = fate.and_then(|fate| fate.figures).unwrap_or_default();
        fields.push(fate.map(|fate| fate.messages.to_string()).unwrap_or_default());
        fields.extend([figures.p50_ns, figures.p99_ns, figures.max_ns].map(ns));
    }
    let repairs: [fn(&PgmEndInfo) -> u64; 9] = [
        |end| end.missing,
        |end| end.recovered,
        |end| end.lost,
        |end| end.duplicates,
        |end| end.naks_sent,
        |end| end.naks_received,
        |end| end.ncfs_sent,
        |end| end.ncfs_received,
        |end| end.repairs_sent,
    ];
    let parity: [fn(&PgmEndInfo) -> u64; 3] =
        [|end| end.parity_unasked + end.parity_asked, |end| end.parity_received, |end| end.rebuilt];
    // Parity came later: behind the rest, so that no column moved.
    for (initiator, counts) in [(true, &repairs[..]), (false, &repairs[..]), (true, &parity[..]), (false, &parity[..])]
    {
        fields.extend(counts.iter().map(|pick| {
            let ends = |pgm: &PgmInfo| -> u64 {
                pgm.ends.iter().filter(|end| (end.host == "initiator") == initiator).map(pick).sum()
            };
            pgm.map(|pgm| ends(pgm).to_string()).unwrap_or_default()
        }));
    }
    fields
}

fn streamed(stream: Option<&StreamInfo>) -> Vec<String> {
    let mut fields = Vec::new();
    for way in ["up", "down"] {
        let flow = stream.and_then(|stream| stream.flows.iter().find(|flow| flow.direction == way));
        let lost = flow.and_then(|flow| Some((flow.lost?, flow.sent.filter(|sent| *sent > 0)?)));
        fields.push(number(flow.map(|flow| flow.bits_per_second)));
        fields.push(number(lost.map(|(lost, sent)| lost as f64 / sent as f64)));
        fields.push(ns(flow.and_then(|flow| flow.rfc3550_jitter_ns)));
        fields.push(flow.and_then(|flow| flow.retransmits).map(|count| count.to_string()).unwrap_or_default());
    }
    let working = stream.and_then(|stream| stream.working).unwrap_or_default();
    fields.extend([working.p50_ns, working.p99_ns].map(ns));
    fields
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
