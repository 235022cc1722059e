//! Where a reflector waits for data connections.

use crate::NetError;
use crate::bound::{bind, own_address, scope_of};
use crate::bulk::be_patient;
use crate::resolve::with_scope;
use crate::socket::DataSocket;
use crate::{kernel, options, sys, tcp};
use model::{EndSpec, Protocol, SocketSpec};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// Where a reflector waits for data connections.
#[derive(Debug)]
pub struct DataListener {
    socket: OwnedFd,
    local: SocketAddr,
    protocol: Protocol,
    nodelay: bool,
}

impl DataListener {
    /// Listens at `local` (at [`EndSpec::bind`] and `local`'s port when that is set). Give the local address of the control
    /// connection and port 0. Errors: an option was refused, or the address is in use or not of this host.
    pub fn bind(spec: &SocketSpec, end: &EndSpec, local: SocketAddr) -> Result<Self, NetError> {
        Self::listen(spec, end, local, |_| Ok(()))
    }

    /// The same for a [`crate::TransactionServer`]; no connection waits longer than [`crate::bulk::PATIENCE`].
    pub fn bind_for_transactions(spec: &SocketSpec, end: &EndSpec, local: SocketAddr) -> Result<Self, NetError> {
        // Before it listens: a connection inherits what is set when it comes, not when it is accepted.
        Self::listen(spec, end, local, be_patient)
    }

    fn listen(
        spec: &SocketSpec,
        end: &EndSpec,
        local: SocketAddr,
        prepare: impl FnOnce(RawFd) -> Result<(), NetError>,
    ) -> Result<Self, NetError> {
        if !spec.protocol.is_connection() {
            return Err(NetError::Unsupported { protocol: spec.protocol, why: "does not listen for connections" });
        }
        let local = match end.bind {
            Some(address) => with_scope(address, local.port(), scope_of(local)),
            None => local,
        };
        // Accepted sockets inherit the options, and buffers count in the handshake's window, so they are set here.
        let socket = tcp::socket(spec, end, local.is_ipv6())?;
        let fd = socket.as_raw_fd();
        if local.port() != 0 {
            // Or connections of an earlier run in TIME_WAIT would keep the port for a minute.
            options::int(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, "SO_REUSEADDR", 1)?;
        }
        let name = kernel::name(spec.protocol);
        bind(fd, local, name)?;
        prepare(fd)?;
        let failed = |cause| NetError::Bind { protocol: name, address: local, cause };
        sys::listen(fd).map_err(failed)?;
        let local = own_address(fd).map_err(failed)?.unwrap_or(local);
        Ok(Self { socket, local, protocol: spec.protocol, nodelay: spec.nodelay })
    }

    /// Where it listens, with the port that was given.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Waits for a connection, which has its peer's address; `None` after `timeout`. Errors: accepting failed.
    pub fn accept(&self, timeout: Duration) -> Result<Option<DataSocket>, NetError> {
        let failed = |cause| NetError::Accept { address: self.local, cause };
        let end = std::time::Instant::now() + timeout;
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            if !sys::wait_for(self.fd(), libc::POLLIN, left).map_err(failed)? {
                return Ok(None);
            }
            match sys::accept(self.fd()) {
                Ok((socket, peer)) => {
                    // Again, for stacks whose sockets do not inherit it.
                    self.inherit_nodelay(socket.as_raw_fd())?;
                    return Ok(Some(DataSocket::connection(self.protocol, socket, peer)));
                }
                // The peer gave up between the two calls.
                Err(cause) if matches!(cause.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ECONNABORTED)) => {
                }
                Err(cause) => return Err(failed(cause)),
            }
        }
    }

    /// Turns Nagle's algorithm off at an accepted connection, when that was asked for.
    pub(crate) fn inherit_nodelay(&self, fd: RawFd) -> Result<(), NetError> {
        if self.nodelay { kernel::set_nodelay(fd, self.protocol) } else { Ok(()) }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsFd for DataListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
