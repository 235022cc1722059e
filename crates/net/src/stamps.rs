//! Time stamps of the kernel and of the NIC (SO_TIMESTAMPING; kernel: Documentation/networking/timestamping.rst).
//!
//! Stamps of what was received come with the message. Stamps of what was sent come through the socket's error queue,
//! numbered by the order of sending: [`SentStamps`] reads them there, from any thread, without disturbing the sender.
//! Nothing of a device is changed: a NIC stamps only when its owner has switched that on.

use crate::NetError;
use crate::route;
use crate::socket::{DataSocket, Kind};
use crate::sys;
use libc::c_int;
use model::Stamps;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

mod hardware;

use hardware::HardwareClock;
pub use hardware::{NicStamps, nic_stamps};

/// Times of one message, as the kernel gives them; 0: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pair {
    /// By the stack or the driver, CLOCK_REALTIME.
    pub(crate) software_ns: u64,
    /// By the NIC, in its own clock.
    pub(crate) hardware_ns: u64,
}

impl Pair {
    /// Takes the times out of a control message, if they are in it: three `timespec`, of which the second is no longer
    /// used (struct scm_timestamping).
    #[inline]
    pub(crate) fn read(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        if level != libc::SOL_SOCKET || kind != libc::SO_TIMESTAMPING {
            return;
        }
        self.software_ns = timespec(data, 0);
        self.hardware_ns = timespec(data, 2);
    }
}

/// One of the timespecs of a control message in ns; 0 where there is none.
pub(crate) fn timespec(data: &[u8], at: usize) -> u64 {
    const WORD: usize = size_of::<libc::c_long>();
    let word = |at: usize| {
        let bytes = data.get(at * WORD..).and_then(|rest| rest.first_chunk::<WORD>());
        bytes.and_then(|bytes| u64::try_from(libc::c_long::from_ne_bytes(*bytes)).ok()).unwrap_or(0)
    };
    word(2 * at).saturating_mul(1_000_000_000).saturating_add(word(2 * at + 1))
}

/// Takes the number of a sent message out of a control message of the error queue (struct sock_extended_err).
pub(crate) fn read_id(level: c_int, kind: c_int, data: &[u8], id: &mut Option<u32>) {
    const ORIGIN: usize = 4;
    const DATA: usize = 12;
    let of_queue = (level == libc::IPPROTO_IP && kind == libc::IP_RECVERR)
        || (level == libc::IPPROTO_IPV6 && kind == libc::IPV6_RECVERR);
    if of_queue && data.get(ORIGIN) == Some(&libc::SO_EE_ORIGIN_TIMESTAMPING) {
        *id = data.get(DATA..).and_then(|rest| rest.first_chunk::<4>()).map(|bytes| u32::from_ne_bytes(*bytes));
    }
}

/// Where and when a message came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) from: u16,
    pub(crate) stack_ns: u64,
}

/// Which stamps a socket was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Kernel,
    /// By the NIC with this PTP hardware clock (/dev/ptpN).
    Hardware(u32),
}

/// Makes wall-clock times of stamps.
#[derive(Debug)]
pub(crate) enum Reader {
    Kernel,
    Hardware(HardwareClock),
}

impl Reader {
    fn new(asked: Asked) -> Result<Self, NetError> {
        match asked {
            Asked::Kernel => Ok(Self::Kernel),
            Asked::Hardware(index) => HardwareClock::open(index).map(Self::Hardware),
        }
    }

    #[inline]
    pub(crate) fn ns(&mut self, stamp: Pair) -> u64 {
        match self {
            Self::Kernel => stamp.software_ns,
            Self::Hardware(_) if stamp.hardware_ns == 0 => 0,
            Self::Hardware(clock) => clock.realtime(stamp.hardware_ns),
        }
    }
}

impl DataSocket {
    /// Has messages stamped from now on; with `sent` those that are sent too, which takes datagrams. To be called once
    /// the peer is known. Numbers of sent messages count from 0 here.
    ///
    /// # Errors
    /// Stamps by hardware that the NIC towards the peer does not take, with what it has; or a refused option.
    pub fn stamp(&mut self, stamps: Stamps, sent: bool) -> Result<(), NetError> {
        let asked = match stamps {
            Stamps::None => return Ok(()),
            Stamps::Kernel => Asked::Kernel,
            Stamps::Hardware => Asked::Hardware(clock_towards(self.peer_address())?),
            Stamps::Auto => clock_towards(self.peer_address()).map_or(Asked::Kernel, Asked::Hardware),
        };
        if matches!(self.kind(), Kind::Pipe) || self.protocol().is_local() {
            return Err(NetError::Unsupported { protocol: self.protocol(), why: "has no time stamps of the kernel" });
        }
        let sent = sent && !self.protocol().is_stream();
        let mut wanted = match asked {
            Asked::Kernel => libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE,
            Asked::Hardware(_) => libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE,
        };
        if sent {
            wanted |= libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
            wanted |= match asked {
                Asked::Kernel => libc::SOF_TIMESTAMPING_TX_SOFTWARE,
                Asked::Hardware(_) => libc::SOF_TIMESTAMPING_TX_HARDWARE,
            };
        }
        sys::set_option(self.read_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &wanted)
            .map_err(|cause| NetError::Option { option: "SO_TIMESTAMPING", value: format!("{wanted:#x}"), cause })?;
        self.stamps = Some(asked);
        Ok(())
    }

    pub(crate) fn stamp_reader(&self) -> Result<Option<Reader>, NetError> {
        self.stamps.map(Reader::new).transpose()
    }

    /// The stamps of what this socket sends; absent when it was not asked for any.
    ///
    /// # Errors
    /// The descriptor cannot be copied, or the NIC's clock cannot be read.
    pub fn sent_stamps(&self) -> Result<Option<SentStamps>, NetError> {
        let Some(reader) = self.stamp_reader()? else { return Ok(None) };
        let socket = self
            .as_fd()
            .try_clone_to_owned()
            .map_err(|cause| NetError::Descriptors { what: "a copy of the data socket", cause })?;
        Ok(Some(SentStamps { socket, reader }))
    }
}

/// The PTP hardware clock of the NIC towards a peer, when that NIC stamps all messages.
fn clock_towards(peer: Option<SocketAddr>) -> Result<u32, NetError> {
    let refused = |what: String| NetError::Stamps { what };
    let peer = peer.ok_or(NetError::NoPeer)?;
    let device =
        route::lookup(peer)?.interface.ok_or_else(|| refused(format!("no interface leads to {}", peer.ip())))?;
    nic_stamps(&device)
        .map_err(|cause| refused(format!("{device} does not say what it can stamp ({cause})")))?
        .usable(&device)
}

/// Reads the stamps of sent messages from the error queue.
#[derive(Debug)]
pub struct SentStamps {
    socket: OwnedFd,
    reader: Reader,
}

impl SentStamps {
    /// Hands all stamps that are there to `with`: the number of the message, from 0 since [`DataSocket::stamp`], and
    /// when the driver (or the NIC) sent it, in ns since 1970. Does not wait, does not allocate.
    ///
    /// # Errors
    /// The call fails for another reason than that nothing is there.
    pub fn drain(&mut self, mut with: impl FnMut(u32, u64)) -> io::Result<()> {
        loop {
            let (mut stamp, mut id) = (Pair::default(), None);
            if sys::recvmsg_sent(self.socket.as_raw_fd(), &mut stamp, &mut id) < 0 {
                return match sys::errno() {
                    libc::EAGAIN => Ok(()),
                    libc::EINTR => continue,
                    _ => Err(sys::last()),
                };
            }
            let ns = self.reader.ns(stamp);
            if let Some(id) = id
                && ns > 0
            {
                with(id, ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_are_read_where_they_are() {
        let mut data = Vec::new();
        for word in [5_i64, 7, 0, 0, 6, 9] {
            data.extend_from_slice(&word.to_ne_bytes());
        }
        let mut pair = Pair::default();
        pair.read(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &data);
        assert_eq!(pair, Pair { software_ns: 5_000_000_007, hardware_ns: 6_000_000_009 });
        let mut pair = Pair::default();
        pair.read(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &data[..20]);
        assert_eq!(pair, Pair { software_ns: 5_000_000_007, hardware_ns: 0 }, "what was cut off is not there");
        pair = Pair::default();
        pair.read(libc::SOL_SOCKET, libc::SCM_RIGHTS, &data);
        assert_eq!(pair, Pair::default());

        let mut error = [0_u8; 16];
        error[4] = libc::SO_EE_ORIGIN_TIMESTAMPING;
        error[12..].copy_from_slice(&77_u32.to_ne_bytes());
        let mut id = None;
        read_id(libc::IPPROTO_IP, libc::IP_RECVERR, &error[..13], &mut id);
        assert_eq!(id, None);
        read_id(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &error, &mut id);
        assert_eq!(id, Some(77));
        error[4] = libc::SO_EE_ORIGIN_ICMP;
        let mut other = None;
        read_id(libc::IPPROTO_IP, libc::IP_RECVERR, &error, &mut other);
        assert_eq!(other, None, "an ICMP error is no stamp");
    }
}
