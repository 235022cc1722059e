//! Entry points for fuzzing: each takes any bytes and must neither panic nor hang. Not part of the public interface.
#![doc(hidden)]

use crate::packet::{Packet, checksum};
use crate::{Receiver, ReceiverConfig, Source, SourceConfig, Tsi};
use std::net::{IpAddr, Ipv4Addr};

const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 192, 0, 1));
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// One packet: what can be read can be written, and is the same again.
pub fn packet(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    mend(&mut bytes);
    let Ok(packet) = Packet::parse(&bytes) else { return };
    let mut buffer = vec![0; 70_000];
    let length = packet.write(&mut buffer).unwrap_or(0);
    assert_eq!(Packet::parse(buffer.get(..length).unwrap_or_default()).map(known), Ok(known(packet)));
}

/// Options of unknown types are not written again.
fn known(mut packet: Packet<'_>) -> Packet<'_> {
    packet.options.unknown = 0;
    packet
}

/// A checksum that is right, so that the bytes behind it are looked at.
fn mend(bytes: &mut [u8]) {
    if let Some(place) = bytes.get_mut(6..8) {
        place.fill(0);
    }
    let sum = checksum(bytes).to_be_bytes();
    if let Some(place) = bytes.get_mut(6..8) {
        place.copy_from_slice(&sum);
    }
}

/// Both engines: a script of steps, each a byte that says what, a byte that says how much, and as many bytes of a datagram.
pub fn engines(mut script: &[u8]) {
    let source = SourceConfig { window_packets: 16, ..SourceConfig::new(Tsi::default(), 7500, GROUP, ADDRESS) };
    let receiver = ReceiverConfig { window_packets: 16, max_sources: 2, ..ReceiverConfig::new(7500, GROUP, 1) };
    let (Ok(mut source), Ok(mut receiver)) = (Source::new(source, 0), Receiver::new(receiver)) else { return };
    let mut now = 0_u64;
    let mut buffer = [0; 1500];
    while let Some((&[what, much], rest)) = script.split_first_chunk::<2>() {
        let (datagram, rest) = rest.split_at(usize::from(much).min(rest.len()));
        script = rest;
        match what % 6 {
            0 => now = now.saturating_add(u64::from(much) * 100_000),
            1 => now = now.saturating_add(u64::from(much) << 32),
            2 => drop(source.send(datagram)),
            3 | 4 => {
                let mut datagram = datagram.to_vec();
                mend(&mut datagram);
                let _ = source.handle_datagram(now, &datagram);
                let _ = receiver.handle_datagram(now, ADDRESS, &datagram);
            }
            _ => source.close(),
        }
        receiver.handle_timeout(now);
        // What the source sends reaches the receiver and the other way round, unless the script loses it.
        for _ in 0..64 {
            let Some(out) = source.poll_transmit(now, &mut buffer) else { break };
            if what & 0x40 == 0 {
                let _ = receiver.handle_datagram(now, ADDRESS, buffer.get(..out.length).unwrap_or_default());
            }
        }
        for _ in 0..64 {
            let Some(out) = receiver.poll_transmit(now, &mut buffer) else { break };
            if what & 0x80 == 0 {
                let _ = source.handle_datagram(now, buffer.get(..out.length).unwrap_or_default());
            }
        }
        while receiver.next_message(&mut buffer).is_some() {}
        while receiver.poll_event().is_some() {}
        let _ = (source.poll_timeout(now), receiver.poll_timeout());
    }
}
