//! One-way times between two clocks, from an estimate of how far one is ahead of the other ([`super::offset`]).
//!
//! Messages wait for a stretch of some seconds until a line is laid through its fastest exchanges. That may be of stamps of the
//! kernel or the NIC, which bound the offset closer, while the figures are of the application's times.

use super::offset::{Anchor, OffsetFit, WORST_DRIFT};
use super::signed::SignedDistribution;
use model::Signed;
use std::collections::BTreeMap;

/// Exchanges wait this long for a line (or until there are so many): the far clock's rate may wander over more.
const STRETCH_NS: i64 = 10_000_000_000;
const STRETCH_MESSAGES: usize = 1 << 19;
/// The fastest exchange is looked for in windows of this length.
const WINDOW_NS: i64 = 100_000_000;
/// A rest shorter than this is judged with the stretch before it.
const REST_NS: i64 = 2_000_000_000;

/// Four times of one answered message in ns since a start, each by the clock of its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    pub(super) sent: i64,
    pub(super) far_rx: i64,
    pub(super) far_tx: i64,
    pub(super) received: i64,
}

impl Exchange {
    /// How wide the interval is that it leaves for the lead at its middle: the round trip less the time at the far end, and
    /// what the clocks may part by meanwhile.
    fn width_ns(&self) -> f64 {
        let whole = self.received - self.sent;
        let path = whole.saturating_sub(self.far_tx - self.far_rx);
        path.max(0) as f64 + whole as f64 * WORST_DRIFT
    }

    fn anchor(&self) -> Anchor {
        let middle = |a: i64, b: i64| a as f64 + (b - a) as f64 / 2.0;
        let at_ns = middle(self.sent, self.received);
        let whole = self.sent + (self.received - self.sent) / 2;
        let lead = middle(self.far_rx - whole, self.far_tx - whole) + (whole as f64 - at_ns);
        Anchor { at_ns, lead_ns: lead, half_ns: self.width_ns() / 2.0 }
    }
}

/// Estimates the lead of a clock, and counts one-way times by it.
#[derive(Debug, Default)]
pub(super) struct Estimate {
    out: SignedDistribution,
    back: SignedDistribution,
    /// Messages counted.
    pub(super) counted: u64,
    waiting: Vec<Exchange>,
    /// The fastest of each window of the stretch.
    windows: BTreeMap<i64, Exchange>,
    /// The window of the last message counted.
    window: i64,
    /// Of the stretch before.
    before: Vec<Anchor>,
    /// Until when each line holds.
    lines: Vec<(i64, OffsetFit)>,
}

impl Estimate {
    /// Whether the stretch is over before this one is taken.
    #[inline]
    pub(super) fn is_due(&self, next: &Exchange) -> bool {
        let begins = next.sent.div_euclid(WINDOW_NS) > self.window;
        let full = || {
            let first = self.waiting.first().map_or(i64::MAX, |exchange| exchange.sent);
            let last = self.waiting.last().map_or(i64::MIN, |exchange| exchange.sent);
            self.waiting.len() >= STRETCH_MESSAGES || last.saturating_sub(first) >= STRETCH_NS
        };
        (begins && full()) || self.waiting.len() >= 2 * STRETCH_MESSAGES
    }

    /// An exchange that the line may be laid through. One of an earlier stretch comes too late.
    #[inline]
    pub(super) fn offer(&mut self, exchange: &Exchange) {
        if self.lines.last().is_some_and(|(until, _)| exchange.received <= *until) {
            return;
        }
        let slot = self.windows.entry(exchange.sent.div_euclid(WINDOW_NS)).or_insert(*exchange);
        if exchange.width_ns() < slot.width_ns() {
            *slot = *exchange;
        }
    }

    /// An exchange whose ways are to be counted.
    #[inline]
    pub(super) fn count(&mut self, exchange: Exchange) {
        self.window = self.window.max(exchange.sent.div_euclid(WINDOW_NS));
        self.waiting.push(exchange);
    }

    /// Lays a line through the stretch that waits and counts its messages.
    pub(super) fn settle(&mut self) {
        if let Some(line) = self.line() {
            for exchange in &self.waiting {
                self.out.record(line.near(exchange.far_rx) - exchange.sent);
                self.back.record(exchange.received - line.near(exchange.far_tx));
            }
            self.counted += self.waiting.len() as u64;
        }
        self.waiting.clear();
    }

    /// The line of the stretch that waits. A short rest leans on the stretch before it.
    fn line(&mut self) -> Option<OffsetFit> {
        let anchors: Vec<Anchor> = std::mem::take(&mut self.windows).values().map(Exchange::anchor).collect();
        let from = self.waiting.iter().map(|exchange| exchange.sent).min()?;
        let to = self.waiting.iter().map(|exchange| exchange.received).max()?;
        let mut all = if to - from < REST_NS { std::mem::take(&mut self.before) } else { Vec::new() };
        all.extend(&anchors);
        let line = OffsetFit::through(&all, from as f64, to as f64);
        self.before = anchors;
        self.lines.extend(line.map(|line| (to, line)));
        line
    }

    /// Within how many ns the true lead lies, and with it each one-way time.
    pub(super) fn error_ns(&self) -> u64 {
        let error = self.lines.iter().map(|(_, line)| line.error_ns).fold(0.0, f64::max);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times in ns; `as` saturates")]
        let error_ns = error.ceil() as u64;
        // Times are brought to whole ns four times.
        error_ns.saturating_add(2)
    }

    /// The lead at the start in ns, and how much it grows a ns.
    pub(super) fn course(&self) -> Option<(i64, f64)> {
        let ((_, start), (until, end)) = self.lines.first().zip(self.lines.last())?;
        let slope = if self.lines.len() == 1 {
            start.slope
        } else {
            // From the middle of the first stretch to the end, whatever the rate did meanwhile.
            let until = *until as f64;
            (end.lead(until) - start.lead_ns) / (until - start.origin_ns).max(1.0)
        };
        #[expect(clippy::cast_possible_truncation, reason = "times in ns; `as` saturates")]
        let lead = start.lead(0.0).round() as i64;
        Some((lead, slope))
    }

    /// Out and back.
    pub(super) fn summaries(&self) -> Option<(Signed, Signed)> {
        self.out.summary().zip(self.back.summary())
    }

    /// Out and back of one message, when all are settled.
    pub(super) fn parts(&self, exchange: &Exchange) -> Option<(i64, i64)> {
        let at = self.lines.partition_point(|(until, _)| *until < exchange.sent);
        let (_, line) = self.lines.get(at).or_else(|| self.lines.last())?;
        Some((line.near(exchange.far_rx) - exchange.sent, exchange.received - line.near(exchange.far_tx)))
    }
}
