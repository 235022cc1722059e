//! The engine: frames in, timers, frames out.

mod routes;

use crate::EngineError;
use crate::kernel::Kernel;
use nix::time::{ClockId, clock_gettime};
use routes::RESOLVE_EACH_NS;
use stack::{
    Config, Error, Event, Instant, Listener, ReceiveChecksum, Stack, TcpOptions, TcpSocket, UdpOptions, UdpSocket,
};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use xsk::{Addresses, Backend, Interface, LONGEST_PACKET, Port, PortCounters, Protocol, Tap};

/// Frames taken in one round, so that calls and timers get their turn.
const BUDGET: usize = 64;
/// Rounds without a frame between two looks at the clock for timers.
const ROUNDS_A_CLOCK: u32 = 16;
/// Somewhere behind the default route: addresses for documentation (RFC 5737, RFC 3849).
const FAR_AWAY: [&str; 2] = ["198.51.100.1", "2001:db8::1"];

/// CLOCK_MONOTONIC, the time of all methods.
#[inline]
pub fn now() -> Instant {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or((0, 0), |now| (now.tv_sec(), now.tv_nsec()));
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Instant(part(now.0) * 1_000_000_000 + part(now.1))
}

/// Who carries packets to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    Here,
    /// This engine, as soon as the kernel has resolved the next hop.
    Unresolved,
    /// The kernel: another interface, this host itself, or a group.
    Elsewhere,
}

/// Why a datagram was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// The kernel has to carry it: see [`Route`]; or it does not fit into one frame.
    ByKernel,
    /// The interface takes no more frames for the moment.
    Full,
    /// The call's own error.
    Failed(Error),
}

/// A remote address that is reached through the interface.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Neighbour {
    pub(crate) next: IpAddr,
    pub(crate) mac: [u8; 6],
}

/// An address whose next hop the kernel resolves.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    remote: IpAddr,
    since: Instant,
}

/// UDP and TCP of one interface.
#[derive(Debug)]
pub struct Engine {
    port: Port,
    stack: Stack,
    kernel: Kernel,
    interface: Interface,
    /// The MTU with which it was opened: frames have room for so much.
    most_mtu: u32,
    addresses: Vec<IpAddr>,
    known: HashMap<IpAddr, Neighbour>,
    elsewhere: HashMap<IpAddr, Instant>,
    wanted: Vec<Wanted>,
    looked: Instant,
    rounds: u32,
    /// Listeners and connections of each TCP port.
    held: HashMap<u16, u32>,
    /// TCP ports on which connections outlived their listener.
    left: HashSet<u16>,
    /// Who gets copies of the frames.
    tap: Option<Tap>,
}

impl Engine {
    /// Opens an interface: the given one, or the only one that is up, or that of the default route; with the given
    /// back-end, or the first that it has, veth devices generic XDP first: native XDP is slower there, and AF_PACKET serves
    /// few ports. Errors: [`EngineError`]: no such interface or several, a missing capability, no back-end that opens.
    pub fn open(interface: Option<&str>, backend: Option<Backend>) -> Result<Self, EngineError> {
        let kernel = Kernel::open()?;
        let name = match interface {
            Some(name) => name.to_owned(),
            None => usual_interface(&kernel)?,
        };
        let mut interface = Interface::read(&name)?;
        let addresses = kernel.addresses(interface.index)?;
        if addresses.is_empty() {
            return Err(EngineError::NoAddress { interface: name });
        }
        let mut port = open_port(&interface, backend)?;
        if port.backend() != Backend::Packet {
            // Loopback's MTU is larger; what is sent has to fit into one frame.
            interface.mtu = interface.mtu.min(LONGEST_PACKET);
        }
        port.set_addresses(&addresses)?;
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(|cause| EngineError::Kernel {
            what: "random numbers",
            cause: std::io::Error::other(cause.to_string()),
        })?;
        let mut config = Config::new(interface.mac, addresses.clone(), secret);
        config.mtu = u16::try_from(interface.mtu).unwrap_or(u16::MAX);
        if interface.local_checksums {
            config.receive_checksum = ReceiveChecksum::VerifyOrPartial;
        }
        Ok(Self {
            port,
            stack: Stack::new(config),
            kernel,
            most_mtu: interface.mtu,
            interface,
            addresses,
            known: HashMap::with_capacity(64),
            elsewhere: HashMap::with_capacity(64),
            wanted: Vec::with_capacity(64),
            looked: Instant(0),
            rounds: 0,
            held: HashMap::with_capacity(64),
            left: HashSet::new(),
            tap: None,
        })
    }

    /// The sockets. After calls that send, [`Engine::flush`] is due.
    #[inline]
    pub fn stack(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// The interface, with the MAC address and MTU that it had not long ago.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    pub fn backend(&self) -> Backend {
        self.port.backend()
    }

    /// Frames and drops so far.
    pub fn counters(&mut self) -> PortCounters {
        self.port.counters()
    }

    /// Copies each frame that is taken or sent into `tap` from now on; returns the one before.
    pub fn set_tap(&mut self, tap: Option<Tap>) -> Option<Tap> {
        std::mem::replace(&mut self.tap, tap)
    }

    pub fn tap(&self) -> Option<&Tap> {
        self.tap.as_ref()
    }

    pub fn has_address(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// Descriptors that become readable when a frame comes.
    pub fn descriptors(&self) -> Vec<RawFd> {
        self.port.descriptors()
    }

    /// All descriptors whose copies keep the program attached or the queue taken: a forked child closes its own.
    pub fn all_descriptors(&self) -> Vec<RawFd> {
        let mut all = self.port.all_descriptors();
        all.push(self.kernel.descriptor());
        all
    }

    /// Binds a UDP socket to the port of a socket that the caller holds; connects it where there is a remote end. Errors:
    /// as [`Stack::udp_bind`] and [`Stack::udp_connect`]; the back-end serves as many ports as it can already.
    pub fn bind(
        &mut self,
        local: SocketAddr,
        both_families: bool,
        remote: Option<SocketAddr>,
        options: UdpOptions,
    ) -> Result<UdpSocket, EngineError> {
        let socket = self.stack.udp_bind(local, both_families, options)?;
        let connected = remote.map_or(Ok(()), |_| self.stack.udp_connect(socket, remote));
        if let Err(error) = connected.map_err(EngineError::from).and_then(|()| self.serve(Protocol::Udp, local.port()))
        {
            self.unbind(socket, local.port());
            return Err(error);
        }
        Ok(socket)
    }

    /// Gives a UDP socket other ends; it keeps what it has received. Errors: as [`Stack::udp_rebind`].
    pub fn rebind(
        &mut self,
        socket: UdpSocket,
        local: SocketAddr,
        both_families: bool,
        remote: Option<SocketAddr>,
    ) -> Result<(), EngineError> {
        self.stack.udp_rebind(socket, local, both_families, remote)?;
        self.serve(Protocol::Udp, local.port())
    }

    /// Closes a UDP socket of a port: frames that are of no other go to the kernel.
    pub fn unbind(&mut self, socket: UdpSocket, port: u16) {
        let _ = self.stack.udp_close(socket);
        let is_last = self.stack.udp_sockets(port).next().is_none();
        // A full table may refuse to list addresses that were not listed one by one: then all are the kernel's.
        if is_last || self.serve(Protocol::Udp, port).is_err() {
            let _ = self.port.withdraw(Protocol::Udp, port);
        }
    }

    /// Takes the frames for a port of the addresses of its UDP sockets or listeners.
    fn serve(&mut self, protocol: Protocol, port: u16) -> Result<(), EngineError> {
        let mut served: Vec<Addresses> = Vec::with_capacity(4);
        let mut add = |(local, both)| {
            let of = Addresses::of(local, both);
            if !served.contains(&of) {
                served.push(of);
            }
        };
        match protocol {
            Protocol::Udp => self.stack.udp_sockets(port).for_each(&mut add),
            Protocol::Tcp => self.stack.tcp_listeners(port).for_each(&mut add),
        }
        Ok(self.port.serve(protocol, port, &served)?)
    }

    /// Whether a listener of the stack has a port of all these addresses.
    pub fn listens(&self, port: u16, of: Addresses) -> bool {
        self.stack.tcp_listeners(port).any(|(local, both)| Addresses::of(local, both).covers(of))
    }

    /// Holds a TCP port for a listener or one connection of the stack, until [`Engine::withdraw`]. AF_XDP takes no frames
    /// by that alone. Errors: AF_PACKET serves as many ports as its filter lists already.
    pub fn hold(&mut self, port: u16) -> Result<(), EngineError> {
        if !self.held.contains_key(&port) {
            self.port.serve(Protocol::Tcp, port, &[])?;
        }
        *self.held.entry(port).or_insert(0) += 1;
        Ok(())
    }

    /// Undoes one [`Engine::hold`]; after the last of a port all its frames go to the kernel.
    pub fn withdraw(&mut self, port: u16) {
        let Some(count) = self.held.get_mut(&port) else { return };
        *count -= 1;
        if *count == 0 {
            self.held.remove(&port);
            self.left.remove(&port);
            // A filter that lists fewer ports is never refused.
            let _ = self.port.withdraw(Protocol::Tcp, port);
        }
    }

    /// Listens on the port of a socket that the caller holds, and holds it. `of_kernel`: the connections that the kernel
    /// has of it, by local and remote end, stay the kernel's. Errors: as [`Stack::tcp_listen`]; the back-end serves as many
    /// ports as it can already.
    pub fn listen(
        &mut self,
        local: SocketAddr,
        both_families: bool,
        backlog: usize,
        options: TcpOptions,
        of_kernel: &[(SocketAddr, SocketAddr)],
    ) -> Result<Listener, EngineError> {
        let port = local.port();
        let listener = self.stack.tcp_listen(local, both_families, backlog, options)?;
        let held = self.hold(port);
        let is_held = held.is_ok();
        let left = held.and_then(|()| of_kernel.iter().try_for_each(|(local, remote)| self.leave(*local, *remote)));
        if let Err(error) = left.and_then(|()| self.serve(Protocol::Tcp, port)) {
            let _ = self.stack.listener_close(listener);
            if is_held {
                self.withdraw(port);
            }
            return Err(error);
        }
        Ok(listener)
    }

    /// Begins a connection from the port of a socket that the caller holds: after [`Engine::hold`]. Frames for the same
    /// port that are of no connection or listener of the stack stay the kernel's. Errors: as [`Stack::tcp_connect`]; the
    /// kernel refuses to leave its frames here.
    pub fn connect(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        options: TcpOptions,
    ) -> Result<TcpSocket, EngineError> {
        self.port.take(local, remote)?;
        // One between the same ends that the kernel had is over: else its port were not free.
        self.stack.tcp_forget_detached(local, remote);
        Ok(self.stack.tcp_connect(now(), local, remote, options)?)
    }

    /// Closes a listener. Where no other listens at its address, all that is not of its connections is left to the kernel: another program may
    /// listen there. The port stays held: [`Engine::withdraw`]. With AF_PACKET, a kernel socket that listens and hears nothing keeps the
    /// kernel from answering the connections' segments: no other program can listen.
    pub fn unlisten(&mut self, listener: Listener) {
        let Ok(port) = self.stack.listener_address(listener).map(|local| local.port()) else { return };
        let _ = self.stack.listener_close(listener);
        if self.backend() == Backend::Packet {
            return;
        }
        let is_left = |local: SocketAddr| local.port() == port && !self.listens(port, Addresses::One(local.ip()));
        let ends = self.stack.tcp_connections().map(|(local, remote, _)| (local, remote));
        let living: Vec<_> =
            ends.filter(|(local, remote)| is_left(*local) && self.stack.tcp_lives(*local, *remote)).collect();
        // Where one finds no place in the table, all are taken as before.
        self.left.extend((!living.is_empty()).then_some(port));
        let listed = living.into_iter().try_for_each(|(local, remote)| self.port.take(local, remote));
        if listed.is_ok() && self.serve(Protocol::Tcp, port).is_ok() && self.stack.tcp_listeners(port).next().is_none()
        {
            self.stack.yield_port(port);
        }
    }

    /// Forgets connections that are over and whose listener was closed before them: others may have the same ends.
    pub fn forget_ended(&mut self) {
        let stack = &self.stack;
        for port in &self.left {
            self.port.retain_taken(*port, |local, remote| stack.tcp_lives(local, remote));
        }
    }

    /// Takes a connection out that a socket of the kernel has from now on: its frames go there. Its port stays served.
    /// Errors: the kernel refuses, or has as many of them as it can: the connection stays here.
    pub fn detach(&mut self, socket: TcpSocket) -> Result<(), EngineError> {
        if let Ok((local, remote)) = self.stack.tcp_addresses(socket) {
            let lives = self.stack.tcp_lives(local, remote);
            if lives {
                self.port.pass(local, remote)?;
            }
            let _ = self.stack.tcp_detach(socket);
        }
        Ok(())
    }

    /// Leaves a connection of a port that is held to the kernel, which has it.
    fn leave(&mut self, local: SocketAddr, remote: SocketAddr) -> Result<(), EngineError> {
        self.port.pass(local, remote)?;
        self.stack.tcp_pass(local, remote);
        Ok(())
    }

    /// The connections that were taken out or left to the kernel and may still live, by local and remote end.
    pub fn detached(&self) -> Vec<(SocketAddr, SocketAddr)> {
        self.stack.tcp_detached().collect()
    }

    /// Forgets one of them, which is over.
    pub fn forget_detached(&mut self, local: SocketAddr, remote: SocketAddr) {
        self.port.forget_passed(local, remote);
        self.stack.tcp_forget_detached(local, remote);
    }

    /// A round: frames in, timers, frames out. Returns whether frames came or timers were due.
    #[inline]
    pub fn poll(&mut self) -> bool {
        let (stack, tap, mut at) = (&mut self.stack, &mut self.tap, None);
        let taken = self.port.receive(BUDGET, |frame| {
            copy(tap, false, Some(frame));
            let _ = stack.handle_frame(*at.get_or_insert_with(now), frame);
        });
        if let Some(at) = at {
            self.work(at);
            return taken > 0;
        }
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(ROUNDS_A_CLOCK) { self.tick() } else { false }
    }

    /// What is due by time, without looking for frames.
    fn tick(&mut self) -> bool {
        let due = self.next_timer();
        if due == Instant::NEVER && !self.port.has_unsent() {
            return false;
        }
        let now = now();
        let is_due = due <= now;
        if is_due || self.port.has_unsent() {
            self.work(now);
        }
        is_due
    }

    /// Timers, then frames out.
    fn work(&mut self, now: Instant) {
        self.stack.handle_timeout(now);
        self.transmit(now);
        if !self.wanted.is_empty() && now.since(self.looked) >= RESOLVE_EACH_NS {
            self.resolve(now);
        }
    }

    /// Sends what waits. Looks at the clock only where something does.
    #[inline]
    pub fn flush(&mut self) {
        if self.stack.wants_transmit() || self.port.has_unsent() {
            self.transmit(now());
        }
    }

    #[inline]
    fn transmit(&mut self, now: Instant) {
        let (stack, tap) = (&mut self.stack, &mut self.tap);
        self.port.transmit(|room| {
            let length = stack.poll_transmit(now, room)?;
            copy(tap, true, room.get(..length));
            Some(length)
        });
    }

    /// When [`Engine::poll`] has something to do also without a frame.
    pub fn next_timer(&self) -> Instant {
        let timer = self.stack.poll_timeout().unwrap_or(Instant::NEVER);
        if self.wanted.is_empty() { timer } else { timer.min(self.looked.after(RESOLVE_EACH_NS)) }
    }

    /// The next event of a socket, the oldest first.
    #[inline]
    pub fn event(&mut self) -> Option<Event> {
        loop {
            match self.stack.poll_event()? {
                Event::NeighbourNeeded(remote) => self.want(remote),
                event => return Some(event),
            }
        }
    }

    /// Sends a datagram at once. Errors: [`Sending`].
    #[inline]
    pub fn send_datagram(&mut self, socket: UdpSocket, to: Option<SocketAddr>, payload: &[u8]) -> Result<(), Sending> {
        let mut result = Err(Sending::Full);
        let (stack, tap) = (&mut self.stack, &mut self.tap);
        self.port.transmit(|room| {
            if result != Err(Sending::Full) {
                return None;
            }
            match stack.udp_send_frame(socket, to, payload, room) {
                Ok(length) => {
                    copy(tap, true, room.get(..length));
                    result = Ok(());
                    Some(length)
                }
                Err(Error::HostUnreachable | Error::NetworkUnreachable | Error::MessageTooLong | Error::NoBuffers) => {
                    result = Err(Sending::ByKernel);
                    None
                }
                Err(error) => {
                    result = Err(Sending::Failed(error));
                    None
                }
            }
        });
        result
    }
}

/// Copies a frame for whoever captures. Without a capture it costs a look at a flag.
#[inline(always)]
fn copy(tap: &mut Option<Tap>, leaving: bool, frame: Option<&[u8]>) {
    if let (Some(tap), Some(frame)) = (tap, frame) {
        tap.frame(leaving, frame);
    }
}

/// The only interface that is up, or that of the default route.
fn usual_interface(kernel: &Kernel) -> Result<String, EngineError> {
    let mut up = kernel.interfaces()?;
    if let [_] = up.as_slice() {
        return up.pop().map(|(_, name)| name).ok_or(EngineError::NoInterface);
    }
    let far_away = FAR_AWAY.iter().filter_map(|text| text.parse().ok());
    let default = far_away.filter_map(|address| kernel.path(address, 0)).map(|path| path.interface).next();
    let names: Vec<String> = up.iter().map(|(_, name)| name.clone()).collect();
    match up.into_iter().find(|(index, _)| Some(*index) == default) {
        Some((_, name)) => Ok(name),
        None if names.is_empty() => Err(EngineError::NoInterface),
        None => Err(EngineError::Ambiguous { names }),
    }
}

/// Opens the given back-end, or the first that the interface has; with none, the error of the one that all interfaces have.
fn open_port(interface: &Interface, backend: Option<Backend>) -> Result<Port, EngineError> {
    const VETH: [Backend; 2] = [Backend::Generic, Backend::Packet];
    let order: &[Backend] = match &backend {
        Some(backend) => std::slice::from_ref(backend),
        None if interface.local_checksums => &VETH,
        None => &Backend::ALL,
    };
    let mut failed = None;
    for backend in order {
        match Port::open(interface, *backend) {
            Ok(port) => return Ok(port),
            Err(error) => {
                // The first refusal of a back-end that every interface has explains most.
                if failed.is_none() || !matches!(backend, Backend::Packet) {
                    failed = Some(error);
                }
            }
        }
    }
    Err(failed.map_or(EngineError::NoInterface, EngineError::Port))
}
