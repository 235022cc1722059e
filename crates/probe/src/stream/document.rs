//! The result document of a stream.

use super::open::OpenStream;
use clock::Clock;
use model::result::{EndReport, Ends, SelfCost};
use model::stream::{StreamInterval, StreamReceived, StreamSent};
use model::worker::{Measured, ProbeTask};
use model::{
    ClockMap, Counters, Direction, EndUsage, Finding, Latency, LatencyKind, Messages, ResultDocument, StreamReport,
};
use record::stream::Sides;
use record::{EndEvidence, Evidence, PathFacts, Recorder, RecorderConfig};
use wire::StopReport;

/// Everything known about one stream.
pub(super) struct Parts<'a> {
    pub(super) task: &'a ProbeTask,
    pub(super) opened: &'a OpenStream,
    pub(super) size: u32,
    pub(super) clock: Clock,
    pub(super) started_ns: u64,
    /// What went up from here.
    pub(super) sent: Option<StreamSent>,
    /// What came down here.
    pub(super) received: Option<StreamReceived>,
    /// Intervals that the endpoint reported while it ran.
    pub(super) told: Vec<StreamInterval>,
    pub(super) usage: EndUsage,
    pub(super) counters: Counters,
    pub(super) map: ClockMap,
    pub(super) report: Option<StopReport>,
    pub(super) idle: Option<Latency>,
    pub(super) working: Option<Latency>,
    pub(super) hlog: String,
    pub(super) found: Vec<Finding>,
    pub(super) vanished: Option<String>,
    pub(super) interrupted: bool,
}

/// Puts the document together and judges it.
pub(super) fn assemble(parts: Parts<'_>) -> Measured {
    let Parts { task, opened, size, clock, mut found, report, .. } = parts;
    let spec = &task.spec;
    let stream = &opened.stream;
    let (far, notes, reflector) = split(report);
    found.extend(notes);
    // An endpoint that vanished has left its reports of each second.
    let far_received = far.received.or_else(|| {
        (parts.vanished.is_some() && stream.goes_up()).then(|| record::stream::from_intervals(&parts.told))
    });
    let side = |direction, sent, received| Sides {
        direction,
        spec: stream,
        size,
        datagrams: opened.datagrams,
        sent,
        received,
    };
    let mut sides = Vec::new();
    if stream.goes_up() {
        sides.push(side(Direction::Up, parts.sent.as_ref(), far_received.as_ref()));
    }
    if stream.goes_down() {
        sides.push(side(Direction::Down, far.sent.as_ref(), parts.received.as_ref()));
    }
    found.extend(sides.iter().flat_map(record::stream::findings));
    let messages = messages(&sides, opened.datagrams);
    let mut recorded = Recorder::new(RecorderConfig::new(clock.rate(), LatencyKind::Rtt, 1)).finish(None);
    recorded.messages = messages.clone();
    let preloads = host::stack::preloads();
    let known = reflector.as_ref().map(|end| EndEvidence {
        spec: &spec.reflector,
        usage: &end.usage,
        counters: &end.counters,
        preloads: &end.preloads,
    });
    let path_info = &opened.path_info;
    let verdict = record::verdict(&Evidence {
        spec,
        initiator: EndEvidence {
            spec: &spec.initiator,
            usage: &parts.usage,
            counters: &parts.counters,
            preloads: &preloads,
        },
        reflector: known,
        clock: Some(&parts.map),
        recorded: &recorded,
        path: PathFacts {
            is_local: path_info.is_local,
            loopback_intended: path_info.loopback_intended,
            one_machine: path_info.one_machine,
            peer: path_info.peer.as_deref().unwrap_or("this machine"),
        },
        found: &found,
        interval_percent: None,
        peer_vanished: parts.vanished.as_deref(),
        interrupted: parts.interrupted,
        load: None,
    });
    let (asked_bps, asked_pps) = record::stream::asked(stream, size, opened.datagrams);
    // What an end sent and what it received, for the CPU that it cost.
    let up = sides.iter().find(|side| side.direction == Direction::Up);
    let down = sides.iter().find(|side| side.direction == Direction::Down);
    let sent = |side: Option<&Sides<'_>>| side.and_then(|side| side.sent).map_or(0, |sent| sent.bytes);
    let received = |side: Option<&Sides<'_>>| side.and_then(|side| side.received).map_or(0, |received| received.bytes);
    let far_usage = reflector.as_ref().map(|end| &end.usage);
    let figures = StreamReport {
        flows: sides.iter().map(record::stream::flow_report).collect(),
        asked_bps,
        asked_pps,
        initiator_us_per_kib: demand(&parts.usage, sent(up) + received(down)),
        reflector_us_per_kib: far_usage.and_then(|usage| demand(usage, received(up) + sent(down))),
        working_latency: parts.working,
        idle_latency: parts.idle,
    };
    let elapsed_ns = figures.flows.iter().map(|flow| flow.elapsed_ns).max().unwrap_or(0);
    let mut factors = task.factors.clone();
    factors.insert("protocol".to_owned(), spec.socket.protocol.word().into());
    factors.insert("size".to_owned(), size.into());
    let result = ResultDocument {
        format: model::FORMAT,
        probe: spec.probe,
        cell: None,
        repetition: None,
        started_ns: parts.started_ns,
        elapsed_ns,
        factors,
        ends: Ends {
            initiator: EndReport {
                spec: spec.initiator.clone(),
                host: path_info.host.clone(),
                address: path_info.local.clone(),
                usage: parts.usage,
                counters: parts.counters,
                stack_environment: host::stack_environment(),
                preloads,
            },
            reflector: Some(EndReport {
                spec: spec.reflector.clone(),
                address: path_info.peer.clone(),
                ..reflector.unwrap_or_default()
            }),
        },
        latency: None,
        latency_intended: None,
        lateness: None,
        latency_corrected: None,
        transactions: None,
        rate: None,
        one_way: None,
        segments: Vec::new(),
        reflectors: Vec::new(),
        stream: Some(figures),
        pgm: None,
        mdev_ns: None,
        series: sides.iter().flat_map(record::stream::series).collect(),
        histogram: None,
        histogram_intended: None,
        histogram_lateness: None,
        messages,
        self_cost: SelfCost { clock_read_ns: clock.read_cost_ns(), ..SelfCost::default() },
        clock: Some(parts.map),
        load: None,
        prepared: Vec::new(),
        interrupted: parts.interrupted,
        verdict,
    };
    Measured { result, hlog: parts.hlog, outliers: Vec::new(), events: Vec::new(), raw: None }
}

/// The far end's report: what it streamed, its findings, and what it was.
fn split(report: Option<StopReport>) -> (wire::StreamEnd, Vec<Finding>, Option<EndReport>) {
    let Some(report) = report else { return (wire::StreamEnd::default(), Vec::new(), None) };
    let end = EndReport {
        usage: report.usage,
        counters: report.counters,
        stack_environment: report.stack_environment,
        preloads: report.preloads,
        ..EndReport::default()
    };
    (report.stream.unwrap_or_default(), report.notes, Some(end))
}

/// netperf's service demand: CPU time of the whole machine, for a KiB of payload, in µs.
fn demand(usage: &EndUsage, bytes: u64) -> Option<f64> {
    (bytes > 0 && usage.elapsed_ns > 0).then(|| usage.machine_busy_ns as f64 / 1000.0 / (bytes as f64 / 1024.0))
}

/// Datagrams of both directions; nothing for TCP, which has no messages.
fn messages(sides: &[Sides<'_>], datagrams: bool) -> Messages {
    if !datagrams {
        return Messages::default();
    }
    let sum = |pick: fn(&Sides<'_>) -> u64| sides.iter().map(pick).sum::<u64>();
    let received = sum(|side| side.received.map_or(0, |received| received.received));
    let lost = sum(|side| side.lost().unwrap_or(0));
    Messages {
        sent: received + lost,
        received,
        lost,
        duplicated: Some(sum(|side| side.received.map_or(0, |received| received.duplicated))),
        reordered: Some(sum(|side| side.received.map_or(0, |received| received.reordered))),
        reorder_depth: None,
        late: None,
    }
}
