//! Options and names of sockets on the stack. The kernel's socket beside keeps all options too, so most calls go there.

use super::address::{self, NameBuffer};
use super::control::Wanted;
use super::copied::{COPIED, inherited, is_inherited, tcp_options};
use super::processes::to_kernel;
use super::release::leave_port;
use super::socket::{Handle, state_number};
use super::state::{entry, lock};
use crate::table;
use crate::{errno, page};
use bypass_abi::page::Reason;
use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, c_int, c_ulong, c_void, socklen_t};
use stack::{TcpInfo, TcpState};
use user_stack::now;

/// Options after which only the kernel gives a datagram socket what it wants: stamps of hardware, errors, several datagrams as one, and
/// multicast groups. What [`Wanted`] knows comes from the stack.
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
            // Whose program chooses which socket of a port gets a packet.
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

/// After the kernel's socket got an option.
pub(crate) unsafe fn set(fd: c_int, level: c_int, name: c_int, value: *const c_void, size: socklen_t) {
    let Some(entry) = table::socket(fd) else { return };
    let number = if size >= 4 && !value.is_null() {
        // SAFETY: the kernel has read `size` bytes from there.
        unsafe { value.cast::<c_int>().read_unaligned() }
    } else {
        0
    };
    // A group's request may begin with interface 0; it is longer than any switch.
    let is_on = number != 0 || size > 16;
    // Only the kernel reports when it has done with the memory, and runs a program that chooses among listeners.
    let kernels_alone = [libc::SO_ZEROCOPY, libc::SO_ATTACH_REUSEPORT_CBPF, libc::SO_ATTACH_REUSEPORT_EBPF];
    if entry.has(table::STREAM) && is_on && level == SOL_SOCKET && kernels_alone.contains(&name) {
        entry.set(table::UNKNOWN_OPTION);
        match entry.on_stack() {
            Some(_) => to_kernel(fd, Reason::Option),
            None if entry.has(table::CANDIDATE) => page::fall_back(Some(entry), Reason::Option),
            None => {}
        }
        return;
    }
    if !entry.has(table::STREAM) && is_on && UNKNOWN.iter().any(|(of, names)| *of == level && names.contains(&name)) {
        entry.set(table::UNKNOWN_OPTION);
        let mut locked = lock();
        if let Some(id) = entry.on_stack() {
            leave_port(&mut locked, id, Reason::Option);
        }
        return;
    }
    let Some(id) = entry.on_stack() else { return };
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
            leave_port(&mut locked, id, Reason::OtherInterface);
        }
        key if COPIED.contains(&key) => match socket.handle {
            Handle::Tcp(handle) => {
                let is_v6 = socket.is_v6;
                // All of them anew: keep-alive consists of several.
                let copied = tcp_options(fd, is_v6);
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
                let copied = tcp_options(fd, socket.is_v6);
                let _ = engine.stack().listener_set_options(handle, copied);
            }
            Handle::Udp(handle) => {
                let copied = tcp_options(fd, socket.is_v6);
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

/// getsockname or, with `peer`, getpeername of a connection. None: the kernel's answer.
pub(crate) fn name(fd: c_int, peer: bool, to: NameBuffer) -> Option<c_int> {
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
    to.write(if peer { remote } else { local }, is_v6, interface);
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
