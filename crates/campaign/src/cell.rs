//! Measuring one cell: loads, endpoint, probe, and all of them ended again.

use crate::hosts::{HostError, Hosts, WorkerId};
use crate::participants::Participants;
use crate::{CampaignError, PlannedCell, attach, key, prepare};
use model::worker::{EndpointTask, Measured, ProbeTask, Target};
use model::{Event, Limits, LiveInterval, LoadReport, LoadSpec, Prepared};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a load may take until it is steady; it then begins unsteady, which is in its report.
const STEADY_LIMIT: Duration = Duration::from_secs(10);

/// The reports of the loads of a cell, by host.
#[derive(Debug, Default)]
pub(crate) struct CellLoads {
    pub(crate) reports: Vec<(String, LoadReport)>,
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) measured: Measured,
    pub(crate) events: Vec<Event>,
}

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
    participants: &Participants,
    step: &PlannedCell,
    prepared: Vec<Prepared>,
    stop: &AtomicBool,
    live: Live<'_>,
) -> Result<Outcome, Failure> {
    let mut cell =
        RunningCell { hosts, participants, step, stop, events: Vec::new(), loads: Vec::new(), endpoints: Vec::new() };
    // The endpoint first: under load it would take its time to start.
    let targets = cell.start_endpoints();
    let ready = targets.and_then(|targets| {
        cell.start_loads()?;
        Ok(targets)
    });
    let measured = ready.and_then(|targets| cell.probe(targets, live));
    let measured = both(measured, cell.stop_loads());
    let ((mut measured, loads), ()) = both(measured, cell.stop_endpoints())?;
    attach::attach(&mut measured, step, participants, &loads);
    measured.result.prepared = prepared;
    let mut events = cell.events;
    events.append(&mut measured.events);
    Ok(Outcome { measured, events })
}

struct RunningCell<'a> {
    hosts: &'a mut dyn Hosts,
    participants: &'a Participants,
    step: &'a PlannedCell,
    stop: &'a AtomicBool,
    events: Vec<Event>,
    loads: Vec<(String, WorkerId)>,
    endpoints: Vec<(String, WorkerId)>,
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
        realtime_ns: Some(clock::realtime_ns()),
        at_ns: None,
        host: Some(host.to_owned()),
        seq: None,
        detail: String::new(),
    }
}

impl RunningCell<'_> {
    fn start_loads(&mut self) -> Result<(), HostError> {
        let load = |host: &String| Some((host.clone(), prepare::load_on(&self.step.cell, self.participants, host)?));
        let on: Vec<(String, LoadSpec)> = self.participants.machines.iter().filter_map(load).collect();
        if on.is_empty() {
            return Ok(());
        }
        self.events.extend(self.participants.machines.iter().map(|host| event("load-started", host)));
        self.hosts.start_loads(&on, STEADY_LIMIT, self.stop, &mut self.loads)?;
        self.events.extend(self.loads.iter().map(|(host, _)| event("load-ready", host)));
        Ok(())
    }

    fn stop_loads(&mut self) -> Result<CellLoads, HostError> {
        let mut loads = CellLoads::default();
        let mut failure = None;
        for (host, id) in &self.loads {
            match self.hosts.stop_load(host, *id) {
                Ok(report) => {
                    self.events.push(Event { detail: describe(&report), ..event("load-stopped", host) });
                    loads.reports.push((host.clone(), report));
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(loads), Err)
    }

    /// Starts what sends messages back, where that is a process of its own: the targets of the probe, in order.
    fn start_endpoints(&mut self) -> Result<Vec<Target>, Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(HostError::Interrupted.into());
        }
        let cell = &self.step.cell;
        if !cell.has_peer() {
            return Ok(vec![Target::default()]);
        }
        if self.participants.reflectors.is_empty() {
            return Err(Failure::Campaign(CampaignError::MissingReflector));
        }
        let key = key::fresh().map_err(Failure::Campaign)?;
        let mut targets = Vec::new();
        for (reflector, address) in self.participants.reflectors_of(cell) {
            let host = Some(reflector.clone());
            if !cell.spec.has_session() {
                let port = cell.spec.peer.port();
                let control =
                    port.map_or_else(|| address.to_string(), |port| SocketAddr::new(*address, port).to_string());
                targets.push(Target { control, key: None, host });
                continue;
            }
            let bind = std::net::SocketAddr::new(*address, 0).to_string();
            let task = EndpointTask { bind, key: Some(key.clone()), limits: limits(self.step) };
            let (endpoint, control) = self.hosts.start_endpoint(reflector, &task, &cell.stack_reflector)?;
            self.endpoints.push((reflector.clone(), endpoint));
            targets.push(Target { control, key: Some(key.clone()), host });
        }
        Ok(targets)
    }

    /// Ends all of them, whatever became of one; returns the first failure.
    fn stop_endpoints(&mut self) -> Result<(), HostError> {
        let ended = self.endpoints.iter().map(|(host, endpoint)| self.hosts.stop_endpoint(host, *endpoint));
        ended.fold(Ok(()), Result::and)
    }

    fn probe(&mut self, targets: Vec<Target>, live: Live<'_>) -> Result<Measured, Failure> {
        let (cell, initiator) = (&self.step.cell, &self.participants.initiator);
        let mut targets = targets.into_iter();
        let target = targets.next().unwrap_or_default();
        let mut task = ProbeTask { factors: cell.factors.clone(), ..ProbeTask::new(cell.spec.clone(), target) };
        task.others = targets.collect();
        task.live = live.is_some();
        let mut unseen = |_| {};
        let (limit, live) = (limit(self.step), live.unwrap_or(&mut unseen));
        let mut results = self.hosts.probe(initiator, &task, &cell.stack_initiator, limit, self.stop, live)?;
        match (results.pop(), results.len()) {
            (Some(measured), 0) => Ok(measured),
            (measured, others) => {
                let count = others + usize::from(measured.is_some());
                let why = format!("the worker gave {count} results where one size was asked for");
                Err(HostError::Failed { host: initiator.clone(), why }.into())
            }
        }
    }
}

/// A measurement and the ending of what it needed. The first failure is the reason, but for a lost host, which explains it.
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
/// Lost messages that end a warm-up.
const WARM_UP_LOSSES: u32 = 10;

/// How long a probe may take before it counts as hung, with every message lost; `None` for a cell that ends by count.
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
