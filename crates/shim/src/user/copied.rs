//! Options of kernel sockets that those of the stack have from them, and connections from their listener.

use crate::kernel::{self, Value, option, value};
use crate::{real, settings};
use bypass_abi::Key;
use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, c_int};
use stack::{KeepAlive, TcpOptions};
use std::sync::LazyLock;

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

/// An option in which a listener differs from a new socket.
pub(super) struct Inherited {
    name: (c_int, c_int),
    value: Value,
}

impl Inherited {
    pub(super) fn give(&self, fd: c_int) {
        let ((level, name), (bytes, size)) = (self.name, &self.value);
        // SAFETY: this many bytes are there.
        unsafe { real::setsockopt.get()(fd, level, name, bytes.as_ptr().cast(), *size) };
    }
}

fn inheritable() -> impl Iterator<Item = (c_int, c_int)> {
    COPIED.into_iter().chain(INHERITED)
}

/// What a new socket has of each option: of AF_INET, of AF_INET6.
static DEFAULTS: LazyLock<[Vec<Option<Value>>; 2]> = LazyLock::new(|| {
    [false, true].map(|is_v6| {
        let fd = kernel::socket(is_v6, libc::SOCK_STREAM | libc::SOCK_CLOEXEC);
        let values = inheritable().map(|name| value(fd, name)).collect();
        kernel::close(fd);
        values
    })
});

/// Whether an option, or another that it changes, is inherited by connections.
pub(super) fn is_inherited(level: c_int, name: c_int) -> bool {
    // SO_RCVTIMEO_NEW, SO_SNDTIMEO_NEW: the same with other times.
    const ALSO: [c_int; 6] =
        [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE, libc::SO_BINDTODEVICE, libc::SO_PRIORITY, 66, 67];
    inheritable().any(|one| one == (level, name)) || level == SOL_SOCKET && ALSO.contains(&name)
}

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
            // It reports twice what was set (socket(7)).
            let [b0, b1, b2, b3, ..] = option.value.0;
            let half = (i32::from_ne_bytes([b0, b1, b2, b3]) / 2).to_ne_bytes();
            option.value.0.iter_mut().zip(half).for_each(|(slot, byte)| *slot = byte);
        }
    }
    differ
}

const SECOND: u64 = 1_000_000_000;

/// Sizes of the stack's buffers that SO_SNDBUF and SO_RCVBUF set; without them they have the largest. Bytes.
const BUFFERS: std::ops::RangeInclusive<usize> = 4 << 10..=256 << 10;

/// The size of a buffer, where the program has set it. The kernel reports twice what was set (socket(7)).
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

pub(super) fn shares_port(fd: c_int) -> bool {
    option(fd, SOL_SOCKET, libc::SO_REUSEPORT) == Some(1)
}

/// Whether `::` of a socket means all addresses of IPv4, too.
pub(super) fn both_families(fd: c_int, is_v6: bool) -> bool {
    is_v6 && option(fd, IPPROTO_IPV6, libc::IPV6_V6ONLY) == Some(0)
}

fn small(value: Option<c_int>, default: u8) -> u8 {
    value.and_then(|value| u8::try_from(value).ok()).unwrap_or(default)
}

pub(super) fn ttl(fd: c_int, is_v6: bool) -> u8 {
    let (level, name) = if is_v6 { (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) } else { (IPPROTO_IP, libc::IP_TTL) };
    small(option(fd, level, name), 64).max(1)
}

pub(super) fn tos(fd: c_int, is_v6: bool) -> u8 {
    let (level, name) = if is_v6 { (IPPROTO_IPV6, libc::IPV6_TCLASS) } else { (IPPROTO_IP, libc::IP_TOS) };
    small(option(fd, level, name), 0)
}

/// Options of connections, as the kernel's socket has them.
pub(super) fn tcp_options(fd: c_int, is_v6: bool) -> TcpOptions {
    let rto_min_ns = settings::ns(Key::RtoMin).max(1000);
    let (ttl, tos) = (ttl(fd, is_v6), tos(fd, is_v6));
    let mut options = TcpOptions { ttl, tos, rto_min_ns, shares_port: shares_port(fd), ..TcpOptions::default() };
    for name in &COPIED {
        if let Some(value) = option(fd, name.0, name.1) {
            apply(&mut options, *name, value);
        }
    }
    options
}
