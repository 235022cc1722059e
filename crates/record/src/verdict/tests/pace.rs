//! The rules of an open loop, both ways.

use super::*;
use crate::{Delivered, Paced, PacedConfig, PacedPeer, RateEvidence, RemoteEnd, SenderCounts};
use model::{PaceSpec, PacedSample, Pacer, ProbeOptions};

const US: u64 = 1000;

fn config() -> PacedConfig {
    PacedConfig::new(TickRate::NANOSECONDS, LatencyKind::Rtt, 10_000.0)
}

/// A message: lateness, time on the way, flags.
type Times = (u64, u64, SampleFlags);

/// Messages each 100 µs; the path held up each by so many percent of its lateness.
fn paced(config: PacedConfig, count: u64, held_percent: u64, times: impl Fn(u64) -> Times) -> Recorded {
    let several = u64::try_from(config.peers.len()).unwrap();
    let mut samples: Vec<PacedSample> = (0..count)
        .map(|at| {
            let seq = at / several;
            let (late, rtt, flags) = times(at);
            let intended = MS + seq * 100 * US;
            let sent = intended + late;
            let sample = Sample { seq, intended, sent, received: sent + rtt, flags, ..Sample::default() };
            let (reflector, held) = (u16::try_from(at % several).unwrap(), late * held_percent / 100);
            PacedSample { sample, reflector, held, ..PacedSample::default() }
        })
        .collect();
    samples.sort_by_key(|one| one.sample.received);
    let mut recorder = Paced::new(config);
    recorder.begin(MS);
    recorder.ingest(&samples);
    let blocked = if held_percent > 0 { 7 } else { 0 };
    recorder.sender(SenderCounts {
        blocked,
        run_queue_wait_ns: Some(90 * MS),
        involuntary_switches: 41,
        ..SenderCounts::default()
    });
    recorder.finish(None)
}

fn case(recorded: Recorded) -> Case {
    let mut case = Case::new();
    case.spec = ProbeSpec::new(Probe::Pace, Protocol::Udp);
    case.recorded = recorded;
    case
}

const NONE: SampleFlags = SampleFlags(0);

fn in_time(_: u64) -> Times {
    (3 * US, 40 * US, NONE)
}

/// One in so many is lost.
fn lost(every: u64) -> impl Fn(u64) -> Times {
    move |seq| if seq.is_multiple_of(every) { (3 * US, 1000 * MS, SampleFlags::LOST) } else { in_time(seq) }
}

#[test]
fn a_few_us_late_is_in_time() {
    case(paced(config(), 5000, 0, in_time)).clean();
}

#[test]
fn generator_late_from_a_whole_distance() {
    // One in fifty: 90 µs late is within its own place, 110 µs is in the next one's.
    let late = |ns: u64| move |seq: u64| if seq % 50 == 7 { (ns, 40 * US, NONE) } else { in_time(seq) };
    case(paced(config(), 5000, 0, late(90 * US))).clean();
    let told =
        "100 of 5000 messages left more than 100.0 µs late…at worst 110.0 µs; schedule: a message every 100.0 µs)…";
    assert_eq!(case(paced(config(), 5000, 0, late(110 * US))).only(FindingId::GeneratorLate, told), "initiator");
    // One in two hundred is an incident, told by lateness itself.
    let rare = |seq: u64| if seq % 200 == 7 { (110 * US, 40 * US, NONE) } else { in_time(seq) };
    case(paced(config(), 5000, 0, rare)).clean();
    // Of bursts of ten, the last is due when the first is.
    case(paced(PacedConfig { burst: 10, ..config() }, 5000, 0, late(110 * US))).clean();
    // However short the distance, a sender that wakes up some µs late is in time.
    let short = PacedConfig { period_ns: 2 * US, ..config() };
    case(paced(short, 5000, 0, |_| (9 * US, 40 * US, NONE))).clean();
}

#[test]
fn a_path_that_takes_no_more_is_not_the_senders_fault() {
    let held = |seq: u64| if seq % 20 == 7 { (2 * MS, 40 * US, NONE) } else { in_time(seq) };
    let held_up = case(paced(config(), 5000, 100, held));
    assert!(held_up.verdict().trusted && held_up.find(FindingId::GeneratorLate).is_none());
    assert!(held_up.find(FindingId::ScheduleHeldUp).is_some());
    // The path held them up too, but without it they would have been as late: a displaced sender's clump is refused.
    let displaced = case(paced(config(), 5000, 50, held));
    assert!(!displaced.verdict().trusted && displaced.find(FindingId::ScheduleHeldUp).is_none());
    // At worst 1.0 ms: its own part alone.
    let told = displaced.find(FindingId::GeneratorLate).unwrap().detail;
    assert!(reads(&told, "…at worst 1.0 ms…waited 90.0 ms for a CPU and was preempted 41 times…"), "{told}");
}

/// Who could not keep up, with what the initiator and one reflector counted.
fn judged(mut recorded: Recorded, initiator: &Counters, far: &Counters, over_rate: u64, busy: u64) -> Recorded {
    let usage = EndUsage { elapsed_ns: 100 * MS, process_system_ns: busy * MS, ..EndUsage::default() };
    let far = RemoteEnd { name: "reflector", received: 4900, over_rate, counters: far, usage: &usage };
    recorded.judge_rate(&RateEvidence { initiator, remotes: &[far], before: None });
    recorded
}

fn who(recorded: &Recorded) -> Option<(&str, &str)> {
    let saturated = recorded.pace.as_ref()?.rate.saturated.as_ref()?;
    Some((saturated.who.word(), saturated.why.as_str()))
}

fn none() -> Counters {
    Counters::default()
}

#[test]
fn a_sender_that_falls_behind_more_and_more_is_saturated() {
    // 25 % more time is taken than there is.
    let behind = |seq: u64| (seq * 25 * US, 40 * US, NONE);
    let done = judged(paced(config(), 8000, 0, behind), &none(), &none(), 0, 20);
    let (name, why) = who(&done).unwrap();
    assert_eq!(name, "initiator");
    assert!(why.contains("10000 messages a second were asked for and 8000 sent"), "{why}");
    let case_of_it = case(done);
    assert!(case_of_it.find(FindingId::RateNotReached).and(case_of_it.find(FindingId::GeneratorLate)).is_some());
    // The same, but the path held it up; and then a far end that is busy.
    let done = judged(paced(config(), 8000, 100, behind), &none(), &none(), 0, 20);
    assert_eq!(who(&done).unwrap().0, "path");
    let done = judged(paced(config(), 8000, 100, behind), &none(), &none(), 0, 95);
    assert_eq!(who(&done).unwrap().0, "reflector");
    // Late by the same all the time is late, but the rate is held.
    let done = judged(paced(config(), 8000, 0, |_| (150 * US, 40 * US, NONE)), &none(), &none(), 0, 20);
    assert_eq!(who(&done), None);
    // A stall at the very end is no trend.
    let stall = |seq: u64| if seq > 7500 { ((seq - 7500) * 100 * US, 40 * US, NONE) } else { in_time(seq) };
    assert_eq!(who(&judged(paced(config(), 8000, 0, stall), &none(), &none(), 0, 20)), None);
}

#[test]
fn losses_name_where_they_were() {
    let lossy = || paced(config(), 5000, 0, lost(50));
    let full = Counters { socket_overflow: 90, ..none() };
    for (initiator, far, over_rate, expected) in [
        (none(), full.clone(), 0, "reflector"),
        (none(), none(), 100, "reflector"),
        (full.clone(), none(), 0, "initiator"),
        (Counters { qdisc_drops: 100, ..none() }, none(), 0, "path"),
    ] {
        let done = judged(lossy(), &initiator, &far, over_rate, 20);
        let (name, why) = who(&done).unwrap();
        assert_eq!(name, expected, "{why}");
        assert!(why.starts_with("100 of 5000 answers are missing (2.0 %)"), "{why}");
    }
    // What nothing explains, or a counter explains less than a tenth of, is loss and no question of the rate.
    for far in [none(), Counters { socket_overflow: 5, ..none() }] {
        let done = judged(lossy(), &none(), &far, 0, 20);
        assert_eq!(who(&done), None);
        assert!(case(done).find(FindingId::Loss).is_some());
    }
    // Fewer than one in a hundred: a loss, but the rate is held.
    assert_eq!(who(&judged(paced(config(), 5000, 0, lost(125)), &none(), &full, 0, 20)), None);
    // The link is named where it is the narrow place.
    let config = PacedConfig { line_pps: Some(8000.0), ..config() };
    let done = judged(paced(config, 5000, 0, lost(50)), &none(), &none(), 0, 20);
    assert!(who(&done).unwrap().1.contains("the link carries 8000 full frames a second"));
    let case = case(done);
    let finding = case.find(FindingId::RateNotReached).unwrap();
    assert!(case.verdict().trusted && finding.end.is_none() && reads(&finding.detail, "the path could not keep up: …"));
}

#[test]
fn a_higher_rate_that_brings_no_more_answers_is_not_reached() {
    let judge = |every: u64, before: Delivered| {
        let mut done = paced(config(), 5000, 0, lost(every));
        let (counters, usage) = (none(), EndUsage::default());
        let far = RemoteEnd { name: "reflector", received: 4900, over_rate: 0, counters: &counters, usage: &usage };
        done.judge_rate(&RateEvidence { initiator: &counters, remotes: &[far], before: Some(before) });
        done
    };
    // 2 % are lost at half of the rate, and at the whole one.
    assert_eq!(who(&judge(50, Delivered { asked_pps: 5000.0, delivered_pps: 4900.0 })), None);
    // A third is lost now, and nothing was before.
    let done = judge(3, Delivered { asked_pps: 8000.0, delivered_pps: 8000.0 });
    let (name, why) = who(&done).unwrap();
    assert!(name == "path" && why.contains("came through, and 8000 when 8000 were asked for"), "{why}");
    // A higher rate before says nothing.
    assert_eq!(who(&judge(3, Delivered { asked_pps: 20_000.0, delivered_pps: 8000.0 })), None);
}

#[test]
fn lost_and_disordered_messages_are_counted_from_what_was_asked() {
    // Each tenth is asked for; of these each hundredth is lost.
    let times = |seq: u64| match seq {
        seq if seq.is_multiple_of(1000) => (3 * US, 1000 * MS, SampleFlags::LOST),
        seq if seq.is_multiple_of(10) => in_time(seq),
        _ => (3 * US, 0, SampleFlags::UNASKED),
    };
    case(paced(config(), 20_000, 0, times)).only(FindingId::Loss, "20 of 2000 messages lost (1.0000 %)…");
    let disorder = |seq: u64| if seq == 100 { (3 * US, 440 * US, SampleFlags::REORDERED) } else { in_time(seq) };
    let told = "…1 out of order (at most 3 messages behind)…";
    case(paced(config(), 5000, 0, disorder)).only(FindingId::Order, told);
    let peer = |host: &str| PacedPeer { host: host.to_owned(), ..PacedPeer::default() };
    let config = PacedConfig { peers: vec![peer("a"), peer("b")], ..config() };
    let one_lost = |at: u64| if at == 33 { (3 * US, 1000 * MS, SampleFlags::LOST) } else { in_time(at) };
    case(paced(config, 5000, 0, one_lost)).only(FindingId::Loss, "…not answered: 1 by b…");
}

#[test]
fn a_spinning_pacer_that_is_throttled_is_found_from_its_lateness() {
    // 3 s, held for 50 ms of each; of ten messages one is answered.
    let comb = |seq: u64| {
        let within = seq * 100 * US % (1000 * MS);
        let late = if (400 * MS..450 * MS).contains(&within) { 450 * MS - within } else { 100 };
        (late, 20 * US, if seq.is_multiple_of(10) { NONE } else { SampleFlags::UNASKED })
    };
    let mut case = case(paced(config(), 30_000, 0, comb));
    // Nobody spins in a real-time class: the pattern is told, its victim is not known.
    assert!(case.find(FindingId::PeriodicStalls).unwrap().detail.contains("RT throttling"));
    case.spec.options = ProbeOptions::Pace { pace: PaceSpec { pacer: Pacer::Spin, ..PaceSpec::default() } };
    case.ends[0].0.policy = Policy::Fifo(1);
    case.ends[1].0.policy = Policy::Fifo(1);
    case.ends[1].0.receive = Receive::Spin;
    let finding = case.find(FindingId::Throttled).unwrap();
    // The reflector spins too, but it was the sender that stood still.
    assert_eq!(finding.end.as_deref(), Some("initiator"));
    assert!(reads(&finding.detail, "3 stalls of about 50 ms…"), "{}", finding.detail);
    assert!(case.find(FindingId::GeneratorLate).is_some());
}

#[test]
fn a_sender_that_is_part_of_what_is_measured_is_only_told() {
    let late = |seq: u64| if seq % 50 == 7 { (900 * US, 40 * US, NONE) } else { in_time(seq) };
    let mut case = case(paced(config(), 5000, 0, late));
    case.spec.options = ProbeOptions::Pace { pace: PaceSpec { sender_measured: true, ..PaceSpec::default() } };
    assert!(case.verdict().trusted);
    case.only(FindingId::SenderLate, "…The sender itself delayed them…");
}

/// Catches: "use a real-time policy" for what only the owner of the hypervisor can change, and a hypervisor that is blamed for more
/// than it took.
#[test]
fn a_sender_whose_cpu_the_hypervisor_took_is_told_so() {
    // 100 of 5,000 messages, one each 200 µs: 20 ms of the schedule.
    let late = |seq: u64| if seq % 50 == 7 { (900 * US, 40 * US, NONE) } else { in_time(seq) };
    let mut case = case(paced(config(), 5000, 0, late));
    let mut told = |stolen, waited| {
        let sender = &mut case.recorded.pace.as_mut().unwrap().sender;
        (sender.stolen_ns, sender.run_queue_wait_ns) = (stolen, waited);
        case.find(FindingId::GeneratorLate).unwrap().detail
    };
    let detail = told(Some(150 * MS), Some(30 * MS));
    assert!(
        detail.contains("gave the sender's CPU to other guests for 150.0 ms: its thread waited 30.0 ms"),
        "{detail}"
    );
    assert!(detail.ends_with("give the guest CPUs of its own, or send less often (--rate)"), "{detail}");
    for (stolen, waited) in [(Some(150 * MS), Some(300 * MS)), (Some(9 * MS), None), (None, Some(MS))] {
        assert!(told(stolen, waited).contains("--policy fifo:1"), "{stolen:?} {waited:?}");
    }
    let all_late = |_: u64| (900 * US, 40 * US, NONE);
    let mut case = crate::verdict::tests::pace::case(paced(config(), 5000, 0, all_late));
    case.recorded.pace.as_mut().unwrap().sender.stolen_ns = Some(50 * MS);
    let detail = case.find(FindingId::GeneratorLate).unwrap().detail;
    assert!(detail.contains("The sender itself delayed them"), "50 ms of 1 s: {detail}");
}
