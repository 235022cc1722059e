//! sockperf: its messages, and the answer to one.
//!
//! Each message begins with 14 bytes, in network byte order: number (u64), flags (u16), length of the whole message (u32).
//! There is no handshake. The same messages go over UDP, one a datagram, and over TCP, one behind the other. Observed between
//! sockperf 3.7's client and server; source of the layout: its `message.h`.

/// Bytes of the header: no message is shorter.
pub const HEADER_BYTES: usize = 14;

/// The longest message of a stream: newer versions have up to 1 MiB there.
pub const MOST_BYTES: usize = 1 << 20;

/// A client sent it.
const CLIENT: u16 = 1;
/// The client wants an answer.
const PONG: u16 = 2;

/// Writes the header of a client's message that wants an answer. A message without room for it stays as it is.
#[inline]
pub fn write_ping(number: u64, message: &mut [u8]) {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    if let Some(head) = message.first_chunk_mut::<HEADER_BYTES>() {
        head[..8].copy_from_slice(&number.to_be_bytes());
        head[8..10].copy_from_slice(&(CLIENT | PONG).to_be_bytes());
        head[10..].copy_from_slice(&length.to_be_bytes());
    }
}

/// The number of a server's answer; `None`: it is none, or not of this length.
#[inline]
pub fn read_pong(message: &[u8]) -> Option<u64> {
    let (number, flags, length) = header(message)?;
    (flags & CLIENT == 0 && length == message.len()).then_some(number)
}

/// Number, flags and length.
#[inline]
fn header(message: &[u8]) -> Option<(u64, u16, usize)> {
    let (number, rest) = message.split_first_chunk()?;
    let (flags, rest) = rest.split_first_chunk()?;
    let length = u32::from_be_bytes(*rest.first_chunk()?);
    Some((u64::from_be_bytes(*number), u16::from_be_bytes(*flags), usize::try_from(length).unwrap_or(usize::MAX)))
}

/// Makes a client's whole message the answer to it. Whether it wants one.
pub fn answer(message: &mut [u8]) -> bool {
    let Some((_, flags, length)) = header(message) else { return false };
    let is_wanted = flags & (CLIENT | PONG) == CLIENT | PONG && length == message.len();
    if is_wanted && let Some(place) = message.get_mut(8..10) {
        place.copy_from_slice(&(flags & !CLIENT).to_be_bytes());
    }
    is_wanted
}

/// A stream's bytes are no messages of sockperf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMessage;

/// What came over a connection and is not yet a whole message. Never more than one message and what was given at once.
#[derive(Debug, Default)]
pub struct Incoming {
    bytes: Vec<u8>,
}

impl Incoming {
    /// Takes what came next, and gives `send` the answers to all messages that are whole now. Errors: [`NoMessage`] where a length is
    /// impossible: what follows has no borders.
    pub fn take(&mut self, came: &[u8], mut send: impl FnMut(&[u8])) -> Result<(), NoMessage> {
        self.bytes.extend_from_slice(came);
        let mut done = 0;
        while let Some((_, _, length)) = self.bytes.get(done..).and_then(header) {
            if !(HEADER_BYTES..=MOST_BYTES).contains(&length) {
                return Err(NoMessage);
            }
            let Some(message) = self.bytes.get_mut(done..done + length) else { break };
            if answer(message) {
                send(message);
            }
            done += length;
        }
        self.bytes.drain(..done);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ping(number: u64, bytes: usize) -> Vec<u8> {
        let mut message = vec![0xab; bytes];
        write_ping(number, &mut message);
        message
    }

    /// As sockperf 3.7 sends it: number 5, a client's message that wants an answer, 20 bytes. Catches a wrong order of bytes.
    #[test]
    fn a_message_and_its_answer_have_the_bytes_of_sockperf() {
        let mut message = ping(5, 20);
        assert_eq!(message[..HEADER_BYTES], [0, 0, 0, 0, 0, 0, 0, 5, 0, 3, 0, 0, 0, 20]);
        assert_eq!(read_pong(&message), None, "a client's message is no answer");
        assert!(answer(&mut message));
        assert_eq!(message[8..10], [0, 2]);
        assert_eq!(read_pong(&message), Some(5));
        assert_eq!(message[HEADER_BYTES..], [0xab; 6], "the rest comes back as it was");
        assert!(!answer(&mut message), "an answer is not answered: two servers would never end");
        assert_eq!(read_pong(&message[..19]), None, "cut short");
    }

    #[test]
    fn what_is_no_message_is_neither_read_nor_answered() {
        for bytes in 0..HEADER_BYTES {
            let mut short = vec![0xff; bytes];
            write_ping(1, &mut short);
            assert!(!answer(&mut short) && read_pong(&short).is_none() && short.iter().all(|byte| *byte == 0xff));
        }
        let mut quiet = ping(1, 14);
        quiet[9] = 1;
        assert!(!answer(&mut quiet), "nobody wants an answer");
    }

    /// Catches messages that are lost or doubled where they are cut apart, at every place.
    #[test]
    fn messages_of_a_stream_are_found_however_they_are_cut() {
        let sizes = [14, 15, 400, 14, 64];
        let stream: Vec<u8> = sizes.iter().zip(1..).flat_map(|(bytes, number)| ping(number, *bytes)).collect();
        for step in 1..stream.len() {
            let (mut incoming, mut numbers) = (Incoming::default(), Vec::new());
            for part in stream.chunks(step) {
                incoming.take(part, |answer| numbers.push((read_pong(answer), answer.len()))).unwrap();
            }
            let expected: Vec<_> = sizes.iter().zip(1..).map(|(bytes, number)| (Some(number), *bytes)).collect();
            assert_eq!(numbers, expected, "in parts of {step}");
            assert!(incoming.bytes.is_empty());
        }
        for length in [0_u32, 13, (1 << 20) + 1, u32::MAX] {
            let mut bad = ping(1, 14);
            bad[10..].copy_from_slice(&length.to_be_bytes());
            assert_eq!(Incoming::default().take(&bad, |_| panic!("answered")), Err(NoMessage));
        }
    }
}
