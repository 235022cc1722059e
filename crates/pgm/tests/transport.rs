//! Source and receivers over a network that loses, doubles and reorders, in virtual time.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use pgm::packet::Packet;
use pgm::receiver::{Destination, Event};
use pgm::{Gsi, Receiver, ReceiverConfig, Source, SourceConfig, Sqn, Tsi};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const TSI: Tsi = Tsi { gsi: Gsi([1, 2, 3, 4, 5, 6]), port: 999 };

/// What the network does to each packet on its way to one receiver, in parts of 1000.
#[derive(Debug, Clone, Copy)]
struct Faults {
    lost: u64,
    doubled: u64,
    /// Longest extra delay.
    jitter_ns: u64,
}

#[derive(Debug, Clone)]
struct Flight {
    /// 0: the source; else a receiver.
    to: usize,
    bytes: Vec<u8>,
}

struct Network {
    now: u64,
    state: u64,
    faults: Faults,
    /// By arrival and number of the flight.
    flying: BTreeMap<(u64, u64), Flight>,
    flights: u64,
    source: Source,
    receivers: Vec<Receiver>,
    delivered: Vec<Vec<Vec<u8>>>,
    events: Vec<Vec<Event>>,
}

impl Network {
    fn new(source: SourceConfig, receiver: ReceiverConfig, receivers: usize, faults: Faults, seed: u64) -> Self {
        let receivers: Vec<Receiver> = (0..receivers)
            .map(|at| Receiver::new(ReceiverConfig { seed: seed ^ at as u64, ..receiver }).unwrap())
            .collect();
        Self {
            now: 0,
            state: seed | 1,
            faults,
            flying: BTreeMap::new(),
            flights: 0,
            source: Source::new(source, 0).unwrap(),
            delivered: vec![Vec::new(); receivers.len()],
            events: vec![Vec::new(); receivers.len()],
            receivers,
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        // xorshift64.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below.max(1)
    }

    fn fly(&mut self, to: usize, bytes: &[u8]) {
        if self.draw(1000) < self.faults.lost {
            return;
        }
        let copies = 1 + u64::from(self.draw(1000) < self.faults.doubled);
        for _ in 0..copies {
            let arrival = self.now + 20 * US + self.draw(self.faults.jitter_ns + 1);
            self.flights += 1;
            self.flying.insert((arrival, self.flights), Flight { to, bytes: bytes.to_vec() });
        }
    }

    /// Everything that can happen now, then on to the next moment; false when nothing is left before `until`.
    fn step(&mut self, until: u64) -> bool {
        let mut buffer = [0; 1500];
        while let Some(out) = self.source.poll_transmit(self.now, &mut buffer) {
            for to in 1..=self.receivers.len() {
                self.fly(to, &buffer[..out.length]);
            }
        }
        for at in 0..self.receivers.len() {
            self.receivers[at].handle_timeout(self.now);
            while let Some(out) = self.receivers[at].poll_transmit(self.now, &mut buffer) {
                assert!(Packet::parse(&buffer[..out.length]).is_ok());
                assert!(matches!(out.to, Destination::GroupOnLink | Destination::Unicast(_)));
                self.fly(0, &buffer[..out.length]);
            }
            let mut message = [0; 9000];
            while let Some(got) = self.receivers[at].next_message(&mut message) {
                self.delivered[at].push(message[..got.length].to_vec());
            }
            while let Some(event) = self.receivers[at].poll_event() {
                self.events[at].push(event);
            }
        }
        let arrival = self.flying.keys().next().map(|(at, _)| *at);
        let timers = self.receivers.iter().filter_map(Receiver::poll_timeout).min();
        let sending = self.source.poll_timeout(self.now);
        let Some(next) = [arrival, timers, sending].into_iter().flatten().min().filter(|next| *next <= until) else {
            return false;
        };
        self.now = self.now.max(next);
        while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let flight = entry.remove();
            match flight.to {
                0 => self.source.handle_datagram(self.now, &flight.bytes).unwrap(),
                to => self.receivers[to - 1].handle_datagram(self.now, address(), &flight.bytes).unwrap(),
            }
        }
        true
    }

    fn run(&mut self, until: u64) {
        let mut steps = 0_u64;
        while self.step(until) {
            steps += 1;
            assert!(steps < 2_000_000, "it never comes to rest");
        }
        self.now = until;
    }
}

fn address() -> IpAddr {
    "192.0.2.1".parse().unwrap()
}

fn group() -> IpAddr {
    "239.192.0.1".parse().unwrap()
}

fn source() -> SourceConfig {
    SourceConfig { window_packets: 1024, ..SourceConfig::new(TSI, 7500, group(), address()) }
}

fn receiver() -> ReceiverConfig {
    ReceiverConfig { window_packets: 1024, ..ReceiverConfig::new(7500, group(), 1) }
}

fn message(number: u32, bytes: usize) -> Vec<u8> {
    number.to_be_bytes().into_iter().cycle().take(bytes.max(4)).collect()
}

/// Sends them `every_ns`, then ends the session and lets everything settle.
fn publish(network: &mut Network, messages: &[Vec<u8>], every_ns: u64) {
    // An SPM that comes before the first data makes sure that nothing is missed at the beginning.
    network.run(50 * MS);
    for (at, message) in messages.iter().enumerate() {
        network.source.send(message).unwrap();
        network.run(50 * MS + (at as u64 + 1) * every_ns);
    }
    network.source.close();
    let end = network.now;
    network.run(end + 10_000 * MS);
}

#[test]
fn a_clean_network_needs_no_repair() {
    let faults = Faults { lost: 0, doubled: 0, jitter_ns: 0 };
    let mut network = Network::new(source(), receiver(), 3, faults, 5);
    let messages: Vec<Vec<u8>> = (0..500).map(|number| message(number, 100)).collect();
    publish(&mut network, &messages, 25 * US);
    for (delivered, events) in network.delivered.iter().zip(&network.events) {
        assert_eq!(delivered, &messages);
        assert_eq!(events, &[Event::Source { tsi: TSI }, Event::Finished { tsi: TSI }]);
    }
    assert_eq!((network.source.counts().naks, network.source.counts().rdata), (0, 0));
}

#[test]
fn suppression_spares_naks() {
    // What the source loses, all miss; each asks for itself unless it hears the NCF first.
    let faults = Faults { lost: 0, doubled: 0, jitter_ns: 0 };
    let config = ReceiverConfig { back_off_ns: 5 * MS, ..receiver() };
    let mut network = Network::new(source(), config, 20, faults, 5);
    network.run(50 * MS);
    network.source.send(b"one").unwrap();
    network.run(51 * MS);
    network.faults.lost = 1000;
    network.source.send(b"two").unwrap();
    network.run(52 * MS);
    network.faults.lost = 0;
    network.source.send(b"three").unwrap();
    network.run(500 * MS);
    assert!(network.delivered.iter().all(|delivered| delivered.len() == 3));
    let asked: u64 = network.receivers.iter().map(|receiver| receiver.counts().naks).sum();
    assert!((1..=5).contains(&asked), "{asked} NAKs of 20 receivers");
    assert!(network.source.counts().rdata <= asked);
}

#[test]
fn a_number_that_wraps_changes_nothing() {
    let faults = Faults { lost: 50, doubled: 20, jitter_ns: 100 * US };
    let config = SourceConfig { first: Sqn(u32::MAX - 100), ..source() };
    let mut network = Network::new(config, receiver(), 2, faults, 77);
    let messages: Vec<Vec<u8>> = (0..300).map(|number| message(number, 40)).collect();
    publish(&mut network, &messages, 50 * US);
    assert!(network.delivered.iter().all(|delivered| *delivered == messages));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// With loss below everything and timers that do not run out: all, once, in order; and a bounded number of NAKs.
    #[test]
    fn everything_is_delivered_once_and_in_order(
        lost in 0_u64..300,
        doubled in 0_u64..100,
        jitter_us in 0_u64..300,
        receivers in 1_usize..4,
        sizes in proptest::collection::vec(prop_oneof![8 => 4_usize..200, 1 => 1400_usize..6000], 1..250),
        seed in any::<u64>(),
    ) {
        let faults = Faults { lost, doubled, jitter_ns: jitter_us * US };
        let mut network = Network::new(source(), receiver(), receivers, faults, seed);
        let messages: Vec<Vec<u8>> = sizes.iter().zip(0..).map(|(bytes, number)| message(number, *bytes)).collect();
        publish(&mut network, &messages, 100 * US);
        for delivered in &network.delivered {
            prop_assert_eq!(delivered, &messages);
        }
        for receiver in &network.receivers {
            let counts = receiver.counts();
            prop_assert_eq!((counts.lost, counts.recovered), (0, counts.missing));
            // Each way of NAK, NCF and repair fails with less than 1 - 0.7³; ten times what that asks for on average.
            prop_assert!(counts.numbers_asked <= 50 + 30 * counts.missing, "{:?}", counts);
        }
    }
}

proptest! {
    #[test]
    fn any_script_comes_to_an_end(script in proptest::collection::vec(any::<u8>(), 0..2000)) {
        pgm::exercise::engines(&script);
    }
}
