//! ICMP echo as a path for `ping`: a round is a request and its reply; ICMP's 16-bit number is two bytes of the round's.

use net::icmp::{EchoSocket, Echoed};
use net::{Path, PathError, Received};

/// Bytes of the round's number that ICMP carries.
pub(crate) const NUMBER_BYTES: u8 = 2;

/// The loop's buffers hold at least the number, whatever the payload.
pub(crate) fn buffer_bytes(payload_bytes: usize) -> usize {
    payload_bytes.max(usize::from(NUMBER_BYTES))
}

pub(crate) struct EchoPath<'a> {
    socket: EchoSocket<'a>,
    payload_bytes: usize,
}

impl<'a> EchoPath<'a> {
    pub(crate) fn new(socket: EchoSocket<'a>, payload_bytes: usize) -> Self {
        Self { socket, payload_bytes }
    }
}

impl Path for EchoPath<'_> {
    #[inline]
    fn send(&mut self, message: &[u8], _more: bool) -> Result<(), PathError> {
        let number = message.first_chunk().map_or(0, |low| u16::from_le_bytes(*low));
        self.socket.send(number, message.get(..self.payload_bytes).unwrap_or(message))
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, PathError> {
        Ok(match self.socket.receive()? {
            Echoed::Reply(reply) => {
                if let Some(low) = buffer.first_chunk_mut() {
                    *low = reply.sequence.to_le_bytes();
                }
                // A reply of another size belongs to no round: no buffer is that long.
                Received::Bytes(if reply.payload_bytes == self.payload_bytes { buffer.len() } else { usize::MAX })
            }
            Echoed::Interrupted => Received::Interrupted,
            Echoed::TimedOut => Received::TimedOut,
            Echoed::Stopped => Received::Stopped,
        })
    }
}
