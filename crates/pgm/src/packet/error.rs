//! What can be wrong with a packet.

/// Why a datagram is no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It ends within a field.
    #[error("{needed} bytes are needed at byte {at}, and {there} are there")]
    Short {
        /// Where the field begins.
        at: usize,
        /// Its length.
        needed: usize,
        /// What is left.
        there: usize,
    },
    /// Another version of the protocol: this one.
    #[error("version {0} is not 0")]
    Version(u8),
    /// A type that RFC 3208 does not have: this one.
    #[error("there is no packet type {0:#04x}")]
    Kind(u8),
    /// The checksum is wrong.
    #[error("the checksum is wrong")]
    Checksum,
    /// Data without a checksum (section 8: mandatory).
    #[error("data has no checksum")]
    NoChecksum,
    /// The header tells another length of the payload.
    #[error("the header tells {told} bytes of payload, and {there} are there")]
    PayloadLength {
        /// As told.
        told: usize,
        /// As found.
        there: usize,
    },
    /// A payload of so many bytes in a packet that carries none.
    #[error("{0} bytes of payload in a packet that carries none")]
    Payload(usize),
    /// An address of a family (IANA's number) that is neither IPv4 nor IPv6.
    #[error("address family {0} is neither 1 (IPv4) nor 2 (IPv6)")]
    Family(u16),
    /// The options do not begin with their length but with this type.
    #[error("the options begin with type {0:#04x} and not with their length")]
    NoOptionLength(u8),
    /// An option's length does not fit: the option, or the packet.
    #[error("option {kind:#04x} at byte {at} has a length of {length} bytes")]
    OptionLength {
        /// Its type.
        kind: u8,
        /// Where it begins.
        at: usize,
        /// The length that it tells.
        length: usize,
    },
    /// The last option does not say so, or another one does.
    #[error("the end of the options is not where their length says")]
    OptionEnd,
    /// More than 16 options (section 9).
    #[error("more than 16 options")]
    TooManyOptions,
    /// An option of this type that stands there twice.
    #[error("option {0:#04x} stands there twice")]
    OptionTwice(u8),
}

/// Why a packet cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The buffer, of so many bytes, is too short.
    #[error("the packet does not fit into {0} bytes")]
    NoRoom(usize),
    /// More bytes of payload than the length field can tell.
    #[error("{0} bytes of payload are above 65,535")]
    PayloadTooLong(usize),
    /// A list of so many sequence numbers, above 62 (section 9.3.5).
    #[error("a list of {0} sequence numbers: 1 to 62 fit")]
    NakList(usize),
}
