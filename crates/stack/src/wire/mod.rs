//! Headers read without copying and written in place.
//!
//! The headers are this crate's own, not smoltcp's: a frame is written from a template that a connection keeps (addresses,
//! ports and the constant part of both checksums are filled in once), and received options are read only where the fixed
//! layout of RFC 7323, appendix A, does not match. smoltcp 0.14 builds each header from a value with all of its fields,
//! holds at most three SACK blocks, and would be the crate's only large dependency.

pub(crate) mod checksum;
pub(crate) mod icmp;
pub(crate) mod ip;
pub(crate) mod tcp;

pub(crate) const PROTOCOL_ICMP: u8 = 1;
pub(crate) const PROTOCOL_TCP: u8 = 6;
pub(crate) const PROTOCOL_UDP: u8 = 17;
pub(crate) const PROTOCOL_ICMP_V6: u8 = 58;

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|pair| u16::from_be_bytes(*pair))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_be_bytes(*four))
}

/// Puts bytes at a place, if inside the buffer. A constant count, so that headers take few moves.
pub(crate) fn put<const COUNT: usize>(bytes: &mut [u8], at: usize, what: &[u8; COUNT]) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = *what;
    }
}

/// The same for any number of bytes.
pub(crate) fn put_slice(bytes: &mut [u8], at: usize, what: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + what.len()) {
        place.copy_from_slice(what);
    }
}
