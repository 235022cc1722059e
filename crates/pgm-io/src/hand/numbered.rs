//! Messages that show whether they came whole and in order, and pings.

use model::Fate;

/// Shortest numbered message: its number.
pub const LEAST_BYTES: usize = 8;
/// Where the pattern of a numbered message begins.
const PATTERN: usize = 16;
/// Where the pattern of a ping begins.
const PING: usize = 32;
/// What makes a message a ping.
const MAGIC: [u8; 3] = *b"WhP";

/// Writes message `number`: number and, from 16 bytes on, time of sending (ns since 1970) in 8 bytes each, then a pattern.
pub fn write(number: u64, realtime_ns: u64, message: &mut [u8]) {
    put(message, 0, number);
    let head = if message.len() < PATTERN { LEAST_BYTES } else { PATTERN };
    if head == PATTERN {
        put(message, 8, realtime_ns);
    }
    fill(number, head, message);
}

/// The number of a message that came whole.
pub fn read(message: &[u8]) -> Option<u64> {
    let number = get(message, 0)?;
    let head = if message.len() < PATTERN { LEAST_BYTES } else { PATTERN };
    is_whole(number, head, message).then_some(number)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ping {
    pub number: u64,
    /// When it was sent, on the sender's clock.
    pub sent_ns: u64,
    /// Whose it is: several may ping one group.
    pub id: u64,
    /// What became of it in the direction of the reflector, as that says.
    pub out: Fate,
}

impl Ping {
    /// Writes it over a message of 32 bytes or more.
    pub fn write(&self, message: &mut [u8]) {
        put(message, 0, self.number);
        put(message, 8, self.sent_ns);
        put(message, 16, self.id);
        set_out(message, self.out);
        for (to, from) in message.iter_mut().skip(25).zip(MAGIC.into_iter().chain([0; 4])) {
            *to = from;
        }
        fill(self.number, PING, message);
    }

    /// Reads it; none where a message is no ping or did not come whole.
    pub fn read(message: &[u8]) -> Option<Self> {
        if message.get(25..28)? != MAGIC {
            return None;
        }
        let out = *Fate::ALL.get(usize::from(*message.get(24)?))?;
        let number = get(message, 0)?;
        let ping = Self { number, sent_ns: get(message, 8)?, id: get(message, 16)?, out };
        is_whole(number, PING, message).then_some(ping)
    }

    /// Notes in a ping what became of it so far; other messages stay as they are.
    pub fn note(message: &mut [u8], fate: Fate) {
        if message.get(25..28) == Some(&MAGIC[..]) {
            set_out(message, fate);
        }
    }
}

fn set_out(message: &mut [u8], fate: Fate) {
    if let Some(byte) = message.get_mut(24) {
        *byte = fate as u8;
    }
}

fn put(message: &mut [u8], at: usize, value: u64) {
    if let Some(bytes) = message.get_mut(at..at + 8) {
        bytes.copy_from_slice(&value.to_be_bytes());
    }
}

fn get(message: &[u8], at: usize) -> Option<u64> {
    message.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes)
}

fn pattern(number: u64, head: usize) -> impl Iterator<Item = u8> {
    (head..).map(move |place| number.wrapping_add(place as u64).to_le_bytes()[0])
}

fn fill(number: u64, head: usize, message: &mut [u8]) {
    for (byte, pattern) in message.iter_mut().skip(head).zip(pattern(number, head)) {
        *byte = pattern;
    }
}

fn is_whole(number: u64, head: usize, message: &[u8]) -> bool {
    message.iter().skip(head).zip(pattern(number, head)).all(|(byte, pattern)| *byte == pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numbered_message_knows_whether_it_is_whole() {
        for bytes in [8, 12, 16, 64, 1448] {
            let mut message = vec![0; bytes];
            write(300, 1, &mut message);
            assert_eq!(read(&message), Some(300), "{bytes}");
            if bytes > 16 {
                message[bytes - 1] ^= 1;
                assert_eq!(read(&message), None, "{bytes}");
            }
        }
        assert_eq!(read(&[0; 7]), None);
    }

    #[test]
    fn a_ping_comes_back_with_its_fate() {
        let ping = Ping { number: 7, sent_ns: 99, id: 5, out: Fate::Untouched };
        let mut message = [0; 64];
        ping.write(&mut message);
        assert_eq!(Ping::read(&message), Some(ping));
        Ping::note(&mut message, Fate::Repaired);
        assert_eq!(Ping::read(&message), Some(Ping { out: Fate::Repaired, ..ping }));
        message[40] ^= 1;
        assert_eq!(Ping::read(&message), None);
        let mut other = *b"a message of another program, longer";
        Ping::note(&mut other, Fate::Held);
        assert_eq!(&other, b"a message of another program, longer");
    }
}
