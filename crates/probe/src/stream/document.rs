//! What a stream measured, and its part of the result document.

use model::stream::{StreamInterval, StreamReceived, StreamSent};
use model::worker::Measured;
use model::{Direction, Finding, Latency, Messages, Participants, Role, StreamReport, StreamSpec};
use record::stream::FlowEnds;
use wire::{StopReport, StreamEnd};

pub(crate) struct StreamResult {
    pub(super) spec: StreamSpec,
    pub(super) size: u32,
    pub(super) datagrams: bool,
    pub(super) started_ns: u64,
    /// What went up from here.
    pub(super) sent: Option<StreamSent>,
    /// What came down here.
    pub(super) received: Option<StreamReceived>,
    /// Intervals that the endpoint reported while it ran.
    pub(super) intervals: Vec<StreamInterval>,
    pub(super) endpoint: StreamEnd,
    pub(super) idle: Option<Latency>,
    pub(super) working: Option<Latency>,
    pub(super) hlog: String,
}

impl StreamResult {
    /// Takes the endpoint's counts. An endpoint that vanished has left its reports of each second.
    pub(crate) fn add_endpoint(&mut self, report: Option<&mut StopReport>, vanished: bool) {
        self.endpoint = report.and_then(|report| report.stream.take()).unwrap_or_default();
        if self.endpoint.received.is_none() && vanished && self.spec.goes_up() {
            self.endpoint.received = Some(record::stream::from_intervals(&self.intervals));
        }
    }

    fn sides(&self) -> Vec<FlowEnds<'_>> {
        let side = |direction, sent, received| FlowEnds {
            direction,
            spec: &self.spec,
            size: self.size,
            datagrams: self.datagrams,
            sent,
            received,
        };
        let (here, there) = (self, &self.endpoint);
        let up = self.spec.goes_up().then(|| side(Direction::Up, here.sent.as_ref(), there.received.as_ref()));
        let down = self.spec.goes_down().then(|| side(Direction::Down, there.sent.as_ref(), here.received.as_ref()));
        up.into_iter().chain(down).collect()
    }

    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.sides().iter().flat_map(record::stream::findings).collect()
    }

    /// Datagrams of both directions; nothing for TCP, which has no messages.
    pub(crate) fn messages(&self) -> Messages {
        if !self.datagrams {
            return Messages::default();
        }
        let sides = self.sides();
        let sum = |count: fn(&FlowEnds<'_>) -> u64| sides.iter().map(count).sum::<u64>();
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

    pub(crate) fn fill(self, measured: &mut Measured) {
        let result = &mut measured.result;
        let (asked_bps, asked_pps) = record::stream::asked(&self.spec, self.size, self.datagrams);
        let bytes = |sent: Option<&StreamSent>, received: Option<&StreamReceived>| {
            sent.map_or(0, |sent| sent.bytes) + received.map_or(0, |received| received.bytes)
        };
        let own_bytes = bytes(self.sent.as_ref(), self.received.as_ref());
        let endpoint_bytes = bytes(self.endpoint.sent.as_ref(), self.endpoint.received.as_ref());
        let sides = self.sides();
        let flows: Vec<_> = sides.iter().map(record::stream::flow_report).collect();
        let series = sides.iter().flat_map(record::stream::series).collect();
        let report = StreamReport {
            asked_bps,
            asked_pps,
            initiator_us_per_kib: demand(&result.ends, Role::Initiator, own_bytes),
            reflector_us_per_kib: demand(&result.ends, Role::Reflector, endpoint_bytes),
            working_latency: self.working,
            idle_latency: self.idle,
            flows,
        };
        result.started_ns = self.started_ns;
        result.elapsed_ns = report.flows.iter().map(|flow| flow.elapsed_ns).max().unwrap_or(0);
        result.series = series;
        result.stream = Some(report);
        measured.hlog = self.hlog;
    }
}

/// netperf's service demand: CPU time of the whole machine for a KiB of payload, in µs.
fn demand(ends: &Participants, role: Role, bytes: u64) -> Option<f64> {
    let usage = &ends.first(role)?.usage;
    (bytes > 0 && usage.elapsed_ns > 0).then(|| usage.machine_busy_ns as f64 / 1000.0 / (bytes as f64 / 1024.0))
}
