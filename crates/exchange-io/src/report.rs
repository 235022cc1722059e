//! What a node did, as figures.

use exchange::{Counters, FirstMiss, FrameError, Framing, Transport};
use serde::Serialize;
use stats::Histogram;
use std::net::SocketAddr;

/// Some figures of a distribution, in ns; percentiles with too few values beyond them are absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    pub count: u64,
    pub min: Option<u64>,
    pub p50: Option<u64>,
    pub p99: Option<u64>,
    #[serde(rename = "p99.9")]
    pub p999: Option<u64>,
    pub max: Option<u64>,
}

impl Spread {
    pub fn new(histogram: &Histogram) -> Self {
        let quantile = |q| histogram.quantile_if_supported(q, Histogram::BEYOND);
        Self {
            count: histogram.count(),
            min: histogram.min(),
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: histogram.max(),
        }
    }
}

/// A topic that a node published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Published {
    pub topic: String,
    /// Cycles that were sent, not counting the last frame, which ends the epoch.
    pub sent: u64,
    pub transport: Transport,
    /// Frames of a cycle.
    pub targets: usize,
    /// Frames that did not leave this host; over PGM packets, repairs included.
    pub lost: u64,
    /// Over TCP, one for each target.
    pub connections: Vec<Connection>,
    pub overruns: u64,
    pub skipped: u64,
    /// From when a cycle was due to the thread's look at the clock.
    pub wake_up_ns: Spread,
}

/// The connections to a subscriber, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Connection {
    pub to: SocketAddr,
    /// How many were made.
    pub connects: u64,
    /// Frames that a newer one replaced, because the connection did not take them.
    pub replaced: u64,
    /// Frames of which nothing or a part was sent, because there was no connection or it broke.
    pub unsent: u64,
}

/// A topic that a node subscribed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Subscribed {
    pub topic: String,
    pub framing: Framing,
    #[serde(flatten)]
    pub counters: Counters,
    pub first_miss: Option<FirstMiss>,
    /// How deadlines were judged: `schedule` or `arrivals`.
    pub deadline_by: &'static str,
    pub interval_ns: Spread,
    /// Only with a common clock.
    pub age_ns: Option<Spread>,
    /// How far the clocks may be apart, as the file says.
    pub clock_error_ns: Option<u64>,
}

/// What arrived and is no frame of a subscribed topic. Over TCP the first five end a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Rejects {
    pub short: u64,
    pub magic: u64,
    pub version: u64,
    pub length: u64,
    pub checksum: u64,
    pub unknown_topic: u64,
    /// From an address that is not that of the publishing node. Of TCP connections, too.
    pub other_sender: u64,
    /// Longer than any frame.
    pub too_long: u64,
    /// Dropped by the kernel because the receive buffer was full.
    pub overflowed: u64,
    /// TCP connections that were closed for newer ones.
    pub evicted: u64,
}

impl Rejects {
    #[inline]
    pub(crate) fn count(&mut self, error: FrameError) {
        *match error {
            FrameError::Short => &mut self.short,
            FrameError::Magic => &mut self.magic,
            FrameError::Version => &mut self.version,
            FrameError::Length => &mut self.length,
            FrameError::Checksum => &mut self.checksum,
        } += 1;
    }
}

/// An address that a node received at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Address {
    pub address: SocketAddr,
    pub transport: Transport,
    /// That were accepted, over TCP.
    pub connections: Option<u64>,
    /// Packets that were lost and repaired, over PGM.
    pub repaired: Option<u64>,
    pub rejects: Rejects,
}

/// A node from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeReport {
    pub node: String,
    pub published: Vec<Published>,
    pub subscribed: Vec<Subscribed>,
    pub addresses: Vec<Address>,
}
