//! What tshark says of our packets: it knows PGM, and did not learn it from us.

use crate::case::{BEGIN, GROUP, GROUP6, LIMIT, can_run, can_run_over_ipv6, number};
use crate::network::{Network, address, address6};
use crate::process::Process;
use crate::support::Folder;
use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

/// Packet types of RFC 3208, section 8.
const SPM: &str = "0x00";
const ODATA: &str = "0x04";
const RDATA: &str = "0x05";
const NAK: &str = "0x08";
const NCF: &str = "0x0a";
#[test]
fn tshark_decodes_every_packet_and_finds_its_checksum_good() {
    const TEST: &str = "tshark_decodes_every_packet_and_finds_its_checksum_good";
    if !can_run(TEST, &[]) || !has_tshark(TEST) {
        return;
    }
    decoded("udp", "udp port 3056", "3000", &["Fragment", "Fin"], false);
    // A packet that is full has no room for OPT_SYN.
    decoded("raw", "ip proto 113", "64", &["Syn", "Fin"], false);
}

#[test]
#[ignore = "the whole matrix takes minutes: cargo xtask test --interop"]
fn tshark_decodes_every_packet_over_ipv6_too() {
    const TEST: &str = "tshark_decodes_every_packet_over_ipv6_too";
    if !can_run_over_ipv6(TEST, &[]) || !has_tshark(TEST) {
        return;
    }
    decoded("udp", "udp port 3056", "3000", &["Fragment", "Fin"], true);
    // "ip6 proto 113" would pass over those behind the header of the router alert.
    decoded("raw", "ip6", "64", &["Syn", "Fin"], true);
}

fn has_tshark(test: &str) -> bool {
    let there = Command::new("tshark").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("SKIPPED {test}: there is no tshark");
    }
    there
}

fn decoded(carrier: &str, filter: &str, bytes: &str, options: &[&str], v6: bool) {
    let folder = Folder::new(&format!("interop-{carrier}-{}", if v6 { 6 } else { 4 }));
    let file = folder.0.join("pgm.pcapng").to_str().unwrap().to_owned();
    let network = if v6 { Network::of(2).with_ipv6() } else { Network::of(2) };
    network.lose(1, 5);
    let mut tshark = network.command(1, "tshark");
    tshark.args(["-n", "-i", "wire", "-f", filter, "-w", &file]);
    let mut tshark = Process::start("tshark", tshark);
    tshark.says("Capturing on", BEGIN);
    let ours = |host: usize, words: &[&str]| {
        let mut command = network.command(host, env!("CARGO_BIN_EXE_windhover"));
        let (group, local) = if v6 { (GROUP6, address6(host)) } else { (GROUP, address(host)) };
        command.args(["pgm", words[0], group, "--carrier", carrier, "--local", &local]).args(&words[1..]);
        command
    };
    let end = ["--until-fin", "--for", "30s"];
    let receive = [&["recv", "--check", "--summary", "--format", "json"], &end[..]].concat();
    let mut receiver = Process::start("receiver", ours(1, &receive));
    receiver.says("hears", BEGIN);
    let send = ["send", "--count", "300", "--size", bytes, "--rate", "1000", "--json", "--linger", "300ms"];
    let (status, sent) = Process::start("sender", ours(0, &send)).finish(LIMIT);
    assert!(status.success(), "{sent}");
    let (status, seen) = receiver.finish(LIMIT);
    assert!(status.success(), "{seen}");
    assert_eq!(number(&seen["messages"]), 300, "{seen}");
    let read = |arguments: &[&str]| {
        let mut command = Command::new("tshark");
        command.args(["-n", "-r", &file, "-d", "udp.port==3056,pgm"]).args(arguments);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let least = number(&sent["source"]["odata"]) + number(&sent["source"]["rdata"]);
    // Packets reach the file in blocks, on a busy machine late: what is not read when the capture ends is left out of the file.
    let begin = Instant::now();
    while u64::try_from(read(&["-Y", "pgm"]).lines().count()).unwrap() < least && begin.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(300));
    }
    tshark.interrupt();
    tshark.ended(LIMIT);

    let fields = ["-T", "fields", "-e", "pgm.hdr.type", "-e", "pgm.hdr.cksum.status", "-e", "pgm.bad_checksum"];
    let text = read(&[&fields[..], &["-e", "_ws.malformed", "-e", "frame.number"]].concat());
    let (mut types, mut packets) = (BTreeSet::new(), 0_u64);
    for line in text.lines() {
        let [kind, checksum, bad, malformed, _] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{carrier}: {line}")
        };
        // SPMR is left as UDP by tshark.
        if kind.is_empty() {
            continue;
        }
        packets += 1;
        // tshark 4.0 puts the checksum itself into the field of its status too, before the status.
        let status = checksum.rsplit(',').next();
        assert_eq!((status, bad, malformed), (Some("1"), "", ""), "{carrier}: {line}");
        types.insert(kind.to_owned());
    }
    for kind in [SPM, ODATA, RDATA, NAK, NCF] {
        assert!(types.contains(kind), "{carrier}: no {kind} in {types:?}");
    }
    let text = read(&["-V"]);
    for option in options {
        assert!(text.contains(&format!("Option: {option}")), "{carrier}: no option {option}");
    }
    assert!(packets >= least, "{carrier}: {packets} packets of {least}");
    let family = if v6 { "IPv6" } else { "IPv4" };
    println!("INTEROP windhover to tshark    {carrier:<7} {family} {packets} packets decoded, every checksum good");
}
