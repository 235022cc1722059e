//! HMAC-SHA256 (RFC 2104, FIPS 180-4) for the handshake and each frame. Proofs cover the reflector's whole hello, so
//! that no version or limit can be removed; labels differ by direction, so that no proof can be sent back.

use crate::control::{Nonce, Token};
use crate::error::FrameError;
use crate::frame::MAC_BYTES;
use crate::key::Key;
use hmac::digest::CtOutput;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;
use subtle::ConstantTimeEq;

type HmacSha256 = Hmac<Sha256>;

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC takes keys of any length; `new_from_slice` never fails for it.
    let Ok(mut mac) = HmacSha256::new_from_slice(key) else { return [0; 32] };
    for part in parts {
        // Each part carries its length, so that no two lists of parts give the same bytes.
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    let output: CtOutput<HmacSha256> = mac.finalize();
    output.into_bytes().into()
}

/// Whether two byte strings are the same, in time that does not depend on where they differ.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

/// What both proofs and the session key cover.
#[derive(Debug, Clone)]
pub(crate) struct Transcript<'a> {
    /// The reflector's hello, payload as sent.
    pub(crate) server_hello: &'a [u8],
    pub(crate) client_nonce: &'a Nonce,
    pub(crate) version: u32,
}

impl Transcript<'_> {
    fn mac(&self, key: &Key, label: &str, extra: &[u8]) -> [u8; 32] {
        let version = self.version.to_be_bytes();
        hmac(key.bytes(), &[label.as_bytes(), self.server_hello, &self.client_nonce.0, &version, extra])
    }

    pub(crate) fn client_proof(&self, key: &Key) -> [u8; 32] {
        self.mac(key, "windhover control: client proof", &[])
    }

    pub(crate) fn server_proof(&self, key: &Key, session: u64) -> [u8; 32] {
        self.mac(key, "windhover control: server proof", &session.to_be_bytes())
    }

    pub(crate) fn session_key(&self, key: &Key) -> [u8; 32] {
        self.mac(key, "windhover control: session key", &[])
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// Authenticates the frames of one direction by their place and content.
pub(crate) struct FrameKey {
    key: [u8; 32],
    direction: Direction,
    counter: u64,
}

impl FrameKey {
    pub(crate) fn new(session_key: &[u8; 32], direction: Direction) -> Self {
        Self { key: *session_key, direction, counter: 0 }
    }

    fn mac(&self, payload: &[u8]) -> [u8; MAC_BYTES] {
        let direction: &[u8] = match self.direction {
            Direction::ToServer => b"to server",
            Direction::ToClient => b"to client",
        };
        let whole = hmac(&self.key, &[direction, &self.counter.to_be_bytes(), payload]);
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(&whole[..MAC_BYTES]);
        mac
    }

    pub(crate) fn next(&mut self, payload: &[u8]) -> [u8; MAC_BYTES] {
        let mac = self.mac(payload);
        self.counter += 1;
        mac
    }

    pub(crate) fn check(&mut self, payload: &[u8], mac: &[u8]) -> Result<(), FrameError> {
        if !same(&self.mac(payload), mac) {
            return Err(FrameError::Unauthentic { counter: self.counter });
        }
        self.counter += 1;
        Ok(())
    }
}

impl fmt::Debug for FrameKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameKey({:?}, frame {})", self.direction, self.counter)
    }
}

/// The value that tags data messages of a session. It is derived one-way, so that it does not betray the token.
pub(crate) fn tag(token: &Token) -> u64 {
    let whole = hmac(&token.0, &[b"windhover data: tag"]);
    let mut first = [0; 8];
    first.copy_from_slice(&whole[..8]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_is_the_one_of_rfc_2104() {
        // RFC 4231 test case 2, fed through the same primitive without the length prefixes.
        let mut mac = HmacSha256::new_from_slice(b"Jefe").unwrap();
        mac.update(b"what do ya want for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(crate::hex::encode(&mac.finalize().into_bytes()), expected);
    }

    #[test]
    fn parts_cannot_be_moved_into_each_other() {
        assert_ne!(hmac(b"k", &[b"ab", b"c"]), hmac(b"k", &[b"a", b"bc"]));
        assert_ne!(hmac(b"k", &[b"a"]), hmac(b"k", &[b"a", b""]));
    }

    #[test]
    fn a_mac_fits_one_place_and_one_direction() {
        let session = [3; 32];
        let mut sender = FrameKey::new(&session, Direction::ToServer);
        let (first, second) = (sender.next(b"x"), sender.next(b"x"));
        assert_ne!(first, second);
        let mut receiver = FrameKey::new(&session, Direction::ToServer);
        assert!(receiver.check(b"x", &second).is_err());
        assert!(receiver.check(b"x", &first).is_ok());
        assert_eq!(receiver.check(b"x", &first), Err(FrameError::Unauthentic { counter: 1 }));
        assert!(receiver.check(b"x", &second).is_ok());
        assert!(FrameKey::new(&session, Direction::ToClient).check(b"x", &first).is_err());
        assert!(FrameKey::new(&session, Direction::ToServer).check(b"x", &first[..15]).is_err());
    }
}
