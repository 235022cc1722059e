//! The readers of PGM: each entry takes any bytes and must neither panic nor hang.

use pgm::packet::{Body, Data, Fragment, Nak, Options, Packet, ParityParameters, Reset, Spm, checksum};
use pgm::{Receiver, ReceiverConfig, Source, SourceConfig, Sqn, Tsi, fec, zmtp};
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

/// ZeroMQ's framing: pieces of a length byte each, whose lowest bit marks a loss before. What is unframed frames alike.
pub fn zmtp(mut script: &[u8]) {
    let mut unframer = zmtp::Unframer::default();
    let mut whole = Vec::new();
    while let Some((&length, rest)) = script.split_first() {
        let (piece, rest) = rest.split_at(usize::from(length).min(rest.len()));
        script = rest;
        if length & 1 == 1 {
            unframer.lost();
        }
        unframer.take(piece, |message| {
            assert_eq!(message.frames.iter().sum::<usize>(), message.bytes.len());
            whole.push(message.bytes.to_vec());
        });
    }
    let (mut again, mut out, mut unframer) = (Vec::new(), Vec::new(), zmtp::Unframer::default());
    for message in &whole {
        let _ = zmtp::frame(message, 100, &mut out, |piece| {
            unframer.take(piece, |message| again.push(message.bytes.to_vec()));
            Ok::<(), ()>(())
        });
    }
    assert_eq!(whole, again);
}

/// A checksum that is right, so that the bytes behind it are looked at.
pub fn mend(bytes: &mut [u8]) {
    if let Some(place) = bytes.get_mut(6..8) {
        place.fill(0);
    }
    let sum = checksum(bytes).to_be_bytes();
    if let Some(place) = bytes.get_mut(6..8) {
        place.copy_from_slice(&sum);
    }
}

/// Both engines, without and with parity: steps of a kind byte, a length byte, and as many bytes of a datagram.
pub fn engines(script: &[u8]) {
    let source = SourceConfig { window_packets: 16, ..SourceConfig::new(Tsi::default(), 7500, GROUP, ADDRESS) };
    let receiver = ReceiverConfig { window_packets: 16, max_sources: 2, ..ReceiverConfig::new(7500, GROUP, 1) };
    play(script, source, receiver);
    let fec = fec::Config {
        group_packets: 4,
        proactive_packets: 1,
        group_pause_ns: Some(1_000_000),
        parity_for_selective: script.first().is_some_and(|first| first & 1 == 1),
        ..fec::Config::default()
    };
    // Messages of more than one packet, so that groups have fragments too.
    let source = SourceConfig { max_packet_bytes: 400, fec: Some(fec), ..source };
    play(script, source, ReceiverConfig { parity: true, ..receiver });
}

/// A packet that means something to the engines: any bytes seldom do. The first five say what it is.
fn forge(bytes: &[u8]) -> Vec<u8> {
    let &[kind, sqn, bits, number, size, ref payload @ ..] = bytes else { return Vec::new() };
    let sqn = Sqn(u32::from(sqn)).plus(16_u32.wrapping_neg());
    let data = Data { sqn, trail: Sqn(0).plus(u32::from(kind >> 3)).plus(16_u32.wrapping_neg()), payload };
    let nak = Nak { sqn, source: ADDRESS, group: GROUP };
    let bit = |at: u8| bits >> at & 1 == 1;
    let body = match kind & 7 {
        0..=2 => Body::Odata(data),
        3 | 4 => Body::Rdata(data),
        5 => Body::Ncf(nak),
        6 => Body::Nak(nak),
        _ => Body::Spm(Spm { sqn: Sqn(u32::from(number)), trail: data.trail, lead: sqn, path: ADDRESS }),
    };
    let fragment = Fragment { first: sqn.plus(u32::from(number >> 6).wrapping_neg()), offset: 0, length: 64 };
    let options = Options {
        parity: bit(0),
        variable_length: bit(1),
        parity_group: bit(2).then_some(u32::from(number)),
        current_group_size: bit(3).then_some(u32::from(size & 7)),
        fragment: (bit(4) && !bit(0)).then_some(fragment),
        encoded_fragment: (bit(4) && bit(0)).then_some([number; 13]),
        parity_parameters: bit(5).then_some(ParityParameters { proactive: bit(6), on_demand: bit(7), group_size: 4 }),
        fin: size == u8::MAX,
        reset: (size == 0xfe).then_some(Reset { naks_unanswered: number & 1 == 1, code: 1 }),
        join: (size & 0xf0 == 0xe0).then_some(Sqn(u32::from(number)).plus(16_u32.wrapping_neg())),
        ..Options::default()
    };
    let mut out = vec![0; 1500];
    let packet = Packet { tsi: Tsi::default(), data_port: 7500, body, options };
    let length = packet.write(&mut out).unwrap_or(0);
    out.truncate(length);
    out
}

fn play(mut script: &[u8], source: SourceConfig, receiver: ReceiverConfig) {
    let (Ok(mut source), Ok(mut receiver)) = (Source::new(source, 0), Receiver::new(receiver)) else { return };
    let mut now = 0_u64;
    let mut buffer = [0; 1500];
    while let Some((&[what, much], rest)) = script.split_first_chunk::<2>() {
        let (datagram, rest) = rest.split_at(usize::from(much).min(rest.len()));
        script = rest;
        match what % 7 {
            0 => now = now.saturating_add(u64::from(much) * 100_000),
            1 => now = now.saturating_add(u64::from(much) << 32),
            2 => drop(source.send(&datagram.repeat(1 + usize::from(what >> 3 & 3)))),
            3 | 4 | 6 => {
                let mut datagram = if what % 7 == 6 { forge(datagram) } else { datagram.to_vec() };
                mend(&mut datagram);
                let _ = source.handle_datagram(now, &datagram);
                let _ = receiver.handle_datagram(now, ADDRESS, &datagram);
            }
            _ if much == u8::MAX => source.abort(what),
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
