//! The result document of one pass, from what the engine, the recorder, the samplers and the reflectors left.

use crate::driver::Pass;
use crate::stop;
use model::result::{EndReport, SelfCost, Transactions};
use model::worker::{Measured, ProbeTask};
use model::{ClockMap, CycleReport, Event, FrameBackend, PgmReport, Probe, ProbeSpec, RrSpec, Source, WakeReport};
use record::{FarEnd, Program, Recorded};
use wire::StopReport;

pub(crate) struct Parts {
    /// Addresses of both ends.
    pub path_info: PathInfo,
    pub map: ClockMap,
    /// What the initiator reports of itself: usage, what was observed around the loop, and the findings made so far.
    pub own: StopReport,
    pub others: Vec<Other>,
    pub self_cost: SelfCost,
    /// How the peer vanished, if it did.
    pub vanished: Option<String>,
    /// Whether the program was asked to end before the stop rule was met.
    pub interrupted: bool,
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
    pub one_machine: bool,
    /// What it reported; absent for a kernel, and when it vanished.
    pub report: Option<StopReport>,
}

impl Other {
    /// The only one, without a report.
    pub(crate) fn only(path: &PathInfo) -> Self {
        Self { name: None, address: path.peer.clone(), one_machine: path.one_machine, report: None }
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
    pub pgm: Option<PgmReport>,
    pub events: Vec<Event>,
    pub wake: Option<WakeReport>,
    pub cycle: Option<CycleReport>,
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
    pub frame_backend: Option<FrameBackend>,
}

/// Has the document put together and judged.
pub(crate) fn assemble(task: &ProbeTask, pass: Pass, mut parts: Parts) -> Measured {
    let spec = &task.spec;
    if let Figures::Stream(streamed) = &mut parts.figures {
        let report = parts.others.first_mut().and_then(|other| other.report.as_mut());
        streamed.add_endpoint(report, parts.vanished.is_some());
        parts.own.notes.extend(streamed.findings());
    }
    let Parts { path_info, others, map, mut own, self_cost, vanished, interrupted, .. } = parts;
    own.frame_backend = path_info.frame_backend;
    let found = std::mem::take(&mut own.notes);
    // What only some probes have is filled in at the end.
    type Rest = Box<dyn FnOnce(&mut Measured)>;
    let (messages, recorded, interval_percent, rest): (_, _, _, Rest) = match parts.figures {
        Figures::Timed(timed) => {
            let TimedResult { recorded, rates, width_percent, pgm, events, wake, cycle } = *timed;
            let interval_percent = rate_width(spec, &rates).or(width_percent);
            let transactions = spec.rr().map(|rr| transactions(rr, pass.size, &rates));
            let rest = move |measured: &mut Measured| {
                let result = &mut measured.result;
                (result.transactions, result.pgm, result.wake, result.cycle) = (transactions, pgm, wake, cycle);
                measured.events = events;
            };
            (recorded.messages.clone(), Some(recorded), interval_percent, Box::new(rest))
        }
        Figures::Stream(streamed) => {
            (streamed.messages(), None, None, Box::new(move |measured: &mut Measured| streamed.fill(measured)))
        }
    };
    let mut measured = record::assemble(record::Pass {
        spec,
        program: Program::Windhover,
        size: pass.size,
        rate_pps: pass.rate,
        factors: task.factors.clone(),
        initiator: own.into_end(spec.initiator.clone(), path_info.host, path_info.local),
        others: others.into_iter().map(|other| far_end(spec, other)).collect(),
        is_local: path_info.is_local,
        loopback_intended: path_info.loopback_intended,
        tick_rate: map.rate,
        clock: Some(map),
        self_cost,
        found,
        vanished,
        interrupted,
        messages,
        recorded,
        interval_percent,
        source: parts.source,
    });
    rest(&mut measured);
    measured
}

impl TimedResult {
    /// Of a loop that has nothing else to say.
    pub(crate) fn new(recorded: Recorded) -> Self {
        Self {
            recorded,
            rates: Vec::new(),
            width_percent: None,
            pgm: None,
            events: Vec::new(),
            wake: None,
            cycle: None,
        }
    }
}

fn far_end(spec: &ProbeSpec, other: Other) -> FarEnd {
    let Other { name, address, one_machine, report } = other;
    let has_reported = report.is_some();
    let mut report = report.unwrap_or_default();
    let (notes, received, over_rate) = (std::mem::take(&mut report.notes), report.received, report.over_rate);
    // Of a kernel or another tool only the address is known.
    let end = if spec.probe() == Probe::Ping || !spec.peer.is_own() {
        EndReport { address, ..EndReport::default() }
    } else {
        report.into_end(spec.reflector.clone(), name.clone(), address)
    };
    FarEnd { name, one_machine, has_reported, end, notes, received, over_rate }
}

fn transactions(rr: &RrSpec, size: u32, rates: &[f64]) -> Transactions {
    Transactions {
        per_second: stats::mean(rates).unwrap_or(0.0),
        ci95_percent: stop::rate_interval(rates),
        passes: u32::try_from(rates.len()).unwrap_or(u32::MAX),
        request_bytes: size,
        response_bytes: rr.response_size.unwrap_or(size),
        connect_each: rr.connect_each,
    }
}

/// Width of the rate's interval in percent, where `rr` was asked for one; infinite with too few passes to know it.
fn rate_width(spec: &ProbeSpec, rates: &[f64]) -> Option<f64> {
    let asked = spec.probe() == Probe::Rr && spec.stop.interval_percent.is_some();
    asked.then(|| stop::rate_interval(rates).map_or(f64::INFINITY, |half| 2.0 * half))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clock::{Clock, MapRecorder};
    use model::worker::Target;
    use model::{FindingId, Protocol, Role, Sample};
    use record::{Recorder, RecorderConfig};
    use std::collections::BTreeMap;

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
        let timed = TimedResult { rates: rates.to_vec(), ..TimedResult::new(recorder.finish(Some(&map))) };
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
        check(assemble(&task, Pass { size: 64, rate: None, first: true, explains: false }, parts));
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
