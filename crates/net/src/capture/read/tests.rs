//! What the writer writes is read back; what others write is read; what is damaged is named.

use super::super::ring::{Addressed, CapturedPacket, Direction};
use super::super::write::{Interface, Statistics, Writer};
use super::*;

const TIME: u64 = 1_800_000_000_123_456_789;

fn taken(frame: &[u8], way: Direction, vlan: Option<(u16, u16)>) -> CapturedPacket<'_> {
    CapturedPacket {
        time_ns: TIME,
        hardware: false,
        way,
        addressed: Addressed::Unicast,
        vlan,
        sent_bytes: u32::try_from(frame.len()).unwrap() + 100,
        frame,
    }
}

/// A file as a capture writes it.
fn file() -> Vec<u8> {
    let mut writer = Writer::new("windhover", "Linux", "pingpong udp");
    let interface =
        Interface { link: 1, snap: 200, name: "eth0", speed_bps: Some(10_000_000_000), ..Interface::default() };
    writer.interface(&interface);
    writer.packet(0, &taken(&[7; 61], Direction::Out, None));
    writer.interface(&Interface { link: 101, name: "eth0", description: "the NIC's clock", ..interface });
    writer.packet(1, &taken(&[9; 60], Direction::In, Some((0x8100, 42))));
    writer.statistics(0, &Statistics { start_ns: TIME, end_ns: TIME, passed: 5, dropped: 3 });
    writer.take()
}

fn all(bytes: &[u8]) -> (Vec<Entry>, Result<(), CaptureError>) {
    let mut entries = Vec::new();
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (entries, Err(error)),
    };
    loop {
        match reader.next_entry() {
            Ok(Some(entry)) => entries.push(entry),
            Ok(None) => return (entries, Ok(())),
            Err(error) => return (entries, Err(error)),
        }
    }
}

fn packets(entries: &[Entry]) -> Vec<&Record> {
    entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Packet(record) => Some(record),
            _ => None,
        })
        .collect()
}

#[test]
fn what_is_written_is_read_back() {
    let bytes = file();
    assert!(bytes.len().is_multiple_of(4));
    let (entries, end) = all(&bytes);
    end.unwrap();
    assert_eq!(entries[0], Entry::Comment("pingpong udp".to_owned()));
    assert_eq!(entries.last(), Some(&Entry::Dropped(3)));
    let packets = packets(&entries);
    assert_eq!(packets.len(), 2);
    let (out, back) = (packets[0], packets[1]);
    assert_eq!((out.time_ns, out.leaving, out.link, out.interface), (Some(TIME), Some(true), 1, 0));
    assert_eq!((out.frame.as_slice(), out.sent_bytes), (&[7; 61][..], 161));
    assert_eq!((back.time_ns, back.leaving, back.link, back.interface), (Some(TIME), Some(false), 101, 1));
    assert_eq!((back.frame.len(), back.sent_bytes), (64, 164), "the tag is back in its place");
    assert_eq!(back.frame[12..16], [0x81, 0, 0, 42]);
}

#[test]
fn sections_may_follow_each_other() {
    let (entries, end) = all(&[file(), file()].concat());
    end.unwrap();
    let interfaces: Vec<u32> = packets(&entries).iter().map(|record| record.interface).collect();
    assert_eq!(interfaces, [0, 1, 2, 3]);
}

/// pcap of either byte order and unit.
fn pcap(big: bool, nanoseconds: bool) -> Vec<u8> {
    let magic: u32 = if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut bytes = Vec::new();
    bytes.extend(word(magic));
    bytes.extend(half(2));
    bytes.extend(half(4));
    for value in [0, 0, 65_535, 113, 1_700_000_000, 654_321, 3, 99] {
        bytes.extend(word(value));
    }
    bytes.extend([1, 2, 3]);
    bytes
}

#[test]
fn pcap_of_both_orders_and_units_is_read() {
    for big in [false, true] {
        for nanoseconds in [false, true] {
            let (entries, end) = all(&pcap(big, nanoseconds));
            end.unwrap();
            let record = packets(&entries)[0].clone();
            let fraction = if nanoseconds { 654_321 } else { 654_321_000 };
            assert_eq!(record.time_ns, Some(1_700_000_000 * 1_000_000_000 + fraction));
            assert_eq!((record.link, record.frame.as_slice(), record.sent_bytes), (113, &[1, 2, 3][..], 99));
            assert_eq!((record.leaving, record.at), (None, 24));
        }
    }
}

/// Some writers let microseconds run over; other readers go on.
#[test]
fn a_fraction_beyond_a_second_is_carried() {
    let mut bytes = pcap(false, false);
    bytes[28..32].copy_from_slice(&1_500_000_u32.to_le_bytes());
    let (entries, end) = all(&[&bytes[..], &bytes[24..]].concat());
    end.unwrap();
    let times: Vec<_> = packets(&entries).iter().map(|record| record.time_ns).collect();
    assert_eq!(times, [Some(1_700_000_001_500_000_000); 2]);
}

/// A big-endian section with one interface and what else is given.
fn big_endian(options: &[u8], blocks: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let length = u32::try_from(body.len() + 12).unwrap();
        bytes.extend(kind.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(body);
        bytes.extend(length.to_be_bytes());
    };
    block(0x0a0d_0d0a, &[0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    block(1, &[&[0, 1, 0, 0, 0, 0, 0, 8][..], options].concat());
    for (kind, body) in blocks {
        block(*kind, body);
    }
    bytes
}

#[test]
fn units_and_offsets_of_time_are_the_interfaces_own() {
    let packet = |units: u64| {
        let mut body = vec![0; 4];
        body.extend(units.to_be_bytes());
        body.extend([0, 0, 0, 2, 0, 0, 0, 2, 0xaa, 0xbb, 0, 0]);
        body
    };
    for (options, units, expected) in [
        (vec![], 5, 5000),
        (vec![0, 9, 0, 1, 3, 0, 0, 0], 5, 5_000_000),
        (vec![0, 9, 0, 1, 0x82, 0, 0, 0], 6, 1_500_000_000),
        (vec![0, 9, 0, 1, 9, 0, 0, 0, 0, 14, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2], 5, 2_000_000_005),
    ] {
        let (entries, end) = all(&big_endian(&options, &[(6, packet(units))]));
        end.unwrap();
        assert_eq!(packets(&entries)[0].time_ns, Some(expected), "{options:?}");
    }
    let (_, end) = all(&big_endian(&[0, 9, 0, 1, 0x7f, 0, 0, 0], &[]));
    assert!(end.unwrap_err().to_string().contains("resolution"));
}

#[test]
fn old_and_simple_packets_are_read_and_strange_blocks_are_left_out() {
    let old = [&[0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 1][..], &[0xcc, 0, 0, 0]].concat();
    let simple = vec![0, 0, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8];
    let bytes = big_endian(&[], &[(0x0bad, vec![0; 40]), (2, old), (3, simple)]);
    let (entries, end) = all(&bytes);
    end.unwrap();
    let packets = packets(&entries);
    assert_eq!((packets[0].time_ns, packets[0].frame.as_slice()), (Some(7000), &[0xcc][..]));
    // The interface's snap length is 8.
    assert_eq!((packets[1].time_ns, packets[1].frame.len(), packets[1].sent_bytes), (None, 8, 20));
}

#[test]
fn a_file_that_ends_early_says_where_and_keeps_what_came_before() {
    let whole = file();
    let (entries, _) = all(&whole);
    for length in 1..whole.len() {
        let (some, end) = all(&whole[..length]);
        assert!(some.len() <= entries.len() && entries.starts_with(&some), "{length}");
        match end {
            // Between two blocks a file may end.
            Ok(()) => assert!(length.is_multiple_of(4)),
            Err(error) => assert!(error.to_string().contains(&format!("byte {length}")), "{length}: {error}"),
        }
    }
    let (_, end) = all(&pcap(false, true)[..30]);
    assert!(end.unwrap_err().to_string().contains("byte 30"));
}

#[test]
fn damage_is_named_with_its_place() {
    let damaged = |at: usize, bytes: &[u8]| {
        let mut file = file();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        all(&file).1.unwrap_err().to_string()
    };
    assert!(damaged(0, b"GIF8").contains("47 49 46 38"));
    assert!(damaged(8, &[1, 2, 3, 4]).contains("byte order"));
    assert!(damaged(4, &13_u32.to_ne_bytes()).contains("at byte 0: a block claims 13 bytes"));
    assert!(damaged(4, &u32::MAX.to_ne_bytes()).contains("4294967295"));
    let mut huge = pcap(false, false);
    huge[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(all(&huge).1.unwrap_err().to_string().contains("at byte 24"));
    let stray = big_endian(&[], &[(6, [&[0, 0, 0, 5][..], &[0; 16]].concat())]);
    assert!(all(&stray).1.unwrap_err().to_string().contains("interface 5"));
    let long = big_endian(&[], &[(6, [&[0; 12][..], &[0, 0, 0, 99, 0, 0, 0, 99]].concat())]);
    assert!(all(&long).1.unwrap_err().to_string().contains("longer than its block"));
}

#[test]
fn any_damage_is_survived() {
    // Every byte of a file in turn, to values that lengths and kinds are made of.
    let whole = [file(), pcap(true, true)];
    for file in &whole {
        for at in 0..file.len() {
            for value in [0, 1, 2, 0x0a, 0x7f, 0x80, 0xff] {
                let mut changed = file.clone();
                changed[at] = value;
                exercise(&changed);
            }
        }
    }
}
