//! One-way times by wall clocks whose offset the stamps of the kernel or the NIC bound.
//!
//! The application's wall-clock times make the figures. The offset lies between what the stamps nearest to the wire allow;
//! where one of the four is missing the application's time replaces it, which only widens the interval. When the far driver
//! sent an answer comes in a later answer, named by the far end's tick in the first one.

use super::estimate::{Estimate, Exchange};
use model::{PacedSample, StampTimes};

/// Exchanges that wait for what a later answer tells: more than are under way at a high rate.
const WAITING: usize = 4096;

/// The part of an exchange that the offset is estimated from, while it waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    /// The far tick; 0 is a free place.
    tx: u64,
    tight: Exchange,
}

const FREE: Waiting = Waiting { tx: 0, tight: Exchange { sent: 0, far_rx: 0, far_tx: 0, received: 0 } };

/// The estimate, and what waits for it.
#[derive(Debug)]
pub(super) struct StampedExchanges {
    pub(super) estimate: Estimate,
    /// Where times are counted from, ours and theirs, in ns since 1970.
    zero: Option<(u64, u64)>,
    waiting: Vec<Waiting>,
    /// Exchanges with a stamp that is not the application's at each end.
    pub(super) stamped: u64,
}

impl Default for StampedExchanges {
    fn default() -> Self {
        Self { estimate: Estimate::default(), zero: None, waiting: vec![FREE; WAITING], stamped: 0 }
    }
}

fn since(zero: u64, ns: u64) -> i64 {
    i64::try_from(i128::from(ns) - i128::from(zero)).unwrap_or(0)
}

/// Where the exchange with such a tick waits: its product with the golden ratio spreads the even ticks of a schedule.
fn place(tx: u64) -> usize {
    usize::try_from(tx.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - WAITING.ilog2())).unwrap_or(0)
}

impl StampedExchanges {
    /// The times that are counted; `None` where one is missing.
    pub(super) fn exchange(&self, stamps: &StampTimes) -> Option<Exchange> {
        let (near, far) = self.zero?;
        let StampTimes { sent_ns, far_received_ns, far_sent_ns, received_ns, .. } = *stamps;
        if [sent_ns, far_received_ns, far_sent_ns, received_ns].contains(&0) {
            return None;
        }
        Some(Exchange {
            sent: since(near, sent_ns),
            far_rx: since(far, far_received_ns),
            far_tx: since(far, far_sent_ns),
            received: since(near, received_ns),
        })
    }

    #[inline]
    pub(super) fn take(&mut self, one: &PacedSample) {
        let stamps = &one.stamps;
        if one.told_tx != 0 {
            self.told(one.told_tx, one.told_ns);
        }
        if self.zero.is_none() && stamps.sent_ns != 0 && stamps.far_received_ns != 0 {
            self.zero = Some((stamps.sent_ns, stamps.far_received_ns));
        }
        let (Some(exchange), Some((near, far))) = (self.exchange(stamps), self.zero) else { return };
        if self.estimate.is_due(&exchange) {
            self.end();
        }
        // A stamp that lies on the wrong side of the application's time is of a clock that was just set.
        let earlier = |ns: u64, zero: u64, than: i64| if ns == 0 { than } else { since(zero, ns).min(than) };
        let later = |ns: u64, zero: u64, than: i64| if ns == 0 { than } else { since(zero, ns).max(than) };
        let tight = Exchange {
            sent: later(stamps.driver_ns, near, exchange.sent),
            far_rx: earlier(stamps.far_stack_ns, far, exchange.far_rx),
            far_tx: exchange.far_tx,
            received: earlier(stamps.stack_ns, near, exchange.received),
        };
        self.stamped += u64::from(stamps.far_stack_ns != 0 && stamps.stack_ns != 0);
        self.estimate.count(exchange);
        if let Some(slot) = self.waiting.get_mut(place(one.sample.peer_tx)) {
            let before = std::mem::replace(slot, Waiting { tx: one.sample.peer_tx, tight });
            if before.tx != 0 {
                self.estimate.offer(&before.tight);
            }
        }
    }

    /// When the far driver sent the answer with this tick.
    fn told(&mut self, tx: u64, driver_ns: u64) {
        let Some((_, far)) = self.zero else { return };
        if let Some(slot) = self.waiting.get_mut(place(tx)).filter(|slot| slot.tx == tx) {
            let mut tight = std::mem::replace(slot, FREE).tight;
            tight.far_tx = tight.far_tx.max(since(far, driver_ns));
            self.estimate.offer(&tight);
        }
    }

    /// Counts what waits; what has not been told by now does without.
    pub(super) fn end(&mut self) {
        for slot in &mut self.waiting {
            if slot.tx != 0 {
                self.estimate.offer(&std::mem::replace(slot, FREE).tight);
            }
        }
        self.estimate.settle();
    }

    /// The far start less ours.
    pub(super) fn zero(&self) -> i128 {
        self.zero.map_or(0, |(near, far)| i128::from(far) - i128::from(near))
    }
}
