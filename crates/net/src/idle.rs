//! Idle descriptors beside the data socket, as a real server has them: they cost in the set of select and poll.

use crate::NetError;
use crate::sys;
use model::IdleDescriptors;
use nix::sys::socket::SockType;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Open descriptors that nothing ever arrives at; closed when dropped.
#[derive(Debug)]
pub(crate) struct Idle {
    watched: Vec<OwnedFd>,
    /// Their other ends, kept open so that the watched ones do not become ready.
    _others: Vec<OwnedFd>,
}

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl Idle {
    /// Opens them. UDP and TCP ones live on the loopback interface of this namespace.
    pub(crate) fn open(wanted: &IdleDescriptors) -> Result<Self, NetError> {
        let mut watched = Vec::new();
        let mut others = Vec::new();
        let mut pairs = |count: u32, what: &'static str, make: &mut dyn FnMut() -> io::Result<(OwnedFd, OwnedFd)>| {
            for _ in 0..count {
                let (one, other) = make().map_err(|cause| failed(what, cause))?;
                watched.push(one);
                others.push(other);
            }
            Ok(())
        };
        pairs(wanted.pipes, "pipes", &mut sys::pipe)?;
        pairs(wanted.unix_datagrams, "UNIX datagram sockets", &mut || sys::socketpair(SockType::Datagram))?;
        pairs(wanted.unix_streams, "UNIX stream sockets", &mut || sys::socketpair(SockType::Stream))?;
        if wanted.tcp_connected > 0 {
            let what = "connected TCP sockets";
            let listener = TcpListener::bind(LOOPBACK).map_err(|cause| failed(what, cause))?;
            pairs(wanted.tcp_connected, what, &mut || tcp_pair(&listener))?;
        }
        for _ in 0..wanted.udp {
            watched.push(udp().map_err(|cause| failed("UDP sockets", cause))?);
        }
        for _ in 0..wanted.tcp_listening {
            let listener = TcpListener::bind(LOOPBACK).map_err(|cause| failed("listening TCP sockets", cause))?;
            watched.push(listener.into());
        }
        Ok(Self { watched, _others: others })
    }

    pub(crate) fn watched(&self) -> impl Iterator<Item = RawFd> + '_ {
        self.watched.iter().map(AsRawFd::as_raw_fd)
    }
}

/// A UDP socket that only hears itself, so that a stray datagram does not make it ready.
fn udp() -> io::Result<OwnedFd> {
    let socket = UdpSocket::bind(LOOPBACK)?;
    socket.connect(socket.local_addr()?)?;
    Ok(socket.into())
}

fn tcp_pair(listener: &TcpListener) -> io::Result<(OwnedFd, OwnedFd)> {
    let one = TcpStream::connect(listener.local_addr()?)?;
    loop {
        let (other, from) = listener.accept()?;
        // Somebody else's connection is dropped.
        if from == one.local_addr()? {
            return Ok((one.into(), other.into()));
        }
    }
}

fn failed(what: &'static str, cause: io::Error) -> NetError {
    match cause.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => NetError::Descriptors { what, cause },
        _ => NetError::Idle { what, cause },
    }
}
