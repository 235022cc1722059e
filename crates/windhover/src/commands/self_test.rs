//! `windhover explain --self-test`: whether the explanation names what really made messages late on this host.

use super::child::Worker;
use super::{key, signals};
use crate::cli::explain::Explain;
use crate::output::{Failure, Output, paragraph, width};
use anyhow::anyhow;
use load::{Disturbance, Disturbed, Disturber};
use model::result::Outlier;
use model::worker::{EndpointTask, ProbeTask, Target};
use model::{
    Cause, CauseClass, EndSpec, ExplainOver, Limits, LoadProfile, LoadSpec, Policy, Probe, ProbeSpec, Protocol, Role,
    SizeList, WorkerEvent, WorkerSpec,
};
use report::Columns;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A worker that gives no event for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// The least and the longest time of one measurement, and how much of it one late message takes.
const SHORTEST_MS: u32 = 500;
const LONGEST_MS: u32 = 2_000;
const EACH_MS: u32 = 15;
/// A row that has too few late messages goes on so long, and so much longer for each that is wanted.
const LIMIT: Duration = Duration::from_secs(20);
const LIMIT_EACH: Duration = Duration::from_millis(200);
/// A second disturbance, at the other end, begins so much later, shortly before the first one is over: a message that the first one
/// keeps from being sent meets both, and one that it keeps from being received meets the second for a moment only.
const SECOND_NS: u64 = 250_000;
/// A message was disturbed if the disturbance covers more than this share of what it lost; of several each the same part.
const OVERLAP: f64 = 0.5;
/// From this share on an explanation can be trusted.
const TRUSTED: f64 = 0.97;
/// With fewer messages a single wrong one is a lower share.
const ENOUGH: usize = 34;

/// What is injected, and what it has to be called where it is not the injecting thread that takes the CPU.
struct Injected {
    /// Absent: the end's process is stopped by a signal.
    what: Option<Disturbance>,
    other: Option<(CauseClass, Option<&'static str>)>,
}

/// A disturbance. The first part is at the end of the row, a second one at the other.
struct Kind {
    title: &'static str,
    parts: &'static [Injected],
}

const fn injected(what: Disturbance, class: CauseClass, name: &'static str) -> Injected {
    Injected { what: Some(what), other: Some((class, Some(name))) }
}

const HOG: Injected = Injected { what: Some(Disturbance::Hog(300)), other: None };
const SHORT_HOG: Injected = Injected { what: Some(Disturbance::Hog(120)), other: None };
const TIMERS: Injected = injected(Disturbance::Timers, CauseClass::Hardirq, "local_timer");
const PACKETS: Injected = injected(Disturbance::Packets, CauseClass::Softirq, "NET_RX");
const STOP: Injected = Injected { what: None, other: Some((CauseClass::Stopped, None)) };

const KINDS: [Kind; 6] = [
    Kind { title: "real-time thread, 300 µs", parts: &[HOG] },
    Kind { title: "real-time thread, 120 µs", parts: &[SHORT_HOG] },
    Kind { title: "timers at once, 300 µs", parts: &[TIMERS] },
    Kind { title: "packet for 300 sockets", parts: &[PACKETS] },
    Kind { title: "SIGSTOP for 400 µs", parts: &[STOP] },
    Kind { title: "thread, and packet at the other end", parts: &[HOG, PACKETS] },
];

struct Row {
    kind: &'static Kind,
    end: Role,
    load: bool,
    late: usize,
    right: usize,
    /// What the others were called, and how often.
    instead: BTreeMap<String, usize>,
}

/// Both ends, for the length of the test.
struct Bench {
    endpoint: Worker,
    target: Target,
    cpus: [u32; 2],
    policy: Policy,
    late: u32,
}

pub(crate) fn run(arguments: &Explain, output: &Output) -> Result<u8, Failure> {
    let allowed: Vec<u32> = task::allowed_cpus()?.iter().collect();
    let [near, far, ..] = allowed[..] else {
        refuse!("the self-test needs two CPUs: this process may use {}", allowed.len())
    };
    let stop = signals::stop_flag()?;
    let mut bench = Bench::start([near, far], arguments)?;
    let is_wanted = |row: &Row| arguments.only.as_ref().is_none_or(|only| row.to_string().contains(only.as_str()));
    let mut rows = Vec::new();
    for load in [false, true] {
        let new = |kind, end| Row { kind, end, load, late: 0, right: 0, instead: BTreeMap::new() };
        let pairs = KINDS.iter().flat_map(|kind| [Role::Initiator, Role::Reflector].map(|end| new(kind, end)));
        // A message that the first of two keeps from being sent meets the second at the other end only by chance.
        let meets_all = |row: &Row| row.kind.parts.len() == 1 || row.end == Role::Reflector;
        let wanted: Vec<Row> = pairs.filter(meets_all).filter(is_wanted).collect();
        let _build = (load && !wanted.is_empty()).then(build_load).transpose()?;
        for mut row in wanted {
            let limit = LIMIT + LIMIT_EACH * arguments.late;
            let begin = Instant::now();
            while row.late < arguments.late as usize && begin.elapsed() < limit {
                if stop.load(Ordering::Relaxed) {
                    return Ok(130);
                }
                bench.measure(&mut row)?;
            }
            let few = if row.late < arguments.late as usize {
                format!("; no more in {} s", limit.as_secs())
            } else {
                String::new()
            };
            output.note(format_args!("{row}: {} of {} right{few}", row.right, row.late));
            rows.push(row);
        }
    }
    if rows.is_empty() {
        refuse!("--only {}: no row of the self-test contains this text", arguments.only.as_deref().unwrap_or_default());
    }
    let (is_trusted, sentence) = verdict(&rows);
    output.result(&format!("{}\n{}", paragraph("", &sentence), table(&rows)))?;
    Ok(if is_trusted { 0 } else { 3 })
}

fn verdict(rows: &[Row]) -> (bool, String) {
    let (late, right) = rows.iter().fold((0, 0), |sum, row| (sum.0 + row.late, sum.1 + row.right));
    let share = right as f64 / late.max(1) as f64;
    let enough = rows.iter().filter(|row| row.late >= ENOUGH);
    let lowest = enough.min_by(|one, other| one.share().total_cmp(&other.share()));
    let is_trusted = late > 0 && share >= TRUSTED && lowest.is_none_or(|row| row.share() >= TRUSTED);
    let lowest = lowest.map(|row| format!("; the lowest row, {row}, has {:.1} %", 100.0 * row.share()));
    let sentence = format!(
        "{right} of {late} late messages have the right class, name and CPU as their first cause ({:.1} %){}: {}.",
        100.0 * share,
        lowest.unwrap_or_default(),
        if is_trusted {
            "explanations can be trusted on this host"
        } else {
            "explanations cannot be trusted on this host"
        }
    );
    (is_trusted, sentence)
}

fn build_load() -> Result<Worker, Failure> {
    let spec = WorkerSpec::Load(LoadSpec::new(LoadProfile::Build));
    let mut worker = Worker::start(None, "load", &spec, task::Launch::pid_namespace)?;
    match worker.hear(PATIENCE)? {
        Some(WorkerEvent::Ready { .. }) => Ok(worker),
        _ => Err(anyhow!("the load does not become even within {} s", PATIENCE.as_secs()).into()),
    }
}

impl Bench {
    fn start(cpus: [u32; 2], arguments: &Explain) -> Result<Self, Failure> {
        let key = key::fresh()?.to_hex();
        let limits = Limits { max_rate_pps: u32::MAX, ..Limits::trusted() };
        let task = EndpointTask { bind: "127.0.0.1:0".to_owned(), key: Some(key.clone()), limits };
        let mut endpoint = Worker::start(None, "endpoint", &WorkerSpec::Endpoint(task), |launch| launch)?;
        let Some(WorkerEvent::Ready { address: Some(control) }) = endpoint.hear(PATIENCE)? else {
            return Err(anyhow!("the endpoint does not say where it listens").into());
        };
        let target = Target { control, key: Some(key), host: None };
        Ok(Self { endpoint, target, cpus, policy: arguments.policy, late: arguments.late })
    }

    fn spec(&self, late: u32) -> ProbeSpec {
        let mut spec = ProbeSpec::new(Probe::Pingpong, Protocol::Udp);
        let end = |cpu| EndSpec { policy: self.policy, cpu: Some(cpu), ..EndSpec::default() };
        (spec.initiator, spec.reflector) = (end(self.cpus[0]), end(self.cpus[1]));
        spec.sizes = SizeList::one(64);
        spec.warmup.time_ms = 100;
        spec.stop.max_ms = late.saturating_mul(EACH_MS).clamp(SHORTEST_MS, LONGEST_MS);
        spec.explain = Some(ExplainOver::Ns(100_000));
        spec
    }

    fn cpu(&self, end: Role) -> u32 {
        if end == Role::Initiator { self.cpus[0] } else { self.cpus[1] }
    }

    /// Measures while an end is disturbed, and counts which late messages got the right cause.
    fn measure(&mut self, row: &mut Row) -> Result<(), Failure> {
        let missing = self.late.saturating_sub(u32::try_from(row.late).unwrap_or(u32::MAX));
        let task = ProbeTask::new(self.spec(missing), self.target.clone());
        let mut probe = Worker::start(None, "measurement", &WorkerSpec::Probe(Box::new(task)), |launch| launch)?;
        let epoch_ns = clock::monotonic_ns();
        let mut disturbers = Vec::new();
        for (part, end, delay_ns) in row.parts() {
            let stopped = if end == Role::Initiator { (&probe, "measure") } else { (&self.endpoint, "reflector") };
            let what = part.what.unwrap_or(Disturbance::Stop(stopped.0.pid(), stopped.1));
            disturbers.push((part, self.cpu(end), Disturber::start(what, self.cpu(end), epoch_ns + delay_ns)?));
        }
        let measured = match probe.hear(PATIENCE)? {
            Some(WorkerEvent::Measured(measured)) => measured,
            Some(_) => return Err(anyhow!("the measurement ended without a result").into()),
            None => return Err(anyhow!("the measurement did not end within {} s", PATIENCE.as_secs()).into()),
        };
        let finished = disturbers.into_iter().map(|(part, cpu, disturber)| Ok((part, cpu, disturber.finish()?)));
        let parts: Vec<(&Injected, u32, Vec<Disturbed>)> = finished.collect::<Result<_, Failure>>()?;
        let explanation = measured.result.explanation.as_ref();
        let usual_ns = explanation.filter(|explanation| explanation.messages > 0).and_then(|one| one.p50_ns);
        let Some(usual_ns) = usual_ns else {
            let why = explanation.map(|explanation| explanation.limits.join("; ")).unwrap_or_default();
            return Err(Failure::new(1, anyhow!("nothing was recorded: {why}")));
        };
        let least = OVERLAP / parts.len() as f64;
        // Those of the pass before, without the recorder, have no segments.
        for message in measured.outliers.iter().filter(|message| !message.segments.is_empty()) {
            let excess_ns = message.rtt_ns.saturating_sub(usual_ns) as f64;
            if parts.iter().any(|(_, _, times)| disturbed_ns(message, times) as f64 <= least * excess_ns) {
                continue;
            }
            row.late += 1;
            // Of several causes each has to be there, of one it has to be the first.
            let most = if parts.len() > 1 { usize::MAX } else { 1 };
            let found =
                |part: &Injected, cpu, end| message.causes.iter().take(most).any(|cause| part.is(cause, cpu, end));
            if row.parts().zip(&parts).all(|((part, end, _), (_, cpu, _))| found(part, *cpu, end)) {
                row.right += 1;
            } else {
                let called: Vec<String> = message.causes.iter().take(parts.len()).map(words).collect();
                let called = if called.is_empty() { "no cause".to_owned() } else { called.join(" and ") };
                *row.instead.entry(called).or_default() += 1;
            }
        }
        Ok(())
    }
}

impl Injected {
    /// A CPU is disturbed, whichever end's segment it is in: over the loopback one end receives on the other's CPU. A process is stopped
    /// on any CPU. What the injecting thread takes by itself is its disturbance, too.
    fn is(&self, cause: &Cause, cpu: u32, end: Role) -> bool {
        let (name, is_here) = (cause.name.as_deref(), cause.cpu == Some(cpu));
        let thread = self.what.unwrap_or(Disturbance::Stop(0, "")).thread();
        let takes_cpu = matches!(cause.class, CauseClass::Preempted | CauseClass::RunQueue) && name == Some(thread);
        let is_there = if self.what.is_some() { is_here } else { cause.host == end.word() };
        let is_other =
            self.other.is_some_and(|(class, wanted)| class == cause.class && (wanted.is_none() || wanted == name));
        takes_cpu && is_here || is_other && is_there
    }
}

impl Row {
    /// What is injected, at which end, and how much later than the first.
    fn parts(&self) -> impl Iterator<Item = (&'static Injected, Role, u64)> + use<> {
        let other = if self.end == Role::Initiator { Role::Reflector } else { Role::Initiator };
        self.kind.parts.iter().zip([(self.end, 0), (other, SECOND_NS)]).map(|(part, (end, ns))| (part, end, ns))
    }

    fn share(&self) -> f64 {
        self.right as f64 / self.late.max(1) as f64
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at the {}{}", self.kind.title, self.end, if self.load { ", beside build" } else { "" })
    }
}

/// How long of its round trip a message was disturbed, in ns.
fn disturbed_ns(message: &Outlier, times: &[Disturbed]) -> u64 {
    let since_1970_ns = clock::realtime_ns().saturating_sub(clock::monotonic_ns());
    let Some(start_ns) = message.realtime_ns.map(|ns| ns.saturating_sub(since_1970_ns)) else { return 0 };
    let within =
        |time: &Disturbed| time.end_ns.min(start_ns + message.rtt_ns).saturating_sub(time.start_ns.max(start_ns));
    times.iter().map(within).sum()
}

fn words(cause: &Cause) -> String {
    let name = cause.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    let cpu = cause.cpu.map(|cpu| format!(", CPU {cpu}")).unwrap_or_default();
    format!("{}{name} at the {}{cpu}", cause.class, cause.host)
}

fn table(rows: &[Row]) -> String {
    let instead = |row: &&Row| {
        let mut others: Vec<(&String, &usize)> = row.instead.iter().collect();
        others.sort_by_key(|(words, count)| (std::cmp::Reverse(**count), (*words).clone()));
        let words: Vec<String> = others.iter().take(3).map(|(words, count)| format!("{count} {words}")).collect();
        words.join("; ")
    };
    Columns::none()
        .words("disturbance", |row: &&Row| row.kind.title.to_owned())
        .words("end", |row| row.end.to_string())
        .words("load", |row| if row.load { "build" } else { "none" }.to_owned())
        .figures("late", "", |row| row.late.to_string())
        .figures("right", "", |row| row.right.to_string())
        .figures("share", "%", |row| format!("{:.1}", 100.0 * row.share()))
        .words("called instead", instead)
        .grid(rows)
        .text(width())
}

#[cfg(test)]
mod unit {
    use super::*;

    fn row(late: usize, right: usize) -> Row {
        Row { kind: &KINDS[0], end: Role::Initiator, load: true, late, right, instead: BTreeMap::new() }
    }

    /// Catches: a bad row that good ones hide, and one wrong message of a few that makes a verdict.
    #[test]
    fn a_bad_row_is_not_hidden_by_the_others() {
        let (is_trusted, sentence) = verdict(&[row(200, 200), row(200, 190), row(200, 200)]);
        assert!(!is_trusted && sentence.contains("98.3 %"), "{sentence}");
        assert!(
            sentence.contains("the lowest row, real-time thread, 300 µs at the initiator, beside build, has 95.0 %")
        );
        assert!(verdict(&[row(200, 200), row(10, 9)]).0);
        assert!(!verdict(&[row(20, 19)]).0 && !verdict(&[]).0);
    }

    /// Catches: a disturbance of one CPU that is wrong because the other end's segment shows it, or right on any CPU.
    #[test]
    fn a_disturbance_is_of_a_cpu_and_a_stop_of_an_end() {
        let cause = |class, name: Option<&str>, host: &str, cpu| Cause {
            class,
            name: name.map(str::to_owned),
            pid: None,
            host: host.to_owned(),
            cpu: Some(cpu),
            segment: model::PathSegment::WireOut,
            ns: 1,
            evidence: String::new(),
        };
        let net_rx = cause(CauseClass::Softirq, Some("NET_RX"), "initiator", 1);
        assert!(PACKETS.is(&net_rx, 1, Role::Reflector) && !PACKETS.is(&net_rx, 0, Role::Initiator));
        assert!(!PACKETS.is(&cause(CauseClass::Softirq, Some("RCU"), "reflector", 1), 1, Role::Reflector));
        let by_itself = cause(CauseClass::RunQueue, Some("wh-stop"), "initiator", 1);
        assert!(STOP.is(&by_itself, 1, Role::Reflector) && !STOP.is(&by_itself, 0, Role::Initiator));
        let stopped = cause(CauseClass::Stopped, None, "initiator", 1);
        assert!(STOP.is(&stopped, 0, Role::Initiator) && !STOP.is(&stopped, 1, Role::Reflector));
    }
}
