//! The socket options of a spec, applied before a socket is bound or connected.

use crate::NetError;
use crate::{kernel, sys};
use libc::c_int;
use model::{EndSpec, Protocol, SocketSpec};
use std::io;
use std::os::fd::RawFd;

/// Applies everything that both ends' specs ask for and that holds for sockets of the protocol.
pub(crate) fn apply(fd: RawFd, v6: bool, spec: &SocketSpec, end: &EndSpec) -> Result<(), NetError> {
    buffer(fd, libc::SO_SNDBUF, "SO_SNDBUF", "net.core.wmem_max", end.send_buffer_bytes)?;
    buffer(fd, libc::SO_RCVBUF, "SO_RCVBUF", "net.core.rmem_max", end.receive_buffer_bytes)?;
    if spec.protocol.is_local() {
        return Ok(());
    }
    if v6 && spec.protocol != Protocol::Icmp {
        // An IPv6 socket that also takes IPv4 would hide which family was measured.
        int(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, "IPV6_V6ONLY", 1)?;
    }
    if spec.nodelay {
        kernel::set_nodelay(fd, spec.protocol)?;
    }
    if let Some(ttl) = spec.ttl {
        if v6 {
            int(fd, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, "IPV6_UNICAST_HOPS", c_int::from(ttl))?;
        } else {
            int(fd, libc::IPPROTO_IP, libc::IP_TTL, "IP_TTL", c_int::from(ttl))?;
        }
    }
    if let Some(device) = &end.device {
        bind_device(fd, device)?;
    }
    if let Some(microseconds) = end.busy_poll_us {
        busy_poll(fd, microseconds)?;
    }
    Ok(())
}

pub(crate) fn int(fd: RawFd, level: c_int, name: c_int, option: &'static str, value: c_int) -> Result<(), NetError> {
    sys::set_option(fd, level, name, &value).map_err(|cause| NetError::Option {
        option,
        value: value.to_string(),
        cause,
    })
}

pub(crate) fn bind_device(fd: RawFd, device: &str) -> Result<(), NetError> {
    let failed = |cause| NetError::Device { device: device.to_owned(), cause };
    // IFNAMSIZ with the closing 0.
    let mut name = [0u8; 16];
    let bytes = device.as_bytes();
    if bytes.is_empty() || bytes.len() >= name.len() {
        return Err(failed(io::Error::from_raw_os_error(libc::ENODEV)));
    }
    name[..bytes.len()].copy_from_slice(bytes);
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &name).map_err(failed)
}

/// SO_BUSY_POLL (socket(7)): raising it takes CAP_NET_ADMIN.
pub(crate) fn busy_poll(fd: RawFd, microseconds: u32) -> Result<(), NetError> {
    let value = c_int::try_from(microseconds).unwrap_or(c_int::MAX);
    match int(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, "SO_BUSY_POLL", value) {
        Err(NetError::Option { cause, .. }) if cause.raw_os_error() == Some(libc::EPERM) => {
            Err(NetError::BusyPoll { microseconds })
        }
        other => other,
    }
}

/// Sets a buffer and reads it back: the kernel cuts it to its limit without a word, and doubles what it grants.
fn buffer(
    fd: RawFd,
    name: c_int,
    option: &'static str,
    sysctl: &'static str,
    asked: Option<u32>,
) -> Result<(), NetError> {
    let Some(asked) = asked else { return Ok(()) };
    let value = c_int::try_from(asked).unwrap_or(c_int::MAX);
    int(fd, libc::SOL_SOCKET, name, option, value)?;
    let mut got = read_buffer(fd, name)? / 2;
    if got < asked {
        // Whoever may manage the network may go beyond the sysctl (socket(7)); for others this changes nothing.
        let force = if name == libc::SO_RCVBUF { libc::SO_RCVBUFFORCE } else { libc::SO_SNDBUFFORCE };
        let _ = sys::set_option(fd, libc::SOL_SOCKET, force, &value);
        got = read_buffer(fd, name)? / 2;
    }
    if got < asked { Err(NetError::BufferCut { option, asked, got, sysctl }) } else { Ok(()) }
}

/// The buffers of a group's socket: those that are named exactly, the others as far as the system allows them.
pub(crate) fn group_buffers(
    fd: RawFd,
    options: &crate::group::settings::GroupOptions,
    send: u32,
    receive: u32,
) -> Result<(), NetError> {
    for (name, option, sysctl, asked, otherwise) in [
        (libc::SO_SNDBUF, "SO_SNDBUF", "net.core.wmem_max", options.send_buffer_bytes, send),
        (libc::SO_RCVBUF, "SO_RCVBUF", "net.core.rmem_max", options.receive_buffer_bytes, receive),
    ] {
        match buffer(fd, name, option, sysctl, Some(asked.unwrap_or(otherwise))) {
            Err(NetError::BufferCut { .. }) if asked.is_none() => {}
            other => other?,
        }
    }
    Ok(())
}

/// A buffer's size as the kernel counts it: twice what can be used.
pub(crate) fn read_buffer(fd: RawFd, name: c_int) -> Result<u32, NetError> {
    let mut value = [0];
    sys::get_option(fd, libc::SOL_SOCKET, name, &mut value)
        .map_err(|cause| NetError::ReadOut { what: "a socket buffer's size", cause })?;
    Ok(value[0])
}
