//! What tshark says of our packets: it knows PGM, and did not learn it from us.

use crate::case::{BEGIN, GROUP, LIMIT, can_run, number};
use crate::network::Network;
use crate::process::Process;
use crate::support::Folder;
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

/// Packet types of RFC 3208, section 8.
const SPM: &str = "0x00";
const ODATA: &str = "0x04";
const RDATA: &str = "0x05";
const NAK: &str = "0x08";
const NCF: &str = "0x0a";
/// Options of section 9.
const FRAGMENT: &str = "0x01";
const SYN: &str = "0x0d";
const FIN: &str = "0x0e";

#[test]
fn tshark_decodes_every_packet_and_finds_its_checksum_good() {
    const TEST: &str = "tshark_decodes_every_packet_and_finds_its_checksum_good";
    if !can_run(TEST, &[]) {
        return;
    }
    if !Command::new("tshark").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED {TEST}: there is no tshark");
        return;
    }
    for (carrier, filter) in [("udp", "udp port 3056"), ("raw", "ip proto 113")] {
        decoded(carrier, filter);
    }
}

fn decoded(carrier: &str, filter: &str) {
    let folder = Folder::new(&format!("interop-{carrier}"));
    let file = folder.0.join("pgm.pcapng").to_str().unwrap().to_owned();
    let network = Network::of(2);
    network.lose(1, 5);
    let mut tshark = network.command(1, "tshark");
    tshark.args(["-n", "-i", "wire", "-f", filter, "-w", &file]);
    let mut tshark = Process::start("tshark", tshark);
    tshark.says("Capturing on", BEGIN);
    let ours = |host: usize, words: &[&str]| {
        let mut command = network.command(host, env!("CARGO_BIN_EXE_windhover"));
        command.args(["pgm", words[0], GROUP, "--carrier", carrier]).args(&words[1..]);
        command
    };
    let end = ["--until-fin", "--for", "30s"];
    let receive = [&["recv", "--check", "--summary", "--format", "json"], &end[..]].concat();
    let mut receiver = Process::start("receiver", ours(1, &receive));
    receiver.says("hears", BEGIN);
    let send = ["send", "--count", "300", "--size", "3000", "--rate", "1000", "--json", "--linger", "300ms"];
    let (status, sent) = Process::start("sender", ours(0, &send)).finish(LIMIT);
    assert!(status.success(), "{sent}");
    let (status, seen) = receiver.finish(LIMIT);
    assert!(status.success(), "{seen}");
    assert_eq!(number(&seen["messages"]), 300, "{seen}");
    // Packets reach the file in blocks.
    std::thread::sleep(Duration::from_millis(500));
    tshark.interrupt();
    tshark.ended(LIMIT);

    let fields = ["pgm.hdr.type", "pgm.hdr.cksum.status", "pgm.opts.type", "_ws.malformed", "frame.number"];
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", &file, "-d", "udp.port==3056,pgm", "-T", "fields"]);
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (mut types, mut options, mut packets) = (BTreeSet::new(), BTreeSet::new(), 0_u64);
    for line in text.lines() {
        let [kind, checksum, found, malformed, _] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{carrier}: {line}")
        };
        // SPMR is left as UDP by tshark.
        if kind.is_empty() {
            continue;
        }
        packets += 1;
        assert_eq!((checksum, malformed), ("1", ""), "{carrier}: {line}");
        types.insert(kind.to_owned());
        options.extend(found.split(',').filter(|word| !word.is_empty()).map(str::to_owned));
    }
    for kind in [SPM, ODATA, RDATA, NAK, NCF] {
        assert!(types.contains(kind), "{carrier}: no {kind} in {types:?}");
    }
    for option in [FRAGMENT, SYN, FIN] {
        assert!(options.contains(option), "{carrier}: no {option} in {options:?}");
    }
    let told = number(&sent["source"]["odata"]) + number(&sent["source"]["rdata"]);
    assert!(packets >= told, "{carrier}: {packets} packets of {told}");
    println!("INTEROP windhover to tshark    {carrier:<7} {packets} packets decoded, every checksum good");
}
