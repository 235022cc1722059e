//! A synthetic run of `pace`, written as a run directory: a sender that sleeps, a reflector that is displaced, stalls at
//! either end, lost messages. Shaped like two namespaces of one machine; never a measurement.

use super::{Chance, machine};
use model::result::Outlier;
use model::run::RunStep;
use model::{Event, Finding, FindingId, LatencyKind, ResultDocument, RunDocument, Verdict};
use serde_json::{Value, json};
use stats::{CoarseTally, Encoder, Histogram};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub(crate) const INTERVAL_NS: u64 = 100_000_000;
const STARTED_NS: u64 = 1_795_297_384_000_000_000;

/// One cell.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) policy: &'static str,
    pub(crate) rate: u64,
    pub(crate) repetition: u32,
    pub(crate) seconds: u64,
}

/// What a cell leaves behind.
pub(crate) struct Measured {
    pub(crate) result: ResultDocument,
    pub(crate) hlog: String,
    pub(crate) outliers: Vec<Outlier>,
    pub(crate) events: Vec<Event>,
}

/// When an end does nothing: beginning and length in ns.
type Stalls = Vec<(u64, u64)>;

/// Those of the sender and of the reflector.
fn stalls(cell: &Cell, chance: &mut Chance) -> (Stalls, Stalls) {
    let end = cell.seconds * 1_000_000_000;
    let (mut sender, mut reflector) = (Vec::new(), Vec::new());
    let mut at = 0;
    if cell.policy == "other" {
        // Displaced now and then by other tasks, for one to four ticks of 4 ms.
        while at < end {
            at += 30_000_000 + chance.next() % 400_000_000;
            let length = 300_000 + chance.next() % 3_700_000;
            if chance.next().is_multiple_of(2) { sender.push((at, length)) } else { reflector.push((at, length)) }
        }
    } else {
        // A real-time thread that fills its CPU is held for 50 ms of each second, where it does.
        while cell.rate >= 40_000 && at < end {
            at += 1_000_000_000;
            sender.push((at.saturating_sub(180_000_000), 50_000_000));
        }
        let mut at = 0;
        while at < end {
            at += 200_000_000 + chance.next() % 2_500_000_000;
            reflector.push((at, 80_000 + chance.next() % 1_600_000));
        }
    }
    (sender, reflector)
}

/// When an end goes on, and how far in its list of stalls it is.
fn after(at: u64, stalls: &[(u64, u64)], place: &mut usize) -> u64 {
    while stalls.get(*place).is_some_and(|(from, length)| from + length <= at) {
        *place += 1;
    }
    match stalls.get(*place) {
        Some((from, length)) if at >= *from => from + length,
        _ => at,
    }
}

fn latency(kind: LatencyKind, histogram: &Histogram, sum: f64, squares: f64) -> Value {
    let n = histogram.count() as f64;
    let mean = sum / n.max(1.0);
    let quantile = |q: f64| histogram.quantile_if_supported(q, 10);
    json!({
        "kind": kind, "count": histogram.count(), "mean_ns": mean,
        "stdev_ns": ((squares - n * mean * mean) / (n - 1.0).max(1.0)).max(0.0).sqrt(),
        "min_ns": histogram.min(), "p50_ns": quantile(0.5), "p90_ns": quantile(0.9), "p99_ns": quantile(0.99),
        "p99_9_ns": quantile(0.999), "p99_99_ns": quantile(0.9999), "p99_999_ns": quantile(0.99999),
        "max_ns": histogram.max(),
    })
}

struct Sums {
    all: Histogram,
    now: CoarseTally,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn new() -> Self {
        Self { all: Histogram::new(), now: CoarseTally::new(), sum: 0.0, squares: 0.0 }
    }

    fn record(&mut self, ns: u64) {
        self.all.record(ns);
        self.now.record(ns);
        self.sum += ns as f64;
        self.squares += (ns as f64).powi(2);
    }
}

/// Simulates a cell, message by message.
pub(crate) fn measure(cell: &Cell) -> Measured {
    let mut chance = Chance::new(cell.rate * 31 + u64::from(cell.repetition) * 7 + cell.policy.len() as u64);
    let (sender, reflector) = stalls(cell, &mut chance);
    let count = cell.rate * cell.seconds;
    let per_interval = cell.rate / 10;
    let (mut by_send, mut by_intent, mut late) = (Sums::new(), Sums::new(), Sums::new());
    let mut encoder = Encoder::new();
    let mut hlog = String::from("#[Histogram log format version 1.3]\n#[MaxValueDivisor: 1000000.000]\n");
    let mut outliers: Vec<Outlier> = Vec::new();
    let mut series: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let (mut at_sender, mut at_reflector, mut free) = (0, 0, 0);
    let (mut lost, mut lost_now, mut behind, mut most_behind) = (0_u64, 0_u64, 0_u64, 0_u64);
    let step = 1_000_000_000 / cell.rate;
    for seq in 0..count {
        let intended = seq * 1_000_000_000 / cell.rate;
        let wake = if cell.policy == "other" { 2_200 + chance.next() % 2_400 } else { 3_600 + chance.next() % 900 };
        let sent =
            (after(intended.max(free), &sender, &mut at_sender) + if free > intended { 900 } else { wake }).max(free);
        free = sent + 1_400;
        let lateness = sent - intended;
        late.record(lateness);
        if lateness > step {
            behind += 1;
            most_behind = most_behind.max(lateness / step);
        }
        // A path that drops a few in a row, and single ones.
        let dropped =
            cell.rate >= 30_000 && (chance.next().is_multiple_of(400_000) || (intended / 1_000_000) % 3_700 == 1_250);
        let spread = chance.normal() * 900.0 + chance.unit().powi(40) * 60_000.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
        let way = (5_400.0 + spread).max(2_900.0) as u64;
        let there = sent + way;
        let answered = after(there, &reflector, &mut at_reflector);
        let rtt = answered + way / 2 + 1_900 - sent;
        if dropped {
            lost += 1;
            lost_now += 1;
        } else {
            by_send.record(rtt);
            by_intent.record(rtt + lateness);
        }
        if dropped || rtt + lateness > 400_000 {
            outliers.push(Outlier {
                seq,
                at_ns: sent,
                realtime_ns: Some(STARTED_NS + sent),
                rtt_ns: if dropped { 0 } else { rtt },
                lateness_ns: lateness,
                lost: dropped,
                parts_ns: BTreeMap::from([
                    ("out".to_owned(), i64::try_from(answered - sent).unwrap()),
                    ("back".to_owned(), i64::try_from(way / 2 + 1_900).unwrap()),
                ]),
                ..Outlier::default()
            });
        }
        if (seq + 1) % per_interval == 0 {
            let start = intended / INTERVAL_NS;
            let mut push = |name, value: f64| series.entry(name).or_default().push(value);
            push("sent", per_interval as f64);
            push("received", by_send.now.total() as f64);
            push("lost", lost_now as f64);
            for (name, tag, sums) in [
                ("rtt", "rtt", &mut by_send),
                ("", "rtt_intended", &mut by_intent),
                ("lateness", "lateness", &mut late),
            ] {
                if name == "rtt" {
                    push("rtt_p50_ns", sums.now.quantile(0.5).unwrap_or(0) as f64);
                    push("rtt_max_ns", sums.now.quantile(1.0).unwrap_or(0) as f64);
                }
                if sums.now.total() > 0 {
                    let max = sums.now.quantile(1.0).unwrap_or(0) as f64 / 1e6;
                    let _ = write!(hlog, "Tag={tag},{}.{}00,0.100,{max:.6},", start / 10, start % 10);
                    encoder.base64_v2(&sums.now, &mut hlog).unwrap();
                    hlog.push('\n');
                }
                sums.now.clear();
            }
            lost_now = 0;
        }
    }
    outliers.sort_by_key(|outlier| (std::cmp::Reverse(outlier.rtt_ns + outlier.lateness_ns), outlier.seq));
    let (mut kept, mut of_lost): (Vec<Outlier>, Vec<Outlier>) = outliers.into_iter().partition(|outlier| !outlier.lost);
    kept.truncate(80);
    of_lost.truncate(30);
    kept.extend(of_lost);
    let mut verdict = Verdict::default();
    if lost > 0 {
        verdict.add(Finding::new(FindingId::Loss, format!("{lost} of {count} messages were lost")));
    }
    if most_behind > 0 {
        verdict.add(Finding::at(
            FindingId::Throttled,
            "initiator",
            format!("{behind} messages were sent late, up to {most_behind} at once: the sender was held"),
        ));
    }
    let event = |kind: &str, at_s: f64, detail: &str| Event {
        kind: kind.into(),
        realtime_ns: None,
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
        at_ns: Some((at_s * 1e9) as u64),
        host: Some("initiator".into()),
        seq: None,
        detail: detail.into(),
    };
    let events = vec![event("load-ready", 0.4, "build, 2 jobs"), event("link", cell.seconds as f64 * 0.6, "va: up")];
    let series: Vec<Value> = series
        .into_iter()
        .map(|(quantity, values)| json!({"quantity": quantity, "host": "initiator", "interval_ns": INTERVAL_NS, "values": values}))
        .collect();
    let end = |host: &str, address: &str, cpu: u32| {
        let mut end = serde_json::to_value(super::end(host, address, cpu, cell.policy, count)).unwrap();
        end["receive"] = json!("block");
        end
    };
    let result = serde_json::from_value(json!({
        "format": 1, "probe": "pace", "cell": key(cell), "repetition": cell.repetition,
        "started_ns": STARTED_NS, "elapsed_ns": cell.seconds * 1_000_000_000, "factors": factors(cell),
        "ends": {"initiator": end("a", "198.18.0.1", 0), "reflector": end("b", "198.18.0.2", 1)},
        "latency": latency(LatencyKind::Rtt, &by_send.all, by_send.sum, by_send.squares),
        "latency_intended": latency(LatencyKind::Rtt, &by_intent.all, by_intent.sum, by_intent.squares),
        "lateness": latency(LatencyKind::Rtt, &late.all, late.sum, late.squares),
        "rate": {"asked_pps": cell.rate, "achieved_pps": cell.rate as f64 * 0.9998, "intended": count, "behind": behind,
            "most_behind": most_behind},
        "histogram": by_send.all.to_base64_v2().unwrap(),
        "series": series,
        "messages": {"sent": count, "received": count - lost, "lost": lost, "duplicated": 0, "reordered": 0, "late": 0},
        "self_cost": {"clock_read_ns": 9.6, "loop_ns": 38.0, "record_ns": 11.2},
        "verdict": verdict,
    }))
    .unwrap();
    Measured { result, hlog, outliers: kept, events }
}

fn key(cell: &Cell) -> String {
    format!("policy={},protocol=udp,rate={},size=1000", cell.policy, cell.rate)
}

fn factors(cell: &Cell) -> BTreeMap<String, Value> {
    [
        ("probe", json!("pace")),
        ("protocol", json!("udp")),
        ("size", json!(1000)),
        ("rate", json!(cell.rate)),
        ("policy", json!(cell.policy)),
        ("load", json!("none")),
        ("receive", json!("block")),
        ("stack", json!("kernel")),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// Writes a run of these cells below `parent`; `spoil` may change what is written.
pub(crate) fn write(
    parent: &Path,
    name: &str,
    cells: &[Cell],
    mut spoil: impl FnMut(&mut RunDocument, &mut Measured),
) -> PathBuf {
    let order: Vec<RunStep> = cells
        .iter()
        .zip(1..)
        .map(|(cell, index)| RunStep { index, cell: key(cell), repetition: cell.repetition, factors: factors(cell) })
        .collect();
    let machine = machine();
    let mut document: RunDocument = serde_json::from_value(json!({
        "format": 1, "name": name, "title": "Round trips at 10,000 to 40,000 messages a second", "tool_version": "0.1.0",
        "seed": 1, "order": order, "machines": { machine.boot_id.clone(): machine },
        "hosts": {"a": super::host("a", "198.18.0.1", "initiator"), "b": super::host("b", "198.18.0.2", "reflector")},
        "substrate": "netns", "started_ns": STARTED_NS, "ended_ns": STARTED_NS + 200_000_000_000, "outcome": "done",
    }))
    .unwrap();
    let mut run = store::RunDir::create(parent, name, STARTED_NS).unwrap();
    run.write_plan("name = \"heat-map\"\n").unwrap();
    for (cell, step) in cells.iter().zip(&order) {
        let mut measured = measure(cell);
        spoil(&mut document, &mut measured);
        let files = store::CellFiles {
            result: &measured.result,
            hlog: &measured.hlog,
            outliers: &measured.outliers,
            windows: &[],
            events: &measured.events,
            raw: None,
            capture: None,
        };
        run.write_cell(step.index, &files, STARTED_NS).unwrap();
    }
    run.write_run(&document).unwrap();
    run.path().to_owned()
}
