//! Nothing is dropped, whatever the order and the split; memory is bounded.

use super::*;
use proptest::prelude::*;
use stats::CoarseTally;

/// Buckets of two digits of some values, as the log holds them.
fn coarse(values: impl Iterator<Item = u64>) -> Histogram {
    let mut tally = CoarseTally::new();
    values.for_each(|value| tally.record(value));
    let mut histogram = Histogram::new();
    tally.add_to_histogram(&mut histogram);
    histogram
}

fn summed(done: &Recorded, tag: &str) -> Histogram {
    let mut sum = Histogram::new();
    lines(done).iter().filter(|line| line.0 == tag).for_each(|line| sum.merge(&line.2));
    sum
}

fn total(done: &Recorded, name: &str) -> f64 {
    series(done, name).iter().flatten().sum()
}

/// Lateness, time on the way, flags.
fn any_message() -> impl Strategy<Value = (u64, u64, u32)> {
    let late = prop_oneof![9 => 0_u64..20_000, 1 => 0_u64..300_000_000];
    let rtt = prop_oneof![9 => 10_000_u64..200_000, 1 => 10_000_u64..900_000_000];
    let flags = prop_oneof![8 => Just(0_u32), 1 => Just(1_u32), 1 => Just(64_u32), 1 => 0_u32..32];
    (late, rtt, flags)
}

fn chain(config: &PacedConfig, parts: &[(u64, u64, u32)]) -> Vec<PacedSample> {
    let mut free = 0;
    let mut samples = Vec::new();
    for (seq, &(late, rtt, flags)) in (0..).zip(parts) {
        // Sent in order, so nobody leaves before the one before.
        let intended = START + seq * config.period_ns;
        let late = (intended + late).max(free) - intended;
        free = intended + late + 100;
        let rtt = if flags & 1 == 1 { config.timeout_ns } else { rtt };
        samples.push(flagged(SampleFlags(flags), message(config, seq, late, rtt)));
    }
    in_order(samples)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn all_intervals_together_are_the_whole(
        parts in prop::collection::vec(any_message(), 1..1500), cut in 1_usize..200, period in 1_u64..4,
    ) {
        let config = PacedConfig { period_ns: period * MS, ..config() };
        let samples = chain(&config, &parts);
        let has = |one: &&PacedSample, flag: SampleFlags| one.sample.flags.has(flag);
        let timed: Vec<&PacedSample> = samples.iter().filter(|one| {
            !has(one, SampleFlags::WARMUP) && !has(one, SampleFlags::DUPLICATE) && !has(one, SampleFlags::LATE)
        }).collect();
        let answered: Vec<&PacedSample> =
            timed.iter().copied().filter(|one| !has(one, SampleFlags::LOST) && !has(one, SampleFlags::UNASKED)).collect();
        let mut paced = started(&config);
        let mut told = Vec::new();
        for batch in samples.chunks(cut) {
            paced.ingest(batch);
            told.extend(paced.intervals());
        }
        let done = paced.finish(None);
        // The log.
        let rtt = |one: &&PacedSample| one.sample.received - one.sample.sent;
        let intended = |one: &&PacedSample| one.sample.received - one.sample.intended;
        let lateness = |one: &&PacedSample| one.sample.sent - one.sample.intended;
        prop_assert!(summed(&done, "rtt").iter_recorded().eq(coarse(answered.iter().map(rtt)).iter_recorded()));
        prop_assert!(summed(&done, "rtt_intended").iter_recorded().eq(coarse(answered.iter().map(intended)).iter_recorded()));
        prop_assert!(summed(&done, "lateness").iter_recorded().eq(coarse(timed.iter().map(lateness)).iter_recorded()));
        // Each line holds the messages due in its interval and no others.
        for (tag, start, histogram) in lines(&done) {
            let within = |one: &&&PacedSample| (one.sample.intended - START) / (100 * MS) == start / 100;
            let expected = match tag.as_str() {
                "rtt" => coarse(answered.iter().filter(within).map(rtt)),
                "rtt_intended" => coarse(answered.iter().filter(within).map(intended)),
                _ => coarse(timed.iter().filter(within).map(lateness)),
            };
            prop_assert!(histogram.iter_recorded().eq(expected.iter_recorded()), "{tag} at {start}");
        }
        // The totals and the series.
        let lost = timed.iter().filter(|one| has(one, SampleFlags::LOST)).count();
        prop_assert_eq!(done.histogram.count(), answered.len() as u64);
        prop_assert_eq!(&done.messages.sent, &(timed.len() as u64));
        prop_assert_eq!(&done.messages.lost, &(lost as u64));
        prop_assert_eq!(total(&done, "sent"), timed.len() as f64);
        prop_assert_eq!(total(&done, "received"), answered.len() as f64);
        prop_assert_eq!(total(&done, "lost"), lost as f64);
        // What was told before the end is a beginning of the series, and final.
        for (at, told) in told.iter().enumerate() {
            prop_assert_eq!(told.at_ns, at as u64 * 100 * MS);
            prop_assert_eq!(series(&done, "sent")[at], Some(told.sent as f64));
            prop_assert_eq!(series(&done, "lost")[at], Some(told.lost as f64));
            prop_assert_eq!(series(&done, "rtt_p99_ns")[at], told.rtt_p99_ns.map(|ns| ns as f64));
        }
    }

    #[test]
    fn any_split_gives_the_same(parts in prop::collection::vec(any_message(), 1..600), cut in 1_usize..80) {
        let config = PacedConfig { raw_capacity: 50, ..config() };
        let samples = chain(&config, &parts);
        let whole = run(&config, samples.clone());
        let mut paced = started(&config);
        samples.chunks(cut).for_each(|batch| paced.ingest(batch));
        let split = paced.finish(None);
        crate::recorder::tests::are_the_same(&whole, &split);
        prop_assert_eq!(&whole.pace.unwrap().rate, &split.pace.unwrap().rate);
    }
}

#[test]
fn an_interval_is_told_once_nothing_of_it_can_be_missing() {
    let config = PacedConfig { timeout_ns: 300 * MS, size: 64, ..config() };
    let mut paced = started(&config);
    let mut told = Vec::new();
    for seq in 0..8000 {
        let one = message(&config, seq, US, 50 * US);
        if seq != 500 {
            paced.ingest(&[one]);
        }
        // Noticed a little after its time-out.
        if seq == 500 + 3200 {
            paced.ingest(&[flagged(SampleFlags::LOST, message(&config, 500, US, 320 * MS))]);
        }
        told.extend(paced.intervals().into_iter().map(|interval| (seq, interval)));
    }
    assert!(told.len() >= 3, "{told:?}");
    // 100 ms long, closed 300 ms after its end and one interval for the notice.
    assert!((5000..5003).contains(&told[0].0), "{told:?}");
    let first = &told[0].1;
    assert_eq!((first.size, first.asked_pps, first.at_ns, first.interval_ns), (64, Some(10_000.0), 0, 100 * MS));
    assert_eq!((first.sent, first.received, first.lost), (1000, 999, 1));
    assert_eq!((first.rtt_max_ns, first.rtt_p50_ns), (Some(50 * US), Some(50 * US)));
    let done = paced.finish(None);
    assert_eq!(series(&done, "lost").iter().flatten().sum::<f64>(), 1.0);
}

/// What is told at each millisecond, with when. A message without an answer is lost.
fn watched(timeout_ms: u64, answers: impl Fn(u64) -> Option<u64>, messages: u64) -> Vec<(u64, LiveInterval)> {
    let all = PacedConfig::new(model::TickRate::NANOSECONDS, LatencyKind::Rtt, 1000.0);
    let config = &PacedConfig { timeout_ns: timeout_ms * MS, ..all };
    let mut paced = started(config);
    let mut told = Vec::new();
    // One message a millisecond; at each, what came by then, and what was given up.
    let fate_at = |seq: u64| seq + answers(seq).map_or(config.timeout_ns / MS, |rtt| rtt);
    let latest = (0..messages).map(fate_at).max().unwrap_or(0) + 200;
    for now in 0..latest {
        if now < messages {
            let one = message(config, now, 0, 0);
            paced.begun(one.sample.intended, one.sample.sent, 1);
        }
        let sent = (0..messages.min(now + 1)).collect::<Vec<u64>>();
        for &seq in sent.iter().filter(|&&seq| fate_at(seq) == now) {
            paced.ingest(&[match answers(seq) {
                Some(rtt) => message(config, seq, 0, rtt * MS),
                None => flagged(SampleFlags::LOST, message(config, seq, 0, config.timeout_ns)),
            }]);
        }
        let oldest = sent.iter().copied().find(|&seq| fate_at(seq) > now);
        let known = oldest.map_or_else(|| if now < messages { now * MS } else { u64::MAX - START }, |seq| seq * MS);
        paced.look(START + now * MS, START + known, now >= messages);
        told.extend(paced.intervals().into_iter().map(|interval| (now, interval)));
    }
    paced.close_intervals();
    told.extend(paced.intervals().into_iter().map(|interval| (latest, interval)));
    told
}

#[test]
fn an_interval_is_told_as_soon_as_it_is_over() {
    let told = watched(300, |_| Some(2), 350);
    let seen: Vec<(u64, u64, u64, bool)> =
        told.iter().map(|(now, one)| (*now, one.at_ns / MS, one.sent, one.settled)).collect();
    // When the last answer is there; the last interval, which the schedule ends in, at its end.
    assert_eq!(
        seen,
        [(101, 0, 100, true), (201, 100, 100, true), (301, 200, 100, true), (400, 300, 50, true)],
        "{told:?}"
    );
}

#[test]
fn what_was_told_early_is_corrected_once_and_not_before_all_is_known() {
    // Message 50 is lost, 99 is answered 200 ms later.
    let told = watched(300, |seq| if seq == 50 { None } else { Some(if seq == 99 { 200 } else { 2 }) }, 500);
    let first: Vec<&(u64, LiveInterval)> = told.iter().filter(|(_, one)| one.at_ns == 0).collect();
    let figures = |one: &LiveInterval| (one.sent, one.received, one.lost, one.open, one.settled);
    assert_eq!(first.len(), 2, "{told:?}");
    assert_eq!((first[0].0, figures(&first[0].1)), (150, (100, 98, 0, 2, false)), "half an interval after its end");
    assert_eq!((first[1].0, figures(&first[1].1)), (350, (100, 99, 1, 0, true)));
    assert_eq!(first[1].1.rtt_max_ns, Some(200 * MS));
    // All later ones wait for it, for nobody knows before; each is told at most half an interval after its end.
    let told_first = |at: u64| told.iter().find(|(_, one)| one.at_ns == at * MS).map(|(now, _)| *now);
    assert_eq!([100, 200, 300].map(told_first), [Some(250), Some(350), Some(401)], "{told:?}");
    // The last that is told of each is what happened.
    let last = |at: u64| told.iter().rev().find(|(_, one)| one.at_ns == at * MS).map(|(_, one)| figures(one));
    assert_eq!([100, 200, 300, 400].map(last), [Some((100, 100, 0, 0, true)); 4], "{told:?}");
}

#[test]
fn a_reflector_that_is_gone_shows_at_once() {
    let told = watched(5000, |seq| (seq < 20).then_some(1), 300);
    let (now, one) = &told[0];
    assert_eq!((*now, one.sent, one.received, one.lost, one.open), (150, 100, 20, 0, 80));
    assert_eq!(told.last().map(|(_, one)| (one.lost, one.settled)), Some((100, true)));
}

#[test]
fn a_fate_that_comes_much_too_late_is_still_counted_where_it_belongs() {
    let config = PacedConfig { timeout_ns: 100 * MS, ..config() };
    let mut samples: Vec<PacedSample> = (0..30_000).map(|seq| message(&config, seq, US, 50 * US)).collect();
    // Against the promise: 2.5 s instead of 100 ms.
    let mut late = samples.remove(1500);
    late.sample.received += 2500 * MS;
    samples.push(late);
    let done = run(&config, samples);
    let of_second: Vec<u64> =
        lines(&done).iter().filter(|line| line.0 == "rtt" && line.1 == 100).map(|line| line.2.count()).collect();
    assert_eq!(of_second, [999, 1]);
    assert_eq!(series(&done, "sent")[1], Some(1000.0));
    assert!(series(&done, "rtt_max_ns")[1] > Some(2.5e9));
    assert_eq!(summed(&done, "lateness").count(), 30_000);
}

#[test]
fn leaps_and_gaps_are_survived() {
    let config = config();
    let mut last = message(&config, 3, 0, 50 * US);
    (last.sample.intended, last.sample.sent, last.sample.received) = (u64::MAX - 2, u64::MAX - 1, u64::MAX);
    let mut hour = message(&config, 2, 0, 50 * US);
    for tick in [&mut hour.sample.intended, &mut hour.sample.sent, &mut hour.sample.received] {
        *tick += 3_600_000 * MS;
    }
    let done = run(&config, vec![message(&config, 0, 0, 50 * US), message(&config, 1, 0, 60 * US), hour, last]);
    assert_eq!(done.messages.received, 4);
    assert_eq!(total(&done, "received"), 4.0);
    assert!(series(&done, "received").len() <= 72_000);
    assert_eq!(summed(&done, "rtt").count(), 4);
    let nothing = Paced::new(config).finish(None);
    assert_eq!((nothing.messages.sent, nothing.latency.count, nothing.elapsed_ns), (0, 0, 0));
    assert_eq!(nothing.pace.unwrap().rate.achieved_pps, 0.0);
}

#[test]
fn without_a_begin_the_first_is_guessed() {
    let config = config();
    let mut paced = Paced::new(config.clone());
    // Message 0 is still under way.
    paced.ingest(&[message(&config, 1, 0, 50 * US), message(&config, 2, 0, 50 * US), message(&config, 0, 0, 900 * US)]);
    let done = paced.finish(None);
    assert_eq!(done.first_tick, START);
    assert_eq!(done.outliers.iter().map(|one| one.at_ns).collect::<Vec<_>>(), [0, 100 * US, 200 * US]);
}

/// Lines of an interval.
const TAGS: usize = 3;

#[test]
fn the_log_covers_more_a_line_when_it_grows_long() {
    let hosts = ["only".to_owned()];
    let mut intervals = Intervals::new(100 * MS, 0, &hosts);
    intervals.limit_log(20_000, 10_000);
    let mut random = 1_u64;
    let mut all = Vec::new();
    for at in 0..200_000_u64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let rtt_ns = 10_000 + (random >> 48);
        all.push(rtt_ns);
        let sent_ns = at * MS;
        let outcome = MessageOutcome::Answered { rtt_ns, intended_ns: rtt_ns };
        intervals.take(&IntervalMessage { due_ns: sent_ns, sent_ns, sent: sent_ns, lateness_ns: 0, peer: 0, outcome });
        if sent_ns >= intervals.close_from {
            intervals.close(sent_ns);
        }
    }
    intervals.end();
    let (series, text) = intervals.finish();
    assert_eq!(series[0].values.len(), 2000);
    let done = Recorded { hlog: text, ..run(&config(), Vec::new()) };
    assert!(summed(&done, "rtt").iter_recorded().eq(coarse(all.into_iter()).iter_recorded()));
    let lengths: Vec<f64> = done.hlog.lines().map(|line| line.split(',').nth(2).unwrap().parse().unwrap()).collect();
    assert_eq!(lengths.first(), Some(&0.1));
    assert!(lengths.windows(2).all(|pair| pair[0] <= pair[1]), "{lengths:?}");
    assert!(lengths.last() > Some(&1.0));
    // At one length all 2000 intervals would have taken ten times as much.
    let short = lengths.iter().filter(|length| **length < 0.15).count() / TAGS;
    assert!(done.hlog.len() * 10 < 20_000 / short * 2000, "{} after {short}", done.hlog.len());
}
