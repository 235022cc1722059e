//! Counts, events and repairs in words and as JSON.

use pgm::receiver::{Counts, Event, Repair, SessionEvent};
use pgm::source::SourceCounts;
use pgm_io::hand::RepairSteps;
use serde_json::{Value, json};
use stats::Histogram;

pub(super) fn source_counts(counts: &SourceCounts) -> Value {
    fields!(counts; odata, rdata, spms, ncfs, naks, numbers_asked, numbers_outside, spmrs, ignored, bytes;
        "parity": {
            "odata": counts.parity_odata, "rdata": counts.parity_rdata, "naks": counts.parity_naks,
            "asked": counts.parity_asked, "short_groups": counts.short_groups,
        },
    )
}

pub(super) fn receiver_counts(counts: &Counts) -> Value {
    fields!(counts; messages, packets, duplicates, missing, recovered, lost, parts_dropped, overflows, naks,
        numbers_asked, ncfs, spms, spmrs, ignored, naks_deferred, paths_refused, doubted, sources_refused, restarts;
        "parity": {
            "packets": counts.parity_packets, "unused": counts.parity_unused, "recovered": counts.recovered_by_parity,
            "naks": counts.parity_naks, "asked": counts.parity_asked, "inconsistent": counts.parity_inconsistent,
        },
    )
}

/// How many packets a source was asked for, and what it sent of repairs and, if any, of parity.
pub(super) fn asked_text(counts: &SourceCounts) -> String {
    let (unasked, asked) = (counts.parity_odata, counts.parity_rdata);
    let text = format!("{} packets, {} repairs sent", counts.numbers_asked, counts.rdata);
    if unasked + asked == 0 { text } else { format!("{text}, {asked} parity packets on demand, {unasked} unasked") }
}

pub(super) fn event_text(event: &Event) -> String {
    let what = match event.what {
        SessionEvent::Found => " is heard",
        SessionEvent::Lost { first, count: 1 } => &format!(": packet {first} is lost"),
        SessionEvent::Lost { first, count } => &format!(": {count} packets from {first} on are lost"),
        SessionEvent::Finished => " has ended its session, and all of it was delivered or lost",
        SessionEvent::Reset { code } => &format!(" has given up (OPT_RST, reason {code})"),
        SessionEvent::Expired => " was silent for too long and is forgotten",
        SessionEvent::Restarted => " has begun another session under the same identifier",
        SessionEvent::Refused => " is refused: as many sources as --sources allows are being heard",
    };
    format!("source {}{what}", event.tsi)
}

pub(super) fn event_json(event: &Event) -> Value {
    let source = event.tsi.to_string();
    let kind = match event.what {
        SessionEvent::Lost { first, count } => {
            return json!({ "type": "lost", "source": source, "first": first.0, "count": count });
        }
        SessionEvent::Reset { code } => return json!({ "type": "reset", "source": source, "reason": code }),
        SessionEvent::Found => "source",
        SessionEvent::Finished => "finished",
        SessionEvent::Expired => "expired",
        SessionEvent::Restarted => "restarted",
        SessionEvent::Refused => "refused",
    };
    json!({ "type": kind, "source": source })
}

/// A repair in a sentence: each step from the one before.
pub(super) fn repair_text(repair: &Repair) -> String {
    let step = |name: &str, at: Option<u64>, since: u64| {
        at.map_or_else(String::new, |at| format!("{name} after {:.0} us, ", us(at.saturating_sub(since))))
    };
    let nak = step("NAK", repair.nak_ns, repair.gap_ns);
    let ncf = step("NCF", repair.ncf_ns, repair.gap_ns);
    let how = if repair.parity { "computed from parity" } else { "repair" };
    format!("{nak}{ncf}{how} after {:.0} us, NAKs {}", us(repair.data_ns.saturating_sub(repair.gap_ns)), repair.naks)
}

/// A repair as an object: times since the gap was seen.
pub(super) fn repair_json(repair: &Repair) -> Value {
    let since = |at: u64| us(at.saturating_sub(repair.gap_ns));
    json!({
        "nak_us": repair.nak_ns.map(since), "ncf_us": repair.ncf_ns.map(since), "data_us": since(repair.data_ns),
        "naks": repair.naks, "parity": repair.parity,
    })
}

pub(super) fn steps_json(steps: &RepairSteps) -> Value {
    Value::Object(steps.named().map(|(_, name, histogram)| (name.to_owned(), figures(histogram))).collect())
}

/// A table of the steps of repairs, one line each; empty where nothing was repaired.
pub(super) fn steps_text(title: &str, steps: &RepairSteps) -> String {
    let seen = steps.named().filter(|(_, _, histogram)| !histogram.is_empty());
    let lines: String = seen.map(|(name, _, histogram)| format!("  {name:<14} {}\n", row(histogram))).collect();
    if lines.is_empty() { lines } else { format!("{title:<16}{}\n{lines}", heading()) }
}

const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// The names of the columns of [`row`].
pub(super) fn heading() -> String {
    let names = ["count", "min", "p50", "p90", "p99", "p99.9", "max, µs"];
    names.map(|name| format!("{name:>10}")).concat()
}

/// Count, minimum, quantiles and maximum in µs, for a table; a quantile with too few times beyond it is left out.
pub(super) fn row(histogram: &Histogram) -> String {
    let quantiles = QUANTILES.map(|q| supported(histogram, q));
    let all = std::iter::once(histogram.min()).chain(quantiles).chain([histogram.max()]);
    let cells = all.map(|ns| ns.map_or_else(|| format!("{:>10}", "-"), |ns| format!("{:>10.1}", us(ns))));
    format!("{:>10}{}", histogram.count(), cells.collect::<String>())
}

/// Count, minimum, quantiles and maximum in ns, in the words of result documents.
pub(super) fn figures(histogram: &Histogram) -> Value {
    json!({
        "count": histogram.count(), "min_ns": histogram.min(), "p50_ns": supported(histogram, 0.5),
        "p90_ns": supported(histogram, 0.9), "p99_ns": supported(histogram, 0.99),
        "p99_9_ns": supported(histogram, 0.999),
        "max_ns": histogram.max(),
    })
}

fn supported(histogram: &Histogram, q: f64) -> Option<u64> {
    histogram.quantile_if_supported(q, Histogram::BEYOND)
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}
