//! What repairs cost messages, for those who ask afterwards.

use pgm::receiver::Repair;

/// Bytes of a message that a note keeps.
pub(crate) const HEAD: usize = 32;

/// A message that was repaired, or came in time and had to wait for one that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairNote {
    /// Its source, by its place in [`crate::PgmSocket::set_peers`]; without peers, by the order in which they were heard.
    pub from: u16,
    /// Its first bytes, so that its owner can find out which it is; 0 beyond its end.
    pub head: [u8; HEAD],
    pub bytes: u32,
    /// How it was repaired; absent: it came by itself and waited for another.
    pub repair: Option<Repair>,
    /// When its last packet came.
    pub received_ns: u64,
    pub delivered_ns: u64,
}
