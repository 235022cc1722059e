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
mod observe;
mod options;
#[cfg(test)]
mod tests;

pub use body::{Ack, Body, Data, Nak, Poll, Polr, Spm, kind};
pub use checksum::checksum;
pub use error::{ParseError, WriteError};
pub use observe::{Head, ObservedPacket, RawOption, Sum};
pub(crate) use options::ENCODED_FRAGMENT_BYTES;
pub use options::{Fragment, MAX_OPTIONS, NakBackOff, NakBackOffRange, NakList, Options, ParityParameters, Reset};

use crate::{Sqn, Tsi};
use bytes::{Reader, Writer};

/// IP protocol number of PGM (section 8).
pub const IP_PROTOCOL: u8 = 113;
/// Length of the header that every packet begins with.
pub const HEADER_BYTES: usize = 16;

/// Bits of the header's options field as implementations use them; the RFC's text and picture differ.
mod flag {
    pub(super) const PRESENT: u8 = 0x01;
    pub(super) const NETWORK_SIGNIFICANT: u8 = 0x02;
    pub(super) const VARIABLE_LENGTH: u8 = 0x40;
    pub(super) const PARITY: u8 = 0x80;
}

/// One packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct Packet<'a> {
    /// The source that it is about, whichever way it goes.
    pub tsi: Tsi,
    /// Data-destination port: the application's. Packets to the source have the two ports swapped on the wire, not here.
    pub data_port: u16,
    /// What it is.
    pub body: Body<'a>,
    pub options: Options<'a>,
}

impl<'a> Packet<'a> {
    /// Reads a datagram's payload: all of it is one packet.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(datagram);
        let head = Head::read(&mut reader)?;
        if head.version != 0 {
            return Err(ParseError::Version(head.version));
        }
        if head.has_checksum() && checksum(datagram) != 0 {
            return Err(ParseError::Checksum);
        }
        if !head.has_checksum() && matches!(head.kind, kind::ODATA | kind::RDATA) {
            return Err(ParseError::NoChecksum);
        }
        Self::behind(&head, &mut reader, false)
    }

    /// Reads what lies behind the header. With `cut` the payload may be shorter than the header has it.
    fn behind(head: &Head, reader: &mut Reader<'a>, cut: bool) -> Result<Self, ParseError> {
        if head.version != 0 {
            return Err(ParseError::Version(head.version));
        }
        let mut body = Body::read(head.kind, reader)?;
        let mut options = if head.has_options { Options::read(reader)? } else { Options::default() };
        options.parity = head.flags() & flag::PARITY != 0;
        options.variable_length = head.flags() & flag::VARIABLE_LENGTH != 0;
        let payload = reader.rest();
        let told = usize::from(head.payload_bytes);
        if payload.len() != told && !(cut && payload.len() < told) {
            return Err(ParseError::PayloadLength { told, there: payload.len() });
        }
        match &mut body {
            Body::Odata(data) | Body::Rdata(data) => data.payload = payload,
            _ if payload.is_empty() => {}
            _ => return Err(ParseError::Payload(payload.len())),
        }
        Ok(Self { tsi: head.tsi, data_port: head.data_port, body, options })
    }

    /// Writes the packet with its checksum to the start of `buffer`; returns its length.
    pub fn write(&self, buffer: &mut [u8]) -> Result<usize, WriteError> {
        let mut writer = Writer::new(buffer);
        let (source_port, destination_port) =
            if self.body.goes_to_source() { (self.data_port, self.tsi.port) } else { (self.tsi.port, self.data_port) };
        let payload = self.body.payload();
        let payload_bytes = u16::try_from(payload.len()).map_err(|_| WriteError::PayloadTooLong(payload.len()))?;
        writer.u16(source_port)?;
        writer.u16(destination_port)?;
        writer.u8(self.body.kind())?;
        writer.u8(self.options.flags(matches!(self.body, Body::Odata(_))))?;
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
    pub fn sqn(&self) -> Option<Sqn> {
        match &self.body {
            Body::Odata(data) | Body::Rdata(data) => Some(data.sqn),
            Body::Nak(nak) | Body::Nnak(nak) | Body::Ncf(nak) => Some(nak.sqn),
            Body::Spm(_) | Body::Poll(_) | Body::Polr(_) | Body::Spmr | Body::Ack(_) => None,
        }
    }
}
