//! Generic netlink messages as bytes, and a socket to exchange them (linux/netlink.h, linux/genetlink.h).
//!
//! Building and reading are pure. Numbers are in the machine's own order, as netlink has them.

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_DUMP: u16 = 0x300;
/// Id of the family that knows the others (`GENL_ID_CTRL`).
const CONTROL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// Marks an attribute that holds others.
pub(crate) const NESTED: u16 = 0x8000;
const HEADER_BYTES: usize = 16;
const GENERIC_BYTES: usize = 4;

/// A request under construction.
#[derive(Debug, Clone)]
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// A command to a family. `dump` asks for all objects.
    pub(crate) fn new(family: u16, command: u8, dump: bool) -> Self {
        let flags = NLM_F_REQUEST | if dump { NLM_F_DUMP } else { NLM_F_ACK };
        let mut bytes = vec![0; 4];
        bytes.extend(family.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(1_u32.to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend([command, 1, 0, 0]);
        Self(bytes)
    }

    /// Adds an attribute.
    #[must_use]
    pub(crate) fn with(mut self, kind: u16, payload: &[u8]) -> Self {
        self.0.extend(Self::attribute(kind, payload));
        self
    }

    /// An attribute by itself, to be put into another one; longer ones than 64 KiB do not exist.
    pub(crate) fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + payload.len()).unwrap_or(4);
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// The bytes to send.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        if let Some(start) = self.0.first_chunk_mut::<4>() {
            *start = length.to_ne_bytes();
        }
        self.0
    }
}

/// One message of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    /// An object: its attributes.
    Object(Attributes<'a>),
    /// The end of a dump, or the acknowledgement of a request.
    End,
    /// Refused, with the kernel's error number.
    Refused(i32),
}

/// The messages of one datagram. A message that contradicts itself ends them.
#[derive(Debug)]
pub(crate) struct Answers<'a>(pub(crate) &'a [u8]);

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
                _ => Answer::Object(Attributes(body.get(GENERIC_BYTES..).unwrap_or_default())),
            });
        }
    }
}

/// Type-length-value attributes; ends at the first that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

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
pub(crate) fn number(payload: &[u8]) -> Option<u64> {
    match payload.len() {
        1 => payload.first().map(|&byte| byte.into()),
        2 => u16_at(payload, 0).map(u64::from),
        4 => u32_at(payload, 0).map(u64::from),
        8 => Some(u64::from_ne_bytes(*payload.first_chunk()?)),
        _ => None,
    }
}

/// A number as netlink's `uint` and `u32` both take it: 4 bytes, 8 where 4 do not hold it.
pub(crate) fn uint(value: u64) -> Vec<u8> {
    u32::try_from(value).map_or_else(|_| value.to_ne_bytes().to_vec(), |small| small.to_ne_bytes().to_vec())
}

/// A socket of the calling thread's network namespace, and the id of one family.
#[derive(Debug)]
pub(crate) struct Family {
    socket: OwnedFd,
    id: u16,
}

impl Family {
    /// `None` when this kernel has no such family.
    pub(crate) fn open(name: &str) -> io::Result<Option<Self>> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkGeneric)?;
        // The kernel answers at once or never.
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(1))?;
        let mut family = Self { socket, id: CONTROL };
        let mut zero_ended = name.as_bytes().to_vec();
        zero_ended.push(0);
        let request = Request::new(CONTROL, CTRL_CMD_GETFAMILY, false).with(CTRL_ATTR_FAMILY_NAME, &zero_ended);
        let mut id = None;
        match family.exchange(request, |attributes| id = id.or_else(|| family_id(attributes))) {
            Ok(()) => {}
            Err(refused) if refused.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            Err(refused) => return Err(refused),
        }
        Ok(id.map(|id| {
            family.id = id;
            family
        }))
    }

    /// A command to this family.
    pub(crate) fn request(&self, command: u8, dump: bool) -> Request {
        Request::new(self.id, command, dump)
    }

    /// Sends a request and gives each object of the answer to `take`.
    pub(crate) fn exchange(&self, request: Request, mut take: impl FnMut(Attributes<'_>)) -> io::Result<()> {
        send(self.socket.as_raw_fd(), &request.finish(), MsgFlags::empty())?;
        let mut buffer = vec![0; 65_536];
        loop {
            let length = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            let mut empty = true;
            for answer in Answers(buffer.get(..length).unwrap_or_default()) {
                empty = false;
                match answer {
                    Answer::Object(attributes) => take(attributes),
                    Answer::End => return Ok(()),
                    Answer::Refused(code) => return Err(io::Error::from_raw_os_error(code)),
                }
            }
            if empty {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
}

fn family_id(mut attributes: Attributes<'_>) -> Option<u16> {
    attributes.find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID).and_then(|(_, payload)| u16_at(payload, 0))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(HEADER_BYTES + body.len()).unwrap().to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn a_request_is_read_back_as_what_it_was_built_from() {
        let bytes = Request::new(0x1c, 11, true).with(1, &7_u32.to_ne_bytes()).with(2, b"lo\0").finish();
        assert_eq!(bytes.len(), 16 + 4 + 8 + 8);
        let mut answers = Answers(&bytes);
        let Some(Answer::Object(attributes)) = answers.next() else { panic!() };
        let attributes: Vec<_> = attributes.collect();
        assert_eq!(attributes, [(1, &7_u32.to_ne_bytes()[..]), (2, b"lo\0")]);
        assert_eq!(answers.next(), None);
    }

    #[test]
    fn ends_refusals_and_noops() {
        let mut bytes = message(NLMSG_NOOP, &[]);
        bytes.extend(message(NLMSG_ERROR, &(-libc::EPERM).to_ne_bytes()));
        bytes.extend(message(NLMSG_ERROR, &0_i32.to_ne_bytes()));
        bytes.extend(message(NLMSG_DONE, &0_i32.to_ne_bytes()));
        let answers: Vec<_> = Answers(&bytes).collect();
        assert_eq!(answers, [Answer::Refused(libc::EPERM), Answer::End, Answer::End]);
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
        let whole = Request::new(0x1c, 11, false).with(1, &[1; 5]).finish();
        for end in 0..whole.len() {
            Answers(&whole[..end]).for_each(drop);
        }
        let mut endless = whole;
        endless[0..4].copy_from_slice(&0_u32.to_ne_bytes());
        assert_eq!(Answers(&endless).count(), 0);
        assert_eq!(Attributes(&[0, 0, 4, 0, 1, 2, 3, 4]).count(), 0);
    }

    #[test]
    fn the_kernel_knows_its_own_families() {
        assert!(Family::open("nlctrl").unwrap().is_some());
        assert!(Family::open("no-such-family").unwrap().is_none());
    }
}
