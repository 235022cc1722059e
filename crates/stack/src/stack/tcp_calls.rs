//! Calls for TCP.

use super::listen::Listening;
use super::{Listener, Readiness, Shutdown, Stack, TcpInfo, TcpSocket};
use crate::address::{Address, Flow};
use crate::slab::Key;
use crate::tcp::{Connection, TcpState};
use crate::{Error, Instant, TcpOptions};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

impl Stack {
    /// Listens on a local address, or on all of its family where it is unspecified. `both_families`: `::` means all
    /// addresses of IPv4 too. Of connections, `backlog` and one more may wait to be accepted. Errors:
    /// [`Error::InvalidArgument`] for port 0 or bad options, [`Error::AddressNotAvailable`] where the address is none of
    /// the stack's, [`Error::AddressInUse`] where something listens there.
    pub fn tcp_listen(
        &mut self,
        local: SocketAddr,
        both_families: bool,
        backlog: usize,
        options: TcpOptions,
    ) -> Result<Listener, Error> {
        let address = self.bindable(local)?;
        if !options.is_valid() {
            return Err(Error::InvalidArgument);
        }
        let listener = Listening {
            local: address,
            port: local.port(),
            both: both_families && address == Address::ANY_V6,
            backlog: backlog.min(65_535),
            options,
            queue: VecDeque::with_capacity(backlog.min(65_535) + 1),
            read_edges: 0,
            announced: false,
            last_cookie: None,
        };
        if listener.places().any(|place| !self.listening.allows(&place, options.shares_port)) {
            return Err(Error::AddressInUse);
        }
        self.reserve();
        let places: Vec<Flow> = listener.places().collect();
        let key = self.listeners.insert(listener);
        for place in places {
            self.listening.add(place, key.index, options.shares_port);
            self.use_end(place.local, place.local_port);
        }
        self.yielded_ports.remove(&local.port());
        Ok(Listener(key))
    }

    /// The local addresses of the sockets that listen on a port, each with whether it has both families.
    pub fn tcp_listeners(&self, port: u16) -> impl Iterator<Item = (IpAddr, bool)> {
        let of_port = self.listeners.iter().filter(move |(_, listening)| listening.port == port);
        of_port.map(|(_, listening)| (listening.local.ip(), listening.both))
    }

    /// Leaves all segments for a port that are of none of its connections to another TCP of this host, until a socket listens on it or its
    /// last connection is over: they are not answered by resets.
    pub fn yield_port(&mut self, port: u16) {
        if self.uses_port(port) {
            self.yielded_ports.insert(port, ());
        }
    }

    /// A local address that a socket may have.
    pub(super) fn bindable(&self, local: SocketAddr) -> Result<Address, Error> {
        let address = Address::from(local.ip());
        if local.port() == 0 {
            return Err(Error::InvalidArgument);
        }
        if !address.is_any() && !self.is_local(address) {
            return Err(Error::AddressNotAvailable);
        }
        Ok(address)
    }

    /// The address from which packets to `remote` are sent: the given one, or that of the next hop.
    pub(super) fn source_for(&self, local: Address, remote: Address) -> Result<Address, Error> {
        if !remote.is_unicast() {
            return Err(Error::NetworkUnreachable);
        }
        let source = if local.is_any() {
            self.hops.get(remote).map(|hop| Address::from(hop.source)).ok_or(Error::HostUnreachable)?
        } else {
            local
        };
        if source.is_v4() == remote.is_v4() { Ok(source) } else { Err(Error::FamilyMismatch) }
    }

    /// Takes the oldest connection that waits. Errors: [`Error::WouldBlock`] where none waits.
    pub fn tcp_accept(&mut self, listener: Listener) -> Result<TcpSocket, Error> {
        let listening = self.listeners.get_mut(listener.0).ok_or(Error::BadHandle)?;
        let index = listening.queue.pop_front().ok_or(Error::WouldBlock)?;
        let key = self.connections.key(index).ok_or(Error::ConnectionAborted)?;
        if let Some(connection) = self.connections.get_mut(key) {
            connection.listener = None;
        }
        // What arrived before is reported now.
        self.announce(key);
        Ok(TcpSocket(key))
    }

    /// What a listener is ready for. Errors: [`Error::BadHandle`] where it is closed, as for all calls.
    pub fn listener_readiness(&self, listener: Listener) -> Result<Readiness, Error> {
        let listening = self.listeners.get(listener.0).ok_or(Error::BadHandle)?;
        let readable = !listening.queue.is_empty();
        Ok(Readiness { readable, read_edges: listening.read_edges, ..Readiness::default() })
    }

    /// Address and port of a listener.
    pub fn listener_address(&self, listener: Listener) -> Result<SocketAddr, Error> {
        let listening = self.listeners.get(listener.0).ok_or(Error::BadHandle)?;
        Ok(SocketAddr::new(listening.local.ip(), listening.port))
    }

    /// Closes a listener; connections that were not accepted are reset.
    pub fn listener_close(&mut self, listener: Listener) -> Result<(), Error> {
        let places: Vec<Flow> = self.listeners.get(listener.0).ok_or(Error::BadHandle)?.places().collect();
        for place in places {
            self.listening.remove(&place, listener.0.index);
            self.release_end(place.local, place.local_port);
        }
        self.listeners.remove(listener.0.index);
        for index in self.indices(|connection| connection.listener == Some(listener.0)) {
            if let Some(connection) = self.connections.at(index) {
                connection.abort();
            }
            self.settle(index);
        }
        Ok(())
    }

    /// Begins a connection from a local address, or from that of the next hop where it is unspecified. The socket is
    /// writable once it is established. Errors: [`Error::InvalidArgument`] for port 0 or bad options,
    /// [`Error::AddressNotAvailable`] where the local address is none of the stack's or the flow is in use,
    /// [`Error::NetworkUnreachable`] for multicast and broadcast, [`Error::HostUnreachable`] where the local address is
    /// unspecified and no hop is known, [`Error::FamilyMismatch`], [`Error::NoBuffers`] at the limit of connections.
    pub fn tcp_connect(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        options: TcpOptions,
    ) -> Result<TcpSocket, Error> {
        let address = self.bindable(local)?;
        if !options.is_valid() || remote.port() == 0 {
            return Err(Error::InvalidArgument);
        }
        let source = self.source_for(address, remote.ip().into())?;
        let flow = Flow { local: source, ..Flow::new(local, remote) };
        let mut initial = self.secret.initial_sequence(now, &flow);
        if let Some(&index) = self.flows.get(&flow) {
            let waits = self.connections.at(index).is_some_and(|old| old.orphan && old.state == TcpState::TimeWait);
            if !waits {
                return Err(Error::AddressNotAvailable);
            }
            initial = self.replace(index).map_or(initial, |after| initial.later(after));
        }
        let index = self.add_connection(flow, options, initial, None).ok_or(Error::NoBuffers)?;
        self.detached.remove(&flow);
        let hop = self.hops.get(flow.remote).copied();
        if hop.is_none() {
            self.need(flow.remote);
        }
        if let Some(connection) = self.connections.at(index) {
            if let Some(hop) = hop {
                connection.set_hop(self.config.mac, &hop);
            }
            connection.open(now);
        }
        self.settle(index);
        self.connections.key(index).map(TcpSocket).ok_or(Error::BadHandle)
    }

    fn connection(&self, socket: TcpSocket) -> Result<&Connection, Error> {
        self.connections.get(socket.0).filter(|one| !one.orphan).map(Box::as_ref).ok_or(Error::BadHandle)
    }

    fn connection_mut(&mut self, socket: TcpSocket) -> Result<&mut Connection, Error> {
        self.connections.get_mut(socket.0).filter(|one| !one.orphan).map(Box::as_mut).ok_or(Error::BadHandle)
    }

    /// Takes bytes to send, as many as there is room for; how many. `more`: the last segment may wait for what follows
    /// (MSG_MORE). Call [`Stack::poll_transmit`] afterwards. Errors: [`Error::WouldBlock`] without room, or before the
    /// connection is established; [`Error::BrokenPipe`] after shutdown; once, the error that ended the connection.
    pub fn tcp_send(&mut self, socket: TcpSocket, bytes: &[u8], more: bool) -> Result<usize, Error> {
        let taken = self.connection_mut(socket)?.send(bytes, more)?;
        self.enqueue(socket.0);
        Ok(taken)
    }

    /// What was sent so far ends with urgent data (MSG_OOB; the receiver finds them among the others).
    pub fn tcp_mark_urgent(&mut self, socket: TcpSocket) -> Result<(), Error> {
        self.connection_mut(socket)?.mark_urgent();
        Ok(())
    }

    /// Bytes until the end of urgent data among what is not yet received; none without.
    pub fn tcp_urgent(&self, socket: TcpSocket) -> Result<Option<u32>, Error> {
        Ok(self.connection(socket)?.urgent())
    }

    /// Puts a connection that may have something to send in the queue.
    pub(super) fn enqueue(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key)
            && !connection.queued
            && connection.may_emit()
        {
            connection.queued = true;
            self.output.push_back(super::Sender::Tcp(key.index));
        }
    }

    /// Receives bytes; 0: the end. Errors: [`Error::WouldBlock`] without bytes; once, the connection's error.
    pub fn tcp_receive(&mut self, socket: TcpSocket, buffer: &mut [u8]) -> Result<usize, Error> {
        let copied = self.tcp_peek(socket, buffer)?;
        self.tcp_consume(socket, copied)?;
        Ok(copied)
    }

    /// As [`Stack::tcp_receive`], but the bytes stay. Errors: as there.
    pub fn tcp_peek(&mut self, socket: TcpSocket, buffer: &mut [u8]) -> Result<usize, Error> {
        let connection = self.connection_mut(socket)?;
        connection.received()?;
        Ok(connection.receive.buffer.read_at(0, buffer))
    }

    /// The received bytes in two pieces; both are empty at the end. Errors: as [`Stack::tcp_receive`].
    pub fn tcp_received(&mut self, socket: TcpSocket) -> Result<(&[u8], &[u8]), Error> {
        self.connection_mut(socket)?.received()
    }

    /// Drops bytes that were received.
    pub fn tcp_consume(&mut self, socket: TcpSocket, count: usize) -> Result<(), Error> {
        self.connection_mut(socket)?.consume(count);
        self.enqueue(socket.0);
        Ok(())
    }

    /// Ends a direction. Errors: [`Error::NotConnected`] before the connection is established and after it ended.
    pub fn tcp_shutdown(&mut self, socket: TcpSocket, how: Shutdown) -> Result<(), Error> {
        self.connection_mut(socket)?.shutdown(how)?;
        self.settle(socket.0.index);
        Ok(())
    }

    /// Closes the socket. Sent data and FIN still go out; unread data cause a reset. The handle becomes invalid.
    pub fn tcp_close(&mut self, now: Instant, socket: TcpSocket) -> Result<(), Error> {
        self.connection_mut(socket)?.close(now);
        self.settle(socket.0.index);
        Ok(())
    }

    /// Closes the socket and resets the connection (SO_LINGER with 0). The handle is invalid from now on.
    pub fn tcp_abort(&mut self, socket: TcpSocket) -> Result<(), Error> {
        self.connection_mut(socket)?.abort();
        self.settle(socket.0.index);
        Ok(())
    }

    /// What the socket is ready for. Where it is not writable, the next room counts as an edge.
    pub fn tcp_readiness(&mut self, socket: TcpSocket) -> Result<Readiness, Error> {
        let connection = self.connection_mut(socket)?;
        let readiness = connection.readiness();
        // That a connection is made is an edge of its own.
        connection.send.short_of_room |= !readiness.writable && connection.state.is_synchronized();
        Ok(readiness)
    }

    /// Takes the error that waits (SO_ERROR).
    pub fn tcp_take_error(&mut self, socket: TcpSocket) -> Result<Option<Error>, Error> {
        Ok(self.connection_mut(socket)?.error.take())
    }

    /// Figures of a connection.
    pub fn tcp_info(&self, socket: TcpSocket) -> Result<TcpInfo, Error> {
        Ok(self.connection(socket)?.info())
    }

    /// Figures of all connections, with those that were closed and are not yet over: local and remote end, figures.
    pub fn tcp_connections(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr, TcpInfo)> {
        self.connections.iter().map(|(_, one)| (one.flow.local_socket(), one.flow.remote_socket(), one.info()))
    }

    /// Whether a connection between these ends is not over yet, closed by the application or not. TIME-WAIT counts as over.
    pub fn tcp_lives(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let connection = self
            .flows
            .get(&Flow::new(local, remote))
            .and_then(|index| self.connections.get(self.connections.key(*index)?));
        connection.is_some_and(|one| !matches!(one.state, TcpState::TimeWait | TcpState::Closed))
    }

    /// Local and remote end.
    pub fn tcp_addresses(&self, socket: TcpSocket) -> Result<(SocketAddr, SocketAddr), Error> {
        let flow = self.connection(socket)?.flow;
        Ok((flow.local_socket(), flow.remote_socket()))
    }

    /// Options of a connection.
    pub fn tcp_options(&self, socket: TcpSocket) -> Result<TcpOptions, Error> {
        Ok(self.connection(socket)?.options)
    }

    /// Changes options of a connection. The receive buffer, the largest segment and what is offered in the SYN keep their
    /// values once the connection has begun; the send buffer grows no larger than it was made. Errors:
    /// [`Error::InvalidArgument`] where one is out of its range.
    pub fn tcp_set_options(&mut self, now: Instant, socket: TcpSocket, options: TcpOptions) -> Result<(), Error> {
        if !options.is_valid() {
            return Err(Error::InvalidArgument);
        }
        let mac = self.config.mac;
        let remote = self.connection(socket)?.flow.remote;
        let hop = self.hops.get(remote).copied();
        let connection = self.connection_mut(socket)?;
        let before = connection.options;
        let buffer = &mut connection.send.buffer;
        let has_buffer = buffer.capacity() > 0;
        connection.options = TcpOptions {
            send_buffer: if has_buffer { buffer.limit(options.send_buffer) } else { options.send_buffer },
            receive_buffer: before.receive_buffer,
            max_segment: before.max_segment,
            window_scale: before.window_scale,
            sack: before.sack,
            timestamps: before.timestamps,
            ..options
        };
        if options.keep_alive != before.keep_alive {
            connection.start_keep_alive(now);
        }
        if (options.ttl, options.tos) != (before.ttl, before.tos)
            && let Some(hop) = hop
        {
            connection.set_hop(mac, &hop);
        }
        self.settle(socket.0.index);
        Ok(())
    }

    /// Sets options of connections that begin later. Errors: [`Error::InvalidArgument`] for one out of range.
    pub fn listener_set_options(&mut self, listener: Listener, options: TcpOptions) -> Result<(), Error> {
        if !options.is_valid() {
            return Err(Error::InvalidArgument);
        }
        self.listeners.get_mut(listener.0).ok_or(Error::BadHandle)?.options = options;
        Ok(())
    }

    /// Connections with unacknowledged data, closed ones included: a process that ends may wait for them.
    pub fn tcp_pending(&self) -> usize {
        let pending = |one: &Connection| one.state.sends() && one.end_of_send() != one.send.unacknowledged;
        self.connections.iter().filter(|(_, one)| pending(one)).count()
    }

    /// Whether a local address belongs to the stack.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.is_local(address.into())
    }
}
