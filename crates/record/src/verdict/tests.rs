//! Each rule both ways: evidence that fires it, evidence just short of it.

mod pace;
mod schedules;
mod stacks;

use super::*;
use crate::{PathFacts, Recorded, Recorder, RecorderConfig};
use model::sample::SampleFlags;
use model::usage::Carried;
use model::{
    ClockSource, EndSpec, EndUsage, LatencyKind, LoadProfile, LoadReport, LoadSpec, Policy, Probe, ProbeOptions,
    ProbeSpec, Protocol, Role, Sample, TickRate,
};

const MS: u64 = 1_000_000;

/// Evidence of a run without any fault; each test changes one thing.
struct Case {
    spec: ProbeSpec,
    ends: [(EndSpec, EndUsage, Counters); 2],
    preloads: [Vec<Preload>; 2],
    carried: [Option<Vec<Carried>>; 2],
    clock: ClockMap,
    recorded: Recorded,
    is_local: bool,
    loopback_intended: bool,
    one_machine: bool,
    found: Vec<Finding>,
    interval_percent: Option<f64>,
    peer_vanished: Option<&'static str>,
    interrupted: bool,
    load: Option<LoadReport>,
}

fn reads(text: &str, pattern: &str) -> bool {
    match pattern.split_once('…') {
        None => text == pattern,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| reads(&text[at..], rest))
        }),
    }
}

fn point(tick: u64, raw_ns: u64) -> ClockPoint {
    ClockPoint { tick, raw_ns, monotonic_ns: raw_ns, realtime_ns: raw_ns, width_ns: 100 }
}

fn record(raw_capacity: usize, samples: &[Sample]) -> Recorded {
    let mut config = RecorderConfig::new(TickRate::NANOSECONDS, LatencyKind::RttHalf, 1000);
    config.raw_capacity = raw_capacity;
    let mut recorder = Recorder::new(config);
    recorder.ingest(samples);
    recorder.finish(None)
}

/// Messages of 10 µs every 20 µs.
fn quiet(count: u64) -> Vec<Sample> {
    (0..count)
        .map(|seq| {
            let sent = MS + seq * 20_000;
            Sample { seq, intended: sent, sent, received: sent + 10_000 + seq % 7, ..Sample::default() }
        })
        .collect()
}

impl Case {
    fn new() -> Self {
        let usage = || EndUsage { elapsed_ns: 1000 * MS, cpus: 2, cpu: Some(1), ..EndUsage::default() };
        let spec = || EndSpec { cpu: Some(1), ..EndSpec::default() };
        Self {
            spec: ProbeSpec::new(Probe::Pingpong, Protocol::Udp),
            ends: [(spec(), usage(), Counters::default()), (spec(), usage(), Counters::default())],
            preloads: [Vec::new(), Vec::new()],
            carried: [None, None],
            clock: ClockMap {
                source: ClockSource::Raw,
                rate: TickRate::NANOSECONDS,
                read_ns: 20.0,
                points: vec![point(0, 0), point(1000 * MS, 1000 * MS)],
                error_ppm: 1.0,
            },
            recorded: record(0, &quiet(2000)),
            is_local: false,
            loopback_intended: false,
            one_machine: false,
            found: Vec::new(),
            interval_percent: None,
            peer_vanished: None,
            interrupted: false,
            load: None,
        }
    }

    fn verdict(&self) -> Verdict {
        verdict(&self.evidence())
    }

    fn evidence(&self) -> Evidence<'_> {
        let end = |at: usize| {
            let (spec, usage, counters) = &self.ends[at];
            let (preloads, carried) = (&self.preloads[at], self.carried[at].as_deref());
            EndEvidence {
                role: Role::ALL[at],
                name: Role::ALL[at].word(),
                one_machine: self.one_machine,
                spec,
                usage,
                counters,
                preloads,
                carried,
            }
        };
        Evidence {
            program: crate::Program::Windhover,
            spec: &self.spec,
            initiator: end(0),
            reflectors: vec![end(1)],
            clock: Some(&self.clock),
            messages: &self.recorded.messages,
            recorded: Some(&self.recorded),
            path: PathFacts { is_local: self.is_local, loopback_intended: self.loopback_intended, peer: "198.18.0.2" },
            found: &self.found,
            interval_percent: self.interval_percent,
            peer_vanished: self.peer_vanished,
            interrupted: self.interrupted,
            load: self.load.as_ref(),
        }
    }

    /// There is one finding, of this kind, with this detail, in which `…` stands for any text. Returns
    /// the end that it is of, or nothing.
    #[track_caller]
    fn only(&self, id: FindingId, detail: &str) -> String {
        let verdict = self.verdict();
        // The cause of stalls stands beside what they hide.
        let has_cause = matches!(id, FindingId::Throttled | FindingId::PeriodicStalls);
        let all: Vec<&Finding> = verdict.iter().filter(|one| !has_cause || one.id != FindingId::LongStalls).collect();
        assert!(all.len() == 1 && all[0].id == id && reads(&all[0].detail, detail), "{all:?}");
        assert_eq!(verdict.trusted, !id.is_invalid());
        assert!(!all[0].detail.contains('\n'));
        all[0].end.clone().unwrap_or_default()
    }

    /// The first finding of this kind.
    fn find(&self, id: FindingId) -> Option<Finding> {
        self.verdict().iter().find(|finding| finding.id == id).cloned()
    }

    #[track_caller]
    fn clean(&self) {
        let verdict = self.verdict();
        assert_eq!(verdict, Verdict::default());
    }
}

#[test]
fn a_quiet_run_is_clean() {
    Case::new().clean();
}

#[test]
fn clock_rate() {
    let mut case = Case::new();
    case.clock.error_ppm = 500.0;
    case.clean();
    case.clock.error_ppm = 501.0;
    case.only(FindingId::ClockUnfit, "…501 ppm…");
    case.clock.error_ppm = f64::NAN;
    case.only(FindingId::ClockUnfit, "…");
}

#[test]
fn clock_jump() {
    let mut case = Case::new();
    case.clock.points = vec![point(0, 0), point(500 * MS, 500 * MS + 200_000), point(1000 * MS, 1000 * MS)];
    case.clean();
    case.clock.points[1].raw_ns = 510 * MS;
    case.only(FindingId::ClockUnfit, "…disagree by 10.000 ms…");
    case.clock.points[1] = point(2000 * MS, 2000 * MS);
    case.only(FindingId::ClockUnfit, "…backwards…");
    // Points close together: half a microsecond between them says nothing.
    case.clock.points = vec![point(0, 0), point(1000, 1500)];
    case.clean();
}

#[test]
fn migration_only_matters_when_pinned() {
    let mut case = Case::new();
    case.ends[1].1.migrations = 2;
    assert_eq!(case.only(FindingId::Migrated, "…2 times…"), "reflector");
    case.ends[1].0.cpu = None;
    case.clean();
    case.ends[0].1.cpu = Some(0);
    case.only(FindingId::Migrated, "…ended on CPU 0, not on CPU 1…");
}

#[test]
fn one_fault_is_too_many() {
    for (minor, major) in [(1, 0), (0, 1)] {
        let mut case = Case::new();
        case.ends[0].1.minor_faults = minor;
        case.ends[0].1.major_faults = major;
        case.only(FindingId::Faults, &format!("…{minor} minor and {major} major…"));
    }
}

#[test]
fn raw_samples_without_room() {
    let mut case = Case::new();
    case.recorded = record(2000, &quiet(2000));
    case.clean();
    case.recorded = record(1999, &quiet(2000));
    case.only(FindingId::SamplesOverrun, "1 raw samples…");
}

#[test]
fn a_local_path_is_only_wrong_when_a_network_was_claimed() {
    let mut case = Case::new();
    case.is_local = true;
    case.only(FindingId::PathIsLocal, "…198.18.0.2…");
    case.loopback_intended = true;
    case.clean();
    case.loopback_intended = false;
    case.spec.socket.as_mut().unwrap().protocol = Protocol::Pipe;
    case.clean();
}

#[test]
fn peer_vanished_is_invalid() {
    let mut case = Case::new();
    case.peer_vanished = Some("the control connection was closed");
    case.only(FindingId::PeerVanished, "…after 2000 messages (the control connection was closed)…");
}

#[test]
fn loss_says_where() {
    let mut case = Case::new();
    let mut samples = quiet(2000);
    samples[700].flags = SampleFlags::LOST;
    samples.push(Sample { flags: SampleFlags::LATE, ..samples[700] });
    case.recorded = record(0, &samples);
    let lost = "…1 of 2000 messages lost (0.0500 %), 1 of them answered after the time-out of 1000 ms…";
    case.only(FindingId::Loss, &format!("{lost}no counter…"));
    case.ends[1].2.socket_overflow = 1;
    case.ends[0].2.qdisc_drops = 4;
    let dropped = "…initiator: 4 dropped by a queueing discipline; reflector: 1 dropped at the socket…";
    case.only(FindingId::Loss, &format!("{dropped}rmem_max…"));
    // Counters without loss are no finding.
    case.recorded = record(0, &quiet(2000));
    case.clean();
}

#[test]
fn a_closed_loop_that_mostly_timed_out_is_not_trusted() {
    // Of 2000 messages of 10 µs each, in 20 ms, so many time out after 2 ms.
    let with_time_outs = |count: usize| {
        let mut samples = quiet(2000);
        for lost in 0..count {
            let at = lost * 20;
            samples[at].flags = SampleFlags::LOST;
            samples[at].received = samples[at].sent + 2 * MS;
            // A closed loop sends nothing meanwhile.
            for later in &mut samples[at + 1..] {
                (later.sent, later.received) = (later.sent + 2 * MS, later.received + 2 * MS);
            }
        }
        samples
    };
    let mut case = Case::new();
    // 30 of 70 ms, and 50 of 90 ms.
    case.recorded = record(0, &with_time_outs(15));
    assert!(case.verdict().trusted, "{:?}", case.verdict());
    case.recorded = record(0, &with_time_outs(25));
    let verdict = case.verdict();
    assert!(!verdict.trusted && verdict.invalid.len() == 1, "{verdict:?}");
    assert_eq!(verdict.invalid[0].id.word(), "timed-out");
    let told = "56 % of the time (50.0 of 90.0 ms) was spent in time-outs: 25 messages had no answer…";
    assert!(reads(&verdict.invalid[0].detail, told) && case.find(FindingId::Loss).is_some(), "{verdict:?}");
    // Without numbers in the messages the path has to be silent for as long again.
    let bare = |samples: &[Sample], has_header, has_schedule| {
        let config = RecorderConfig::new(TickRate::NANOSECONDS, LatencyKind::RttHalf, 1000);
        let mut recorder = Recorder::new(RecorderConfig { has_header, has_schedule, ..config });
        recorder.ingest(samples);
        recorder.finish(None)
    };
    case.recorded = bare(&with_time_outs(15), false, false);
    assert!(!case.verdict().trusted, "30 ms of time-outs and as much of silence");
    // A schedule goes on while an answer is waited for.
    case.recorded = bare(&with_time_outs(25), true, true);
    assert!(case.verdict().trusted, "{:?}", case.verdict());
}

#[test]
fn order_and_duplicates() {
    let mut case = Case::new();
    let mut samples = quiet(2000);
    samples[5].flags = SampleFlags::REORDERED;
    samples.push(Sample { flags: SampleFlags::DUPLICATE, ..samples[9] });
    case.recorded = record(0, &samples);
    case.only(FindingId::Order, "1 answers came twice, 1 out of order…");
}

/// A quiet run of 3 s with stalls of a width at each of the times.
fn with_stalls(at_ms: &[u64], width_us: u64) -> Recorded {
    let mut samples = quiet(150_000);
    for at in at_ms {
        let hit = usize::try_from(at * 50).unwrap();
        samples[hit].received = samples[hit].sent + width_us * 1000;
        // A closed loop sends nothing meanwhile.
        let busy = usize::try_from(width_us / 20).unwrap();
        for sample in &mut samples[hit + 1..hit + 1 + busy] {
            sample.flags = SampleFlags::WARMUP;
        }
    }
    record(0, &samples)
}

#[test]
fn a_stall_while_spinning_in_a_real_time_class_is_throttling() {
    let mut case = Case::new();
    case.recorded = with_stalls(&[455], 50_140);
    case.only(FindingId::LongStalls, "…");
    case.ends[0].0.policy = Policy::Fifo(1);
    case.only(FindingId::LongStalls, "…");
    case.ends[0].0.receive = Receive::Spin;
    assert_eq!(case.only(FindingId::Throttled, "1 stalls of about 50 ms (the longest 50.1 ms)…"), "initiator");
    case.recorded = with_stalls(&[455], 30_000);
    case.clean();
}

#[test]
fn busy_without_spinning_is_as_good() {
    let mut case = Case::new();
    case.recorded = with_stalls(&[455, 1447, 2437], 50_140);
    case.ends[1].0.policy = Policy::Rr(5);
    case.ends[1].1.process_system_ns = 950 * MS;
    assert_eq!(case.only(FindingId::Throttled, "…reflector (rr:5)…"), "reflector");
    // A thread that sleeps is not held by either; the pattern is still told.
    case.ends[1].1.process_system_ns = 0;
    case.only(FindingId::PeriodicStalls, "…RT throttling…");
}

#[test]
fn periodic_stalls_are_described() {
    let mut case = Case::new();
    let every: Vec<u64> = (1..29).map(|at| at * 100).collect();
    case.recorded = with_stalls(&every, 2_000);
    case.only(FindingId::PeriodicStalls, "28 stalls every 100.0 ms, about 2000 µs each, cause unknown");
    // Three stalls prove nothing.
    case.recorded = with_stalls(&[100, 200, 300], 2_000);
    case.clean();
}

#[test]
fn the_other_end_on_the_same_cpu_is_no_other_task() {
    let mut case = Case::new();
    // Each end ran half of the time, and for the other that is somebody else.
    for end in &mut case.ends {
        end.1.process_system_ns = 480 * MS;
        end.1.other_tasks_ns = Some(485 * MS);
    }
    let other_tasks = |case: &Case| case.verdict().iter().filter(|found| found.id == FindingId::OtherTasks).count();
    assert_eq!(other_tasks(&case), 2, "CPU 1 of one machine is not CPU 1 of another");
    case.one_machine = true;
    assert_eq!(other_tasks(&case), 0);
    case.ends[0].1.other_tasks_ns = Some(600 * MS);
    assert_eq!(other_tasks(&case), 1, "what is beyond the other end's time is others'");
    case.ends[1].0.cpu = Some(0);
    assert_eq!(other_tasks(&case), 2);
}

#[test]
fn ends_that_take_turns_on_one_cpu_never_leave_it() {
    let mut case = Case::new();
    case.one_machine = true;
    let mut samples = quiet(2000);
    samples[900].received += 51 * MS;
    case.recorded = record(0, &samples);
    for end in &mut case.ends {
        end.0.policy = Policy::Fifo(1);
        end.1.process_system_ns = 470 * MS;
    }
    let told = case.find(FindingId::Throttled).unwrap().detail;
    assert!(reads(&told, "…never left their CPU idle…sched_rt_runtime_us = -1…"), "{told}");
    case.ends[1].1.process_system_ns = 300 * MS;
    assert_eq!(case.find(FindingId::Throttled), None, "77 % leave it idle");
    case.ends[1].1.process_system_ns = 470 * MS;
    case.one_machine = false;
    assert_eq!(case.find(FindingId::Throttled), None);
}

#[test]
fn other_tasks_need_time_and_share() {
    let mut case = Case::new();
    case.ends[0].1.other_tasks_ns = Some(10 * MS);
    case.clean();
    case.ends[0].1.other_tasks_ns = Some(11 * MS);
    case.only(FindingId::OtherTasks, "…11.0 ms (1.1 % of the time)…");
    case.ends[0].1.elapsed_ns = 20 * MS;
    case.ends[0].1.other_tasks_ns = Some(900_000);
    case.clean();
}

#[test]
fn steal_of_the_cpu_or_the_machine() {
    let mut case = Case::new();
    case.ends[0].1.machine_steal_ns = 500 * MS;
    case.ends[0].1.cpu_steal_ns = Some(0);
    case.clean();
    // One tick is as likely rounding as a fact.
    case.ends[0].1.cpu_steal_ns = Some(10 * MS);
    case.clean();
    case.ends[0].1.cpu_steal_ns = Some(20 * MS);
    case.only(FindingId::Steal, "…gave the measuring CPU to other guests for 20.0 ms (2.0 %…");
    case.ends[0].1.cpu_steal_ns = None;
    case.only(FindingId::Steal, "…gave the machine's CPUs to other guests for 500.0 ms (25.0 %…");
    // Two ends of one machine lost the same time.
    case.ends[1].1.machine_steal_ns = 500 * MS;
    let of = |case: &Case| case.verdict().disturbed.iter().filter(|one| one.id == FindingId::Steal).count();
    assert_eq!(of(&case), 2);
    case.one_machine = true;
    assert_eq!(of(&case), 1);
    // One end shows it, whichever that is.
    case.ends[0].1.machine_steal_ns = 0;
    assert_eq!(of(&case), 1);
    // A CPU of its own is another figure.
    case.ends[0].1.machine_steal_ns = 500 * MS;
    case.ends[1].1.cpu_steal_ns = Some(300 * MS);
    assert_eq!(of(&case), 2);
}

/// Messages of 10 µs of which one in 500 takes 2 ms, by chance: a machine with other work on it.
fn beside_other_work() -> Vec<Sample> {
    let mut random = stats::SplitMix64::new(7);
    let mut samples = quiet(100_000);
    samples.iter_mut().filter(|_| random.next_u64().is_multiple_of(500)).for_each(|sample| sample.received += 2 * MS);
    samples
}

#[test]
fn what_cannot_have_moved_a_printed_figure_is_noted_and_marks_nothing() {
    let steal = |recorded: Recorded, of: &dyn Fn(&mut Case)| {
        let mut case = Case { recorded, ..Case::new() };
        case.ends[0].1.cpu_steal_ns = Some(20 * MS);
        of(&mut case);
        let verdict = case.verdict();
        let noted: Vec<String> = verdict.noted.iter().map(|finding| finding.detail.clone()).collect();
        let marks = verdict.iter().any(|finding| finding.id == FindingId::Steal);
        assert_eq!(noted.len(), usize::from(!marks), "once, in one of both lists: {verdict:?}");
        assert!(noted.iter().all(|detail| reads(detail, "…gave the measuring CPU to other guests for 20.0 ms…")));
        marks
    };
    // 20 of 400 ms: 0.2 µs a message where the mean is known to 0.5 µs, or 10 of the 200 slow messages.
    assert!(!steal(record(0, &beside_other_work()), &|_| ()));
    assert!(steal(record(0, &quiet(100_000)), &|_| ()), "0.2 µs a message where all are alike");
    // The worst message is ten times as slow as the next: it may be the stolen time.
    let mut samples = beside_other_work();
    samples[5000].received += 20 * MS;
    assert!(steal(record(0, &samples), &|_| ()));
    // Deadlines that pass meanwhile are late, too.
    assert!(steal(record(0, &beside_other_work()), &|case| {
        case.spec.options = ProbeOptions::new(Probe::Wake);
        case.spec.interval_us = Some(1000);
    }));
    // Other tasks are no other case.
    let mut case = Case { recorded: record(0, &beside_other_work()), ..Case::new() };
    case.ends[1].1.other_tasks_ns = Some(20 * MS);
    assert_eq!(case.find(FindingId::OtherTasks), None);
    assert_eq!(case.verdict().noted[0].end.as_deref(), Some("reflector"));
    case.ends[1].1.other_tasks_ns = Some(100 * MS);
    assert!(case.find(FindingId::OtherTasks).is_some() && case.verdict().noted.is_empty());
}

#[test]
fn a_stream_loses_as_much_as_was_taken() {
    let mut case = Case::new();
    let verdict_of = |case: &Case| verdict(&Evidence { recorded: None, ..case.evidence() });
    case.ends[0].1.cpu_steal_ns = Some(11 * MS);
    assert!(verdict_of(&case).iter().any(|finding| finding.id == FindingId::Steal));
    case.ends[0].1.elapsed_ns = 2000 * MS;
    assert!(verdict_of(&case).iter().next().is_none() && verdict_of(&case).noted.len() == 1);
}

#[test]
fn page_faults_count_where_they_can_be_seen() {
    let mut case = Case { recorded: record(0, &beside_other_work()), ..Case::new() };
    let lock = Finding::at(FindingId::MemoryNotLocked, "initiator", "memory cannot be locked");
    case.found = vec![lock.clone()];
    // A user without rights: nothing is locked, and nothing was harmed.
    assert!(case.verdict().trusted && case.verdict().noted == [lock.clone()]);
    case.ends[0].1.minor_faults = 3;
    let verdict = case.verdict();
    let noted: Vec<FindingId> = verdict.noted.iter().map(|finding| finding.id).collect();
    assert!(verdict.trusted && noted == [FindingId::Faults, FindingId::MemoryNotLocked], "{verdict:?}");
    // As many as a tenth of the slow messages wait for the disk once.
    case.ends[0].1.major_faults = 1;
    let verdict = case.verdict();
    assert!(!verdict.trusted && verdict.disturbed.contains(&lock) && verdict.noted.is_empty(), "{verdict:?}");
    // Where all messages are alike, three are too many.
    case.recorded = record(0, &quiet(100_000));
    case.ends[0].1.major_faults = 0;
    assert!(!case.verdict().trusted);
}

#[test]
fn uneven_and_unsteady_loads() {
    let mut case = Case::new();
    let report = LoadReport {
        spec: LoadSpec::new(LoadProfile::Build),
        work: 10,
        busy_percent: 90.0,
        work_cv: Some(0.5),
        steady_after_ns: 10_000 * MS,
        steady: true,
        elapsed_ns: 1000 * MS,
    };
    case.load = Some(report.clone());
    case.clean();
    case.load = Some(LoadReport { work_cv: Some(0.51), ..report.clone() });
    case.only(FindingId::LoadUneven, "…the load build was uneven…");
    case.load = Some(LoadReport { steady: false, ..report });
    case.only(FindingId::LoadUneven, "…not steady after 10.0 s…");
}

#[test]
fn the_interval_asked_for() {
    let mut case = Case::new();
    case.spec.stop.interval_percent = Some(5.0);
    case.clean();
    case.spec.stop.interval_percent = Some(1e-9);
    // All medians of batches are alike here, so only a figure from elsewhere can be too wide.
    case.interval_percent = Some(7.25);
    case.only(FindingId::IntervalNotReached, "…is 7.2 % wide where 0.000000001 % was asked for…");
    // The column of rr has half of the width, so both are named.
    case.spec.options = ProbeOptions::new(Probe::Rr);
    case.only(FindingId::IntervalNotReached, "…of the rate is ±3.6 % (7.2 % wide)…");
    let mut case = Case::new();
    case.spec.stop.interval_percent = Some(5.0);
    case.recorded = record(0, &quiet(100));
    case.recorded.latency.p99_ns = Some(1);
    case.only(FindingId::IntervalNotReached, "…cannot be known…");
}

/// A mark that stood beside nearly every line said nothing of the figures that were printed.
#[test]
fn figures_that_are_missing_are_absent_and_no_finding() {
    let mut case = Case::new();
    for count in [999, 0] {
        case.recorded = record(0, &quiet(count));
        assert_eq!(case.recorded.latency.p99_ns, None);
        case.clean();
    }
    // Two states of 500 messages each: the median has no interval, and is a figure all the same.
    let mut samples = quiet(2000);
    samples.iter_mut().filter(|sample| sample.seq / 500 % 2 == 1).for_each(|sample| sample.received += 3_000);
    case.recorded = record(0, &samples);
    let latency = &case.recorded.latency;
    assert!(latency.p50_ns.is_some() && latency.p99_ns.is_some() && latency.p50_ci95_ns.is_none(), "{latency:?}");
    case.clean();
}

#[test]
fn what_others_found_is_passed_on() {
    let mut case = Case::new();
    case.found = vec![Finding::at(FindingId::NotPermitted, "reflector", "2000 messages a second are allowed")];
    assert_eq!(case.only(FindingId::NotPermitted, "…"), "reflector");
    case.found.push(Finding::new(FindingId::PathNotAsClaimed, "no stack was loaded"));
    assert!(!case.verdict().trusted);
}

#[test]
fn echo_has_no_reflector() {
    let case = Case::new();
    let evidence = Evidence { reflectors: Vec::new(), clock: None, path: PathFacts::default(), ..case.evidence() };
    assert!(verdict(&evidence).trusted);
}

#[test]
fn an_interrupted_run_says_so_and_keeps_its_figures() {
    let case = Case { interrupted: true, ..Case::new() };
    case.only(FindingId::Interrupted, "…2000 messages…");
    // A stream counts no messages, and threads that wake up meet deadlines.
    for (probe, words) in [(Probe::Stream, "the run was interrupted: "), (Probe::Wake, "after 2000 deadlines: ")] {
        let spec = ProbeSpec { options: ProbeOptions::new(probe), ..case.spec.clone() };
        let said = super::interrupted(&Evidence { spec: &spec, ..case.evidence() }).unwrap();
        assert!(said.contains(words) && !said.contains("messages"), "{said}");
    }
}
