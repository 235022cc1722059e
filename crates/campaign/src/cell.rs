//! Measuring one cell: loads, endpoint, probe, and all of them ended again.

use crate::hosts::{HostError, Hosts, WorkerId};
use crate::{CampaignError, PlannedCell, attach, key, prepare};
use model::worker::{EndpointTask, Measured, ProbeTask, Target};
use model::{CpuList, Event, Limits, LiveInterval, LoadReport, LoadSpec, Prepared, Probe};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a load may take until it is steady; it then begins unsteady, which its report says.
const STEADY_LIMIT: Duration = Duration::from_secs(10);

/// Who takes part in the cells of a run.
#[derive(Debug)]
pub(crate) struct Cast {
    pub(crate) initiator: String,
    /// The reflectors with their addresses; several only for `pace`.
    pub(crate) reflectors: Vec<(String, IpAddr)>,
    /// One host a machine, which speaks for it, that of the initiator first.
    pub(crate) machines: Vec<String>,
    /// Which of those speaks for the machine of each host.
    pub(crate) speakers: BTreeMap<String, String>,
    /// The CPUs of the machines that tell them, by the host that speaks for each.
    pub(crate) online: BTreeMap<String, CpuList>,
    /// Whether any cell of the run may be shielded.
    pub(crate) shields: bool,
}

impl Cast {
    /// The reflectors of a cell.
    pub(crate) fn reflectors_of(&self, cell: &model::Cell) -> &[(String, IpAddr)] {
        let most = cell.reflectors.map_or(usize::MAX, |count| count as usize);
        self.reflectors.get(..most).unwrap_or(&self.reflectors)
    }

    /// The host that speaks for the machine of a host.
    pub(crate) fn speaker<'a>(&'a self, host: &'a str) -> &'a str {
        self.speakers.get(host).map_or(host, String::as_str)
    }
}

/// What the loads of a cell said when they ended, by host.
#[derive(Debug, Default)]
pub(crate) struct CellLoads {
    pub(crate) reports: Vec<(String, LoadReport)>,
}

/// A measured cell.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) measured: Measured,
    pub(crate) events: Vec<Event>,
}

/// Why there is none.
#[derive(Debug)]
pub(crate) enum Failure {
    Host(HostError),
    /// The machines could not be made as the cell wants them.
    Prepare(HostError),
    Campaign(CampaignError),
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

/// Who watches the intervals of a cell.
pub(crate) type Live<'a> = Option<&'a mut dyn FnMut(LiveInterval)>;

/// Measures one step. Whatever happens, what it started is ended when it returns, as far as the hosts still answer.
pub(crate) fn measure(
    hosts: &mut dyn Hosts,
    cast: &Cast,
    step: &PlannedCell,
    prepared: Vec<Prepared>,
    stop: &AtomicBool,
    live: Live<'_>,
) -> Result<Outcome, Failure> {
    let mut events = Vec::new();
    let mut started = Vec::new();
    // The endpoint first: under load it would take its time to start.
    let mut endpoints = Vec::new();
    let targets = start_endpoints(hosts, cast, step, stop, &mut endpoints);
    let ready = targets.and_then(|targets| {
        start_loads(hosts, cast, step, stop, &mut started, &mut events)?;
        Ok(targets)
    });
    let measured = ready.and_then(|targets| probe(hosts, cast, step, targets, stop, live));
    let loads = stop_loads(hosts, &started, &mut events);
    let measured = both(measured, loads);
    let ended = stop_endpoints(hosts, endpoints);
    let ((mut measured, loads), ()) = both(measured, ended)?;
    attach::attach(&mut measured, step, cast, &loads);
    measured.result.prepared = prepared;
    events.append(&mut measured.events);
    Ok(Outcome { measured, events })
}

fn start_loads(
    hosts: &mut dyn Hosts,
    cast: &Cast,
    step: &PlannedCell,
    stop: &AtomicBool,
    started: &mut Vec<(String, WorkerId)>,
    events: &mut Vec<Event>,
) -> Result<(), HostError> {
    let load = |host: &String| Some((host.clone(), prepare::load_on(&step.cell, cast, host)?));
    let on: Vec<(String, LoadSpec)> = cast.machines.iter().filter_map(load).collect();
    if on.is_empty() {
        return Ok(());
    }
    events.extend(cast.machines.iter().map(|host| event("load-started", host)));
    hosts.start_loads(&on, STEADY_LIMIT, stop, started)?;
    events.extend(started.iter().map(|(host, _)| event("load-ready", host)));
    Ok(())
}

fn stop_loads(
    hosts: &mut dyn Hosts,
    started: &[(String, WorkerId)],
    events: &mut Vec<Event>,
) -> Result<CellLoads, HostError> {
    let mut loads = CellLoads::default();
    let mut failure = None;
    for (host, id) in started {
        match hosts.stop_load(host, *id) {
            Ok(report) => {
                let mut stopped = event("load-stopped", host);
                stopped.detail = describe(&report);
                events.push(stopped);
                loads.reports.push((host.clone(), report));
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(loads), Err)
}

fn describe(report: &LoadReport) -> String {
    let cv = report.work_cv.map_or_else(|| "not known".to_owned(), |cv| format!("{:.1} %", cv * 100.0));
    format!(
        "{}: work {}, busy {:.1} %, variation per 100 ms {cv}, steady after {} ms",
        report.spec.profile,
        report.work,
        report.busy_percent,
        report.steady_after_ns / 1_000_000
    )
}

fn event(kind: &str, host: &str) -> Event {
    Event {
        kind: kind.to_owned(),
        realtime_ns: Some(now_ns()),
        at_ns: None,
        host: Some(host.to_owned()),
        seq: None,
        detail: String::new(),
    }
}

/// Wall clock since 1970; 0 for a clock before that.
pub(crate) fn now_ns() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// Starts what sends messages back, where that is a process of its own, and puts it into `endpoints`; gives back what
/// the probe is told to go to, the first reflector first.
fn start_endpoints(
    hosts: &mut dyn Hosts,
    cast: &Cast,
    step: &PlannedCell,
    stop: &AtomicBool,
    endpoints: &mut Vec<(String, WorkerId)>,
) -> Result<Vec<Target>, Failure> {
    if stop.load(Ordering::Relaxed) {
        return Err(HostError::Interrupted.into());
    }
    let spec = &step.cell.spec;
    if spec.socket.protocol.is_local() {
        return Ok(vec![Target::default()]);
    }
    if cast.reflectors.is_empty() {
        return Err(Failure::Campaign(CampaignError::MissingReflector));
    }
    let key = key::fresh().map_err(Failure::Campaign)?;
    let mut targets = Vec::new();
    for (reflector, address) in cast.reflectors_of(&step.cell) {
        let host = Some(reflector.clone());
        if spec.probe == Probe::Ping {
            targets.push(Target { control: address.to_string(), key: None, host });
            continue;
        }
        let task = EndpointTask {
            bind: std::net::SocketAddr::new(*address, 0).to_string(),
            key: Some(key.clone()),
            limits: limits(step),
        };
        let (endpoint, control) = hosts.start_endpoint(reflector, &task, &step.cell.stack_reflector)?;
        endpoints.push((reflector.clone(), endpoint));
        targets.push(Target { control, key: Some(key.clone()), host });
    }
    Ok(targets)
}

/// Ends all of them, whatever became of one; the first failure is told.
fn stop_endpoints(hosts: &mut dyn Hosts, endpoints: Vec<(String, WorkerId)>) -> Result<(), HostError> {
    let mut ended = Ok(());
    for (host, endpoint) in endpoints {
        ended = ended.and(hosts.stop_endpoint(&host, endpoint));
    }
    ended
}

/// A measurement and the ending of what it needed. The first failure is the reason and that of the ending its
/// consequence, but for a lost host: that is why the other end saw its peer vanish.
fn both<A, B>(measured: Result<A, Failure>, ended: Result<B, HostError>) -> Result<(A, B), Failure> {
    match (measured, ended) {
        (Err(Failure::Host(_)), Err(lost @ HostError::Lost { .. })) => Err(lost.into()),
        (measured, ended) => Ok((measured?, ended?)),
    }
}

/// The endpoint serves this one cell, so its limits are what the cell needs.
fn limits(step: &PlannedCell) -> Limits {
    let defaults = Limits::trusted();
    let cell_s = u32::try_from(crate::cell_ns(&step.cell) / 1_000_000_000).unwrap_or(u32::MAX);
    let counted = step.cell.spec.stop.max_ms == u32::MAX;
    let max_session_s = if counted { 7 * 86_400 } else { defaults.max_session_s.max(cell_s.saturating_mul(100)) };
    Limits { max_session_s, ..defaults }
}

/// What a probe may take beside measuring: a stack of its own may have to set up hardware, and a load slows the start.
const STARTING: Duration = Duration::from_secs(30);
/// A warm-up ends when so many of its messages were lost.
const WARM_UP_LOSSES: u32 = 10;

/// How long a probe may take before it counts as hung: a warm-up in which every message is lost stays below it. A cell
/// that ends by count alone may take any time.
fn limit(step: &PlannedCell) -> Option<Duration> {
    let spec = &step.cell.spec;
    if spec.stop.max_ms == u32::MAX {
        return None;
    }
    // The limits of `rr` are those of all its passes.
    let measuring = Duration::from_nanos(crate::cell_ns(&step.cell)) * 3;
    // Twice what ends a warm-up, whatever its count.
    let losses = Duration::from_millis(u64::from(spec.timeout_ms)) * 2 * WARM_UP_LOSSES;
    Some(STARTING + measuring + losses)
}

fn probe(
    hosts: &mut dyn Hosts,
    cast: &Cast,
    step: &PlannedCell,
    targets: Vec<Target>,
    stop: &AtomicBool,
    live: Live<'_>,
) -> Result<Measured, Failure> {
    let mut targets = targets.into_iter();
    let target = targets.next().unwrap_or_default();
    let mut task = ProbeTask { factors: step.cell.factors.clone(), ..ProbeTask::new(step.cell.spec.clone(), target) };
    task.others = targets.collect();
    task.live = live.is_some();
    let initiator = &cast.initiator;
    let mut results =
        hosts.probe(initiator, &task, &step.cell.stack_initiator, limit(step), stop, live.unwrap_or(&mut |_| {}))?;
    match (results.pop(), results.len()) {
        (Some(measured), 0) => Ok(measured),
        (measured, others) => {
            let count = others + usize::from(measured.is_some());
            let why = format!("the worker gave {count} results where one size was asked for");
            Err(HostError::Failed { host: initiator.clone(), why }.into())
        }
    }
}
