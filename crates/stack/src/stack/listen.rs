//! Listeners: SYNs, cookies where too many are half open, and the backlog.

use super::reply::Reply;
use super::{Event, Listener, Stack};
use crate::address::{Address, Flow};
use crate::number::Seq;
use crate::slab::Key;
use crate::tcp::{Connection, TcpState, cookie, window_shift};
use crate::time::SECOND;
use crate::wire::ip::Packet;
use crate::wire::tcp::{ACK, Header, OptionBytes, Options, RST, SYN, Segment};
use crate::{Hop, Instant, TcpOptions};
use std::collections::VecDeque;

/// How long after the last cookie an acknowledgment may be one's answer.
const COOKIES_LAST: u64 = 128 * SECOND;

#[derive(Debug)]
pub(super) struct Listening {
    pub(super) local: Address,
    pub(super) port: u16,
    pub(super) both: bool,
    pub(super) backlog: usize,
    pub(super) options: TcpOptions,
    pub(super) queue: VecDeque<u32>,
    pub(super) read_edges: u32,
    pub(super) announced: bool,
    pub(super) last_cookie: Option<Instant>,
}

impl Listening {
    /// As Linux: one more than the backlog.
    pub(super) fn is_full(&self) -> bool {
        self.queue.len() > self.backlog
    }

    pub(super) fn places(&self) -> impl Iterator<Item = Flow> {
        let second = self.both.then(|| Flow::listening(Address::ANY_V4, self.port));
        std::iter::once(Flow::listening(self.local, self.port)).chain(second)
    }
}

/// How the SYN-ACK to a SYN begins: the options that both ends have.
fn agreed(options: &TcpOptions, mut offered: Options) -> Options {
    offered.window_scale = offered.window_scale.filter(|_| options.window_scale);
    offered.sack_permitted &= options.sack;
    offered.timestamps = offered.timestamps.filter(|_| options.timestamps);
    offered
}

impl Stack {
    fn listener_for(&self, flow: &Flow) -> Option<u32> {
        let find = |local: Address| self.listening.find(&Flow::listening(local, flow.local_port), flow);
        find(flow.local).or_else(|| find(flow.local.any()))
    }

    /// Whether the acknowledgment that would complete a handshake has to be dropped, so that it comes again later.
    pub(super) fn is_backlog_full(&mut self, index: u32, segment: &Segment<'_>) -> bool {
        let Some(connection) = self.connections.at(index) else { return false };
        let Some(listener) = connection.listener else { return false };
        connection.state == TcpState::SynReceived
            && segment.has(ACK)
            && !segment.has(RST)
            && self.listeners.get(listener).is_some_and(Listening::is_full)
    }

    pub(super) fn accepted(&mut self, index: u32) {
        let Some(connection) = self.connections.at(index) else { return };
        let (remote, Some(key)) = (connection.flow.remote, connection.listener) else { return };
        if let Some(listener) = self.listeners.get_mut(key) {
            listener.queue.push_back(index);
            listener.read_edges += 1;
            if !listener.announced {
                listener.announced = true;
                self.events.push_back(Event::Listener(Listener(key)));
            }
        }
        if self.hops.get(remote).is_none() {
            self.need(remote);
        }
    }

    /// A segment of no connection, to a port of this stack. `after`: the connection begins behind this number.
    pub(super) fn take_unconnected(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        segment: &Segment<'_>,
        flow: Flow,
        after: Option<Seq>,
    ) {
        let listener = self.listener_for(&flow).and_then(|index| self.listeners.key(index));
        let Some(listener) = listener else {
            if !self.yielded_ports.contains_key(&flow.local_port) {
                self.refuse(packet, segment);
            }
            return;
        };
        // RFC 9293, section 3.10.7.2: reset, acknowledgment, SYN, and nothing else.
        if segment.has(RST) {
            return;
        }
        if segment.has(ACK) {
            if segment.has(SYN) || !self.open_cookie(now, packet, segment, flow, listener) {
                self.refuse(packet, segment);
            }
            return;
        }
        if segment.has(SYN) {
            self.take_syn(now, packet, segment, flow, (listener, after));
        }
    }

    fn refuse(&mut self, packet: &Packet<'_>, segment: &Segment<'_>) {
        let reply = Reply::refusal(packet, self.config.mac, segment);
        self.reply(reply);
    }

    fn take_syn(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        segment: &Segment<'_>,
        flow: Flow,
        (key, after): (Key, Option<Seq>),
    ) {
        let Some(listener) = self.listeners.get_mut(key) else { return };
        if listener.is_full() {
            self.counts.backlog_full += 1;
            return;
        }
        let options = Options::parse(segment.options);
        if self.half_open >= self.config.max_half_open {
            listener.last_cookie = Some(now);
            let own = listener.options;
            self.send_cookie(now, packet, segment, flow, (&own, &options));
            return;
        }
        let own = listener.options;
        let initial = self.secret.initial_sequence(now, &flow);
        let initial = after.map_or(initial, |after| initial.later(after));
        let Some(index) = self.add_connection(flow, own, initial, Some(key)) else {
            self.counts.connections_refused += 1;
            return;
        };
        self.provide_hop(index, packet);
        self.half_open += 1;
        if let Some(connection) = self.connections.at(index) {
            connection.half_open = true;
            connection.answer(now, segment.sequence, segment.window, &options);
        }
        self.settle(index);
    }

    /// Makes room for a connection; None at the limit.
    pub(super) fn add_connection(
        &mut self,
        flow: Flow,
        options: TcpOptions,
        initial: Seq,
        listener: Option<Key>,
    ) -> Option<u32> {
        if self.connections.len() >= self.config.max_connections {
            return None;
        }
        self.reserve();
        let offset = self.secret.timestamp_offset(&flow);
        let mut connection = Connection::new(flow, options, self.config.mtu, initial, offset);
        connection.listener = listener;
        let key = self.connections.insert(Box::new(connection));
        self.flows.insert(flow, key.index);
        self.use_end(flow.local, flow.local_port);
        self.wheel.reserve(key.index);
        Some(key.index)
    }

    /// The next hop of a connection that the other end began: as given, or else to where its segment came from.
    fn provide_hop(&mut self, index: u32, packet: &Packet<'_>) {
        let provisional = Hop { mac: packet.source_mac, mtu: self.config.mtu, source: packet.local.ip() };
        let hop = self.hops.get(packet.remote).copied().unwrap_or(provisional);
        if let Some(connection) = self.connections.at(index) {
            connection.set_hop(self.config.mac, &hop);
        }
    }

    /// Answers a SYN without remembering it.
    fn send_cookie(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        segment: &Segment<'_>,
        flow: Flow,
        (own, offered): (&TcpOptions, &Options),
    ) {
        let offered = agreed(own, *offered);
        let connection = Connection::new(flow, *own, self.config.mtu, Seq(0), self.secret.timestamp_offset(&flow));
        let mut options = OptionBytes::default();
        options.add_mss(connection.announced_mss());
        // Window scale and SACK are known later only by the echo of a time stamp.
        if let Some((value, _)) = offered.timestamps {
            if offered.sack_permitted {
                options.add_sack_permitted();
            }
            options.add_timestamps(cookie::stamp(connection.timestamp(now), &offered), value);
            if offered.window_scale.is_some() {
                options.add_window_scale(window_shift(own.receive_buffer.next_power_of_two()));
            }
        }
        let mss = offered.mss.unwrap_or(connection.send.peer_mss);
        let window = own.receive_buffer.next_power_of_two().min(65_535);
        let header = Header {
            source_port: flow.local_port,
            destination_port: flow.remote_port,
            sequence: self.secret.cookie(now, &flow, segment.sequence, mss),
            acknowledgment: segment.sequence.plus(1),
            flags: SYN | ACK,
            window: crate::number::short(window),
            urgent: 0,
        };
        self.reply(Some(Reply::to(packet, self.config.mac, header, options)));
    }

    /// Makes a connection of the acknowledgment of a cookie; false when it is none.
    fn open_cookie(&mut self, now: Instant, packet: &Packet<'_>, segment: &Segment<'_>, flow: Flow, key: Key) -> bool {
        let Some(listener) = self.listeners.get(key) else { return false };
        if listener.last_cookie.is_none_or(|last| now.since(last) > COOKIES_LAST) {
            return false;
        }
        let (peer, initial) = (segment.sequence.minus(1), segment.acknowledgment.minus(1));
        let Some(mss) = self.secret.opened(now, &flow, peer, initial) else { return false };
        if listener.is_full() {
            self.counts.backlog_full += 1;
            return true;
        }
        let own = listener.options;
        let sent = Options::parse(segment.options);
        let mut offered = Options::default();
        (offered.mss, offered.timestamps) = (Some(mss), sent.timestamps);
        if let Some((_, echo)) = sent.timestamps {
            cookie::stamped(echo, &mut offered);
        }
        let Some(index) = self.add_connection(flow, own, initial, Some(key)) else {
            self.counts.connections_refused += 1;
            return true;
        };
        self.provide_hop(index, packet);
        self.counts.cookies_accepted += 1;
        if let Some(connection) = self.connections.at(index) {
            connection.answer(now, peer, segment.window, &offered);
            connection.wanted.syn = false;
            connection.send.last_sent = Instant::NEVER;
            let _ = connection.segment(now, segment);
        }
        self.accepted(index);
        self.settle(index);
        true
    }
}
