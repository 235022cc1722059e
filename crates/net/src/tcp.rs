//! Connections over the network with a time limit, for control and for data.

use crate::NetError;
use crate::address::RawAddress;
use crate::bound::local_address;
use crate::{kernel, options, sys};
use libc::c_int;
use model::{EndSpec, Protocol, SocketSpec};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// A control connection from `bind` through `device`, TCP_NODELAY. Errors: refused, no answer in `timeout`, address.
pub fn connect(
    address: SocketAddr,
    bind: Option<IpAddr>,
    device: Option<&str>,
    timeout: Duration,
) -> Result<TcpStream, NetError> {
    let end = EndSpec { bind, device: device.map(str::to_owned), ..EndSpec::default() };
    open(&SocketSpec::new(Protocol::Tcp), &end, address, timeout).map(TcpStream::from)
}

pub(crate) fn socket(spec: &SocketSpec, end: &EndSpec, v6: bool) -> Result<OwnedFd, NetError> {
    let socket = kernel::socket(spec.protocol, v6)?;
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
        crate::bound::bind(fd, local_address(end, peer)?, kernel::name(spec.protocol))?;
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
