//! Appendix A: forward error correction. OpenPGM's is defective, so these scenarios, by section, are all that checks this one.

mod cost;
mod demand;
mod property;
mod short;
mod trouble;

use crate::world::{
    MS, PORT, SECOND, TSI, US, World, address, bytes, group, none, numbers, odata, ours, puppet, receiver, source, spm,
};
use pgm::fec::Config;
use pgm::packet::{Body, Data, Nak, Options, Packet, ParityParameters};
use pgm::receiver::{Counts, SessionEvent};
use pgm::sim::{Link, NodeId, PassingPacket};
use pgm::source::SourceCounts;
use pgm::{ReceiverConfig, SourceConfig, Sqn};

pub(super) fn fec() -> Config {
    Config { group_packets: 8, ..Config::default() }
}

pub(super) fn offering(fec: Config) -> SourceConfig {
    SourceConfig { fec: Some(fec), ..source() }
}

pub(super) fn using() -> ReceiverConfig {
    ReceiverConfig { parity: true, ..receiver() }
}

/// A source and receivers that have heard each other.
pub(super) fn world(fec: Config, config: ReceiverConfig, receivers: usize) -> World {
    let mut world = World::with(offering(fec), config, receivers, Link::default(), 3);
    world.run(50 * MS);
    world.net.forget_sent();
    world
}

pub(super) fn counts(world: &World, node: NodeId) -> Counts {
    world.net.node(node).counts()
}

pub(super) fn sent(world: &World) -> SourceCounts {
    world.net.node(world.source).source_counts()
}

/// Loses data packets, not parity, by number.
pub(super) fn lose(world: &mut World, to: Option<NodeId>, sqns: &[u32]) {
    let sqns = sqns.to_vec();
    world.net.set_filter(move |crossing: &PassingPacket<'_>| {
        let Some(packet) = crossing.packet() else { return true };
        let Body::Odata(data) = packet.body else { return true };
        packet.options.parity || to.is_some_and(|to| to != crossing.to) || !sqns.contains(&data.sqn.0)
    });
}

/// Parity packets that were sent: type, number, group of parity, size of a short group.
pub(super) fn parity(world: &World) -> Vec<(&'static str, u32, Option<u32>, Option<u32>)> {
    let packets = world.net.sent().iter().filter_map(|one| one.packet());
    packets
        .filter(|packet| packet.options.parity && matches!(packet.body, Body::Odata(_) | Body::Rdata(_)))
        .map(|packet| {
            let options = packet.options;
            (packet.body.name(), packet.sqn().unwrap().0, options.parity_group, options.current_group_size)
        })
        .collect()
}

/// NAKs or NCFs for parity, or for single packets.
pub(super) fn asked(world: &World, name: &str, parity: bool) -> Vec<Vec<u32>> {
    let packets = world.net.sent().iter().filter_map(|one| one.packet());
    packets
        .filter(|packet| packet.body.name() == name && packet.options.parity == parity)
        .map(|packet| numbers(&packet))
        .collect()
}

/// A NAK for parity: this many packets of the group that begins with `first`.
pub(super) fn ask(world: &mut World, first: u32, count: u32) {
    let body = Body::Nak(Nak { sqn: Sqn(first + count - 1), source: address(1), group: group() });
    let options = Options { parity: true, ..none() };
    let nak = bytes(&Packet { tsi: TSI, data_port: PORT, body, options });
    let node = world.first();
    world.net.send_as(node, address(1), &nak);
}
