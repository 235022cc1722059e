//! Options and names of sockets on the stack. The kernel's socket beside keeps all options too, so most calls go there.

use super::control::Wanted;
use super::socket::Socket;
use super::{Handle, address, entry, lock};
use crate::table::{self, Entry};
use crate::{errno, page, real};
use bypass_abi::page::{Kind, Reason};
use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, c_int, c_ulong, c_void, sockaddr, socklen_t};
use stack::{KeepAlive, TcpInfo, TcpOptions, TcpState};
use std::sync::LazyLock;
use user_stack::now;

/// Options that a connection of the stack takes over: level and name.
pub(super) const COPIED: [(c_int, c_int); 13] = [
    (IPPROTO_TCP, libc::TCP_NODELAY),
    (IPPROTO_TCP, libc::TCP_CORK),
    (IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (IPPROTO_TCP, libc::TCP_KEEPCNT),
    (IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
    (IPPROTO_IP, libc::IP_TTL),
    (IPPROTO_IP, libc::IP_TOS),
    (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
    (IPPROTO_IPV6, libc::IPV6_TCLASS),
    (SOL_SOCKET, libc::SO_RCVBUF),
    (SOL_SOCKET, libc::SO_SNDBUF),
    // The last: it makes use of the times above.
    (SOL_SOCKET, libc::SO_KEEPALIVE),
];

/// Options that a connection has from its listener besides [`COPIED`].
const INHERITED: [(c_int, c_int); 11] = [
    (SOL_SOCKET, libc::SO_RCVTIMEO),
    (SOL_SOCKET, libc::SO_SNDTIMEO),
    (SOL_SOCKET, libc::SO_LINGER),
    (SOL_SOCKET, libc::SO_RCVLOWAT),
    (SOL_SOCKET, libc::SO_OOBINLINE),
    (SOL_SOCKET, libc::SO_MARK),
    (SOL_SOCKET, libc::SO_REUSEADDR),
    (SOL_SOCKET, libc::SO_BINDTOIFINDEX),
    (SOL_SOCKET, libc::SO_ZEROCOPY),
    (IPPROTO_TCP, libc::TCP_CONGESTION),
    (IPPROTO_IPV6, libc::IPV6_V6ONLY),
];

/// An option's value, and its length.
type Value = ([u8; 16], socklen_t);

fn value(fd: c_int, (level, name): (c_int, c_int)) -> Option<Value> {
    let (mut bytes, mut size) = ([0; 16], 16);
    // SAFETY: the kernel writes no more than the size.
    let done = unsafe { real::getsockopt.get()(fd, level, name, bytes.as_mut_ptr().cast(), &raw mut size) };
    (done == 0).then_some((bytes, size))
}

/// An option in which a listener differs from a new socket.
pub(super) struct Inherited {
    name: (c_int, c_int),
    value: Value,
}

impl Inherited {
    /// Sets it on a kernel socket.
    pub(super) fn give(&self, fd: c_int) {
        let ((level, name), (bytes, size)) = (self.name, &self.value);
        // SAFETY: so many bytes are there.
        unsafe { real::setsockopt.get()(fd, level, name, bytes.as_ptr().cast(), *size) };
    }
}

fn inheritable() -> impl Iterator<Item = (c_int, c_int)> {
    COPIED.into_iter().chain(INHERITED)
}

/// What a new socket has of each option: of AF_INET, of AF_INET6.
static DEFAULTS: LazyLock<[Vec<Option<Value>>; 2]> = LazyLock::new(|| {
    [libc::AF_INET, libc::AF_INET6].map(|family| {
        // SAFETY: takes numbers only.
        let fd = unsafe { real::socket.get()(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
        let values = inheritable().map(|name| value(fd, name)).collect();
        // SAFETY: made above.
        unsafe { real::close.get()(fd) };
        values
    })
});

/// Whether an option, or another that it changes, is inherited by connections.
fn is_inherited(level: c_int, name: c_int) -> bool {
    // SO_RCVTIMEO_NEW, SO_SNDTIMEO_NEW: the same with other times.
    const ALSO: [c_int; 6] =
        [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE, libc::SO_BINDTODEVICE, libc::SO_PRIORITY, 66, 67];
    inheritable().any(|one| one == (level, name)) || level == SOL_SOCKET && ALSO.contains(&name)
}

/// What connections have from a listener.
pub(super) fn inherited(fd: c_int, is_v6: bool) -> Vec<Inherited> {
    let all = inheritable().zip(&DEFAULTS[usize::from(is_v6)]);
    let mut differ: Vec<Inherited> = all
        .filter_map(|(name, default)| {
            Some(Inherited { name, value: value(fd, name)? }).filter(|option| Some(option.value) != *default)
        })
        .collect();
    if differ.iter().any(|option| option.name == (IPPROTO_IP, libc::IP_TOS)) {
        // Which IP_TOS changes, and connections have anew.
        differ.push(Inherited { name: (SOL_SOCKET, libc::SO_PRIORITY), value: ([0; 16], 4) });
    }
    for option in &mut differ {
        if matches!(option.name, (SOL_SOCKET, libc::SO_RCVBUF | libc::SO_SNDBUF)) {
            // It says twice what was set (socket(7)).
            let [b0, b1, b2, b3, ..] = option.value.0;
            let half = (i32::from_ne_bytes([b0, b1, b2, b3]) / 2).to_ne_bytes();
            option.value.0.iter_mut().zip(half).for_each(|(slot, byte)| *slot = byte);
        }
    }
    differ
}

impl Socket {
    /// Reads the options of the kernel's socket that calls obey.
    pub(super) fn read_options(&mut self, fd: c_int) {
        self.receive_ns = crate::calls::timeout_ns(fd, libc::SO_RCVTIMEO);
        self.send_ns = crate::calls::timeout_ns(fd, libc::SO_SNDTIMEO);
        if let Some(([on0, on1, on2, on3, s0, s1, s2, s3, ..], 8)) = value(fd, (SOL_SOCKET, libc::SO_LINGER)) {
            let is_on = [on0, on1, on2, on3] != [0; 4];
            self.linger_s = is_on.then_some(u32::from_ne_bytes([s0, s1, s2, s3]));
        }
        let least = address::option(fd, SOL_SOCKET, libc::SO_RCVLOWAT).and_then(|bytes| usize::try_from(bytes).ok());
        self.least = least.unwrap_or(1).max(1);
        if matches!(self.handle, Handle::Udp(_)) {
            self.wanted = Wanted::read(fd);
        }
    }
}

/// Options after which only the kernel gives a datagram socket what it wants: stamps of hardware, errors, several datagrams as one, and
/// multicast groups. What [`Wanted`] knows is told by the stack.
const UNKNOWN: [(c_int, &[c_int]); 4] = [
    (
        SOL_SOCKET,
        &[
            libc::SO_TIMESTAMPING,
            // SO_TIMESTAMP_NEW, SO_TIMESTAMPNS_NEW, SO_TIMESTAMPING_NEW.
            63,
            64,
            65,
            libc::SO_RXQ_OVFL,
            libc::SO_PEEK_OFF,
            libc::SO_ATTACH_FILTER,
            libc::SO_ATTACH_BPF,
            libc::SO_TXTIME,
            libc::SO_ZEROCOPY,
            // Whose program says which socket of a port gets a packet.
            libc::SO_ATTACH_REUSEPORT_CBPF,
            libc::SO_ATTACH_REUSEPORT_EBPF,
        ],
    ),
    (
        IPPROTO_IP,
        &[
            libc::IP_RECVERR,
            libc::IP_OPTIONS,
            libc::IP_ADD_MEMBERSHIP,
            libc::IP_ADD_SOURCE_MEMBERSHIP,
            libc::MCAST_JOIN_GROUP,
            libc::MCAST_JOIN_SOURCE_GROUP,
        ],
    ),
    (
        IPPROTO_IPV6,
        &[libc::IPV6_RECVERR, libc::IPV6_ADD_MEMBERSHIP, libc::MCAST_JOIN_GROUP, libc::MCAST_JOIN_SOURCE_GROUP],
    ),
    // SOL_UDP: UDP_SEGMENT, UDP_GRO.
    (libc::IPPROTO_UDP, &[103, 104]),
];

const SECOND: u64 = 1_000_000_000;

/// Sizes of the stack's buffers that SO_SNDBUF and SO_RCVBUF set; without them they have the largest. Bytes.
const BUFFERS: std::ops::RangeInclusive<usize> = 4 << 10..=256 << 10;

/// The size of a buffer, where the program has set it. The kernel says twice what was set (socket(7)).
fn buffer(name: (c_int, c_int), value: c_int) -> Option<usize> {
    let default = inheritable().position(|one| one == name).and_then(|at| DEFAULTS[0].get(at)?.as_ref());
    let is_set = default.is_some_and(|(bytes, _)| !bytes.starts_with(&value.to_ne_bytes()));
    is_set.then(|| usize::try_from(value / 2).unwrap_or(0).clamp(*BUFFERS.start(), *BUFFERS.end()))
}

/// Sets one of [`COPIED`] in the stack's options.
pub(super) fn apply(options: &mut TcpOptions, name: (c_int, c_int), value: c_int) {
    let number = u64::from(value.unsigned_abs());
    let mut keep = options.keep_alive.unwrap_or_default();
    match name {
        (SOL_SOCKET, libc::SO_SNDBUF) => options.send_buffer = buffer(name, value).unwrap_or(options.send_buffer),
        (SOL_SOCKET, libc::SO_RCVBUF) => options.receive_buffer = buffer(name, value).unwrap_or(options.receive_buffer),
        (IPPROTO_TCP, libc::TCP_NODELAY) => options.nodelay = value != 0,
        (IPPROTO_TCP, libc::TCP_CORK) => options.cork = value != 0,
        (IPPROTO_TCP, libc::TCP_KEEPIDLE) => keep.idle_ns = number.max(1) * SECOND,
        (IPPROTO_TCP, libc::TCP_KEEPINTVL) => keep.interval_ns = number.max(1) * SECOND,
        (IPPROTO_TCP, libc::TCP_KEEPCNT) => keep.count = value.unsigned_abs().max(1),
        (IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
            options.user_timeout_ns = Some(number * 1_000_000).filter(|ns| *ns > 0);
        }
        (IPPROTO_IP, libc::IP_TTL) | (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) if (1..256).contains(&value) => {
            options.ttl = u8::try_from(value).unwrap_or(64);
        }
        (IPPROTO_IP, libc::IP_TOS) | (IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            options.tos = u8::try_from(value & 0xff).unwrap_or(0);
        }
        _ => {}
    }
    let is_keep = matches!(
        name,
        (IPPROTO_TCP, libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL | libc::TCP_KEEPCNT) | (SOL_SOCKET, libc::SO_KEEPALIVE)
    );
    if name == (SOL_SOCKET, libc::SO_KEEPALIVE) {
        options.keep_alive = (value != 0).then_some(keep);
    } else if is_keep && (options.keep_alive.is_some() || keep != KeepAlive::default()) {
        options.keep_alive = Some(keep);
    }
}

/// After the kernel's socket got an option.
pub(crate) unsafe fn set(fd: c_int, level: c_int, name: c_int, value: *const c_void, size: socklen_t) {
    let Some(entry) = table::entry(fd).filter(|entry| entry.has(table::SOCKET)) else { return };
    let number = if size >= 4 && !value.is_null() {
        // SAFETY: the kernel has read `size` bytes from there.
        unsafe { value.cast::<c_int>().read_unaligned() }
    } else {
        0
    };
    // A group's request may begin with interface 0; it is longer than any switch.
    let is_on = number != 0 || size > 16;
    // Only the kernel says when it has done with the memory, and runs a program that chooses among listeners.
    let kernels_alone = [libc::SO_ZEROCOPY, libc::SO_ATTACH_REUSEPORT_CBPF, libc::SO_ATTACH_REUSEPORT_EBPF];
    if entry.has(table::STREAM) && is_on && level == SOL_SOCKET && kernels_alone.contains(&name) {
        entry.set(table::UNKNOWN_OPTION);
        match entry.on_stack() {
            Some(_) => super::take::to_kernel(fd, Reason::Option),
            None if entry.has(table::CANDIDATE) => page::fall_back(Some(entry), Reason::Option),
            None => {}
        }
        return;
    }
    if !entry.has(table::STREAM) && is_on && UNKNOWN.iter().any(|(of, names)| *of == level && names.contains(&name)) {
        entry.set(table::UNKNOWN_OPTION);
        let mut locked = lock();
        if let Some(id) = entry.on_stack() {
            super::datagram::leave_port(&mut locked, id, Reason::Option);
        }
        return;
    }
    let Some(id) = super::entry(fd).and_then(Entry::on_stack) else { return };
    // Without the lock: it asks the kernel for all of them, because one changes another.
    let anew = is_inherited(level, name) && entry.has(table::LISTENS);
    let anew = anew.then(|| inherited(fd, entry.has(table::IPV6)));
    let mut locked = lock();
    let Some((engine, socket)) = locked.both(id) else { return };
    if let Some(anew) = anew.filter(|_| matches!(socket.handle, Handle::Listener(_))) {
        socket.inherited = anew;
    }
    match (level, name) {
        (SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO | libc::SO_LINGER | libc::SO_RCVLOWAT) => {
            socket.read_options(fd);
        }
        (level, name) if Wanted::knows(level, name) => socket.read_options(fd),
        (SOL_SOCKET, libc::SO_BINDTODEVICE | libc::SO_BINDTOIFINDEX)
            if !matches!(socket.handle, Handle::Tcp(_)) && !address::is_on_link(fd, engine.interface().index) =>
        {
            super::datagram::leave_port(&mut locked, id, Reason::OtherInterface);
        }
        key if COPIED.contains(&key) => match socket.handle {
            Handle::Tcp(handle) => {
                let is_v6 = socket.is_v6;
                // All of them anew: keep-alive consists of several.
                let copied = super::take::tcp_options(fd, is_v6);
                if let Ok(mut options) = engine.stack().tcp_options(handle) {
                    if matches!(key.0, IPPROTO_TCP | SOL_SOCKET) {
                        (options.nodelay, options.cork) = (copied.nodelay, copied.cork);
                        options.send_buffer = copied.send_buffer;
                        (options.keep_alive, options.user_timeout_ns) = (copied.keep_alive, copied.user_timeout_ns);
                    } else {
                        (options.ttl, options.tos) = (copied.ttl, copied.tos);
                    }
                    let _ = engine.stack().tcp_set_options(now(), handle, options);
                    engine.flush();
                }
            }
            Handle::Listener(handle) => {
                let copied = super::take::tcp_options(fd, socket.is_v6);
                let _ = engine.stack().listener_set_options(handle, copied);
            }
            Handle::Udp(handle) => {
                let copied = super::take::tcp_options(fd, socket.is_v6);
                let _ = engine.stack().udp_set_marks(handle, copied.ttl, copied.tos);
            }
        },
        _ => {}
    }
}

/// getsockopt of what only the stack knows. None: the kernel's answer.
pub(crate) unsafe fn get(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    size: *mut socklen_t,
) -> Option<c_int> {
    let id = entry(fd)?.on_stack()?;
    let mut locked = lock();
    let (engine, socket) = locked.both(id)?;
    let number = match (level, name, socket.handle) {
        (SOL_SOCKET, libc::SO_ERROR, Handle::Tcp(handle)) => {
            let error = engine.stack().tcp_take_error(handle).ok()?;
            error.map_or(0, stack::Error::errno)
        }
        (SOL_SOCKET, libc::SO_ERROR, Handle::Udp(handle)) => engine.stack().udp_take_error(handle).ok()??.errno(),
        (SOL_SOCKET, libc::SO_ACCEPTCONN, Handle::Tcp(_)) => 0,
        (IPPROTO_TCP, libc::TCP_NODELAY, Handle::Tcp(handle)) => {
            c_int::from(engine.stack().tcp_options(handle).ok()?.nodelay)
        }
        (IPPROTO_TCP, libc::TCP_MAXSEG, Handle::Tcp(handle)) => {
            c_int::try_from(engine.stack().tcp_info(handle).ok()?.send_mss).ok()?
        }
        (IPPROTO_TCP, libc::TCP_INFO, Handle::Tcp(handle)) => {
            let info = engine.stack().tcp_info(handle).ok()?;
            // SAFETY: the caller's promises about value and size.
            unsafe { give(&kernel_info(&info), value, size) };
            return Some(0);
        }
        _ => return None,
    };
    // SAFETY: as above.
    unsafe { give(&number, value, size) };
    Some(0)
}

unsafe fn give<T>(from: &T, value: *mut c_void, size: *mut socklen_t) {
    // SAFETY: `*size` bytes are there, as of getsockopt(2).
    unsafe {
        let length = (size.read_unaligned() as usize).min(size_of::<T>());
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(from).cast::<u8>(), value.cast::<u8>(), length);
        size.write_unaligned(u32::try_from(length).unwrap_or(0));
    }
}

/// TCP_INFO of linux/tcp.h.
fn kernel_info(info: &TcpInfo) -> libc::tcp_info {
    // SAFETY: a structure of integers.
    let mut out: libc::tcp_info = unsafe { std::mem::zeroed() };
    let us = |ns: u64| u32::try_from(ns / 1000).unwrap_or(u32::MAX);
    let mss = info.send_mss.max(1);
    out.tcpi_state = state_number(info.state);
    out.tcpi_backoff = u8::try_from(info.backoff).unwrap_or(u8::MAX);
    out.tcpi_retransmits = out.tcpi_backoff;
    out.tcpi_options = u8::from(info.timestamps) | u8::from(info.sack) << 1 | u8::from(info.send_shift > 0) << 2;
    out.tcpi_rto = us(info.retransmission_timeout_ns);
    out.tcpi_snd_mss = info.send_mss;
    out.tcpi_rcv_mss = info.send_mss;
    out.tcpi_unacked = info.in_flight_segments;
    out.tcpi_sacked = info.sacked_segments;
    out.tcpi_lost = info.lost_segments;
    out.tcpi_pmtu = u32::from(info.path_mtu);
    out.tcpi_rtt = us(info.round_trip_ns);
    out.tcpi_rttvar = us(info.round_trip_variation_ns);
    out.tcpi_snd_ssthresh = info.slow_start_threshold / mss;
    out.tcpi_snd_cwnd = info.congestion_window / mss;
    out.tcpi_advmss = info.send_mss;
    out.tcpi_rcv_space = info.receive_window;
    out.tcpi_total_retrans = u32::try_from(info.retransmits).unwrap_or(u32::MAX);
    out
}

/// The kernel's number of a state (include/net/tcp_states.h).
pub(super) fn state_number(state: TcpState) -> u8 {
    match state {
        TcpState::Established => 1,
        TcpState::SynSent => 2,
        TcpState::SynReceived => 3,
        TcpState::FinWait1 => 4,
        TcpState::FinWait2 => 5,
        TcpState::TimeWait => 6,
        TcpState::Closed => 7,
        TcpState::CloseWait => 8,
        TcpState::LastAck => 9,
        TcpState::Closing => 11,
    }
}

/// getsockname or, with `peer`, getpeername of a connection. None: the kernel's answer.
pub(crate) unsafe fn name(fd: c_int, peer: bool, to: *mut sockaddr, size: *mut socklen_t) -> Option<c_int> {
    let id = entry(fd)?.on_stack()?;
    let mut locked = lock();
    let (engine, socket) = locked.both(id)?;
    let Handle::Tcp(handle) = socket.handle else { return None };
    let (local, remote) = socket.ends?;
    let is_v6 = socket.is_v6;
    let interface = engine.interface().index;
    if peer {
        let state = engine.stack().tcp_info(handle).map_or(TcpState::Closed, |info| info.state);
        if matches!(state, TcpState::SynSent | TcpState::Closed) {
            errno::set(libc::ENOTCONN);
            return Some(-1);
        }
    }
    // SAFETY: the caller's promises about the address.
    unsafe { address::write(if peer { remote } else { local }, is_v6, interface, to, size) };
    Some(0)
}

/// ioctl of queues. None: the kernel's.
pub(crate) unsafe fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> Option<c_int> {
    if request != libc::FIONREAD && request != libc::TIOCOUTQ {
        return None;
    }
    let id = entry(fd)?.on_stack()?;
    let mut locked = lock();
    locked.poll();
    let (engine, socket) = locked.both(id)?;
    let bytes = match (socket.handle, request) {
        (Handle::Tcp(handle), libc::FIONREAD) => engine.stack().tcp_info(handle).ok()?.unread as usize,
        (Handle::Tcp(handle), _) => {
            let info = engine.stack().tcp_info(handle).ok()?;
            (info.unacknowledged + info.unsent) as usize
        }
        // The length of the next one.
        (Handle::Udp(handle), libc::FIONREAD) => engine.stack().udp_front(handle).ok()?.0.length,
        _ => return None,
    };
    // SAFETY: an int, as of these requests.
    unsafe { argument.cast::<c_int>().write_unaligned(c_int::try_from(bytes).unwrap_or(c_int::MAX)) };
    Some(0)
}

/// Waits for a connection to take bytes, as a send call does. Sets errno where it does not come.
pub(crate) fn wait_for_room(fd: c_int) -> bool {
    let nonblocking = entry(fd).is_some_and(|entry| entry.has(table::NONBLOCK));
    let id = entry(fd).and_then(Entry::on_stack).unwrap_or(0);
    let send_ns = lock().socket(id).map_or(u64::MAX, |socket| socket.send_ns);
    let timeout_ns = if nonblocking { 0 } else { send_ns };
    let mut fds = [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }];
    let kind = Kind::Poll;
    let ready = super::poll(&mut super::Polled { fds: &mut fds, timeout_ns, mask: std::ptr::null(), kind });
    if ready == Some(0) {
        errno::set(libc::EAGAIN);
    }
    ready.is_none_or(|ready| ready > 0)
}

/// Bytes that a connection takes at once.
pub(crate) fn room(fd: c_int) -> Option<usize> {
    let id = entry(fd)?.on_stack()?;
    let mut locked = lock();
    locked.poll();
    let (engine, socket) = locked.both(id)?;
    let Handle::Tcp(handle) = socket.handle else { return None };
    let (info, options) = (engine.stack().tcp_info(handle).ok()?, engine.stack().tcp_options(handle).ok()?);
    Some(options.send_buffer.saturating_sub((info.unacknowledged + info.unsent) as usize))
}
