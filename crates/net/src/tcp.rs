//! TCP connections with a time limit, for control and for data.

use crate::NetError;
use crate::address::RawAddress;
use crate::socket::{DataSocket, local_address};
use crate::{options, sys};
use libc::c_int;
use model::{EndSpec, Protocol, SocketSpec};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A control connection to `address`, from `bind` and through `device` where they are given, with TCP_NODELAY.
///
/// # Errors
/// Nobody listens there, nobody answers within `timeout`, or the local address cannot be had.
pub fn connect(
    address: SocketAddr,
    bind: Option<IpAddr>,
    device: Option<&str>,
    timeout: Duration,
) -> Result<TcpStream, NetError> {
    let end = EndSpec { bind, device: device.map(str::to_owned), ..EndSpec::default() };
    open(&SocketSpec::new(Protocol::Tcp), &end, address, timeout).map(TcpStream::from)
}

/// A socket with all options of the spec.
pub(crate) fn socket(spec: &SocketSpec, end: &EndSpec, v6: bool) -> Result<OwnedFd, NetError> {
    let number = if spec.protocol == Protocol::Mptcp { libc::IPPROTO_MPTCP } else { 0 };
    let socket =
        sys::socket(sys::domain(v6), libc::SOCK_STREAM, number).map_err(|cause| match cause.raw_os_error() {
            Some(libc::ENOPROTOOPT) if number != 0 => {
                NetError::NoMptcp { cause, remedy: "switch it on with 'sysctl net.mptcp.enabled=1'" }
            }
            Some(libc::EPROTONOSUPPORT | libc::EINVAL) if number != 0 => {
                NetError::NoMptcp { cause, remedy: "use a kernel with CONFIG_MPTCP (Linux 5.16 and later), or tcp" }
            }
            _ => NetError::Socket { what: if v6 { "TCP/IPv6" } else { "TCP/IPv4" }, cause },
        })?;
    options::apply(socket.as_raw_fd(), v6, spec, end)?;
    Ok(socket)
}

/// The same, bound where that is asked for, not connected yet.
pub(crate) fn unconnected(spec: &SocketSpec, end: &EndSpec, peer: SocketAddr) -> Result<OwnedFd, NetError> {
    let socket = socket(spec, end, peer.is_ipv6())?;
    let fd = socket.as_raw_fd();
    if end.bind.is_some() {
        // The port is chosen by connect, which may take one that is in use towards another peer (ip(7)).
        options::int(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, "IP_BIND_ADDRESS_NO_PORT", 1)?;
        crate::socket::bind(fd, local_address(end, peer)?, "TCP")?;
    }
    Ok(socket)
}

/// A connected, blocking socket.
pub(crate) fn open(
    spec: &SocketSpec,
    end: &EndSpec,
    address: SocketAddr,
    timeout: Duration,
) -> Result<OwnedFd, NetError> {
    let socket = unconnected(spec, end, address)?;
    let fd = socket.as_raw_fd();
    let failed = |cause: io::Error| match cause.raw_os_error() {
        Some(libc::ECONNREFUSED) => NetError::Refused { address },
        Some(libc::EADDRNOTAVAIL) => NetError::NoPort { address },
        Some(libc::ETIMEDOUT) => NetError::ConnectTimeout { address, milliseconds: timeout.as_millis() },
        _ => NetError::Connect { address, cause },
    };
    sys::set_nonblocking(fd, true).map_err(failed)?;
    if let Err(cause) = sys::connect(fd, RawAddress::new(address).as_bytes()) {
        if !matches!(cause.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) {
            return Err(failed(cause));
        }
        if !sys::wait_for(fd, libc::POLLOUT, timeout).map_err(failed)? {
            return Err(NetError::ConnectTimeout { address, milliseconds: timeout.as_millis() });
        }
        let mut error = [0];
        sys::get_option(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut error).map_err(failed)?;
        if error[0] != 0 {
            return Err(failed(io::Error::from_raw_os_error(c_int::try_from(error[0]).unwrap_or(libc::EIO))));
        }
    }
    sys::set_nonblocking(fd, false).map_err(failed)?;
    Ok(socket)
}

/// What became of connections that were asked to be MPTCP: the kernel falls back to TCP without a word where the peer or
/// something on the path does not speak it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fallback {
    /// Connections that were asked to be MPTCP.
    pub asked: u64,
    /// Those of them that are TCP.
    pub fell_back: u64,
    /// Those of which the kernel does not say what they are.
    pub unknown: u64,
}

impl Fallback {
    /// Counts one connection. Fallback is for good (RFC 8684, section 3.7), so that its end is the time to look.
    pub(crate) fn count(&mut self, protocol: Protocol, fd: RawFd) {
        if protocol != Protocol::Mptcp {
            return;
        }
        self.asked += 1;
        match fell_back(fd) {
            Some(fell_back) => self.fell_back += u64::from(fell_back),
            None => self.unknown += 1,
        }
    }

    /// Counts data sockets.
    #[must_use]
    pub fn of<'a>(sockets: impl IntoIterator<Item = &'a DataSocket>) -> Self {
        let mut counted = Self::default();
        sockets.into_iter().for_each(|socket| counted.count(socket.protocol(), socket.read_fd()));
        counted
    }
}

/// Whether an MPTCP socket's connection is TCP; nothing where the kernel does not say.
fn fell_back(fd: RawFd) -> Option<bool> {
    // linux/tcp.h (Linux 6.9), linux/socket.h and linux/mptcp.h.
    const TCP_IS_MPTCP: c_int = 43;
    const SOL_MPTCP: c_int = 284;
    const MPTCP_INFO: c_int = 1;
    let mut value = [0];
    if sys::get_option(fd, libc::IPPROTO_TCP, TCP_IS_MPTCP, &mut value).is_ok() {
        return Some(value[0] == 0);
    }
    match sys::get_option(fd, SOL_MPTCP, MPTCP_INFO, &mut value) {
        Ok(_) => Some(false),
        Err(cause) => {
            let release = nix::sys::utsname::uname().ok();
            let release = release.as_ref().and_then(|uname| uname.release().to_str()).unwrap_or_default();
            fell_back_by(cause.raw_os_error(), release)
        }
    }
}

/// The same, from the error of MPTCP_INFO and the kernel's release. TCP answers EOPNOTSUPP (IPv4) or ENOPROTOOPT (IPv6);
/// before Linux 5.16, which brought MPTCP_INFO, MPTCP answers EOPNOTSUPP too.
fn fell_back_by(errno: Option<c_int>, release: &str) -> Option<bool> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().unwrap_or(0));
    let version = (numbers.next()?, numbers.next()?);
    (version >= (5, 16) && matches!(errno, Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT))).then_some(true)
}

/// TCP_NODELAY, when asked for.
pub(crate) fn set_nodelay(fd: RawFd, on: bool) -> Result<(), NetError> {
    if on { options::int(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, "TCP_NODELAY", 1) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mptcp_info_fails_with_means_tcp_only_where_the_kernel_has_it() {
        for (errno, release, meant) in [
            (libc::EOPNOTSUPP, "6.1.0-13-amd64", Some(true)),
            (libc::ENOPROTOOPT, "6.1.0-13-amd64", Some(true)),
            (libc::ENOPROTOOPT, "5.16.0", Some(true)),
            (libc::EOPNOTSUPP, "5.15.0-91-generic", None),
            (libc::ENOPROTOOPT, "5.9", None),
            (libc::EINVAL, "6.8.12", None),
            (libc::EOPNOTSUPP, "", None),
        ] {
            assert_eq!(fell_back_by(Some(errno), release), meant, "{errno} {release}");
        }
        assert_eq!(fell_back_by(None, "6.1.0"), None);
    }
}
