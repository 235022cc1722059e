//! Packets there and back, packets by hand, and packets that are none.

use super::*;
use crate::exercise::mend;
use crate::tests::{TSI, address, written};
use proptest::prelude::*;
use std::net::IpAddr;

fn packet<'a>(body: Body<'a>, options: Options<'a>) -> Packet<'a> {
    Packet { tsi: TSI, data_port: 7500, body, options }
}

fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    mend(&mut bytes);
    bytes
}

#[test]
fn an_spm_is_what_the_picture_of_section_8_1_shows() {
    let spm = Spm { sqn: Sqn(9), trail: Sqn(1), lead: Sqn(0xffff_ffff), path: address("10.77.0.1") };
    let bytes = written(&packet(Body::Spm(spm), Options::default()));
    #[rustfmt::skip]
    let expected = [
        0x03, 0xe7, 0x1d, 0x4c, 0x00, 0x00, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0,
        0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0, 10, 77, 0, 1,
    ];
    assert_eq!(bytes, with_checksum(expected.to_vec()));
    assert!(!spm.has_no_window() && Spm { trail: Sqn(0), lead: Sqn(1 << 31), ..spm }.has_no_window());
}

#[test]
fn ports_are_swapped_on_the_way_to_the_source() {
    let nak = Nak { sqn: Sqn(5), source: address("10.0.0.1"), group: address("239.192.0.1") };
    for (body, first) in [(Body::Nak(nak), 7500), (Body::Spmr, 7500), (Body::Ncf(nak), 999)] {
        let packet = packet(body, Options::default());
        let bytes = written(&packet);
        assert_eq!(u16::from_be_bytes([bytes[0], bytes[1]]), first, "{}", body.name());
        assert_eq!(Packet::parse(&bytes).unwrap(), packet);
    }
}

#[test]
fn a_fragment_and_a_list_are_what_implementations_send() {
    let data = Data { sqn: Sqn(8), trail: Sqn(7), payload: b"xyz" };
    let fragment = Some(Fragment { first: Sqn(7), offset: 1428, length: 1431 });
    let bytes = written(&packet(Body::Odata(data), Options { fragment, ..Options::default() }));
    #[rustfmt::skip]
    let options = [
        0x00, 4, 0, 20, 0x81, 16, 0, 0,
        0, 0, 0, 7, 0, 0, 0x05, 0x94, 0, 0, 0x05, 0x97,
    ];
    assert_eq!((bytes[5], &bytes[24..44], &bytes[44..]), (0x01, &options[..], &b"xyz"[..]));

    let nak = Nak { sqn: Sqn(5), source: address("10.0.0.1"), group: address("239.192.0.1") };
    let numbers = [Sqn(6), Sqn(9)];
    let list = Options { nak_list: NakList::Numbers(&numbers), ..Options::default() };
    let bytes = written(&packet(Body::Nak(nak), list));
    assert_eq!((bytes[5], &bytes[36..]), (0x03, &[0, 4, 0, 16, 0x82, 12, 0, 0, 0, 0, 0, 6, 0, 0, 0, 9][..]));
}

/// Section 11.2: the fourth byte and what follows are parity, the flag F marks it.
#[test]
fn an_encoded_fragment_keeps_its_type_and_says_that_it_is_encoded() {
    let data = Data { sqn: Sqn(9), trail: Sqn(2), payload: b"p" };
    let encoded_fragment = Some([0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    let options = Options { encoded_fragment, parity: true, current_group_size: Some(3), ..Options::default() };
    let bytes = written(&packet(Body::Odata(data), options));
    #[rustfmt::skip]
    let expected = [
        0x00, 4, 0, 28, 0x0a, 8, 0, 0, 0, 0, 0, 3,
        0x81, 16, 0x04, 0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
    ];
    // The group's size is for routers, but not on ODATA (section 11.8.3).
    assert_eq!((bytes[5], &bytes[24..52]), (0x81, &expected[..]));
    assert_eq!(written(&packet(Body::Rdata(data), options))[5], 0x83);
    assert_eq!(Packet::parse(&bytes).unwrap().options, options);
}

#[test]
fn what_has_no_form_is_refused() {
    let long = vec![0; 65_536];
    let data = |payload| packet(Body::Odata(Data { sqn: Sqn(0), trail: Sqn(0), payload }), Options::default());
    let mut buffer = [0; 80];
    assert_eq!(data(&long).write(&mut [0; 70_000]), Err(WriteError::PayloadTooLong(65_536)));
    assert_eq!(data(&[0; 57]).write(&mut buffer), Err(WriteError::NoRoom(80)));
    assert_eq!(data(&[0; 56]).write(&mut buffer), Ok(80));
    let numbers = [Sqn(1); 63];
    let list = Options { nak_list: NakList::Numbers(&numbers), ..Options::default() };
    let nak = Nak { sqn: Sqn(0), source: address("10.0.0.1"), group: address("239.192.0.1") };
    assert_eq!(packet(Body::Nak(nak), list).write(&mut [0; 500]), Err(WriteError::NakList(63)));
}

/// A valid NAK with all that its options hold replaced.
fn nak_with(options: &[u8]) -> Vec<u8> {
    let nak = Nak { sqn: Sqn(5), source: address("10.0.0.1"), group: address("239.192.0.1") };
    let mut bytes = written(&packet(Body::Nak(nak), Options::default()));
    bytes[5] |= 1;
    bytes.extend(options);
    with_checksum(bytes)
}

#[test]
fn every_length_is_doubted() {
    // None of these has a list, the only option that points into the packet.
    let parse = |options: &[u8]| {
        let bytes = nak_with(options);
        Packet::parse(&bytes).map(|packet| Options { nak_list: NakList::default(), ..packet.options })
    };
    let length = |kind, at, length| Err(ParseError::OptionLength { kind, at, length });
    assert_eq!(parse(&[0, 4, 0, 8, 0x8d, 4, 0, 0]), Ok(Options { syn: true, ..Options::default() }));
    assert_eq!(parse(&[0x80, 4, 0, 4]), Ok(Options::default()));
    // No length first; a length that is no length; one beyond the packet; one that cuts the option.
    assert_eq!(parse(&[0x8d, 4, 0, 4]), Err(ParseError::NoOptionLength(0x8d)));
    assert_eq!(parse(&[0, 3, 0, 8, 0x8d, 4, 0, 0]), length(0, 36, 8));
    assert_eq!(parse(&[0, 4, 0, 200, 0x8d, 4, 0, 0]), length(0, 36, 200));
    assert_eq!(parse(&[0, 4, 0, 6, 0x8d, 4, 0, 0]), length(0x0d, 40, 4));
    // A length of nothing would never end; one byte too many hides something.
    assert_eq!(parse(&[0, 4, 0, 8, 0x8d, 0, 0, 0]), length(0x0d, 40, 0));
    assert_eq!(parse(&[0, 4, 0, 12, 0x8d, 8, 0, 0, 1, 2, 3, 4]), length(0x0d, 40, 8));
    assert_eq!(parse(&[0, 4, 0, 8, 0x82, 4, 0, 0]), length(0x02, 40, 4));
    assert_eq!(parse(&[0, 4, 0, 10, 0x82, 6, 0, 0, 1, 2]), length(0x02, 40, 6));
    // The end too early, and no end.
    assert_eq!(parse(&[0, 4, 0, 12, 0x8d, 4, 0, 0, 0x8e, 4, 0, 0]), Err(ParseError::OptionEnd));
    assert_eq!(parse(&[0, 4, 0, 8, 0x0d, 4, 0, 0]), Err(ParseError::OptionEnd));
    assert_eq!(parse(&[0, 4, 0, 12, 0x0d, 4, 0, 0, 0x8d, 4, 0, 0]), Err(ParseError::OptionTwice(0x0d)));
    // Types of others are passed over, sixteen options at most.
    let strange = |count: u8| {
        let mut options = vec![0, 4, 0, 4 + 4 * count];
        (0..count).for_each(|at| options.extend([0x40 + at, 4, 0, 0]));
        let last = options.len() - 4;
        options[last] |= 0x80;
        options
    };
    assert_eq!(parse(&strange(15)).unwrap().unknown, 15);
    assert_eq!(parse(&strange(16)), Err(ParseError::TooManyOptions));
}

#[test]
fn wrong_heads_are_refused() {
    let data = Data { sqn: Sqn(8), trail: Sqn(7), payload: b"xyz" };
    let good = written(&packet(Body::Odata(data), Options::default()));
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes
    };
    let parse = |bytes: Vec<u8>| Packet::parse(&bytes).unwrap_err();
    assert_eq!(parse(with(&|bytes| bytes[25] ^= 1)), ParseError::Checksum);
    assert_eq!(parse(with(&|bytes| bytes[6..8].fill(0))), ParseError::NoChecksum);
    assert_eq!(parse(with_checksum(with(&|bytes| bytes[4] |= 0x40))), ParseError::Version(1));
    assert_eq!(parse(with_checksum(with(&|bytes| bytes[4] = 0x0e))), ParseError::Kind(0x0e));
    assert_eq!(parse(with_checksum(with(&|bytes| bytes[4] = 0x14))), ParseError::Kind(0x14));
    let longer = with_checksum(with(&|bytes| bytes.push(0)));
    assert_eq!(parse(longer), ParseError::PayloadLength { told: 3, there: 4 });
    for length in 0..good.len() {
        assert!(Packet::parse(&good[..length]).is_err(), "{length} bytes");
    }
    // An SPM carries nothing, and its checksum may be left out.
    let spm = Spm { sqn: Sqn(9), trail: Sqn(1), lead: Sqn(0), path: address("10.77.0.1") };
    let mut bytes = written(&packet(Body::Spm(spm), Options::default()));
    bytes[6..8].fill(0);
    assert!(Packet::parse(&bytes).is_ok());
    bytes[29] = 3;
    assert_eq!(Packet::parse(&bytes), Err(ParseError::Family(3)));
    bytes[29] = 1;
    bytes.push(7);
    bytes[15] = 1;
    assert_eq!(Packet::parse(&bytes), Err(ParseError::Payload(1)));
}

fn sqns() -> impl Strategy<Value = Sqn> {
    any::<u32>().prop_map(Sqn)
}

prop_compose! {
    fn naks()(sqn in sqns(), source in any::<IpAddr>(), group in any::<IpAddr>()) -> Nak {
        Nak { sqn, source, group }
    }
}

prop_compose! {
    fn options()(
        fragment in proptest::option::of((sqns(), any::<u32>(), any::<u32>())),
        join in proptest::option::of(sqns()),
        back_off in proptest::option::of((any::<u32>(), sqns())),
        range in proptest::option::of((any::<u32>(), any::<u32>())),
        redirect in any::<Option<IpAddr>>(),
        parity in proptest::option::of((any::<bool>(), any::<bool>(), any::<u32>())),
        groups in any::<(Option<u32>, Option<u32>)>(),
        bits in any::<[bool; 5]>(),
        reset in proptest::option::of((any::<bool>(), 0_u8..64)),
    ) -> Options<'static> {
        Options {
            fragment: fragment.filter(|_| !bits[3]).map(|(first, offset, length)| Fragment { first, offset, length }),
            encoded_fragment: fragment
                .filter(|_| bits[3])
                .map(|(first, offset, length)| Fragment::encode(Some(Fragment { first, offset, length }))),
            nak_list: NakList::default(),
            join,
            nak_back_off: back_off.map(|(interval_us, poll)| NakBackOff { interval_us, poll }),
            nak_back_off_range: range.map(|(max_us, min_us)| NakBackOffRange { max_us, min_us }),
            redirect,
            parity_parameters: parity
                .map(|(proactive, on_demand, group_size)| ParityParameters { proactive, on_demand, group_size }),
            parity_group: groups.0,
            current_group_size: groups.1,
            neighbour_unreachable: bits[0],
            syn: bits[1],
            fin: bits[2],
            reset: reset.map(|(naks_unanswered, code)| Reset { naks_unanswered, code }),
            unknown: 0,
            parity: bits[3],
            variable_length: bits[4],
        }
    }
}

fn bodies<'a>(payload: &'a [u8]) -> impl Strategy<Value = Body<'a>> + use<'a> {
    let data = move |(sqn, trail)| Data { sqn, trail, payload };
    prop_oneof![
        (sqns(), sqns(), sqns(), any::<IpAddr>()).prop_map(|(sqn, trail, lead, path)| Body::Spm(Spm {
            sqn,
            trail,
            lead,
            path
        })),
        (sqns(), any::<(u16, u16)>(), any::<IpAddr>(), any::<[u32; 3]>()).prop_map(
            |(sqn, (round, sub_type), path, [back_off_us, random, mask])| {
                Body::Poll(Poll { sqn, round, sub_type, path, back_off_us, random, mask })
            }
        ),
        (sqns(), any::<u16>()).prop_map(|(sqn, round)| Body::Polr(Polr { sqn, round })),
        (sqns(), sqns()).prop_map(move |numbers| Body::Odata(data(numbers))),
        (sqns(), sqns()).prop_map(move |numbers| Body::Rdata(data(numbers))),
        naks().prop_map(Body::Nak),
        naks().prop_map(Body::Nnak),
        naks().prop_map(Body::Ncf),
        Just(Body::Spmr),
        (sqns(), any::<u32>()).prop_map(|(newest, bitmap)| Body::Ack(Ack { newest, bitmap })),
    ]
}

static PAYLOAD: [u8; 1500] = [0x5a; 1500];

proptest! {
    #[test]
    fn there_and_back(
        body in (0..PAYLOAD.len()).prop_flat_map(|bytes| bodies(&PAYLOAD[..bytes])),
        options in options(),
        numbers in proptest::collection::vec(sqns(), 0..=62),
        port in any::<u16>(),
    ) {
        let options = Options { nak_list: NakList::Numbers(&numbers), ..options };
        let packet = Packet { tsi: TSI, data_port: port, body, options };
        let bytes = written(&packet);
        prop_assert_eq!(Packet::parse(&bytes), Ok(packet));
        prop_assert_eq!(checksum(&bytes), 0);
        // What was read writes the same bytes again.
        prop_assert_eq!(written(&Packet::parse(&bytes).unwrap()), bytes);
    }

    #[test]
    fn no_bytes_are_too_strange(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), known in any::<bool>()) {
        if known && bytes.len() > 6 {
            bytes[4] &= 0x0f;
            bytes = with_checksum(bytes.into_iter().chain([0; 2]).collect());
        }
        if let Ok(packet) = Packet::parse(&bytes) {
            prop_assert!(packet.options.nak_list.len() <= 62);
        }
    }
}
