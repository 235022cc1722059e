//! Scenarios (samples in, statistics out), equality over any split, and no allocation.

use super::*;
use model::{ClockPoint, ClockSource};
use proptest::prelude::*;

fn config() -> RecorderConfig {
    RecorderConfig::new(TickRate::NANOSECONDS, LatencyKind::Rtt, 1000)
}

fn run(config: RecorderConfig, samples: &[Sample]) -> Recorded {
    let mut recorder = Recorder::new(config);
    recorder.ingest(samples);
    recorder.finish(None)
}

fn sample(seq: u64, sent: u64, rtt: u64) -> Sample {
    Sample { seq, intended: sent, sent, received: sent + rtt, ..Sample::default() }
}

fn flagged(seq: u64, sent: u64, rtt: u64, flags: SampleFlags) -> Sample {
    Sample { flags, ..sample(seq, sent, rtt) }
}

/// What a scenario must come to: received, lost, duplicated, reordered, late, interrupted; min, max; outliers.
struct Scenario {
    name: &'static str,
    samples: Vec<Sample>,
    counts: [u64; 6],
    range: Option<(u64, u64)>,
    outliers: &'static [(u64, u64, bool)],
}

#[test]
fn scenarios() {
    let both = SampleFlags::LATE.with(SampleFlags::REORDERED);
    let table = [
        Scenario { name: "nothing", samples: vec![], counts: [0; 6], range: None, outliers: &[] },
        Scenario {
            name: "only warm-up",
            samples: vec![flagged(0, 10, 5, SampleFlags::WARMUP), flagged(1, 20, 5, SampleFlags::WARMUP)],
            counts: [0; 6],
            range: None,
            outliers: &[],
        },
        Scenario {
            name: "warm-up is passed over, also when slow or lost",
            samples: vec![
                flagged(0, 10, 5_000_000, SampleFlags::WARMUP.with(SampleFlags::LOST)),
                sample(1, 10_000_000, 40),
                sample(2, 10_000_100, 60),
            ],
            counts: [2, 0, 0, 0, 0, 0],
            range: Some((40, 60)),
            outliers: &[(1, 40, false), (2, 60, false)],
        },
        Scenario {
            name: "a lost message is an outlier and no latency; its late answer is only counted",
            samples: vec![
                sample(0, 0, 50),
                flagged(1, 100, 1_000_000_000, SampleFlags::LOST),
                flagged(1, 100, 1_000_400_000, SampleFlags::LATE),
                sample(2, 1_000_500_000, 70),
            ],
            counts: [2, 1, 0, 0, 1, 0],
            range: Some((50, 70)),
            outliers: &[(0, 50, false), (1, 1_000_000_000, true), (2, 70, false)],
        },
        Scenario {
            name: "duplicates are counted, answers out of order are latencies too",
            samples: vec![
                sample(0, 0, 50),
                flagged(0, 0, 90, SampleFlags::DUPLICATE),
                flagged(1, 200, 60, SampleFlags::REORDERED),
                flagged(2, 300, 70, both),
                flagged(3, 400, 80, SampleFlags::INTERRUPTED),
            ],
            counts: [3, 0, 1, 2, 1, 1],
            range: Some((50, 80)),
            outliers: &[(0, 50, false), (1, 60, false), (3, 80, false)],
        },
        Scenario {
            name: "everything lost",
            samples: (0..3).map(|seq| flagged(seq, seq * 2000, 1000, SampleFlags::LOST)).collect(),
            counts: [0, 3, 0, 0, 0, 0],
            range: None,
            outliers: &[(0, 1000, true), (1, 1000, true), (2, 1000, true)],
        },
        Scenario {
            name: "a clock that steps back costs 0, not 584 years",
            samples: vec![sample(0, 1000, 50), Sample { received: 1900, ..sample(1, 2000, 0) }],
            counts: [2, 0, 0, 0, 0, 0],
            range: Some((0, 50)),
            outliers: &[(0, 50, false), (1, 0, false)],
        },
    ];
    for scenario in table {
        let done = run(config(), &scenario.samples);
        let m = &done.messages;
        let counts =
            [m.received, m.lost, m.duplicated.unwrap(), m.reordered.unwrap(), m.late.unwrap(), done.interrupted];
        assert_eq!(counts, scenario.counts, "{}", scenario.name);
        assert_eq!(m.sent, m.received + m.lost, "{}", scenario.name);
        assert_eq!(done.latency.count, m.received, "{}", scenario.name);
        assert_eq!(done.latency.min_ns.zip(done.latency.max_ns), scenario.range, "{}", scenario.name);
        let outliers: Vec<_> =
            done.outliers.iter().map(|outlier| (outlier.seq, outlier.rtt_ns, outlier.lost)).collect();
        assert_eq!(outliers, scenario.outliers, "{}", scenario.name);
    }
}

#[test]
fn halves_come_last() {
    let samples: Vec<Sample> = (0..2000).map(|seq| sample(seq, seq * 100, 1001 + seq % 2 * 2)).collect();
    let rtt = run(config(), &samples).latency;
    let half = run(RecorderConfig { kind: LatencyKind::RttHalf, ..config() }, &samples).latency;
    assert_eq!((rtt.min_ns, rtt.max_ns, rtt.mean_ns), (Some(1001), Some(1003), Some(1002.0)));
    // 501.0 for the mean: halving each message first would have given 500.5 or, rounded, 501.5.
    assert_eq!((half.min_ns, half.max_ns, half.mean_ns), (Some(501), Some(502), Some(501.0)));
    assert_eq!(half.stdev_ns, rtt.stdev_ns.map(|stdev| stdev / 2.0));
    let deviation = (2000.0_f64 / 1999.0).sqrt();
    assert!((rtt.stdev_ns.unwrap() - deviation).abs() < 1e-12);
    assert_eq!(half.kind, LatencyKind::RttHalf);
}

#[test]
fn quantiles_need_ten_beyond() {
    // All numbers up to `count` in no order: the powers of a primitive root of 1009.
    let many = |count| -> Vec<Sample> {
        let powers = std::iter::successors(Some(1_u64), |last| Some(last * 11 % 1009)).take(1008);
        (0..).zip(powers.filter(|value| *value <= count)).map(|(seq, value)| sample(seq, seq * 2000, value)).collect()
    };
    let latency = run(config(), &many(1000)).latency;
    assert_eq!((latency.p50_ns, latency.p90_ns, latency.p99_ns), (Some(500), Some(900), Some(990)));
    assert_eq!(latency.p99_9_ns, None);
    assert!(latency.p50_ci95_ns.is_some() && latency.mean_ci95_ns.is_some());
    // In order of size they depend on each other from the first to the last.
    let ramp: Vec<Sample> = (0..1000).map(|seq| sample(seq, seq * 2000, 1 + seq)).collect();
    let latency = run(config(), &ramp).latency;
    assert_eq!((latency.p50_ns, latency.p50_ci95_ns, latency.mean_ci95_ns), (Some(500), None, None));
    let latency = run(config(), &many(19)).latency;
    assert_eq!((latency.p50_ns, latency.p50_ci95_ns), (None, None));
    assert_eq!(latency.mean_ns, Some(10.0));
}

#[test]
fn below_a_header_order_is_not_known() {
    let done = run(RecorderConfig { has_header: false, ..config() }, &[sample(0, 0, 5)]);
    assert_eq!((done.messages.duplicated, done.messages.reordered, done.messages.late), (None, None, None));
}

#[test]
fn the_series_says_when() {
    let mut samples: Vec<Sample> = (0..10).map(|seq| sample(seq, seq * 50_000_000, 1000 + seq)).collect();
    samples[7].flags = SampleFlags::LOST;
    let done = run(config(), &samples);
    let series = |name: &str| done.series.iter().find(|series| series.quantity.word() == name).unwrap().values.clone();
    assert_eq!(series("received"), [2.0, 2.0, 2.0, 1.0, 2.0].map(Some));
    assert_eq!(series("lost"), [0.0, 0.0, 0.0, 1.0, 0.0].map(Some));
    assert_eq!(series("rtt_p50_ns"), [1000.0, 1002.0, 1004.0, 1006.0, 1008.0].map(Some));
    assert_eq!(series("rtt_max_ns"), [1001.0, 1003.0, 1005.0, 1006.0, 1009.0].map(Some));
    assert_eq!(done.elapsed_ns, 450_001_009);
}

#[test]
fn slow_messages_are_measured_against_the_median() {
    // Median 300 µs: 6 ms and more are slow; before the first 64 messages 1 ms and more.
    let mut samples: Vec<Sample> = (0..1000).map(|seq| sample(seq, seq * 10_000_000, 300_000)).collect();
    for (at, rtt) in [(10, 2_000_000), (500, 5_900_000), (600, 6_000_000)] {
        samples[at].received = samples[at].sent + rtt;
    }
    let done = run(config(), &samples);
    assert_eq!(done.slow, [(100_000_000, 2_000_000), (6_000_000_000, 6_000_000)]);
}

#[test]
fn the_median_that_slowness_is_judged_by_does_not_wait_for_an_interval() {
    let mut samples: Vec<Sample> = (0..100).map(|seq| sample(seq, seq * 1_000_000, 200_000)).collect();
    samples[80].received = samples[80].sent + 3_000_000;
    assert_eq!(run(config(), &samples).slow, []);
}

#[test]
fn wall_clock_and_log() {
    let rate = TickRate::from_hz(2e9);
    let point = |tick, realtime_ns| ClockPoint { tick, raw_ns: 0, monotonic_ns: 0, realtime_ns, width_ns: 0 };
    let map = ClockMap {
        source: ClockSource::Tsc,
        rate,
        read_ns: 10.0,
        points: vec![point(0, 1_000_000_000_000), point(20_000_000_000, 1_010_000_000_000)],
        error_ppm: 0.0,
    };
    let mut recorder = Recorder::new(RecorderConfig { rate, max_ms: 3000, ..config() });
    // A message a millisecond for 2.5 s from tick 2,000,000,000 (1 s after the map began).
    let samples: Vec<Sample> =
        (0..2500).map(|seq| sample(seq, 2_000_000_000 + seq * 2_000_000, 20_000 + seq)).collect();
    recorder.ingest(&samples);
    let done = recorder.finish(Some(&map));
    assert_eq!(done.started_ns, 1_001_000_000_000);
    assert_eq!(done.first_tick, 2_000_000_000);
    let worst = done.outliers.last().unwrap();
    assert_eq!((worst.seq, worst.realtime_ns), (2499, Some(1_003_499_000_000)));
    assert!(worst.at_ns.abs_diff(2_499_000_000) <= 2);
    let lines: Vec<&str> = done.hlog.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), 25);
    let mut total = Histogram::new();
    for (at, line) in lines.iter().enumerate() {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!((fields[0], fields[1]), ("Tag=rtt", format!("{}.{}00", at / 10, at % 10).as_str()));
        total.merge(&Histogram::from_base64_v2(fields[4]).unwrap());
    }
    assert!(total.iter_recorded().eq(done.histogram.iter_recorded()));
    assert!(done.hlog.contains("#[StartTime: 1001.000 (seconds since epoch)]"));
}

#[test]
fn a_schedule_keeps_two_more_distributions() {
    let samples: Vec<Sample> =
        (0..2000).map(|seq| Sample { intended: seq * 1000, ..sample(seq, seq * 1000 + 40, 100) }).collect();
    let done = run(RecorderConfig { has_schedule: true, kind: LatencyKind::RttHalf, ..config() }, &samples);
    assert_eq!(done.latency.max_ns, Some(50));
    assert_eq!(done.latency_intended.unwrap().max_ns, Some(70));
    let lateness = done.lateness.unwrap();
    assert_eq!((lateness.kind, lateness.max_ns), (LatencyKind::OneWay, Some(40)));
    assert!(done.hlog.contains("Tag=rtt_intended,") && done.hlog.contains("Tag=lateness,"));
}

#[test]
fn waiting_for_an_answer_is_not_the_senders_own_lateness() {
    let interval = 1000;
    let late =
        |seq: u64, late: u64, rtt: u64| Sample { intended: seq * interval, ..sample(seq, seq * interval + late, rtt) };
    let samples = [
        late(0, 0, 100),
        // 40 late by itself, and answered 2500 after that, so that the next two could not be sent in time.
        late(1, 40, 2500),
        late(2, 1540, 100),
        late(3, 647, 100),
        // Lost: noticed after 1500, which holds the next one up.
        Sample { flags: SampleFlags::LOST, ..late(4, 3, 1500) },
        late(5, 510, 100),
    ];
    let done = run(RecorderConfig { has_schedule: true, ..config() }, &samples);
    assert_eq!(done.lateness.unwrap().max_ns, Some(1540));
    assert_eq!(done.latency_intended.unwrap().count, 5, "a lost message has no latency");
    let schedule = done.schedule.unwrap();
    let recorded = |histogram: &Histogram| {
        histogram.iter_recorded().map(|bucket| (bucket.high_ns, bucket.count)).collect::<Vec<_>>()
    };
    assert_eq!(schedule.lateness.count(), 6);
    // 3540 - (1040 + 2500), 3647 - (3540 + 100), 5510 - (4003 + 1500).
    assert_eq!(recorded(&schedule.own_lateness), [(0, 2), (3, 1), (7, 2), (40, 1)]);
}

#[test]
fn ingest_never_allocates() {
    let mut random = 1_u64;
    let samples: Vec<Sample> = (0..300_000_u64)
        .map(|seq| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let rtt = 5_000 + (random >> 40) % 4_000 + if random >> 50 == 7 { 9_000_000 } else { 0 };
            let flags = match random >> 52 {
                3 => SampleFlags::LOST,
                4 => SampleFlags::DUPLICATE,
                5 => SampleFlags::LATE,
                _ => SampleFlags::default(),
            };
            // 30 s in a recorder made for 1 s, so that everything is joined more than once.
            flagged(seq, seq * 100_000, rtt, flags)
        })
        .collect();
    let mut recorder = Recorder::new(RecorderConfig {
        raw_capacity: 1000,
        has_schedule: true,
        outliers: OutlierRule { worst: 50, over_ns: Some(8_000) },
        ..config()
    });
    let info = allocation_counter::measure(|| {
        for batch in samples.chunks(1024) {
            recorder.ingest(batch);
            std::hint::black_box(recorder.interval_percent());
        }
    });
    assert_eq!(info.count_total, 0);
    let done = recorder.finish(None);
    // And where samples are taken together.
    let mut together = Recorder::new(config());
    let info = allocation_counter::measure(|| samples.chunks(1024).for_each(|batch| together.ingest(batch)));
    assert_eq!(info.count_total, 0);
    assert!(done.messages.received > 290_000 && done.messages.lost > 0 && done.raw_overrun > 0);
    assert!(done.outliers.len() >= 10_000 && !done.slow.is_empty());
}

fn any_sample() -> impl Strategy<Value = (u64, u64, u32)> {
    let rtt = prop_oneof![8 => 100_u64..20_000, 1 => 1_000_000_u64..80_000_000];
    let flags = prop_oneof![9 => Just(0_u32), 1 => 0_u32..64];
    (0_u64..3_000_000, rtt, flags)
}

fn chain(parts: &[(u64, u64, u32)]) -> Vec<Sample> {
    let mut at = 1_000;
    (0..)
        .zip(parts)
        .map(|(seq, &(gap, rtt, flags))| {
            at += gap;
            let made = flagged(seq, at, rtt, SampleFlags(flags));
            at += rtt;
            made
        })
        .collect()
}

/// What the batches were changes nothing.
pub(crate) fn are_the_same(whole: &Recorded, split: &Recorded) {
    assert_eq!((&whole.latency, &whole.latency_intended), (&split.latency, &split.latency_intended));
    assert_eq!((&whole.messages, &whole.outliers), (&split.messages, &split.outliers));
    assert_eq!((&whole.series, &whole.slow), (&split.series, &split.slow));
    assert_eq!((&whole.hlog, &whole.raw), (&split.hlog, &split.raw));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_split_gives_the_same(parts in prop::collection::vec(any_sample(), 0..600), cut in 1_usize..80) {
        let samples = chain(&parts);
        let config = RecorderConfig { raw_capacity: 100, outliers: OutlierRule { worst: 7, over_ns: Some(15_000) }, ..config() };
        let whole = run(config, &samples);
        let mut recorder = Recorder::new(config);
        samples.chunks(cut).for_each(|batch| recorder.ingest(batch));
        let split = recorder.finish(None);
        are_the_same(&whole, &split);
        prop_assert_eq!(whole.moments, split.moments);
        prop_assert!(whole.histogram.iter_recorded().eq(split.histogram.iter_recorded()));
    }

    /// Catches: samples that are taken together and count otherwise than one by one. Most of these are plain.
    #[test]
    fn plain_samples_count_the_same_together(
        rtts in prop::collection::vec(9_000_u64..11_000, 1..9_000), slow in prop::collection::vec((0_usize..9_000, 0_u8..3), 0..6),
    ) {
        let mut samples: Vec<Sample> =
            (0..).zip(&rtts).map(|(seq, rtt)| flagged(seq, seq * 100_000, *rtt, SampleFlags::default())).collect();
        for (at, what) in slow {
            let Some(sample) = samples.get_mut(at) else { continue };
            match what {
                0 => sample.received += 3_000_000,
                1 => sample.flags = SampleFlags::LOST,
                _ => sample.flags = SampleFlags::WARMUP,
            }
        }
        let together = run(config(), &samples);
        let mut recorder = Recorder::new(config());
        samples.iter().for_each(|sample| recorder.ingest_each(std::slice::from_ref(sample)));
        let each = recorder.finish(None);
        are_the_same(&each, &together);
        prop_assert_eq!(each.moments, together.moments);
        prop_assert_eq!(each.slow, together.slow);
        prop_assert_eq!(each.elapsed_ns, together.elapsed_ns);
        prop_assert!(each.histogram.iter_recorded().eq(together.histogram.iter_recorded()));
    }

    #[test]
    fn agrees_with_a_naive_computation(parts in prop::collection::vec(any_sample(), 30..600)) {
        let samples = chain(&parts);
        let done = run(config(), &samples);
        let skipped = SampleFlags::WARMUP.0 | SampleFlags::LOST.0 | SampleFlags::DUPLICATE.0 | SampleFlags::LATE.0;
        let mut rtts: Vec<u64> =
            samples.iter().filter(|s| s.flags.0 & skipped == 0).map(|s| s.received - s.sent).collect();
        rtts.sort_unstable();
        let lost = samples.iter().filter(|s| s.flags.0 & (SampleFlags::WARMUP.0 | SampleFlags::LOST.0) == SampleFlags::LOST.0).count();
        prop_assert_eq!(done.messages.received, rtts.len() as u64);
        prop_assert_eq!(done.messages.lost, lost as u64);
        prop_assert_eq!(done.histogram.count(), rtts.len() as u64);
        prop_assert_eq!(done.latency.min_ns, rtts.first().copied());
        prop_assert_eq!(done.latency.max_ns, rtts.last().copied());
        if !rtts.is_empty() {
            let mean = rtts.iter().sum::<u64>() as f64 / rtts.len() as f64;
            prop_assert!((done.latency.mean_ns.unwrap() - mean).abs() < 1e-6 * mean);
            let exact = rtts[rtts.len().div_ceil(2) - 1];
            let found = done.histogram.quantile(0.5).unwrap();
            prop_assert!(found >= exact && found - exact <= exact / 1000);
        }
        let counted: f64 = done.series[0].values.iter().flatten().sum();
        prop_assert_eq!(counted, rtts.len() as f64);
        let worst: Vec<u64> = rtts.iter().rev().take(20).rev().copied().collect();
        let mut kept: Vec<u64> = done.outliers.iter().filter(|o| !o.lost).map(|o| o.rtt_ns).collect();
        kept.sort_unstable();
        prop_assert_eq!(kept, worst);
    }
}
