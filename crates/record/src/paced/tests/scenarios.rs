//! What a run comes to.

use super::*;
use crate::{Recorder, RecorderConfig};
use model::OutlierRule;
use model::result::Outlier;

#[test]
fn a_quiet_run() {
    let config = PacedConfig { line_pps: Some(81_274.0), ..config() };
    let done = record(&config, 20_000, |seq| (3 * US + seq % 2, 40 * US + seq % 3));
    let m = &done.messages;
    assert_eq!((m.sent, m.received, m.lost), (20_000, 20_000, 0));
    assert_eq!((m.duplicated, m.reordered, m.late), (Some(0), Some(0), Some(0)));
    assert_eq!((done.latency.min_ns, done.latency.max_ns), (Some(40_000), Some(40_002)));
    let intended = done.latency_intended.as_ref().unwrap();
    assert_eq!((intended.min_ns, intended.max_ns, intended.count), (Some(43_000), Some(43_003), 20_000));
    assert!(intended.p50_ci95_ns.is_some() && intended.p99_9_ns.is_some());
    let lateness = done.lateness.as_ref().unwrap();
    assert_eq!((lateness.kind, lateness.max_ns), (LatencyKind::OneWay, Some(3001)));
    let pace = done.pace.as_ref().unwrap();
    let rate = &pace.rate;
    assert_eq!((rate.asked_pps, rate.intended, rate.behind, rate.most_behind), (10_000.0, 20_000, 0, 0));
    assert!((rate.achieved_pps / 10_000.0 - 1.0).abs() < 1e-5, "{}", rate.achieved_pps);
    assert_eq!((rate.line_pps, rate.saturated.as_ref()), (Some(81_274.0), None));
    assert_eq!(series(&done, "sent"), [Some(1000.0); 20]);
    assert_eq!(series(&done, "received"), [Some(1000.0); 20]);
    assert_eq!(series(&done, "lost"), [Some(0.0); 20]);
    assert_eq!(series(&done, "rtt_max_ns"), [Some(40_002.0); 20]);
    assert!(series(&done, "lateness_p99_ns").iter().flatten().all(|&ns| (3001.0..3030.0).contains(&ns)));
    assert_eq!((done.elapsed_ns, done.first_tick), (19_999 * 100 * US + 43_000 + 1 + 1, START));
    assert!(done.stalls.is_empty() && done.slow.is_empty() && pace.sender_stalls.is_empty());
}

/// A second of 10,000 messages; for 100 ms from 500 ms on the sender stands still, then it sends what has fallen due.
fn sender_stands_still(seq: u64) -> (u64, u64) {
    let due = seq * 100 * US;
    let late = if (500 * MS..600 * MS).contains(&due) { 600 * MS - due + (seq - 5000) * US } else { 2 * US };
    (late, 50 * US)
}

/// The same, but the reflector stands still.
fn reflector_stands_still(seq: u64) -> (u64, u64) {
    let due = seq * 100 * US;
    let rtt = if (500 * MS..600 * MS).contains(&due) { 600 * MS - due + (seq - 5000) * US } else { 50 * US };
    (2 * US, rtt)
}

#[test]
fn only_the_intended_time_shows_that_the_sender_stood_still() {
    let done = record(&config(), 10_000, sender_stands_still);
    // One message in ten was held, half of them for more than 50 ms.
    assert_eq!((done.latency.p99_ns, done.latency.max_ns), (Some(50 * US), Some(50 * US)));
    let intended = done.latency_intended.as_ref().unwrap();
    assert!((89 * MS..92 * MS).contains(&intended.p99_ns.unwrap()), "{intended:?}");
    assert!(intended.max_ns.unwrap() >= 100 * MS);
    assert!((89 * MS..92 * MS).contains(&done.lateness.as_ref().unwrap().p99_ns.unwrap()));
    // Numbers say when nothing was sent, times say what the messages due then had.
    assert_eq!(series(&done, "sent")[4..8], [1000.0, 0.0, 2000.0, 1000.0].map(Some));
    assert_eq!(series(&done, "rtt_max_ns")[5], Some(50_000.0));
    assert!(series(&done, "lateness_p99_ns")[5] > Some(95e6) && series(&done, "lateness_p99_ns")[6] < Some(1e4));
    // One stall, though a thousand messages saw it.
    let pace = done.pace.as_ref().unwrap();
    assert_eq!(pace.sender_stalls.len(), 1);
    let (at, width) = pace.sender_stalls[0];
    assert_eq!(at, 500 * MS);
    assert!((100 * MS..102 * MS).contains(&width), "{width}");
    assert_eq!(done.slow.len(), 1);
    assert_eq!((pace.rate.behind, pace.rate.most_behind), (1000, 1000));
}

#[test]
fn both_times_show_that_the_reflector_stood_still() {
    let done = record(&config(), 10_000, reflector_stands_still);
    for latency in [&done.latency, done.latency_intended.as_ref().unwrap()] {
        assert!((89 * MS..92 * MS).contains(&latency.p99_ns.unwrap()), "{latency:?}");
    }
    assert_eq!(done.lateness.as_ref().unwrap().max_ns, Some(2 * US));
    let pace = done.pace.as_ref().unwrap();
    assert!(pace.sender_stalls.is_empty());
    assert_eq!((done.slow.len(), pace.rate.behind), (1, 0));
    assert_eq!(done.slow[0].0, 500 * MS);
    // The same second of a closed loop: one message of ten thousand tells of it, and p99 nothing.
    let mut closed = Recorder::new(RecorderConfig::new(TickRate::NANOSECONDS, LatencyKind::Rtt, 1000));
    let mut at = START;
    for seq in 0..10_000 {
        let rtt = if seq == 5000 { 100 * MS } else { 50 * US };
        closed.ingest(&[Sample { seq, intended: at, sent: at, received: at + rtt, ..Sample::default() }]);
        at += rtt + 50 * US;
    }
    let closed = closed.finish(None);
    assert_eq!((closed.slow.len(), closed.latency.max_ns), (1, Some(100 * MS)));
    assert!(closed.latency.p99_9_ns.unwrap() <= 51 * US);
}

#[test]
fn lost_and_unasked_messages_have_a_lateness_and_no_latency() {
    let config = config();
    let lost = |seq| flagged(SampleFlags::LOST, message(&config, seq, 7 * US, 1000 * MS));
    let unasked = |seq, late| {
        let mut one = flagged(SampleFlags::UNASKED, message(&config, seq, late, 0));
        one.sample.received = 0;
        one
    };
    let done = run(
        &config,
        vec![
            message(&config, 0, 5 * US, 60 * US),
            lost(1),
            unasked(2, 9 * US),
            // 30 ms late: no answer tells of it.
            unasked(3, 30 * MS),
            flagged(SampleFlags::WARMUP, message(&config, 0, 90 * MS, 90 * MS)),
        ],
    );
    assert_eq!((done.messages.sent, done.messages.received, done.messages.lost), (4, 1, 1));
    let lateness = done.lateness.as_ref().unwrap();
    assert_eq!((lateness.count, lateness.min_ns, lateness.max_ns), (4, Some(5 * US), Some(30 * MS)));
    assert_eq!((done.latency.count, done.latency.max_ns), (1, Some(60 * US)));
    assert_eq!(done.latency_intended.as_ref().unwrap().count, 1);
    assert_eq!(done.slow, [(300 * US, 30 * MS)]);
    let kept: Vec<_> = done.outliers.iter().map(|one| (one.seq, one.rtt_ns, one.lateness_ns, one.lost)).collect();
    assert_eq!(kept, [(0, 60 * US, 5 * US, false), (1, 1000 * MS, 7 * US, true)]);
    assert_eq!(series(&done, "lost"), [Some(1.0)]);
}

#[test]
fn duplicates_and_order() {
    let config = config();
    let late = flagged(SampleFlags::LATE, message(&config, 9, 0, 1200 * MS));
    let samples = vec![
        message(&config, 0, 0, 50 * US),
        flagged(SampleFlags::DUPLICATE, message(&config, 0, 0, 60 * US)),
        // Passed by 5 and 6.
        flagged(SampleFlags::REORDERED, message(&config, 4, 0, 400 * US)),
        message(&config, 5, 0, 50 * US),
        message(&config, 6, 0, 50 * US),
        flagged(SampleFlags::LOST, message(&config, 9, 0, 1000 * MS)),
        late,
    ];
    let done = run(&config, samples.clone());
    let m = &done.messages;
    assert_eq!((m.sent, m.received, m.lost), (5, 4, 1));
    assert_eq!((m.duplicated, m.reordered, m.late), (Some(1), Some(1), Some(1)));
    assert_eq!(done.messages.reorder_depth, Some(2));
    let done = run(&PacedConfig { has_header: false, ..config }, samples);
    assert_eq!((done.messages.duplicated, done.messages.late), (None, None));
}

#[test]
fn each_quantity_has_its_own_worst() {
    // Twenty sends are late by 30 ms and fast on the way: worst from the intended time, but not on the way.
    let done = record(&config(), 1000, |seq| match seq {
        100..120 => (30 * MS, 20 * US),
        500 => (US, 4 * MS),
        _ => (US, 50 * US),
    });
    let worst = |time: fn(&Outlier) -> u64| done.outliers.iter().map(time).max();
    assert_eq!(worst(|one| one.rtt_ns), done.latency.max_ns);
    assert_eq!(worst(|one| one.lateness_ns), Some(30 * MS));
    let mut seqs: Vec<u64> = done.outliers.iter().map(|one| one.seq).collect();
    seqs.dedup();
    assert_eq!(seqs.len(), done.outliers.len(), "each message once");
}

#[test]
fn outliers_are_judged_from_the_intended_time() {
    let config = PacedConfig { outliers: OutlierRule { worst: 2, over_ns: Some(5 * MS) }, ..config() };
    let done = record(&config, 1000, |seq| match seq {
        // Fast on the way, but 6 ms late; slow on the way; just slow enough for the worst.
        100 => (6 * MS, 10 * US),
        200 => (US, 7 * MS),
        300 => (US, 5 * MS),
        400 => (2 * US, 4 * MS),
        _ => (US, 50 * US),
    });
    let kept: Vec<_> = done.outliers.iter().map(|one| (one.seq, one.rtt_ns, one.lateness_ns)).collect();
    // The last is the second of those that were late.
    assert_eq!(kept, [(100, 10 * US, 6 * MS), (200, 7 * MS, US), (300, 5 * MS, US), (400, 4 * MS, 2 * US)]);
    assert!(done.outliers.iter().all(|one| one.host.is_none() && one.parts_ns.is_empty()));
}

#[test]
fn a_throttled_spinner_leaves_a_comb_that_lateness_shows() {
    // 4 s of 10,000 a second, of which only each tenth is answered; held for 50 ms each second.
    let config = config();
    let samples = (0..40_000_u64).map(|seq| {
        let within = seq * 100 * US % (1000 * MS);
        let late = if (400 * MS..450 * MS).contains(&within) { 450 * MS - within } else { 100 };
        let one = message(&config, seq, late, 20 * US);
        if seq % 10 == 0 { one } else { flagged(SampleFlags::UNASKED, one) }
    });
    let done = run(&config, samples.collect());
    let pace = done.pace.as_ref().unwrap();
    let starts: Vec<u64> = pace.sender_stalls.iter().map(|&(at, _)| at / MS).collect();
    assert_eq!(starts, [400, 1400, 2400, 3400]);
    assert!(pace.sender_stalls.iter().all(|&(_, width)| stats::stalls::is_throttling_stall(width)));
    assert_eq!(done.stalls.len(), 1);
    assert_eq!((done.stalls[0].cause, done.stalls[0].count), (stats::stalls::Cause::RealTimeThrottling, 4));
}

#[test]
fn a_sender_that_never_catches_up_is_in_arrears() {
    // 100 µs were asked for and each message takes 125.
    let done = record(&config(), 8000, |seq| (seq * 25 * US, 50 * US));
    let pace = done.pace.as_ref().unwrap();
    assert!((pace.rate.achieved_pps - 8000.0).abs() < 10.0, "{}", pace.rate.achieved_pps);
    assert!(pace.arrears.for_ns >= 700 * MS && pace.arrears.to_ns > pace.arrears.from_ns + 100 * MS, "{pace:?}");
    assert_eq!(pace.rate.most_behind, 7999 * 25 / 100);
    // A stall that is caught up with leaves none.
    let done = record(&config(), 10_000, sender_stands_still);
    assert_eq!(done.pace.as_ref().unwrap().arrears, Arrears::default());
}

#[test]
fn what_was_never_sent_was_intended_all_the_same() {
    let mut paced = started(&config());
    paced.ingest(&[message(&config(), 0, 0, 50 * US)]);
    paced.sender(SenderCounts { unsent: 99, blocked: 7, ..SenderCounts::default() });
    let pace = paced.finish(None).pace.unwrap();
    assert_eq!((pace.rate.intended, pace.rate.most_behind, pace.sender.unsent, pace.sender.blocked), (100, 99, 99, 7));
}

#[test]
fn several_reflectors_are_told_apart() {
    let peer = |host: &str| PacedPeer { host: host.to_owned(), ..PacedPeer::default() };
    let config = PacedConfig { peers: vec![peer("near"), peer("far away,1")], ..config() };
    let samples: Vec<PacedSample> = (0..4000)
        .map(|at| {
            let mut one = message(&config, at / 2, US, if at % 2 == 0 { 50 * US } else { 90 * US });
            one.reflector = u16::try_from(at % 2).unwrap();
            // The far one loses the last four hundred.
            if at % 2 == 1 && at >= 3200 { flagged(SampleFlags::LOST, one) } else { one }
        })
        .collect();
    let done = run(&config, samples);
    let pace = done.pace.as_ref().unwrap();
    assert_eq!((done.messages.sent, done.messages.lost), (4000, 400));
    assert_eq!(pace.rate.intended, 2000, "each message went to both");
    let [near, far] = pace.reflectors.as_slice() else { panic!("{:?}", pace.reflectors) };
    assert_eq!((near.host.as_str(), near.messages.received, near.messages.lost), ("near", 2000, 0));
    assert_eq!((far.host.as_str(), far.messages.received, far.messages.lost), ("far away,1", 1600, 400));
    assert_eq!(near.latency.as_ref().unwrap().max_ns, Some(50 * US));
    assert_eq!(far.latency_intended.as_ref().unwrap().max_ns, Some(91 * US));
    assert_eq!(pace.one_way, None);
    assert_eq!((pace.rate.gaps, pace.rate.longest_gap), (Some(1), Some(400)), "all of them in one run");
    // Where each of them lost: 1600 messages at 10,000/s are 160 ms.
    let lost_by = |host: &str| -> Vec<Option<f64>> {
        let of = |one: &&model::result::Series| one.quantity.word() == "lost" && one.host == host;
        done.series.iter().find(of).unwrap().values.clone()
    };
    assert_eq!(lost_by("far away,1"), [Some(0.0), Some(400.0)]);
    assert_eq!(lost_by("near"), [Some(0.0); 2]);
    assert_eq!(lost_by("initiator"), lost_by("far away,1"));
    let mut tags: Vec<String> = lines(&done).into_iter().map(|(tag, ..)| tag).collect();
    tags.sort();
    tags.dedup();
    let expected: Vec<String> = ["lateness", "rtt", "rtt_intended"]
        .iter()
        .flat_map(|name| ["far_away_1", "near"].map(|host| format!("{name}@{host}")))
        .collect();
    assert_eq!(tags, expected);
    assert!(done.outliers.iter().any(|one| one.host.as_deref() == Some("far away,1")));
}

#[test]
fn runs_of_losses_are_counted() {
    let config = PacedConfig { every: 2, ..config() };
    // One in two is asked; 10 to 14 are lost in one run, 20 by itself.
    let samples = (0..100).map(|seq| {
        let one = message(&config, seq, 0, 50 * US);
        match seq {
            odd if odd % 2 == 1 => flagged(SampleFlags::UNASKED, one),
            10 | 12 | 14 | 20 => flagged(SampleFlags::LOST, one),
            _ => one,
        }
    });
    let done = run(&config, samples.collect());
    let rate = done.pace.unwrap().rate;
    assert_eq!((done.messages.lost, rate.gaps, rate.longest_gap), (4, Some(2), Some(3)));
}

#[test]
fn raw_samples_name_their_reflector_and_are_bounded() {
    let config = PacedConfig { raw_capacity: 3, peers: vec![PacedPeer::default(); 2], ..config() };
    let mut samples: Vec<PacedSample> = (0..5).map(|seq| message(&config, seq, 0, 10)).collect();
    samples[1].reflector = 1;
    samples[1].sample.flags = SampleFlags::LOST;
    let done = run(&config, samples);
    let raw: Vec<_> = done.raw.as_ref().unwrap().iter().map(|sample| (sample.seq, sample.flags.0)).collect();
    assert_eq!(raw, [(0, 0), (1, 0x1_0001), (2, 0)]);
    assert_eq!(done.raw_overrun, 2);
}

#[test]
fn a_random_delay_takes_nothing_of_the_rate() {
    for burst in [1, 10] {
        let config = PacedConfig { random_delay: true, burst, ..config() };
        let burst = u64::from(burst);
        // Each burst's delay is another part of its distance, the last one's nearly all of it.
        let samples = (0..200_u64).map(|seq| {
            let begun = seq / burst * burst;
            let delay = config.distance_ns() * (begun + burst) / 201;
            let intended = START + begun * config.period_ns + delay;
            let sample = Sample { seq, intended, sent: intended, received: intended + 50 * US, ..Sample::default() };
            PacedSample { sample, ..PacedSample::default() }
        });
        let rate = run(&config, samples.collect()).pace.unwrap().rate;
        assert!((rate.achieved_pps / rate.asked_pps - 1.0).abs() < 1e-6, "burst {burst}: {rate:?}");
    }
}
