//! Both ends of the protocols within one machine, made as a pair; one of them is passed on to a child.

use crate::NetError;
use crate::socket::{DataSocket, SocketKind};
use crate::{memory, options, sys};
use model::{EndSpec, Protocol, SocketSpec};
use nix::sys::socket::SockType;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Two connected ends of `unix-stream`, `unix-dgram`, `pipe` or `shm`: the initiator's and the reflector's. Their
/// descriptors are close-on-exec; whoever starts the reflector passes its end on with [`DataSocket::into_fds`]. Errors: no
/// descriptors are left, a buffer size was refused, or the protocol is not a local one.
pub fn local_pair(
    spec: &SocketSpec,
    initiator: &EndSpec,
    reflector: &EndSpec,
) -> Result<(DataSocket, DataSocket), NetError> {
    let protocol = spec.protocol;
    let failed = |cause| NetError::Descriptors { what: "a local pair", cause };
    let kind = match protocol {
        Protocol::UnixStream => SockType::Stream,
        Protocol::UnixDgram => SockType::Datagram,
        Protocol::Pipe => {
            let (read_here, write_there) = sys::pipe().map_err(failed)?;
            let (read_there, write_here) = sys::pipe().map_err(failed)?;
            return Ok((
                DataSocket::inherit(protocol, read_here, Some(write_here))?,
                DataSocket::inherit(protocol, read_there, Some(write_there))?,
            ));
        }
        Protocol::Shm => {
            let files = || Ok((memory::make()?, memory::make()?));
            let (there_to_here, here_to_there) = files().map_err(failed)?;
            let copies = || Ok((there_to_here.try_clone()?, here_to_there.try_clone()?));
            let (write_there, read_there) = copies().map_err(failed)?;
            return Ok((
                DataSocket::inherit(protocol, there_to_here, Some(here_to_there))?,
                DataSocket::inherit(protocol, read_there, Some(write_there))?,
            ));
        }
        protocol => {
            return Err(NetError::Unsupported { protocol, why: "is no protocol between processes of one machine" });
        }
    };
    let (here, there) = sys::socketpair(kind).map_err(failed)?;
    options::apply(here.as_raw_fd(), false, spec, initiator)?;
    options::apply(there.as_raw_fd(), false, spec, reflector)?;
    Ok((DataSocket::inherit(protocol, here, None)?, DataSocket::inherit(protocol, there, None)?))
}

impl DataSocket {
    /// One end of a local pair, from descriptors that this process was started with: a socket; a pipe's read end and the
    /// other pipe's write end; the memory to read from and the one to write to. Errors: a descriptor is not of this kind,
    /// or the protocol is not a local one.
    pub fn inherit(protocol: Protocol, read: OwnedFd, write: Option<OwnedFd>) -> Result<Self, NetError> {
        let kind = match protocol {
            Protocol::UnixStream => SocketKind::Stream,
            Protocol::UnixDgram => SocketKind::Connected,
            Protocol::Pipe => SocketKind::Pipe,
            Protocol::Shm => SocketKind::Memory,
            protocol => return Err(NetError::Unsupported { protocol, why: "descriptors are not inherited" }),
        };
        check_kind(protocol, kind, read.as_fd())?;
        match (&write, kind) {
            (Some(write), SocketKind::Pipe | SocketKind::Memory) => check_kind(protocol, kind, write.as_fd())?,
            (None, SocketKind::Pipe | SocketKind::Memory) | (Some(_), _) => {
                let cause = io::Error::from_raw_os_error(libc::EBADF);
                return Err(NetError::Inherited { fd: read.as_raw_fd(), protocol, cause });
            }
            (None, _) => {}
        }
        Ok(Self::local(protocol, kind, read, write))
    }
}

fn check_kind(protocol: Protocol, kind: SocketKind, fd: BorrowedFd<'_>) -> Result<(), NetError> {
    let wrong = |cause| NetError::Inherited { fd: fd.as_raw_fd(), protocol, cause };
    let is_right = match kind {
        SocketKind::Pipe => Some((sys::is_pipe(fd), libc::ESPIPE)),
        SocketKind::Memory => Some((sys::file_bytes(fd).map(|bytes| bytes == memory::FILE_BYTES as u64), libc::EINVAL)),
        _ => None,
    };
    if let Some((is_right, errno)) = is_right {
        return if is_right.map_err(wrong)? { Ok(()) } else { Err(wrong(io::Error::from_raw_os_error(errno))) };
    }
    let mut found = [0];
    sys::get_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TYPE, &mut found).map_err(wrong)?;
    let wanted = if kind == SocketKind::Stream { libc::SOCK_STREAM } else { libc::SOCK_DGRAM };
    if u32::try_from(wanted).is_ok_and(|wanted| wanted == found[0]) {
        return Ok(());
    }
    Err(wrong(io::Error::from_raw_os_error(libc::EPROTOTYPE)))
}
