//! Against a naive count of the same script.

use super::*;
use model::stream::{StreamReceived, StreamSent};
use model::{Direction, FindingId, StreamSpec};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What a receiver with unlimited memory says of the numbers in the order that they came.
#[derive(Debug, Default, PartialEq)]
struct Naive {
    received: u64,
    reordered: u64,
    duplicated: u64,
    lost: u64,
}

fn naive(sent: u64, arrivals: &[u64]) -> Naive {
    let mut seen = BTreeSet::new();
    let mut naive = Naive::default();
    for seq in arrivals {
        if !seen.insert(*seq) {
            naive.duplicated += 1;
            continue;
        }
        naive.received += 1;
        if seen.last() > Some(seq) {
            naive.reordered += 1;
        }
    }
    naive.lost = sent - naive.received;
    naive
}

/// One arrival a `step_ns`.
fn count(arrivals: &[u64], step_ns: u64) -> FlowCounted {
    let mut counter = FlowCounter::new(60_000, false);
    counter.begin(0, 0);
    for (at, seq) in arrivals.iter().enumerate() {
        counter.arrived(at as u64 * step_ns);
        counter.datagram(*seq, None, 100);
    }
    counter.finish()
}

fn sides<'a>(sent: &'a StreamSent, received: &'a StreamReceived, spec: &'a StreamSpec) -> FlowEnds<'a> {
    FlowEnds { direction: Direction::Up, spec, size: 100, datagrams: true, sent: Some(sent), received: Some(received) }
}

/// What a network does to each datagram.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Through,
    Lost,
    Twice,
    Late(usize),
    LateAndTwice(usize),
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        8 => Just(Fate::Through),
        2 => Just(Fate::Lost),
        1 => Just(Fate::Twice),
        2 => (1usize..50).prop_map(Fate::Late),
        1 => (1usize..50).prop_map(Fate::LateAndTwice),
    ];
    prop::collection::vec(fate, 0..400)
}

/// The numbers in the order that they arrive.
fn arrivals(fates: &[Fate]) -> Vec<u64> {
    let mut arrivals: Vec<(usize, u64)> = Vec::new();
    for (at, fate) in fates.iter().enumerate() {
        let seq = at as u64;
        match *fate {
            Fate::Through => arrivals.push((at, seq)),
            Fate::Lost => {}
            Fate::Twice => arrivals.extend([(at, seq), (at, seq)]),
            Fate::Late(by) => arrivals.push((at + by, seq)),
            Fate::LateAndTwice(by) => arrivals.extend([(at, seq), (at + by, seq)]),
        }
    }
    arrivals.sort_by_key(|(at, _)| *at);
    arrivals.into_iter().map(|(_, seq)| seq).collect()
}

proptest! {
    #[test]
    fn counts_are_those_of_unlimited_memory(fates in fates(), step_ms in 1u64..40) {
        let arrivals = arrivals(&fates);
        let counted = count(&arrivals, step_ms * 1_000_000);
        let sent = StreamSent { datagrams: fates.len() as u64, ..StreamSent::default() };
        let received = merge(std::slice::from_ref(&counted));
        let spec = StreamSpec::default();
        let sides = sides(&sent, &received, &spec);
        let expected = naive(sent.datagrams, &arrivals);
        let found = Naive {
            received: counted.counts.received,
            reordered: counted.counts.reordered,
            duplicated: counted.counts.duplicated,
            lost: sides.lost().unwrap(),
        };
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(counted.counts.bytes, counted.counts.received * 100);
        // The intervals hold the same, each loss in one of them.
        let report = flow_report(&sides);
        prop_assert_eq!(report.lost, Some(expected.lost));
        let total = |quantity: &str| -> f64 {
            series(&sides).iter().filter(|series| series.quantity.word() == quantity).flat_map(|series| &series.values).flatten().sum()
        };
        if !arrivals.is_empty() {
            prop_assert_eq!(total("lost"), expected.lost as f64);
            prop_assert_eq!(total("received"), expected.received as f64);
            prop_assert_eq!(total("reordered"), expected.reordered as f64);
        }
    }

    #[test]
    fn nothing_that_arrives_makes_loss_negative(numbers in prop::collection::vec(any::<u64>(), 0..200), gaps in prop::collection::vec(0u64..3 * WINDOW, 0..200)) {
        let mut seq = 0;
        let mut script: Vec<u64> = Vec::new();
        for gap in gaps {
            seq += gap;
            script.push(seq);
            script.push(seq.saturating_sub(gap / 2));
        }
        script.extend(numbers);
        let counted = count(&script, 1_000_000);
        prop_assert!(counted.counts.received <= counted.counts.passed);
        let lost: u64 = counted.counts.intervals.iter().map(|interval| interval.lost).sum();
        prop_assert_eq!(lost, counted.counts.passed - counted.counts.received);
        let all = counted.counts.received + counted.counts.duplicated + counted.counts.too_late + counted.counts.ignored;
        prop_assert_eq!(all, script.len() as u64);
    }

    #[test]
    fn jitter_is_that_of_the_standard(transits in prop::collection::vec(0u32..1_000_000, 1..200), apart: u64) {
        let mut counter = FlowCounter::new(1000, false);
        counter.begin(0, 0);
        let (mut jitter, mut max, mut before) = (0.0_f64, 0.0_f64, None::<u32>);
        for (at, transit) in transits.iter().enumerate() {
            let sent = at as u64 * 20_000;
            counter.arrived(sent + u64::from(*transit));
            // The sender's clock is as far from ours as it likes.
            counter.datagram(at as u64, Some(sent.wrapping_add(apart)), 100);
            if let Some(before) = before {
                jitter += (f64::from(transit.abs_diff(before)) - jitter) / 16.0;
            }
            max = max.max(jitter);
            before = Some(*transit);
        }
        let counted = counter.finish();
        prop_assert!((counted.counts.jitter_ns.unwrap() - jitter).abs() < 1e-6);
        prop_assert!((counted.counts.jitter_max_ns.unwrap() - max).abs() < 1e-6);
    }
}

#[test]
fn a_late_datagram_is_no_longer_lost_where_it_belongs() {
    let second = 1_000_000_000;
    let mut counter = FlowCounter::new(5000, false);
    counter.begin(0, 0);
    counter.arrived(0);
    for seq in [0, 2, 3] {
        counter.datagram(seq, None, 10);
    }
    counter.arrived(second + 1);
    counter.datagram(1, None, 10);
    counter.datagram(5, None, 10);
    let counted = counter.finish();
    let rows: Vec<_> =
        counted.counts.intervals.iter().map(|row| (row.received, row.lost, row.reordered, row.bytes)).collect();
    // 1 was missing in the first second and came in the second one; 4 is lost in the second one.
    assert_eq!(rows, [(3, 0, 0, 30), (2, 1, 1, 20)]);
}

#[test]
fn what_is_lost_at_the_end_is_lost_too() {
    let counted = count(&[0, 1, 2], 1000);
    let received = merge(&[counted]);
    let sent = StreamSent { datagrams: 10, ..StreamSent::default() };
    let spec = StreamSpec::default();
    let sides = sides(&sent, &received, &spec);
    assert_eq!(sides.lost(), Some(7));
    let lost = series(&sides).into_iter().find(|series| series.quantity.word() == "lost").unwrap();
    assert_eq!(lost.values, [Some(7.0)]);
    assert_eq!(lost.host, "reflector");
    assert_eq!(FlowEnds { sent: None, ..sides }.lost(), Some(0), "a sender that vanished tells nothing");
}

/// Catches: the rate of a burst as that of a stream of which nearly everything was lost.
#[test]
fn datagrams_that_came_for_a_moment_are_no_rate() {
    let received = merge(&[count(&[0, 1, 2], 1000)]);
    let sent = StreamSent { datagrams: 3000, elapsed_ns: 2_000_000_000, ..StreamSent::default() };
    let spec = StreamSpec::default();
    let report = flow_report(&sides(&sent, &received, &spec));
    assert_eq!((report.elapsed_ns, report.bits_per_second), (2_000_000_000, 1200.0));
    assert_eq!(report.datagrams_per_second, Some(1.5));
    // What comes later than it was sent, or is a stream of bytes, took as long as it came.
    let later = StreamSent { elapsed_ns: 1000, ..sent.clone() };
    assert_eq!(flow_report(&sides(&later, &received, &spec)).elapsed_ns, 2000);
    assert_eq!(flow_report(&FlowEnds { datagrams: false, ..sides(&sent, &received, &spec) }).elapsed_ns, 2000);
}

#[test]
fn long_streams_join_their_intervals() {
    let mut counter = FlowCounter::new(u32::MAX, false);
    counter.begin(0, 0);
    for second in 0..10_000_u64 {
        counter.arrived(second * 1_000_000_000);
        counter.datagram(second, None, 1);
    }
    let one = counter.finish();
    assert_eq!(one.counts.interval_ns, 4_000_000_000);
    assert_eq!(one.counts.intervals.iter().map(|row| row.received).sum::<u64>(), 10_000);
    assert!(one.counts.intervals[..2499].iter().all(|row| row.received == 4), "{:?}", &one.counts.intervals[..3]);
    // A flow that ended earlier has shorter intervals; together they have the longer ones.
    let both = merge(&[one, count(&[0, 1, 2], 1_000_000_000)]);
    assert_eq!((both.interval_ns, both.intervals[0].received), (4_000_000_000, 7));
}

#[test]
fn flows_add_up_and_jitter_is_their_mean() {
    let flow = |jitter| FlowCounted {
        counts: StreamReceived {
            bytes: 5,
            received: 3,
            passed: 4,
            jitter_ns: Some(jitter),
            jitter_max_ns: Some(2.0 * jitter),
            interval_ns: 1_000_000_000,
            intervals: vec![StreamInterval { jitter_ns: Some(jitter), ..StreamInterval::default() }],
            ..StreamReceived::default()
        },
        first_ns: Some(100),
        last_ns: 1100,
    };
    let both = merge(&[flow(10.0), flow(30.0)]);
    assert_eq!((both.bytes, both.received, both.passed, both.elapsed_ns), (10, 6, 8, 1000));
    assert_eq!((both.jitter_ns, both.jitter_max_ns, both.intervals[0].jitter_ns), (Some(20.0), Some(60.0), Some(20.0)));
    assert_eq!(merge(&[]), StreamReceived { interval_ns: 1, ..StreamReceived::default() });
}

#[test]
fn a_rate_that_was_not_reached_is_told() {
    let spec = StreamSpec { rate_bps: Some(1_000_000), ..StreamSpec::default() };
    let received = StreamReceived::default();
    let sent = |bytes| StreamSent { bytes, elapsed_ns: 1_000_000_000, ..StreamSent::default() };
    assert!(findings(&sides(&sent(125_000), &received, &spec)).is_empty());
    let found = findings(&sides(&sent(100_000), &received, &spec));
    assert_eq!(found[0].id, FindingId::RateNotReached);
    assert!(found[0].detail.contains("0.8 Mbit/s") && found[0].detail.contains("1.0 Mbit/s"), "{}", found[0].detail);
    assert!(findings(&sides(&sent(1), &received, &StreamSpec::default())).is_empty());
    let pps = StreamSpec { rate_pps: Some(1000.0), ..StreamSpec::default() };
    assert_eq!(asked(&pps, 100, true), (Some(800_000.0), Some(1000.0)));
    assert_eq!(asked(&spec, 125, false), (Some(1_000_000.0), None));
}

#[test]
fn counting_allocates_nothing() {
    let mut counter = FlowCounter::new(10_000, false);
    counter.begin(0, 0);
    let counted = allocation_counter::measure(|| {
        for seq in 0..200_000_u64 {
            counter.arrived(seq * 40_000);
            counter.datagram(seq ^ 1, Some(seq), 64);
        }
    });
    assert_eq!(counted.count_total, 0);
    assert!(counter.finish().counts.reordered > 0);
}
