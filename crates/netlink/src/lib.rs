//! Messages to and from the kernel over netlink(7) (include/uapi/linux/netlink.h).
//!
//! Floor 1. Building and reading are pure and bear any bytes; [`Socket`] exchanges messages in the calling thread's network
//! namespace. Numbers are in the machine's own order, as netlink has them.
#![expect(missing_docs, reason = "what has no comment is what its name says")]
#![allow(unsafe_code, reason = "a platform crate: a descriptor's number")]

mod hop;

pub use hop::{Hop, HopError, Link, Neighbour, Route, hop};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd, RawFd};

const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_CREATE: u16 = 0x400;
/// Marks an attribute that holds others (`NLA_F_NESTED`).
pub const NESTED: u16 = 0x8000;
const HEADER_BYTES: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// One object, or an action: answered by the object, where there is one, and an acknowledgement.
    One,
    All,
    /// That an object is made where there is none yet: answered by an acknowledgement.
    Create,
}

/// A request under construction.
#[derive(Debug, Clone)]
pub struct Request(Vec<u8>);

impl Request {
    /// A message of type `kind` that begins with a structure of the protocol (`struct rtmsg`, `struct genlmsghdr`).
    pub fn new(kind: u16, asks: Asks, structure: &[u8]) -> Self {
        let flags = match asks {
            Asks::One => NLM_F_REQUEST | NLM_F_ACK,
            Asks::All => NLM_F_REQUEST | NLM_F_DUMP,
            Asks::Create => NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE,
        };
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        // Sequence number, and port 0: the kernel.
        bytes.extend(1_u32.to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(structure);
        Self(bytes)
    }

    #[must_use]
    pub fn with(mut self, kind: u16, payload: &[u8]) -> Self {
        self.0.extend(attribute(kind, payload));
        self
    }

    pub fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        if let Some(start) = self.0.first_chunk_mut::<4>() {
            *start = length.to_ne_bytes();
        }
        self.0
    }
}

/// An attribute by itself, padded to a multiple of 4 bytes. Its payload has less than 64 KiB.
pub fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + payload.len()).unwrap_or(4);
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// An object: the type of its message, and what follows the message's header.
    Object(u16, &'a [u8]),
    /// The end of a dump, or the acknowledgement of a request.
    End,
    /// Refused, with the kernel's error number.
    Refused(i32),
}

/// The messages of one datagram. A message that contradicts itself ends them.
#[derive(Debug)]
pub struct Answers<'a>(pub &'a [u8]);

impl<'a> Iterator for Answers<'a> {
    type Item = Answer<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let length = usize::try_from(u32_at(self.0, 0)?).ok()?;
            let kind = u16_at(self.0, 4)?;
            let body = self.0.get(HEADER_BYTES..length)?;
            self.0 = self.0.get(length.checked_next_multiple_of(4)?..).unwrap_or_default();
            return Some(match kind {
                NLMSG_NOOP => continue,
                // Both carry a number: 0, or a negative error.
                NLMSG_ERROR | NLMSG_DONE => match u32_at(body, 0).map_or(0, u32::cast_signed) {
                    0.. => Answer::End,
                    code => Answer::Refused(code.wrapping_neg()),
                },
                _ => Answer::Object(kind, body),
            });
        }
    }
}

/// Type-length-value attributes; ends at the first that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes<'a>(pub &'a [u8]);

impl<'a> Attributes<'a> {
    /// The first attribute of this type.
    pub fn of(mut self, kind: u16) -> Option<&'a [u8]> {
        self.find(|(found, _)| *found == kind).map(|(_, payload)| payload)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.0, 0)?);
        // The two upper bits are flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
        let kind = u16_at(self.0, 2)? & 0x3fff;
        let payload = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    }
}

/// An unsigned number of 1, 2, 4 or 8 bytes: netlink's `uint` has as many as it needs.
pub fn number(payload: &[u8]) -> Option<u64> {
    match payload.len() {
        1 => payload.first().map(|&byte| byte.into()),
        2 => u16_at(payload, 0).map(u64::from),
        4 => u32_at(payload, 0).map(u64::from),
        8 => Some(u64::from_ne_bytes(*payload.first_chunk()?)),
        _ => None,
    }
}

/// A number as netlink's `uint` and `u32` both take it: 4 bytes, 8 where 4 do not hold it.
pub fn uint(value: u64) -> Vec<u8> {
    u32::try_from(value).map_or_else(|_| value.to_ne_bytes().to_vec(), |small| small.to_ne_bytes().to_vec())
}

pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A socket of the calling thread's network namespace.
#[derive(Debug)]
pub struct Socket(OwnedFd);

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Socket {
    /// For routes, addresses, links and queueing disciplines: rtnetlink(7).
    pub fn route() -> io::Result<Self> {
        Self::open(SockProtocol::NetlinkRoute)
    }

    /// For families known by name (include/uapi/linux/genetlink.h), as [`Socket::route`].
    pub fn generic() -> io::Result<Self> {
        Self::open(SockProtocol::NetlinkGeneric)
    }

    fn open(protocol: SockProtocol) -> io::Result<Self> {
        /// Where the program in whose process this runs does not expect its next descriptor.
        const HIGH: i32 = 900;
        let low = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
        let socket = match fcntl(&low, FcntlArg::F_DUPFD_CLOEXEC(HIGH)) {
            // SAFETY: the call has just made it, and nothing else has it.
            Ok(high) => unsafe { OwnedFd::from_raw_fd(high) },
            Err(_) => low,
        };
        // The kernel answers at once or never.
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(1))?;
        Ok(Self(socket))
    }

    /// Sends a request and gives each object of the answer to `take`: the type of its message and what follows its header.
    /// `WouldBlock` after a second of silence, `InvalidData` for what is no answer.
    pub fn exchange(&self, request: Request, mut take: impl FnMut(u16, &[u8])) -> io::Result<()> {
        let mut buffer = vec![0; 65_536];
        // Answers to a question whose asker was cut short (a thread that is cancelled).
        while recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT).is_ok() {}
        send(self.0.as_raw_fd(), &request.finish(), MsgFlags::empty())?;
        loop {
            let length = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            let mut is_empty = true;
            for answer in Answers(buffer.get(..length).unwrap_or_default()) {
                is_empty = false;
                match answer {
                    Answer::Object(kind, body) => take(kind, body),
                    Answer::End => return Ok(()),
                    Answer::Refused(code) => return Err(io::Error::from_raw_os_error(code)),
                }
            }
            if is_empty {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = Request::new(kind, Asks::One, body).finish();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn a_request_is_read_back_as_what_it_was_built_from() {
        let bytes =
            Request::new(0x1c, Asks::All, &[11, 1, 0, 0]).with(1, &7_u32.to_ne_bytes()).with(2, b"lo\0").finish();
        assert_eq!(bytes.len(), 16 + 4 + 8 + 8);
        let mut answers = Answers(&bytes);
        let Some(Answer::Object(0x1c, body)) = answers.next() else { panic!() };
        assert_eq!(body[..4], [11, 1, 0, 0]);
        let attributes: Vec<_> = Attributes(&body[4..]).collect();
        assert_eq!(attributes, [(1, &7_u32.to_ne_bytes()[..]), (2, b"lo\0")]);
        assert_eq!(Attributes(&body[4..]).of(2), Some(&b"lo\0"[..]));
        assert_eq!(Attributes(&body[4..]).of(3), None);
        assert_eq!(answers.next(), None);
    }

    #[test]
    fn ends_refusals_and_noops() {
        let mut bytes = message(NLMSG_NOOP, &[]);
        // EPERM
        bytes.extend(message(NLMSG_ERROR, &(-1_i32).to_ne_bytes()));
        bytes.extend(message(NLMSG_ERROR, &0_i32.to_ne_bytes()));
        bytes.extend(message(NLMSG_DONE, &0_i32.to_ne_bytes()));
        let answers: Vec<_> = Answers(&bytes).collect();
        assert_eq!(answers, [Answer::Refused(1), Answer::End, Answer::End]);
    }

    #[test]
    fn numbers_of_any_width() {
        for value in [0, 1, 255, u64::from(u32::MAX), u64::from(u32::MAX) + 1, u64::MAX] {
            assert_eq!(number(&uint(value)), Some(value));
        }
        assert_eq!(uint(7).len(), 4);
        assert_eq!(number(&[9]), Some(9));
        assert_eq!(number(&[1, 2, 3]), None);
    }

    #[test]
    fn cuts_and_lies_end_without_a_panic() {
        let whole = Request::new(0x1c, Asks::One, &[11, 1, 0, 0]).with(1, &[1; 5]).finish();
        for end in 0..whole.len() {
            assert_eq!(Answers(&whole[..end]).count(), 0, "{end}");
        }
        for lie in [0, 15, u32::MAX] {
            let mut lying = whole.clone();
            lying[0..4].copy_from_slice(&lie.to_ne_bytes());
            assert_eq!(Answers(&lying).count(), 0, "{lie}");
        }
        assert_eq!(Attributes(&[0, 0, 4, 0, 1, 2, 3, 4]).count(), 0);
        assert_eq!(Attributes(&[9, 0, 4, 0, 1, 2, 3, 4]).count(), 0);
    }
}
