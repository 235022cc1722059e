//! `windhover dump` of files: what it prints of good ones, damaged ones and those of others.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use std::io::Write as _;
use std::process::Stdio;
use support::{Folder, assert_code, assert_refused, documents, run, stderr, stdout, windhover};

/// A datagram between two fixed hosts as raw IPv4.
fn datagram(back: bool, payload: &[u8]) -> Vec<u8> {
    let (a, b) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    let (from, to) = if back { (b, a) } else { (a, b) };
    let ports = if back { [0x1c, 0xf5, 0x13, 0x88] } else { [0x13, 0x88, 0x1c, 0xf5] };
    let mut packet = vec![0x45, 0];
    packet.extend(u16::try_from(payload.len() + 28).unwrap().to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    packet.extend(from);
    packet.extend(to);
    packet.extend(ports);
    packet.extend(u16::try_from(payload.len() + 8).unwrap().to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

fn message(seq: u64) -> Vec<u8> {
    [&seq.to_le_bytes()[..], &77_u64.to_le_bytes(), &[0; 16]].concat()
}

/// A pcap file in ns of raw IP: times in ns since its start, and packets.
fn file(packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = 0xa1b2_3c4d_u32.to_le_bytes().to_vec();
    bytes.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 101, 0, 0, 0]);
    for (time, packet) in packets {
        let length = u32::try_from(packet.len()).unwrap();
        for value in [1_800_000_000 + time / 1_000_000_000, time % 1_000_000_000, length, length] {
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend(packet);
    }
    bytes
}

/// A proof and four rounds with one question lost, 1 ms apart, answered after 40 µs.
fn session() -> Vec<(u32, Vec<u8>)> {
    let mut packets = vec![(0, datagram(false, &[&b"WHpr"[..], &[9; 16]].concat()))];
    for seq in [1_u32, 2, 4, 5] {
        packets.push((seq * 1_000_000, datagram(false, &message(u64::from(seq)))));
        packets.push((seq * 1_000_000 + 40_000, datagram(true, &message(u64::from(seq)))));
    }
    packets
}

fn write(folder: &Folder, name: &str, bytes: &[u8]) -> String {
    let path = folder.0.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn messages_have_their_times_and_numbers() {
    let folder = Folder::new("dump");
    let path = write(&folder, "good.pcap", &file(&session()));
    let output = run(&["dump", &path]);
    assert_code(&output, 0);
    let text = stdout(&output);
    assert!(text.starts_with("# "), "{text}");
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert!(lines[0].contains("proof of the path") && lines[0].contains("0.000000000"), "{text}");
    assert!(!text.contains("0909"), "a token is not for everybody's eyes: {text}");
    assert!(lines[1].contains("192.0.2.1:5000 > 192.0.2.2:7413") && lines[1].contains("message 1"), "{text}");
    assert!(lines[2].contains("RTT 40.000 µs"), "{text}");
    assert!(lines[3].contains("+1000.000") && lines[3].contains("message 2"), "{text}");
    assert!(lines[5].contains("[1 missing before]"), "{text}");
    for words in ["9 packets, 8 messages", "1 numbers missing", "4 times, min 40.000", "max 40.000"] {
        assert!(text.contains(words), "'{words}' is not in: {text}");
    }
    let output = run(&["dump", &path, "--format", "json", "--seconds", "0.0025"]);
    let all = documents(&output);
    assert_eq!(all.len(), 6, "five packets and the summary");
    assert_eq!((&all[2]["rtt_ns"], &all[2]["seq"], &all[2]["forward"]), (&40_000.into(), &1.into(), &false.into()));
    assert_eq!((&all[3]["delta_ns"], &all[3]["tag"]), (&1_000_000.into(), &"000000000000004d".into()));
    assert_eq!((&all[5]["type"], &all[5]["messages"]), (&"summary".into(), &4.into()));
    let output = run(&["dump", &path, "--count", "3", "--summary"]);
    assert!(stdout(&output).contains("4 packets, 3 messages"), "{}", stdout(&output));
}

#[test]
fn frames_of_exchanges_are_named() {
    use exchange::{Framing, Header, Quality};
    let frame = |framing: Framing, sequence: u64| {
        let is_last = sequence == 5;
        let header = Header {
            quality: Quality::Stale,
            is_last,
            topic: 7,
            publisher: 3,
            layout: 9,
            sequence,
            cycle: sequence + 100,
            ..Header::default()
        };
        let mut bytes = vec![0; framing.header_bytes() + 8];
        framing.encode(&header, &[1; 8], &mut bytes).unwrap();
        bytes
    };
    let mut damaged = frame(Framing::Native, 4);
    damaged[70] ^= 1;
    let native = [frame(Framing::Native, 1), frame(Framing::Native, 3), damaged, frame(Framing::Native, 5)];
    let sdn = [frame(Framing::Sdn, 8), frame(Framing::Sdn, 9), frame(Framing::Sdn, 9)[..50].to_vec()];
    let packets =
        native.iter().map(|bytes| datagram(false, bytes)).chain(sdn.iter().map(|bytes| datagram(true, bytes)));
    let mut packets: Vec<(u32, Vec<u8>)> = (0..).map(|at| at * 1_000_000).zip(packets).collect();
    // As a snap length would leave it.
    let mut cut = datagram(false, &native[0]);
    cut.truncate(28 + 20);
    packets.push((9_000_000, cut));
    packets.push((9_500_000, datagram(false, b"W is not of it")));
    let folder = Folder::new("dump-exchange");
    let path = write(&folder, "exchange.pcap", &file(&packets));
    let output = run(&["dump", &path]);
    assert_code(&output, 0);
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().skip(1).collect();
    for (line, words) in lines.iter().zip([
        "udp 72 B  exchange native topic 7 from 3 seq 1 cycle 101 STALE",
        "seq 3 cycle 103 STALE  [1 missing before]",
        "exchange native, damaged: a wrong checksum",
        "seq 5 cycle 105 STALE, the last",
        "udp 56 B  exchange sdn topic 00000007 version 00000009 seq 8",
        "seq 9",
        "exchange sdn, damaged: a length that is not that of the datagram",
        "udp 72 B  exchange native, cut by the capture",
        "9 packets, 0 messages in 0 flows of Windhover's, 8 frames of exchanges, 3 of them damaged or cut",
    ]) {
        assert!(line.contains(words), "'{words}' is not in: {line}");
    }
    assert_eq!(lines[9..], ["  1 packets of others"], "{text}");
    let all = documents(&run(&["dump", &path, "--format", "json"]));
    assert_eq!((&all[1]["exchange"]["cycle"], &all[1]["missing_before"]), (&103.into(), &1.into()));
    assert_eq!((&all[1]["delta_ns"], &all[4]["exchange"]["framing"]), (&1_000_000.into(), &"sdn".into()));
    assert_eq!(
        (&all[4]["exchange"]["cycle"], &all[7]["exchange"]["damaged"]),
        (&serde_json::Value::Null, &"cut by the capture".into())
    );
    assert_eq!((&all[8]["exchange"], &all[8]["exchange_damaged"]), (&8.into(), &3.into()));
}

#[test]
fn wireshark_decodes_frames_by_the_script() {
    const TEST: &str = "wireshark_decodes_frames_by_the_script";
    use exchange::{Framing, Header, Quality};
    if !std::process::Command::new("tshark").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED {TEST}: there is no tshark");
        return;
    }
    let header = Header {
        quality: Quality::Bad,
        is_last: true,
        topic: 7,
        publisher: 3,
        layout: 0x11,
        epoch: 1 << 63,
        sequence: 5,
        cycle: 105,
        scheduled_ns: 8,
        sent_ns: 9,
    };
    let mut frame = [0; 66];
    Framing::Native.encode(&header, &[0xab, 0xcd], &mut frame).unwrap();
    let crc = u32::from_le_bytes(frame[4..8].try_into().unwrap());
    let packets = [&frame[..], &frame[..65], b"WX is no frame"];
    let packets: Vec<(u32, Vec<u8>)> = (0..).zip(packets.map(|bytes| datagram(false, bytes))).collect();
    let folder = Folder::new("dump-tshark");
    let path = write(&folder, "exchange.pcap", &file(&packets));
    let script = concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/../../examples/exchange/windhover_exchange.lua");
    let fields = ["quality", "last", "crc", "topic", "publisher", "length", "layout", "epoch", "sequence", "cycle"];
    let fields = fields.iter().chain(&["scheduled_ns", "sent_ns", "data"]);
    let fields: Vec<String> = fields.map(|field| format!("-ewindhover_exchange.{field}")).collect();
    let mut tshark = std::process::Command::new("tshark");
    tshark.args(["-X", script, "-r", &path, "-Y", "windhover_exchange", "-T", "fields", "-E", "separator=,"]);
    let output = tshark.args(&fields).output().unwrap();
    let expected = format!("2,1,0x{crc:08x},7,3,2,0x0000000000000011,9223372036854775808,5,105,8,9,abcd\n");
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
}

#[test]
fn the_messages_of_others_are_left_out_unless_they_are_asked_for() {
    let folder = Folder::new("dump-others");
    let strangers: Vec<(u32, Vec<u8>)> = (0..5).map(|at| (at * 1000, datagram(at % 2 == 1, b"hello there"))).collect();
    let path = write(&folder, "others.pcap", &file(&strangers));
    let text = stdout(&run(&["dump", &path]));
    assert!(text.contains("0 messages") && text.contains("--port") && text.lines().count() == 2, "{text}");
    let text = stdout(&run(&["dump", &path, "--all"]));
    assert_eq!(text.lines().filter(|line| line.contains("not Windhover's")).count(), 5, "{text}");
    // Named by their port they are taken for messages.
    let text = stdout(&run(&["dump", &path, "--port", "7413", "--summary"]));
    assert!(text.contains("5 messages"), "{text}");
    let text = stdout(&run(&["dump", &path, "--host", "192.0.2.9", "--all"]));
    assert!(text.contains("5 left out"), "{text}");
    // A session whose proof was not captured is known by its numbers.
    let late = write(&folder, "late.pcap", &file(&session()[1..]));
    assert!(stdout(&run(&["dump", &late, "--summary"])).contains(" 2 messages"), "{}", stdout(&run(&["dump", &late])));
}

#[test]
fn a_damaged_file_says_where_after_what_came_before() {
    let folder = Folder::new("dump-damaged");
    let whole = file(&session());
    let cut = write(&folder, "cut.pcap", &whole[..whole.len() - 7]);
    let output = run(&["dump", &cut]);
    assert_code(&output, 1);
    let text = stderr(&output);
    let place = format!("byte {}", whole.len() - 7);
    assert!(text.lines().count() == 1 && text.contains("cut.pcap") && text.contains(&place), "{text}");
    assert!(stdout(&output).contains("message 5") && stdout(&output).contains("8 packets"), "{}", stdout(&output));
    let mut broken = whole;
    // The length of the second packet.
    broken[24 + 16 + 48 + 8..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let broken = write(&folder, "broken.pcap", &broken);
    let output = run(&["dump", &broken, "--format", "json"]);
    assert_code(&output, 1);
    assert!(stderr(&output).contains("byte 88"), "{}", stderr(&output));
    assert_eq!(documents(&output).len(), 2, "the packet before, and the summary");
    let empty = write(&folder, "empty", b"");
    // One that was cut off is damaged; what never was a capture was named by mistake.
    let text = folder.file("text", "no capture");
    for (path, code, words) in [(empty.as_str(), 1, "ends at byte 0"), (&text, 2, "6e 6f 20 63")] {
        let output = run(&["dump", path]);
        assert_code(&output, code);
        assert!(stderr(&output).contains(words) && stderr(&output).contains(path), "{}", stderr(&output));
    }
    assert_refused(&["dump", &format!("{}/none", folder.path())], 2, &["none", "No such file"]);
    assert_refused(&["dump", "no-such-if0"], 2, &["no-such-if0", "interface"]);
}

#[test]
fn a_pipe_may_feed_it_and_a_reader_may_leave() {
    let mut packets = session();
    for round in 0..50_000 {
        packets.push((6_000_000 + round * 1000, datagram(false, &message(u64::from(round) + 6))));
    }
    let bytes = file(&packets);
    let mut child =
        windhover(&["dump", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || input.write_all(&bytes));
    // Nobody reads on: it ends, and says nothing about that.
    let mut output = child.stdout.take().unwrap();
    std::io::Read::read_exact(&mut output, &mut [0; 100]).unwrap();
    drop(output);
    let rest = child.wait_with_output().unwrap();
    assert_eq!((rest.status.code(), stderr(&rest).as_str()), (Some(0), ""));
    // The feeder was not waited for either.
    let _ = feeder.join().unwrap();
}

#[test]
fn what_is_no_capture_has_no_summary() {
    let folder = Folder::new("dump-none");
    let text = folder.file("plan.toml", "name = \"no capture\"\n");
    for source in [text.as_str(), "/nonexistent/file.pcap"] {
        let output = run(&["dump", source]);
        assert_code(&output, 2);
        assert_eq!(stdout(&output), "", "{source}");
        assert!(stderr(&output).contains(source), "{}", stderr(&output));
    }
    // A capture of nothing is one.
    let empty = write(&folder, "empty.pcap", &file(&[]));
    let output = run(&["dump", &empty]);
    assert_code(&output, 0);
    assert!(stdout(&output).starts_with("0 packets, 0 messages in 0 flows"), "{}", stdout(&output));
    let one = write(&folder, "one.pcap", &file(&session()));
    support::fits_every_width(&["dump", &one, "--summary"]);
    assert!(stdout(&run(&["dump", &one, "--summary"])).contains(" in 1 flow of"));
}
