//! Taking a socket over from the kernel, at the first call that uses it.

use super::copied::{both_families, inherited, shares_port, tcp_options, tos, ttl};
use super::listed::{Connection, connections};
use super::quiet::{filter, quiet};
use super::release::{kernel_has, not_taken};
use super::socket::{Handle, Socket};
use super::state::{Not, State, entry, lock};
use super::{address, capture, service};
use crate::table::{self, Entry, TABLE};
use crate::{errno, kernel, page, settings, thread, time};
use bypass_abi::page::Reason;
use libc::c_int;
use stack::UdpOptions;
use std::net::{IpAddr, SocketAddr};
use user_stack::{Engine, EngineError, Route};
use xsk::{Addresses, Backend};

/// After how long a listener is tried again that handshakes of the kernel kept from AF_PACKET, ns.
const RETRY_NS: u64 = 100_000_000;

pub(crate) fn listens(fd: c_int, entry: &'static Entry) {
    if !thread::is_in_stack() {
        let _ = now(fd, entry, None);
    }
}

/// The socket behind a descriptor that receives or waits; takes it over where that is due.
#[inline(always)]
pub(super) fn used(fd: c_int, entry: &'static Entry) -> Option<u32> {
    if entry.has(table::LISTENS) && !entry.has(table::USED) {
        entry.set(table::USED);
    }
    match entry.on_stack() {
        Some(id) => Some(id),
        None => now(fd, entry, None),
    }
}

/// The same of one that sends.
#[inline(always)]
pub(super) fn sends(fd: c_int, entry: &'static Entry, to: Option<SocketAddr>) -> Option<u32> {
    match entry.on_stack() {
        Some(id) => Some(id),
        None => now(fd, entry, to),
    }
}

/// Says that a connection stayed with the process that forked this one.
#[cold]
pub(super) fn left(entry: &'static Entry) {
    if entry.has(table::LEFT) {
        TABLE.set_all(entry, 0, table::LEFT);
        page::left_behind(entry, Reason::Forked);
    }
}

#[cold]
fn now(fd: c_int, entry: &'static Entry, to: Option<SocketAddr>) -> Option<u32> {
    if entry.has(table::LEFT) {
        left(entry);
        return None;
    }
    let errno = errno::get();
    let mut locked = lock();
    let state = &mut *locked;
    // Another thread may have done it meanwhile, or closed the descriptor.
    let taken = match entry.on_stack() {
        Some(id) => Ok(id),
        None if !entry.has(table::CANDIDATE) => Err(Not::Yet),
        None if entry.has(table::STREAM) => listener(state, fd, entry),
        None => datagrams(state, fd, entry, to),
    };
    let done = match taken {
        Ok(id) => Some(id),
        Err(Not::Yet) => None,
        Err(Not::Ever(reason)) => {
            not_taken(entry, reason);
            None
        }
    };
    errno::set(errno);
    done
}

impl State {
    /// The engine, opened at the first socket.
    pub(super) fn engine(&mut self) -> Result<&mut Engine, Not> {
        if self.engine.is_none() {
            if self.is_refused {
                return Err(Not::Ever(Reason::NoInterface));
            }
            let name = settings::interface();
            let name = std::str::from_utf8(&name).ok().filter(|name| !name.is_empty());
            let opened = Engine::open(name, settings::backend());
            let is_second =
                |engine: &Engine| self.is_child && engine.backend() == Backend::Packet && settings::backend().is_none();
            match opened {
                // The parent or a sibling has the queue; AF_PACKET would answer what they answer.
                Ok(engine) if is_second(&engine) => {
                    self.is_refused = true;
                    return Err(Not::Ever(Reason::QueueTaken));
                }
                Ok(mut engine) => {
                    capture::start(&mut engine);
                    self.descriptors = engine.descriptors();
                    engine.all_descriptors().into_iter().for_each(|fd| table::open(fd, table::OWN));
                    // Before the first connection: whoever outlives the process has to know where its frames went.
                    page::show_engine(&mut engine);
                    self.engine = Some(engine);
                    service::start();
                }
                Err(error) => {
                    self.is_refused = true;
                    page::refused(&error.to_string());
                    return Err(Not::Ever(Reason::NoInterface));
                }
            }
        }
        self.engine.as_mut().ok_or(Not::Yet)
    }

    /// Keeps a socket that was made, and marks its descriptors.
    pub(super) fn keep(&mut self, entry: &'static Entry, mut socket: Socket) -> Result<u32, Not> {
        socket.record = entry.record();
        let id = self.sockets.insert(socket.handle, socket).ok_or(Not::Ever(Reason::TooManySockets))?;
        TABLE.put_on_stack(entry, id);
        page::on_stack(entry);
        self.show_one(id);
        Ok(id)
    }

    /// Threads and epoll instances that wait for a socket ask it on the stack from now on.
    pub(super) fn came(&mut self, id: u32, entry: &'static Entry) {
        self.watch(id, entry);
        self.turned();
    }
}

fn datagrams(state: &mut State, fd: c_int, entry: &'static Entry, to: Option<SocketAddr>) -> Result<u32, Not> {
    if to.is_some_and(|to| to.ip().is_multicast()) {
        return Err(Not::Ever(Reason::Option));
    }
    let is_v6 = entry.has(table::IPV6);
    let engine = state.engine()?;
    let interface = engine.interface().index;
    let mut local = address::of_socket(fd).ok_or(Not::Yet)?;
    if local.port() == 0 {
        let to = to.ok_or(Not::Yet)?;
        if engine.route(to.ip()) == Route::Elsewhere || !address::bind(fd, address::any(is_v6), is_v6, interface) {
            return Err(Not::Yet);
        }
        local = address::of_socket(fd).ok_or(Not::Yet)?;
    }
    let local = address::on_link(local, interface).ok_or(Not::Ever(Reason::OtherInterface))?;
    let remote = match address::of_peer(fd) {
        Some(remote) => Some(address::on_link(remote, interface).ok_or(Not::Ever(Reason::Route))?),
        None => None,
    };
    allowed(engine, fd, entry, local, remote)?;
    let both = both_families(fd, is_v6);
    if kernel_has(fd, local.port(), Addresses::of(local.ip(), both), 0) {
        return Err(Not::Ever(Reason::PortInUse));
    }
    let (ttl, tos) = (ttl(fd, is_v6), tos(fd, is_v6));
    let options = UdpOptions { ttl, tos, shares_port: shares_port(fd), ..UdpOptions::default() };
    let handle = engine.bind(local, both, remote, options).map_err(|error| {
        Not::Ever(match error {
            EngineError::Port(_) => Reason::TooManySockets,
            EngineError::Socket(stack::Error::AddressInUse) => Reason::PortInUse,
            _ => Reason::Route,
        })
    })?;
    if let Err(not) = quiet(engine, fd, false) {
        engine.unbind(handle, local.port());
        return Err(not);
    }
    let id = state.keep(entry, Socket::of_kernels(fd, Handle::Udp(handle), local.port(), is_v6))?;
    state.came(id, entry);
    Ok(id)
}

fn listener(state: &mut State, fd: c_int, entry: &'static Entry) -> Result<u32, Not> {
    let is_v6 = entry.has(table::IPV6);
    if time::now_ns() < state.retry_ns {
        return Err(Not::Yet);
    }
    let engine = state.engine()?;
    let local = address::of_socket(fd).ok_or(Not::Yet)?;
    let local = address::on_link(local, engine.interface().index).ok_or(Not::Ever(Reason::OtherInterface))?;
    allowed(engine, fd, entry, local, None)?;
    let both = both_families(fd, is_v6);
    let own = Addresses::of(local.ip(), both);
    if shares_port(fd) && kernel_has(fd, local.port(), own, table::LISTENS) {
        return Err(Not::Ever(Reason::PortInUse));
    }
    if engine.backend() == Backend::Packet && entry.has(table::SHARED) {
        return Err(Not::Ever(Reason::SharedListener));
    }
    // Connections that the kernel has stay there. None begins while they are looked for.
    if !filter(engine, fd, true) && engine.backend() == Backend::Packet {
        return Err(Not::Ever(Reason::NoFilter));
    }
    // One on the stack that shares the port has found them before.
    let of_kernel = if engine.listens(local.port(), own) { Vec::new() } else { connections() };
    let is_own = |one: &&Connection| {
        one.local.port() == local.port() && own.has(one.local.ip()) && engine.has_address(one.local.ip())
    };
    if engine.backend() == Backend::Packet && of_kernel.iter().filter(is_own).any(|one| one.is_handshake) {
        // The filter would keep it from being completed.
        kernel::detach_filter(fd);
        state.retry_ns = time::now_ns() + RETRY_NS;
        return Err(Not::Yet);
    }
    let of_kernel: Vec<_> = of_kernel.iter().filter(is_own).map(|one| (one.local, one.remote)).collect();
    let backlog = entry.backlog();
    let made = engine.listen(local, both, backlog, tcp_options(fd, is_v6), &of_kernel);
    let served = made.map_err(|error| {
        let is_full = matches!(error, EngineError::Port(_));
        Not::Ever(if is_full { Reason::TooManySockets } else { Reason::PortInUse })
    });
    if served.is_err() || engine.backend() != Backend::Packet {
        kernel::detach_filter(fd);
    }
    let handle = served?;
    let mut socket = Socket::of_kernels(fd, Handle::Listener(handle), local.port(), is_v6);
    socket.inherited = inherited(fd, is_v6);
    let id = state.keep(entry, socket)?;
    state.came(id, entry);
    Ok(id)
}

/// Why packets to an address do not go through the interface.
pub(super) fn elsewhere(engine: &Engine, remote: IpAddr) -> Reason {
    if engine.is_on_this_host(remote) { Reason::Local } else { Reason::Route }
}

/// Whether the stack can do what the socket was set to.
fn allowed(
    engine: &mut Engine,
    fd: c_int,
    entry: &Entry,
    local: SocketAddr,
    remote: Option<SocketAddr>,
) -> Result<(), Not> {
    let is_elsewhere = !local.ip().is_unspecified() && !engine.has_address(local.ip());
    if is_elsewhere && local.ip().is_loopback() {
        return Err(Not::Ever(Reason::Local));
    }
    if is_elsewhere || !address::is_on_link(fd, engine.interface().index) {
        return Err(Not::Ever(Reason::OtherInterface));
    }
    if let Some(remote) = remote.filter(|remote| engine.route(remote.ip()) == Route::Elsewhere) {
        return Err(Not::Ever(elsewhere(engine, remote.ip())));
    }
    if entry.has(table::UNKNOWN_OPTION) {
        return Err(Not::Ever(Reason::Option));
    }
    // The kernel sees the frames of AF_PACKET as well: its other sockets of the port would answer them, too.
    if engine.backend() == Backend::Packet && shares_port(fd) {
        return Err(Not::Ever(Reason::ReusePort));
    }
    Ok(())
}

pub(super) fn take_members(number: u32, depth: u32) {
    let members = lock().sets.not_on_stack(number, depth);
    for (fd, inner) in members {
        if inner != 0 {
            take_members(inner, depth + 1);
        } else if let Some(entry) = entry(fd) {
            let _ = used(fd, entry);
        }
    }
}
