//! `windhover explain --self-test`: whether the explanation names what really made messages late on this host.

use super::child::Worker;
use super::{key, signals};
use crate::cli::explain::Explain;
use crate::output::{Failure, Output, paragraph, width};
use anyhow::anyhow;
use load::{Disturbance, Disturbed, Disturber, Pauses};
use model::result::Outlier;
use model::worker::{EndpointTask, Measured, ProbeTask, Target};
use model::{
    Cause, CauseClass, EndSpec, ExplainOver, Limits, LoadProfile, LoadSpec, Policy, Probe, ProbeSpec, Protocol, Role,
    SizeList, WorkerEvent, WorkerSpec,
};
use nix::sys::signal::Signal;
use report::Columns;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A worker that gives no event for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
/// The time in which about one message is disturbed, where disturbances are rarest.
const EACH_MS: u64 = 50;
/// How long a process is stopped.
const STOPPED: Duration = Duration::from_micros(400);
/// The priority of the thread that stops processes.
const STOPS: Policy = Policy::Fifo(60);
/// A message was disturbed if the disturbance covers more than this share of what it lost.
const OVERLAP: f64 = 0.3;
/// From this share on an explanation can be trusted.
const TRUSTED: f64 = 0.97;

/// What is injected, and what it has to be called.
struct Kind {
    title: &'static str,
    /// Absent: the end's process is stopped by a signal.
    what: Option<Disturbance>,
    classes: &'static [CauseClass],
    name: Option<&'static str>,
}

const KINDS: [Kind; 4] = [
    Kind {
        title: "real-time thread, 300 µs",
        what: Some(Disturbance::Hog),
        classes: &[CauseClass::Preempted, CauseClass::RunQueue],
        name: Some(Disturbance::Hog.thread()),
    },
    Kind {
        title: "1500 timers at once",
        what: Some(Disturbance::Timers),
        classes: &[CauseClass::Hardirq],
        name: Some("local_timer"),
    },
    Kind {
        title: "packet for 300 sockets",
        what: Some(Disturbance::Packets),
        classes: &[CauseClass::Softirq],
        name: Some("NET_RX"),
    },
    Kind { title: "SIGSTOP for 400 µs", what: None, classes: &[CauseClass::Stopped], name: None },
];

/// A row of the table.
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
    late: u32,
}

pub(crate) fn run(arguments: &Explain, output: &Output) -> Result<u8, Failure> {
    let allowed: Vec<u32> = task::allowed_cpus()?.iter().collect();
    let [near, far, ..] = allowed[..] else {
        refuse!("the self-test needs two CPUs: this process may use {}", allowed.len())
    };
    let stop = signals::stop_flag()?;
    let mut bench = Bench::start([near, far], arguments.late)?;
    let mut rows = Vec::new();
    for load in [false, true] {
        let _build = load.then(build_load).transpose()?;
        for kind in &KINDS {
            for end in [Role::Initiator, Role::Reflector] {
                if stop.load(Ordering::Relaxed) {
                    return Ok(130);
                }
                let row = bench.measure(kind, end, load)?;
                output.note(format_args!(
                    "{} at the {end}{}: {} of {} right",
                    kind.title,
                    if load { ", beside build" } else { "" },
                    row.right,
                    row.late
                ));
                rows.push(row);
            }
        }
    }
    let (late, right) = rows.iter().fold((0, 0), |sum, row| (sum.0 + row.late, sum.1 + row.right));
    let share = right as f64 / late.max(1) as f64;
    let is_trusted = late > 0 && share >= TRUSTED;
    let sentence = format!(
        "{right} of {late} late messages have the right class, name and end as their first cause ({:.1} %): {}.",
        100.0 * share,
        if is_trusted {
            "explanations can be trusted on this host"
        } else {
            "explanations cannot be trusted on this host"
        }
    );
    output.result(&format!("{}\n{}", paragraph("", &sentence), table(&rows)))?;
    Ok(if is_trusted { 0 } else { 3 })
}

/// The load `build`, once it is even.
fn build_load() -> Result<Worker, Failure> {
    let spec = WorkerSpec::Load(LoadSpec::new(LoadProfile::Build));
    let mut worker = Worker::start("load", &spec, task::Launch::pid_namespace)?;
    match worker.hear(PATIENCE)? {
        Some(WorkerEvent::Ready { .. }) => Ok(worker),
        _ => Err(anyhow!("the load does not become even within {} s", PATIENCE.as_secs()).into()),
    }
}

impl Bench {
    fn start(cpus: [u32; 2], late: u32) -> Result<Self, Failure> {
        let key = key::fresh()?.to_hex();
        let limits = Limits { max_rate_pps: u32::MAX, ..Limits::trusted() };
        let task = EndpointTask { bind: "127.0.0.1:0".to_owned(), key: Some(key.clone()), limits };
        let mut endpoint = Worker::start("endpoint", &WorkerSpec::Endpoint(task), |launch| launch)?;
        let Some(WorkerEvent::Ready { address: Some(control) }) = endpoint.hear(PATIENCE)? else {
            return Err(anyhow!("the endpoint does not say where it listens").into());
        };
        Ok(Self { endpoint, target: Target { control, key: Some(key), host: None }, cpus, late })
    }

    fn spec(&self, kind: &Kind) -> ProbeSpec {
        let mut spec = ProbeSpec::new(Probe::Pingpong, Protocol::Udp);
        let end = |cpu| EndSpec { policy: Policy::Fifo(10), cpu: Some(cpu), ..EndSpec::default() };
        (spec.initiator, spec.reflector) = (end(self.cpus[0]), end(self.cpus[1]));
        spec.sizes = SizeList::one(64);
        spec.warmup.time_ms = 100;
        // A disturbance each 12 ms, and timers each 38 ms, of which some find no message on its way.
        let each_ms = if kind.what == Some(Disturbance::Timers) { EACH_MS } else { EACH_MS / 2 };
        spec.stop.max_ms = u32::try_from(u64::from(self.late) * each_ms).unwrap_or(u32::MAX).max(500);
        spec.explain = Some(ExplainOver::Ns(100_000));
        spec
    }

    /// Measures while one end is disturbed, and counts which late messages got the right cause.
    fn measure(&mut self, kind: &'static Kind, end: Role, load: bool) -> Result<Row, Failure> {
        let task = ProbeTask::new(self.spec(kind), self.target.clone());
        let mut probe = Worker::start("measurement", &WorkerSpec::Probe(Box::new(task)), |launch| launch)?;
        let cpu = if end == Role::Initiator { self.cpus[0] } else { self.cpus[1] };
        let disturber = kind.what.map(|what| Disturber::start(what, cpu)).transpose()?;
        let (measured, stops) = self.hear(&mut probe, kind.what.is_none().then_some(end))?;
        let times = disturber.map(Disturber::finish).transpose()?.unwrap_or(stops);
        let explanation = measured.result.explanation.as_ref();
        let recorded = explanation.is_some_and(|explanation| explanation.messages > 0);
        if !recorded {
            let why = explanation.map(|explanation| explanation.limits.join("; ")).unwrap_or_default();
            return Err(Failure::new(1, anyhow!("nothing was recorded: {why}")));
        }
        let mut row = Row { kind, end, load, late: 0, right: 0, instead: BTreeMap::new() };
        let since_1970_ns = clock::realtime_ns().saturating_sub(clock::monotonic_ns());
        for message in measured.outliers.iter().filter(|message| is_disturbed(message, &times, since_1970_ns)) {
            row.late += 1;
            match message.causes.first() {
                Some(cause) if kind.is(cause, end) => row.right += 1,
                Some(cause) => *row.instead.entry(words(cause)).or_default() += 1,
                None => *row.instead.entry("no cause".to_owned()).or_default() += 1,
            }
        }
        Ok(row)
    }

    /// Waits for the result. Meanwhile the process of an end is stopped and continued, where that is the disturbance.
    fn hear(&mut self, probe: &mut Worker, stops: Option<Role>) -> Result<(Box<Measured>, Vec<Disturbed>), Failure> {
        let mut pauses = Pauses::default();
        if stops.is_some() {
            task::apply_policy(STOPS)?;
        }
        let mut times = Vec::new();
        let patience = PATIENCE + 2 * Duration::from_millis(u64::from(self.late) * EACH_MS);
        let deadline_ns = clock::monotonic_ns() + u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        loop {
            let wait = if stops.is_some() { pauses.pause() } else { LOOK };
            match probe.hear(wait)? {
                Some(WorkerEvent::Measured(measured)) => {
                    task::apply_policy(Policy::Other)?;
                    return Ok((measured, times));
                }
                Some(_) => return Err(anyhow!("the measurement ended without a result").into()),
                None if clock::monotonic_ns() > deadline_ns => {
                    return Err(anyhow!("the measurement did not end within {} s", patience.as_secs()).into());
                }
                None => {}
            }
            if let Some(end) = stops {
                // The thread that a signal is sent to is the first to stop; any other one may get it late on a busy machine.
                let (worker, name) =
                    if end == Role::Initiator { (&*probe, "measure") } else { (&self.endpoint, "reflector") };
                let Some(thread) = worker.thread(name) else { continue };
                let stopped = task::send_signal(thread, Signal::SIGSTOP as i32);
                let start_ns = clock::monotonic_ns();
                std::thread::sleep(STOPPED);
                times.push(Disturbed { start_ns, end_ns: clock::monotonic_ns() });
                // It may have ended.
                let _ = stopped.and_then(|()| task::send_signal(thread, Signal::SIGCONT as i32));
            }
        }
    }
}

impl Kind {
    fn is(&self, cause: &Cause, end: Role) -> bool {
        let is_named = self.name.is_none_or(|name| cause.name.as_deref() == Some(name));
        is_named && self.classes.contains(&cause.class) && cause.host == end.word()
    }
}

/// Whether most of what a message lost it lost while the end was disturbed.
fn is_disturbed(message: &Outlier, times: &[Disturbed], since_1970_ns: u64) -> bool {
    // Those of the pass before it, without the recorder, have no segments.
    if message.segments.is_empty() {
        return false;
    }
    let Some(start_ns) = message.realtime_ns.map(|ns| ns.saturating_sub(since_1970_ns)) else { return false };
    let lost_ns: u64 = message.causes.iter().map(|cause| cause.ns).sum();
    let within =
        |time: &Disturbed| time.end_ns.min(start_ns + message.rtt_ns).saturating_sub(time.start_ns.max(start_ns));
    let disturbed_ns: u64 = times.iter().map(within).sum();
    disturbed_ns as f64 > OVERLAP * lost_ns as f64
}

fn words(cause: &Cause) -> String {
    let name = cause.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    format!("{}{name} at the {}", cause.class, cause.host)
}

fn table(rows: &[Row]) -> String {
    let instead = |row: &&Row| {
        let mut others: Vec<(&String, &usize)> = row.instead.iter().collect();
        others.sort_by_key(|(words, count)| (std::cmp::Reverse(**count), (*words).clone()));
        let words: Vec<String> = others.iter().take(3).map(|(words, count)| format!("{count} {words}")).collect();
        words.join(", ")
    };
    Columns::none()
        .words("disturbance", |row: &&Row| row.kind.title.to_owned())
        .words("end", |row| row.end.to_string())
        .words("load", |row| if row.load { "build" } else { "none" }.to_owned())
        .figures("late", "", |row| row.late.to_string())
        .figures("right", "", |row| row.right.to_string())
        .figures("share", "%", |row| format!("{:.1}", 100.0 * row.right as f64 / row.late.max(1) as f64))
        .words("called instead", instead)
        .grid(rows)
        .text(width())
}
