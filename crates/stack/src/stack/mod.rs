//! The stack: sockets, tables and queues, and the way of a frame between them.

mod detach;
mod frames;
mod listen;
mod places;
mod reply;
mod tcp_calls;
mod types;
mod udp_calls;

pub use detach::TcpSnapshot;
pub use reply::probe_segment;
pub use types::{Counts, Disposition, Event, Listener, PassedBy, Readiness, Shutdown, TcpInfo, TcpSocket, UdpSocket};

use crate::address::{Address, Flow, Keyed, Table};
use crate::hop::{Hop, Hops};
use crate::slab::{Key, Slab};
use crate::tcp::cookie::Secret;
use crate::tcp::{Connection, TcpState};
use crate::udp::Udp;
use crate::wheel::Wheel;
use crate::wire::PROTOCOL_UDP;
use crate::wire::ip::{Marks, Template};
use crate::{Config, Error, Instant};
use listen::Listening;
use places::Places;
use reply::Reply;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Replies without a connection that wait to be sent; more are dropped.
const MAX_REPLIES: usize = 64;
/// Addresses whose next hop is asked for at once.
const MAX_NEEDED: usize = 64;

/// Time-outs in a row after which the next hop is in doubt and asked for again: R1 of RFC 9293, section 3.8.3.
const NEGATIVE_ADVICE: u32 = 3;

/// A socket that may have something to send.
#[derive(Debug, Clone, Copy)]
enum Sender {
    Tcp(u32),
    Udp(u32),
}

/// UDP and TCP of one interface; see [crate](crate). Calls of a closed socket return [`Error::BadHandle`].
#[derive(Debug)]
pub struct Stack {
    config: Config,
    addresses: Vec<Address>,
    secret: Secret,
    hops: Hops,
    connections: Slab<Box<Connection>>,
    flows: Table<Flow, u32>,
    listeners: Slab<Listening>,
    listening: Places,
    /// Connections that another TCP has now.
    detached: Table<Flow, ()>,
    /// Listeners and connections of each local address and TCP port; a listener for both families counts at both unspecified addresses.
    ends: Table<(Address, u16), u32>,
    /// TCP ports of connections on which another TCP of this host may listen.
    yielded_ports: Table<u16, ()>,
    udp: Slab<Udp>,
    /// UDP sockets by their flow or their local end.
    udp_flows: Places,
    wheel: Wheel,
    output: VecDeque<Sender>,
    replies: VecDeque<Reply>,
    events: VecDeque<Event>,
    needed: VecDeque<Address>,
    half_open: usize,
    /// Connections in TIME-WAIT, the oldest first.
    time_wait: VecDeque<Key>,
    counts: Counts,
}

impl Stack {
    /// A stack without sockets.
    pub fn new(config: Config) -> Self {
        let keyed = Keyed::new(u128::from_ne_bytes(config.secret));
        Self {
            addresses: config.addresses.iter().map(|ip| Address::from(*ip)).collect(),
            secret: Secret(config.secret),
            hops: Hops::new(config.max_hops, keyed),
            connections: Slab::default(),
            flows: HashMap::with_hasher(keyed),
            listeners: Slab::default(),
            listening: Places::new(keyed),
            detached: HashMap::with_hasher(keyed),
            ends: HashMap::with_hasher(keyed),
            yielded_ports: HashMap::with_hasher(keyed),
            udp: Slab::default(),
            udp_flows: Places::new(keyed),
            wheel: Wheel::new(),
            output: VecDeque::new(),
            replies: VecDeque::with_capacity(MAX_REPLIES),
            events: VecDeque::new(),
            needed: VecDeque::with_capacity(MAX_NEEDED),
            half_open: 0,
            time_wait: VecDeque::with_capacity(config.max_time_wait + 1),
            counts: Counts::default(),
            config,
        }
    }

    /// What was counted since the start.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The interface has another MAC address or MTU. Hops that are set again use them.
    pub fn set_interface(&mut self, mac: [u8; 6], mtu: u16) {
        (self.config.mac, self.config.mtu) = (mac, mtu);
    }

    /// Whether a connection has this address at its local end.
    pub fn tcp_uses(&self, address: IpAddr) -> bool {
        let address = Address::from(address);
        self.connections.iter().any(|(_, connection)| connection.flow.local == address)
    }

    /// The interface has another set of addresses. Sockets with a removed address stay.
    pub fn set_addresses(&mut self, addresses: &[IpAddr]) {
        self.addresses = addresses.iter().map(|ip| Address::from(*ip)).collect();
    }

    /// Tells the next hop to an address. Connections that waited for it send; others use it from now on.
    pub fn set_hop(&mut self, remote: IpAddr, hop: Hop) {
        let remote = Address::from(remote);
        self.needed.retain(|needed| *needed != remote);
        self.hops.set(remote, hop);
        let to_it: Vec<u32> = self.indices(|connection| connection.flow.remote == remote);
        for index in to_it {
            if let Some(connection) = self.connections.at(index) {
                connection.set_hop(self.config.mac, &hop);
            }
            self.settle(index);
        }
    }

    /// The next hop to an address, where it is known.
    pub fn hop(&self, remote: IpAddr) -> Option<Hop> {
        self.hops.get(remote.into()).copied()
    }

    /// The next hop to an address is no longer valid. Connections keep it until they are given another.
    pub fn forget_hop(&mut self, remote: IpAddr) {
        self.hops.remove(remote.into());
    }

    /// No next hop answers: connections that are being made to this address fail, others note it.
    pub fn hop_failed(&mut self, remote: IpAddr) {
        let remote = Address::from(remote);
        self.needed.retain(|needed| *needed != remote);
        self.hops.remove(remote);
        for index in self.indices(|connection| connection.flow.remote == remote) {
            if let Some(connection) = self.connections.at(index) {
                if connection.state == TcpState::SynSent {
                    connection.end(Some(Error::HostUnreachable));
                } else {
                    connection.soft_error = Some(Error::HostUnreachable);
                }
            }
            self.settle(index);
        }
    }

    fn indices(&self, which: impl Fn(&Connection) -> bool) -> Vec<u32> {
        self.connections.iter().filter(|(_, connection)| which(connection)).map(|(key, _)| key.index).collect()
    }

    /// When to call [`Stack::handle_timeout`]: not later than the first timer, perhaps before. None: no timer runs.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.wheel.next()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(index) = self.wheel.due(now) {
            let Some(connection) = self.connections.at(index) else { continue };
            connection.scheduled = Instant::NEVER;
            connection.handle_timeout(now);
            let doubtful = (connection.send.backoff == NEGATIVE_ADVICE).then_some(connection.flow.remote);
            self.settle(index);
            if let Some(remote) = doubtful {
                self.need(remote);
            }
        }
    }

    /// Whether [`Stack::poll_transmit`] may have a frame.
    pub fn wants_transmit(&self) -> bool {
        !self.replies.is_empty() || !self.output.is_empty()
    }

    /// Writes the next frame (Ethernet header, no FCS); its length. Call until none; buffer: MTU and 14 bytes.
    pub fn poll_transmit(&mut self, now: Instant, frame: &mut [u8]) -> Option<usize> {
        if let Some(reply) = self.replies.pop_front() {
            self.counts.frames_sent += 1;
            return reply.write(frame);
        }
        while let Some(sender) = self.output.pop_front() {
            let written = match sender {
                Sender::Tcp(index) => self.transmit_tcp(now, index, frame),
                Sender::Udp(index) => self.transmit_udp(index, frame),
            };
            if written.is_some() {
                self.counts.frames_sent += 1;
                return written;
            }
        }
        None
    }

    fn transmit_tcp(&mut self, now: Instant, index: u32, frame: &mut [u8]) -> Option<usize> {
        let connection = self.connections.at(index)?;
        connection.queued = false;
        let written = connection.emit(now, frame);
        if written.is_some() {
            if connection.may_emit() {
                connection.queued = true;
                self.output.push_back(Sender::Tcp(index));
            }
        } else if connection.template.is_none() {
            let remote = connection.flow.remote;
            self.need(remote);
        }
        self.schedule(index);
        written
    }

    fn transmit_udp(&mut self, index: u32, frame: &mut [u8]) -> Option<usize> {
        let socket = self.udp.at(index)?;
        socket.queued = false;
        loop {
            let (letter, payload) = socket.outbox.front()?;
            let marks = Marks { ttl: socket.options.ttl, tos: socket.options.tos };
            let written = self.hops.get(letter.flow.remote).and_then(|hop| {
                let macs = [self.config.mac, hop.mac];
                let template = Template::new(macs, letter.flow.local, letter.flow.remote, PROTOCOL_UDP, marks);
                crate::udp::write(&template, &letter.flow, payload, frame)
            });
            socket.outbox.pop();
            if socket.short_of_room {
                socket.short_of_room = false;
                socket.write_edges += 1;
            }
            if written.is_none() {
                self.counts.datagrams_unsent += 1;
                continue;
            }
            if !socket.outbox.is_empty() {
                socket.queued = true;
                self.output.push_back(Sender::Udp(index));
            }
            return written;
        }
    }

    /// What has happened, the oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        while let Some(event) = self.events.pop_front() {
            // Events of sockets that were closed meanwhile are skipped.
            let announced = match event {
                Event::Tcp(TcpSocket(key)) => self.connections.get_mut(key).map(|connection| &mut connection.announced),
                Event::Udp(UdpSocket(key)) => self.udp.get_mut(key).map(|socket| &mut socket.announced),
                Event::Listener(Listener(key)) => self.listeners.get_mut(key).map(|listener| &mut listener.announced),
                Event::NeighbourNeeded(_) => None,
            };
            if let Some(announced) = announced {
                *announced = false;
                return Some(event);
            }
        }
        self.needed.pop_front().map(|remote| Event::NeighbourNeeded(remote.ip()))
    }

    /// Asks for the next hop to an address, once.
    fn need(&mut self, remote: Address) {
        if self.needed.len() < MAX_NEEDED && !self.needed.contains(&remote) {
            self.needed.push_back(remote);
        }
    }

    /// Room in all queues for one socket more, so that the data path does not allocate.
    fn reserve(&mut self) {
        let sockets = self.connections.len() + self.udp.len() + self.listeners.len() + 1;
        self.output.reserve(sockets.saturating_sub(self.output.len()));
        self.events.reserve(sockets.saturating_sub(self.events.len()));
    }

    /// After whatever was done to a connection: its replies, timers, place in the queues, and its end.
    fn settle(&mut self, index: u32) {
        let Some(key) = self.connections.key(index) else { return };
        let Some(connection) = self.connections.at(index) else { return };
        if connection.wanted.reset {
            connection.wanted.reset = false;
            let reply = Reply::reset_of(connection);
            self.reply(reply);
        }
        let Some(connection) = self.connections.at(index) else { return };
        if connection.half_open && connection.state != TcpState::SynReceived {
            connection.half_open = false;
            self.half_open -= 1;
        }
        match connection.state {
            TcpState::Closed => {
                self.ended(key);
                return;
            }
            TcpState::TimeWait if !connection.waiting => {
                connection.waiting = true;
                self.time_wait.push_back(key);
                if self.time_wait.len() > self.config.max_time_wait {
                    self.end_oldest_wait();
                }
            }
            _ => {}
        }
        self.enqueue(key);
        self.schedule(index);
        self.announce(key);
    }

    /// Sets the timer if it must fire earlier; a later one is set when it fires: most move with every segment.
    fn schedule(&mut self, index: u32) {
        if let Some(connection) = self.connections.at(index) {
            let deadline = connection.deadline();
            if deadline < connection.scheduled {
                connection.scheduled = deadline;
                self.wheel.set(index, deadline);
            }
        }
    }

    /// Reports edges that no event has reported.
    fn announce(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let edges = connection.read_edges.wrapping_add(connection.write_edges);
        if edges != connection.told_edges {
            connection.told_edges = edges;
            if !connection.announced && !connection.orphan && connection.listener.is_none() {
                connection.announced = true;
                self.events.push_back(Event::Tcp(TcpSocket(key)));
            }
        }
    }

    /// A connection is over: its flow is free; it stays for the application, unless that has closed or never seen it.
    fn ended(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let (flow, orphan, listener) = (connection.flow, connection.orphan, connection.listener);
        if connection.scheduled != Instant::NEVER {
            connection.scheduled = Instant::NEVER;
            self.wheel.remove(key.index);
        }
        if self.flows.get(&flow) == Some(&key.index) {
            self.flows.remove(&flow);
            self.counts.timeouts += connection.send.timeouts;
            self.counts.retransmits += connection.send.retransmits;
            self.release_end(flow.local, flow.local_port);
        }
        let waits_in_backlog = listener.is_some_and(|listener| {
            self.listeners.get(listener).is_some_and(|listener| listener.queue.contains(&key.index))
        });
        if orphan || listener.is_some() && !waits_in_backlog {
            self.connections.remove(key.index);
        } else {
            self.announce(key);
        }
    }

    fn end_oldest_wait(&mut self) {
        if let Some(oldest) = self.time_wait.pop_front()
            && let Some(connection) = self.connections.get_mut(oldest)
            && connection.state == TcpState::TimeWait
        {
            connection.end(None);
            self.ended(oldest);
        }
    }

    fn use_end(&mut self, local: Address, port: u16) {
        *self.ends.entry((local, port)).or_insert(0) += 1;
    }

    fn release_end(&mut self, local: Address, port: u16) {
        if let Some(count) = self.ends.get_mut(&(local, port)) {
            *count -= 1;
            if *count == 0 {
                self.ends.remove(&(local, port));
                if self.yielded_ports.contains_key(&port) && !self.uses_port(port) {
                    self.yielded_ports.remove(&port);
                }
            }
        }
    }

    fn uses_port(&self, port: u16) -> bool {
        self.ends.keys().any(|(_, used)| *used == port)
    }

    fn reply(&mut self, reply: Option<Reply>) {
        let Some(reply) = reply else { return };
        if self.replies.len() >= MAX_REPLIES {
            self.counts.replies_dropped += 1;
            return;
        }
        self.counts.resets_sent += u64::from(reply.is_reset());
        self.counts.cookies_sent += u64::from(!reply.is_reset());
        self.replies.push_back(reply);
    }

    /// Whether packets from and to these addresses can belong to one socket.
    fn is_local(&self, address: Address) -> bool {
        self.addresses.contains(&address)
    }
}

#[cfg(any(test, feature = "exercise"))]
impl Stack {
    pub(crate) fn each_connection(&self) -> impl Iterator<Item = &Connection> {
        self.connections.iter().map(|(_, connection)| connection.as_ref())
    }

    pub(crate) fn sizes(&self) -> crate::exercise::Sizes {
        crate::exercise::Sizes {
            replies: self.replies.len(),
            needed: self.needed.len(),
            events: self.events.len(),
            output: self.output.len(),
            sockets: self.connections.len() + self.udp.len() + self.listeners.len(),
        }
    }
}
