//! Synthetic runs of `pace` for pictures: each message's times by a rule, written as a run directory with interval logs
//! of 100 ms and two digits, as a measurement leaves them.

#![allow(clippy::unwrap_used, reason = "a generator for tests and for looking at")]
#![allow(dead_code, reason = "each test file uses a part")]

use model::result::Outlier;
use model::run::RunStep;
use model::{Event, JournalLine, ResultDocument, RunDocument};
use serde_json::{Value, json};
use stats::SplitMix64;
use stats::{CoarseTally, Encoder};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use store::{CellFiles, RunDir};

pub(crate) const INTERVAL_NS: u64 = 100_000_000;
const STARTED_NS: u64 = 1_795_297_384_000_000_000;

/// What became of one message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    /// Actual less intended send time.
    pub(crate) lateness_ns: u64,
    /// From the actual send; absent: it never came back.
    pub(crate) rtt_ns: Option<u64>,
}

/// The same number for the same `of` everywhere.
pub(crate) fn chance(of: u64) -> u64 {
    SplitMix64::new(of.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next_u64()
}

/// About normal, from a sum of four alone: mean 0, standard deviation 1000.
pub(crate) fn normal(of: u64) -> i64 {
    let draw = chance(of);
    let sum = (draw & 0xffff) + (draw >> 16 & 0xffff) + (draw >> 32 & 0xffff) + (draw >> 48);
    (i64::try_from(sum).unwrap() - 131_070) * 1000 / 37_837
}

/// Around a time, a tenth of it wide.
pub(crate) fn about(ns: u64, of: u64) -> u64 {
    let wide = i64::try_from(ns).unwrap() / 10;
    (i64::try_from(ns).unwrap() + normal(of) * wide / 1000).max(1).unsigned_abs()
}

/// One cell of a run.
pub(crate) struct Cell<'a> {
    pub(crate) policy: &'a str,
    pub(crate) rate: u64,
    pub(crate) seconds: u64,
    pub(crate) events: Vec<Event>,
    /// Number and intended time of a message to what became of it.
    pub(crate) rule: &'a dyn Fn(u64, u64) -> Message,
}

struct Log {
    encoder: Encoder,
    text: String,
}

impl Log {
    fn add(&mut self, tag: &str, interval: u64, tally: &mut CoarseTally, max: u64) {
        if tally.total() > 0 {
            let start = interval as f64 / 10.0;
            let max = max as f64 / 1e6;
            write!(self.text, "Tag={tag},{start:.3},0.100,{max:.6},").unwrap();
            self.encoder.base64_v2(tally, &mut self.text).unwrap();
            self.text.push('\n');
            tally.clear();
        }
    }
}

/// The documents and files of one cell.
pub(crate) struct Files {
    pub(crate) key: String,
    pub(crate) factors: BTreeMap<String, Value>,
    pub(crate) result: ResultDocument,
    pub(crate) hlog: String,
    pub(crate) outliers: Vec<Outlier>,
    pub(crate) events: Vec<Event>,
}

/// Measures nothing: makes a cell's files.
pub(crate) fn files(cell: &Cell<'_>) -> Files {
    let head = format!(
        "#[Histogram log format version 1.3]\n#[StartTime: {0:.3} (seconds since epoch)]\n\
         #[BaseTime: {0:.3} (seconds since epoch)]\n#[MaxValueDivisor: 1000000.000]\n",
        STARTED_NS as f64 / 1e9
    );
    let mut log = Log { encoder: Encoder::new(), text: head };
    let mut tallies = [CoarseTally::new(), CoarseTally::new(), CoarseTally::new()];
    let mut most = [0; 3];
    let (mut sent, mut lost, mut received) = (Vec::new(), Vec::new(), 0_u64);
    let mut outliers: Vec<Outlier> = Vec::new();
    let messages = cell.rate * cell.seconds;
    let mut series: [Vec<Option<u64>>; 3] = Default::default();
    let mut flush = |log: &mut Log, tallies: &mut [CoarseTally; 3], most: &mut [u64; 3], interval: u64| {
        for (values, q) in series.iter_mut().zip([0.5, 0.99, 1.0]) {
            values.push(tallies[0].quantile(q));
        }
        for ((tag, tally), max) in ["rtt", "rtt_intended", "lateness"].into_iter().zip(tallies).zip(most) {
            log.add(tag, interval, tally, *max);
            *max = 0;
        }
    };
    let mut now = 0;
    for seq in 0..messages {
        let intended = seq * 1_000_000_000 / cell.rate;
        let interval = intended / INTERVAL_NS;
        if interval != now {
            flush(&mut log, &mut tallies, &mut most, now);
            now = interval;
        }
        let at = usize::try_from(interval).unwrap();
        sent.resize(at + 1, 0.0);
        lost.resize(at + 1, 0.0);
        sent[at] += 1.0;
        let message = (cell.rule)(seq, intended);
        let mut add = |which: usize, ns: u64| {
            tallies[which].record(ns);
            most[which] = most[which].max(ns);
        };
        add(2, message.lateness_ns);
        if let Some(rtt) = message.rtt_ns {
            received += 1;
            add(0, rtt);
            add(1, rtt + message.lateness_ns);
        } else {
            lost[at] += 1.0;
        }
        let weight = message.rtt_ns.unwrap_or(0) + message.lateness_ns;
        let full = outliers.len() >= 50;
        let least = outliers.last().map_or(0, |outlier| outlier.rtt_ns + outlier.lateness_ns);
        if message.rtt_ns.is_some() && (!full || weight > least) {
            outliers.push(Outlier {
                seq,
                at_ns: intended + message.lateness_ns,
                rtt_ns: message.rtt_ns.unwrap_or(0),
                lateness_ns: message.lateness_ns,
                ..Outlier::default()
            });
            outliers.sort_by_key(|outlier| std::cmp::Reverse(outlier.rtt_ns + outlier.lateness_ns));
            outliers.truncate(50);
        }
    }
    flush(&mut log, &mut tallies, &mut most, now);
    let key = format!("policy={},rate={},size=1000", cell.policy, cell.rate);
    let factors: BTreeMap<String, Value> = [
        ("policy", json!(cell.policy)),
        ("rate", json!(cell.rate)),
        ("size", json!(1000)),
        ("protocol", json!("udp")),
        ("probe", json!("pace")),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    let one = |quantity: &str, values: Value| json!({ "quantity": quantity, "host": "initiator", "interval_ns": INTERVAL_NS, "values": values });
    let all_series = json!([
        one("sent", json!(sent)),
        one("lost", json!(lost)),
        one("rtt_p50_ns", json!(series[0])),
        one("rtt_p99_ns", json!(series[1])),
        one("rtt_max_ns", json!(series[2])),
    ]);
    let result = json!({
        "format": 1, "probe": "pace", "cell": key, "repetition": 1, "started_ns": STARTED_NS,
        "elapsed_ns": cell.seconds * 1_000_000_000, "factors": factors,
        "ends": { "initiator": { "host": "a" }, "reflector": { "host": "b" } },
        "latency": null,
        "messages": { "sent": messages, "received": received, "lost": messages - received, "duplicated": 0, "reordered": 0 },
        "series": all_series,
        "verdict": { "trusted": true, "invalid": [], "disturbed": [] },
    });
    Files {
        result: serde_json::from_value(result).unwrap(),
        key,
        factors,
        hlog: log.text,
        outliers,
        events: cell.events.clone(),
    }
}

/// A run directory of some cells.
pub(crate) fn run(parent: &Path, name: &str, cells: &[Files]) -> PathBuf {
    let order: Vec<RunStep> = (1..)
        .zip(cells)
        .map(|(index, cell)| RunStep { index, cell: cell.key.clone(), repetition: 1, factors: cell.factors.clone() })
        .collect();
    let document: RunDocument = serde_json::from_value(json!({
        "format": 1, "name": name, "title": "synthetic", "tool_version": "0.1.0", "seed": 7, "order": order,
        "machines": { "boot-1": { "boot_id": "boot-1" } },
        "hosts": { "a": { "role": "initiator", "facts": { "boot_id": "boot-1" } } },
        "substrate": "netns", "started_ns": STARTED_NS,
    }))
    .unwrap();
    let mut dir = RunDir::create(parent, name, STARTED_NS).unwrap();
    dir.write_plan("name = \"synthetic\"\n").unwrap();
    dir.write_run(&document).unwrap();
    dir.journal(&JournalLine::Begin { at_ns: 1, tool_version: "0.1.0".to_owned() }).unwrap();
    for (index, cell) in (1..).zip(cells) {
        dir.journal(&JournalLine::Start { index, at_ns: 2 }).unwrap();
        let files = CellFiles {
            result: &cell.result,
            hlog: &cell.hlog,
            outliers: &cell.outliers,
            windows: &[],
            events: &cell.events,
            raw: None,
            capture: None,
        };
        dir.write_cell(index, &files, 3).unwrap();
    }
    dir.path().to_owned()
}
