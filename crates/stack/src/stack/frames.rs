//! Frames that arrive.

use super::reply::Reply;
use super::{Disposition, Event, PassedBy, Stack, UdpSocket};
use crate::address::Flow;
use crate::number::Seq;
use crate::tcp::{Outcome, TcpState};
use crate::wire::icmp::{self, Report};
use crate::wire::ip::{self, Packet};
use crate::wire::tcp::{ACK, SYN, Segment};
use crate::wire::{PROTOCOL_ICMP, PROTOCOL_ICMP_V6, PROTOCOL_TCP, PROTOCOL_UDP, checksum, u16_at};
use crate::{Instant, ReceiveChecksum};

/// The narrowest path that ICMP may report, as Linux: less would cut segments to nothing (RFC 1191, section 3).
const NARROWEST_V4: u32 = 552;
const NARROWEST_V6: u32 = 1280;

impl Stack {
    /// Takes a frame that was received, with its Ethernet header and without frame check sequence.
    pub fn handle_frame(&mut self, now: Instant, frame: &[u8]) -> Disposition {
        self.counts.frames_received += 1;
        match self.take(now, frame) {
            Ok(()) => Disposition::Taken,
            Err(reason) => {
                if let Some(count) = self.counts.passed_by.get_mut(reason as usize) {
                    *count += 1;
                }
                Disposition::PassedBy(reason)
            }
        }
    }

    fn take(&mut self, now: Instant, frame: &[u8]) -> Result<(), PassedBy> {
        let packet = ip::parse(frame, self.config.mac)?;
        if !self.is_local(packet.local) {
            return Err(PassedBy::NotForUs);
        }
        match packet.protocol {
            PROTOCOL_TCP => self.take_tcp(now, &packet),
            PROTOCOL_UDP => self.take_udp(now, &packet),
            PROTOCOL_ICMP if packet.local.is_v4() => self.take_icmp(&packet),
            PROTOCOL_ICMP_V6 if !packet.local.is_v4() => self.take_icmp(&packet),
            _ => Err(PassedBy::OtherProtocol),
        }
    }

    /// Checks the checksum at this place of the payload.
    fn check(&self, packet: &Packet<'_>, at: usize) -> Result<(), PassedBy> {
        if self.config.receive_checksum == ReceiveChecksum::Skip {
            return Ok(());
        }
        let pseudo = packet.pseudo_sum();
        if checksum::fold(pseudo + checksum::sum(packet.payload)) == 0xffff {
            return Ok(());
        }
        let partial = u16::from_be_bytes(checksum::fold(pseudo).to_ne_bytes());
        if self.config.receive_checksum == ReceiveChecksum::VerifyOrPartial
            && u16_at(packet.payload, at) == Some(partial)
        {
            return Ok(());
        }
        Err(PassedBy::Checksum)
    }

    fn take_tcp(&mut self, now: Instant, packet: &Packet<'_>) -> Result<(), PassedBy> {
        let segment = Segment::parse(packet.payload).ok_or(PassedBy::Malformed)?;
        let flow = Flow {
            local: packet.local,
            remote: packet.remote,
            local_port: segment.destination_port,
            remote_port: segment.source_port,
        };
        let known = self.flows.get(&flow).copied();
        let is_used = |local| self.ends.contains_key(&(local, flow.local_port));
        if known.is_none() && !is_used(flow.local) && !is_used(flow.local.any()) {
            return Err(PassedBy::NoSocket);
        }
        // A connection with itself, or with no host (RFC 9293, MUST-63).
        if !packet.remote.is_unicast() || packet.remote == packet.local && flow.remote_port == flow.local_port {
            return Err(PassedBy::NotForUs);
        }
        self.check(packet, 16)?;
        let Some(index) = known else {
            if self.is_detached(&flow, &segment) {
                return Err(PassedBy::NoSocket);
            }
            self.take_unconnected(now, packet, &segment, flow, None);
            return Ok(());
        };
        if segment.has(SYN) && !segment.has(ACK) && self.may_replace(index, &segment) {
            let after = self.replace(index);
            self.take_unconnected(now, packet, &segment, flow, after);
            return Ok(());
        }
        if self.is_backlog_full(index, &segment) {
            self.counts.backlog_full += 1;
            return Ok(());
        }
        let Some(connection) = self.connections.at(index) else { return Ok(()) };
        match connection.segment(now, &segment) {
            Outcome::Nothing => {}
            Outcome::Accepted => self.accepted(index),
            Outcome::Refused => {
                let reply = Reply::refusal(packet, self.config.mac, &segment);
                self.reply(reply);
            }
        }
        self.settle(index);
        Ok(())
    }

    /// Whether a SYN may replace a connection in TIME-WAIT: it is newer (RFC 9293, section 3.6.1; RFC 6191).
    fn may_replace(&mut self, index: u32, segment: &Segment<'_>) -> bool {
        let Some(connection) = self.connections.at(index) else { return false };
        connection.state == TcpState::TimeWait && connection.orphan && segment.sequence.after(connection.receive.next)
    }

    /// Ends a connection in TIME-WAIT; the sequence number behind which a new one begins.
    pub(super) fn replace(&mut self, index: u32) -> Option<Seq> {
        let key = self.connections.key(index)?;
        let connection = self.connections.at(index)?;
        let after = connection.send.next.plus(1 << 17);
        connection.end(None);
        self.ended(key);
        Some(after)
    }

    fn take_udp(&mut self, now: Instant, packet: &Packet<'_>) -> Result<(), PassedBy> {
        let (source, destination, payload, has_checksum) =
            crate::udp::parse(packet.payload).ok_or(PassedBy::Malformed)?;
        let flow = Flow { local: packet.local, remote: packet.remote, local_port: destination, remote_port: source };
        let index = self.udp_socket_for(&flow).ok_or(PassedBy::NoSocket)?;
        if !packet.remote.is_unicast() {
            return Err(PassedBy::NotForUs);
        }
        if has_checksum {
            self.check(packet, 6)?;
        } else if !packet.local.is_v4() {
            // IPv6 has no datagrams without one (RFC 8200, section 8.1).
            return Err(PassedBy::Checksum);
        }
        let Some(key) = self.udp.key(index) else { return Ok(()) };
        let Some(socket) = self.udp.at(index) else { return Ok(()) };
        if !socket.inbox.push((flow, now, packet.marks), payload) {
            socket.dropped += 1;
            self.counts.datagrams_dropped += 1;
            return Ok(());
        }
        socket.read_edges += 1;
        if !socket.announced {
            socket.announced = true;
            self.events.push_back(Event::Udp(UdpSocket(key)));
        }
        Ok(())
    }

    /// The socket of a received datagram: connected to its sender, or bound to its address, or to any.
    fn udp_socket_for(&self, flow: &Flow) -> Option<u32> {
        let find = |place: &Flow| self.udp_flows.find(place, flow);
        find(flow)
            .or_else(|| find(&Flow::listening(flow.local, flow.local_port)))
            .or_else(|| find(&Flow::listening(flow.local.any(), flow.local_port)))
    }

    fn take_icmp(&mut self, packet: &Packet<'_>) -> Result<(), PassedBy> {
        let message = icmp::parse(packet).ok_or(PassedBy::OtherProtocol)?;
        if message.flow.local != packet.local {
            return Err(PassedBy::NotForUs);
        }
        let taken = match message.protocol {
            PROTOCOL_TCP => self.report_tcp(&message),
            PROTOCOL_UDP => self.report_udp(&message),
            _ => false,
        };
        self.counts.icmp_taken += u64::from(taken);
        // The kernel has sockets beside that may want to know too.
        if taken { Ok(()) } else { Err(PassedBy::NoSocket) }
    }

    fn report_tcp(&mut self, message: &icmp::Message) -> bool {
        let Some(&index) = self.flows.get(&message.flow) else { return false };
        let Some(connection) = self.connections.at(index) else { return false };
        let send = &connection.send;
        // What outsiders cannot know: a number that is in flight (RFC 5927, section 4.1).
        if !(message.sequence.at_least(send.unacknowledged) && message.sequence.before(send.next)) {
            return false;
        }
        match message.report {
            // A hard error ends what is not yet connected (RFC 9293, section 3.9.2.2; RFC 5927, section 5.2).
            Report::Refused(error) if connection.state == TcpState::SynSent => connection.end(Some(error)),
            Report::Refused(error) | Report::Unreachable(error) => connection.soft_error = Some(error),
            Report::TooLong(mtu) => {
                if let Some(mtu) = usable_mtu(mtu, connection.path_mtu, message.flow.local.is_v4()) {
                    connection.path_is_narrower(mtu);
                    self.hops.narrow(message.flow.remote, mtu);
                }
            }
        }
        self.settle(index);
        true
    }

    fn report_udp(&mut self, message: &icmp::Message) -> bool {
        let Some(index) = self.udp_socket_for(&message.flow) else { return false };
        let Some(key) = self.udp.key(index) else { return false };
        let Some(socket) = self.udp.at(index) else { return false };
        let error = match message.report {
            Report::TooLong(mtu) => {
                let known = self.hops.get(message.flow.remote).map_or(self.config.mtu, |hop| hop.mtu);
                if let Some(mtu) = usable_mtu(mtu, known, message.flow.local.is_v4()) {
                    self.hops.narrow(message.flow.remote, mtu);
                }
                return true;
            }
            Report::Refused(error) => error,
            // Linux reports these to sockets with IP_RECVERR only.
            Report::Unreachable(_) => return true,
        };
        // Only a connected socket can get it (RFC 1122, section 4.1.3.3).
        if socket.remote == Some((message.flow.remote, message.flow.remote_port)) {
            socket.error = Some(error);
            socket.read_edges += 1;
            if !socket.announced {
                socket.announced = true;
                self.events.push_back(Event::Udp(UdpSocket(key)));
            }
        }
        true
    }
}

/// An MTU that ICMP reported, if narrower; the narrowest for routers that report none (RFC 1191, section 5).
fn usable_mtu(reported: u32, known: u16, is_v4: bool) -> Option<u16> {
    let narrowest = if is_v4 { NARROWEST_V4 } else { NARROWEST_V6 };
    u16::try_from(reported.max(narrowest)).ok().filter(|mtu| *mtu < known)
}
