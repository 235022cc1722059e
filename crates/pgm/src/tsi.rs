//! Who a source is.

use std::fmt;

/// Global source identifier, 48 unique bits (RFC 3208, section 8): of the MD5 of the host's name, or random.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gsi(pub [u8; 6]);

impl fmt::Display for Gsi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, last] = self.0;
        write!(f, "{a}.{b}.{c}.{d}.{e}.{last}")
    }
}

impl fmt::Debug for Gsi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gsi({self})")
    }
}

/// Transport session identifier: a source is its identifier and its source port (RFC 3208, section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tsi {
    /// Global source identifier.
    pub gsi: Gsi,
    /// Data-source port: chosen by the source, unique on its host.
    pub port: u16,
}

impl fmt::Display for Tsi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.gsi, self.port)
    }
}
