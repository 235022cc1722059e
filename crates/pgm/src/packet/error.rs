//! What can be wrong with a packet.

/// Why a datagram is no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what it is")]
pub enum ParseError {
    #[error("{needed} bytes are needed at byte {at}, and {there} are there")]
    Short { at: usize, needed: usize, there: usize },
    #[error("version {0} is not 0")]
    Version(u8),
    #[error("there is no packet type {0:#04x}")]
    Kind(u8),
    #[error("the checksum is wrong")]
    Checksum,
    /// Data without a checksum (section 8: mandatory).
    #[error("data has no checksum")]
    NoChecksum,
    #[error("the header tells {told} bytes of payload, and {there} are there")]
    PayloadLength { told: usize, there: usize },
    #[error("{0} bytes of payload in a packet that carries none")]
    Payload(usize),
    /// An address of a family (IANA's number) that is neither IPv4 nor IPv6.
    #[error("address family {0} is neither 1 (IPv4) nor 2 (IPv6)")]
    Family(u16),
    /// The options do not begin with their length but with this type.
    #[error("the options begin with type {0:#04x} and not with their length")]
    NoOptionLength(u8),
    #[error("option {kind:#04x} at byte {at} has a length of {length} bytes")]
    OptionLength { kind: u8, at: usize, length: usize },
    #[error("the end of the options is not where their length says")]
    OptionEnd,
    /// More than 16 options (section 9).
    #[error("more than 16 options")]
    TooManyOptions,
    #[error("option {0:#04x} stands there twice")]
    OptionTwice(u8),
}

/// Why a packet cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what it is")]
pub enum WriteError {
    #[error("the packet does not fit into {0} bytes")]
    NoRoom(usize),
    #[error("{0} bytes of payload are above 65,535")]
    PayloadTooLong(usize),
    /// A list of this many sequence numbers, above 62 (section 9.3.5).
    #[error("a list of {0} sequence numbers: 1 to 62 fit")]
    NakList(usize),
}
