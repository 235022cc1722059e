//! Both ends and what is between them: idle descriptors, limits, buffers, keys, and ends of one command.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use std::process::Command;
use support::{Folder, Server, assert_code, assert_refused, documents, is_root, run, stderr, stdout};

fn measure(arguments: &[&str]) -> serde_json::Value {
    let output = run(&[arguments, &["--format", "json", "--warmup", "5", "--warmup-count", "10"]].concat());
    assert_code(&output, 0);
    let mut all = documents(&output);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn an_end_that_counts_nothing_has_empty_fields() {
    let output = run(&["ping", "127.0.0.1", "-c", "3", "--format", "csv"]);
    if output.status.code() == Some(1) && stderr(&output).contains("ping_group_range") {
        eprintln!(
            "SKIPPED an_end_that_counts_nothing_has_empty_fields: neither ping sockets nor raw sockets are allowed here"
        );
        return;
    }
    let csv = stdout(&output);
    let fields = |line: usize| csv.lines().nth(line).unwrap().split(',').collect::<Vec<_>>();
    let of = |name: &str| fields(1)[fields(0).iter().position(|head| *head == name).unwrap()];
    assert_eq!((of("reflector_migrations"), of("reflector_faults")), ("", ""), "{csv}");
    assert_ne!(of("initiator_migrations"), "", "{csv}");
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let folder = Folder::new("open-key");
    let key = folder.secret("mine", &stdout(&run(&["key"])));
    let server = Server::start(&["--key-file", &key]);
    let to = server.address.as_str();
    let mode = |mode: u32| std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    let client = ["pingpong", "udp", to, "--key-file", &key, "--count", "10"];
    assert_code(&run(&client), 0);
    mode(0o640);
    assert_code(&run(&client), 0);
    for (open, who) in [(0o644, "every user"), (0o602, "every user")] {
        mode(open);
        for arguments in [&client[..], &["serve", "--bind", to, "--key-file", &key]] {
            assert_refused(arguments, 2, &[who, "mine", "chmod 600"]);
        }
    }
    if !is_root() {
        eprintln!("SKIPPED a_key_that_others_can_read_is_refused: files of another group need root");
        return;
    }
    std::os::unix::fs::chown(&key, None, Some(64_321)).unwrap();
    mode(0o640);
    assert_refused(&client, 2, &["group 64321", "chmod 600"]);
    // A process with that group may use it, as the package's server does.
    let grouped = |program: &str, arguments: &[&str]| {
        Command::new("setpriv").args(["--groups", "64321", program]).args(arguments).output().unwrap()
    };
    assert_code(&grouped(env!("CARGO_BIN_EXE_windhover"), &client), 0);
}

/// How many descriptors a process has open.
fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// The descriptors that both ends have for most of a measurement: what reads counters opens some more for a moment. It is longer than a busy
/// machine takes to prepare it.
fn usual_descriptors(server: &Server, extra: &[&str]) -> (usize, usize) {
    let fixed = ["pingpong", "udp", &server.address, "--seconds", "2", "--receive", "poll", "--warmup", "1"];
    let mut client =
        support::windhover(&[&fixed[..], extra].concat()).stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut seen = std::collections::BTreeMap::new();
    while client.try_wait().unwrap().is_none() {
        *seen.entry((descriptors(client.id()), descriptors(server.id()))).or_insert(0) += 1;
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert!(client.wait().unwrap().success());
    seen.into_iter().max_by_key(|(_, times)| *times).unwrap().0
}

#[test]
fn each_end_has_its_own_idle_descriptors() {
    let server = Server::start(&[]);
    let (here, there) = usual_descriptors(&server, &[]);
    // A pipe, a UNIX pair and a TCP connection are two descriptors, a UDP or a listening socket is one.
    let mixed = ["--idle-pipes", "10", "--remote-idle-pipes", "0", "--remote-idle-udp", "30"];
    assert_eq!(usual_descriptors(&server, &mixed), (here + 20, there + 30));
    let both = ["--idle-unix-stream", "7", "--idle-tcp-listen", "3"];
    assert_eq!(usual_descriptors(&server, &both), (here + 17, there + 17));
    let far = ["--remote-idle-unix-dgram", "5", "--remote-idle-unix-stream", "6", "--remote-idle-tcp-listen", "4"];
    assert_eq!(usual_descriptors(&server, &far), (here, there + 26));
    let to = server.address.as_str();
    assert_refused(&["pingpong", "udp", to, "--remote-idle-pipes", "2049"], 2, &["2049", "limit of 2048"]);
}

#[test]
fn one_command_runs_both_ends() {
    for arguments in [
        &["pingpong", "udp", "--fork-both"][..],
        &["pingpong", "tcp", "127.0.0.2", "--fork-both"],
        &["rr", "tcp", "--forkboth"],
        &["pingpong", "pipe", "--fork-both"],
    ] {
        let document = measure(&[arguments, &["--count", "100"]].concat());
        assert_eq!(document["messages"]["received"], 100, "{document}");
        if let Some(address) = arguments.get(2).filter(|word| word.starts_with("127")) {
            let peer = document["ends"]["reflector"]["address"].as_str().unwrap();
            assert!(peer.starts_with(&format!("{address}:")), "{document}");
        }
    }
    let own = support::windhover(&["pingpong", "udp", "--fork-both", "--seconds", "30"]).spawn().unwrap();
    let children = || {
        let found = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", own.id())).unwrap_or_default();
        found.split_whitespace().map(|pid| pid.parse::<u32>().unwrap()).collect::<Vec<_>>()
    };
    eventually("an endpoint", || !children().is_empty());
    let endpoint = children()[0];
    let mut own = own;
    own.kill().unwrap();
    own.wait().unwrap();
    eventually("the endpoint's end", || !std::path::Path::new(&format!("/proc/{endpoint}")).exists());
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !holds() {
        assert!(std::time::Instant::now() < end, "never: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_run_longer_than_a_session_is_refused_at_once() {
    let server = Server::start(&["--max-session", "3"]);
    let to = server.address.as_str();
    let words = ["3 s", "--max-session", "--seconds"];
    assert_refused(&["pingpong", "udp", to, "--seconds", "3600"], 2, &words);
    assert_refused(&["pingpong", "tcp", to, "--size", "1-4", "--seconds", "1"], 2, &words);
    assert_code(&run(&["pingpong", "udp", to, "--seconds", "0.1"]), 0);
    assert_code(&run(&["pingpong", "udp", to, "--count", "10"]), 0);
    // Children have no owner who limits them.
    assert_code(&run(&["pingpong", "udp", "--fork-both", "--count", "10", "--seconds", "7200"]), 0);
}

#[test]
fn a_send_buffer_too_small_for_a_datagram_is_the_cause_that_is_told() {
    let words = ["60000 bytes", "send buffer of 20000 bytes", "--send-buffer"];
    let small = ["--send-buffer", "20000", "--count", "10", "--timeout", "600", "--quiet"];
    // The initiator's datagram does not fit.
    let here = ["pingpong", "unix-dgram", "--size", "60000", "--format", "json"];
    let output = run(&[&here[..], &small].concat());
    told(&output, "initiator", &words);
    // Requests fit, the reflector's responses do not.
    let there = ["rr", "unix-dgram", "--size", "32", "--response", "60000", "--format", "json"];
    let output = run(&[&there[..], &small].concat());
    told(&output, "reflector", &words);
}

/// One line that names the cause, and a document that says at which end, and not that a peer vanished.
#[track_caller]
fn told(output: &std::process::Output, end: &str, words: &[&str]) {
    assert_code(output, 1);
    let text = stderr(output);
    assert!(text.lines().count() == 1 && !text.contains("vanished"), "{text}");
    for word in words {
        assert!(text.contains(word), "'{word}' is not in: {text}");
    }
    let document = documents(output).remove(0);
    let invalid = document["verdict"]["invalid"].as_array().unwrap();
    assert!(invalid.iter().any(|finding| finding["id"] == "path-broken" && finding["end"] == end), "{document}");
    assert!(invalid.iter().all(|finding| finding["id"] != "peer-vanished"), "{document}");
}

#[test]
fn a_send_buffer_too_small_for_the_fragments_of_a_datagram_is_told_too() {
    let test = "a_send_buffer_too_small_for_the_fragments_of_a_datagram_is_told_too";
    if !support::can_make_namespaces(test) {
        return;
    }
    // Loopback carries 64 KiB whole; with the size of an Ethernet frame datagrams go out in fragments, as on a wire.
    let script = format!(
        "ip link set lo mtu 1500 up && exec {} \"$@\" --fork-both --send-buffer 4000 --count 10 --timeout 600 --quiet --format json",
        env!("CARGO_BIN_EXE_windhover")
    );
    let inside = |arguments: &[&str]| {
        let fixed = ["--net", "sh", "-c", &script, "sh"];
        let mut command = std::process::Command::new("unshare");
        command.args(fixed).args(arguments).stdin(std::process::Stdio::null()).output().unwrap()
    };
    let words = ["60000 bytes", "send buffer of 4000 bytes", "--send-buffer"];
    told(&inside(&["pingpong", "udp", "--size", "60000"]), "initiator", &words);
    told(&inside(&["pingpong", "udp", "--size", "60000", "--unconnected"]), "initiator", &words);
    told(&inside(&["rr", "udp", "--size", "32", "--response", "60000"]), "reflector", &words);
    assert_code(&inside(&["pingpong", "udp", "--size", "1400"]), 0);
}

#[test]
fn a_load_that_is_not_steady_yet_ends_when_it_is_told_to() {
    use std::io::Write as _;
    let mut worker = support::windhover(&["worker"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Its input ends with the spec, long before a second of even work is behind it.
    worker.stdin.take().unwrap().write_all(b"{\"role\":\"load\",\"profile\":\"cpu\"}\n").unwrap();
    let output = worker.wait_with_output().unwrap();
    assert_code(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("\"steady\":false"), "{text}");
}
