//! A socket on the stack.

use super::control::Wanted;
use super::copied::Inherited;
use crate::kernel;
use descriptors::Kind;
use libc::{SOL_SOCKET, c_int};
use stack::{Listener, TcpSocket, TcpState, UdpSocket};
use std::net::SocketAddr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Handle {
    Udp(UdpSocket),
    Tcp(TcpSocket),
    Listener(Listener),
}

impl Handle {
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Udp(_) => Kind::Datagrams,
            Self::Tcp(_) => Kind::Connection,
            Self::Listener(_) => Kind::Listener,
        }
    }
}

/// Attempts between two at the kernel's socket, which gets fragments, multicast, ICMP errors and other interfaces.
pub(super) const ATTEMPTS_A_KERNEL: u32 = 64;

pub(super) struct Socket {
    pub(super) handle: Handle,
    pub(super) port: u16,
    /// Of AF_INET6: addresses are given in that form.
    pub(super) is_v6: bool,
    /// SO_RCVTIMEO and SO_SNDTIMEO in ns; `u64::MAX` without.
    pub(super) receive_ns: u64,
    pub(super) send_ns: u64,
    /// SO_LINGER in s.
    pub(super) linger_s: Option<u32>,
    /// SO_RCVLOWAT in bytes.
    pub(super) least: usize,
    /// Of a listener: what its connections have from it.
    pub(super) inherited: Vec<Inherited>,
    /// Of a listener: a thread asks the kernel's for a connection.
    pub(super) is_asked: bool,
    /// Attempts until the kernel is asked.
    pub(super) kernel_in: u32,
    /// The state's hint when it was asked last.
    pub(super) hint: u32,
    /// Of a connection: connect has not reported its result.
    pub(super) is_connecting: bool,
    /// The other end of a connection, while it is known.
    pub(super) ends: Option<(SocketAddr, SocketAddr)>,
    /// Of datagrams: what is reported of each beside its bytes.
    pub(super) wanted: Wanted,
    pub(super) record: Option<usize>,
}

impl Socket {
    pub(super) fn new(handle: Handle, port: u16, is_v6: bool) -> Self {
        Self {
            handle,
            port,
            is_v6,
            receive_ns: u64::MAX,
            send_ns: u64::MAX,
            linger_s: None,
            least: 1,
            inherited: Vec::new(),
            is_asked: false,
            kernel_in: 0,
            hint: 0,
            is_connecting: false,
            ends: None,
            wanted: Wanted::default(),
            record: None,
        }
    }

    pub(super) fn of_kernels(fd: c_int, handle: Handle, port: u16, is_v6: bool) -> Self {
        let mut socket = Self::new(handle, port, is_v6);
        socket.read_options(fd);
        socket
    }

    /// Whether it is time to ask the kernel's socket.
    #[inline]
    pub(super) fn asks_kernel(&mut self, hint: u32) -> bool {
        if self.kernel_in == 0 || self.hint != hint {
            self.kernel_in = ATTEMPTS_A_KERNEL;
            self.hint = hint;
            return true;
        }
        self.kernel_in -= 1;
        false
    }
}

impl Socket {
    /// Reads the options of the kernel's socket that calls obey.
    pub(super) fn read_options(&mut self, fd: c_int) {
        self.receive_ns = kernel::timeout_ns(fd, libc::SO_RCVTIMEO);
        self.send_ns = kernel::timeout_ns(fd, libc::SO_SNDTIMEO);
        if let Some(([on0, on1, on2, on3, s0, s1, s2, s3, ..], 8)) = kernel::value(fd, (SOL_SOCKET, libc::SO_LINGER)) {
            let is_on = [on0, on1, on2, on3] != [0; 4];
            self.linger_s = is_on.then_some(u32::from_ne_bytes([s0, s1, s2, s3]));
        }
        let least = kernel::option(fd, SOL_SOCKET, libc::SO_RCVLOWAT).and_then(|bytes| usize::try_from(bytes).ok());
        self.least = least.unwrap_or(1).max(1);
        if matches!(self.handle, Handle::Udp(_)) {
            self.wanted = Wanted::read(fd);
        }
    }
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
