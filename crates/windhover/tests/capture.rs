//! Captures beside measurements and on interfaces, read by tshark and by `windhover dump`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{
    Folder, Server, assert_code, assert_measured, assert_refused, assert_run_measured, documents, run, run_directory,
    stderr, stdout, windhover,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_windhover");

/// Two hosts, removed at the end.
struct Lab {
    name: String,
    device: String,
}

impl Lab {
    /// Names of labs are short: devices have theirs.
    fn up(letter: char) -> Self {
        let name = format!("{letter}{}", std::process::id());
        let output = run(&["lab", "up", &name]);
        assert_code(&output, 0);
        let text = stdout(&output);
        let row = text.lines().find(|line| line.starts_with(&format!("{name}/a"))).unwrap();
        let device = row.split_whitespace().nth(2).unwrap().to_owned();
        Self { name, device }
    }

    fn address(&self, key: &str) -> String {
        let listed: Value = serde_json::from_str(&stdout(&run(&["lab", "list", "--json"]))).unwrap();
        let lab = listed.as_array().unwrap().iter().find(|lab| lab["name"] == self.name.as_str()).unwrap().clone();
        lab["hosts"][1][key].as_str().unwrap().to_owned()
    }

    fn on(&self, host: &str, arguments: &[&str]) -> Command {
        let place = format!("{}/{host}", self.name);
        windhover(&[&["lab", "exec", &place, "--", PROGRAM], arguments].concat())
    }

    /// An endpoint on the second host.
    fn serve(&self, bind: &str) -> Server {
        Server::started(self.on("b", &["serve", "--bind", bind]))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = run(&["lab", "down", &self.name]);
    }
}

/// Whether there is a tshark; `cargo xtask test` installs one.
fn has_tshark(test: &str) -> bool {
    let found = Command::new("tshark").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("SKIPPED {test}: there is no tshark");
    }
    found
}

/// What tshark prints of a file, which it must open without complaint.
#[track_caller]
fn tshark(file: &str, arguments: &[&str]) -> Vec<String> {
    let output = Command::new("tshark").args(["-n", "-r", file]).args(arguments).output().unwrap();
    let complaints: Vec<String> =
        stderr(&output).lines().filter(|line| !line.contains("Running as user")).map(str::to_owned).collect();
    assert!(output.status.success() && complaints.is_empty(), "{complaints:?}");
    stdout(&output).lines().map(str::to_owned).collect()
}

/// The last line of `dump --format json`.
#[track_caller]
fn summary(file: &str) -> Value {
    let output = run(&["dump", file, "--summary", "--format", "json"]);
    assert_code(&output, 0);
    documents(&output).pop().unwrap()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no count: {value}"))
}

#[test]
fn tshark_opens_the_capture_and_finds_every_message_in_it() {
    let test = "tshark_opens_the_capture_and_finds_every_message_in_it";
    if !support::can_make_namespaces(test) || !has_tshark(test) {
        return;
    }
    let lab = Lab::up('k');
    let folder = Folder::new("capture");
    for key in ["ipv4", "ipv6"] {
        let address = lab.address(key);
        let bind = if key == "ipv6" { format!("[{address}]:7413") } else { format!("{address}:7413") };
        let _server = lab.serve(&bind);
        let file = format!("{}/{key}.pcapng", folder.path());
        let quick = ["--warmup", "5", "--warmup-count", "10", "--format", "json"];
        let flags = ["pingpong", "udp", &bind, "--size", "64,1400", "--count", "300", "--pcap", &file];
        let output = lab.on("a", &[&flags[..], &quick].concat()).output().unwrap();
        assert_code(&output, 0);
        let measured = documents(&output);
        // Rounds of the warm-up and between batches are on the wire too.
        let rounds: u64 = measured.iter().map(|one| count(&one["ends"]["reflector"]["usage"]["transactions"])).sum();
        assert!(rounds >= 600, "{rounds}");
        let proofs = tshark(&file, &["-Y", "udp.length == 28"]).len() as u64;
        let datagrams = tshark(&file, &["-Y", "udp"]).len() as u64;
        assert!(proofs >= 1);
        assert_eq!(datagrams, 2 * rounds + proofs);
        // Message 493 begins as a Pathport packet does, and tshark takes it for one unless it is told.
        let port = measured[0]["ends"]["reflector"]["address"].as_str().unwrap().rsplit(':').next().unwrap();
        let plain = format!("udp.port=={port},data");
        assert_eq!(tshark(&file, &["-d", &plain, "-Y", "_ws.malformed"]), [""; 0]);
        // One data path, one control connection, and nothing else.
        let ports: BTreeSet<String> =
            tshark(&file, &["-T", "fields", "-e", "udp.port", "-e", "tcp.stream"]).into_iter().collect();
        assert_eq!(ports.len(), 3, "{ports:?}");
        // Headers and 64 bytes of payload.
        let longest = tshark(&file, &["-Y", "udp", "-T", "fields", "-e", "frame.cap_len", "-e", "frame.len"]);
        let head = if key == "ipv6" { 14 + 40 + 8 } else { 14 + 20 + 8 };
        assert!(longest.contains(&format!("{}\t{}", head + 64, head + 1400)), "{:?}", longest.last());
        about_the_file(&file, &lab.device);
        // Our own decoder sees the same.
        let all = summary(&file);
        assert_eq!((count(&all["messages"]), count(&all["dropped"])), (2 * rounds, 0), "{all}");
        let data = all["flows"].as_array().unwrap().iter().find(|flow| flow["protocol"] == "udp").unwrap();
        assert_eq!((count(&data["proofs"]), &data["to"]), (proofs, &measured[0]["ends"]["reflector"]["address"]));
        assert!(data["directions"].as_array().unwrap().iter().all(|one| one["missing"] == 0), "{data}");
        let answers = data["answers"].as_array().unwrap();
        assert_eq!((answers.len(), &answers[0]["kind"], count(&answers[0]["count"])), (1, &"rtt".into(), rounds));
        // The capture's point lies within what the initiator measures.
        let slowest = 2 * count(&measured[0]["latency"]["max_ns"]).max(count(&measured[1]["latency"]["max_ns"]));
        assert!(count(&answers[0]["min_ns"]) < slowest, "{data}");
    }
}

/// Name, speed, units, direction and statistics.
fn about_the_file(file: &str, device: &str) {
    let output = Command::new("capinfos").arg(file).output().unwrap();
    let text = stdout(&output);
    for words in [
        "nanoseconds (9)",
        &format!("Name = {device}"),
        // What veth says of itself: 10 Gbit/s.
        "Speed = 10000000000",
        "Number of stat entries = 1",
        "pingpong udp",
        "windhover",
    ] {
        assert!(text.contains(words), "'{words}' is not in: {text}");
    }
    let directions = tshark(file, &["-Y", "udp", "-T", "fields", "-e", "frame.packet_flags_direction"]);
    let out = directions.iter().filter(|flag| flag.ends_with('2')).count();
    let back = directions.iter().filter(|flag| flag.ends_with('1')).count();
    assert!(out > back && out + back == directions.len(), "{out} {back} of {}", directions.len());
}

#[test]
fn tcp_rates_and_loopback_are_captured_too() {
    let test = "tcp_rates_and_loopback_are_captured_too";
    if !support::can_make_namespaces(test) || !has_tshark(test) {
        return;
    }
    let folder = Folder::new("capture-more");
    let file = format!("{}/x.pcapng", folder.path());
    let quick = ["--fork-both", "--warmup", "5", "--warmup-count", "10", "--format", "json", "--pcap", &file];
    for flags in [
        &["rr", "tcp", "--size", "100", "--count", "200"][..],
        &["rr", "tcp", "--connect-each", "--size", "100", "--count", "50"],
        &["pingpong", "tcp", "-6", "--size", "100", "--count", "200"],
        &["pingpong", "udp", "--size", "100", "--count", "200", "--unconnected"],
    ] {
        let output = run(&[flags, &quick].concat());
        assert_code(&output, 0);
        let udp = flags[1] == "udp";
        let packets = tshark(&file, &["-Y", if udp { "udp.length == 108" } else { "tcp.len == 100" }]).len() as u64;
        let rounds = count(&documents(&output)[0]["ends"]["reflector"]["usage"]["transactions"]);
        // There and back, each seen leaving and arriving.
        assert_eq!(packets, 4 * rounds, "{flags:?}");
        if !flags.contains(&"--connect-each") {
            assert_eq!(count(&summary(&file)["messages"]), 4 * rounds, "{flags:?}");
        }
    }
    let flags = ["pace", "udp", "--rate", "2k", "--seconds", "0.5", "--size", "100", "--warmup", "20"];
    let output = run(&[&flags[..], &["--fork-both", "--format", "json", "--pcap", &file]].concat());
    assert_measured(&output);
    let sent = count(&documents(&output)[0]["messages"]["sent"]);
    let all = summary(&file);
    assert!(count(&all["messages"]) >= 2 * sent, "{sent}: {all}");
    tshark(&file, &["-Y", "udp"]);
}

/// Packets to groups are lost before they reach the second host's stack: two in a hundred of them.
#[track_caller]
fn lose_some(lab: &Lab) {
    let place = format!("{}/b", lab.name);
    let rules = "add table ip lossy; add chain ip lossy some { type filter hook prerouting priority -300; }; \
                 add rule ip lossy some ip daddr 224.0.0.0/4 numgen random mod 100 < 2 drop";
    assert_code(&windhover(&["lab", "exec", &place, "--", "nft", rules]).output().unwrap(), 0);
}

#[test]
fn pgm_is_captured_with_its_requests_and_repairs() {
    let test = "pgm_is_captured_with_its_requests_and_repairs";
    if !support::can_make_namespaces(test) || !has_tshark(test) {
        return;
    }
    if !Command::new("nft").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED {test}: there is no nft");
        return;
    }
    let lab = Lab::up('g');
    lose_some(&lab);
    let bind = format!("{}:7413", lab.address("ipv4"));
    let _server = lab.serve(&bind);
    let folder = Folder::new("capture-pgm");
    for carrier in ["udp", "raw"] {
        let file = format!("{}/{carrier}.pcapng", folder.path());
        let flags =
            ["--quiet", "pace", "pgm", "239.192.0.1", &bind, "--carrier", carrier, "--rate", "2k", "--seconds", "0.5"];
        let more = ["--size", "100", "--warmup", "20", "--format", "json", "--pcap", &file, "--pcap-snap", "200"];
        let output = lab.on("a", &[&flags[..], &more].concat()).output().unwrap();
        assert_measured(&output);
        let measured = documents(&output).remove(0);
        let all = summary(&file);
        let sources = all["pgm"].as_array().unwrap();
        assert_eq!(sources.len(), 2, "{all}");
        // What the group's source said of itself: its data, all of it; and both ways of its repairs.
        let first =
            sources.iter().find(|one| one["repair"]["asked"] != 0).unwrap_or_else(|| panic!("no repair: {all}"));
        let of = |leaving: bool, kind: &str| {
            let points = first["points"].as_array().unwrap();
            let point = points.iter().find(|one| one["leaving"] == leaving).unwrap_or_else(|| panic!("{first}"));
            point["packets"][kind].as_u64().unwrap_or(0)
        };
        let sent = count(&measured["messages"]["sent"]);
        assert!(of(true, "ODATA") > sent && of(false, "NAK") > 0 && of(true, "NCF") > 0, "{first}");
        let asked = count(&first["repair"]["asked"]);
        assert!(of(true, "RDATA") >= asked - count(&first["repair"]["unrepaired"]), "{first}");
        assert!(count(&first["repair"]["nak_to_rdata"]["count"]) > 0, "{first}");
        let sums = |kind: &str| sources.iter().map(|one| count(&one["checksums"][kind])).sum::<u64>();
        assert_eq!((sums("bad"), sums("none"), sums("unknown")), (0, 0, 0), "{all}");
        let answers: u64 =
            sources.iter().flat_map(|one| one["answers"].as_array().unwrap()).map(|one| count(&one["count"])).sum();
        let answered = count(&measured["messages"]["received"]);
        assert!(answers >= answered, "{answers} of {answered}");
        // tshark counts the same packets, and finds no fault with their checksums.
        let as_pgm = ["-d", "udp.port==3056,pgm", "-o", "pgm.check_checksum:TRUE"];
        let packets = tshark(&file, &[&as_pgm[..], &["-Y", "pgm"]].concat()).len() as u64;
        let spmr: u64 = sources
            .iter()
            .flat_map(|one| one["points"].as_array().unwrap())
            .filter_map(|point| point["packets"]["SPMR"].as_u64())
            .sum();
        assert_eq!(packets, sums("good") - spmr);
        assert_eq!(tshark(&file, &[&as_pgm[..], &["-Y", "pgm.bad_checksum"]].concat()), [""; 0]);
    }
}

#[test]
fn a_full_disk_ends_the_capture_and_not_the_measurement() {
    let test = "a_full_disk_ends_the_capture_and_not_the_measurement";
    if !support::can_make_namespaces(test) || !has_tshark(test) {
        return;
    }
    let folder = Folder::new("capture-full");
    let kept = format!("{}/kept.pcapng", folder.path());
    let script = "mount -t tmpfs -o size=1m none /mnt && cd /mnt || exit 99
        \"$0\" pingpong udp --fork-both --count 20000 --format json --pcap x.pcapng; code=$?
        cp x.pcapng \"$1\"; exit $code";
    let mut command = Command::new("unshare");
    let output = command.args(["--mount", "sh", "-c", script, PROGRAM, &kept]).env("NO_COLOR", "1").output().unwrap();
    if output.status.code() == Some(99) {
        eprintln!("SKIPPED {test}: cannot mount a tmpfs");
        return;
    }
    assert_code(&output, 0);
    let document = documents(&output).remove(0);
    assert_eq!(document["messages"]["received"], 20_000, "{document}");
    let disturbed = document["verdict"]["disturbed"].as_array().unwrap();
    let finding = disturbed.iter().find(|finding| finding["id"] == "capture-incomplete").unwrap();
    let words = finding["detail"].as_str().unwrap();
    assert!(words.contains("x.pcapng") && words.contains("No space left"), "{words}");
    let all = summary(&kept);
    let packets = tshark(&kept, &[]).len() as u64;
    assert!(packets > 100 && count(&all["packets"]) == packets, "{packets}: {all}");
    assert!(words.contains(&format!("after {packets} packets")), "{words}");
}

#[test]
fn packets_that_found_no_room_are_told() {
    let test = "packets_that_found_no_room_are_told";
    if !support::can_make_namespaces(test) {
        return;
    }
    let folder = Folder::new("capture-drops");
    let pipe = format!("{}/pipe", folder.path());
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let flags = ["pingpong", "udp", "--fork-both", "--size", "60000", "--seconds", "1", "--pcap-snap", "65535"];
    let child = windhover(&[&flags[..], &["--pcap", &pipe, "--format", "json"]].concat())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Whoever reads the file is slow: what the kernel keeps meanwhile has an end.
    let mut slow = std::fs::File::open(&pipe).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let mut bytes = Vec::new();
    slow.read_to_end(&mut bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_measured(&output);
    let document = documents(&output).remove(0);
    let disturbed = document["verdict"]["disturbed"].as_array().unwrap();
    let finding = disturbed.iter().find(|finding| finding["id"] == "capture-incomplete").unwrap();
    assert!(finding["detail"].as_str().unwrap().contains("--pcap-snap"), "{finding}");
    // The file says it too.
    let kept = format!("{}/kept.pcapng", folder.path());
    std::fs::write(&kept, bytes).unwrap();
    assert!(count(&summary(&kept)["dropped"]) > 0);
}

#[test]
fn who_may_not_capture_is_told_in_one_line() {
    if !support::is_root() {
        assert_refused(&["pingpong", "udp", "--fork-both", "--pcap", "/tmp/none"], 2, &["CAP_NET_RAW"]);
        return;
    }
    let folder = Folder::new("capture-refused");
    let file = format!("{}/x.pcapng", folder.path());
    for arguments in [&["pingpong", "udp", "--fork-both", "--count", "10", "--pcap", &file][..], &["dump", "lo"]] {
        let mut command = Command::new("setpriv");
        let output =
            command.args(["--bounding-set=-net_raw", "--inh-caps=-net_raw", PROGRAM]).args(arguments).output().unwrap();
        assert_code(&output, 2);
        let text = stderr(&output);
        assert!(text.contains("CAP_NET_RAW") && text.lines().count() == 1, "{text}");
        assert!(!std::path::Path::new(&file).exists());
    }
    for protocol in ["pipe", "frame"] {
        assert_refused(&["pingpong", protocol, "--fork-both", "--pcap", &file], 2, &["do not see", protocol, "--pcap"]);
    }
    let nowhere = format!("{}/none/x.pcapng", folder.path());
    assert_refused(&["pingpong", "udp", "--fork-both", "--pcap", &nowhere], 1, &["none/x.pcapng", "No such file"]);
    assert_refused(&["pingpong", "udp", "--fork-both", "--pcap", "/dev/full"], 1, &["/dev/full", "No space left"]);
}

/// Waits for the end, at most so long.
fn ended(mut child: Child, patience: Duration) -> Output {
    let end = Instant::now() + patience;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            let _ = child.kill();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn an_interface_is_listened_to_until_it_is_enough_or_interrupted() {
    let test = "an_interface_is_listened_to_until_it_is_enough_or_interrupted";
    if !support::can_make_namespaces(test) {
        return;
    }
    let lab = Lab::up('l');
    let bind = format!("{}:7414", lab.address("ipv4"));
    let _server = lab.serve(&bind);
    let listen = |extra: &[&str]| {
        let flags = ["dump", &lab.device, "--format", "json"];
        let mut command = lab.on("a", &[&flags[..], extra].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("listening on"), "{line}");
        std::thread::spawn(move || said.lines().for_each(drop));
        child
    };
    let measure = || {
        let flags = ["pingpong", "udp", &bind, "--count", "500", "--warmup", "5", "--format", "json"];
        let output = lab.on("a", &flags).output().unwrap();
        assert_measured(&output);
        count(&documents(&output)[0]["ends"]["reflector"]["usage"]["transactions"])
    };
    let some = listen(&["--count", "100"]);
    measure();
    let output = ended(some, Duration::from_secs(60));
    assert_code(&output, 0);
    let lines = documents(&output);
    let data = lines.iter().filter(|line| line["message"] == "data").count();
    assert_eq!((data, count(&lines.last().unwrap()["messages"])), (100, 100));
    assert!(lines.iter().any(|line| line["control"][0] == "server-hello"), "{lines:?}");

    let all = listen(&["--summary"]);
    let rounds = measure();
    // What lies in the last block comes a moment later.
    std::thread::sleep(Duration::from_millis(300));
    let children = format!("/proc/{0}/task/{0}/children", all.id());
    let child = std::fs::read_to_string(children).unwrap_or_default();
    // `lab exec` may have become the program itself.
    let target = child.split_whitespace().next().map_or_else(|| all.id().to_string(), str::to_owned);
    assert!(Command::new("kill").args(["-INT", &target]).status().unwrap().success());
    let output = ended(all, Duration::from_secs(60));
    assert_code(&output, 130);
    let summary = documents(&output).pop().unwrap();
    assert_eq!(count(&summary["messages"]), 2 * rounds, "{summary}");
    // The time is over without a packet.
    let none = ended(listen(&["--seconds", "0.2", "--port", "9"]), Duration::from_secs(60));
    assert_code(&none, 0);
    assert_eq!(documents(&none).pop().unwrap()["messages"], 0);
}

/// Catches: a cell whose packets are not kept, are another cell's, or lack the connection's first ones.
#[test]
fn a_plan_keeps_the_packets_of_each_cell() {
    if !support::is_root() {
        eprintln!("SKIPPED a_plan_keeps_the_packets_of_each_cell: labs need root");
        return;
    }
    let folder = Folder::new("capture-plan");
    let plan = |grid: &str| {
        format!(
            "name = \"t\"\nrepetitions = 1\n[lab]\nkind = \"netns\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n[measure]\n\
             capture = true\nseconds = 0.2\nwarmup_ms = 5\nwarmup_count = 10\n[[grid]]\n{grid}\n"
        )
    };
    let grid = "probe = [\"pingpong\", \"pace\"]\nprotocol = [\"tcp\"]\nrate = [200]\n";
    let file = folder.file("plan.toml", &plan(grid));
    let output = run(&["campaign", "run", &file, "--output", folder.path()]);
    let run_dir = run_directory(&folder.0);
    let results = assert_run_measured(&output, &run_dir);
    assert_eq!(results.len(), 2, "{}", stderr(&output));
    for (result, number) in results.iter().zip(1..) {
        let file = run_dir.join(format!("cells/{number:04}.pcapng"));
        let dumped = run(&["dump", "--summary", "--format", "json", file.to_str().unwrap()]);
        assert_code(&dumped, 0);
        let text = stdout(&dumped);
        let summary: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let messages = summary["messages"].as_u64().unwrap();
        let received = result["messages"]["received"].as_u64().unwrap();
        assert!(messages >= 2 * received, "{received} there and back: {summary}");
        let names = stdout(&run(&["dump", file.to_str().unwrap()]));
        assert!(names.contains("server-hello") && names.contains("proof"), "from the first packet on: {names}");
        let comment = format!("{} tcp with", result["probe"].as_str().unwrap());
        assert!(stdout(&run(&["dump", "--summary", file.to_str().unwrap()])).contains(&comment), "{text}");
    }
    let frames = folder.file("frames.toml", &plan("protocol = [\"frame\"]"));
    assert_refused(&["campaign", "plan", &frames], 2, &["captures do not see frame"]);
    let xdp = folder.file("xdp.toml", &plan("stack = [\"kernel\", \"xdp\"]"));
    assert_refused(&["campaign", "plan", &xdp], 2, &["stack xdp", "capture"]);
}
