use super::*;
use model::{Policy, Probe};

const MS: u64 = 1_000_000;

fn counted(cpus: &[Option<u32>], wake_ups: &[&[[u64; 2]]], deadlines: u64) -> (record::Recorded, WakeReport) {
    let clock = Clock::monotonic();
    let config = RecorderConfig { has_header: false, ..RecorderConfig::new(clock.rate(), LatencyKind::WakeUp, 1000) };
    let mut counter = Counter::new(config, MS, cpus);
    counter.begin(wake_ups[0][0][0], deadlines);
    let mut rings: Vec<Ring<ENTRY_WORDS>> = wake_ups.iter().map(|_| Ring::new(64)).collect();
    let mut consumers = Vec::new();
    for (ring, entries) in rings.iter_mut().zip(wake_ups) {
        let (mut producer, consumer) = ring.ends();
        entries.iter().for_each(|entry| producer.push(*entry));
        consumers.push(consumer);
    }
    counter.collect(&mut consumers);
    counter.finish(&MapRecorder::new(clock).finish(), Some(50_000))
}

/// Catches: deadlines that were slept through left out, counted late by the wrong time, or counted beyond the last one.
#[test]
fn each_deadline_counts_with_how_late_it_was() {
    let begin = 100 * MS;
    let wake_ups = [[begin, begin + 5000], [begin + MS, begin + 4 * MS + 200], [begin + 5 * MS, begin + 8 * MS]];
    let (recorded, wake) = counted(&[None], &[&wake_ups], 7);
    assert_eq!(
        (wake.deadlines, wake.missed, wake.overslept, wake.timer_slack_ns),
        (Some(7), Some(4), Some(2), Some(50_000))
    );
    assert_eq!(recorded.slow.len(), 2, "deadlines that were slept through are part of one stall");
    let latency = &recorded.latency;
    assert_eq!((latency.count, latency.min_ns, latency.max_ns), (7, Some(200), Some(3 * MS + 200)));
    let late = [5000, 3 * MS + 200, 2 * MS + 200, MS + 200, 200, 3 * MS, 2 * MS];
    let mean = late.iter().sum::<u64>() as f64 / 7.0;
    assert!((latency.mean_ns.unwrap() - mean).abs() < 1e-6, "{latency:?}");
    assert_eq!(latency.kind, LatencyKind::WakeUp);
    assert_eq!((recorded.messages.sent, recorded.messages.lost, recorded.messages.duplicated), (7, 0, None));
    let worst: Vec<u64> = recorded.outliers.iter().map(|one| one.seq).collect();
    assert_eq!(worst, [0, 1, 2, 3, 4, 5, 6]);
    assert!(wake.threads.is_empty() && recorded.outliers.iter().all(|one| one.host.is_none()));
}

/// Catches: threads mixed up, and outliers without their thread.
#[test]
fn each_of_several_threads_has_its_own_figures() {
    let begin = 7 * MS;
    let one = [[begin, begin + 1000], [begin + MS, begin + MS + 3000]];
    let other = [[begin, begin + 2 * MS + 70_000]];
    let (recorded, wake) = counted(&[Some(0), Some(3)], &[&one, &other], 3);
    let of = |name: &str| wake.threads.iter().find(|thread| thread.name == name).unwrap();
    assert_eq!((of("CPU 0").latency.count, of("CPU 0").latency.max_ns, of("CPU 0").missed), (2, Some(3000), Some(0)));
    let slow = of("CPU 3");
    assert_eq!((slow.latency.count, slow.latency.max_ns, slow.missed), (3, Some(2 * MS + 70_000), Some(2)));
    assert_eq!((wake.deadlines, wake.missed, recorded.latency.count), (Some(5), Some(2), 5));
    let mut kept: Vec<_> = recorded.outliers.iter().map(|one| (one.host.as_deref(), one.seq)).collect();
    kept.sort_unstable();
    let expected = [("CPU 0", 0), ("CPU 0", 1), ("CPU 3", 0), ("CPU 3", 1), ("CPU 3", 2)];
    assert_eq!(kept, expected.map(|(name, seq)| (Some(name), seq)));
}

#[test]
fn what_makes_figures_untrustworthy_is_found() {
    let mut spec = ProbeSpec::new(Probe::Wake, None);
    spec.initiator.policy = "fifo:80".parse().unwrap();
    let slept = |policy: &str, migrations| SleeperReport {
        policy: Some(policy.parse::<Policy>().unwrap()),
        usage: Some(EndUsage { migrations, ..EndUsage::default() }),
        ..SleeperReport::default()
    };
    let ids = |wake: &WakeReport, sleepers: &[SleeperReport], cpus: &[Option<u32>]| -> Vec<FindingId> {
        findings(&spec, wake, sleepers, cpus).into_iter().map(|one| one.id).collect()
    };
    let wake = WakeReport { interval_ns: Some(MS), deadlines: Some(1000), ..WakeReport::default() };
    assert!(ids(&wake, &[slept("fifo:80", 0)], &[Some(1)]).is_empty());
    assert_eq!(ids(&wake, &[slept("other", 0)], &[Some(1)]), [FindingId::PathNotAsClaimed]);
    let two = [slept("fifo:80", 0), slept("fifo:80", 2)];
    assert_eq!(ids(&wake, &two, &[Some(0), Some(1)]), [FindingId::Migrated]);
    let some = WakeReport { missed: Some(990), overslept: Some(9), ..wake.clone() };
    assert_eq!(ids(&some, &[slept("fifo:80", 0)], &[None]), [FindingId::DeadlinesMissed]);
    let most = WakeReport { missed: Some(990), overslept: Some(10), ..wake };
    assert_eq!(ids(&most, &[slept("fifo:80", 0)], &[None]), [FindingId::IntervalTooShort]);
    assert!(FindingId::IntervalTooShort.is_invalid() && !FindingId::DeadlinesMissed.is_invalid());
    assert_eq!(overrun(0), None);
    assert!(overrun(3).unwrap().id.is_invalid());
}
