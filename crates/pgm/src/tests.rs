//! What the tests of several modules have in common.

use crate::packet::Packet;
use crate::{Gsi, Tsi};
use std::net::IpAddr;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const TSI: Tsi = Tsi { gsi: Gsi([1, 2, 3, 4, 5, 6]), port: 999 };

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn written(packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = vec![0xee; 70_000];
    let length = packet.write(&mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}
