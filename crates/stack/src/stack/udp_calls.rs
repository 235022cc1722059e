//! Calls for UDP.

use super::{Readiness, Sender, Stack, UdpSocket};
use crate::address::{Address, Flow};
use crate::udp::{self, QueuedDatagram, Received, Udp};
use crate::wire::PROTOCOL_UDP;
use crate::wire::ip::{Marks, Template};
use crate::{Error, Hop, Instant, UdpOptions};
use std::net::{IpAddr, SocketAddr};

impl Stack {
    /// Makes a socket on a local address, or on all of its family where it is unspecified. `both_families`: `::` means
    /// all addresses of IPv4 too. Errors: [`Error::InvalidArgument`] for port 0, [`Error::AddressNotAvailable`] where the
    /// address is none of the stack's, [`Error::AddressInUse`] where a socket has it.
    pub fn udp_bind(
        &mut self,
        local: SocketAddr,
        both_families: bool,
        options: UdpOptions,
    ) -> Result<UdpSocket, Error> {
        let address = self.bindable(local)?;
        if options.ttl == 0 || options.receive_datagrams == 0 {
            return Err(Error::InvalidArgument);
        }
        let socket = Udp::new(address, local.port(), both_families && address == Address::ANY_V6, options);
        if socket.flows().any(|flow| !self.udp_flows.allows(&flow, options.shares_port)) {
            return Err(Error::AddressInUse);
        }
        self.reserve();
        let flows: Vec<Flow> = socket.flows().collect();
        let key = self.udp.insert(socket);
        for flow in flows {
            self.udp_flows.add(flow, key.index, options.shares_port);
        }
        Ok(UdpSocket(key))
    }

    fn udp_socket(&self, socket: UdpSocket) -> Result<&Udp, Error> {
        self.udp.get(socket.0).ok_or(Error::BadHandle)
    }

    fn udp_socket_mut(&mut self, socket: UdpSocket) -> Result<&mut Udp, Error> {
        self.udp.get_mut(socket.0).ok_or(Error::BadHandle)
    }

    /// Connects a socket: it receives from this address only, and sends to it. None: it is no longer connected, and its
    /// local address stays. Errors: those of [`Stack::tcp_connect`]; [`Error::AddressInUse`] where another socket has this
    /// flow.
    pub fn udp_connect(&mut self, socket: UdpSocket, remote: Option<SocketAddr>) -> Result<(), Error> {
        let (local, both) = (self.udp_socket(socket)?.local, self.udp_socket(socket)?.both);
        let remote = remote.map(|remote| (Address::from(remote.ip()), remote.port()));
        let address = match remote {
            Some((address, _)) => {
                let of_family = if both && address.is_v4() { Address::ANY_V4 } else { local };
                self.source_for(of_family, address)?
            }
            None => local,
        };
        self.move_udp(socket, address, both && remote.is_none(), remote)
    }

    /// Gives a socket the local address (same port) and end of the kernel's beside it. Errors: as [`Stack::udp_bind`].
    pub fn udp_rebind(
        &mut self,
        socket: UdpSocket,
        local: SocketAddr,
        both_families: bool,
        remote: Option<SocketAddr>,
    ) -> Result<(), Error> {
        let address = self.bindable(local)?;
        if local.port() != self.udp_socket(socket)?.port {
            return Err(Error::InvalidArgument);
        }
        let both = both_families && address == Address::ANY_V6 && remote.is_none();
        self.move_udp(socket, address, both, remote.map(|remote| (remote.ip().into(), remote.port())))
    }

    /// The local addresses of the sockets of a port, each with whether it has both families.
    pub fn udp_sockets(&self, port: u16) -> impl Iterator<Item = (IpAddr, bool)> {
        let of_port = self.udp.iter().filter(move |(_, socket)| socket.port == port);
        of_port.map(|(_, socket)| (socket.local.ip(), socket.both))
    }

    fn move_udp(
        &mut self,
        socket: UdpSocket,
        address: Address,
        both: bool,
        remote: Option<(Address, u16)>,
    ) -> Result<(), Error> {
        let before = self.udp_socket(socket)?;
        let (port, shares, index) = (before.port, before.options.shares_port, socket.0.index);
        let old: Vec<Flow> = before.flows().collect();
        let new: Vec<Flow> = udp::flows(address, port, both, remote).collect();
        if new.iter().any(|flow| !old.contains(flow) && !self.udp_flows.allows(flow, shares)) {
            return Err(Error::AddressInUse);
        }
        for flow in old {
            self.udp_flows.remove(&flow, index);
        }
        for flow in new {
            self.udp_flows.add(flow, index, shares);
        }
        let place = self.udp_socket_mut(socket)?;
        (place.local, place.both, place.remote) = (address, both, remote);
        Ok(())
    }

    /// Everything about a datagram to be sent: its flow, next hop and marks.
    fn address_datagram(
        &mut self,
        socket: UdpSocket,
        to: Option<SocketAddr>,
        length: usize,
    ) -> Result<(Flow, Hop, Marks), Error> {
        let one = self.udp_socket_mut(socket)?;
        if let Some(error) = one.error.take() {
            return Err(error);
        }
        let to = to.map(|to| (Address::from(to.ip()), to.port()));
        let (remote, remote_port) = to.or(one.remote).ok_or(Error::DestinationRequired)?;
        if remote_port == 0 {
            return Err(Error::InvalidArgument);
        }
        let (port, marks) = (one.port, Marks { ttl: one.options.ttl, tos: one.options.tos });
        let local = if one.both && remote.is_v4() { Address::ANY_V4 } else { one.local };
        let Some(hop) = self.hops.get(remote).copied() else {
            if remote.is_unicast() {
                self.need(remote);
                return Err(Error::HostUnreachable);
            }
            return Err(Error::NetworkUnreachable);
        };
        let source = self.source_for(local, remote)?;
        if crate::number::long(length) > udp::longest(hop.mtu.min(self.config.mtu), remote.is_v4()) {
            return Err(Error::MessageTooLong);
        }
        Ok((Flow { local: source, remote, local_port: port, remote_port }, hop, marks))
    }

    /// Queues a datagram for [`Stack::poll_transmit`]: to an address, or to the one that the socket is connected to.
    /// Errors: [`Error::WouldBlock`] where the buffer is full, [`Error::MessageTooLong`] where it does not fit into one
    /// frame, [`Error::HostUnreachable`] where no hop is known (an event asks for it), [`Error::DestinationRequired`];
    /// once, the error that ICMP reported for a connected socket.
    pub fn udp_send(
        &mut self,
        now: Instant,
        socket: UdpSocket,
        to: Option<SocketAddr>,
        payload: &[u8],
    ) -> Result<(), Error> {
        let (flow, _, _) = self.address_datagram(socket, to, payload.len())?;
        let one = self.udp_socket_mut(socket)?;
        if !one.outbox.push((flow, now, Marks::default()), payload) {
            one.short_of_room = true;
            return Err(Error::WouldBlock);
        }
        if !one.queued {
            one.queued = true;
            self.output.push_back(Sender::Udp(socket.0.index));
        }
        Ok(())
    }

    /// Writes a datagram straight into the driver's buffer; the length of the frame. The payload is copied once. Datagrams
    /// that are queued are sent later. Errors: as [`Stack::udp_send`]; [`Error::NoBuffers`] where the buffer is too short.
    pub fn udp_send_frame(
        &mut self,
        socket: UdpSocket,
        to: Option<SocketAddr>,
        payload: &[u8],
        frame: &mut [u8],
    ) -> Result<usize, Error> {
        let (flow, hop, marks) = self.address_datagram(socket, to, payload.len())?;
        let template = Template::new([self.config.mac, hop.mac], flow.local, flow.remote, PROTOCOL_UDP, marks);
        let length = udp::write(&template, &flow, payload, frame).ok_or(Error::NoBuffers)?;
        self.counts.frames_sent += 1;
        Ok(length)
    }

    /// Receives a datagram, cut to the buffer ([`Received::length`]). Errors: [`Error::WouldBlock`]; once, ICMP's.
    pub fn udp_receive(&mut self, socket: UdpSocket, buffer: &mut [u8]) -> Result<Received, Error> {
        let received = self.udp_peek(socket, buffer)?;
        self.udp_socket_mut(socket)?.inbox.pop();
        Ok(received)
    }

    /// As [`Stack::udp_receive`], but the datagram stays. Errors: as there.
    pub fn udp_peek(&mut self, socket: UdpSocket, buffer: &mut [u8]) -> Result<Received, Error> {
        let (received, payload) = self.udp_front(socket)?;
        let length = payload.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..length), payload.get(..length)) {
            to.copy_from_slice(from);
        }
        Ok(received)
    }

    /// The oldest datagram where it lies; [`Stack::udp_pop`] drops it. Errors: as [`Stack::udp_receive`].
    pub fn udp_front(&mut self, socket: UdpSocket) -> Result<(Received, &[u8]), Error> {
        let one = self.udp_socket_mut(socket)?;
        if let Some(error) = one.error.take() {
            return Err(error);
        }
        let (datagram, payload) = one.inbox.front().ok_or(Error::WouldBlock)?;
        Ok((received(&datagram, payload.len()), payload))
    }

    /// Drops the oldest datagram.
    pub fn udp_pop(&mut self, socket: UdpSocket) -> Result<(), Error> {
        self.udp_socket_mut(socket)?.inbox.pop();
        Ok(())
    }

    /// Datagrams and bytes that wait to be received, and datagrams that were dropped because there was no room.
    pub fn udp_queue(&self, socket: UdpSocket) -> Result<(usize, usize, u64), Error> {
        let one = self.udp_socket(socket)?;
        Ok((one.inbox.len(), one.inbox.bytes(), one.dropped))
    }

    /// What the socket is ready for.
    pub fn udp_readiness(&mut self, socket: UdpSocket) -> Result<Readiness, Error> {
        let one = self.udp_socket_mut(socket)?;
        Ok(Readiness {
            readable: !one.inbox.is_empty() || one.error.is_some(),
            writable: !one.short_of_room,
            error: one.error.is_some(),
            read_edges: one.read_edges,
            write_edges: one.write_edges,
            ..Readiness::default()
        })
    }

    /// Takes the error that waits (SO_ERROR).
    pub fn udp_take_error(&mut self, socket: UdpSocket) -> Result<Option<Error>, Error> {
        Ok(self.udp_socket_mut(socket)?.error.take())
    }

    /// Local end, and remote end where it is connected.
    pub fn udp_addresses(&self, socket: UdpSocket) -> Result<(SocketAddr, Option<SocketAddr>), Error> {
        let one = self.udp_socket(socket)?;
        let remote = one.remote.map(|(address, port)| SocketAddr::new(address.ip(), port));
        Ok((SocketAddr::new(one.local.ip(), one.port), remote))
    }

    /// Changes TTL and type of service, not buffer sizes. Errors: [`Error::InvalidArgument`] for a TTL of 0.
    pub fn udp_set_marks(&mut self, socket: UdpSocket, ttl: u8, tos: u8) -> Result<(), Error> {
        let one = self.udp_socket_mut(socket)?;
        if ttl == 0 {
            return Err(Error::InvalidArgument);
        }
        (one.options.ttl, one.options.tos) = (ttl, tos);
        Ok(())
    }

    /// Closes the socket. Datagrams that wait are dropped: call [`Stack::poll_transmit`] before.
    pub fn udp_close(&mut self, socket: UdpSocket) -> Result<(), Error> {
        let flows: Vec<Flow> = self.udp_socket(socket)?.flows().collect();
        for flow in flows {
            self.udp_flows.remove(&flow, socket.0.index);
        }
        self.udp.remove(socket.0.index);
        Ok(())
    }
}

fn received(datagram: &QueuedDatagram, length: usize) -> Received {
    let (source, destination) = (datagram.flow.remote_socket(), datagram.flow.local_socket());
    Received { length, source, destination, at: datagram.at, ttl: datagram.marks.ttl, tos: datagram.marks.tos }
}
