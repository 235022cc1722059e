//! `windhover dump` of PGM: conversations of our own engines in virtual time, written with our own writer, read by us and
//! by tshark.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use net::capture::{Addressed, CapturedPacket, Direction, Interface, Writer};
use pgm::packet::{Body, Data, Nak, NakList, Options, Packet, ParityParameters, Polr, Reset, Spm};
use pgm::receiver::Destination;
use pgm::{Gsi, Receiver, ReceiverConfig, Source, SourceConfig, Sqn, Tsi, fec};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::process::Command;
use support::{Folder, assert_code, documents, run, stderr, stdout};

const TSI: Tsi = Tsi { gsi: Gsi([1, 2, 3, 4, 5, 6]), port: 4321 };
const REFLECTOR: Tsi = Tsi { gsi: Gsi([9, 8, 7, 6, 5, 4]), port: 4322 };
const SOURCE: [u8; 4] = [192, 0, 2, 1];
const FAR: [u8; 4] = [192, 0, 2, 2];
const GROUP: [u8; 4] = [239, 192, 0, 1];
const START: u64 = 1_800_000_000_000_000_000;
const US: u64 = 1_000;

/// A frame on an Ethernet, over UDP or IP.
fn frame(udp: Option<u16>, from: [u8; 4], to: [u8; 4], packet: &[u8]) -> Vec<u8> {
    let mut inside = Vec::new();
    if let Some(port) = udp {
        inside.extend([port.to_be_bytes(), port.to_be_bytes()].concat());
        inside.extend(u16::try_from(packet.len() + 8).unwrap().to_be_bytes());
        inside.extend([0, 0]);
    }
    inside.extend(packet);
    let mut frame = [[2; 12].as_slice(), &[8, 0, 0x45, 0]].concat();
    frame.extend(u16::try_from(inside.len() + 20).unwrap().to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 16, if udp.is_some() { 17 } else { 113 }, 0, 0]);
    frame.extend(from);
    frame.extend(to);
    frame.extend(inside);
    frame
}

/// A capture in the making.
struct Tape {
    udp: Option<u16>,
    writer: Writer,
}

impl Tape {
    fn new(udp: Option<u16>) -> Self {
        let mut writer = Writer::new("tests", "", "a conversation");
        let interface = Interface { link: 1, snap: 1 << 18, name: "eth0", ..Interface::default() };
        assert_eq!(writer.interface(&interface), 0);
        Self { udp, writer }
    }

    fn keep(&mut self, time_ns: u64, way: Direction, from: [u8; 4], to: [u8; 4], packet: &[u8]) {
        self.keep_cut(time_ns, way, from, to, packet, usize::MAX);
    }

    fn keep_cut(&mut self, time_ns: u64, way: Direction, from: [u8; 4], to: [u8; 4], packet: &[u8], kept: usize) {
        let frame = frame(self.udp, from, to, packet);
        let taken = CapturedPacket {
            time_ns: START + time_ns,
            hardware: false,
            way,
            addressed: if to == GROUP { Addressed::Multicast } else { Addressed::Unicast },
            vlan: None,
            sent_bytes: u32::try_from(frame.len()).unwrap(),
            frame: &frame[..kept.min(frame.len())],
        };
        self.writer.packet(0, &taken);
    }

    fn file(mut self, folder: &Folder, name: &str) -> String {
        let path = folder.0.join(name);
        std::fs::write(&path, self.writer.take()).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn message(seq: u64, size: usize) -> Vec<u8> {
    let mut message = vec![0; size];
    message[..8].copy_from_slice(&seq.to_le_bytes());
    message[8..16].copy_from_slice(&77_u64.to_le_bytes());
    message
}

/// What both ends say of themselves.
struct Truth {
    odata: u64,
    rdata: u64,
    spms: u64,
    ncfs: u64,
    naks: u64,
    asked: u64,
    delivered: u64,
    parity: u64,
    rebuilt: u64,
}

/// 60 messages a millisecond apart from a source over a link of 100 µs, on which the listed packets are lost, to a
/// receiver; as the source's host or the receiver's sees it.
fn conversation(tape: &mut Tape, at_source: bool, lost: &[u32], size: usize) -> Truth {
    conversation_with(tape, at_source, lost, size, None)
}

/// The same with parity.
fn conversation_with(
    tape: &mut Tape,
    at_source: bool,
    lost: &[u32],
    size: usize,
    parity: Option<fec::Config>,
) -> Truth {
    const LINK: u64 = 100 * US;
    let (address, group) = (IpAddr::from(SOURCE), IpAddr::from(GROUP));
    let config = SourceConfig { fec: parity, ..SourceConfig::new(TSI, 7500, group, address) };
    let mut source = Source::new(config, 0).unwrap();
    let config = ReceiverConfig { parity: parity.is_some(), ..ReceiverConfig::new(7500, group, 1) };
    let mut receiver = Receiver::new(config).unwrap();
    let (mut buffer, mut out) = (vec![0; 2000], vec![0; 70_000]);
    // Arrival, to the receiver, packet.
    let mut flight: Vec<(u64, bool, Vec<u8>)> = Vec::new();
    let mut lost: BTreeSet<u32> = lost.iter().copied().collect();
    let mut sent = 0;
    for step in 0..4000_u64 {
        let now = step * 50 * US;
        if now.is_multiple_of(1000 * US) && sent < 60 {
            source.send(&message(sent, size)).unwrap();
            sent += 1;
        }
        if step == 3000 {
            source.close();
        }
        let (arrived, rest): (Vec<_>, Vec<_>) = flight.into_iter().partition(|(at, ..)| *at <= now);
        flight = rest;
        for (_, down, packet) in arrived {
            if down {
                if !at_source {
                    tape.keep(now, Direction::In, SOURCE, GROUP, &packet);
                }
                receiver.handle_datagram(now, address, &packet).unwrap();
            } else {
                if at_source {
                    tape.keep(now, Direction::In, FAR, SOURCE, &packet);
                }
                source.handle_datagram(now, &packet).unwrap();
            }
        }
        receiver.handle_timeout(now);
        while let Some(transmit) = source.poll_transmit(now, &mut buffer) {
            let packet = buffer[..transmit.length].to_vec();
            if at_source {
                tape.keep(now, Direction::Out, SOURCE, GROUP, &packet);
            }
            let parsed = Packet::parse(&packet).unwrap();
            let gone = match parsed.body {
                Body::Odata(data) => !parsed.options.parity && lost.remove(&data.sqn.0),
                _ => false,
            };
            if !gone {
                flight.push((now + LINK, true, packet));
            }
        }
        while let Some(transmit) = receiver.poll_transmit(now, &mut buffer) {
            let packet = buffer[..transmit.length].to_vec();
            let to = if transmit.to == Destination::Unicast(address) { SOURCE } else { GROUP };
            if !at_source {
                tape.keep(now, Direction::Out, FAR, to, &packet);
            }
            flight.push((now + LINK, false, packet));
        }
        while receiver.next_message(&mut out).is_some() {}
        while receiver.poll_event().is_some() {}
    }
    let (one, other) = (source.counts(), receiver.counts());
    Truth {
        odata: one.odata,
        rdata: one.rdata,
        spms: one.spms,
        ncfs: one.ncfs,
        naks: other.naks,
        asked: other.numbers_asked,
        delivered: other.messages,
        parity: one.parity_odata + one.parity_rdata,
        rebuilt: other.recovered_by_parity,
    }
}

#[track_caller]
fn dumped(path: &str, more: &[&str]) -> (Vec<Value>, Value) {
    let output = run(&[&["dump", path, "--format", "json"], more].concat());
    assert_code(&output, 0);
    let mut lines = documents(&output);
    let summary = lines.pop().unwrap();
    (lines, summary)
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no count: {value}"))
}

/// All packets of a kind at both points.
fn packets(source: &Value, kind: &str) -> u64 {
    source["points"].as_array().unwrap().iter().filter_map(|point| point["packets"][kind].as_u64()).sum()
}

const LOST: [u32; 4] = [5, 20, 21, 22];

#[test]
fn every_packet_has_its_type_and_every_repair_its_times() {
    let folder = Folder::new("dump-pgm");
    for (udp, at_source) in [(Some(3056), true), (None, true), (Some(3056), false), (None, false)] {
        let mut tape = Tape::new(udp);
        let truth = conversation(&mut tape, at_source, &LOST, 64);
        assert_eq!((truth.delivered, truth.odata, truth.rdata), (60, 60, 4));
        let path = tape.file(&folder, "x.pcapng");
        let (lines, summary) = dumped(&path, &[]);
        let all = summary["pgm"].as_array().unwrap();
        assert_eq!((all.len(), &all[0]["tsi"]), (1, &TSI.to_string().into()));
        let source = &all[0];
        let seen_odata = if at_source { truth.odata } else { truth.odata - 4 };
        for (kind, expected) in [
            ("ODATA", seen_odata),
            ("RDATA", truth.rdata),
            ("SPM", truth.spms),
            ("NCF", truth.ncfs),
            ("NAK", truth.naks),
        ] {
            assert_eq!(packets(source, kind), expected, "{kind}: {source}");
        }
        assert_eq!(count(&source["checksums"]["good"]), lines.len() as u64);
        assert_eq!(
            (&source["checksums"]["bad"], &source["damaged"], &source["fin"]),
            (&0.into(), &0.into(), &true.into())
        );
        assert_eq!((&source["from"], count(&source["messages"])), (&address(udp, SOURCE).into(), seen_odata));
        let repair = &source["repair"];
        assert_eq!((count(&repair["asked"]), &repair["unrepaired"]), (4, &0.into()), "{repair}");
        assert!(truth.asked >= 4);
        times(repair, at_source);
        let point = source["points"].as_array().unwrap().iter().find(|one| one["leaving"] == at_source).unwrap();
        let expected = if at_source { (0, 0, 4) } else { (4, 4, 0) };
        assert_eq!((count(&point["gaps"]), count(&point["filled"]), count(&point["unneeded"])), expected, "{point}");
        assert_eq!(point["missing"], 0);
        assert!(count(&point["between_spms"]["count"]) > 3 && count(&point["between"]["count"]) == seen_odata - 1);
        // Our own messages in the data; the first two may not be known for ours yet.
        let ours = lines.iter().filter(|line| line["pgm"]["seq"].is_number()).count() as u64;
        assert!(ours + 2 >= seen_odata + truth.rdata, "{ours}");
    }
}

#[test]
fn what_parity_makes_up_for_is_repaired() {
    let folder = Folder::new("dump-pgm-parity");
    // Of groups of 8: one loss, which the unasked packet makes up for, three, for which two more are asked for, and one in
    // the last group, which a pause shorter than that before an SPM ends with four.
    let lost = [5, 20, 21, 22, 58];
    let pause = Some(2000 * US);
    let parity =
        fec::Config { group_packets: 8, proactive_packets: 1, group_pause_ns: pause, ..fec::Config::default() };
    for at_source in [true, false] {
        let mut tape = Tape::new(Some(3056));
        let truth = conversation_with(&mut tape, at_source, &lost, 64, Some(parity));
        assert_eq!((truth.delivered, truth.odata, truth.rdata, truth.rebuilt), (60, 60, 0, 5));
        let path = tape.file(&folder, "x.pcapng");
        let (lines, summary) = dumped(&path, &[]);
        let source = &summary["pgm"][0];
        let seen = |point: &&Value| point["leaving"] == at_source;
        let point = source["points"].as_array().unwrap().iter().find(seen).unwrap();
        let figures = ["gaps", "missing", "filled", "unneeded", "rebuilt"].map(|name| count(&point[name]));
        let repair = &source["repair"];
        if at_source {
            // All data were seen to leave.
            assert_eq!(figures, [0; 5], "{point}");
            assert_eq!(count(&point["parity"]), truth.parity + truth.ncfs, "{point}");
            continue;
        }
        assert_eq!(figures, [5, 0, 0, 0, 5], "{point}");
        // Those of one group were asked for together, and none of them in vain.
        assert_eq!([&repair["asked"], &repair["unrepaired"]].map(count), [3, 0], "{repair}");
        let rows = repair["numbers"].as_array().unwrap();
        assert_eq!(rows.iter().map(|row| count(&row["sqn"])).collect::<Vec<_>>(), lost.map(u64::from), "{repair}");
        for row in rows {
            let (gap, rebuilt) = (count(&row["gap_ns"]), count(&row["rebuilt_ns"]));
            assert!(gap < rebuilt && row["rdata_ns"].is_null(), "{row}");
            let asked = (20..=22).contains(&count(&row["sqn"]));
            assert_eq!(row["nak_ns"].as_u64().is_some_and(|nak| gap < nak && nak < rebuilt), asked, "{row}");
        }
        assert_eq!(count(&repair["gap_to_rebuilt"]["count"]), 5, "{repair}");
        let rebuilt: Vec<u64> = lines.iter().filter_map(|line| line["pgm"]["rebuilt"].as_u64()).collect();
        assert_eq!(rebuilt, [1, 3, 1]);
        let text = stdout(&run(&["dump", &path]));
        // The summary is as wide as the terminal.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in
            ["[3 rebuilt by parity]", "5 rebuilt by parity", "gap to rebuilt, µs: 5 times", "0 without a repair"]
        {
            assert!(text.contains(words), "'{words}' is not in: {text}");
        }
    }
}

fn address(udp: Option<u16>, ip: [u8; 4]) -> String {
    let ip = IpAddr::from(ip);
    udp.map_or_else(|| ip.to_string(), |port| format!("{ip}:{port}"))
}

/// NAK, NCF and repair of each number, in order and a link apart.
#[track_caller]
fn times(repair: &Value, at_source: bool) {
    let rows = repair["numbers"].as_array().unwrap();
    let numbers: Vec<u64> = rows.iter().map(|row| count(&row["sqn"])).collect();
    assert_eq!(numbers, LOST.map(u64::from));
    for row in rows {
        let (nak, ncf, rdata) = (count(&row["nak_ns"]), count(&row["ncf_ns"]), count(&row["rdata_ns"]));
        assert!(nak <= ncf && ncf <= rdata, "{row}");
        // The source answers at once; the receiver waits for there and back.
        let expected = if at_source { 0..=50 * US } else { 200 * US..=300 * US };
        assert!(expected.contains(&(ncf - nak)), "{row}");
        assert_eq!((row["gap_ns"].is_null(), row["data_ns"].is_null()), (at_source, !at_source), "{row}");
    }
    assert_eq!(count(&repair["nak_to_rdata"]["count"]), 4);
    assert_eq!(count(&repair["gap_to_rdata"]["count"]), if at_source { 0 } else { 4 });
}

#[test]
fn lines_are_in_the_words_of_the_field() {
    let folder = Folder::new("dump-pgm-text");
    let mut tape = Tape::new(Some(3056));
    conversation(&mut tape, false, &LOST, 64);
    let path = tape.file(&folder, "x.pcapng");
    let text = stdout(&run(&["dump", &path]));
    for words in [
        "pgm/udp 88 B  ODATA of 1.2.3.4.5.6.4321 port 7500 sqn 7 trail 0 tsdu 64 B, checksum good  message 7",
        "192.0.2.1:3056 > 239.192.0.1:3056",
        "[3 missing before]",
        "NAK of 1.2.3.4.5.6.4321 port 7500 sqn 20,21,22 source 192.0.2.1 group 239.192.0.1, OPT_NAK_LIST count 2",
        "NCF of 1.2.3.4.5.6.4321",
        "[fills a gap]",
        "after the gap",
        "SPM of 1.2.3.4.5.6.4321 port 7500 sqn 0 trail 0 lead",
        "OPT_FIN",
        "1 PGM source",
        "4 numbers asked for",
        "NAK to RDATA, µs: 4 times",
        "between two SPM, µs",
        "the slowest 4 of 4 repairs",
    ] {
        assert!(text.contains(words), "'{words}' is not in: {text}");
    }
    let lines = text.lines().count();
    let brief = stdout(&run(&["dump", &path, "--summary"]));
    assert!(brief.lines().count() < lines / 4 && brief.contains("the slowest 4"), "{brief}");
    let some = stdout(&run(&["dump", &path, "--count", "10", "--summary"]));
    assert!(some.contains(", 10 messages in 0 flows"), "{some}");
}

#[test]
fn fragments_and_answers_of_a_reflector_are_put_together() {
    let folder = Folder::new("dump-pgm-more");
    let mut tape = Tape::new(Some(5555));
    let truth = conversation(&mut tape, true, &[4], 3000);
    assert_eq!((truth.delivered, truth.odata), (60, 180));
    let path = tape.file(&folder, "fragments.pcapng");
    let (lines, summary) = dumped(&path, &["--pgm-port", "5555"]);
    assert_eq!((&summary["pgm"][0]["messages"], &summary["messages"]), (&60.into(), &60.into()));
    let first = lines.iter().find(|line| line["pgm"]["sqn"] == 3).unwrap();
    let option = &first["pgm"]["options"][0];
    assert_eq!(
        (&option["option"], &option["first"], &option["apdu"]),
        (&"OPT_FRAGMENT".into(), &3.into(), &3000.into())
    );
    // Unnamed, the port is learned from the first packet on: an SPM from the address that it names.
    let (learned, _) = dumped(&path, &[]);
    assert_eq!(learned.len(), lines.len());
    let brief = run(&["dump", &path, "--summary", "--all"]);
    assert_code(&brief, 0);
    assert_eq!(stdout(&brief), stdout(&run(&["dump", &path, "--summary"])));

    // Questions, and answers 300 µs later from another source.
    let mut tape = Tape::new(Some(3056));
    let mut bytes = vec![0; 2000];
    for seq in 0..20_u32 {
        for (tsi, way, from, delay) in [(TSI, Direction::Out, SOURCE, 0), (REFLECTOR, Direction::In, FAR, 300)] {
            let mut payload = message(u64::from(seq), 64);
            if delay > 0 {
                payload[16..24].copy_from_slice(&1000_u64.to_le_bytes());
                payload[24..32].copy_from_slice(&1500_u64.to_le_bytes());
            }
            let data = Data { sqn: Sqn(seq), trail: Sqn(0), payload: &payload };
            let packet = Packet { tsi, data_port: 7500, body: Body::Odata(data), options: Options::default() };
            let length = packet.write(&mut bytes).unwrap();
            tape.keep((u64::from(seq) * 1000 + delay) * US, way, from, GROUP, &bytes[..length]);
        }
    }
    let path = tape.file(&folder, "answers.pcapng");
    let (lines, summary) = dumped(&path, &[]);
    let answer = lines.iter().rfind(|line| line["pgm"]["answer"] == true).unwrap();
    assert_eq!((&answer["pgm"]["rtt_ns"], &answer["pgm"]["held_ticks"]), (&(300 * US).into(), &500.into()), "{answer}");
    let answers = &summary["pgm"][1]["answers"][0];
    assert_eq!((&answers["kind"], &answers["min_ns"]), (&"rtt".into(), &(300 * US).into()), "{answers}");
    assert!(count(&answers["count"]) >= 17);
    assert!(stdout(&run(&["dump", &path])).contains("RTT 300.000 µs  held 500 ticks"));
}

/// Packets of every type, and of every option that the library writes.
fn zoo() -> Vec<Vec<u8>> {
    let (source, group) = (IpAddr::from(SOURCE), IpAddr::from(GROUP));
    let spm = Body::Spm(Spm { sqn: Sqn(3), trail: Sqn(1), lead: Sqn(9), path: source });
    let nak = Nak { sqn: Sqn(5), source, group };
    let polr = Body::Polr(Polr { sqn: Sqn(8), round: 2 });
    let parity = Some(ParityParameters { proactive: true, on_demand: true, group_size: 16 });
    let plain = Options::default();
    let data = Data { sqn: Sqn(10), trail: Sqn(1), payload: b"hello" };
    [
        (spm, Options { parity_parameters: parity, join: Some(Sqn(4)), ..plain }),
        (spm, Options { reset: Some(Reset { naks_unanswered: true, code: 7 }), ..plain }),
        (Body::Odata(data), Options { syn: true, ..plain }),
        (Body::Rdata(data), Options { parity: true, variable_length: true, parity_group: Some(2), ..plain }),
        (Body::Nak(nak), Options { nak_list: NakList::Numbers(&[Sqn(6), Sqn(8)]), ..plain }),
        (Body::Nnak(nak), plain),
        (Body::Ncf(nak), Options { redirect: Some(source), ..plain }),
        (Body::Spmr, plain),
        (polr, plain),
    ]
    .into_iter()
    .map(|(body, options)| {
        let mut bytes = vec![0; 500];
        let length = Packet { tsi: TSI, data_port: 7500, body, options }.write(&mut bytes).unwrap();
        bytes.truncate(length);
        bytes
    })
    .collect()
}

#[test]
fn hostile_packets_are_shown_for_what_they_are() {
    let folder = Folder::new("dump-pgm-hostile");
    let mut tape = Tape::new(Some(3056));
    for (index, packet) in (0..).zip(zoo()) {
        let keep = |tape: &mut Tape, packet: &[u8], kept| {
            tape.keep_cut(index * 1000, Direction::In, SOURCE, GROUP, packet, kept);
        };
        keep(&mut tape, &packet, usize::MAX);
        // Cut by the capture, at every byte.
        for length in 0..packet.len() {
            keep(&mut tape, &packet, 42 + length);
        }
        // Cut on its way, and every byte another.
        for length in 0..packet.len() {
            keep(&mut tape, &packet[..length], usize::MAX);
            for change in [0xff_u8, 0x80, 0x01] {
                let mut other = packet.clone();
                other[length] ^= change;
                keep(&mut tape, &other, usize::MAX);
                other[length] = 0;
                keep(&mut tape, &other, usize::MAX);
            }
        }
    }
    let path = tape.file(&folder, "x.pcapng");
    for format in ["text", "json"] {
        let output = run(&["dump", &path, "--format", format, "--all"]);
        assert_code(&output, 0);
        let text = stdout(&output);
        for words in ["damaged", "bad", "OPT_PARITY_PRM", "OPT_RST", "OPT_REDIRECT", "N-NAK", "POLR", "SPMR", "OPT_SYN"]
        {
            assert!(text.contains(words), "{words}");
        }
        // An option without a length is the loop that others fell into.
        assert!(text.contains("has a length of 0 bytes"));
    }
}

#[test]
fn a_source_by_hand_captures_itself() {
    let test = "a_source_by_hand_captures_itself";
    if !support::can_make_namespaces(test) {
        return;
    }
    let folder = Folder::new("dump-pgm-hand");
    let path = format!("{}/x.pcapng", folder.path());
    let flags = ["pgm", "send", "239.192.77.1", "--interface", "lo", "--local", "127.0.0.1", "--udp-port", "3991"];
    let more = ["--count", "20", "--rate", "2k", "--size", "64", "--linger", "20ms", "--pcap", &path];
    assert_code(&run(&[&flags[..], &more].concat()), 0);
    let (_, summary) = dumped(&path, &["--pgm-port", "3991"]);
    let source = &summary["pgm"][0];
    // On loopback each packet is seen leaving and arriving, and neither is a repetition of the other.
    let points = source["points"].as_array().unwrap();
    assert_eq!(points.len(), 2, "{source}");
    for point in points {
        assert_eq!((&point["packets"]["ODATA"], &point["repeated"]), (&20.into(), &0.into()), "{point}");
    }
    assert_eq!((&source["fin"], &source["checksums"]["bad"]), (&true.into(), &0.into()), "{source}");
}

/// What tshark says of a file.
#[track_caller]
fn tshark(file: &str, arguments: &[&str]) -> Vec<Vec<String>> {
    let output =
        Command::new("tshark").args(["-n", "-r", file, "-d", "udp.port==3056,pgm"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output).lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

#[test]
fn tshark_agrees_on_types_numbers_and_checksums() {
    let test = "tshark_agrees_on_types_numbers_and_checksums";
    if !Command::new("tshark").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED {test}: there is no tshark");
        return;
    }
    let folder = Folder::new("dump-pgm-tshark");
    for (udp, at_source) in [(Some(3056), false), (None, true)] {
        let mut tape = Tape::new(udp);
        let truth = conversation(&mut tape, at_source, &LOST, 2000);
        assert_eq!(truth.delivered, 60);
        // One whose checksum is wrong.
        let mut broken = zoo().remove(0);
        broken[20] ^= 1;
        tape.keep(300_000_000, Direction::Out, SOURCE, GROUP, &broken);
        let path = tape.file(&folder, "x.pcapng");
        // Its fields of SPMs are those of data too.
        let fields = ["frame.number", "pgm.hdr.type", "pgm.hdr.cksum.status", "pgm.spm.sqn", "pgm.spm.trail"];
        let more = ["pgm.spm.lead", "pgm.nak.sqn", "pgm.hdr.tsdulen", "pgm.opts.fragment.fragment_offset"];
        let mut arguments = vec!["-o", "pgm.check_checksum:TRUE", "-T", "fields", "-E", "occurrence=l"];
        fields.iter().chain(&more).for_each(|field| arguments.extend(["-e", field]));
        let theirs = tshark(&path, &arguments);
        let (ours, _) = dumped(&path, &[]);
        assert_eq!(theirs.len(), ours.len());
        let codes: BTreeMap<&str, u32> =
            [("SPM", 0), ("ODATA", 4), ("RDATA", 5), ("NAK", 8), ("N-NAK", 9), ("NCF", 10), ("SPMR", 12)].into();
        let mut compared = 0_u64;
        for (theirs, ours) in theirs.iter().zip(&ours) {
            let pgm = &ours["pgm"];
            let kind = pgm["kind"].as_str().unwrap();
            let number = |text: &str| -> Option<u64> {
                let digits = text.strip_prefix("0x");
                digits.map_or_else(|| text.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok())
            };
            // tshark leaves SPMR to others.
            let Some(code) = number(&theirs[1]) else {
                assert_eq!(kind, "SPMR", "{theirs:?}");
                continue;
            };
            compared += 1;
            assert_eq!(code, u64::from(codes[kind]), "{theirs:?} {ours}");
            // Its values: 0 bad, 1 good.
            assert_eq!(theirs[2], if pgm["checksum"] == "good" { "1" } else { "0" }, "{theirs:?} {ours}");
            let none = &Value::Null;
            let expected = match kind {
                "SPM" => [&pgm["spm_sqn"], &pgm["trail"], &pgm["lead"], none],
                "ODATA" | "RDATA" => [&pgm["sqn"], &pgm["trail"], none, none],
                _ => [none, none, none, &pgm["sqn"]],
            };
            for (at, expected) in (3..).zip(expected) {
                assert_eq!(number(&theirs[at]), expected.as_u64(), "{theirs:?} {ours}");
            }
            assert_eq!(number(&theirs[7]).unwrap_or(0), pgm["tsdu_bytes"].as_u64().unwrap_or(0), "{theirs:?}");
            let offset = pgm["options"].as_array().and_then(|all| all.iter().find_map(|one| one["offset"].as_u64()));
            assert_eq!(number(&theirs[8]), offset, "{theirs:?} {ours}");
        }
        assert!(compared >= truth.odata + truth.rdata + truth.naks + truth.ncfs, "{compared}");
        let bad = tshark(&path, &["-o", "pgm.check_checksum:TRUE", "-Y", "pgm.bad_checksum"]);
        assert_eq!(bad.len(), 1);
    }
}
