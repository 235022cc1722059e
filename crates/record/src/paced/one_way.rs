//! One-way times of one reflector from the stamps in its answers.

use super::config::PeerClock;
use super::offset::{Anchor, Line};
use super::signed::SignedDistribution;
use model::{OneWay, Sample, TickRate};
use std::collections::BTreeMap;

/// Exchanges wait this long for a line (or until there are so many): the far clock's rate may wander over more.
const STRETCH_NS: i64 = 10_000_000_000;
const STRETCH_MESSAGES: usize = 1 << 19;
/// The fastest exchange is looked for in windows of this length.
const WINDOW_NS: i64 = 100_000_000;
/// A rest shorter than this is judged with the stretch before it.
const REST_NS: i64 = 2_000_000_000;

/// One answered message, in ns: ours since the first message, theirs since their first stamp.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    sent: i64,
    far_rx: i64,
    far_tx: i64,
    received: i64,
}

impl Exchange {
    /// The round trip less the time at the far end: whatever the clocks' offset, this is exact but for drift.
    fn path_ns(&self) -> i64 {
        (self.received - self.sent).saturating_sub(self.far_tx - self.far_rx)
    }

    fn anchor(&self) -> Anchor {
        let middle = |a: i64, b: i64| a as f64 + (b - a) as f64 / 2.0;
        let at_ns = middle(self.sent, self.received);
        let whole = self.sent + (self.received - self.sent) / 2;
        let lead = middle(self.far_rx - whole, self.far_tx - whole) + (whole as f64 - at_ns);
        Anchor { at_ns, lead_ns: lead, half_ns: (self.path_ns().max(0)) as f64 / 2.0 }
    }
}

/// A signed span of ticks in ns.
#[inline]
fn span(rate: TickRate, from: u64, to: u64) -> i64 {
    if to >= from {
        i64::try_from(rate.ns(to - from)).unwrap_or(i64::MAX)
    } else {
        i64::try_from(rate.ns(from - to)).map_or(i64::MIN, |ns| -ns)
    }
}

/// Estimates the lead of a clock of its own.
#[derive(Debug)]
struct Estimate {
    rate: TickRate,
    far_first: Option<u64>,
    waiting: Vec<Exchange>,
    /// The fastest of each window of the stretch.
    anchors: Vec<Anchor>,
    window_end: i64,
    fastest: Option<Exchange>,
    /// Of the stretch before.
    before: Vec<Anchor>,
    /// Until when each line holds.
    lines: Vec<(i64, Line)>,
}

impl Estimate {
    fn new(rate: TickRate) -> Self {
        Self {
            rate,
            far_first: None,
            waiting: Vec::new(),
            anchors: Vec::new(),
            window_end: i64::MIN,
            fastest: None,
            before: Vec::new(),
            lines: Vec::new(),
        }
    }

    fn exchange(&mut self, near: TickRate, first: u64, sample: &Sample) -> Exchange {
        let far_first = *self.far_first.get_or_insert(sample.peer_rx);
        Exchange {
            sent: span(near, first, sample.sent),
            far_rx: span(self.rate, far_first, sample.peer_rx),
            far_tx: span(self.rate, far_first, sample.peer_tx),
            received: span(near, first, sample.received),
        }
    }

    fn close_window(&mut self) {
        self.anchors.extend(self.fastest.take().map(|exchange| exchange.anchor()));
    }

    fn is_full(&self) -> bool {
        let first = self.waiting.first().map_or(i64::MAX, |exchange| exchange.sent);
        let last = self.waiting.last().map_or(i64::MIN, |exchange| exchange.sent);
        self.waiting.len() >= STRETCH_MESSAGES || last.saturating_sub(first) >= STRETCH_NS
    }

    /// The line of the stretch that waits. A short rest leans on the stretch before it.
    fn line(&mut self) -> Option<Line> {
        self.close_window();
        let from = self.waiting.iter().map(|exchange| exchange.sent).min()?;
        let to = self.waiting.iter().map(|exchange| exchange.received).max()?;
        let short = to - from < REST_NS;
        let mut anchors = if short { std::mem::take(&mut self.before) } else { Vec::new() };
        anchors.extend(&self.anchors);
        let line = Line::through(&anchors, from as f64, to as f64);
        self.before = std::mem::take(&mut self.anchors);
        self.lines.extend(line.map(|line| (to, line)));
        line
    }

    fn line_at(&self, ns: i64) -> Option<&Line> {
        let at = self.lines.partition_point(|(until, _)| *until < ns);
        self.lines.get(at).or_else(|| self.lines.last()).map(|(_, line)| line)
    }
}

/// One-way times of one reflector.
#[derive(Debug)]
pub(super) struct OneWays {
    out: SignedDistribution,
    back: SignedDistribution,
    /// Absent where both ends read one counter.
    estimate: Option<Estimate>,
}

impl OneWays {
    /// `None` where nothing is known of the far clock.
    pub(super) fn new(clock: PeerClock) -> Option<Self> {
        let estimate = match clock {
            PeerClock::Unknown => return None,
            PeerClock::SameCounter => None,
            PeerClock::Other(rate) => Some(Estimate::new(rate)),
        };
        Some(Self { out: SignedDistribution::default(), back: SignedDistribution::default(), estimate })
    }

    /// Takes an answered message; one without stamps is passed over.
    #[inline]
    pub(super) fn take(&mut self, near: TickRate, first: u64, sample: &Sample) {
        if sample.peer_rx == 0 || sample.peer_tx == 0 {
            return;
        }
        let Some(estimate) = &mut self.estimate else {
            self.out.record(span(near, sample.sent, sample.peer_rx));
            self.back.record(span(near, sample.peer_tx, sample.received));
            return;
        };
        let exchange = estimate.exchange(near, first, sample);
        if exchange.sent >= estimate.window_end {
            estimate.close_window();
            if estimate.is_full() {
                self.settle();
            }
            if let Some(estimate) = &mut self.estimate {
                estimate.window_end = exchange.sent.saturating_add(WINDOW_NS);
            }
        }
        if let Some(estimate) = &mut self.estimate {
            if estimate.fastest.is_none_or(|fastest| exchange.path_ns() < fastest.path_ns()) {
                estimate.fastest = Some(exchange);
            }
            estimate.waiting.push(exchange);
            if estimate.waiting.len() >= 2 * STRETCH_MESSAGES {
                self.settle();
            }
        }
    }

    /// Lays a line through the stretch that waits and counts its messages.
    fn settle(&mut self) {
        let Some(estimate) = &mut self.estimate else { return };
        if let Some(line) = estimate.line() {
            for exchange in &estimate.waiting {
                self.out.record(line.near(exchange.far_rx) - exchange.sent);
                self.back.record(exchange.received - line.near(exchange.far_tx));
            }
        }
        estimate.waiting.clear();
    }

    /// Counts what still waits.
    pub(super) fn end(&mut self) {
        self.settle();
    }

    /// The two parts of one message; after [`OneWays::end`].
    pub(super) fn parts(&self, near: TickRate, first: u64, sample: &Sample, parts: &mut BTreeMap<String, i64>) {
        if sample.peer_rx == 0 || sample.peer_tx == 0 {
            return;
        }
        let (sent, received) = (span(near, first, sample.sent), span(near, first, sample.received));
        let stamps = match &self.estimate {
            None => Some((span(near, first, sample.peer_rx), span(near, first, sample.peer_tx))),
            Some(estimate) => estimate.far_first.zip(estimate.line_at(sent)).map(|(far_first, line)| {
                let far = |tick| line.near(span(estimate.rate, far_first, tick));
                (far(sample.peer_rx), far(sample.peer_tx))
            }),
        };
        if let Some((rx, tx)) = stamps {
            parts.insert("out".to_owned(), rx - sent);
            parts.insert("back".to_owned(), received - tx);
        }
    }

    /// The summary; `None` where no answer held stamps. After [`OneWays::end`].
    pub(super) fn report(&self, near: TickRate, first: u64) -> Option<OneWay> {
        let (out, back) = self.out.summary().zip(self.back.summary())?;
        let Some(estimate) = &self.estimate else {
            return Some(OneWay {
                out,
                back,
                method: "same-clock".to_owned(),
                offset_ns: 0,
                drift_ppm: 0.0,
                error_ns: 0,
                stamps: "application".to_owned(),
                clocks: Vec::new(),
            });
        };
        let ((_, start), (until, end)) = estimate.lines.first().zip(estimate.lines.last())?;
        let slope = if estimate.lines.len() == 1 {
            start.slope
        } else {
            // From the middle of the first stretch to the end, whatever the rate did meanwhile.
            let until = *until as f64;
            (end.lead(until) - start.lead_ns) / (until - start.origin_ns).max(1.0)
        };
        let zero = i128::from(estimate.rate.ns(estimate.far_first.unwrap_or(0))) - i128::from(near.ns(first));
        let error = estimate.lines.iter().map(|(_, line)| line.error_ns).fold(0.0, f64::max);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times in ns; `as` saturates")]
        let (lead, error_ns) = (start.lead(0.0).round() as i64, error.ceil() as u64);
        Some(OneWay {
            out,
            back,
            method: "min-rtt".to_owned(),
            offset_ns: i64::try_from(zero + i128::from(lead)).unwrap_or(i64::MAX),
            drift_ppm: slope * 1e6,
            // Ticks are brought to ns four times.
            error_ns: error_ns.saturating_add(2),
            stamps: "application".to_owned(),
            clocks: Vec::new(),
        })
    }
}
