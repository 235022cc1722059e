//! From what a parser found to a result.

use crate::bins::{Bins, Own};
use model::worker::Measured;
use model::{
    Finding, FindingId, Latency, LatencyKind, Messages, OutlierRule, Probe, Protocol, ResultDocument, Sample, Source,
    SourceKind, TickRate, WakeReport, WakeThread, source,
};
use record::{Recorder, RecorderConfig};
use std::collections::BTreeMap;

/// What the findings of imported results call the file until its name is known.
const FILE: &str = "{file}";

/// A tool, and what its files never tell.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: Option<String>,
    /// How fine its times are, in words; empty: exact to the ns.
    pub(crate) grain: String,
    /// What is not known, as a list in words.
    pub(crate) unknown: &'static str,
    pub(crate) bin_ns: Option<u64>,
    pub(crate) overflowed: u64,
}

/// A result of a probe, with the factors of every cell.
pub(crate) fn result(probe: Probe, protocol: Option<Protocol>, size: Option<u32>, tool: Tool) -> ResultDocument {
    let source = Source {
        kind: SourceKind::Imported,
        tool: tool.name.to_owned(),
        version: tool.version,
        file: None,
        bin_ns: tool.bin_ns.filter(|ns| *ns > 1),
        overflowed: (tool.overflowed > 0).then_some(tool.overflowed),
    };
    let mut factors: BTreeMap<String, serde_json::Value> = BTreeMap::new();
    factors.insert(source::FACTOR.to_owned(), source.factor().into());
    let protocol = if probe.has_peer() { protocol.map(Protocol::word) } else { Some(model::probe::NO_PROTOCOL) };
    factors.extend(protocol.map(|word| ("protocol".to_owned(), word.into())));
    factors.extend(size.map(|size| ("size".to_owned(), size.into())));
    let mut result =
        ResultDocument { format: model::FORMAT, probe, factors, source: Some(source), ..ResultDocument::default() };
    let version = result.source.as_ref().and_then(|source| source.version.as_deref());
    let version = version.map(|version| format!(" {version}")).unwrap_or_default();
    let grain = if tool.grain.is_empty() { String::new() } else { format!(" {};", tool.grain) };
    let detail = format!("measured by {}{version} and read from {FILE}:{grain} not known: {}", tool.name, tool.unknown);
    result.verdict.add(Finding::new(FindingId::Imported, detail));
    if tool.overflowed > 0 {
        let detail = format!(
            "{} values lie beyond the last bin of the histogram, and only their number is known: percentiles that fall there, the \
             standard deviation and pictures of the distribution are left out",
            tool.overflowed
        );
        result.verdict.add(Finding::new(FindingId::BinsOverflowed, detail));
    }
    result
}

pub(crate) fn name_file(measured: &mut Measured, file: &str) {
    if let Some(source) = &mut measured.result.source {
        source.file = Some(file.to_owned());
    }
    for finding in &mut measured.result.verdict.disturbed {
        finding.detail = finding.detail.replacen(FILE, file, 1);
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Thread {
    pub(crate) name: String,
    pub(crate) bins: Bins,
    pub(crate) own: Own,
}

/// Wake-up latencies of threads that a tool has histograms of. `tool` gets what lies beyond their bins.
pub(crate) fn wake_ups(threads: &[Thread], report: &WakeReport, mut tool: Tool) -> Result<Measured, String> {
    if let Some(why) = threads.iter().find_map(|thread| thread.bins.contradicts(&thread.own)) {
        return Err(why);
    }
    let mut all = Bins::default();
    threads.iter().for_each(|thread| all.merge(&thread.bins));
    let own = together(threads);
    tool.overflowed = all.over;
    tool.bin_ns = Some(all.width_ns);
    let latency = all.latency(LatencyKind::WakeUp, &own);
    let mut result = result(Probe::Wake, None, None, tool);
    // It fails only for counts above 2^63.
    result.histogram = all.histogram(&own).and_then(|histogram| histogram.to_base64_v2().ok());
    let parts = if threads.len() > 1 { threads } else { &[] };
    let thread = |thread: &Thread| {
        let latency = thread.bins.latency(LatencyKind::WakeUp, &thread.own);
        WakeThread { name: thread.name.clone(), missed: None, latency }
    };
    let report = WakeReport { threads: parts.iter().map(thread).collect(), ..report.clone() };
    with_latency(&mut result, latency);
    result.wake = Some(report);
    Ok(Measured::new(result))
}

/// The figures of single messages, the last of them at `last_ns`, added to a result.
pub(crate) fn of_samples(
    samples: &[Sample],
    (kind, has_header): (LatencyKind, bool),
    last_ns: u64,
    mut result: ResultDocument,
) -> Measured {
    let last_ms = u32::try_from(last_ns / 1_000_000 + 1).unwrap_or(u32::MAX);
    let config = RecorderConfig {
        outliers: OutlierRule::default(),
        has_header,
        ..RecorderConfig::new(TickRate::NANOSECONDS, kind, last_ms)
    };
    let mut recorder = Recorder::new(config);
    recorder.ingest(samples);
    let recorded = recorder.finish(None);
    result.histogram = recorded.histogram.to_base64_v2().ok();
    with_latency(&mut result, recorded.latency);
    (result.series, result.elapsed_ns) = (recorded.series, recorded.elapsed_ns);
    Measured { hlog: recorded.hlog, outliers: recorded.outliers, ..Measured::new(result) }
}

/// Fills in a latency, of which each value was a message that came back.
pub(crate) fn with_latency(result: &mut ResultDocument, latency: Latency) {
    let count = latency.count;
    result.messages = Messages { sent: count, received: count, ..Messages::default() };
    result.latency = Some(latency);
}

/// The tool's own figures of all threads; a mean only where all have one.
fn together(threads: &[Thread]) -> Own {
    let count = |thread: &Thread| thread.bins.count() as f64;
    let total: f64 = threads.iter().map(count).sum();
    let share = |thread: &Thread| Some(thread.own.mean_ns? * (count(thread) / total));
    let means: Option<Vec<f64>> = threads.iter().filter(|thread| thread.bins.count() > 0).map(share).collect();
    let known = |pick: fn(&Own) -> Option<u64>| -> Option<Vec<u64>> {
        threads.iter().filter(|thread| thread.bins.count() > 0).map(|thread| pick(&thread.own)).collect()
    };
    Own {
        min_ns: known(|own| own.min_ns).and_then(|all| all.into_iter().min()),
        max_ns: known(|own| own.max_ns).and_then(|all| all.into_iter().max()),
        mean_ns: means.filter(|means| !means.is_empty()).map(|means| means.iter().sum()),
    }
}
