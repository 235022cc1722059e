//! A network in virtual time, for tests: stacks on one switch, each behind a link that has a rate, a queue and a delay, and
//! that loses, doubles, reorders and corrupts frames by a seed.
//!
//! The stack knows no clock and no socket, so a whole network runs in one thread as fast as the processor can, and the same
//! seed gives the same frames in the same order.

use random::SplitMix64;
use stack::{Config, Hop, Instant, Stack};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What a link does to frames that its stack sends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Link {
    /// Bytes a second. Default 1.25 GB/s.
    pub(crate) bytes_per_second: u64,
    /// Bytes that may wait; more are dropped. Default none: no limit.
    pub(crate) queue_bytes: Option<u64>,
    /// Time on the way, in ns. Default 10 µs.
    pub(crate) delay_ns: u64,
    /// Share of frames that are lost.
    pub(crate) lost: f64,
    /// Share of frames that arrive twice.
    pub(crate) doubled: f64,
    /// Share of frames that others overtake.
    pub(crate) reordered: f64,
    /// How much later these arrive at most, in ns. Default 100 µs.
    pub(crate) reorder_ns: u64,
    /// Share of frames of which one bit is changed.
    pub(crate) corrupted: f64,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            bytes_per_second: 1_250_000_000,
            queue_bytes: None,
            delay_ns: 10_000,
            lost: 0.0,
            doubled: 0.0,
            reordered: 0.0,
            reorder_ns: 100_000,
            corrupted: 0.0,
        }
    }
}

/// A frame as the stack number `from` sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    pub(crate) from: usize,
    pub(crate) frame: Vec<u8>,
    /// Whether it was lost, by the link or the test's own rule.
    pub(crate) lost: bool,
}

struct Port {
    stack: Stack,
    link: Link,
    mac: [u8; 6],
    addresses: Vec<IpAddr>,
    mtu: u16,
    free_at: u64,
}

/// A rule of a test: whether a frame of a stack is lost.
pub(crate) type Rule = Box<dyn FnMut(usize, &[u8]) -> bool>;

/// Stacks and the frames between them.
pub(crate) struct Network {
    /// The present.
    pub(crate) now: Instant,
    ports: Vec<Port>,
    on_the_way: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    random: SplitMix64,
    count: u64,
    /// All frames that were sent, where it is wanted.
    pub(crate) trace: Option<Vec<Sent>>,
    /// Frames that the test loses on purpose.
    pub(crate) loses: Option<Rule>,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Network").field("now", &self.now).field("frames", &self.count).finish_non_exhaustive()
    }
}

impl Network {
    /// An empty network, at a time that is not zero.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now: Instant(1_000_000_000),
            ports: Vec::new(),
            on_the_way: BTreeMap::new(),
            random: SplitMix64::new(seed),
            count: 0,
            trace: None,
            loses: None,
        }
    }

    /// Adds a stack behind a link; its number. All stacks know each other's hops.
    pub(crate) fn add(&mut self, config: Config, link: Link) -> usize {
        let (mac, addresses, mtu) = (config.mac, config.addresses.clone(), config.mtu);
        self.ports.push(Port { stack: Stack::new(config), link, mac, addresses, mtu, free_at: 0 });
        let own = self.ports.len() - 1;
        for other in 0..own {
            self.introduce(own, other);
            self.introduce(other, own);
        }
        own
    }

    /// Tells the first stack the hops to the second one's addresses.
    fn introduce(&mut self, own: usize, other: usize) {
        let (mac, mtu) = (self.ports[other].mac, self.ports[other].mtu.min(self.ports[own].mtu));
        for remote in self.ports[other].addresses.clone() {
            let source = self.ports[own].addresses.iter().find(|ip| ip.is_ipv4() == remote.is_ipv4()).copied();
            if let Some(source) = source {
                self.ports[own].stack.set_hop(remote, Hop { mac, mtu, source });
            }
        }
    }

    /// A stack.
    pub(crate) fn stack(&mut self, number: usize) -> &mut Stack {
        &mut self.ports[number].stack
    }

    /// Sends what all stacks want to send at the present.
    pub(crate) fn flush(&mut self) {
        let mut frame = vec![0; 70_000];
        for from in 0..self.ports.len() {
            while let Some(length) = self.ports[from].stack.poll_transmit(self.now, &mut frame) {
                self.carry(from, &frame[..length]);
            }
        }
    }

    fn carry(&mut self, from: usize, frame: &[u8]) {
        self.count += 1;
        let to = self.ports.iter().position(|port| frame.get(..6) == Some(&port.mac));
        let by_rule = self.loses.as_mut().is_some_and(|rule| rule(from, frame));
        let arrivals = self.arrivals(from, frame.len());
        if let Some(trace) = &mut self.trace {
            let lost = by_rule || arrivals[0].is_none();
            trace.push(Sent { at: self.now, from, frame: frame.to_vec(), lost });
        }
        let Some(to) = to.filter(|_| !by_rule) else { return };
        let corrupted = self.ports[from].link.corrupted;
        for at in arrivals.into_iter().flatten() {
            let mut frame = frame.to_vec();
            if corrupted > 0.0 && self.random.happens(corrupted) {
                // Behind the MAC addresses: a network does not deliver what is for others.
                let bits = self.random.scaled((frame.len() as u64 - 12) * 8);
                let (byte, bit) = (12 + usize::try_from(bits / 8).unwrap_or(0), bits % 8);
                frame[byte] ^= 1 << bit;
            }
            self.count += 1;
            self.on_the_way.insert((at, self.count), (to, frame));
        }
    }

    /// When a frame and its double arrive.
    fn arrivals(&mut self, from: usize, bytes: usize) -> [Option<Instant>; 2] {
        let port = &mut self.ports[from];
        let (link, random) = (port.link, &mut self.random);
        let waits = port.free_at.saturating_sub(self.now.0);
        let rate = link.bytes_per_second.max(1);
        let waiting = u128::from(waits) * u128::from(rate) / 1_000_000_000;
        if link.queue_bytes.is_some_and(|most| waiting > u128::from(most)) {
            return [None, None];
        }
        port.free_at = port.free_at.max(self.now.0) + (bytes as u64 + 24) * 1_000_000_000 / rate;
        if random.happens(link.lost) {
            return [None, None];
        }
        let arrival = Instant(port.free_at + link.delay_ns);
        let mut late = |share: f64| if random.happens(share) { random.scaled(link.reorder_ns + 1) } else { 0 };
        let first = arrival.after(late(link.reordered));
        let second = arrival.after(late(link.reordered));
        [Some(first), random.happens(link.doubled).then_some(second)]
    }

    /// When something happens next.
    pub(crate) fn next(&self) -> Option<Instant> {
        let frame = self.on_the_way.keys().next().map(|(at, _)| *at);
        let timer = self.ports.iter().filter_map(|port| port.stack.poll_timeout()).min();
        frame.into_iter().chain(timer).min()
    }

    /// Sends what wants to be sent, then goes to the next thing that happens; false where nothing does before `until`, which
    /// is the present then.
    pub(crate) fn step(&mut self, until: Instant) -> bool {
        self.flush();
        let Some(next) = self.next().filter(|next| *next <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(next);
        while let Some(entry) = self.on_the_way.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to, frame) = entry.remove();
            let _ = self.ports[to].stack.handle_frame(self.now, &frame);
        }
        for port in &mut self.ports {
            port.stack.handle_timeout(self.now);
        }
        self.flush();
        true
    }

    /// Runs for a while.
    pub(crate) fn run_for(&mut self, ns: u64) {
        let until = self.now.after(ns);
        while self.step(until) {}
    }
}
