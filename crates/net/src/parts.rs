//! Messages that come in parts. SCTP gives a message that is longer than the receive buffer so, and marks where it ends (MSG_EOR,
//! RFC 6458). Only its sockets pay for looking at the mark: others have transports of their own.

use crate::address::RawAddress;
use crate::path::PathError;
use crate::sys;
use crate::transport::{Addressing, Connected, ReceiveStep, Transport, Unconnected, drain, failed_receive};
use std::os::fd::RawFd;

/// How messages are sent: a part of one is never sent.
enum Sending {
    Connected(Connected),
    Unconnected(Unconnected),
}

/// A call for each message sent, and as many as it takes for one received.
pub(crate) struct Parts {
    fd: RawFd,
    out: Sending,
    /// Whom messages must come from; absent: the socket has one peer.
    from: Option<RawAddress>,
    source: RawAddress,
    /// Bytes of the message so far; kept when a wait is interrupted.
    filled: usize,
    /// What is beyond the caller's buffer.
    surplus: [u8; 4096],
    foreign: u64,
}

impl Parts {
    /// `addressing` of a socket without a peer.
    pub(crate) fn new(fd: RawFd, addressing: Option<Addressing>) -> Self {
        let out = match addressing {
            Some(addressing) => Sending::Unconnected(Unconnected::new(fd, addressing)),
            None => Sending::Connected(Connected::new(fd, true)),
        };
        let from = addressing.map(|addressing| addressing.from);
        Self { fd, out, from, source: RawAddress::EMPTY, filled: 0, surplus: [0; 4096], foreign: 0 }
    }
}

/// Adds what a call received to the message. The length of a whole one counts bytes beyond the caller's buffer, too.
#[inline]
fn join(filled: &mut usize, result: isize, is_last: bool) -> ReceiveStep {
    match usize::try_from(result) {
        Err(_) => failed_receive("recvmsg"),
        Ok(0) => ReceiveStep::Broken(PathError::Closed),
        Ok(bytes) if is_last => ReceiveStep::Whole(std::mem::take(filled) + bytes),
        Ok(bytes) => {
            *filled += bytes;
            ReceiveStep::More
        }
    }
}

impl Transport for Parts {
    fn read_fd(&self) -> RawFd {
        self.fd
    }

    #[inline]
    fn send(&mut self, message: &[u8], more: bool) -> Result<(), PathError> {
        match &mut self.out {
            Sending::Connected(out) => out.send(message, more),
            Sending::Unconnected(out) => out.send(message, more),
        }
    }

    #[inline]
    fn receive<const WAIT: bool>(&mut self, buffer: &mut [u8]) -> ReceiveStep {
        let room = match buffer.get_mut(self.filled..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => &mut self.surplus,
        };
        let flags = if WAIT { 0 } else { libc::MSG_DONTWAIT };
        let (result, is_last) = sys::recvmsg_part(self.fd, room, flags, &mut self.source);
        match join(&mut self.filled, result, is_last) {
            ReceiveStep::Whole(_) if self.from.is_some_and(|from| !from.same_sender(&self.source)) => {
                self.foreign += 1;
                ReceiveStep::More
            }
            step => step,
        }
    }

    fn drain(&mut self, scratch: &mut [u8]) -> Result<u64, PathError> {
        drain(self, scratch)
    }

    fn foreign(&self) -> u64 {
        self.foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    use std::os::fd::AsRawFd as _;

    /// Catches: a part that is a message, a message that is never whole, one that goes on in the next, bytes that are written over, and
    /// an end that is waited on.
    #[test]
    fn parts_are_one_message_until_the_mark() {
        let mut filled = 0;
        for (bytes, is_last, whole) in [(4, false, None), (3, false, None), (2, true, Some(9)), (5, true, Some(5))] {
            match join(&mut filled, bytes, is_last) {
                ReceiveStep::More => assert_eq!(whole, None),
                ReceiveStep::Whole(bytes) => assert_eq!(Some(bytes), whole),
                _ => panic!("neither a part nor a message"),
            }
        }
        assert!(matches!(join(&mut filled, 0, false), ReceiveStep::Broken(PathError::Closed)));

        // A UNIX pair marks no ends: all that comes is a part.
        let (one, other) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
        let [mut here, mut there] = [&one, &other].map(|end| Parts::new(end.as_raw_fd(), None));
        let mut buffer = [0; 8];
        assert!(matches!(there.receive::<false>(&mut buffer), ReceiveStep::Nothing));
        for part in [&[1; 3][..], &[2; 5], &[3; 6]] {
            here.send(part, false).unwrap();
            assert!(matches!(there.receive::<true>(&mut buffer), ReceiveStep::More));
        }
        assert_eq!((buffer, there.filled), ([1, 1, 1, 2, 2, 2, 2, 2], 14));
        drop(one);
        assert!(matches!(there.receive::<true>(&mut buffer), ReceiveStep::Broken(PathError::Closed)));
    }
}
