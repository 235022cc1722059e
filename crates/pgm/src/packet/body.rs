//! What follows the header, by type.

use super::bytes::{Reader, Writer};
use super::{ParseError, WriteError, nla};
use crate::Sqn;
use std::net::IpAddr;

/// Packet types (sections 8.1 to 8.3, appendices B to D).
#[expect(missing_docs, reason = "names of the RFC")]
pub mod kind {
    pub const SPM: u8 = 0x00;
    pub const POLL: u8 = 0x01;
    pub const POLR: u8 = 0x02;
    pub const ODATA: u8 = 0x04;
    pub const RDATA: u8 = 0x05;
    pub const NAK: u8 = 0x08;
    pub const NNAK: u8 = 0x09;
    pub const NCF: u8 = 0x0a;
    pub const SPMR: u8 = 0x0c;
    pub const ACK: u8 = 0x0d;

    /// Whether packets of a type travel upstream, where the two ports are swapped (section 8.3).
    #[inline]
    pub fn goes_to_source(kind: u8) -> bool {
        matches!(kind, NAK | NNAK | SPMR | POLR | ACK)
    }
}

/// A source path message: where the source is and what it can repair (section 8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spm {
    /// Its own number, which rises by one with each SPM.
    pub sqn: Sqn,
    /// The oldest data that can be repaired.
    pub trail: Sqn,
    /// The newest data. An empty window has `trail` one after `lead`.
    pub lead: Sqn,
    /// Where NAKs go: the source, or the last router on the way that speaks PGM.
    pub path: IpAddr,
}

impl Spm {
    /// Whether it tells nothing of the window: `trail` 0 with `lead` 2³¹ (section 8.1).
    pub fn has_no_window(&self) -> bool {
        self.trail == Sqn(0) && self.lead == Sqn(0x8000_0000)
    }
}

/// Data, or its repair (section 8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'a> {
    /// Its number.
    pub sqn: Sqn,
    /// The oldest data that can be repaired.
    pub trail: Sqn,
    /// What the application sent, or a fragment of it.
    pub payload: &'a [u8],
}

/// A NAK, a null NAK or a NAK confirmation (section 8.3). Further numbers are in [`super::Options::nak_list`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nak {
    /// The data that is missing. In parity NAKs the low bits are the number of packets wanted, less one (section 11.3.1).
    pub sqn: Sqn,
    /// Where the data comes from.
    pub source: IpAddr,
    /// The group that it was sent to.
    pub group: IpAddr,
}

/// A question to all receivers whose random draw fits (section 14.7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poll {
    /// Its number.
    pub sqn: Sqn,
    /// Round of this number.
    pub round: u16,
    /// What is asked: 0 general, 1 DLR.
    pub sub_type: u16,
    /// Where answers go.
    pub path: IpAddr,
    /// Answers wait a random time up to this, in µs.
    pub back_off_us: u32,
    /// Compared with a draw of the receiver's own …
    pub random: u32,
    /// … in these bits.
    pub mask: u32,
}

/// An answer to a poll (section 14.7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polr {
    /// The poll's number.
    pub sqn: Sqn,
    /// The poll's round.
    pub round: u16,
}

/// An acknowledgement of congestion control (draft-ietf-rmt-bb-pgmcc-03), read for captures only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// The newest data received.
    pub newest: Sqn,
    /// Which of it and the 31 before were received, the newest in the lowest bit.
    pub bitmap: u32,
}

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub enum Body<'a> {
    Spm(Spm),
    Poll(Poll),
    Polr(Polr),
    /// Original data.
    Odata(Data<'a>),
    /// Repair.
    Rdata(Data<'a>),
    /// Request for a repair.
    Nak(Nak),
    /// What a local repairer tells the source: it has repaired this.
    Nnak(Nak),
    /// Confirmation of a NAK.
    Ncf(Nak),
    /// Request for an SPM (appendix C).
    Spmr,
    Ack(Ack),
}

impl<'a> Body<'a> {
    pub(super) fn kind(&self) -> u8 {
        match self {
            Self::Spm(_) => kind::SPM,
            Self::Poll(_) => kind::POLL,
            Self::Polr(_) => kind::POLR,
            Self::Odata(_) => kind::ODATA,
            Self::Rdata(_) => kind::RDATA,
            Self::Nak(_) => kind::NAK,
            Self::Nnak(_) => kind::NNAK,
            Self::Ncf(_) => kind::NCF,
            Self::Spmr => kind::SPMR,
            Self::Ack(_) => kind::ACK,
        }
    }

    /// The RFC's name of the type.
    pub fn name(&self) -> &'static str {
        Self::kind_name(self.kind()).unwrap_or_default()
    }

    /// Whether it travels upstream, where the two ports are swapped (section 8.3).
    pub fn goes_to_source(&self) -> bool {
        kind::goes_to_source(self.kind())
    }

    pub(super) fn kind_name(kind: u8) -> Option<&'static str> {
        const NAMES: [&str; 14] =
            ["SPM", "POLL", "POLR", "", "ODATA", "RDATA", "", "", "NAK", "N-NAK", "NCF", "", "SPMR", "ACK"];
        NAMES.get(usize::from(kind)).copied().filter(|name| !name.is_empty())
    }

    pub(super) fn payload(&self) -> &'a [u8] {
        match self {
            Self::Odata(data) | Self::Rdata(data) => data.payload,
            _ => &[],
        }
    }

    /// Reads what lies before the options; the payload is filled in later.
    pub(super) fn read(kind: u8, reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let data =
            |reader: &mut Reader<'a>| Ok(Data { sqn: Sqn(reader.u32()?), trail: Sqn(reader.u32()?), payload: &[] });
        let nak = |reader: &mut Reader<'a>| {
            Ok(Nak { sqn: Sqn(reader.u32()?), source: nla::read(reader)?, group: nla::read(reader)? })
        };
        Ok(match kind {
            kind::SPM => Self::Spm(Spm {
                sqn: Sqn(reader.u32()?),
                trail: Sqn(reader.u32()?),
                lead: Sqn(reader.u32()?),
                path: nla::read(reader)?,
            }),
            kind::POLL => Self::Poll(Poll {
                sqn: Sqn(reader.u32()?),
                round: reader.u16()?,
                sub_type: reader.u16()?,
                path: nla::read(reader)?,
                back_off_us: reader.u32()?,
                random: reader.u32()?,
                mask: reader.u32()?,
            }),
            kind::POLR => {
                let polr = Polr { sqn: Sqn(reader.u32()?), round: reader.u16()? };
                reader.u16()?;
                Self::Polr(polr)
            }
            kind::ODATA => Self::Odata(data(reader)?),
            kind::RDATA => Self::Rdata(data(reader)?),
            kind::NAK => Self::Nak(nak(reader)?),
            kind::NNAK => Self::Nnak(nak(reader)?),
            kind::NCF => Self::Ncf(nak(reader)?),
            kind::SPMR => Self::Spmr,
            kind::ACK => Self::Ack(Ack { newest: Sqn(reader.u32()?), bitmap: reader.u32()? }),
            kind => return Err(ParseError::Kind(kind)),
        })
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        match self {
            Self::Spm(spm) => {
                writer.words(&[spm.sqn.0, spm.trail.0, spm.lead.0])?;
                nla::write(spm.path, writer)
            }
            Self::Poll(poll) => {
                writer.u32(poll.sqn.0)?;
                writer.u16(poll.round)?;
                writer.u16(poll.sub_type)?;
                nla::write(poll.path, writer)?;
                writer.words(&[poll.back_off_us, poll.random, poll.mask])
            }
            Self::Polr(polr) => {
                writer.u32(polr.sqn.0)?;
                writer.u16(polr.round)?;
                writer.u16(0)
            }
            Self::Odata(data) | Self::Rdata(data) => writer.words(&[data.sqn.0, data.trail.0]),
            Self::Nak(nak) | Self::Nnak(nak) | Self::Ncf(nak) => {
                writer.u32(nak.sqn.0)?;
                nla::write(nak.source, writer)?;
                nla::write(nak.group, writer)
            }
            Self::Spmr => Ok(()),
            Self::Ack(ack) => writer.words(&[ack.newest.0, ack.bitmap]),
        }
    }
}
