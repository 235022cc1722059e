//! Scenarios (samples in, statistics out), equality over any split, and that nothing is dropped.

mod one_way;
mod scenarios;
mod whole;

use super::*;
use model::LatencyKind;
use model::TickRate;
use stats::Histogram;

pub(super) const US: u64 = 1000;
pub(super) const MS: u64 = 1_000_000;
/// When the first message is due, in ticks of a ns.
pub(super) const START: u64 = 5_000_000_000;

/// 10,000 a second, ticks of a ns, RTT.
pub(super) fn config() -> PacedConfig {
    PacedConfig::new(TickRate::NANOSECONDS, LatencyKind::Rtt, 10_000.0)
}

/// A message that was due at its place of the schedule, left so late and took so long.
pub(super) fn message(config: &PacedConfig, seq: u64, late: u64, rtt: u64) -> PacedSample {
    let intended = START + seq * config.period_ns;
    let sent = intended + late;
    PacedSample {
        sample: Sample { seq, intended, sent, received: sent + rtt, ..Sample::default() },
        ..PacedSample::default()
    }
}

pub(super) fn flagged(flags: SampleFlags, mut one: PacedSample) -> PacedSample {
    one.sample.flags = flags;
    one
}

/// In the order that fates were known.
pub(super) fn in_order(mut samples: Vec<PacedSample>) -> Vec<PacedSample> {
    samples.sort_by_key(|one| {
        let sample = &one.sample;
        (if sample.flags.has(SampleFlags::UNASKED) { sample.sent } else { sample.received }, sample.seq)
    });
    samples
}

/// A recorder whose first message is due at the start.
pub(super) fn started(config: &PacedConfig) -> Paced {
    let mut paced = Paced::new(config.clone());
    paced.begin(START);
    paced
}

pub(super) fn run(config: &PacedConfig, samples: Vec<PacedSample>) -> Recorded {
    let mut paced = started(config);
    paced.ingest(&in_order(samples));
    paced.finish(None)
}

/// A run of messages, each with its lateness and its time on the way.
pub(super) fn record(config: &PacedConfig, count: u64, times: impl Fn(u64) -> (u64, u64)) -> Recorded {
    run(
        config,
        (0..count).map(|seq| (seq, times(seq))).map(|(seq, (late, rtt))| message(config, seq, late, rtt)).collect(),
    )
}

pub(super) fn series<'a>(done: &'a Recorded, name: &str) -> &'a [Option<f64>] {
    &done.series.iter().find(|series| series.quantity.word() == name).unwrap().values
}

/// Tag, start in ms, and histogram of each line of the log.
pub(super) fn lines(done: &Recorded) -> Vec<(String, u64, Histogram)> {
    let lines = done.hlog.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let (seconds, ms) = fields[1].split_once('.').unwrap();
            let start = seconds.parse::<u64>().unwrap() * 1000 + ms.parse::<u64>().unwrap();
            let histogram = Histogram::from_base64_v2(fields[4]).unwrap();
            (fields[0].strip_prefix("Tag=").unwrap().to_owned(), start, histogram)
        })
        .collect()
}

/// In optimised builds, the constructors of these made frames of a megabyte and overflowed the thread's stack.
#[test]
fn what_is_moved_is_small() {
    for (what, bytes) in [
        ("Paced", size_of::<Paced>()),
        ("Recorder", size_of::<crate::Recorder>()),
        ("BatchIntervals", size_of::<stats::BatchIntervals>()),
    ] {
        assert!(bytes <= 16 << 10, "{what} has {bytes} bytes");
    }
}
