//! What the scenarios have in common: a source, receivers, and somebody who sends whatever a test wants.

use pgm::packet::{Body, Data, Nak, NakList, Options, Packet, Spm};
use pgm::receiver::{Event, SessionEvent};
use pgm::sim::{Link, Network, NodeId, PassingPacket, SentPacket, Station};
use pgm::{Gsi, ReceiverConfig, SourceConfig, Sqn, Tsi};
use std::net::IpAddr;

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const PORT: u16 = 7500;
pub(crate) const TSI: Tsi = Tsi { gsi: Gsi([1, 2, 3, 4, 5, 6]), port: 999 };

pub(crate) fn group() -> IpAddr {
    "239.192.0.1".parse().unwrap()
}

/// The address of node number so much; the source is 1.
pub(crate) fn address(number: usize) -> IpAddr {
    format!("192.0.2.{number}").parse().unwrap()
}

/// What happened to the source of [`TSI`].
pub(crate) fn ours(what: SessionEvent) -> Event {
    Event { tsi: TSI, what }
}

pub(crate) fn source() -> SourceConfig {
    SourceConfig { window_packets: 1024, ..SourceConfig::new(TSI, PORT, group(), address(1)) }
}

pub(crate) fn receiver() -> ReceiverConfig {
    ReceiverConfig { window_packets: 1024, max_sources: 2, ..ReceiverConfig::new(PORT, group(), 1) }
}

/// One source and some receivers, each on a link of its own.
pub(crate) struct World {
    pub(crate) net: Network<Station>,
    pub(crate) source: NodeId,
    pub(crate) receivers: Vec<NodeId>,
}

impl World {
    pub(crate) fn new(receivers: usize) -> Self {
        Self::with(source(), receiver(), receivers, Link::default(), 1)
    }

    /// Faults of the link are on the receivers' side only, where each misses something else.
    pub(crate) fn with(
        source: SourceConfig,
        receiver: ReceiverConfig,
        receivers: usize,
        link: Link,
        seed: u64,
    ) -> Self {
        let mut net = Network::new(seed);
        net.record(true);
        let clean = Link { lost: 0.0, doubled: 0.0, reordered: 0.0, jitter_ns: 0, ..link };
        let from = net.add(address(1), clean, Station::source(source).unwrap());
        let mut world = Self { net, source: from, receivers: Vec::new() };
        for at in 0..receivers {
            world.receiver(ReceiverConfig { seed: seed ^ at as u64, ..receiver }, link);
        }
        world
    }

    /// One receiver more.
    pub(crate) fn receiver(&mut self, config: ReceiverConfig, link: Link) -> NodeId {
        let number = self.receivers.len() + 2;
        let node = self.net.add(address(number), link, Station::receiver(config).unwrap());
        self.net.join(node, group());
        self.receivers.push(node);
        node
    }

    /// The first receiver.
    pub(crate) fn first(&self) -> NodeId {
        self.receivers[0]
    }

    pub(crate) fn run(&mut self, ns: u64) {
        self.net.run_for(ns).unwrap();
    }

    /// Sends one message; its number is its content.
    pub(crate) fn publish(&mut self, message: &[u8]) -> Sqn {
        self.net.node_mut(self.source).publish(message).unwrap()
    }

    /// Sends messages 0 to `count`, one each `every_ns`.
    pub(crate) fn stream(&mut self, from: u32, count: u32, every_ns: u64) {
        for number in from..from + count {
            self.publish(&number.to_be_bytes());
            self.run(every_ns);
        }
    }

    /// What a receiver has got, as numbers.
    pub(crate) fn numbers(&self, node: NodeId) -> Vec<u32> {
        let number = |bytes: &[u8]| u32::from_be_bytes(*bytes.first_chunk().unwrap());
        self.net.node(node).delivered().iter().map(|one| number(&one.bytes)).collect()
    }

    pub(crate) fn bodies(&self, node: NodeId) -> Vec<Vec<u8>> {
        self.net.node(node).delivered().iter().map(|one| one.bytes.clone()).collect()
    }

    pub(crate) fn events(&self, node: NodeId) -> Vec<Event> {
        self.net.node(node).events().iter().map(|(_, event)| *event).collect()
    }

    /// Packets sent by a node that are what `pick` wants.
    pub(crate) fn sent_by(&self, node: NodeId, name: &str) -> Vec<&SentPacket> {
        let is = |one: &&SentPacket| one.from == node && one.packet().is_some_and(|packet| packet.body.name() == name);
        self.net.sent().iter().filter(is).collect()
    }

    /// Names of the packets that were sent, in order.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.net.sent().iter().map(|one| one.packet().map_or("?", |packet| packet.body.name())).collect()
    }

    /// Numbers asked for by a node's NAKs, with their times.
    pub(crate) fn asked(&self, node: NodeId) -> Vec<(u64, Vec<u32>)> {
        self.sent_by(node, "NAK").into_iter().map(|one| (one.at_ns, numbers(&one.packet().unwrap()))).collect()
    }

    /// Loses these numbers of ODATA on their way to one receiver, or to all.
    pub(crate) fn lose(&mut self, to: Option<NodeId>, sqns: &[u32]) {
        let sqns = sqns.to_vec();
        self.net.set_filter(move |crossing: &PassingPacket<'_>| {
            let lost = to.is_none_or(|to| to == crossing.to)
                && matches!(crossing.packet().map(|packet| packet.body), Some(Body::Odata(data)) if sqns.contains(&data.sqn.0));
            !lost
        });
    }

    /// A packet of the source's, made by a test, sent to the group.
    pub(crate) fn forge(&mut self, body: Body<'_>, options: Options<'_>) {
        let bytes = bytes(&Packet { tsi: TSI, data_port: PORT, body, options });
        self.net.send_as(self.source, group(), &bytes);
    }

    /// Somebody at address 66, who sends only what a test wants.
    pub(crate) fn stranger(&mut self) -> NodeId {
        self.net.add(address(66), Link::default(), Station::new(0, None, None).unwrap())
    }

    /// A packet in the source's name that comes from somebody else.
    pub(crate) fn forge_as(&mut self, node: NodeId, body: Body<'_>) {
        let bytes = bytes(&Packet { tsi: TSI, data_port: PORT, body, options: none() });
        self.net.send_as(node, group(), &bytes);
    }
}

/// A world whose source does nothing by itself: the test sends in its name.
pub(crate) fn puppet(config: ReceiverConfig) -> World {
    let mut net = Network::new(1);
    net.record(true);
    let source = net.add(address(1), Link::default(), Station::new(0, None, None).unwrap());
    let mut world = World { net, source, receivers: Vec::new() };
    world.receiver(config, Link::default());
    world
}

pub(crate) fn none() -> Options<'static> {
    Options::default()
}

/// Numbers of a NAK or NCF.
pub(crate) fn numbers(packet: &Packet<'_>) -> Vec<u32> {
    packet.sqn().into_iter().chain(packet.options.nak_list.iter()).map(|sqn| sqn.0).collect()
}

pub(crate) fn bytes(packet: &Packet<'_>) -> Vec<u8> {
    let mut buffer = vec![0; 65_535];
    let length = packet.write(&mut buffer).unwrap();
    buffer.truncate(length);
    buffer
}

pub(crate) fn odata(sqn: u32, trail: u32, payload: &[u8]) -> Body<'_> {
    Body::Odata(Data { sqn: Sqn(sqn), trail: Sqn(trail), payload })
}

pub(crate) fn rdata(sqn: u32, trail: u32, payload: &[u8]) -> Body<'_> {
    Body::Rdata(Data { sqn: Sqn(sqn), trail: Sqn(trail), payload })
}

pub(crate) fn spm(sqn: u32, trail: u32, lead: u32) -> Body<'static> {
    Body::Spm(Spm { sqn: Sqn(sqn), trail: Sqn(trail), lead: Sqn(lead), path: address(1) })
}

pub(crate) fn nak(sqn: u32) -> Nak {
    Nak { sqn: Sqn(sqn), source: address(1), group: group() }
}

/// A NAK for some numbers, as it goes to the source.
pub(crate) fn nak_bytes(sqns: &[u32]) -> Vec<u8> {
    let list: Vec<Sqn> = sqns[1..].iter().copied().map(Sqn).collect();
    let options = Options { nak_list: NakList::Numbers(&list), ..Options::default() };
    bytes(&Packet { tsi: TSI, data_port: PORT, body: Body::Nak(nak(sqns[0])), options })
}

/// A value so far down a sorted list.
pub(crate) fn quantile(sorted: &[u64], share: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
    let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied()
}
