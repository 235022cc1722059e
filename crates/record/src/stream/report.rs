//! The figures of a direction from what both ends counted, and what is worth knowing about them.

use model::result::{Series, SeriesQuantity};
use model::stream::{StreamInterval, StreamReceived, StreamSent};
use model::{Direction, Finding, FindingId, FlowReport, StreamSpec};

/// Both ends' counts of one direction. An end that vanished has none.
#[derive(Debug, Clone, Copy)]
pub struct FlowEnds<'a> {
    pub direction: Direction,
    pub spec: &'a StreamSpec,
    /// Bytes of a datagram or write.
    pub size: u32,
    /// Whether datagrams carry it.
    pub datagrams: bool,
    pub sent: Option<&'a StreamSent>,
    pub received: Option<&'a StreamReceived>,
}

/// A rate that is nearer to the one asked for than this is it.
const REACHED: f64 = 0.99;

impl FlowEnds<'_> {
    /// Datagrams that the sending end sent and that never came. Without its count, what the numbers tell.
    pub fn lost(&self) -> Option<u64> {
        let received = self.received.filter(|_| self.datagrams)?;
        let sent = self.sent.map_or(received.passed, |sent| sent.datagrams.max(received.passed));
        Some(sent.saturating_sub(received.received))
    }

    /// What was lost behind the highest number that came: only the sender knows of it.
    fn tail(&self) -> u64 {
        match (self.sent, self.received) {
            (Some(sent), Some(received)) if self.datagrams => sent.datagrams.saturating_sub(received.passed),
            _ => 0,
        }
    }

    /// The time over which it was received; the sending end's where datagrams came for a moment only.
    fn elapsed_ns(&self) -> u64 {
        let sent = self.sent.filter(|_| self.datagrams).map_or(0, |sent| sent.elapsed_ns);
        self.received.map_or(0, |received| received.elapsed_ns.max(sent))
    }

    fn bits_per_second(&self) -> f64 {
        self.received.map_or(0.0, |received| per_second(received.bytes as f64 * 8.0, self.elapsed_ns()))
    }
}

fn per_second(amount: f64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { amount * 1e9 / ns as f64 }
}

/// The figures of one direction.
pub fn flow_report(sides: &FlowEnds<'_>) -> FlowReport {
    let none = StreamReceived::default();
    let received = sides.received.unwrap_or(&none);
    let datagrams = |value: u64| sides.datagrams.then_some(value);
    FlowReport {
        direction: sides.direction,
        flows: sides.spec.flows,
        bytes: received.bytes,
        elapsed_ns: sides.elapsed_ns(),
        bits_per_second: sides.bits_per_second(),
        sent: sides.sent.and_then(|sent| datagrams(sent.datagrams)),
        received: datagrams(received.received),
        datagrams_per_second: sides.datagrams.then(|| per_second(received.received as f64, sides.elapsed_ns())),
        lost: sides.lost(),
        reordered: datagrams(received.reordered),
        duplicated: datagrams(received.duplicated),
        rfc3550_jitter_first_ns: received.jitter_first_ns,
        rfc3550_jitter_ns: received.jitter_ns,
        rfc3550_jitter_max_ns: received.jitter_max_ns,
        retransmits: sides.sent.and_then(|sent| sent.retransmits),
        tcp_rtt_mean_ns: sides.sent.and_then(|sent| sent.rtt_mean_ns),
        tcp_rtt_max_ns: sides.sent.and_then(|sent| sent.rtt_max_ns),
        congestion: sides.sent.and_then(|sent| sent.congestion.clone()),
    }
}

/// The direction second by second, as the receiving end saw it, with what the sending end's kernel counted of TCP.
pub fn series(sides: &FlowEnds<'_>) -> Vec<Series> {
    let mut all = Vec::new();
    let Some(received) = sides.received.filter(|received| !received.intervals.is_empty()) else { return all };
    let mut intervals = received.intervals.clone();
    if let Some(last) = intervals.last_mut() {
        last.lost += sides.tail();
    }
    let mut push = |quantity: SeriesQuantity, values: Vec<Option<f64>>| {
        if values.iter().any(Option::is_some) {
            all.push(Series {
                quantity,
                host: sides.direction.receiver().to_string(),
                interval_ns: received.interval_ns,
                values,
            });
        }
    };
    let of = |pick: fn(&StreamInterval) -> Option<f64>| intervals.iter().map(pick).collect::<Vec<_>>();
    push(SeriesQuantity::Bytes, of(|interval| Some(interval.bytes as f64)));
    if sides.datagrams {
        push(SeriesQuantity::Received, of(|interval| Some(interval.received as f64)));
        push(SeriesQuantity::Lost, of(|interval| Some(interval.lost as f64)));
        push(SeriesQuantity::Reordered, of(|interval| Some(interval.reordered as f64)));
        push(SeriesQuantity::Duplicated, of(|interval| Some(interval.duplicated as f64)));
        push(SeriesQuantity::Jitter, of(|interval| interval.jitter_ns));
        return all;
    }
    if let Some(sent) = sides.sent.filter(|sent| !sent.seconds.is_empty()) {
        let joined = usize::try_from(received.interval_ns / 1_000_000_000).unwrap_or(1).max(1);
        let seconds = sent.seconds.chunks(joined);
        let (retransmits, rtts): (Vec<_>, Vec<_>) = seconds
            .map(|seconds| {
                let again: u64 = seconds.iter().map(|second| second.retransmits).sum();
                let rtt: u64 = seconds.iter().map(|second| second.rtt_ns).sum();
                (Some(again as f64), Some(rtt as f64 / seconds.len() as f64))
            })
            .unzip();
        push(SeriesQuantity::Retransmits, retransmits);
        push(SeriesQuantity::TcpRtt, rtts);
    }
    all
}

/// Bits and datagrams a second that were asked for, of one direction; absent: as fast as it goes.
pub fn asked(spec: &StreamSpec, size: u32, datagrams: bool) -> (Option<f64>, Option<f64>) {
    let bits = f64::from(size) * 8.0;
    let bps = spec.rate_bps.map(|bps| bps as f64).or_else(|| spec.rate_pps.map(|pps| pps * bits));
    let pps = spec.rate_pps.or_else(|| spec.rate_bps.map(|bps| bps as f64 / bits.max(1.0)));
    (bps, pps.filter(|_| datagrams))
}

/// What is worth knowing about one direction: a rate that was not reached, datagrams nobody could place.
pub fn findings(sides: &FlowEnds<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let (Some(asked), _) = asked(sides.spec, sides.size, sides.datagrams) else { return found };
    let word = sides.direction.word();
    if let Some(sent) = sides.sent {
        let reached = per_second(sent.bytes as f64 * 8.0, sent.elapsed_ns);
        // One message is sent before the first interval has passed, so a short stream reads a little high, never low.
        if sent.elapsed_ns > 0 && reached < asked * REACHED {
            let starved = if sent.no_buffer > 0 {
                format!("; {} sends found the device's queue full", sent.no_buffer)
            } else {
                String::new()
            };
            let remedy = if sides.datagrams {
                "ask for less, send larger datagrams, or use --batch or --gso"
            } else {
                "the path or the receiver takes no more: ask for less, or use more --flows"
            };
            found.push(Finding::at(
                FindingId::RateNotReached,
                sides.direction.sender(),
                format!(
                    "{word}: {:.1} Mbit/s were sent where {:.1} Mbit/s were asked for{starved}: {remedy}",
                    reached / 1e6,
                    asked / 1e6
                ),
            ));
        }
    }
    found
}
