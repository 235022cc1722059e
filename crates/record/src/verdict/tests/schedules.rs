//! Schedules that are not kept, and what a closed loop hides.

use super::*;

/// Messages each ms: when each leaves after its intended time, and how long its answer takes, in µs.
fn scheduled(count: u64, of: impl Fn(u64) -> (u64, u64)) -> Recorded {
    let mut config = RecorderConfig::new(TickRate::NANOSECONDS, LatencyKind::Rtt, 1000);
    config.has_schedule = true;
    let mut recorder = Recorder::new(config);
    let samples: Vec<Sample> = (0..count)
        .map(|seq| {
            let (late_us, rtt_us) = of(seq);
            let intended = (seq + 1) * MS;
            let sent = intended + late_us * 1000;
            Sample { seq, intended, sent, received: sent + rtt_us * 1000, ..Sample::default() }
        })
        .collect();
    recorder.ingest(&samples);
    recorder.finish(None)
}

#[test]
fn generator_late_from_half_an_interval() {
    let mut case = Case::new();
    case.spec.interval_us = Some(1000);
    // A sender that always wakes up as late as an answer takes is in time on this schedule.
    case.recorded = scheduled(2000, |_| (60, 60));
    case.clean();
    case.recorded = scheduled(2000, |seq| if seq % 100 == 7 { (510, 30) } else { (60, 30) });
    case.clean();
    case.recorded = scheduled(2000, |seq| if seq % 99 == 7 { (510, 30) } else { (60, 30) });
    assert_eq!(case.only(FindingId::GeneratorLate, "…21 of 2000 messages…at worst 0.5 ms…"), "initiator");
    case.recorded = scheduled(2000, |_| (490, 30));
    case.clean();
    // The same times on a schedule of twice the interval are no fault.
    case.recorded = scheduled(2000, |_| (510, 30));
    assert!(!case.verdict().trusted);
    case.spec.interval_us = Some(2000);
    case.clean();
    // Without a schedule nothing can be late.
    case.spec.interval_us = None;
    case.recorded = record(0, &quiet(2000));
    case.clean();
}

#[test]
fn a_slow_answer_holds_the_schedule_up_and_is_not_the_senders_fault() {
    let mut case = Case::new();
    case.spec.interval_us = Some(1000);
    // One answer takes 40 ms; the messages due meanwhile leave one after the other until the schedule is caught up.
    let held_up = |seq: u64| match seq {
        100 => (0, 40_000),
        101..=140 => (40_000 - (seq - 100) * 1000 + (seq - 101) * 30, 30),
        _ => (0, 30),
    };
    case.recorded = scheduled(2000, held_up);
    let told = "…of 2000 messages left more than the interval of 1.0 ms late…at worst 39.0 ms…";
    case.only(FindingId::ScheduleHeldUp, told);
    assert!(case.verdict().trusted);
    // Fewer than one in a hundred are an incident, told by the latency itself.
    case.recorded = scheduled(20_000, held_up);
    case.clean();
}

/// A far end that stands still for 200 ms of each second, seen by a closed loop of 10 µs for 2 s.
fn stands_still() -> Recorded {
    let (mut at, mut samples) = (0, Vec::new());
    while at < 2000 * MS {
        let stands = (at / MS) % 1000 >= 800;
        let rtt = if stands { (at / MS / 1000 + 1) * 1000 * MS - at } else { 10_000 };
        let seq = samples.len() as u64;
        samples.push(Sample { seq, intended: MS + at, sent: MS + at, received: MS + at + rtt, ..Sample::default() });
        at += rtt + 1_000;
    }
    record(0, &samples)
}

#[test]
fn a_closed_loop_says_what_its_percentiles_hide() {
    let mut case = Case { recorded: stands_still(), ..Case::new() };
    assert!(case.recorded.latency.p99_9_ns.unwrap() < 6_000, "two messages of 160,000 tell of it");
    assert!(case.verdict().trusted);
    let told = case.find(FindingId::LongStalls).unwrap().detail;
    assert!(reads(&told, "2 of …(20.0 % of the time)…"), "{told}");
    let open = crate::corrected(&case.spec, &case.recorded).unwrap();
    // A fifth of the time stood still, so a message in ten waited for half of a stall (of RTT/2, as asked for).
    let within = |ns: Option<u64>, ms: u64| ns.unwrap().abs_diff(ms * MS) < ms * MS / 20;
    assert!(within(open.p90_ns, 54) && within(open.p99_ns, 95), "{open:?}");
    // A histogram knows the median to a thousandth.
    assert!(open.interval_ns.abs_diff(10_000) <= 10 && open.kind == LatencyKind::RttHalf, "{open:?}");
    // A gap between rounds is part of the interval.
    case.spec.gap.sleep_us = 90;
    assert_eq!(crate::corrected(&case.spec, &case.recorded).unwrap().interval_ns, open.interval_ns + 90_000);
    // A stall of half a per cent is an outlier.
    let mut samples = quiet(50_000);
    samples[700].received += 4 * MS;
    case.recorded = record(0, &samples);
    assert_eq!(case.find(FindingId::LongStalls), None);
}
