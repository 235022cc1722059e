//! Network-layer addresses.

use super::bytes::{Reader, Writer};
use super::{ParseError, WriteError};
use std::net::IpAddr;

// Address family numbers of IANA (RFC 3208, section 8, refers to RFC 1700).
const IPV4: u16 = 1;
const IPV6: u16 = 2;

/// Family, two reserved bytes, address.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<IpAddr, ParseError> {
    let family = reader.u16()?;
    reader.u16()?;
    match family {
        IPV4 => Ok(IpAddr::from(*reader.array::<4>()?)),
        IPV6 => Ok(IpAddr::from(*reader.array::<16>()?)),
        family => Err(ParseError::Family(family)),
    }
}

pub(super) fn write(address: IpAddr, writer: &mut Writer<'_>) -> Result<(), WriteError> {
    match address {
        IpAddr::V4(address) => {
            writer.u16(IPV4)?;
            writer.u16(0)?;
            writer.bytes(&address.octets())
        }
        IpAddr::V6(address) => {
            writer.u16(IPV6)?;
            writer.u16(0)?;
            writer.bytes(&address.octets())
        }
    }
}
