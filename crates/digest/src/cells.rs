//! From stored results to cells: repetitions of one combination of factors, combined.

use crate::RunInput;
use crate::causes;
use crate::combine::{centre, mean, middle, spread};
use crate::info::{CellInfo, Figure, Figures, FindingCount, Mark, ReflectorInfo};
use crate::names::{CELL_AXES, hosts, run_factors};
use crate::text::{each_once, plain};
use model::quantity::{self, Combine, DISTRIBUTIONS, Quantity, scale};
use model::{Finding, FindingId, LatencyKind, Probe, ResultDocument, Substrate, Verdict};
use stats::Histogram;
use std::collections::BTreeMap;

/// One cell with what only plots need.
#[derive(Debug, Clone)]
pub struct Cell {
    pub info: CellInfo,
    /// Its row's label without the rate, which charts draw along an axis.
    pub series: String,
    /// Its merged histogram: RTT in ns and counts, ascending.
    pub points: Vec<(u64, u64)>,
    /// The same from the intended send time, where all repetitions have it stored.
    pub intended: Vec<(u64, u64)>,
    /// What RTT is multiplied by to get the figures' kind.
    pub of_rtt: f64,
    /// Messages under a real-time policy that took as long as a stall by throttling.
    pub stalls: u64,
    /// The number of its run among the inputs.
    pub run: usize,
    /// The numbers of its results there, those that were left out among them.
    pub members: Vec<usize>,
}

/// All cells of all runs; the row number and label are filled in later. Remarks say what could not be read.
pub fn collect(inputs: &[RunInput], rtt: bool) -> (Vec<Cell>, Vec<String>) {
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
            let mut cell = cell(key, &results, run.document.substrate, name, rtt, &mut remarks);
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

/// The names of the runs; two directories of the same name get numbers.
pub fn run_names(inputs: &[RunInput]) -> Vec<String> {
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
pub struct Key {
    pub probe: Probe,
    pub protocol: String,
    pub size: u64,
    pub factors: BTreeMap<String, String>,
}

/// What a plan says of a shield whose backend is chosen on the host.
const AUTO: &str = "auto";

/// The words by which a cell's value of a factor can be asked for: the value, and the plan's word where that is another.
pub fn askable(value: &str) -> impl Iterator<Item = &str> {
    let chosen = value.strip_prefix(AUTO).is_some_and(|rest| rest.starts_with(" (") && rest.ends_with(')'));
    std::iter::once(value).chain(chosen.then_some(AUTO))
}

/// Whether a cell's value of a factor is the one asked for; numbers may be written in any way.
pub fn is_asked(value: &str, asked: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    askable(value).any(|word| word == asked || number(word).is_some_and(|own| number(asked) == Some(own)))
}

/// The numbers of the results of each combination.
pub fn group(run: &RunInput) -> BTreeMap<Key, Vec<usize>> {
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
        if let (Some(AUTO), Some(shield)) = (factors.get("shield").map(String::as_str), chosen) {
            factors.insert("shield".to_owned(), format!("{AUTO} ({})", shield.backend));
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
    rtt: bool,
    remarks: &mut Vec<String>,
) -> Cell {
    let trusted: Vec<&ResultDocument> = results.iter().copied().filter(|result| result.verdict.trusted).collect();
    let left_out = if trusted.is_empty() { 0 } else { results.len() - trusted.len() };
    let used: &[&ResultDocument] = if trusted.is_empty() { results } else { &trusted };
    let stored =
        used.iter().find_map(|result| result.latency.as_ref()).map_or(LatencyKind::Rtt, |latency| latency.kind);
    let kind = scale(key.probe, stored, rtt).1;
    let of_rtt = if kind == LatencyKind::RttHalf { 0.5 } else { 1.0 };
    let (tail, damaged) = merged(used.iter().filter_map(|result| result.histogram.as_deref()));
    if damaged > 0 {
        remarks.push(format!(
            "{run}: {damaged} stored histogram(s) of {} {} at {} bytes cannot be read; quantiles come from the others.",
            key.probe, key.protocol, key.size
        ));
    }
    // Of the others older versions stored no histogram, or of some repetitions.
    let others = DISTRIBUTIONS.iter().filter(|one| !one.id.is_empty());
    let mut tails: Tails = others.filter_map(|one| Some((one.id, (whole(used, one.stored?)?, 1.0)))).collect();
    tails.extend(tail.map(|tail| ("", (tail, of_rtt))));
    let points = |id: &str| -> Vec<(u64, u64)> {
        let buckets = tails.get(id).into_iter().flat_map(|(histogram, _)| histogram.iter_recorded());
        buckets.map(|bucket| (bucket.high_ns, bucket.count)).collect()
    };
    let actual = points("");
    let stalls = stalls(used, &actual);
    let mut info = CellInfo {
        run: run.to_owned(),
        row: 0,
        colour: 0,
        label: String::new(),
        substrate,
        factors: key.factors.clone(),
        probe: key.probe,
        protocol: key.protocol.clone(),
        size_bytes: key.size,
        kind,
        repetitions: used.len(),
        left_out,
        figures: figures(used, None, rtt, &tails),
        reflectors: reflectors(used, rtt),
        words: words(used),
        explanation: causes::combined(used),
        mark: mark(results),
        findings: findings(results),
        notes: Vec::new(),
    };
    add_throttled(&mut info, used, stalls);
    Cell {
        info,
        series: String::new(),
        points: actual,
        intended: points("intended"),
        of_rtt,
        stalls,
        run: 0,
        members: Vec::new(),
    }
}

fn is_real_time(result: &ResultDocument) -> bool {
    result.ends.iter().any(|(_, end)| end.spec.policy.is_real_time())
}

/// Messages that took about 50 ms there and back, where an end has a real-time policy.
fn stalls(used: &[&ResultDocument], points: &[(u64, u64)]) -> u64 {
    if !used.iter().any(|result| is_real_time(result)) {
        return 0;
    }
    points.iter().filter(|(ns, _)| stats::stalls::is_throttling_stall(*ns)).map(|(_, count)| count).sum()
}

/// Explains messages where the measurement did not: ends that share a CPU keep it busy together, though each sleeps.
fn add_throttled(info: &mut CellInfo, used: &[&ResultDocument], stalls: u64) {
    let throttled = FindingId::Throttled.word();
    let told = |finding: &FindingCount| finding.id == throttled || finding.detail.contains("RT throttling");
    if stalls == 0 || info.findings.iter().any(told) {
        return;
    }
    let has = |result: &&&ResultDocument| {
        let latency = result.latency.as_ref();
        let by = latency.map_or(1.0, |latency| scale(result.probe, latency.kind, true).0);
        latency.and_then(|latency| latency.max_ns).is_some_and(|ns| ns as f64 * by >= 45e6)
    };
    info.findings.push(FindingCount {
        id: throttled.to_owned(),
        invalid: false,
        end: None,
        repetitions: used.iter().filter(has).count().max(1),
        detail: format!(
            "{} with an RTT of about 50 ms (RTT/2 25 ms) under a real-time policy: the stall that RT throttling \
             (kernel.sched_rt_runtime_us of each second) or, since Linux 6.12, the fair server causes on a CPU that real-time \
             threads keep busy; a shielded CPU with kernel.sched_rt_runtime_us = -1 has neither",
            crate::text::counted(stalls, "message")
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

/// Stored histograms merged; `None` when there is none. Damaged ones are left out and counted.
pub fn merged<'a>(stored: impl Iterator<Item = &'a str>) -> (Option<Histogram>, usize) {
    let mut merged: Option<Histogram> = None;
    let mut damaged = 0;
    for text in stored {
        match (Histogram::from_base64_v2(text), &mut merged) {
            (Ok(histogram), None) => merged = Some(histogram),
            (Ok(histogram), Some(whole)) => whole.merge(&histogram),
            (Err(_), _) => damaged += 1,
        }
    }
    (merged, damaged)
}

/// Merged distributions by the id of theirs, and what their times are multiplied by to be of the kind that is shown.
type Tails = BTreeMap<&'static str, (Histogram, f64)>;

/// The merged distribution of the repetitions, where each of them has it stored whole: older versions did not.
fn whole(used: &[&ResultDocument], stored: fn(&ResultDocument) -> Option<&str>) -> Option<Histogram> {
    let stored: Vec<&str> = used.iter().filter_map(|result| stored(result)).collect();
    match merged(stored.iter().copied()) {
        (Some(tail), 0) if stored.len() == used.len() => Some(tail),
        _ => None,
    }
}

/// All quantities that the repetitions have; with a host those of that reflector.
fn figures(used: &[&ResultDocument], host: Option<&str>, rtt: bool, tails: &Tails) -> Figures {
    let of = |quantity: &'static Quantity| Some((quantity.id.as_str(), figure(quantity, used, host, rtt, tails)?));
    Figures(quantity::all().iter().filter_map(of).collect())
}

fn figure(
    quantity: &'static Quantity,
    used: &[&ResultDocument],
    host: Option<&str>,
    rtt: bool,
    tails: &Tails,
) -> Option<Figure> {
    let parts: Vec<[f64; 2]> = used
        .iter()
        .filter_map(|result| {
            let [part, whole] = quantity.parts(result, host)?;
            Some([part * quantity.scale(result, rtt), whole])
        })
        .filter(|[part, whole]| (part / whole).is_finite())
        .collect();
    let values: Vec<f64> = parts.iter().map(|[part, whole]| part / whole).collect();
    let sum = |which: usize| parts.iter().map(|part| part[which]).sum::<f64>();
    let value = match quantity.combine {
        Combine::Never => None,
        // What every repetition has is their geometric mean, which comparisons test; the rest comes from the merged histograms.
        Combine::Typical if values.is_empty() || values.len() < used.len() => {
            let tail = tails.get(id_of(quantity)).filter(|_| host.is_none());
            percentile(quantity, used.len(), tail).unwrap_or_else(|| centre(&values, quantity.unit))
        }
        Combine::Typical => centre(&values, quantity.unit),
        Combine::Interval => interval_of_rates(used).or_else(|| values.iter().copied().reduce(f64::max)),
        _ if values.is_empty() => None,
        Combine::Sum => Some(sum(0)),
        Combine::Ratio => Some(sum(0) / sum(1)),
        Combine::Mean => mean(&values),
        Combine::Middle => middle(&values),
        Combine::Min => values.iter().copied().reduce(f64::min),
        Combine::Max => values.iter().copied().reduce(f64::max),
        Combine::First => values.first().copied(),
        Combine::Deviation => mdev(used),
    };
    Some(Figure { value: value.filter(|value| value.is_finite())?, range: spread(&values) })
}

fn id_of(quantity: &Quantity) -> &'static str {
    quantity.statistic().map_or("-", |(distribution, _)| distribution.id)
}

/// A percentile of all messages, where several repetitions are stored whole. One repetition has its own.
fn percentile(quantity: &Quantity, repetitions: usize, tail: Option<&(Histogram, f64)>) -> Option<Option<f64>> {
    let (tail, by) = tail.filter(|_| repetitions > 1)?;
    let share = quantity.statistic()?.1.quantile()?;
    Some(tail.quantile_if_supported(share, Histogram::BEYOND).map(|ns| ns as f64 * by))
}

/// Half the 95 % interval of the mean rate of several repetitions in percent; passes within one of them share its moment.
fn interval_of_rates(used: &[&ResultDocument]) -> Option<f64> {
    let rates: Vec<f64> = used.iter().filter_map(|result| Some(result.transactions.as_ref()?.per_second)).collect();
    stats::interval_of(&rates).filter(|(mean, _)| *mean > 0.0).map(|(mean, half)| 100.0 * half / mean)
}

/// What is known of each of several reflectors, in the order in which the results name them.
fn reflectors(used: &[&ResultDocument], rtt: bool) -> Vec<ReflectorInfo> {
    let of =
        |host: &str| ReflectorInfo { host: plain(host), figures: figures(used, Some(host), rtt, &BTreeMap::new()) };
    each_once(used.iter().flat_map(|result| hosts(result))).into_iter().map(of).collect()
}

fn words(used: &[&ResultDocument]) -> BTreeMap<&'static str, String> {
    let first = |read: &dyn Fn(&ResultDocument) -> Option<String>| used.iter().find_map(|result| read(result));
    let saturated = first(&|result| {
        let saturated = result.rate.as_ref()?.saturated.as_ref()?;
        Some(format!("{}: {}", saturated.who, saturated.why))
    });
    let all = [
        ("saturated", saturated),
        ("one-way", first(&|result| Some(result.one_way.as_ref()?.method.to_string()))),
        ("stamps", first(&|result| Some(result.segments.first()?.stamps.to_string()))),
        ("carrier", first(&|result| Some(result.pgm.as_ref()?.carrier.to_string()))),
        ("parity", first(&|result| Some(result.pgm.as_ref()?.fec?.to_string()))),
        ("connect-each", first(&|result| Some(result.transactions.as_ref()?.connect_each.to_string()))),
    ];
    all.into_iter().filter_map(|(name, text)| Some((name, plain(&text?)))).collect()
}

/// The findings that are shown and mark. Older versions had one for a percentile with too few samples, which is a dash.
pub fn shown(verdict: &Verdict) -> impl Iterator<Item = &Finding> {
    verdict.iter().filter(|finding| finding.id != FindingId::FewSamples)
}

/// The verdict of all repetitions together.
pub fn mark(results: &[&ResultDocument]) -> Mark {
    if results.iter().any(|result| !result.verdict.trusted) {
        return Mark::Invalid;
    }
    let disturbed = results.iter().any(|result| shown(&result.verdict).next().is_some());
    if disturbed { Mark::Disturbed } else { Mark::Clean }
}

/// What the latency of some results is shown as.
pub fn kind_of(results: &[&ResultDocument], rtt: bool) -> LatencyKind {
    let stored = results.iter().find_map(|one| Some((one.probe, one.latency.as_ref()?.kind)));
    let probe = results.first().map_or(Probe::Pingpong, |result| result.probe);
    let (probe, kind) = stored.unwrap_or((probe, LatencyKind::Rtt));
    scale(probe, kind, rtt).1
}

fn findings(results: &[&ResultDocument]) -> Vec<FindingCount> {
    let mut counts: Vec<FindingCount> = Vec::new();
    for result in results {
        // The same may be found twice in a repetition.
        let own = each_once(shown(&result.verdict).map(|finding| (finding.id, finding.end.as_deref().map(plain))));
        for (id, end) in own {
            match counts.iter_mut().find(|count| count.id == id.word() && count.end == end) {
                Some(count) => count.repetitions += 1,
                None => {
                    let is = |finding: &&Finding| finding.id == id && finding.end.as_deref().map(plain) == end;
                    let detail =
                        shown(&result.verdict).find(is).map(|finding| plain(&finding.detail)).unwrap_or_default();
                    counts.push(FindingCount {
                        id: id.to_string(),
                        invalid: id.is_invalid(),
                        end,
                        repetitions: 1,
                        detail,
                    });
                }
            }
        }
    }
    counts.sort_by_key(|count| !count.invalid);
    counts
}
