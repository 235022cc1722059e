//! The result document of one pass, from what the engine, the recorder, the samplers and the reflectors left.

use crate::driver::Pass;
use crate::stop;
use model::result::{EndReport, SelfCost, Transactions};
use model::worker::{Measured, ProbeTask};
use model::{
    ClockMap, EndSpec, Event, Finding, FindingId, FrameBackend, Messages, Participants, PgmReport, Probe, ProbeSpec,
    ResultDocument, Role, RrSpec, Source, TickRate, Verdict, WakeReport, source,
};
use record::{EndEvidence, Evidence, PathFacts, Recorded};
use std::collections::BTreeMap;
use wire::StopReport;

pub(crate) struct Parts {
    /// Addresses of both ends.
    pub path_info: PathInfo,
    /// The initiator's clocks.
    pub map: ClockMap,
    /// What the initiator reports of itself: usage, what was observed around the loop, and the findings made so far.
    pub own: StopReport,
    /// The other participants, if there are any.
    pub others: Vec<Other>,
    /// The tool's own cost.
    pub self_cost: SelfCost,
    /// How the peer vanished, if it did.
    pub vanished: Option<String>,
    /// Whether the program was asked to end before the stop rule was met.
    pub interrupted: bool,
    /// What was measured.
    pub figures: Figures,
    /// Who measured, if that was a foreign worker.
    pub source: Option<Source>,
}

#[derive(Default)]
pub(crate) struct Other {
    /// Its name, where there are several.
    pub name: Option<String>,
    /// Its data address.
    pub address: Option<String>,
    /// Whether it is a process of this machine.
    pub one_machine: bool,
    /// What it reported; absent for a kernel, and when it vanished.
    pub report: Option<StopReport>,
}

impl Other {
    /// The only one, without a report.
    pub(crate) fn only(path: &PathInfo) -> Self {
        Self { name: None, address: path.peer.clone(), one_machine: path.one_machine, report: None }
    }

    fn named(&self) -> &str {
        self.name.as_deref().unwrap_or(Role::Reflector.word())
    }
}

pub(crate) enum Figures {
    Timed(Box<TimedResult>),
    Stream(Box<crate::stream::StreamResult>),
}

/// Timed messages, of a closed or an open loop.
pub(crate) struct TimedResult {
    pub recorded: Recorded,
    /// Answered transactions a second of each repetition of `rr`.
    pub rates: Vec<f64>,
    /// Width of the median's interval that ended the size, in percent, when it did.
    pub width_percent: Option<f64>,
    /// What PGM did, where it carried the messages.
    pub pgm: Option<PgmReport>,
    /// Protocol events.
    pub events: Vec<Event>,
    /// Deadlines and timers, of `wake`.
    pub wake: Option<WakeReport>,
}

/// Where messages go. The same for all sizes of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathInfo {
    /// The initiator's host name.
    pub host: Option<String>,
    /// The initiator's data address.
    pub local: Option<String>,
    /// The reflector's data address.
    pub peer: Option<String>,
    /// The kernel delivers to the peer's address locally.
    pub is_local: bool,
    /// Nobody claims that there is a network between the ends.
    pub loopback_intended: bool,
    /// Both ends are processes of this machine.
    pub one_machine: bool,
    /// What carries the initiator's frames.
    pub frame_backend: Option<FrameBackend>,
}

pub(crate) fn assemble(task: &ProbeTask, pass: Pass, mut parts: Parts) -> Measured {
    let spec = &task.spec;
    for other in &parts.others {
        let Some(report) = &other.report else { continue };
        let of_other = |note: &Finding| Finding { end: Some(other.named().to_owned()), ..note.clone() };
        parts.own.notes.extend(report.notes.iter().map(of_other));
        parts.own.notes.extend(over_rate(spec, other.named(), report));
    }
    if let Figures::Stream(streamed) = &mut parts.figures {
        let report = parts.others.first_mut().and_then(|other| other.report.as_mut());
        streamed.add_endpoint(report, parts.vanished.is_some());
        parts.own.notes.extend(streamed.findings());
    }
    let messages = match &parts.figures {
        Figures::Timed(timed) => timed.recorded.messages.clone(),
        Figures::Stream(streamed) => streamed.messages(),
    };
    let verdict = judge(spec, &parts, &messages);
    let Parts { path_info, mut own, others, map, self_cost, interrupted, figures, source, .. } = parts;
    own.frame_backend = path_info.frame_backend;
    let initiator = end_report(&spec.initiator, path_info.host, path_info.local, own);
    let ends = Participants::new(initiator, others.into_iter().map(|other| reflector_end(spec, other)));
    let rate = map.rate;
    let mut factors = factors(task, pass);
    factors.extend(source.as_ref().map(|source| (source::FACTOR.to_owned(), source.factor().into())));
    let result = ResultDocument {
        format: model::FORMAT,
        probe: spec.probe(),
        factors,
        ends,
        messages,
        self_cost,
        // A foreign worker's clock is its own.
        clock: source.is_none().then_some(map),
        source,
        interrupted,
        verdict,
        ..ResultDocument::default()
    };
    let mut measured = Measured::new(result);
    match figures {
        Figures::Timed(timed) => timed.fill(&mut measured, spec, pass.size, rate),
        Figures::Stream(streamed) => streamed.fill(&mut measured),
    }
    measured
}

fn judge(spec: &ProbeSpec, parts: &Parts, messages: &Messages) -> Verdict {
    let timed = match &parts.figures {
        Figures::Timed(timed) => Some(timed.as_ref()),
        Figures::Stream(_) => None,
    };
    let path = &parts.path_info;
    let reflectors = parts.others.iter().filter_map(|other| {
        let (name, report) = (other.named(), other.report.as_ref()?);
        Some(evidence(spec, Role::Reflector, name, other.one_machine, report))
    });
    record::verdict(&Evidence {
        spec,
        initiator: evidence(spec, Role::Initiator, Role::Initiator.word(), true, &parts.own),
        reflectors: reflectors.collect(),
        clock: Some(&parts.map),
        messages,
        recorded: timed.map(|timed| &timed.recorded),
        path: PathFacts {
            is_local: path.is_local,
            loopback_intended: path.loopback_intended,
            peer: path.peer.as_deref().unwrap_or("this machine"),
        },
        found: &parts.own.notes,
        interval_percent: timed.and_then(|timed| rate_width(spec, &timed.rates).or(timed.width_percent)),
        peer_vanished: parts.vanished.as_deref(),
        interrupted: parts.interrupted,
        load: None,
    })
}

/// What an end reported, as the verdict looks at it.
fn evidence<'a>(
    spec: &'a ProbeSpec,
    role: Role,
    name: &'a str,
    one_machine: bool,
    report: &'a StopReport,
) -> EndEvidence<'a> {
    let StopReport { usage, counters, preloads, carried, .. } = report;
    EndEvidence {
        role,
        name,
        one_machine,
        spec: spec.end(role),
        usage,
        counters,
        preloads,
        carried: carried.as_deref(),
    }
}

fn reflector_end(spec: &ProbeSpec, other: Other) -> EndReport {
    let Other { name, address, report, .. } = other;
    let mut report = report.unwrap_or_default();
    if spec.probe() == Probe::Ping || !spec.peer.is_own() {
        // A kernel or another tool answers, of which only the address is known.
        return EndReport { address, ..EndReport::default() };
    }
    if !spec.probe().is_bulk() {
        report.usage.transactions = Some(report.received / u64::from(spec.pings.max(1))).filter(|rounds| *rounds > 0);
    }
    end_report(&spec.reflector, name, address, report)
}

/// What an end reported, as results have it.
fn end_report(spec: &EndSpec, host: Option<String>, address: Option<String>, report: StopReport) -> EndReport {
    EndReport {
        spec: spec.clone(),
        host,
        address,
        usage: report.usage,
        counters: report.counters,
        stack_environment: report.stack_environment,
        preloads: report.preloads,
        frame_backend: report.frame_backend,
        carried: report.carried,
    }
}

impl TimedResult {
    fn fill(self, measured: &mut Measured, spec: &ProbeSpec, size: u32, rate: TickRate) {
        let Self { recorded, rates, pgm, events, wake, .. } = self;
        recorded.fill(measured, spec, rate);
        let result = &mut measured.result;
        result.transactions = spec.rr().map(|rr| transactions(rr, size, &rates));
        (result.pgm, result.wake) = (pgm, wake);
        measured.events = events;
    }
}

/// The task's factors with `protocol` and `size`, and `rate` where there is one; these win over what the task says.
fn factors(task: &ProbeTask, pass: Pass) -> BTreeMap<String, serde_json::Value> {
    let mut factors = task.factors.clone();
    factors.insert("protocol".to_owned(), model::Protocol::word_of(task.spec.protocol()).into());
    if task.spec.probe().has_peer() {
        factors.insert("size".to_owned(), pass.size.into());
    }
    if !task.spec.peer.is_own() {
        factors.insert("peer".to_owned(), task.spec.peer.word().into());
    }
    if let Some(rate) = pass.rate {
        factors.insert("rate".to_owned(), number(rate));
    }
    factors
}

/// Whole numbers without a fraction, as people and plans write them.
fn number(value: f64) -> serde_json::Value {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "compared afterwards")]
    let whole = value as u64;
    if (whole as f64 - value).abs() < 1e-9 { whole.into() } else { value.into() }
}

fn transactions(rr: &RrSpec, size: u32, rates: &[f64]) -> Transactions {
    let interval = stop::rate_interval(rates);
    Transactions {
        per_second: interval.mean,
        ci95_percent: interval.half_width_percent,
        passes: u32::try_from(rates.len()).unwrap_or(u32::MAX),
        request_bytes: size,
        response_bytes: rr.response_size.unwrap_or(size),
        connect_each: rr.connect_each,
    }
}

/// Width of the rate's interval in percent, where `rr` was asked for one; infinite with too few passes to know it.
fn rate_width(spec: &ProbeSpec, rates: &[f64]) -> Option<f64> {
    let asked = spec.probe() == Probe::Rr && spec.stop.interval_percent.is_some();
    asked.then(|| stop::rate_interval(rates).half_width_percent.map_or(f64::INFINITY, |half| 2.0 * half))
}

/// The endpoint's owner limits the rate: datagrams above it are not answered, streams are read later.
fn over_rate(spec: &ProbeSpec, name: &str, report: &StopReport) -> Option<Finding> {
    let count = report.over_rate;
    let detail = if spec.counts_losses() {
        format!("{count} messages came faster than the endpoint's owner allows and were not answered")
    } else {
        format!("the endpoint's owner limits the rate, and {count} times it waited before it read on")
    };
    let remedy = "leave a gap (--sleep-gap), or have its --max-rate raised";
    (count > 0).then(|| Finding::at(FindingId::Loss, name, format!("{detail}: {remedy}")))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clock::{Clock, MapRecorder};
    use model::worker::Target;
    use model::{Protocol, Sample};
    use record::{Recorder, RecorderConfig};

    /// What a pass of 200 rounds left.
    pub(crate) fn parts(spec: &ProbeSpec, rates: &[f64]) -> Parts {
        let clock = Clock::raw();
        let mut recorder = Recorder::new(RecorderConfig::new(clock.rate(), spec.probe().latency_kind(spec.rtt), 1000));
        let samples: Vec<Sample> = (0..200)
            .map(|seq| Sample {
                seq,
                intended: seq * 20_000,
                sent: seq * 20_000,
                received: seq * 20_000 + 10_000 + seq % 5,
                ..Sample::default()
            })
            .collect();
        recorder.ingest(&samples);
        let map = MapRecorder::new(clock).finish();
        let timed = TimedResult {
            recorded: recorder.finish(Some(&map)),
            rates: rates.to_vec(),
            width_percent: None,
            pgm: None,
            events: Vec::new(),
            wake: None,
        };
        let report = StopReport { over_rate: 3, received: 480, ..StopReport::default() };
        Parts {
            path_info: PathInfo { loopback_intended: true, ..PathInfo::default() },
            map,
            own: StopReport::default(),
            others: vec![Other { report: Some(report), ..Other::default() }],
            self_cost: SelfCost::default(),
            vanished: None,
            interrupted: false,
            source: None,
            figures: Figures::Timed(Box::new(timed)),
        }
    }

    fn parts_of(spec: ProbeSpec, rates: &[f64], check: impl FnOnce(Measured)) {
        let factors = BTreeMap::from([("load".to_owned(), "none".into()), ("size".to_owned(), 1.into())]);
        let parts = parts(&spec, rates);
        let task = ProbeTask { factors, ..ProbeTask::new(spec, Target::default()) };
        check(assemble(&task, Pass { size: 64, rate: None, first: true }, parts));
    }

    fn has(measured: &Measured, id: FindingId) -> bool {
        measured.result.verdict.iter().any(|finding| finding.id == id)
    }

    #[test]
    fn a_pingpong_has_its_factors_and_half_the_round_trip() {
        parts_of(ProbeSpec::new(Probe::Pingpong, Protocol::Udp), &[], |measured| {
            let result = &measured.result;
            assert_eq!(result.size(), Some(64), "the measured size wins over the task's");
            assert_eq!(result.factor("protocol").as_deref(), Some("udp"));
            assert_eq!(result.factor("load").as_deref(), Some("none"));
            let latency = result.latency.as_ref().unwrap();
            assert_eq!((latency.kind, latency.count), (model::LatencyKind::RttHalf, 200));
            assert!((latency.mean_ns.unwrap() - 5001.0).abs() < 1.0, "{latency:?}");
            assert!(result.transactions.is_none() && result.mdev_ns.is_none());
            assert!(has(&measured, FindingId::Loss), "the rate limit is told");
            let reflector = result.ends.first(Role::Reflector).unwrap();
            assert_eq!(reflector.usage.transactions, Some(480), "its time covers the warm-up, so its count does too");
        });
    }

    #[test]
    fn rr_tells_its_rate_and_says_when_the_interval_is_too_wide() {
        let mut spec = ProbeSpec::new(Probe::Rr, Protocol::Tcp);
        spec.rtt = true;
        spec.options = model::ProbeOptions::Rr(RrSpec { response_size: Some(9), connect_each: false });
        spec.stop.interval_percent = Some(5.0);
        parts_of(spec, &[100.0, 150.0, 50.0], |measured| {
            let transactions = measured.result.transactions.as_ref().unwrap();
            assert!((transactions.per_second - 100.0).abs() < 1e-9);
            assert_eq!((transactions.passes, transactions.request_bytes, transactions.response_bytes), (3, 64, 9));
            assert!(transactions.ci95_percent.unwrap() > 50.0);
            assert!(has(&measured, FindingId::IntervalNotReached));
            assert_eq!(measured.result.latency.as_ref().unwrap().kind, model::LatencyKind::Rtt);
        });
    }

    #[test]
    fn a_narrow_rate_gives_no_finding() {
        let mut spec = ProbeSpec::new(Probe::Rr, Protocol::Tcp);
        spec.stop.interval_percent = Some(5.0);
        parts_of(spec, &[100.0, 100.1, 99.9], |measured| assert!(!has(&measured, FindingId::IntervalNotReached)));
    }
}
