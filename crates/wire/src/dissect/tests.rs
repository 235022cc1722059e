//! Frames made byte by byte, and what must be read from them.

use super::*;
use crate::control::{ClientMessage, Token};
use crate::data::{self, FarStamps, Tier};
use crate::frame;
use proptest::prelude::*;
use std::net::SocketAddr;

/// An IPv4 or IPv6 packet with UDP.
pub(crate) fn udp(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend(from.port().to_be_bytes());
    datagram.extend(to.port().to_be_bytes());
    datagram.extend(u16::try_from(payload.len() + 8).unwrap().to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    ip(from, to, 17, &datagram)
}

/// The same with TCP.
pub(crate) fn tcp(from: SocketAddr, to: SocketAddr, seq: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(from.port().to_be_bytes());
    segment.extend(to.port().to_be_bytes());
    segment.extend(seq.to_be_bytes());
    segment.extend([0, 0, 0, 0, 0x80, flags, 1, 0, 0, 0, 0, 0]);
    // Twelve bytes of options.
    segment.extend([1; 12]);
    segment.extend(payload);
    ip(from, to, 6, &segment)
}

pub(crate) fn ip(from: SocketAddr, to: SocketAddr, protocol: u8, inside: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    match (from, to) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => {
            packet.extend([0x45, 0]);
            packet.extend(u16::try_from(inside.len() + 20).unwrap().to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            packet.extend(from.ip().octets());
            packet.extend(to.ip().octets());
        }
        (SocketAddr::V6(from), SocketAddr::V6(to)) => {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend(u16::try_from(inside.len()).unwrap().to_be_bytes());
            packet.extend([protocol, 63]);
            packet.extend(from.ip().octets());
            packet.extend(to.ip().octets());
        }
        _ => panic!("two families"),
    }
    packet.extend(inside);
    packet
}

pub(crate) fn ethernet(ip: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend(if ip[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] });
    frame.extend(ip);
    frame
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

const A: &str = "192.0.2.1:5000";
const B: &str = "192.0.2.2:7413";
const A6: &str = "[2001:db8::1]:5000";
const B6: &str = "[2001:db8::2]:7413";

fn message(seq: u64, tag: u64, size: usize) -> Vec<u8> {
    let mut message = vec![0; size];
    data::write(seq, tag, &mut message);
    message
}

#[test]
fn every_link_layer_leads_to_the_same_packet() {
    let inside = udp(at(A), at(B), b"hello");
    let mut tagged = vec![2; 12];
    tagged.extend([0x88, 0xa8, 0, 7, 0x81, 0, 0xe0, 42, 0x08, 0]);
    tagged.extend(&inside);
    let cooked = [&[0; 14][..], &[8, 0], &inside].concat();
    let cooked2 = [&[8, 0][..], &[0; 18], &inside].concat();
    let loopback = [&[2, 0, 0, 0][..], &inside].concat();
    for (link, frame, vlan) in [
        (Link::RawIp, inside.clone(), None),
        (Link::Ethernet, ethernet(&inside), None),
        (Link::Ethernet, tagged, Some(42)),
        (Link::Cooked, cooked, None),
        (Link::Cooked2, cooked2, None),
        (Link::Loopback, loopback, None),
    ] {
        let found = packet(link, &frame, frame.len()).unwrap();
        assert_eq!((found.source, found.destination, found.vlan), (at(A), at(B), vlan), "{link:?}");
        assert_eq!((found.transport, found.payload, found.payload_bytes), (Transport::Udp, &b"hello"[..], 5));
        assert_eq!(found.ttl, 64);
    }
    let six = udp(at(A6), at(B6), b"hello");
    let found = packet(Link::RawIp, &six, six.len()).unwrap();
    assert_eq!((found.source, found.destination, found.ttl), (at(A6), at(B6), 63));
}

#[test]
fn padding_is_no_payload_and_a_cut_payload_keeps_its_length() {
    let mut frame = ethernet(&udp(at(A), at(B), b"hi"));
    frame.resize(60, 0xee);
    assert_eq!(packet(Link::Ethernet, &frame, 60).unwrap().payload, b"hi");
    let whole = ethernet(&udp(at(A), at(B), &[7; 1000]));
    let found = packet(Link::Ethernet, &whole[..100], whole.len()).unwrap();
    assert_eq!((found.payload.len(), found.payload_bytes), (58, 1000));
    let stream = ethernet(&tcp(at(A), at(B), 1, 0x18, &[7; 1000]));
    let found = packet(Link::Ethernet, &stream[..70], stream.len()).unwrap();
    assert_eq!((found.payload.len(), found.payload_bytes), (4, 1000));
}

#[test]
fn what_is_no_message_says_why() {
    let frame = [&[2; 12][..], &[0x08, 0x06], &[0; 28]].concat();
    assert_eq!(packet(Link::Ethernet, &frame, 42), Err(Undecoded::NotIp(0x0806)));
    let whole = ethernet(&udp(at(A), at(B), b"hello"));
    for (length, part) in
        [(0, "link header"), (13, "link header"), (14, "IP header"), (33, "IPv4 header"), (41, "UDP header")]
    {
        assert_eq!(packet(Link::Ethernet, &whole[..length], whole.len()), Err(Undecoded::Cut(part)), "{length}");
    }
    let mut bad = whole;
    bad[14] = 0x42;
    assert_eq!(packet(Link::Ethernet, &bad, bad.len()), Err(Undecoded::Bad("IPv4 header length")));
    bad[14] = 0x95;
    assert_eq!(packet(Link::Ethernet, &bad, bad.len()), Err(Undecoded::Bad("IP version")));
}

#[test]
fn fragments_are_told_apart() {
    let mut first = udp(at(A), at(B), &[7; 100]);
    first[6] = 0x20;
    let found = packet(Link::RawIp, &first, first.len()).unwrap();
    assert!(found.first_fragment && found.transport == Transport::Udp);
    first[7] = 5;
    let found = packet(Link::RawIp, &first, first.len()).unwrap();
    assert_eq!((found.transport, found.source.port()), (Transport::Fragment, 0));
    // IPv6: a fragment header of 8 bytes before UDP.
    let plain = udp(at(A6), at(B6), &[7; 100]);
    let with = |place: u16| {
        let mut made = plain[..40].to_vec();
        made[5] += 8;
        made[6] = 44;
        made.extend([17, 0]);
        made.extend(place.to_be_bytes());
        made.extend([0; 4]);
        made.extend(&plain[40..]);
        made
    };
    let made = with(1);
    let found = packet(Link::RawIp, &made, made.len()).unwrap();
    assert!(found.first_fragment && found.transport == Transport::Udp && found.payload_bytes == 100);
    let made = with(0x0100);
    assert_eq!(packet(Link::RawIp, &made, made.len()).unwrap().transport, Transport::Fragment);
}

/// Looks at one datagram.
fn look(memory: &mut Recogniser, from: &str, to: &str, payload: &[u8], leaving: Option<bool>) -> Recognised<'static> {
    let made = udp(at(from), at(to), payload).leak();
    memory.look(&packet(Link::RawIp, made, made.len()).unwrap(), leaving)
}

#[test]
fn a_proof_makes_a_flow_ours_in_both_directions() {
    let mut memory = Recogniser::default();
    // The answer of an earlier exchange was seen first.
    assert_eq!(look(&mut memory, B, A, &message(1, 9, 32), None).message, Message::Foreign);
    let proof = look(&mut memory, A, B, &data::prove(&Token([3; 16])), None);
    assert_eq!((proof.message, proof.forward), (Message::Proof, true));
    let there = look(&mut memory, A, B, &message(7, 9, 32), None);
    let expected = Message::Data { tier: Tier::Tagged, seq: Some(7), tag: Some(9), far: None };
    assert_eq!((there.message, there.forward), (expected.clone(), true));
    let back = look(&mut memory, B, A, &message(7, 9, 32), None);
    assert_eq!((back.message, back.forward, back.flow), (expected, false, there.flow));
    // Short messages have short numbers.
    for seq in 250..260_u64 {
        let low = u8::try_from(seq % 256).unwrap();
        let found = look(&mut memory, A, B, &[low], None);
        assert_eq!(found.message, Message::Data { tier: Tier::Truncated(1), seq: Some(seq), tag: None, far: None });
    }
    let empty = look(&mut memory, A, B, &[], None);
    assert_eq!(empty.message, Message::Data { tier: Tier::Nothing, seq: None, tag: None, far: None });
}

#[test]
fn an_answer_tells_what_the_reflector_stamped() {
    let mut memory = Recogniser::default();
    look(&mut memory, A, B, &data::prove(&Token([3; 16])), None);
    let wall = 1_800_000_000_000_000_000;
    let all = FarStamps { rx: 1000, tx: 1500, stack_ns: wall, received_ns: wall + 10, sent_ns: wall + 30 };
    let mut answer = message(1, 9, 64);
    data::write_stamps(&all, &mut answer);
    let stamps = |found: Recognised<'_>| match found.message {
        Message::Data { far, .. } => far,
        other => panic!("{other:?}"),
    };
    assert_eq!(stamps(look(&mut memory, B, A, &answer, None)), Some(all));
    assert_eq!(stamps(look(&mut memory, A, B, &answer, None)), None, "a question has none");
    let ticks = FarStamps { rx: 1000, tx: 1500, ..FarStamps::default() };
    assert_eq!(stamps(look(&mut memory, B, A, &answer[..32], None)), Some(ticks));
    assert_eq!(stamps(look(&mut memory, B, A, &message(1, 9, 64), None)), None, "an echo has zeros");
    data::write_ticks(1500, 1000, &mut answer);
    assert_eq!(stamps(look(&mut memory, B, A, &answer, None)), None, "sent before it was received");
}

#[test]
fn without_a_proof_numbers_and_tags_tell_after_a_while_or_the_port_at_once() {
    let mut memory = Recogniser::default();
    let kinds: Vec<bool> = (10..16)
        .map(|seq| matches!(look(&mut memory, A, B, &message(seq, 9, 40), None).message, Message::Data { .. }))
        .collect();
    assert_eq!(kinds, [false, false, true, true, true, true]);
    let mut memory = Recogniser::default();
    assert!((0..100_u64).all(|_| look(&mut memory, A, B, &[0; 64], None).message == Message::Foreign), "no numbers");
    let mut memory = Recogniser::new(vec![7413]);
    assert!(matches!(look(&mut memory, B, A, &message(1, 2, 40), None).message, Message::Data { seq: Some(1), .. }));
}

#[test]
fn answers_of_a_multicast_group_belong_to_the_flow_of_its_questions() {
    let mut memory = Recogniser::default();
    let proof = look(&mut memory, A, "239.1.2.3:7413", &data::prove(&Token([3; 16])), None);
    let back = look(&mut memory, B, "239.1.2.3:5000", &message(1, 9, 32), None);
    assert_eq!((back.flow, back.forward), (proof.flow, false));
}

fn segment(
    memory: &mut Recogniser,
    from: &str,
    to: &str,
    seq: u32,
    payload: &[u8],
    leaving: Option<bool>,
) -> Recognised<'static> {
    let made = tcp(at(from), at(to), seq, 0x18, payload).leak();
    memory.look(&packet(Link::RawIp, made, made.len()).unwrap(), leaving)
}

#[test]
fn control_messages_are_named_also_when_they_are_cut_or_keyed() {
    let mut memory = Recogniser::default();
    let start = serde_json::to_vec(&ClientMessage::Start { size: 1, response_size: 1, explain: false }).unwrap();
    let stop = serde_json::to_vec(&ClientMessage::Stop).unwrap();
    let frame = |payload: &[u8]| frame::encode(payload, frame::CONTROL_LIMIT).unwrap();
    let names = |found: Recognised<'_>| match found.message {
        Message::Control(names) => names.join(" "),
        other => panic!("{other:?}"),
    };
    let both = [frame(&start), frame(&stop)].concat();
    assert_eq!(names(segment(&mut memory, A, B, 1, &both, None)), "start stop");
    let keyed = [frame(&start), vec![0x5a; 16], frame(&stop), vec![0x5a; 16]].concat();
    assert_eq!(names(segment(&mut memory, A, B, 1000, &keyed, None)), "start stop");
    let cut = frame(&start);
    assert_eq!(names(segment(&mut memory, A, B, 2000, &cut[..22], None)), "start");
    assert_eq!(names(segment(&mut memory, A, B, 3000, b"more of it", None)), "");
    // What is no control message is somebody else's.
    let other = segment(&mut memory, A, "192.0.2.3:80", 1, b"GET / HTTP/1.1\r\n", None);
    assert_eq!(other.message, Message::Foreign);
}

#[test]
fn the_endpoint_is_no_initiator_although_it_speaks_first() {
    let mut memory = Recogniser::default();
    let hello = b"\0\0\0\x40{\"type\":\"server-hello\",\"versions\"";
    assert!(!segment(&mut memory, B, A, 1, hello, None).forward);
    assert!(segment(&mut memory, A, B, 1, b"\0\0\0\x40{\"type\":\"client-hello\"", None).forward);
}

#[test]
fn messages_of_a_stream_begin_where_the_tag_is() {
    let mut memory = Recogniser::default();
    let proof = segment(&mut memory, A, B, 100, &data::prove(&Token([3; 16])), None);
    assert_eq!(proof.message, Message::Proof);
    let first = segment(&mut memory, A, B, 120, &message(1, 9, 1000), None);
    assert_eq!(first.message, Message::Data { tier: Tier::Tagged, seq: Some(1), tag: Some(9), far: None });
    assert_eq!(segment(&mut memory, A, B, 1120, &[0; 500], None).message, Message::More);
    let second = segment(&mut memory, A, B, 1620, &message(2, 9, 1000), None);
    assert!(matches!(second.message, Message::Data { seq: Some(2), .. }) && !second.again);
    assert!(segment(&mut memory, A, B, 1620, &message(2, 9, 1000), None).again);
    assert_eq!(segment(&mut memory, B, A, 1, &[], None).message, Message::Nothing);
}

#[test]
fn flows_of_a_stream_are_ours_but_have_numbers_in_datagrams_only() {
    let mut memory = Recogniser::default();
    let proof = crate::stream::prove(&Token([3; 16]), 1);
    assert_eq!(segment(&mut memory, A, B, 1, &proof, None).message, Message::Proof);
    assert_eq!(segment(&mut memory, B, A, 1, &message(1, 9, 1000), None).message, Message::More);
    assert_eq!(look(&mut memory, A, B, &proof, None).message, Message::Proof);
    let mut datagram = vec![0; 64];
    crate::stream::write(5, 9, 1000, &mut datagram);
    datagram[24..32].copy_from_slice(&1500_u64.to_le_bytes());
    let down = look(&mut memory, B, A, &datagram, None);
    let expected = Message::Data { tier: Tier::Tagged, seq: Some(5), tag: Some(9), far: None };
    assert_eq!((down.message, down.forward), (expected, false));
}

#[test]
fn a_segment_seen_leaving_and_arriving_is_no_repetition() {
    let mut memory = Recogniser::default();
    for seq in [100, 120, 140] {
        for leaving in [Some(true), Some(false)] {
            assert!(!segment(&mut memory, A, B, seq, &[1; 20], leaving).again);
        }
    }
    assert!(segment(&mut memory, A, B, 120, &[1; 20], Some(true)).again);
    // Around the end of the numbers.
    for seq in [u32::MAX - 5, 14] {
        assert!(!segment(&mut memory, A, "192.0.2.3:1", seq, &[1; 20], None).again, "{seq}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_taken_apart_or_refused(bytes: Vec<u8>, sent in 0usize..2000) {
        crate::exercise::dissect(&bytes);
        let _ = packet(Link::Ethernet, &bytes, sent);
    }

    #[test]
    fn damaged_frames_are_taken_apart_or_refused(
        seq: u64,
        size in 0usize..80,
        stream: bool,
        six: bool,
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..6),
        length: usize,
    ) {
        let (from, to) = if six { (at(A6), at(B6)) } else { (at(A), at(B)) };
        let payload = message(seq, 9, size);
        let mut made = ethernet(&if stream { tcp(from, to, 1, 0x18, &payload) } else { udp(from, to, &payload) });
        for (place, byte) in changes {
            let place = place % made.len();
            made[place] = byte;
        }
        let whole = made.len();
        made.truncate(length % (whole + 1));
        crate::exercise::dissect(&made);
        if let Ok(found) = packet(Link::Ethernet, &made, whole) {
            prop_assert!(found.payload.len() <= made.len());
            Recogniser::default().look(&found, None);
        }
    }
}
