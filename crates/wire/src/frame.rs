//! Frames: `[u32 BE length][payload][16-byte MAC when keyed]`. The length counts the payload alone.
//!
//! The decoder copies only bytes that have come and never reserves what a length claims.

use crate::error::FrameError;
use crate::proof::FrameKey;

/// Largest payload on a control connection, in bytes.
pub const CONTROL_LIMIT: usize = 1 << 20;
/// Largest payload on a control connection before the client has proved itself, in bytes.
pub const HANDSHAKE_LIMIT: usize = 16 << 10;
/// Largest payload on an agent's pipe, in bytes (raw samples and captures travel there).
pub const AGENT_LIMIT: usize = 256 << 20;
/// Bytes of the length before each payload.
pub const PREFIX_BYTES: usize = 4;
/// Bytes of the MAC behind each payload of a keyed session.
pub const MAC_BYTES: usize = 16;

/// Writes one frame without a MAC. Errors: [`FrameError::TooLong`] for a payload above `limit`.
pub fn encode(payload: &[u8], limit: usize) -> Result<Vec<u8>, FrameError> {
    let too_long = || FrameError::TooLong { length: u64::try_from(payload.len()).unwrap_or(u64::MAX), limit };
    if payload.len() > limit {
        return Err(too_long());
    }
    let length = u32::try_from(payload.len()).map_err(|_| too_long())?;
    let mut frame = Vec::with_capacity(PREFIX_BYTES + payload.len() + MAC_BYTES);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(payload);
    Ok(frame)
}

/// Takes bytes in any portions and gives back whole payloads.
#[derive(Debug)]
pub struct Decoder {
    pub(crate) limit: usize,
    pub(crate) key: Option<FrameKey>,
    buffer: Vec<u8>,
    read: usize,
}

impl Decoder {
    /// A decoder of frames without MAC whose payloads have at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, key: None, buffer: Vec::new(), read: 0 }
    }

    /// Takes bytes. Call [`Decoder::pop`] until `None` before the next, so that one frame and one call are buffered.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.read > 0 {
            self.buffer.drain(..self.read);
            self.read = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next payload, if whole. Errors (final): [`FrameError::TooLong`], [`FrameError::Unauthentic`].
    pub fn pop(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let waiting = self.buffer.get(self.read..).unwrap_or_default();
        let Some((prefix, rest)) = waiting.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let claimed = u32::from_be_bytes(*prefix);
        let length = usize::try_from(claimed)
            .ok()
            .filter(|&length| length <= self.limit)
            .ok_or(FrameError::TooLong { length: u64::from(claimed), limit: self.limit })?;
        let mac_bytes = if self.key.is_some() { MAC_BYTES } else { 0 };
        let Some(body) = rest.get(..length + mac_bytes) else { return Ok(None) };
        let (payload, mac) = body.split_at(length);
        if let Some(key) = &mut self.key {
            key.check(payload, mac)?;
        }
        let payload = payload.to_vec();
        self.read += PREFIX_BYTES + length + mac_bytes;
        Ok(Some(payload))
    }

    /// Checks that the stream ends between two frames. Errors: [`FrameError::Truncated`] when it ends inside one.
    pub fn finish(&self) -> Result<(), FrameError> {
        let waiting = self.buffer.get(self.read..).unwrap_or_default();
        if waiting.is_empty() {
            return Ok(());
        }
        let mac_bytes = if self.key.is_some() { MAC_BYTES } else { 0 };
        let whole = match waiting.split_first_chunk::<PREFIX_BYTES>() {
            Some((prefix, _)) => u64::from(u32::from_be_bytes(*prefix)) + (PREFIX_BYTES + mac_bytes) as u64,
            None => PREFIX_BYTES as u64,
        };
        Err(FrameError::Truncated { missing: whole.saturating_sub(waiting.len() as u64) })
    }

    /// Bytes held back for a frame that is not whole yet.
    pub fn buffered(&self) -> usize {
        self.buffer.len() - self.read
    }
}

/// Writes frames of one direction, with a MAC once a key is set.
#[derive(Debug)]
pub(crate) struct Encoder {
    limit: usize,
    pub(crate) key: Option<FrameKey>,
}

impl Encoder {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, key: None }
    }

    pub(crate) fn encode(&mut self, payload: &[u8]) -> Result<Vec<u8>, FrameError> {
        let mut frame = encode(payload, self.limit)?;
        if let Some(key) = &mut self.key {
            frame.extend_from_slice(&key.next(payload));
        }
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_length_is_refused_before_its_bytes_come() {
        let mut decoder = Decoder::new(10);
        decoder.feed(&11u32.to_be_bytes());
        assert_eq!(decoder.pop(), Err(FrameError::TooLong { length: 11, limit: 10 }));
        assert!(encode(&[0; 11], 10).is_err());
    }

    #[test]
    fn a_claimed_length_reserves_nothing() {
        let mut decoder = Decoder::new(AGENT_LIMIT);
        decoder.feed(&(256u32 << 20).to_be_bytes());
        assert_eq!(decoder.pop(), Ok(None));
        assert!(decoder.buffer.capacity() < 1024);
        assert_eq!(decoder.finish(), Err(FrameError::Truncated { missing: 256 << 20 }));
    }

    #[test]
    fn what_was_popped_is_not_kept() {
        let mut decoder = Decoder::new(CONTROL_LIMIT);
        let frame = encode(&[7; 1000], CONTROL_LIMIT).unwrap();
        for _ in 0..1000 {
            decoder.feed(&frame);
            assert_eq!(decoder.pop().unwrap().unwrap().len(), 1000);
        }
        assert_eq!(decoder.buffered(), 0);
        assert!(decoder.buffer.capacity() < 10_000);
        assert_eq!(decoder.finish(), Ok(()));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_frames(
            payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..8),
            cuts in proptest::collection::vec(1usize..20, 1..40),
        ) {
            let mut stream = Vec::new();
            for payload in &payloads {
                stream.extend(encode(payload, 64).unwrap());
            }
            let mut decoder = Decoder::new(64);
            let (mut got, mut rest) = (Vec::new(), stream.as_slice());
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                decoder.feed(now);
                while let Some(payload) = decoder.pop().unwrap() {
                    got.push(payload);
                }
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(got, payloads);
            prop_assert!(decoder.finish().is_ok());
        }

        #[test]
        fn any_bytes_are_framed_or_refused(bytes: Vec<u8>) {
            crate::exercise::frame(&bytes);
        }
    }
}
