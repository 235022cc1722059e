//! Packets in batches (sendmmsg(2)), each with its own destination and IP options.

use super::GroupSocket;
use crate::PathError;
use crate::address::RawAddress;
use crate::batch::Batch;
use crate::sys;
use crate::transport::is_lost;
use libc::{c_int, c_void};
use std::net::SocketAddr;

/// RFC 2113: option 148, 4 bytes, value 0: routers look at the packet.
const ALERT_V4: [u8; 4] = [148, 4, 0, 0];
/// RFC 2711: a hop-by-hop header of 8 bytes with option 5 and two bytes of padding. No value is assigned to PGM, and 0 would
/// mean MLD, so it is the first for experiments (RFC 5350): 65503.
pub(super) const ALERT_V6: [u8; 8] = [0, 0, 5, 2, 0xff, 0xdf, 1, 0];

#[derive(Debug, Clone, Copy)]
pub struct Target(RawAddress);

impl Target {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self(RawAddress::new(address))
    }
}

/// What a packet bears beside its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    None,
    RouterAlert,
    /// TTL or hop limit 1.
    OnLink,
}

/// A control message ready to be sent, aligned as cmsghdr is.
#[derive(Debug, Clone, Copy)]
struct Control {
    words: [u64; 8],
    length: usize,
}

impl Control {
    fn new(level: c_int, kind: c_int, data: &[u8]) -> Self {
        let mut control = Self { words: [0; 8], length: 0 };
        let length = libc::c_uint::try_from(data.len()).unwrap_or(0);
        // SAFETY: no pointers; the result is a constant expression of the length.
        let (space, exact) = unsafe { (libc::CMSG_SPACE(length) as usize, libc::CMSG_LEN(length)) };
        if space > size_of_val(&control.words) {
            return control;
        }
        // SAFETY: cmsghdr is plain data, and all zeros is a valid value of it.
        let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
        header.cmsg_len = exact as _;
        (header.cmsg_level, header.cmsg_type) = (level, kind);
        // SAFETY: `words` is aligned for a header and, as was checked, has room for it and the data behind it.
        unsafe {
            let place = control.words.as_mut_ptr().cast::<libc::cmsghdr>();
            place.write(header);
            std::ptr::copy_nonoverlapping(data.as_ptr(), libc::CMSG_DATA(place), data.len());
        }
        control.length = space;
        control
    }
}

/// Room for some packets, taken once.
#[derive(Debug)]
pub struct SendBatch {
    batch: Batch,
    /// Router alert, TTL 1.
    controls: Box<[Control; 2]>,
    held: usize,
    sent: usize,
    /// Packets so far that never left this host.
    pub lost: u64,
    /// Whether destinations come from the network: packets that the kernel refuses to send are counted, and no error.
    pub foreign: bool,
    /// Packets so far that the kernel refused to send to a foreign address.
    pub refused: u64,
}

impl SendBatch {
    /// Room for `count` packets of up to `packet_bytes`, to be sent by `socket`.
    pub fn new(socket: &GroupSocket, count: usize, packet_bytes: usize) -> Self {
        let one: c_int = 1;
        let controls = if socket.v6 {
            [
                Control::new(libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS, &ALERT_V6),
                Control::new(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &one.to_ne_bytes()),
            ]
        } else {
            [
                Control::new(libc::IPPROTO_IP, libc::IP_RETOPTS, &ALERT_V4),
                Control::new(libc::IPPROTO_IP, libc::IP_TTL, &one.to_ne_bytes()),
            ]
        };
        let batch = Batch::new(count, packet_bytes, true, false);
        Self { batch, controls: Box::new(controls), held: 0, sent: 0, lost: 0, foreign: false, refused: 0 }
    }

    /// Where the next packet is to be written; absent when [`Self::flush`] comes first.
    #[inline]
    pub fn place(&mut self) -> Option<&mut [u8]> {
        (self.held < self.batch.count()).then(|| self.batch.room(self.held))
    }

    /// The packet in [`Self::place`] is complete.
    #[inline]
    pub fn push(&mut self, bytes: usize, to: &Target, extra: Extra) {
        if self.held == self.batch.count() {
            return;
        }
        let [alert, on_link] = &mut *self.controls;
        let (control, length) = match extra {
            Extra::None => (std::ptr::null_mut(), 0),
            Extra::RouterAlert => (alert.words.as_mut_ptr(), alert.length),
            Extra::OnLink => (on_link.words.as_mut_ptr(), on_link.length),
        };
        self.batch.set_length(self.held, bytes);
        // SAFETY: the controls live as long as the batch, and are written only before it.
        unsafe { self.batch.set_target(self.held, &to.0, control.cast::<c_void>(), length) };
        self.held += 1;
    }

    #[inline]
    pub fn waiting(&self) -> usize {
        self.held - self.sent
    }

    /// Sends all of them, waiting for buffer space where it must. Packets that are dropped on their way out for a reason
    /// that may pass are counted as lost. Errors: the socket is broken, or a signal interrupted the wait: the next call
    /// goes on.
    #[inline]
    pub fn flush(&mut self, socket: &GroupSocket) -> Result<(), PathError> {
        while self.sent < self.held {
            // Most often it is one packet of data, for which the plain call is the cheapest.
            if self.held == 1
                && let Some((bytes, name)) = self.batch.plain(0)
            {
                if sys::sendto(socket.fd(), bytes, libc::MSG_NOSIGNAL, name.as_bytes()) >= 0 {
                    self.sent = 1;
                } else {
                    self.failed()?;
                }
                continue;
            }
            let sent = self.batch.send(socket.fd(), self.sent, self.held);
            match usize::try_from(sent) {
                Ok(sent) => self.sent += sent.max(1),
                Err(_) => self.failed()?,
            }
        }
        (self.held, self.sent) = (0, 0);
        Ok(())
    }

    /// The first that waits was not sent.
    #[cold]
    fn failed(&mut self) -> Result<(), PathError> {
        let errno = sys::errno();
        if errno == libc::EINTR || errno == libc::EAGAIN {
            return Err(PathError::Interrupted);
        }
        let bytes = self.batch.length(self.sent);
        self.sent += 1;
        if is_lost(errno) {
            self.lost += 1;
            return Ok(());
        }
        // What the socket itself lacks would come back with each packet.
        if self.foreign && !matches!(errno, libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::ENOMEM) {
            self.refused += 1;
            return Ok(());
        }
        Err(match errno {
            libc::EMSGSIZE => PathError::TooLarge { bytes },
            errno => PathError::Failed { call: "sendto", errno },
        })
    }
}
