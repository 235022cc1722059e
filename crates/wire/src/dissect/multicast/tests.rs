//! Which packets are PGM, and what is found in them.

use super::*;
use crate::dissect::tests::{ip, udp};
use crate::dissect::{Link, Message, Recognised, Recogniser, packet};
use pgm::packet::{Data, Fragment, Nak, NakList, Options, ParseError, Spm};
use pgm::{Gsi, Sqn};
use std::net::SocketAddr;

const TSI: Tsi = Tsi { gsi: Gsi([1, 2, 3, 4, 5, 6]), port: 4321 };
const OTHER: Tsi = Tsi { gsi: Gsi([9, 2, 3, 4, 5, 6]), port: 4321 };

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn made(tsi: Tsi, body: Body<'_>, options: Options<'_>) -> Vec<u8> {
    let mut bytes = vec![0; 2000];
    let length = pgm::packet::Packet { tsi, data_port: 7500, body, options }.write(&mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

fn spm() -> Vec<u8> {
    let spm = Spm { sqn: Sqn(1), trail: Sqn(0), lead: Sqn(7), path: [192, 0, 2, 1].into() };
    made(TSI, Body::Spm(spm), Options::default())
}

fn odata(tsi: Tsi, sqn: u32, seq: u64, tag: u64, stamped: bool) -> Vec<u8> {
    let mut payload = vec![0; 64];
    crate::data::write(seq, tag, &mut payload);
    if stamped {
        crate::data::write_ticks(1000, 1500, &mut payload);
    }
    made(tsi, Body::Odata(Data { sqn: Sqn(sqn), trail: Sqn(0), payload: &payload }), Options::default())
}

/// Looks at one datagram on a port.
fn look(memory: &mut Recogniser, port: u16, payload: &[u8]) -> Recognised<'static> {
    let bytes = udp(at("192.0.2.1:40000"), SocketAddr::new([239, 192, 0, 1].into(), port), payload).leak();
    memory.look(&packet(Link::RawIp, bytes, bytes.len()).unwrap(), None)
}

fn sighted(found: Recognised<'static>) -> Sighted<'static> {
    match found.message {
        Message::Pgm(sighted) => *sighted,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_agreed_ports_and_the_named_ones_are_pgm() {
    let mut memory = Recogniser::default().with_pgm_ports(&[9000]);
    for port in [3055, 3056, 9000] {
        let found = look(&mut memory, port, &spm());
        assert!(found.forward && found.flow == FlowId(0));
        assert_eq!(
            (sighted(found).packet.sum, sighted(look(&mut memory, port, &spm())).packet.head.tsi),
            (Sum::Good, TSI)
        );
    }
    // What is no PGM there is looked at as ever; damage is shown.
    assert_eq!(look(&mut memory, 3056, b"hello").message, Message::Foreign);
    let mut bad = spm();
    bad[20] ^= 1;
    assert_eq!(sighted(look(&mut memory, 3056, &bad)).packet.sum, Sum::Bad);
    let nak = Nak { sqn: Sqn(5), source: [192, 0, 2, 1].into(), group: [239, 192, 0, 1].into() };
    let mut looped = made(TSI, Body::Nak(nak), Options { nak_list: NakList::Numbers(&[Sqn(6)]), ..Options::default() });
    looped[41] = 0;
    let found = look(&mut memory, 3056, &looped);
    assert!(matches!(sighted(found).packet.packet, Err(ParseError::OptionLength { length: 0, .. })));
}

/// The first packet of a session is an SPM, which names the address that it comes from.
#[test]
fn another_port_is_learned_by_one_spm_from_its_own_path() {
    let mut memory = Recogniser::default();
    assert!(matches!(look(&mut memory, 5555, &spm()).message, Message::Pgm(_)));
    assert!(matches!(look(&mut memory, 5555, &odata(OTHER, 0, 0, 0, false)).message, Message::Pgm(_)));
}

#[test]
fn another_port_is_learned_by_two_sound_packets_of_one_source() {
    let spm = || {
        let spm = Spm { sqn: Sqn(1), trail: Sqn(0), lead: Sqn(7), path: [192, 0, 2, 99].into() };
        made(TSI, Body::Spm(spm), Options::default())
    };
    let mut memory = Recogniser::default();
    assert_eq!(look(&mut memory, 5555, &spm()).message, Message::Foreign);
    let mut bad = spm();
    bad[20] ^= 1;
    assert_eq!(look(&mut memory, 5555, &bad).message, Message::Foreign, "a wrong checksum counts for nothing");
    let mut unsummed = spm();
    unsummed[6..8].fill(0);
    assert_eq!(look(&mut memory, 5555, &unsummed).message, Message::Foreign, "nor does none");
    assert_eq!(look(&mut memory, 5555, &odata(OTHER, 0, 0, 0, false)).message, Message::Foreign, "another source");
    assert_eq!(look(&mut memory, 5555, &spm()).message, Message::Foreign);
    assert!(matches!(look(&mut memory, 5555, &spm()).message, Message::Pgm(_)));
    assert!(matches!(look(&mut memory, 5555, &unsummed).message, Message::Pgm(_)));
    assert_eq!(look(&mut memory, 5555, &bad[..30]).message, Message::Foreign, "what is unsound is not believed here");
    assert_eq!(look(&mut memory, 5556, &spm()).message, Message::Foreign, "another port");
}

#[test]
fn our_own_flows_are_never_taken_for_pgm() {
    let mut memory = Recogniser::default();
    look(&mut memory, 7413, &crate::data::prove(&crate::control::Token([3; 16])));
    for _ in 0..4 {
        assert!(matches!(look(&mut memory, 7413, &spm()).message, Message::Data { .. }));
    }
}

#[test]
fn protocol_113_is_pgm_and_may_be_cut() {
    let mut memory = Recogniser::default();
    let whole = odata(TSI, 7, 1, 9, false);
    for (from, to) in [("192.0.2.1:0", "239.192.0.1:0"), ("[2001:db8::1]:0", "[ff05::7]:0")] {
        let bytes = ip(at(from), at(to), 113, &whole).leak();
        let found = sighted(memory.look(&packet(Link::RawIp, bytes, bytes.len()).unwrap(), None));
        assert_eq!((found.packet.sum, found.packet.packet.unwrap().sqn()), (Sum::Good, Some(Sqn(7))));
        let cut = &bytes[..bytes.len() - 20];
        let found = sighted(memory.look(&packet(Link::RawIp, cut, bytes.len()).unwrap(), None));
        assert_eq!((found.packet.sum, found.packet.packet.unwrap().sqn()), (Sum::Cut, Some(Sqn(7))));
    }
    // Nothing of PGM there.
    let bytes = ip(at("192.0.2.1:0"), at("239.192.0.1:0"), 113, &[1; 9]).leak();
    assert_eq!(memory.look(&packet(Link::RawIp, bytes, bytes.len()).unwrap(), None).message, Message::Foreign);
}

#[test]
fn our_messages_in_the_data_are_found_and_answers_told_from_them() {
    let mut memory = Recogniser::default();
    let mut carried = |bytes: Vec<u8>| sighted(look(&mut memory, 3056, &bytes)).carried;
    assert_eq!(carried(odata(TSI, 0, 100, 77, false)), None);
    assert_eq!(carried(odata(TSI, 1, 101, 77, false)), None);
    let expected = Carried { seq: 103, tag: 77, answer: false, far: None };
    assert_eq!(carried(odata(TSI, 3, 103, 77, false)), Some(expected));
    assert_eq!(carried(odata(TSI, 2, 102, 77, false)), Some(Carried { seq: 102, ..expected }), "late");
    // A reflector's are known at once.
    let answer = carried(odata(OTHER, 0, 100, 77, true)).unwrap();
    assert!(answer.answer && answer.far.is_some_and(|far| far.tx - far.rx == 500), "{answer:?}");
    // The token that proves a path is told apart.
    let token = crate::data::prove(&crate::control::Token([3; 16]));
    let data = Data { sqn: Sqn(4), trail: Sqn(0), payload: &token };
    let proof = sighted(look(&mut memory, 3056, &made(TSI, Body::Odata(data), Options::default())));
    assert!(proof.proof && proof.carried.is_none());
    let mut carried = |bytes: Vec<u8>| sighted(look(&mut memory, 3056, &bytes)).carried;
    let first = Carried { seq: 0, tag: 78, answer: false, far: None };
    assert_eq!(carried(odata(TSI, 5, 0, 78, false)), Some(first), "what follows a proof is ours at once");
    // The rest of a message has no header, and others' messages have none of ours.
    let rest = Fragment { first: Sqn(4), offset: 64, length: 128 };
    let data = Data { sqn: Sqn(5), trail: Sqn(0), payload: &[7; 64] };
    assert_eq!(carried(made(TSI, Body::Odata(data), Options { fragment: Some(rest), ..Options::default() })), None);
    for sqn in 0..5 {
        let data = Data { sqn: Sqn(sqn), trail: Sqn(0), payload: &[7; 64] };
        let strange = Tsi { port: 1, ..TSI };
        assert_eq!(carried(made(strange, Body::Odata(data), Options::default())), None);
    }
}

proptest::proptest! {
    #[test]
    fn damaged_packets_are_read_or_refused(
        list in proptest::collection::vec(proptest::num::u32::ANY, 0..62),
        fragment in proptest::option::of(proptest::num::u32::ANY),
        raw in proptest::bool::ANY,
        changes in proptest::collection::vec((proptest::num::usize::ANY, proptest::num::u8::ANY), 0..6),
        length in proptest::num::usize::ANY,
    ) {
        let numbers: Vec<Sqn> = list.into_iter().map(Sqn).collect();
        let options = Options {
            nak_list: NakList::Numbers(&numbers),
            fragment: fragment.map(|first| Fragment { first: Sqn(first), offset: 0, length: 100 }),
            ..Options::default()
        };
        let nak = Nak { sqn: Sqn(5), source: [192, 0, 2, 1].into(), group: [239, 192, 0, 1].into() };
        let inside = made(TSI, Body::Nak(nak), options);
        let (from, to) = (at("192.0.2.2:3056"), at("192.0.2.1:3056"));
        let mut bytes = if raw { ip(from, to, 113, &inside) } else { udp(from, to, &inside) };
        for (place, byte) in changes {
            let place = place % bytes.len();
            bytes[place] = byte;
        }
        let sent = bytes.len();
        bytes.truncate(length % (sent + 1));
        crate::exercise::dissect(&bytes);
        if let Ok(found) = packet(Link::RawIp, &bytes, sent) {
            Recogniser::default().look(&found, None);
        }
    }
}
