//! What takes part in a network.

use std::net::IpAddr;

/// A packet that reached a node.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// Who sent it.
    pub from: IpAddr,
    /// Whom it was sent to: the node's own address, or a group that it joined.
    pub to: IpAddr,
    /// What it carries.
    pub bytes: &'a [u8],
}

/// A packet that a node sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    /// Its length in the buffer.
    pub length: usize,
    /// An address of a node, or a group.
    pub to: IpAddr,
}

/// What takes part in a network: driven as the engines of this crate are.
///
/// Whenever something has happened to a node, the network lets it [`act`](Node::act), takes what it sends until there is no
/// more, and asks when to call it again.
pub trait Node {
    /// A packet has arrived.
    fn handle_datagram(&mut self, now_ns: u64, arrival: Arrival<'_>);

    /// The time of [`Self::poll_timeout`] has come.
    fn handle_timeout(&mut self, now_ns: u64);

    /// Something has happened: messages can be taken, answers given.
    fn act(&mut self, now_ns: u64) {
        let _ = now_ns;
    }

    /// The next packet to be sent now, written into `buffer` of 65,535 bytes.
    fn poll_transmit(&mut self, now_ns: u64, buffer: &mut [u8]) -> Option<Outgoing>;

    /// When to call again although nothing has arrived.
    fn poll_timeout(&mut self, now_ns: u64) -> Option<u64>;
}
