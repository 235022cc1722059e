//! Taking a socket over from the kernel, at the first call that uses it.

use super::socket::Socket;
use super::{Handle, State, address, datagram, lock, service};
use crate::table::{self, Entry};
use crate::{page, real, settings, thread};
use bypass_abi::{Key, page::Reason};
use libc::{IPPROTO_IP, IPPROTO_IPV6, SOL_SOCKET, c_int};
use stack::{TcpOptions, UdpOptions};
use std::net::{IpAddr, SocketAddr};
use user_stack::{Engine, EngineError, Route};
use xsk::{Addresses, Backend};

/// After how long a listener is tried again that handshakes of the kernel kept from AF_PACKET, ns.
const RETRY_NS: u64 = 100_000_000;

/// Why a socket is not taken over now.
pub(super) enum Not {
    /// It may be later.
    Yet,
    /// The kernel keeps it.
    Ever(Reason),
}

/// A socket listens from now on.
pub(crate) fn listens(fd: c_int, entry: &'static Entry) {
    if !crate::thread::is_in_stack() {
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
        table::set_all(entry, 0, table::LEFT);
        page::left_behind(entry, Reason::Forked);
    }
}

/// Gives a connection to the kernel because of `reason`: its descriptor goes to another process, or the program wants what only the
/// kernel can. A listener that nobody waits for is the kernel's again.
#[cold]
pub(crate) fn to_kernel(fd: c_int, reason: Reason) {
    let Some((entry, id)) = super::entry(fd).and_then(|entry| Some((entry, entry.on_stack()?))) else { return };
    let errno = crate::errno::get();
    let mut state = lock();
    if entry.has(table::LISTENS) && table::unused(id).is_some() {
        super::close::give_back(&mut state, fd, id, table::CANDIDATE, 0);
    } else {
        state.hand_over_all(|one| one == fd);
        drop(state);
        if entry.on_stack() == Some(id) {
            page::left_behind(entry, reason);
        }
    }
    crate::errno::set(errno);
}

#[cold]
fn now(fd: c_int, entry: &'static Entry, to: Option<SocketAddr>) -> Option<u32> {
    if entry.has(table::LEFT) {
        left(entry);
        return None;
    }
    let errno = crate::errno::get();
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
            datagram::not_taken(entry, reason);
            None
        }
    };
    crate::errno::set(errno);
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
                    super::capture::start(&mut engine);
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
        socket.descriptors = table::count_same(entry);
        socket.record = entry.record();
        let id = self.insert(socket).ok_or(Not::Ever(Reason::TooManySockets))?;
        table::put_on_stack(entry, id);
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
    if datagram::kernel_has(fd, local.port(), Addresses::of(local.ip(), both), 0) {
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
    if thread::now_ns() < state.retry_ns {
        return Err(Not::Yet);
    }
    let engine = state.engine()?;
    let local = address::of_socket(fd).ok_or(Not::Yet)?;
    let local = address::on_link(local, engine.interface().index).ok_or(Not::Ever(Reason::OtherInterface))?;
    allowed(engine, fd, entry, local, None)?;
    let both = both_families(fd, is_v6);
    let own = Addresses::of(local.ip(), both);
    if shares_port(fd) && datagram::kernel_has(fd, local.port(), own, table::LISTENS) {
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
        unfilter(fd);
        state.retry_ns = thread::now_ns() + RETRY_NS;
        return Err(Not::Yet);
    }
    let of_kernel: Vec<_> = of_kernel.iter().filter(is_own).map(|one| (one.local, one.remote)).collect();
    let backlog = table::backlog(entry);
    let made = engine.listen(local, both, backlog, tcp_options(fd, is_v6), &of_kernel);
    let served = made.map_err(|error| {
        let is_full = matches!(error, EngineError::Port(_));
        Not::Ever(if is_full { Reason::TooManySockets } else { Reason::PortInUse })
    });
    if served.is_err() || engine.backend() != Backend::Packet {
        unfilter(fd);
    }
    let handle = served?;
    let mut socket = Socket::of_kernels(fd, Handle::Listener(handle), local.port(), is_v6);
    socket.inherited = super::options::inherited(fd, is_v6);
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

fn shares_port(fd: c_int) -> bool {
    address::option(fd, SOL_SOCKET, libc::SO_REUSEPORT) == Some(1)
}

/// Whether `::` of a socket stands for all addresses of IPv4, too.
pub(super) fn both_families(fd: c_int, is_v6: bool) -> bool {
    is_v6 && address::option(fd, IPPROTO_IPV6, libc::IPV6_V6ONLY) == Some(0)
}

fn small(value: Option<c_int>, default: u8) -> u8 {
    value.and_then(|value| u8::try_from(value).ok()).unwrap_or(default)
}

fn ttl(fd: c_int, is_v6: bool) -> u8 {
    let (level, name) = if is_v6 { (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) } else { (IPPROTO_IP, libc::IP_TTL) };
    small(address::option(fd, level, name), 64).max(1)
}

fn tos(fd: c_int, is_v6: bool) -> u8 {
    let (level, name) = if is_v6 { (IPPROTO_IPV6, libc::IPV6_TCLASS) } else { (IPPROTO_IP, libc::IP_TOS) };
    small(address::option(fd, level, name), 0)
}

/// Options of connections, as the kernel's socket has them.
pub(super) fn tcp_options(fd: c_int, is_v6: bool) -> TcpOptions {
    let rto_min_ns = settings::ns(Key::RtoMin).max(1000);
    let (ttl, tos) = (ttl(fd, is_v6), tos(fd, is_v6));
    let mut options = TcpOptions { ttl, tos, rto_min_ns, shares_port: shares_port(fd), ..TcpOptions::default() };
    for name in &super::options::COPIED {
        if let Some(value) = address::option(fd, name.0, name.1) {
            super::options::apply(&mut options, *name, value);
        }
    }
    options
}

/// Keeps a kernel socket quiet where it sees the frames that the stack takes: a filter drops what is for this host alone, came
/// through the interface, and was not put together of fragments. (AF_XDP takes frames away from the kernel.)
/// Where the kernel refuses (Linux 6.18.44 does for TCP without CAP_NET_ADMIN), it would answer all segments with resets.
pub(super) fn quiet(engine: &Engine, fd: c_int, is_stream: bool) -> Result<(), Not> {
    if engine.backend() != Backend::Packet || filter(engine, fd, is_stream) {
        return Ok(());
    }
    Err(Not::Ever(Reason::NoFilter))
}

/// Undoes [`quiet`].
pub(super) fn unquiet(engine: &Engine, fd: c_int) {
    if engine.backend() == Backend::Packet {
        unfilter(fd);
    }
}

/// A connection that the kernel has or is making.
pub(super) struct Connection {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// The other end began it, and nobody can accept it yet.
    is_handshake: bool,
}

/// All of them.
pub(super) fn connections() -> Vec<Connection> {
    const HANDSHAKE: &str = "03";
    const OF_NOBODY: [&str; 3] = ["06", "07", "0A"];
    let tables = ["tcp", "tcp6"].map(|name| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")));
    let lines = tables.iter().flatten().flat_map(|text| text.lines().skip(1));
    lines
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let (local, remote, state) = (words.next()?, words.next()?, words.next()?);
            if OF_NOBODY.contains(&state) {
                return None;
            }
            Some(Connection { local: end(local)?, remote: end(remote)?, is_handshake: state == HANDSHAKE })
        })
        .collect()
}

/// An end as the kernel's tables have it: the words of the address as they are in memory, and the port.
fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |at| Some(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match address.len() {
        8 => IpAddr::from(word(0)?),
        _ => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            IpAddr::from(<[u8; 16]>::try_from(words.concat()).ok()?).to_canonical()
        }
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Takes a filter off.
pub(super) fn unfilter(fd: c_int) {
    let none: c_int = 0;
    // SAFETY: an int, which is not read.
    unsafe { real::setsockopt.get()(fd, SOL_SOCKET, libc::SO_DETACH_FILTER, (&raw const none).cast(), 4) };
}

/// Drops what comes through the interface for this host alone. Whether the kernel allows it.
fn filter(engine: &Engine, fd: c_int, is_stream: bool) -> bool {
    const LOAD: u16 = 0x20;
    const LOAD_LENGTH: u16 = 0x80;
    const JUMP_EQUAL: u16 = 0x15;
    const JUMP_GREATER: u16 = 0x25;
    const RETURN: u16 = 0x06;
    /// SKF_AD_OFF + SKF_AD_IFINDEX, SKF_AD_PKTTYPE of linux/filter.h.
    const INTERFACE: u32 = 0xffff_f008;
    const PACKET_TYPE: u32 = 0xffff_f004;
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut code = [
        op(LOAD, 0, 0, INTERFACE),
        op(JUMP_EQUAL, 0, 5, engine.interface().index),
        op(LOAD, 0, 0, PACKET_TYPE),
        op(JUMP_EQUAL, 0, 3, 0),
        op(LOAD_LENGTH, 0, 0, 0),
        // The kernel puts segments of a stream together, too.
        op(JUMP_GREATER, 1, 0, if is_stream { u32::MAX } else { engine.interface().mtu - 20 }),
        op(RETURN, 0, 0, 0),
        op(RETURN, 0, 0, u32::MAX),
    ];
    let program = libc::sock_fprog { len: 8, filter: code.as_mut_ptr() };
    let size = libc::socklen_t::try_from(size_of_val(&program)).unwrap_or(0);
    // SAFETY: a program of this length, which the kernel copies.
    unsafe { real::setsockopt.get()(fd, SOL_SOCKET, libc::SO_ATTACH_FILTER, (&raw const program).cast(), size) == 0 }
}
