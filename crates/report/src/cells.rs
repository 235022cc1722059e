//! From stored results to cells: repetitions of one combination of factors, combined.

use crate::combine::{Part, middle, pooled, spread};
use crate::document::{CellInfo, FindingCount, FlowInfo, Mark, PaceInfo, Quantiles, RateInfo, StreamInfo};
use crate::names::{CELL_AXES, run_factors};
use crate::tail::Tail;
use crate::units::plain;
use crate::{Options, RunInput};
pub(crate) use model::quantity::scale;
use model::{FindingId, LatencyKind, Probe, ResultDocument, Substrate};
use std::collections::BTreeMap;

/// One cell with what only plots need.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) info: CellInfo,
    /// Its row's label without the rate, which charts draw along an axis.
    pub(crate) series: String,
    /// Its merged histogram: RTT in ns and counts, ascending.
    pub(crate) points: Vec<(u64, u64)>,
    /// The same from the intended send time, where all repetitions have it stored.
    pub(crate) intended: Vec<(u64, u64)>,
    /// What RTT is multiplied by to get the figures' kind.
    pub(crate) of_rtt: f64,
    /// Medians of the repetitions that were combined.
    pub(crate) medians: Vec<f64>,
    /// Messages under a real-time policy that took as long as the hole which throttling leaves.
    pub(crate) holes: u64,
    /// Where its repetitions are: the number of the run among the inputs, and the numbers of its results there, those that
    /// were left out among them.
    pub(crate) run: usize,
    pub(crate) members: Vec<usize>,
}

/// All cells of all runs; the row number and label are filled in later. Remarks say what could not be read.
pub(crate) fn collect(inputs: &[RunInput], options: &Options) -> (Vec<Cell>, Vec<String>) {
    let mut cells = Vec::new();
    let mut remarks = Vec::new();
    let names = run_names(inputs);
    let keyed: Vec<_> = inputs.iter().map(|run| (run, group(run))).collect();
    let same_twice = keyed.iter().enumerate().any(|(index, (run, groups))| {
        keyed.iter().skip(index + 1).any(|(other, others)| {
            run.document.substrate == other.document.substrate && groups.keys().any(|key| others.contains_key(key))
        })
    });
    for (number, ((run, groups), name)) in keyed.iter().zip(&names).enumerate() {
        for (key, members) in groups {
            let results: Vec<&ResultDocument> = members.iter().filter_map(|member| run.results.get(*member)).collect();
            let mut cell = cell(key, &results, run.document.substrate, name, options, &mut remarks);
            cell.run = number;
            cell.members.clone_from(members);
            if same_twice {
                cell.info.factors.insert("run".to_owned(), name.clone());
            }
            cells.push(cell);
        }
    }
    (cells, remarks)
}

/// The names of the runs, told apart where two directories have the same name.
pub(crate) fn run_names(inputs: &[RunInput]) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    inputs
        .iter()
        .map(|run| {
            let name = plain(&run.name);
            let times = seen.entry(name.clone()).or_insert(0);
            *times += 1;
            if *times > 1 { format!("{name} ({times})") } else { name }
        })
        .collect()
}

/// What the repetitions of a cell have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) probe: Probe,
    pub(crate) protocol: String,
    pub(crate) size: u64,
    pub(crate) factors: BTreeMap<String, String>,
}

/// The numbers of the results of each combination.
pub(crate) fn group(run: &RunInput) -> BTreeMap<Key, Vec<usize>> {
    let shared = run_factors(run);
    let mut groups: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
    for (number, result) in run.results.iter().enumerate() {
        let mut factors = shared.clone();
        for name in result.factors.keys().filter(|name| !CELL_AXES.contains(&name.as_str())) {
            if let Some(value) = result.factor(name) {
                factors.insert(name.clone(), plain(&value));
            }
        }
        // What `auto` chose is known only afterwards, and two backends are not one row.
        let chosen = result.prepared.iter().find_map(|prepared| prepared.shield.as_ref());
        if let (Some("auto"), Some(shield)) = (factors.get("shield").map(String::as_str), chosen) {
            factors.insert("shield".to_owned(), format!("auto ({})", shield.backend));
        }
        let connect_each = result.transactions.as_ref().is_some_and(|rate| rate.connect_each);
        let protocol = plain(&result.factor("protocol").unwrap_or_else(|| "not known".to_owned()));
        let protocol = if connect_each { format!("{protocol}, connection each") } else { protocol };
        let key = Key { probe: result.probe, protocol, size: result.size().unwrap_or(0), factors };
        groups.entry(key).or_default().push(number);
    }
    groups
}

fn cell(
    key: &Key,
    results: &[&ResultDocument],
    substrate: Substrate,
    run: &str,
    options: &Options,
    remarks: &mut Vec<String>,
) -> Cell {
    let trusted: Vec<&ResultDocument> = results.iter().copied().filter(|result| result.verdict.trusted).collect();
    let left_out = if trusted.is_empty() { 0 } else { results.len() - trusted.len() };
    let used: &[&ResultDocument] = if trusted.is_empty() { results } else { &trusted };
    let kind = scale(key.probe, LatencyKind::Rtt, options.rtt).1;
    let kind = match used.iter().find_map(|result| result.latency.as_ref()) {
        Some(latency) => scale(key.probe, latency.kind, options.rtt).1,
        None => kind,
    };
    let of_rtt = if kind == LatencyKind::RttHalf { 0.5 } else { 1.0 };
    let (tail, damaged) = Tail::merged(used.iter().filter_map(|result| result.histogram.as_deref()));
    if damaged > 0 {
        remarks.push(format!(
            "{run}: {damaged} stored histogram(s) of {} {} at {} bytes cannot be read; quantiles come from the others.",
            key.probe, key.protocol, key.size
        ));
    }
    let latencies = || {
        used.iter().filter_map(|result| {
            let latency = result.latency.as_ref()?;
            Some((latency, scale(key.probe, latency.kind, options.rtt).0))
        })
    };
    let parts: Vec<Part> = latencies()
        .filter_map(|(latency, by)| {
            let mean = latency.mean_ns? * by;
            Some(Part { count: latency.count, mean, stdev: latency.stdev_ns.map(|s| s * by) })
        })
        .collect();
    let means: Vec<f64> = parts.iter().map(|part| part.mean).collect();
    let stdevs: Vec<f64> = parts.iter().filter_map(|part| part.stdev).collect();
    let medians: Vec<f64> = latencies().filter_map(|(latency, by)| Some(latency.p50_ns? as f64 * by)).collect();
    let all = pooled(&parts);
    let single = |pick: fn(&model::Latency) -> Option<u64>| {
        let mut values = latencies().map(|(latency, by)| pick(latency).map(|ns| ns as f64 * by));
        let only = values.next()??;
        values.next().is_none().then_some(only)
    };
    // One repetition has its own stored quantiles; several need the merged histogram.
    let quantile = |q: f64, pick: fn(&model::Latency) -> Option<u64>| match &tail {
        Some(tail) if used.len() > 1 => tail.quantile(q).map(|ns| ns * of_rtt),
        _ => single(pick),
    };
    let extreme = |pick: fn(&model::Latency) -> Option<u64>, better: fn(f64, f64) -> f64| {
        latencies().filter_map(|(latency, by)| Some(pick(latency)? as f64 * by)).reduce(better)
    };
    let points = tail.as_ref().map(Tail::points).unwrap_or_default();
    let intended = whole(used, |result| result.histogram_intended.as_deref());
    let holes = holes(used, &points);
    let mut info = CellInfo {
        run: run.to_owned(),
        row: 0,
        colour: 0,
        label: String::new(),
        substrate,
        factors: key.factors.clone(),
        probe: key.probe.word().to_owned(),
        protocol: key.protocol.clone(),
        size_bytes: key.size,
        kind,
        repetitions: used.len(),
        left_out,
        count: parts.iter().map(|part| part.count).sum(),
        mean_ns: all.map(|all| all.mean),
        stdev_ns: all.and_then(|all| all.stdev),
        min_ns: extreme(|latency| latency.min_ns, f64::min),
        p50_ns: quantile(0.5, |latency| latency.p50_ns),
        p90_ns: quantile(0.9, |latency| latency.p90_ns),
        p99_ns: quantile(0.99, |latency| latency.p99_ns),
        p99_9_ns: quantile(0.999, |latency| latency.p99_9_ns),
        p99_99_ns: quantile(0.9999, |latency| latency.p99_99_ns),
        p99_999_ns: quantile(0.99999, |latency| latency.p99_999_ns),
        max_ns: extreme(|latency| latency.max_ns, f64::max),
        mean_range: spread(&means),
        stdev_range: spread(&stdevs),
        p50_range: spread(&medians),
        mdev_ns: mdev(used),
        sent: used.iter().map(|result| result.messages.sent).sum(),
        lost: used.iter().map(|result| result.messages.lost).sum(),
        rate: rate(used),
        pace: pace(used, intended.as_ref()),
        stream: stream(used),
        mark: mark(results),
        findings: findings(results),
        notes: Vec::new(),
    };
    add_hole(&mut info, used, holes);
    let intended = intended.as_ref().map(Tail::points).unwrap_or_default();
    Cell { info, series: String::new(), points, intended, of_rtt, medians, holes, run: 0, members: Vec::new() }
}

fn is_real_time(result: &ResultDocument) -> bool {
    let ends = &result.ends;
    std::iter::once(&ends.initiator).chain(&ends.reflector).any(|end| end.spec.policy.is_real_time())
}

/// Messages that took about 50 ms there and back, where an end has a real-time policy.
fn holes(used: &[&ResultDocument], points: &[(u64, u64)]) -> u64 {
    if !used.iter().any(|result| is_real_time(result)) {
        return 0;
    }
    points.iter().filter(|(ns, _)| stats::stalls::is_throttling_hole(*ns)).map(|(_, count)| count).sum()
}

/// Explains such messages beside the figure, where the measurement itself did not: ends that share a CPU keep it busy
/// together, though each of them sleeps half of the time.
fn add_hole(info: &mut CellInfo, used: &[&ResultDocument], holes: u64) {
    let throttled = FindingId::Throttled.word();
    let told = |finding: &FindingCount| finding.id == throttled || finding.detail.contains("RT throttling");
    if holes == 0 || info.findings.iter().any(told) {
        return;
    }
    let has = |result: &&&ResultDocument| {
        let latency = result.latency.as_ref();
        let by = latency.map_or(1.0, |latency| scale(result.probe, latency.kind, true).0);
        latency.and_then(|latency| latency.max_ns).is_some_and(|ns| ns as f64 * by >= 45e6)
    };
    info.findings.push(FindingCount {
        id: throttled,
        invalid: false,
        end: None,
        repetitions: used.iter().filter(has).count().max(1),
        detail: format!(
            "{} took about 50 ms there and back (25 ms as RTT/2) under a real-time policy, as wide as the hole that RT \
             throttling (kernel.sched_rt_runtime_us of each second) or, since Linux 6.12, the fair server leaves on a CPU \
             that real-time threads keep busy; a shielded CPU with kernel.sched_rt_runtime_us = -1 has neither",
            crate::units::counted(usize::try_from(holes).unwrap_or(usize::MAX), "message")
        ),
    });
    if info.mark == Mark::Clean {
        info.mark = Mark::Disturbed;
    }
}

/// Mean deviation over all echoes: mdev² of a repetition is its mean square less its mean squared.
fn mdev(used: &[&ResultDocument]) -> Option<f64> {
    let mut count = 0.0;
    let mut sum = 0.0;
    let mut squares = 0.0;
    for result in used {
        let latency = result.latency.as_ref()?;
        let by = if latency.kind == LatencyKind::RttHalf { 2.0 } else { 1.0 };
        let (mean, mdev, n) = (latency.mean_ns? * by, result.mdev_ns?, latency.count as f64);
        count += n;
        sum += n * mean;
        squares += n * (mdev * mdev + mean * mean);
    }
    (count > 0.0).then(|| (squares / count - (sum / count).powi(2)).max(0.0).sqrt())
}

fn rate(used: &[&ResultDocument]) -> Option<RateInfo> {
    let measured: Vec<_> = used.iter().filter_map(|result| Some((*result, result.transactions.as_ref()?))).collect();
    let (_, first) = measured.first()?;
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let usage = |reflector: bool, pick: fn(&model::EndUsage, u64) -> Option<f64>| {
        mean(
            measured
                .iter()
                .filter_map(|(result, _)| {
                    let ends = &result.ends;
                    let end = if reflector { ends.reflector.as_ref()? } else { &ends.initiator };
                    pick(&end.usage, result.messages.received)
                })
                .collect(),
        )
    };
    let rates: Vec<f64> = measured.iter().map(|(_, rate)| rate.per_second).collect();
    Some(RateInfo {
        per_second: mean(rates.clone())?,
        per_second_range: spread(&rates).map(|range| [range.low_ns, range.high_ns]),
        // Repetitions tell more than the passes within one of them, which share its moment.
        ci95_percent: stats::interval_of(&rates)
            .filter(|(mean, _)| *mean > 0.0)
            .map(|(mean, half)| 100.0 * half / mean)
            .or_else(|| measured.iter().filter_map(|(_, rate)| rate.ci95_percent).reduce(f64::max)),
        response_bytes: first.response_bytes,
        connect_each: first.connect_each,
        initiator_machine_percent: usage(false, |usage, _| usage.machine_percent()),
        reflector_machine_percent: usage(true, |usage, _| usage.machine_percent()),
        initiator_service_demand_us: usage(false, model::EndUsage::service_demand_us),
        reflector_service_demand_us: usage(true, model::EndUsage::service_demand_us),
        initiator_process_us: usage(false, model::EndUsage::process_us),
        reflector_process_us: usage(true, model::EndUsage::process_us),
        initiator_softirq_us: usage(false, model::EndUsage::softirq_us),
        reflector_softirq_us: usage(true, model::EndUsage::softirq_us),
    })
}

/// One distribution over the repetitions, of which only the figures are stored.
fn over(used: &[&ResultDocument], pick: fn(&ResultDocument) -> Option<&model::Latency>) -> Option<Quantiles> {
    quantiles(&used.iter().filter_map(|result| pick(result)).collect::<Vec<_>>(), None)
}

/// The merged distribution of the repetitions, where each of them has it stored whole: older versions did not.
fn whole(used: &[&ResultDocument], pick: fn(&ResultDocument) -> Option<&str>) -> Option<Tail> {
    let stored: Vec<&str> = used.iter().filter_map(|result| pick(result)).collect();
    match Tail::merged(stored.iter().copied()) {
        (Some(tail), 0) if stored.len() == used.len() => Some(tail),
        _ => None,
    }
}

/// One distribution over the repetitions: means weighted by messages, the largest of all, and quantiles of all messages
/// where the whole distribution is known, else those of the middle repetition.
pub(crate) fn quantiles(all: &[&model::Latency], tail: Option<&Tail>) -> Option<Quantiles> {
    let parts: Vec<Part> = all
        .iter()
        .filter_map(|latency| Some(Part { count: latency.count, mean: latency.mean_ns?, stdev: latency.stdev_ns }))
        .collect();
    let of = |pick: fn(&model::Latency) -> Option<u64>| -> Vec<f64> {
        all.iter().filter_map(|latency| pick(latency).map(|ns| ns as f64)).collect()
    };
    let at = |q: f64, pick: fn(&model::Latency) -> Option<u64>| match tail {
        // One repetition has its own stored quantiles.
        Some(tail) if all.len() > 1 => tail.quantile(q),
        _ => middle(&of(pick)),
    };
    (!all.is_empty()).then(|| Quantiles {
        mean_ns: pooled(&parts).map(|all| all.mean),
        stdev_ns: pooled(&parts).and_then(|all| all.stdev),
        p50_ns: at(0.5, |latency| latency.p50_ns),
        p99_ns: at(0.99, |latency| latency.p99_ns),
        p99_range: spread(&of(|latency| latency.p99_ns)),
        p99_9_ns: at(0.999, |latency| latency.p99_9_ns),
        max_ns: of(|latency| latency.max_ns).into_iter().reduce(f64::max),
    })
}

fn pace(used: &[&ResultDocument], intended: Option<&Tail>) -> Option<PaceInfo> {
    let rates: Vec<&model::RateReport> = used.iter().filter_map(|result| result.rate.as_ref()).collect();
    let first = rates.first()?;
    let achieved: Vec<f64> = rates.iter().map(|rate| rate.achieved_pps).collect();
    let times = |pick: fn(&ResultDocument) -> Option<&model::Latency>| -> Vec<&model::Latency> {
        used.iter().filter_map(|result| pick(result)).collect()
    };
    Some(PaceInfo {
        asked_pps: first.asked_pps,
        achieved_pps: mean(&achieved).unwrap_or_default(),
        achieved_range: spread(&achieved).map(|range| [range.low_ns, range.high_ns]),
        intended_messages: rates.iter().map(|rate| rate.intended).sum(),
        line_pps: rates.iter().find_map(|rate| rate.line_pps),
        behind: rates.iter().map(|rate| rate.behind).sum(),
        most_behind: rates.iter().map(|rate| rate.most_behind).max().unwrap_or(0),
        saturated: rates
            .iter()
            .find_map(|rate| rate.saturated.as_ref())
            .map(|saturated| plain(&format!("{}: {}", saturated.who, saturated.why))),
        intended: quantiles(&times(|result| result.latency_intended.as_ref()), intended),
        lateness: quantiles(
            &times(|result| result.lateness.as_ref()),
            whole(used, |result| result.histogram_lateness.as_deref()).as_ref(),
        ),
        one_way: crate::ways::ways(used),
        parts: crate::ways::parts(used),
        pgm: crate::pgm::info(used),
    })
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn stream(used: &[&ResultDocument]) -> Option<StreamInfo> {
    let all: Vec<&model::StreamReport> = used.iter().filter_map(|result| result.stream.as_ref()).collect();
    let first = all.first()?;
    let mut directions: Vec<&str> = Vec::new();
    for flow in all.iter().flat_map(|stream| &stream.flows) {
        if !directions.contains(&flow.direction.as_str()) {
            directions.push(&flow.direction);
        }
    }
    let means = |pick: fn(&model::StreamReport) -> Option<f64>| {
        mean(&all.iter().filter_map(|stream| pick(stream)).collect::<Vec<_>>())
    };
    Some(StreamInfo {
        asked_bps: first.asked_bps,
        asked_pps: first.asked_pps,
        flows: directions
            .into_iter()
            .map(|direction| {
                let flows = all.iter().flat_map(|stream| &stream.flows).filter(|flow| flow.direction == direction);
                flow(direction, &flows.collect::<Vec<_>>())
            })
            .collect(),
        initiator_us_per_kib: means(|stream| stream.initiator_us_per_kib),
        reflector_us_per_kib: means(|stream| stream.reflector_us_per_kib),
        working: over(used, |result| result.stream.as_ref()?.working_latency.as_ref()),
        idle: over(used, |result| result.stream.as_ref()?.idle_latency.as_ref()),
    })
}

fn flow(direction: &str, flows: &[&model::FlowReport]) -> FlowInfo {
    let of = |pick: fn(&model::FlowReport) -> Option<f64>| -> Vec<f64> {
        flows.iter().filter_map(|flow| pick(flow)).collect()
    };
    let sum =
        |pick: fn(&model::FlowReport) -> Option<u64>| -> Option<u64> { flows.iter().map(|flow| pick(flow)).sum() };
    let bits = of(|flow| Some(flow.bits_per_second));
    FlowInfo {
        direction: plain(direction),
        flows: flows.iter().map(|flow| flow.flows).max().unwrap_or(0),
        bits_per_second: mean(&bits).unwrap_or_default(),
        bits_range: spread(&bits).map(|range| [range.low_ns, range.high_ns]),
        datagrams_per_second: mean(&of(|flow| flow.datagrams_per_second)),
        sent: sum(|flow| flow.sent),
        lost: sum(|flow| flow.lost),
        reordered: sum(|flow| flow.reordered),
        duplicated: sum(|flow| flow.duplicated),
        rfc3550_jitter_ns: middle(&of(|flow| flow.rfc3550_jitter_ns)),
        retransmits: sum(|flow| flow.retransmits),
        tcp_rtt_mean_ns: middle(&of(|flow| flow.tcp_rtt_mean_ns.map(|ns| ns as f64))),
    }
}

/// Findings that only explain a missing quantile do not mark a cell: the dash in its place already says it.
pub(crate) fn marks_a_cell(id: FindingId) -> bool {
    id != FindingId::FewSamples
}

/// The verdict of all repetitions together.
pub(crate) fn mark(results: &[&ResultDocument]) -> Mark {
    if results.iter().any(|result| !result.verdict.trusted) {
        return Mark::Invalid;
    }
    let disturbed = |result: &&ResultDocument| result.verdict.disturbed.iter().any(|finding| marks_a_cell(finding.id));
    if results.iter().any(disturbed) { Mark::Disturbed } else { Mark::Clean }
}

fn findings(results: &[&ResultDocument]) -> Vec<FindingCount> {
    let mut counts: Vec<FindingCount> = Vec::new();
    for result in results {
        let mut seen: Vec<(String, Option<String>)> = Vec::new();
        for finding in result.verdict.iter() {
            let key = (finding.id.word(), finding.end.clone());
            if seen.contains(&key) {
                continue;
            }
            match counts.iter_mut().find(|count| (&count.id, &count.end) == (&key.0, &key.1)) {
                Some(count) => count.repetitions += 1,
                None => counts.push(FindingCount {
                    id: key.0.clone(),
                    invalid: finding.id.is_invalid(),
                    end: key.1.as_deref().map(plain),
                    repetitions: 1,
                    detail: plain(&finding.detail),
                }),
            }
            seen.push(key);
        }
    }
    counts.sort_by_key(|count| !count.invalid);
    counts
}
