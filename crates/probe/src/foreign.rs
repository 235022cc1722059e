//! A foreign worker as the initiator: its samples as a result. docs/foreign-workers.md is the contract.

mod worker;

use crate::document::{Figures, Other, Parts, PathInfo, TimedResult};
use crate::driver::{self, Collected, Engine, Pass, PassDone, PassEnd};
use crate::measuring_thread::AffinityGuard;
use crate::session::Session;
use crate::{Context, Outcome, ProbeError, peer};
use clock::{Clock, MapRecorder};
use flow::PassObserver;
use model::foreign::{self, ForeignTask};
use model::result::SelfCost;
use model::worker::{Measured, ProbeTask};
use model::{
    Finding, FindingId, OutlierRule, Probe, ProbeSpec, Role, Sample, SampleFlags, Source, SourceKind, WakeReport,
};
use record::{Recorder, RecorderConfig};
use std::time::Duration;
use wire::{StopReport, data};
use worker::{Worker, WorkerReport};

/// Share of the time asked for, in percent, after which a worker may end.
const TIME_PERCENT: u32 = 90;
/// By how much time stamps may span more than the worker's life: in percent, and in ns.
const SPAN_PERCENT: u64 = 5;
const SPAN_NS: u64 = 10_000_000;

pub(crate) fn measure(
    task: &ProbeTask,
    context: &Context,
    clock: Clock,
    sink: &mut dyn FnMut(Measured),
) -> Result<Outcome, ProbeError> {
    let _affinity = AffinityGuard::away_from(&[task.spec.initiator.cpu]);
    driver::drive(|| Ok(Foreign { task, context, clock }), task, context, &[None], sink)
}

struct Foreign<'a> {
    task: &'a ProbeTask,
    context: &'a Context,
    clock: Clock,
}

impl Engine for Foreign<'_> {
    fn run(&mut self, pass: Pass, observers: &mut dyn PassObserver) -> Result<Option<PassDone>, ProbeError> {
        let spec = &self.task.spec;
        let mut told = ForeignTask::of(spec, pass.size);
        let (mut session, path_info) = self.peer(&mut told)?;
        let mut worker = Worker::start(spec, &told)?;
        let ready = worker.ready()?;
        if let Some(session) = &mut session {
            // The worker shows the token itself.
            session.prove(spec.socket()?.protocol, || Ok(()))?;
            session.start(pass.size, pass.size, pass.explains)?;
        }
        observers.begin(pass.size, None);
        let mut map = MapRecorder::new(self.clock);
        let started_ns = clock::realtime_ns();
        worker.say(foreign::START)?;
        let said = worker.samples(spec, ready, self.context)?;
        map.push();
        let mut own = StopReport::default();
        observers.end(&mut own);
        // The worker has the data path.
        own.carried = None;
        let end = if said.interrupted { PassEnd::Stopped } else { PassEnd::Done };
        let name = session.as_ref().map(|session| session.name.clone()).unwrap_or_default();
        let Collected { reports, failure } = driver::collect_reports(session.iter_mut(), &name, pass.size, end, None);
        if let Some(session) = session {
            session.close();
        }
        if said.interrupted && said.samples.is_empty() {
            return Ok(None);
        }
        let mut recorded = recorded(spec, &said);
        recorded.started_ns = started_ns;
        let report = reports.into_iter().next().flatten();
        let answered = report.as_ref().map(|report| report.sent);
        own.notes.extend(findings(spec, &said, recorded.messages.received, answered));
        let vanished = driver::vanished(failure.as_ref(), &mut own.notes);
        let wake = (spec.probe() == Probe::Wake).then(|| WakeReport {
            interval_ns: spec.interval_us.map(|us| 1000 * u64::from(us)),
            ..WakeReport::default()
        });
        let timed = TimedResult { wake, ..TimedResult::new(recorded) };
        // Raw samples are in the worker's ticks.
        let map = model::ClockMap { rate: said.rate, points: Vec::new(), ..map.finish() };
        let has_peer = spec.probe().has_peer();
        let other = has_peer.then(|| Other { report, ..Other::only(&path_info) });
        let parts = Parts {
            path_info,
            map,
            own,
            others: other.into_iter().collect(),
            self_cost: SelfCost::default(),
            vanished,
            interrupted: said.interrupted,
            figures: Figures::Timed(Box::new(timed)),
            source: Some(said.source(spec)),
        };
        Ok(Some(PassDone { parts, failure, saturated: false }))
    }

    fn close(self) {}
}

impl Foreign<'_> {
    /// Opens the path to the reflector, where there is one, and tells the worker of it.
    fn peer(&self, told: &mut ForeignTask) -> Result<(Option<Session>, PathInfo), ProbeError> {
        let (spec, context) = (&self.task.spec, self.context);
        if spec.probe() == Probe::Wake {
            return Ok((None, PathInfo { one_machine: true, ..PathInfo::default() }));
        }
        let unproved = peer::request_path(spec, &self.task.target, context, peer::request(spec)?)?;
        let peer::UnprovedPath { session, opened, address, one_machine } = unproved;
        told.peer_address = Some(address.ip().to_string());
        told.peer_port = Some(address.port());
        told.hello = Some(hex(&data::prove(&opened.token)));
        told.tag = Some(hex(&opened.token.tag().to_le_bytes()));
        let path_info = PathInfo { one_machine, ..peer::path_info(context, None, address) };
        Ok((Some(session), path_info))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl WorkerReport {
    fn source(&self, spec: &ProbeSpec) -> Source {
        Source {
            kind: SourceKind::Foreign,
            tool: self.name.clone(),
            version: self.version.clone(),
            file: Some(spec.foreign.join(" ")),
            bin_ns: Some(1_000_000_000 / self.ticks_per_second.max(1)).filter(|ns| *ns > 1),
            overflowed: None,
        }
    }

    /// From the first time stamp to the last, in ns.
    fn span_ns(&self) -> u64 {
        let first = self.samples.first().map_or(0, |sample| sample.sent);
        let last = self.samples.iter().map(|sample| sample.received.unwrap_or(sample.sent)).max().unwrap_or(first);
        self.rate.ns(last.saturating_sub(first))
    }
}

fn recorded(spec: &ProbeSpec, said: &WorkerReport) -> record::Recorded {
    let timeout = said.rate.ticks(u64::from(spec.timeout_ms) * 1_000_000);
    let is_wake = spec.probe() == Probe::Wake;
    let samples: Vec<Sample> = said
        .samples
        .iter()
        .map(|one| Sample {
            seq: one.seq,
            intended: one.sent,
            sent: one.sent,
            received: one.received.unwrap_or(one.sent.saturating_add(timeout)),
            flags: if one.received.is_none() { SampleFlags::LOST } else { SampleFlags::default() },
            ..Sample::default()
        })
        .collect();
    let config = RecorderConfig {
        outliers: OutlierRule { ..spec.outliers },
        raw_capacity: driver::raw_capacity(spec).min(samples.len()),
        has_header: !is_wake,
        ..RecorderConfig::new(
            said.rate,
            spec.probe().latency_kind(spec.rtt),
            u32::try_from(said.span_ns() / 1_000_000 + 1).unwrap_or(u32::MAX),
        )
    };
    let mut recorder = Recorder::new(config);
    recorder.ingest(&samples);
    let mut recorded = recorder.finish(None);
    // A worker tells neither.
    (recorded.messages.duplicated, recorded.messages.reordered, recorded.messages.late) = (None, None, None);
    recorded
}

/// The finding of each foreign result, and what does not fit together.
fn findings(spec: &ProbeSpec, said: &WorkerReport, received: u64, answered: Option<u64>) -> Vec<Finding> {
    let version = said.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let detail = format!(
        "measured by {}{version} with time stamps of its own ({}): its policy, CPU use and faults were not watched",
        said.name, said.clock
    );
    let mut found = vec![Finding::at(FindingId::Foreign, Role::Initiator, detail)];
    let lived_ns = u64::try_from(said.took.as_nanos()).unwrap_or(u64::MAX);
    let span_ns = said.span_ns();
    if span_ns > lived_ns.saturating_add(lived_ns / 100 * SPAN_PERCENT).saturating_add(SPAN_NS) {
        let detail = format!(
            "the time stamps of {} span {:.1} ms, and it ran for {:.1} ms: look at its ticks_per_second ({}) and its clock",
            said.name,
            span_ns as f64 / 1e6,
            lived_ns as f64 / 1e6,
            said.ticks_per_second
        );
        found.push(Finding::at(FindingId::ClockUnfit, Role::Initiator, detail));
    }
    found.extend(missing(spec, said).map(|why| {
        let detail = format!("{why}, so that some of its samples are missing: the slowest may be among them");
        Finding::at(FindingId::SamplesOverrun, Role::Initiator, detail)
    }));
    if let Some(answered) = answered.filter(|answered| received > *answered) {
        let detail = format!(
            "{} says that {received} messages were answered, and the reflector answered {answered}: it measured something else",
            said.name
        );
        found.push(Finding::at(FindingId::PathNotAsClaimed, Role::Initiator, detail));
    }
    found
}

/// Why a worker did not tell all that it was asked for, in words.
fn missing(spec: &ProbeSpec, said: &WorkerReport) -> Option<String> {
    if said.interrupted {
        return None;
    }
    let (name, count) = (&said.name, said.samples.len() as u64);
    let ends = said.samples.first().zip(said.samples.last());
    let numbers = ends.map_or(0, |(first, last)| (last.seq - first.seq).saturating_add(1));
    // Of `wake` they may be those of deadlines, of which some pass by.
    if numbers > count && spec.probe() == Probe::Pingpong {
        return Some(format!("{name} numbered {numbers} rounds and wrote {count} samples"));
    }
    let asked_ms = Some(spec.stop.max_ms).filter(|ms| *ms != u32::MAX);
    let is_over = |ms: u32| said.took >= Duration::from_millis(ms.into()) * TIME_PERCENT / 100;
    if count >= spec.stop.max_count || asked_ms.is_some_and(is_over) {
        return None;
    }
    Some(match asked_ms {
        Some(ms) => format!("{name} was asked for {ms} ms and ended after {} ms", said.took.as_millis()),
        None => format!("{name} was asked for {} rounds and wrote {count} samples", spec.stop.max_count),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::TickRate;
    use model::foreign::ForeignSample;

    fn said(samples: &[(u64, u64, Option<u64>)], took: Duration) -> WorkerReport {
        let sample = |(seq, sent, received): &(u64, u64, Option<u64>)| ForeignSample {
            seq: *seq,
            sent: *sent,
            received: *received,
        };
        WorkerReport {
            name: "w".to_owned(),
            version: None,
            clock: "c".to_owned(),
            rate: TickRate::from_hz(1e6),
            ticks_per_second: 1_000_000,
            samples: samples.iter().map(sample).collect(),
            took,
            interrupted: false,
        }
    }

    #[test]
    fn samples_become_figures_in_the_workers_ticks() {
        let spec = ProbeSpec::new(Probe::Pingpong, model::Protocol::Udp);
        let all: Vec<_> =
            (0..1000).map(|seq| (seq, seq * 100, (seq != 7).then_some(seq * 100 + 20 + seq % 2))).collect();
        let said = said(&all, Duration::from_millis(100));
        let recorded = recorded(&spec, &said);
        assert_eq!((recorded.messages.sent, recorded.messages.received, recorded.messages.lost), (1000, 999, 1));
        // Percentiles are as fine as the histogram, 0.1 %.
        assert!(recorded.latency.p50_ns.is_some_and(|p50_ns| p50_ns.abs_diff(10_000) <= 10), "{:?}", recorded.latency);
        assert_eq!(recorded.latency.min_ns, Some(10_000));
        assert_eq!(recorded.messages.reordered, None);
        assert_eq!(said.source(&spec).bin_ns, Some(1000));
    }

    #[test]
    fn what_does_not_fit_together_is_found() {
        let spec = |max_count, max_ms| {
            let mut spec = ProbeSpec::new(Probe::Pingpong, model::Protocol::Udp);
            (spec.stop.max_count, spec.stop.max_ms) = (max_count, max_ms);
            spec
        };
        let ids = |said: &WorkerReport, received, answered| -> Vec<FindingId> {
            findings(&spec(2, u32::MAX), said, received, answered).into_iter().map(|finding| finding.id).collect()
        };
        let good = said(&[(0, 0, Some(10)), (1, 90_000, Some(90_010))], Duration::from_millis(91));
        assert_eq!(ids(&good, 2, Some(2)), [FindingId::Foreign]);
        assert_eq!(ids(&good, 3, Some(2)), [FindingId::Foreign, FindingId::PathNotAsClaimed]);
        let fast = said(&[(0, 0, Some(10)), (1, 900_000, Some(900_010))], Duration::from_millis(91));
        assert_eq!(ids(&fast, 2, None), [FindingId::Foreign, FindingId::ClockUnfit]);
        // Catches: 490 samples of 500 rounds were trusted.
        for (max_count, max_ms, is_whole) in [
            (2, u32::MAX, true),
            (3, u32::MAX, false),
            (u64::MAX, 100, true),
            (u64::MAX, 1000, false),
            (3, 100, true),
            (3, 1000, false),
        ] {
            assert_eq!(missing(&spec(max_count, max_ms), &good).is_none(), is_whole, "{max_count} {max_ms}");
        }
        let gap = said(&[(0, 0, Some(10)), (2, 90_000, Some(90_010))], Duration::from_millis(91));
        let why = missing(&spec(2, u32::MAX), &gap).unwrap();
        assert_eq!(why, "w numbered 3 rounds and wrote 2 samples");
        assert_eq!(missing(&spec(9, 1000), &WorkerReport { interrupted: true, ..gap }), None);
    }
}
