//! The result document of one size, put together from what the loop, the recorder, the samplers and the reflector left.

use crate::stop;
use model::result::{EndReport, Ends, SelfCost, Transactions};
use model::worker::{Measured, ProbeTask};
use model::{
    ClockMap, Counters, EndUsage, Event, Finding, FindingId, LatencyKind, PgmReport, Probe, ProbeSpec, ResultDocument,
    TickRate,
};
use record::{EndEvidence, Evidence, PathFacts, Recorded};
use std::collections::BTreeMap;
use wire::StopReport;

/// Everything known about one measured size.
pub(crate) struct Parts<'a> {
    /// What was asked for.
    pub task: &'a ProbeTask,
    /// Message or request size in bytes.
    pub size: u32,
    /// Messages a second asked for, of `pace`.
    pub rate: Option<f64>,
    /// The initiator's name of its host, and both data addresses, where there are some.
    pub path_info: &'a PathInfo,
    /// The recorder's figures.
    pub recorded: Recorded,
    /// The initiator's clocks.
    pub map: ClockMap,
    /// The initiator's thread and machine.
    pub usage: EndUsage,
    /// Where the initiator's host dropped messages.
    pub counters: Counters,
    /// The reflector's report; absent for ICMP echo and when the peer vanished.
    pub reflector: Option<StopReport>,
    /// Answered transactions a second of each pass of `rr`.
    pub rates: &'a [f64],
    /// Width of the median's interval that ended the size, in percent, when it did.
    pub width_percent: Option<f64>,
    /// The tool's own cost.
    pub self_cost: SelfCost,
    /// Findings made so far.
    pub found: Vec<Finding>,
    /// How the peer vanished, if it did.
    pub vanished: Option<String>,
    /// Whether the program was asked to end before the stop rule was met.
    pub interrupted: bool,
    /// What PGM did, where it carried the messages.
    pub pgm: Option<PgmReport>,
    /// What happened when.
    pub events: Vec<Event>,
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
}

/// What `latency` is reported as.
pub(crate) fn kind(spec: &ProbeSpec) -> LatencyKind {
    // Out and back differ in an open loop: so half of the sum has no meaning.
    if spec.rtt || spec.probe == Probe::Pace { LatencyKind::Rtt } else { LatencyKind::RttHalf }
}

/// Puts the document together and judges it.
pub(crate) fn assemble(parts: Parts<'_>) -> Measured {
    let Parts {
        task,
        size,
        rate: pps,
        path_info,
        mut recorded,
        map,
        usage,
        counters,
        reflector,
        rates,
        width_percent,
        self_cost,
        mut found,
        vanished,
        interrupted,
        pgm,
        events,
    } = parts;
    let spec = &task.spec;
    let rate = map.rate;
    if let Some(report) = &reflector {
        found.extend(report.notes.iter().cloned());
        found.extend(over_rate(spec, report));
    }
    let preloads = host::stack::preloads();
    let verdict = record::verdict(&Evidence {
        spec,
        initiator: EndEvidence { spec: &spec.initiator, usage: &usage, counters: &counters, preloads: &preloads },
        reflector: reflector.as_ref().map(|report| EndEvidence {
            spec: &spec.reflector,
            usage: &report.usage,
            counters: &report.counters,
            preloads: &report.preloads,
        }),
        clock: Some(&map),
        recorded: &recorded,
        path: PathFacts {
            is_local: path_info.is_local,
            loopback_intended: path_info.loopback_intended,
            one_machine: path_info.one_machine,
            peer: path_info.peer.as_deref().unwrap_or("this machine"),
        },
        found: &found,
        interval_percent: rate_width(spec, rates).or(width_percent),
        peer_vanished: vanished.as_deref(),
        interrupted,
        load: None,
    });
    let latency_corrected = record::corrected(spec, &recorded);
    let ends = Ends {
        initiator: EndReport {
            spec: spec.initiator.clone(),
            host: path_info.host.clone(),
            address: path_info.local.clone(),
            usage,
            counters,
            stack_environment: host::stack_environment(),
            preloads,
        },
        reflector: Some(if spec.probe == Probe::Ping {
            // A kernel answers, of which only the address is known.
            EndReport { address: path_info.peer.clone(), ..EndReport::default() }
        } else {
            let mut report = reflector.unwrap_or_default();
            report.usage.transactions =
                Some(report.received / u64::from(spec.pings.max(1))).filter(|rounds| *rounds > 0);
            EndReport {
                spec: spec.reflector.clone(),
                host: None,
                address: path_info.peer.clone(),
                usage: report.usage,
                counters: report.counters,
                stack_environment: report.stack_environment,
                preloads: report.preloads,
            }
        }),
    };
    let (rate_report, one_way, segments, reflectors) = match recorded.pace.take() {
        Some(pace) => (Some(pace.rate), pace.one_way, pace.segments, pace.reflectors),
        None => (None, None, Vec::new(), Vec::new()),
    };
    let result = ResultDocument {
        format: model::FORMAT,
        probe: spec.probe,
        cell: None,
        repetition: None,
        started_ns: recorded.started_ns,
        elapsed_ns: recorded.elapsed_ns,
        factors: factors(task, size, pps),
        ends,
        latency: Some(recorded.latency),
        latency_intended: recorded.latency_intended,
        lateness: recorded.lateness,
        latency_corrected,
        transactions: (spec.probe == Probe::Rr).then(|| transactions(spec, size, rates)),
        rate: rate_report,
        one_way,
        segments,
        reflectors,
        stream: None,
        pgm,
        mdev_ns: recorded.mdev_ns.filter(|_| spec.probe == Probe::Ping),
        series: recorded.series,
        // It fails only for counts above 2^63.
        histogram: recorded.histogram.to_base64_v2().ok(),
        histogram_intended: recorded.schedule.as_ref().and_then(|schedule| schedule.intended.to_base64_v2().ok()),
        histogram_lateness: recorded.schedule.as_ref().and_then(|schedule| schedule.lateness.to_base64_v2().ok()),
        messages: recorded.messages,
        self_cost,
        clock: Some(map),
        load: None,
        prepared: Vec::new(),
        interrupted,
        verdict,
    };
    let raw = recorded.raw.map(|samples| raw(&samples, rate, recorded.first_tick));
    Measured { result, hlog: recorded.hlog, outliers: recorded.outliers, events, raw }
}

fn raw(samples: &[model::Sample], rate: TickRate, first_tick: u64) -> String {
    record::raw::encode(samples, rate, first_tick)
}

/// The task's factors with `protocol` and `size`, and `rate` where there is one; these win over what the task says.
fn factors(task: &ProbeTask, size: u32, rate: Option<f64>) -> BTreeMap<String, serde_json::Value> {
    let mut factors = task.factors.clone();
    factors.insert("protocol".to_owned(), task.spec.socket.protocol.word().into());
    factors.insert("size".to_owned(), size.into());
    if let Some(rate) = rate {
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

fn transactions(spec: &ProbeSpec, size: u32, rates: &[f64]) -> Transactions {
    let interval = stop::rate_interval(rates);
    Transactions {
        per_second: interval.mean,
        ci95_percent: interval.half_width_percent,
        passes: u32::try_from(rates.len()).unwrap_or(u32::MAX),
        request_bytes: size,
        response_bytes: spec.response_size.unwrap_or(size),
        connect_each: spec.connect_each,
    }
}

/// Width of the rate's interval in percent, where `rr` was asked for one; infinite with too few passes to know it.
fn rate_width(spec: &ProbeSpec, rates: &[f64]) -> Option<f64> {
    let asked = spec.probe == Probe::Rr && spec.stop.interval_percent.is_some();
    asked.then(|| stop::rate_interval(rates).half_width_percent.map_or(f64::INFINITY, |half| 2.0 * half))
}

/// The endpoint's owner limits the rate: datagrams above it are not answered, streams are read later.
fn over_rate(spec: &ProbeSpec, report: &StopReport) -> Option<Finding> {
    let count = report.over_rate;
    let detail = if spec.socket.protocol.is_stream() {
        format!("the endpoint's owner limits the rate, and {count} times it waited before it read on")
    } else {
        format!("{count} messages came faster than the endpoint's owner allows and were not answered")
    };
    let remedy = "leave a gap (--sleep-gap), or have its --max-rate raised";
    (count > 0).then(|| Finding::at(FindingId::Loss, "reflector", format!("{detail}: {remedy}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::{Clock, MapRecorder};
    use model::worker::Target;
    use model::{Protocol, Sample};
    use record::{Recorder, RecorderConfig};

    fn parts_of(spec: ProbeSpec, rates: &[f64], check: impl FnOnce(Measured)) {
        let clock = Clock::raw();
        let mut recorder = Recorder::new(RecorderConfig::new(clock.rate(), kind(&spec), 1000));
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
        let factors = BTreeMap::from([("load".to_owned(), "none".into()), ("size".to_owned(), 1.into())]);
        let task = ProbeTask { factors, ..ProbeTask::new(spec, Target::default()) };
        check(assemble(Parts {
            task: &task,
            size: 64,
            rate: None,
            path_info: &PathInfo { loopback_intended: true, ..PathInfo::default() },
            recorded: recorder.finish(Some(&map)),
            map,
            usage: EndUsage::default(),
            counters: Counters::default(),
            reflector: Some(StopReport { over_rate: 3, received: 480, ..StopReport::default() }),
            rates,
            width_percent: None,
            self_cost: SelfCost::default(),
            found: Vec::new(),
            vanished: None,
            interrupted: false,
            pgm: None,
            events: Vec::new(),
        }));
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
            assert_eq!((latency.kind, latency.count), (LatencyKind::RttHalf, 200));
            assert!((latency.mean_ns.unwrap() - 5001.0).abs() < 1.0, "{latency:?}");
            assert!(result.transactions.is_none() && result.mdev_ns.is_none());
            assert!(has(&measured, FindingId::Loss), "the rate limit is told");
            let reflector = result.ends.reflector.as_ref().unwrap();
            assert_eq!(reflector.usage.transactions, Some(480), "its time covers the warm-up, so its count does too");
        });
    }

    #[test]
    fn rr_tells_its_rate_and_says_when_the_interval_is_too_wide() {
        let mut spec = ProbeSpec::new(Probe::Rr, Protocol::Tcp);
        spec.rtt = true;
        spec.response_size = Some(9);
        spec.stop.interval_percent = Some(5.0);
        parts_of(spec, &[100.0, 150.0, 50.0], |measured| {
            let transactions = measured.result.transactions.as_ref().unwrap();
            assert!((transactions.per_second - 100.0).abs() < 1e-9);
            assert_eq!((transactions.passes, transactions.request_bytes, transactions.response_bytes), (3, 64, 9));
            assert!(transactions.ci95_percent.unwrap() > 50.0);
            assert!(has(&measured, FindingId::IntervalNotReached));
            assert_eq!(measured.result.latency.as_ref().unwrap().kind, LatencyKind::Rtt);
        });
    }

    #[test]
    fn a_narrow_rate_gives_no_finding() {
        let mut spec = ProbeSpec::new(Probe::Rr, Protocol::Tcp);
        spec.stop.interval_percent = Some(5.0);
        parts_of(spec, &[100.0, 100.1, 99.9], |measured| assert!(!has(&measured, FindingId::IntervalNotReached)));
    }
}
