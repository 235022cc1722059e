//! One late message: what both ends know of it, put together.

use crate::blame::{Place, deferred, measured, polled, settle};
use crate::stay::{Side, Slice, Stage, Stamp, Stay, Work};
use crate::timeline::Timeline;
use model::{Cause, CauseClass, ExplainedStay, FarStays, PathSegment, SegmentTime};
use stats::Histogram;
use std::cmp::Reverse;

/// A segment is longer than usual from this on, beside 3 % of its median.
const LEAST_EXCESS_NS: u64 = 1_000;
/// Most moves of a thread within a segment that are followed.
const MOST_MOVES: usize = 8;
/// Medians are computed anew after so many messages.
const MEDIANS_EVERY: u64 = 2048;

/// How long segments usually take at one end.
pub struct Usual {
    side: Side,
    segments: Vec<(Histogram, u64)>,
    stay: (Histogram, u64),
    /// With the wait of the packet before it.
    deferred_stay: Histogram,
    /// Between the driver and the stack, at the near end: both ways and the far end's stay.
    away: (Histogram, u64),
    messages: u64,
}

impl Usual {
    pub fn new(side: Side) -> Self {
        let empty = || (Histogram::new(), 0);
        let segments = PathSegment::ALL.iter().map(|_| empty()).collect();
        Self { side, segments, stay: empty(), deferred_stay: Histogram::new(), away: empty(), messages: 0 }
    }

    pub fn add(&mut self, stay: &Stay) {
        for slice in stay.slices(self.side) {
            if let Some((histogram, _)) = self.segments.get_mut(slice.segment as usize) {
                histogram.record(slice.ns());
            }
        }
        stay.ns(self.side).into_iter().for_each(|ns| self.stay.0.record(ns));
        stay.ns(self.side).into_iter().for_each(|ns| self.deferred_stay.record(ns + stay.deferral_ns()));
        stay.away_ns().into_iter().for_each(|ns| self.away.0.record(ns));
        self.messages += 1;
        if self.messages.is_power_of_two() || self.messages.is_multiple_of(MEDIANS_EVERY) {
            for (histogram, median) in self.segments.iter_mut().chain([&mut self.stay, &mut self.away]) {
                *median = histogram.quantile(0.5).unwrap_or(0);
            }
        }
    }

    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Median, in ns.
    pub fn stay_ns(&self) -> u64 {
        self.stay.1
    }

    /// A quantile of the stays, in ns.
    pub fn stay_quantile(&self, q: f64) -> Option<u64> {
        self.stay.0.quantile(q)
    }

    /// A quantile of the stays with the wait of the packet before each, in ns.
    pub fn deferred_stay_quantile(&self, q: f64) -> Option<u64> {
        self.deferred_stay.quantile(q)
    }

    pub fn stays(&self) -> &Histogram {
        &self.stay.0
    }

    fn excess(&self, slice: &Slice) -> u64 {
        let median = self.segments.get(slice.segment as usize).map_or(0, |(_, median)| *median);
        beyond(slice.ns(), median)
    }
}

/// What is beyond the usual, if it is more than the noise.
fn beyond(ns: u64, median: u64) -> u64 {
    let excess = ns.saturating_sub(median);
    if excess < LEAST_EXCESS_NS.max(median / 32) { 0 } else { excess }
}

/// Explains a message at one end. `timeline` gives what a CPU did between two times, and how a thread had left it before.
pub fn explain_stay(
    stay: &Stay,
    usual: &Usual,
    priority: u8,
    host: &str,
    timeline: &mut dyn FnMut(u16, u64, u64, i32) -> Timeline,
) -> ExplainedStay {
    let side = usual.side;
    let (mut segments, mut causes) = (Vec::new(), Vec::new());
    for slice in stay.slices(side) {
        let excess_ns = usual.excess(&slice);
        segments.push(SegmentTime {
            segment: slice.segment,
            host: host.to_owned(),
            cpu: Some(u32::from(slice.to.cpu)),
            ns: slice.ns(),
            excess_ns,
        });
        if excess_ns > 0 {
            causes.extend(blame_parts(&parts(&slice, timeline), excess_ns, priority, host));
        }
    }
    let deferral_ns = stay.deferral_ns();
    if let Some(received) = stay.at(Stage::Received).filter(|_| deferral_ns > LEAST_EXCESS_NS) {
        let segment = if side == Side::Near { PathSegment::WireBack } else { PathSegment::WireOut };
        let place = Place { host, cpu: received.cpu, segment };
        let raised_ns = received.at_ns - deferral_ns;
        let times = (raised_ns, received.at_ns);
        if stay.is_polled() {
            let lane = timeline(received.cpu, raised_ns, received.at_ns, stay.receiver());
            causes.extend(polled(times, stay.receiver(), priority, &place, &lane));
        } else {
            let lane = timeline(received.cpu, raised_ns, received.at_ns, 0);
            causes.extend(deferred(times, LEAST_EXCESS_NS, &place, &lane));
        }
    }
    let at = |stage| stay.at(stage).map_or(0, |stamp| stamp.at_ns);
    ExplainedStay {
        seq: stay.seq,
        start_ns: stay.start_ns(side),
        ns: stay.ns(side).unwrap_or(0),
        received_ns: at(Stage::Received),
        sent_ns: at(Stage::Sent),
        segments,
        causes,
    }
}

/// A segment cut at the moves of its thread, each part with what its CPU did.
fn parts(slice: &Slice, timeline: &mut dyn FnMut(u16, u64, u64, i32) -> Timeline) -> Vec<(Slice, Timeline)> {
    let (mut left, mut parts) = (*slice, Vec::new());
    let moves = matches!(slice.work, Work::Runs | Work::Waits);
    loop {
        let (from_ns, to_ns) = (left.from.at_ns, left.to.at_ns);
        let lane = timeline(left.to.cpu, from_ns, to_ns, left.thread);
        let moved = lane.last_move(left.thread, from_ns + 1, to_ns).filter(|_| moves && parts.len() < MOST_MOVES);
        let from = Stamp { at_ns: moved.map_or(from_ns, |moved| moved.at_ns), ..left.from };
        parts.push((Slice { from, ..left }, lane));
        match moved {
            Some(moved) => left.to = moved,
            None => break,
        }
    }
    parts.reverse();
    parts
}

/// The causes of all parts, the largest first; together they are the excess. What no rule explains is the last part's.
fn blame_parts(parts: &[(Slice, Timeline)], excess_ns: u64, priority: u8, host: &str) -> Vec<Cause> {
    let Some(((last, _), before)) = parts.split_last() else { return Vec::new() };
    let (mut causes, mut rest) = (Vec::new(), CauseClass::Unknown);
    for (place, (part, lane)) in parts.iter().enumerate() {
        let is_before = place < before.len();
        // A thread that is woken is often moved at once, and was in no queue before.
        if is_before && part.ns() < LEAST_EXCESS_NS {
            continue;
        }
        let mut found;
        (found, rest) = measured(part, excess_ns, priority, lane, host);
        // The kernel's thread that moves others ran for that.
        let moves = |cause: &&mut Cause| cause.name.as_ref().is_some_and(|name| name.starts_with("migration/"));
        for cause in found.iter_mut().filter(moves).filter(|_| is_before) {
            (cause.class, cause.name, cause.pid) = (CauseClass::Migration, None, None);
        }
        causes.append(&mut found);
    }
    settle(causes, excess_ns, rest, &Place { host, cpu: last.to.cpu, segment: last.segment })
}

/// A late message: its parts in the order of the path, its causes, the largest first, and the share of its excess that is named.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Explained {
    pub seq: u64,
    pub start_ns: u64,
    pub rtt_ns: u64,
    pub segments: Vec<SegmentTime>,
    pub causes: Vec<Cause>,
    pub explained: f64,
}

/// Puts together what both ends know of a message. `same_clock`: both have one CLOCK_MONOTONIC, as two processes of one machine have.
pub fn join(near: ExplainedStay, usual: &Usual, far: Option<&FarStays>, same_clock: bool) -> Explained {
    let stay = far.and_then(|far| far.stays.iter().find(|stay| stay.seq == near.seq));
    // Where one of the two was not seen, nothing is known of the way.
    let gone_ns = if near.sent_ns == 0 { 0 } else { near.received_ns.saturating_sub(near.sent_ns) };
    let (usual_far_ns, far_ns) = (far.map_or(0, |far| far.usual_ns), stay.map(|stay| stay.ns));
    let far_excess_ns = far_ns.map_or(0, |ns| ns.saturating_sub(usual_far_ns));
    let wire_usual_ns = usual.away.1.saturating_sub(usual_far_ns);
    let wire_excess_ns = beyond(gone_ns, usual.away.1).saturating_sub(far_excess_ns);
    let (mut segments, mut causes) = (near.segments, Vec::new());
    segments.extend(stay.into_iter().flat_map(|stay| stay.segments.iter().cloned()));
    let (mut wire_causes, stays): (Vec<Cause>, Vec<Cause>) = near
        .causes
        .into_iter()
        .chain(stay.into_iter().flat_map(|stay| stay.causes.iter().cloned()))
        .partition(|cause| is_wire(cause.segment));
    causes.extend(stays);
    if gone_ns > 0 {
        let wire_ns = gone_ns.saturating_sub(far_ns.unwrap_or(usual_far_ns));
        let out_ns = stay
            .filter(|stay| same_clock && stay.received_ns > near.sent_ns)
            .map_or(wire_ns / 2, |stay| (stay.received_ns - near.sent_ns).min(wire_ns));
        let excess_out = out_ns.saturating_sub(wire_usual_ns / 2).min(wire_excess_ns);
        for (segment, ns, excess_ns) in [
            (PathSegment::WireOut, out_ns, excess_out),
            (PathSegment::WireBack, wire_ns - out_ns, wire_excess_ns - excess_out),
        ] {
            let host = if segment == PathSegment::WireOut { "reflector" } else { "initiator" };
            segments.push(SegmentTime { segment, host: host.to_owned(), cpu: None, ns, excess_ns });
        }
        wire_causes.sort_by_key(|cause| Reverse(cause.ns));
        let mut left = wire_excess_ns;
        for mut cause in wire_causes {
            cause.ns = cause.ns.min(left);
            left -= cause.ns;
            causes.extend(Some(cause).filter(|cause| cause.ns > 0));
        }
        let segment =
            if excess_out > wire_excess_ns - excess_out { PathSegment::WireOut } else { PathSegment::WireBack };
        let had_no_room = "the far end had no room for what it knows of this message";
        let (class, evidence, unknown_ns) = match far {
            None => (CauseClass::Unknown, "the far end explained nothing", 0),
            Some(far) if stay.is_none() => {
                (CauseClass::Wire, "", left.min(far.left_out_ns.saturating_sub(usual_far_ns)))
            }
            Some(_) => (CauseClass::Wire, "", 0),
        };
        let rest = |class, ns, evidence: &str| {
            let (host, evidence) = ("initiator".to_owned(), evidence.to_owned());
            Cause { class, name: None, pid: None, host, cpu: None, segment, ns, evidence }
        };
        let rest = [rest(CauseClass::Unknown, unknown_ns, had_no_room), rest(class, left - unknown_ns, evidence)];
        causes.extend(rest.into_iter().filter(|cause| cause.ns > 0));
    }
    segments.sort_by_key(|part| part.segment);
    causes.sort_by_key(|cause| Reverse(cause.ns));
    let excess_ns: u64 = causes.iter().map(|cause| cause.ns).sum();
    let known_ns: u64 = causes.iter().filter(|cause| cause.class.is_known()).map(|cause| cause.ns).sum();
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let explained = if excess_ns == 0 { 1.0 } else { known_ns as f64 / excess_ns as f64 };
    Explained { seq: near.seq, start_ns: near.start_ns, rtt_ns: near.ns, segments, causes, explained }
}

fn is_wire(segment: PathSegment) -> bool {
    matches!(segment, PathSegment::WireOut | PathSegment::WireBack)
}
