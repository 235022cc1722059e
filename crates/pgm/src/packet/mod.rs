//! Packets: what is on the wire (RFC 3208, sections 8 and 9 and appendices A, C and D).
//!
//! [`Packet::parse`] reads a datagram without copying it, [`Packet::write`] makes one in a buffer of the caller's. Both
//! know the same types, so what was read can be written again. Reading trusts no length: every part must lie within the
//! datagram and fill it exactly; a checksum that is there must be right, and data must have one.
//!
//! ```
//! use pgm::packet::{Body, Data, Options, Packet};
//! use pgm::{Gsi, Sqn, Tsi};
//!
//! let tsi = Tsi { gsi: Gsi([1, 2, 3, 4, 5, 6]), port: 4321 };
//! let data = Data { sqn: Sqn(7), trail: Sqn(0), payload: b"hello" };
//! let packet = Packet { tsi, data_port: 7500, body: Body::Odata(data), options: Options::default() };
//! let mut datagram = [0; 64];
//! let length = packet.write(&mut datagram).unwrap();
//! assert_eq!(Packet::parse(&datagram[..length]).unwrap(), packet);
//! ```

mod body;
mod bytes;
mod checksum;
mod error;
mod nla;
mod options;
#[cfg(test)]
mod tests;

pub use body::{Ack, Body, Data, Nak, Poll, Polr, Spm};
pub use checksum::checksum;
pub use error::{ParseError, WriteError};
pub use nla::is_group;
pub use options::{Fragment, MAX_OPTIONS, NakBackOff, NakBackOffRange, NakList, Options, ParityParameters, Reset};

use crate::{Gsi, Sqn, Tsi};
use bytes::{Reader, Writer};

/// IP protocol number of PGM (section 8).
pub const IP_PROTOCOL: u8 = 113;
/// Length of the header that every packet begins with.
pub const HEADER_BYTES: usize = 16;

/// Bits of the header's options field. The RFC numbers them from the left in its text and draws them the other way round;
/// these values are what implementations use.
mod flag {
    pub(super) const PRESENT: u8 = 0x01;
    pub(super) const NETWORK_SIGNIFICANT: u8 = 0x02;
    pub(super) const VARIABLE_LENGTH: u8 = 0x40;
    pub(super) const PARITY: u8 = 0x80;
    pub(super) const KNOWN: u8 = PRESENT | NETWORK_SIGNIFICANT | VARIABLE_LENGTH | PARITY;
}

/// One packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The source that it is about, whichever way it goes.
    pub tsi: Tsi,
    /// Data-destination port: the well-known port of the application. On the wire the two ports are swapped in packets that
    /// go to the source; here each keeps its place.
    pub data_port: u16,
    /// What it is.
    pub body: Body<'a>,
    /// Its options.
    pub options: Options<'a>,
}

impl<'a> Packet<'a> {
    /// Reads a datagram's payload: all of it is one packet.
    ///
    /// # Errors
    /// [`ParseError`]: what is wrong, and for lengths where.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(datagram);
        let (source_port, destination_port) = (reader.u16()?, reader.u16()?);
        let kind = reader.u8()?;
        let flags = reader.u8()?;
        let sum = reader.u16()?;
        let gsi = Gsi(*reader.array::<6>()?);
        let payload_bytes = usize::from(reader.u16()?);
        if kind >> 6 != 0 {
            return Err(ParseError::Version { version: kind >> 6 });
        }
        if sum != 0 && checksum(datagram) != 0 {
            return Err(ParseError::Checksum);
        }
        let kind = kind & 0x3f;
        if sum == 0 && Body::needs_checksum(kind) {
            return Err(ParseError::NoChecksum);
        }
        let mut body = Body::read(kind, &mut reader)?;
        let mut options = if flags & flag::PRESENT != 0 { Options::read(&mut reader)? } else { Options::default() };
        options.parity = flags & flag::PARITY != 0;
        options.variable_length = flags & flag::VARIABLE_LENGTH != 0;
        let payload = reader.rest();
        if payload.len() != payload_bytes {
            return Err(ParseError::PayloadLength { told: payload_bytes, there: payload.len() });
        }
        match &mut body {
            Body::Odata(data) | Body::Rdata(data) => data.payload = payload,
            _ if payload.is_empty() => {}
            _ => return Err(ParseError::Payload { bytes: payload.len() }),
        }
        let (port, data_port) =
            if body.goes_to_source() { (destination_port, source_port) } else { (source_port, destination_port) };
        Ok(Self { tsi: Tsi { gsi, port }, data_port, body, options })
    }

    /// Writes the packet to the start of `buffer` with its checksum; returns its length.
    ///
    /// # Errors
    /// [`WriteError`]: the buffer is too short, or the packet has no form on the wire.
    pub fn write(&self, buffer: &mut [u8]) -> Result<usize, WriteError> {
        let mut writer = Writer::new(buffer);
        let (source_port, destination_port) =
            if self.body.goes_to_source() { (self.data_port, self.tsi.port) } else { (self.tsi.port, self.data_port) };
        let payload = self.body.payload();
        let payload_bytes =
            u16::try_from(payload.len()).map_err(|_| WriteError::PayloadTooLong { bytes: payload.len() })?;
        writer.u16(source_port)?;
        writer.u16(destination_port)?;
        writer.u8(self.body.kind())?;
        writer.u8(self.options.flags())?;
        writer.u16(0)?;
        writer.bytes(&self.tsi.gsi.0)?;
        writer.u16(payload_bytes)?;
        self.body.write(&mut writer)?;
        self.options.write(&mut writer)?;
        writer.bytes(payload)?;
        let length = writer.length();
        let written = buffer.get_mut(..length).unwrap_or_default();
        let sum = match checksum(written) {
            // Nothing means that there is none.
            0 => u16::MAX,
            sum => sum,
        };
        if let Some(place) = written.get_mut(6..8) {
            place.copy_from_slice(&sum.to_be_bytes());
        }
        Ok(length)
    }

    /// The sequence number of the data that it carries or is about, where it is about one.
    #[must_use]
    pub fn sqn(&self) -> Option<Sqn> {
        match &self.body {
            Body::Odata(data) | Body::Rdata(data) => Some(data.sqn),
            Body::Nak(nak) | Body::Nnak(nak) | Body::Ncf(nak) => Some(nak.sqn),
            Body::Spm(_) | Body::Poll(_) | Body::Polr(_) | Body::Spmr | Body::Ack(_) => None,
        }
    }
}
