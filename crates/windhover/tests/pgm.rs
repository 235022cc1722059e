//! `windhover pgm` at both ends, over loopback: what is sent arrives, what is asked for is kept, what is wrong is said.
//! With other implementations, and with losses: `interop`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Folder, assert_code, assert_refused, documents, run, stderr, stdout, windhover};

/// Each test has a group and ports of its own: they run side by side, also beside those of another run of this file.
struct Place {
    group: String,
    port: String,
}

impl Place {
    fn new(number: u8) -> Self {
        // Below the ports that the kernel gives to others (net.ipv4.ip_local_port_range).
        let run = std::process::id() % 390;
        let port = 20_000 + 32 * run + u32::from(number);
        Self { group: format!("239.192.{}.{number}", run % 250), port: port.to_string() }
    }

    fn arguments<'a>(&'a self, what: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["pgm", what, &self.group, "--interface", "lo", "--udp-port", &self.port], more].concat()
    }

    fn start(&self, what: &str, more: &[&str]) -> Running {
        Running::start(&self.arguments(what, more))
    }

    /// A receiver that listens.
    fn receiver(&self, more: &[&str]) -> Running {
        self.start("recv", &[more, &["--for", "60s"]].concat()).listening("hears")
    }

    fn send(&self, more: &[&str], input: &[u8]) -> Output {
        let mut sender = self.start("send", &[more, &["--linger", "100ms"]].concat());
        sender.0.stdin.take().unwrap().write_all(input).unwrap();
        sender.finish()
    }
}

/// A command that ends with the test.
struct Running(Child);

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut command = windhover(arguments);
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Waits for its first note; the others are read and left.
    fn listening(mut self, word: &str) -> Self {
        let mut errors = BufReader::new(self.0.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        assert!(line.contains(word), "{line}");
        std::thread::spawn(move || errors.lines().map_while(Result::ok).for_each(drop));
        self
    }

    fn interrupt(&self) {
        let pid = self.0.id().to_string();
        assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    }

    fn finish(mut self) -> Output {
        drop(self.0.stdin.take());
        let (mut out, mut errors) = (self.0.stdout.take(), self.0.stderr.take());
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            out.as_mut().unwrap().read_to_end(&mut text).unwrap();
            text
        });
        let end = Instant::now() + Duration::from_secs(120);
        let status = loop {
            match self.0.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < end, "it does not end"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut said = Vec::new();
        errors.iter_mut().for_each(|pipe| drop(pipe.read_to_end(&mut said)));
        Output { status, stdout: reader.join().unwrap(), stderr: said }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn lines_arrive_as_lines_and_the_end_is_told() {
    let place = Place::new(1);
    let receiver = place.receiver(&["--until-fin"]);
    let sent = place.send(&[], b"hello\n\nsecond \xc3\xa4\x01");
    assert_code(&sent, 0);
    assert!(stderr(&sent).contains("3 messages"), "{}", stderr(&sent));
    let got = receiver.finish();
    assert_code(&got, 0);
    assert_eq!(stdout(&got), "hello\n\nsecond \\xc3\\xa4\\x01\n");
}

#[test]
fn hexadecimal_and_json_hold_any_bytes() {
    let place = Place::new(2);
    let receiver = place.receiver(&["--until-fin", "--format", "json"]);
    assert_code(&place.send(&["--hex", "--json"], b"00ff10\n6869\n"), 0);
    let got = receiver.finish();
    assert_code(&got, 0);
    let lines = documents(&got);
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["source", "message", "message", "finished", "summary"]);
    assert_eq!((&lines[1]["hex"], &lines[2]["text"]), (&"00ff10".into(), &"hi".into()));
    assert_eq!((&lines[4]["messages"], &lines[4]["ended_by"]), (&2.into(), &"fin".into()));
    let place = Place::new(3);
    let receiver = place.receiver(&["--count", "1", "--format", "hex"]);
    assert_code(&place.send(&[], b"hi\n"), 0);
    assert_eq!(stdout(&receiver.finish()), "6869\n");
}

#[test]
fn a_file_arrives_byte_by_byte() {
    let place = Place::new(4);
    let folder = Folder::new("pgm-file");
    let bytes: Vec<u8> = (0..200_000_u32).map(|at| (at.wrapping_mul(at) >> 7).to_le_bytes()[0]).collect();
    let path = folder.0.join("data");
    std::fs::write(&path, &bytes).unwrap();
    let file = path.to_str().unwrap();
    let receiver = place.receiver(&["--until-fin", "--format", "raw"]);
    // Messages of one packet and of several.
    assert_code(&place.send(&["--file", file, "--size", "3001"], b""), 0);
    let got = receiver.finish();
    assert_code(&got, 0);
    assert!(got.stdout == bytes, "{} bytes came", got.stdout.len());
}

#[test]
fn zeromq_frames_go_both_ways() {
    let place = Place::new(5);
    let zeromq = |more: &[&'static str]| [&["--zeromq", "--port", "5601"], more].concat();
    let receiver = place.receiver(&zeromq(&["--until-fin"]));
    assert_code(&place.send(&zeromq(&[]), b"one\ntwo\n"), 0);
    assert_eq!(stdout(&receiver.finish()), "one\ntwo\n");
}

#[test]
fn numbered_messages_are_checked() {
    let place = Place::new(6);
    let check = ["--until-fin", "--check", "--summary", "--format", "json"];
    let receiver = place.receiver(&check);
    let sent = place.send(&["--count", "400", "--size", "2000", "--rate", "4k", "--json"], b"");
    assert_code(&sent, 0);
    assert_eq!((&documents(&sent)[0]["messages"], &documents(&sent)[0]["finished"]), (&400.into(), &true.into()));
    let got = receiver.finish();
    assert_code(&got, 0);
    let summary = documents(&got).pop().unwrap();
    let source = &summary["sources"][0];
    for (name, value) in [("messages", 400), ("first", 0), ("next", 400), ("damaged", 0), ("out_of_order", 0)] {
        assert_eq!(source[name], value, "{name}: {summary}");
    }
    // Lines are no numbered messages.
    let place = Place::new(7);
    let receiver = place.receiver(&check);
    assert_code(&place.send(&[], b"what came is not what was expected\n"), 0);
    let got = receiver.finish();
    assert_code(&got, 3);
    assert_eq!(documents(&got).pop().unwrap()["sources"][0]["damaged"], 1);
}

#[test]
fn parity_is_sent_and_told() {
    let place = Place::new(11);
    let receiver = place.receiver(&["--use-fec", "--until-fin", "--check", "--summary", "--format", "json"]);
    let flags = ["--count", "100", "--fec", "8", "--fec-proactive", "2", "--fec-pause", "50ms", "--wait", "200ms"];
    let sent = place.send(&[&flags[..], &["--json"]].concat(), b"");
    assert_code(&sent, 0);
    let parity = &documents(&sent)[0]["source"]["parity"];
    // 12 groups of 8, and one of 4.
    assert_eq!((&parity["odata"], &parity["short_groups"]), (&26.into(), &1.into()), "{parity}");
    let got = receiver.finish();
    assert_code(&got, 0);
    let summary = documents(&got).pop().unwrap();
    let parity = &summary["receiver"]["parity"];
    let count = |name: &str| parity[name].as_u64().unwrap();
    assert!(count("packets") + count("unused") > 0 && count("inconsistent") == 0, "{summary}");
    assert_eq!(summary["sources"][0]["messages"], 100);
}

#[test]
fn reflectors_answer_and_their_times_are_told() {
    let place = Place::new(8);
    let reflectors = [0, 1].map(|_| place.start("reflect", &["--for", "60s"]).listening("answers"));
    let words = ["--count", "100", "--rate", "1k", "--size", "200", "--reflectors", "2", "--json"];
    let got = place.start("ping", &words).finish();
    assert_code(&got, 0);
    let result = documents(&got).pop().unwrap();
    assert_eq!((&result["sent"], &result["bytes"]), (&100.into(), &200.into()));
    let all = result["reflectors"].as_array().unwrap();
    assert_eq!(all.len(), 2, "{result}");
    for reflector in all {
        assert_eq!((&reflector["answers"], &reflector["out_of_order"]), (&100.into(), &0.into()), "{result}");
        assert_eq!(reflector["rtt"]["count"], 100, "{result}");
        let parts =
            ["untouched", "held", "repaired"].map(|fate| reflector["rtt_by_fate"][fate]["count"].as_u64().unwrap());
        assert_eq!(parts.iter().sum::<u64>(), 100, "{result}");
        assert!(
            reflector["rtt"]["p50_ns"].as_u64().unwrap() <= reflector["rtt"]["max_ns"].as_u64().unwrap(),
            "{result}"
        );
        // One answer of a hundred is beyond it: no figure.
        assert!(reflector["rtt"]["p99_ns"].is_null() && reflector["rtt"]["p99_9_ns"].is_null(), "{result}");
    }
    let table = place.start("ping", &["--count", "3", "--rate", "100"]).finish();
    assert_code(&table, 0);
    for word in ["round trip", "p99.9", "untouched", "0 without an answer"] {
        assert!(stdout(&table).contains(word), "'{word}' is not in: {}", stdout(&table));
    }
    for reflector in reflectors {
        reflector.interrupt();
        assert_code(&reflector.finish(), 130);
    }
}

#[test]
fn an_interrupt_ends_the_session_cleanly() {
    let place = Place::new(9);
    let receiver = place.receiver(&["--until-fin", "--summary", "--check", "--format", "json"]);
    let sender = place.start("send", &["--count", "1000000", "--rate", "1k", "--json"]).listening("publishes");
    std::thread::sleep(Duration::from_millis(300));
    sender.interrupt();
    let sent = sender.finish();
    assert_code(&sent, 130);
    let sent = documents(&sent).pop().unwrap();
    assert_eq!(sent["finished"], true, "{sent}");
    let got = receiver.finish();
    assert_code(&got, 0);
    let summary = documents(&got).pop().unwrap();
    assert_eq!(
        (&summary["messages"], &summary["sources"][0]["ended"]),
        (&sent["messages"], &"finished".into()),
        "{summary}"
    );
}

#[test]
fn a_receiver_that_waits_in_vain_says_so() {
    let place = Place::new(10);
    let got = run(&place.arguments("recv", &["--count", "1", "--for", "200ms", "--summary"]));
    assert_code(&got, 1);
    assert!(stdout(&got).starts_with("0 messages"), "{}", stdout(&got));
}

/// More senders one after another than there are places for: each gets that of one that has ended.
#[test]
fn senders_one_after_another_are_all_heard() {
    let place = Place::new(20);
    let receiver = place.receiver(&["--sources", "4", "--count", "1200", "--check", "--summary", "--format", "json"]);
    for _ in 0..6 {
        assert_code(&place.send(&["--count", "200", "--rate", "5k"], b""), 0);
    }
    let got = receiver.finish();
    let summary = documents(&got).pop().unwrap();
    assert_code(&got, 0);
    assert_eq!((&summary["messages"], &summary["sources"].as_array().unwrap().len()), (&1200.into(), &6));
    assert_eq!((&summary["receiver"]["lost"], &summary["receiver"]["sources_refused"]), (&0.into(), &0.into()));
}

#[test]
fn a_source_without_a_place_is_told_and_no_success() {
    let place = Place::new(21);
    let receiver = place.receiver(&["--sources", "1", "--count", "3000", "--summary", "--format", "json"]);
    let first = place.start("send", &["--count", "3000", "--rate", "800"]).listening("publishes");
    std::thread::sleep(Duration::from_millis(1500));
    assert_code(&place.send(&["--count", "20"], b""), 0);
    let got = receiver.finish();
    let lines = documents(&got);
    let told = lines.iter().filter(|line| line["type"] == "refused").count();
    assert_eq!((told, &lines.last().unwrap()["receiver"]["sources_refused"]), (1, &1.into()), "{lines:?}");
    assert_code(&got, 3);
    assert_code(&first.finish(), 0);
}

/// The same identifier again, with numbers from the beginning: a second session, and nothing of it among the first.
#[test]
fn a_restarted_source_is_another_session() {
    let place = Place::new(22);
    let receiver = place.receiver(&["--count", "700", "--check", "--summary", "--format", "json"]);
    for count in ["300", "400"] {
        let same = ["--gsi", "1.2.3.4.5.6", "--source-port", "99", "--count", count, "--rate", "2k"];
        assert_code(&place.send(&same, b""), 0);
    }
    let got = receiver.finish();
    let summary = documents(&got).pop().unwrap();
    assert_code(&got, 0);
    let source = &summary["sources"][0];
    assert_eq!((&source["messages"], &source["sessions"]), (&700.into(), &2.into()), "{summary}");
    assert_eq!((&source["out_of_order"], &source["next"]), (&0.into(), &400.into()), "{summary}");
}

#[test]
fn the_first_number_is_asked_for_and_numbers_wrap() {
    let place = Place::new(23);
    let receiver = place.receiver(&["--until-fin", "--check", "--format", "json"]);
    assert_code(&place.send(&["--first", "4294967290", "--count", "20", "--size", "65535"], b""), 0);
    let got = receiver.finish();
    assert_code(&got, 0);
    let lines = documents(&got);
    let firsts: Vec<u64> = lines.iter().filter_map(|line| line["first"].as_u64()).collect();
    assert_eq!((firsts.len(), firsts[0]), (20, 4_294_967_290));
    assert!(firsts[19] < 2000, "{firsts:?}");
}

/// Two parts of one message of ZeroMQ, then one alone.
#[test]
fn parts_of_a_zeromq_message_keep_their_borders() {
    for (number, form, expected) in [(24, "text", "a | b\nc\n"), (25, "hex", "61 | 62\n63\n")] {
        let place = Place::new(number);
        let receiver = place.receiver(&["--zeromq", "--count", "2", "--format", form]);
        assert_code(&place.send(&["--hex"], b"0000 0201 61 0200 62 0200 63\n"), 0);
        assert_eq!(stdout(&receiver.finish()), expected);
    }
}

/// A message that is longer than any that is taken does not vanish.
#[test]
fn a_zeromq_message_that_is_too_long_is_told() {
    let place = Place::new(26);
    let receiver = place.receiver(&["--zeromq", "--until-fin", "--format", "json"]);
    assert_code(&place.send(&["--hex"], b"0000 ff 0000000001000001 00 61\n"), 0);
    let got = receiver.finish();
    assert_code(&got, 3);
}

#[test]
fn windows_that_find_no_memory_are_refused_before_they_are_taken() {
    let place = Place::new(27);
    let many = place.arguments("recv", &["--sources", "1000", "--window", "1048576"]);
    assert_refused(&many, 2, &["MiB", "smaller window"]);
    let tool = windhover(&[]).get_program().to_str().unwrap().to_owned();
    let limited = "ulimit -v 1500000; exec \"$0\" \"$@\"";
    for (what, more) in [("recv", ["--sources", "1"]), ("send", ["--count", "1"])] {
        let arguments = place.arguments(what, &[&more[..], &["--window", "1048576"]].concat());
        let output = std::process::Command::new("sh").args(["-c", limited, &tool]).args(&arguments).output().unwrap();
        assert_code(&output, 2);
        assert!(
            stderr(&output).contains("MiB of memory") && stderr(&output).lines().count() == 1,
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn who_did_not_answer_is_counted() {
    let place = Place::new(28);
    // The group that answers go to unless another is named.
    let reply = &place.group.replace(".28", ".29");
    let silent = Running::start(&["pgm", "send", reply, "--interface", "lo", "--udp-port", &place.port]);
    let reflector = place.start("reflect", &[]).listening("answers");
    let ping = ["--count", "20", "--rate", "500", "--reflectors", "2", "--linger", "300ms", "--json"];
    let got = place.start("ping", &ping).finish();
    let result = documents(&got).pop().unwrap();
    assert_eq!((&result["answered"], &result["silent"]), (&1.into(), &1.into()), "{result}");
    assert_code(&got, 1);
    silent.interrupt();
    assert_code(&silent.finish(), 130);
    reflector.interrupt();
    assert_code(&reflector.finish(), 130);
}

#[test]
fn what_is_refused_and_how() {
    let refused = |arguments: &str, words: &[&str]| {
        let all: Vec<&str> = arguments.split(' ').collect();
        assert_refused(&[&["pgm"], &all[..]].concat(), 2, words);
    };
    refused("send 10.0.0.1 --count 1", &["10.0.0.1", "224.0.0.0/4"]);
    refused("recv 239.1.1.1 --interface nosuch", &["nosuch", "ip link"]);
    refused("recv 239.1.1.1 --local 192.0.2.77", &["192.0.2.77", "ip address"]);
    refused("recv ff15::1 --local 127.0.0.1", &["ff15::1", "127.0.0.1"]);
    refused("send 239.1.1.1 --count 1 --size 7 --interface lo", &["--size 7", "8 bytes"]);
    refused("send 239.1.1.1 --size 70 --interface lo", &["--size", "--file"]);
    refused("send 239.1.1.1 --file /nonexistent --interface lo", &["/nonexistent"]);
    refused("ping 239.1.1.1 --reply-group 239.1.1.1", &["239.1.1.1", "--reply-group"]);
    refused("reflect 239.255.255.255", &["240.0.0.0", "--reply-group"]);
    for (arguments, word) in [
        ("send 239.1.1.1 --window 100", "power of two"),
        ("send 239.1.1.1 --gsi 1.2.3", "six numbers"),
        ("send 239.1.1.1 --fec 12", "power of two from 2 to 128"),
        ("send 239.1.1.1 --fec-proactive 1", "--fec"),
        ("send 239.1.1.1 --fec 16 --fec-unasked", "--fec-proactive"),
        ("send 239.1.1.1 --fec 64 --window 128 --count 1 --interface lo", "four groups"),
        ("recv 239.1.1.1 --back-off 5h", "200us"),
        ("recv 239.1.1.1 --carrier tcp", "udp or raw"),
        ("recv 239.1.1.1 --port 0", "0"),
    ] {
        let all: Vec<&str> = arguments.split(' ').collect();
        let output = run(&[&["pgm"], &all[..]].concat());
        assert_code(&output, 2);
        assert!(stderr(&output).contains(word), "{arguments}: {}", stderr(&output));
    }
    let place = Place::new(12);
    let output = place.send(&["--hex"], b"00\nxyz\n");
    assert_code(&output, 2);
    assert!(stderr(&output).contains("line 2"), "{}", stderr(&output));
    let output = place.send(&[], &[b'x'; 65_536]);
    assert_code(&output, 2);
    assert!(stderr(&output).contains("message 1 has 65536 bytes"), "{}", stderr(&output));
}

#[test]
fn a_route_without_a_source_address_asks_for_the_interface() {
    if !support::can_make_namespaces("a_route_without_a_source_address_asks_for_the_interface") {
        return;
    }
    let windhover = env!("CARGO_BIN_EXE_windhover");
    let send = format!("ip link set lo up; $ROUTE {windhover} pgm send 239.192.0.1 --count 1");
    for route in ["", "ip route add 239.0.0.0/8 dev lo;"] {
        let script = send.replace("$ROUTE", route);
        let output = std::process::Command::new("unshare").args(["--net", "sh", "-c", &script]).output().unwrap();
        assert_code(&output, 2);
        assert!(stderr(&output).contains("say which way to take with --interface"), "{route}: {}", stderr(&output));
    }
}
