//! A source on its own, in virtual time.

use super::*;
use crate::Tsi;
use crate::tests::{MS, TSI, address, written};

fn config() -> SourceConfig {
    let config = SourceConfig::new(TSI, 7500, address("239.192.0.1"), address("192.0.2.1"));
    SourceConfig { window_packets: 16, peak_bytes_per_second: u64::MAX, ..config }
}

fn source(config: SourceConfig) -> Source {
    Source::new(config, 0).unwrap()
}

/// A packet that came out, kept beyond its buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Out {
    class: Class,
    bytes: Vec<u8>,
}

impl Out {
    fn packet(&self) -> Packet<'_> {
        Packet::parse(&self.bytes).unwrap()
    }
}

/// All that goes out now.
fn drain(source: &mut Source, now_ns: u64) -> Vec<Out> {
    let mut buffer = [0; 1500];
    let mut out = Vec::new();
    while let Some(transmit) = source.poll_transmit(now_ns, &mut buffer) {
        out.push(Out { class: transmit.class, bytes: buffer[..transmit.length].to_vec() });
        assert!(out.len() < 10_000, "it never ends");
    }
    out
}

fn send_all(source: &mut Source, count: usize, message: &[u8]) {
    for _ in 0..count {
        source.send(message).unwrap();
    }
}

fn classes(out: &[Out]) -> Vec<Class> {
    out.iter().map(|one| one.class).collect()
}

/// Drives a source until a time and returns what went out when.
fn run(source: &mut Source, from_ns: u64, until_ns: u64) -> Vec<(u64, Out)> {
    let mut now = from_ns;
    let mut all = Vec::new();
    while now <= until_ns {
        all.extend(drain(source, now).into_iter().map(|one| (now, one)));
        match source.poll_timeout(now) {
            Some(next) => {
                assert!(next > now, "asked for again at once, with nothing to send");
                now = next;
            }
            None => break,
        }
    }
    all
}

fn nak(sqns: &[u32]) -> Vec<u8> {
    let list: Vec<Sqn> = sqns[1..].iter().copied().map(Sqn).collect();
    let body = Body::Nak(Nak { sqn: Sqn(sqns[0]), source: address("192.0.2.1"), group: address("239.192.0.1") });
    let options = Options { nak_list: NakList::Numbers(&list), ..Options::default() };
    written(&Packet { tsi: TSI, data_port: 7500, body, options })
}

#[test]
fn an_empty_session_says_so() {
    let mut source = source(config());
    let out = drain(&mut source, 0);
    let Body::Spm(spm) = out[0].packet().body else { panic!("{out:?}") };
    assert_eq!((out.len(), spm.trail, spm.lead, spm.path), (1, Sqn(0), Sqn(u32::MAX), address("192.0.2.1")));
}

/// Section 5.1.3.
#[test]
fn confirmations_come_before_paths_and_paths_before_data() {
    let mut source = source(config());
    source.send(b"one").unwrap();
    source.send(b"two").unwrap();
    assert_eq!(classes(&drain(&mut source, 0)), [Class::Spm, Class::Odata, Class::Odata]);
    source.send(b"three").unwrap();
    source.handle_datagram(5 * MS, &nak(&[1])).unwrap();
    let spmr = Packet { tsi: TSI, data_port: 7500, body: Body::Spmr, options: Options::default() };
    source.handle_datagram(5 * MS, &written(&spmr)).unwrap();
    let out = drain(&mut source, 5 * MS);
    assert_eq!(classes(&out), [Class::Ncf, Class::Spm, Class::Rdata, Class::Odata]);
    let Body::Rdata(data) = out[2].packet().body else { panic!("{out:?}") };
    assert_eq!((data.sqn, data.payload), (Sqn(1), &b"two"[..]));
}

/// Sections 5.1.4 and 5.1.5.
#[test]
fn heartbeats_decay_and_data_wake_them() {
    let mut source = source(SourceConfig { ambient_ns: u64::MAX, heartbeat_max_ns: 20 * MS, ..config() });
    let times = |out: &[(u64, Out)]| -> Vec<u64> {
        out.iter().filter(|(_, one)| one.class == Class::Spm).map(|(at, _)| at / MS).collect()
    };
    assert_eq!(times(&run(&mut source, 0, 60 * MS)), [0, 4, 12, 28, 48]);
    source.send(b"data").unwrap();
    assert_eq!(times(&run(&mut source, 61 * MS, 85 * MS)), [65, 73]);
}

#[test]
fn ambient_spms_go_on_beside_data() {
    let mut source = source(SourceConfig { ambient_ns: 10 * MS, ..config() });
    let mut spms = 0;
    for ms in 0..100 {
        source.send(b"data").unwrap();
        spms += drain(&mut source, ms * MS).iter().filter(|one| one.class == Class::Spm).count();
    }
    // One to begin with, then one each 10 ms; no heartbeat, data come each ms.
    assert_eq!(spms, 1 + 9);
}

/// Sections 5.2 and 5.3.
#[test]
fn a_nak_is_confirmed_at_once_and_repaired() {
    let mut source = source(config());
    for text in ["a", "b", "c", "d"] {
        source.send(text.as_bytes()).unwrap();
    }
    drain(&mut source, 0);
    source.handle_datagram(MS, &nak(&[1, 3])).unwrap();
    assert_eq!(source.poll_timeout(MS), Some(MS));
    let out = drain(&mut source, MS);
    assert_eq!(classes(&out), [Class::Ncf, Class::Rdata, Class::Rdata]);
    let ncf = out[0].packet();
    assert_eq!(ncf.sqn(), Some(Sqn(1)));
    assert_eq!(ncf.options.nak_list.iter().collect::<Vec<_>>(), [Sqn(3)]);
    let counts = source.counts();
    assert_eq!((counts.naks, counts.numbers_asked, counts.ncfs, counts.rdata), (1, 2, 1, 2));
}

#[test]
fn a_storm_of_naks_gets_one_confirmation_a_while() {
    let mut source = source(config());
    source.send(b"a").unwrap();
    drain(&mut source, 0);
    for at in 0..100 {
        source.handle_datagram(MS + at, &nak(&[0])).unwrap();
    }
    assert_eq!(classes(&drain(&mut source, MS + 100)), [Class::Ncf, Class::Rdata]);
    assert_eq!(source.counts().ncfs_spared, 99);
    // Later it is asked for again: the repair was lost.
    source.handle_datagram(3 * MS, &nak(&[0])).unwrap();
    assert_eq!(classes(&drain(&mut source, 3 * MS)), [Class::Ncf, Class::Rdata]);
}

#[test]
fn what_left_the_window_is_not_repaired_and_the_trail_says_so() {
    let mut source = source(SourceConfig { window_packets: 8, ..config() });
    for number in 0..12_u8 {
        source.send(&[number]).unwrap();
        drain(&mut source, u64::from(number));
    }
    source.handle_datagram(MS, &nak(&[2])).unwrap();
    let out = drain(&mut source, MS);
    // It is confirmed all the same (section 5.2), and the SPM tells that it is in vain.
    let Body::Spm(spm) = out[1].packet().body else { panic!("{out:?}") };
    assert_eq!((classes(&out), spm.trail, spm.lead), (vec![Class::Ncf, Class::Spm], Sqn(4), Sqn(11)));
    // Not again for a while.
    source.handle_datagram(MS + 1, &nak(&[2])).unwrap();
    assert!(drain(&mut source, MS + 1).is_empty());
    assert_eq!((source.counts().numbers_outside, source.counts().ncfs_spared), (2, 1));
    // Neither is what was not sent yet.
    source.handle_datagram(MS, &nak(&[12])).unwrap();
    assert!(drain(&mut source, MS).is_empty());
}

#[test]
fn numbers_go_around() {
    let mut source = source(SourceConfig { first: Sqn(u32::MAX - 1), ..config() });
    for number in 0..6_u8 {
        source.send(&[number]).unwrap();
    }
    let out = drain(&mut source, 0);
    let sqns: Vec<u32> = out.iter().filter_map(|one| one.packet().sqn()).map(|sqn| sqn.0).collect();
    assert_eq!(sqns, [u32::MAX - 1, u32::MAX, 0, 1, 2, 3]);
    assert_eq!(out.iter().filter(|one| one.packet().options.syn).count(), 1, "only the first is the first");
    source.handle_datagram(MS, &nak(&[u32::MAX, 0])).unwrap();
    assert_eq!(classes(&drain(&mut source, MS)), [Class::Ncf, Class::Rdata, Class::Rdata]);
}

#[test]
fn a_long_message_goes_in_fragments() {
    let mut source = source(config());
    let message: Vec<u8> = (0..5000_u16).map(|at| at.to_be_bytes()[1]).collect();
    source.send(b"first").unwrap();
    assert_eq!(source.send(&message), Ok(Sqn(1)));
    let out = drain(&mut source, 0);
    let mut joined = Vec::new();
    for one in &out[2..] {
        assert!(one.bytes.len() <= 1472);
        let packet = one.packet();
        let Body::Odata(data) = packet.body else { panic!("{packet:?}") };
        let fragment = packet.options.fragment.unwrap();
        assert_eq!(
            (fragment.first, fragment.offset, fragment.length),
            (Sqn(1), u32::try_from(joined.len()).unwrap(), 5000)
        );
        joined.extend(data.payload);
    }
    assert_eq!((out.len(), joined), (6, message));
    assert_eq!(source.send(&vec![0; 12_000]), Err(SendError::TooLong { bytes: 12_000, most: 8 * 1428 }));
}

#[test]
fn the_longest_that_fits_into_a_packet_does() {
    let mut source = source(config());
    assert_eq!(source.packet_payload_bytes(), 1448);
    source.send(&[7; 1448]).unwrap();
    source.send(&[8; 1440]).unwrap();
    let out = drain(&mut source, 0);
    assert_eq!(out[1].bytes.len(), 1472);
    assert!(!out[1].packet().options.syn && out[1].packet().options.fragment.is_none());
    let mut small = self::source(config());
    small.send(&[8; 1440]).unwrap();
    assert!(drain(&mut small, 0)[1].packet().options.syn);
}

#[test]
fn a_full_window_takes_no_more_until_it_is_sent() {
    let mut source = source(SourceConfig { max_bytes_per_second: 1000, burst_bytes: 1472, ..config() });
    for _ in 0..8 {
        source.send(&[0; 76]).unwrap();
    }
    assert_eq!(source.send(&[0; 76]), Err(SendError::Full { packets: 1, waiting: 8 }));
    let out = run(&mut source, 0, 20_000 * MS);
    assert_eq!(out.iter().filter(|(_, one)| one.class == Class::Odata).count(), 8);
    source.send(&[0; 76]).unwrap();
}

#[test]
fn repairs_leave_room_for_new_data() {
    let mut source = source(SourceConfig { window_packets: 64, ..config() });
    send_all(&mut source, 20, b"old");
    drain(&mut source, 0);
    source.handle_datagram(1, &nak(&(0..20).collect::<Vec<_>>())).unwrap();
    send_all(&mut source, 3, b"new");
    let out = classes(&drain(&mut source, 2));
    let new: Vec<usize> = (0..out.len()).filter(|&at| out[at] == Class::Odata).collect();
    assert_eq!((out.len(), new), (24, vec![5, 10, 15]));
}

/// Section 9.8.
#[test]
fn giving_up_is_told_and_nothing_else() {
    let mut source = source(SourceConfig { max_bytes_per_second: 1000, burst_bytes: 1472, ..config() });
    send_all(&mut source, 4, &[0; 1000]);
    assert_eq!(drain(&mut source, 0).len(), 2, "an SPM and the first data");
    source.abort(9);
    source.handle_datagram(MS, &nak(&[0])).unwrap();
    let out = run(&mut source, MS, 60_000 * MS);
    for (_, one) in &out {
        let packet = one.packet();
        let Body::Spm(spm) = packet.body else { panic!("{packet:?}") };
        assert_eq!((spm.lead, packet.options.reset), (Sqn(0), Some(Reset { naks_unanswered: true, code: 9 })));
    }
    assert!(out.len() > 10 && source.is_finished());
    assert_eq!(source.send(b"late"), Err(SendError::Closed));
}

/// Section 13.4.
#[test]
fn requests_for_spms_are_answered_at_once_but_not_too_often() {
    let mut source = source(config());
    drain(&mut source, 0);
    let spmr = written(&Packet { tsi: TSI, data_port: 7500, body: Body::Spmr, options: Options::default() });
    source.handle_datagram(MS, &spmr).unwrap();
    assert!(drain(&mut source, MS).is_empty());
    assert_eq!(source.poll_timeout(MS), Some(4 * MS));
    assert_eq!(classes(&drain(&mut source, 4 * MS)), [Class::Spm]);
    source.handle_datagram(9 * MS, &spmr).unwrap();
    assert_eq!(classes(&drain(&mut source, 9 * MS)), [Class::Spm]);
}

/// Section 9.3: a list is in order and has no number twice.
#[test]
fn confirmations_are_in_order() {
    let mut source = source(SourceConfig { ncf_pause_ns: 0, ..config() });
    send_all(&mut source, 8, b"x");
    drain(&mut source, 0);
    source.handle_datagram(MS, &nak(&[3, 6])).unwrap();
    source.handle_datagram(MS, &nak(&[1, 3])).unwrap();
    let out = drain(&mut source, MS);
    let ncf = out[0].packet();
    let listed: Vec<u32> = ncf.sqn().into_iter().chain(ncf.options.nak_list.iter()).map(|sqn| sqn.0).collect();
    assert_eq!(listed, [1, 3, 6]);
    assert_eq!(classes(&out[1..]), [Class::Rdata; 3]);
}

/// Section 9.7.
#[test]
fn the_end_is_announced_after_the_data() {
    let mut source = source(SourceConfig { max_bytes_per_second: 10_000, burst_bytes: 1472, ..config() });
    send_all(&mut source, 4, &[0; 1000]);
    source.close();
    assert_eq!(source.send(b"late"), Err(SendError::Closed));
    let out = run(&mut source, 0, 60_000 * MS);
    let last_data = out.iter().rposition(|(_, one)| one.class == Class::Odata).unwrap();
    let fins: Vec<usize> = (0..out.len()).filter(|&at| out[at].1.packet().options.fin).collect();
    assert!(fins[0] > last_data && source.is_finished());
    assert_eq!(fins, (fins[0]..out.len()).collect::<Vec<_>>(), "section 9.7: in every SPM after the last data");
    let pauses: Vec<u64> = fins.windows(2).take(5).map(|pair| (out[pair[1]].0 - out[pair[0]].0) / MS).collect();
    assert_eq!(pauses, [4, 4, 4, 8, 16], "three close together, then as heartbeats");
    // Repairs are still made.
    source.handle_datagram(61_000 * MS, &nak(&[3])).unwrap();
    assert!(classes(&drain(&mut source, 61_000 * MS)).contains(&Class::Rdata));
}

#[test]
fn late_joiners_are_told_how_far_back_they_may_ask() {
    let mut source = source(SourceConfig { join_packets: Some(3), ..config() });
    let join = |out: &[Out]| out.iter().find_map(|one| one.packet().options.join);
    assert_eq!(join(&drain(&mut source, 0)), Some(Sqn(0)));
    send_all(&mut source, 5, b"x");
    drain(&mut source, 1);
    assert_eq!(join(&drain(&mut source, 10 * MS)), Some(Sqn(2)));
}

#[test]
fn strangers_are_counted_and_passed_over() {
    let mut source = source(config());
    source.send(b"a").unwrap();
    drain(&mut source, 0);
    assert!(source.handle_datagram(1, b"garbage").is_err());
    let spmr = |tsi, data_port| written(&Packet { tsi, data_port, body: Body::Spmr, options: Options::default() });
    source.handle_datagram(1, &spmr(Tsi { port: 1, ..TSI }, 7500)).unwrap();
    source.handle_datagram(1, &spmr(TSI, 1)).unwrap();
    assert_eq!(source.counts().ignored, 3);
    assert!(drain(&mut source, 1).is_empty());
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let good = config();
    for (bad, field) in [
        (SourceConfig { group: address("192.0.2.9"), ..good }, "group"),
        (SourceConfig { address: address("fd00::1"), ..good }, "address"),
        (SourceConfig { max_packet_bytes: 99, ..good }, "max_packet_bytes"),
        (SourceConfig { window_packets: 100, ..good }, "window_packets"),
        (SourceConfig { max_bytes_per_second: 0, ..good }, "peak_bytes_per_second"),
        (SourceConfig { burst_bytes: 1000, ..good }, "burst_bytes"),
        (SourceConfig { heartbeat_min_ns: 0, ..good }, "ambient_ns, heartbeat_min_ns, heartbeat_max_ns"),
    ] {
        assert_eq!(Source::new(bad, 0).unwrap_err().field, field);
    }
}
