//! Topics over PGM: one session for each topic, to the topic's group. NAKs are answered between the cycles.

use crate::NodeError;
use crate::node::subscriptions;
use crate::receiver::{Receive, Received, Subscription, beat, take};
use crate::report::Rejects;
use clock::Clock;
use exchange::{ExchangeFile, Framing, HEADER_BYTES, Header, MAX_DATA_BYTES, Topic, Transport};
use net::PathError;
use pgm::{Gsi, Tsi};
use pgm_io::{Carrier, Incoming, PgmIoError, PgmSocket, PgmSocketOptions};
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

/// Packets that can be repaired, and those that wait for a repair.
const WINDOW_PACKETS: u32 = 1024;
/// Sessions that a receiver knows: the present one, and those of a publisher that was killed before.
const SOURCES: usize = 4;
const WAIT: Duration = Duration::from_millis(50);
/// At its end a publisher repairs until nobody asked for so long, and no longer than the second time.
const LINGER: Duration = Duration::from_millis(50);
const CLOSE: Duration = Duration::from_millis(200);
/// So long before a cycle a publisher answers no more, in ns.
const QUIET_NS: u64 = 100_000;

/// Sends the frames of one topic.
#[derive(Debug)]
pub(crate) struct PgmSender {
    socket: PgmSocket,
    frame: Box<[u8]>,
}

/// The node's part of its sessions' identifiers.
fn gsi(node: &exchange::Node) -> Gsi {
    let [high, low] = node.id.to_be_bytes();
    Gsi([b'W', b'X', 0, 0, high, low])
}

/// UDP by the group's port, which is the application's in PGM's header, too.
fn options(group: SocketAddr, local: IpAddr) -> PgmSocketOptions {
    let mut options = PgmSocketOptions::new(Carrier::Udp { port: group.port() }, local);
    options.network.stamps = false;
    (options.notes, options.linger) = (1, LINGER);
    // It takes a while, so once. Without one the socket names the cause.
    static CLOCK: OnceLock<Option<Clock>> = OnceLock::new();
    options.clock = *CLOCK.get_or_init(|| Clock::calibrate().ok());
    options
}

fn failed(error: &PgmIoError) -> PathError {
    if let PgmIoError::Path(error) = error { *error } else { PathError::Closed }
}

impl PgmSender {
    /// `epoch`: of the publisher, in ns; each start is a session of its own.
    pub(crate) fn new(node: &exchange::Node, topic: &Topic, group: SocketAddr, epoch: u64) -> Result<Self, NodeError> {
        let [_, _, low, high, ..] = epoch.to_le_bytes();
        let tsi = Tsi { gsi: gsi(node), port: u16::from_le_bytes([low, high]) };
        let mut options = options(group, node.address).publish(tsi, group.port(), group.ip());
        if let Some(source) = &mut options.source {
            source.window_packets = WINDOW_PACKETS;
        }
        let socket = PgmSocket::open(&options).map_err(|cause| NodeError::Pgm { node: node.name.clone(), cause })?;
        Ok(Self { socket, frame: vec![0; topic.framing.header_bytes() + topic.bytes()].into_boxed_slice() })
    }

    #[inline]
    pub(crate) fn send(&mut self, framing: Framing, header: &Header, data: &[u8]) -> Result<(), PathError> {
        let Some(bytes) = framing.encode(header, data, &mut self.frame) else { return Ok(()) };
        let sent = self.socket.send(self.frame.get(..bytes).unwrap_or_default());
        sent.map(|_| ()).map_err(|error| failed(&error))
    }

    /// Answers NAKs until shortly before a time of CLOCK_MONOTONIC, or until a signal.
    #[inline]
    pub(crate) fn serve(&mut self, until_ns: u64) -> Result<(), PathError> {
        match until_ns.saturating_sub(clock::monotonic_ns().saturating_add(QUIET_NS)) {
            0 => Ok(()),
            left_ns => self.socket.drive(Duration::from_nanos(left_ns)).map_err(|error| failed(&error)),
        }
    }

    /// Ends the session; returns the number of packets that did not leave.
    pub(crate) fn finish(mut self) -> u64 {
        // Subscribers notice the silence, too.
        let _ = self.socket.close(CLOSE);
        self.socket.counts().unsent
    }
}

/// Receives one topic.
pub(crate) struct PgmReceiver {
    socket: PgmSocket,
    buffer: Box<[u8]>,
    spins: bool,
    publisher: Gsi,
    pub(crate) subscriptions: Vec<Subscription>,
    rejects: Rejects,
}

/// One receiver for each topic that the node subscribes over PGM.
pub(crate) fn pgm_receivers(
    file: &ExchangeFile,
    node: &exchange::Node,
) -> Result<Vec<(SocketAddr, PgmReceiver)>, NodeError> {
    let open = |(group, subscriptions): (SocketAddr, Vec<Subscription>)| {
        let mut options = options(group, node.address).subscribe(group.port(), group.ip());
        let topic = subscriptions.first().map(|subscription| subscription.topic.as_str()).unwrap_or_default();
        if let (Some(receiver), Some(topic)) = (&mut options.receiver, file.topic(topic)) {
            (receiver.window_packets, receiver.max_sources) = (WINDOW_PACKETS, SOURCES);
            // What is missing holds newer values back: once they would be stale, it is given up.
            let retries = topic.stale_ns().div_ceil(receiver.repeat_ns);
            receiver.ncf_retries = u32::try_from(retries).unwrap_or(u32::MAX);
            receiver.data_retries = u32::try_from(topic.stale_ns().div_ceil(receiver.data_ns)).unwrap_or(u32::MAX);
        }
        let socket = PgmSocket::open(&options).map_err(|cause| NodeError::Pgm { node: node.name.clone(), cause })?;
        let publisher = file.publisher(topic).map(gsi).unwrap_or_default();
        let buffer = vec![0; HEADER_BYTES + MAX_DATA_BYTES].into_boxed_slice();
        let (spins, rejects) = (node.spin, Rejects::default());
        Ok((group, PgmReceiver { socket, buffer, spins, publisher, subscriptions, rejects }))
    };
    subscriptions(file, node, Transport::Pgm)?.into_iter().map(open).collect()
}

impl Receive for PgmReceiver {
    fn spins(&self) -> bool {
        self.spins
    }

    #[inline]
    fn turn(&mut self, spins: bool) -> Result<usize, PathError> {
        let timeout = if spins { Duration::ZERO } else { WAIT };
        let incoming = self.socket.receive(&mut self.buffer, timeout).map_err(|error| failed(&error))?;
        let Self { buffer, publisher, subscriptions, rejects, .. } = self;
        if let (Incoming::Message(message), Some(first)) = (incoming, subscriptions.first()) {
            let (framing, sender) = (first.framing, first.sender);
            match buffer.get(..message.bytes) {
                _ if message.tsi.gsi != *publisher => rejects.other_sender += 1,
                None => rejects.too_long += 1,
                Some(bytes) => {
                    if let Err(error) = take(framing, subscriptions, rejects, (bytes, sender), &mut |_, _| {}) {
                        rejects.count(error);
                    }
                }
            }
        }
        beat(subscriptions);
        Ok(usize::from(matches!(incoming, Incoming::Message(_) | Incoming::Event(_))))
    }

    fn finish(mut self) -> Received {
        let counts = self.socket.counts();
        self.rejects.overflowed = counts.overflowed;
        Received { repaired: Some(counts.receiver.recovered), ..Received::new(self.subscriptions, self.rejects) }
    }
}
