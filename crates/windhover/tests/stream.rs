//! Bulk data end to end: over loopback, and between namespaces over a link that loses, repeats and reorders.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use serde_json::Value;
use std::process::Stdio;
use support::{Folder, Server, assert_code, assert_refused, documents, run, stderr, stdout};

fn measure(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--format", "json"]].concat());
    assert_code(&output, 0);
    let mut all = documents(&output);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn flows(document: &Value) -> &Vec<Value> {
    document["stream"]["flows"].as_array().unwrap()
}

#[test]
fn both_protocols_and_every_direction() {
    let server = Server::start(&[]);
    for protocol in ["udp", "tcp"] {
        for (way, words) in [
            (&["--direction", "up"][..], &["up"][..]),
            (&["--reverse"], &["down"]),
            (&["--bidir"], &["up", "down"]),
            (&["--direction", "both", "--flows", "3"], &["up", "down"]),
        ] {
            let head = ["stream", protocol, &server.address, "--seconds", "0.3", "--bandwidth", "20M"];
            let document = measure(&[&head[..], way].concat());
            let flows = flows(&document);
            let directions: Vec<&str> = flows.iter().map(|flow| flow["direction"].as_str().unwrap()).collect();
            assert_eq!(directions, words, "{document}");
            for flow in flows {
                assert!(flow["bytes"].as_u64() > Some(0) && flow["bits_per_second"].as_f64() > Some(0.0), "{flow}");
                assert_eq!(flow["retransmits"].is_null(), protocol == "udp", "{flow}");
                assert_eq!(flow["lost"].is_null(), protocol == "tcp", "{flow}");
            }
            assert_eq!(document["stream"]["asked_bps"].as_f64(), Some(20e6));
            assert!(document["latency"].is_null() && document["ends"]["reflector"]["usage"]["cpus"].as_u64() > Some(0));
        }
    }
}

#[test]
fn every_form_of_output_holds_the_same_bytes() {
    let server = Server::start(&[]);
    let arguments = ["stream", "udp", &server.address, "--rate", "1k", "--seconds", "1.2", "--size", "500"];
    let text = stdout(&run(&arguments));
    for word in ["Mbit/s", "total", "0.00–1.00 s", "up, as the reflector saw it", "demand", "verdict: trusted"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let csv = stdout(&run(&[&arguments[..], &["--format", "csv"]].concat()));
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{csv}");
    let bytes = |kind: &str| -> u64 {
        rows.iter().filter(|row| row[3] == kind).map(|row| row[6].parse::<u64>().unwrap()).sum()
    };
    assert!(bytes("total") > 0 && bytes("total") == bytes("interval"), "{csv}");
    let markdown = stdout(&run(&[&arguments[..], &["--format", "markdown"]].concat()));
    assert!(markdown.contains("| ---") || markdown.contains("|---"), "{markdown}");
}

#[test]
fn seconds_come_as_json_lines_before_the_result() {
    let server = Server::start(&[]);
    for way in ["up", "down"] {
        let output =
            run(&["stream", "udp", &server.address, "--rate", "1k", "--seconds", "2", "--direction", way, "--jsonl"]);
        assert_code(&output, 0);
        let lines = documents(&output);
        let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
        // On a machine that is busy with other tests the far end's last second may come too late to be told.
        assert!(matches!(kinds.as_slice(), ["interval", "interval", "result"] | ["interval", "result"]), "{kinds:?}");
        assert!(lines[0]["bytes"].as_u64() > Some(0) && lines[0]["received"].as_u64() > Some(0), "{}", lines[0]);
        assert_eq!(lines.last().unwrap()["probe"], "stream");
    }
}

#[test]
fn latency_under_load_and_placement_are_told() {
    let document = measure(&[
        "stream",
        "tcp",
        "--fork-both",
        "--seconds",
        "0.4",
        "--working-latency",
        "--cpu",
        "0",
        "--remote-cpu",
        "0",
        "--bandwidth",
        "50M",
    ]);
    for which in ["idle_latency", "working_latency"] {
        let latency = &document["stream"][which];
        assert!(latency["kind"] == "rtt" && latency["count"].as_u64() > Some(5), "{latency}");
    }
    assert_eq!(
        (document["ends"]["initiator"]["cpu"].as_u64(), document["ends"]["reflector"]["cpu"].as_u64()),
        (Some(0), Some(0))
    );
    assert_eq!(document["ends"]["initiator"]["usage"]["cpu"], 0);
}

#[test]
fn bad_input_is_one_line() {
    let server = Server::start(&[]);
    let to = server.address.as_str();
    for (arguments, word) in [
        (&["stream", "udp", to, "--size", "8"][..], "--size 16"),
        (&["stream", "udp", to, "--flows", "0"], "flows 0"),
        (&["stream", "udp", to, "--flows", "129"], "flows 129"),
        (&["stream", "udp", to, "--batch", "2000"], "batch 2000"),
        (&["stream", "tcp", to, "--gso"], "udp"),
        (&["stream", "tcp", to, "--rate", "5"], "udp"),
        (&["stream", "udp", to, "--receive", "epoll"], "block or spin"),
        (&["stream", "udp", to, "--seconds", "0"], "--seconds"),
        (&["stream", "udp", to, "--format", "sfnt"], "--format"),
        (&["stream", "pipe"], "pipe"),
        (&["stream", "udp", to, "--policy", "fifo:1", "--cpu", "0", "--remote-cpu", "0"], "CPU 0"),
        (
            &["stream", "udp", to, "--gso", "--size", "65000", "--seconds", "1", "--flows", "128", "--batch", "64"],
            "fewer flows",
        ),
    ] {
        assert_refused(arguments, 2, &[word]);
    }
    for wrong in [&["--bandwidth", "0"][..], &["--bandwidth", "fast"], &["--rate", "-1"], &["--direction", "left"]] {
        let output = run(&[&["stream", "udp", to], wrong].concat());
        assert_code(&output, 2);
    }
    let none = Server::start(&["--max-bandwidth", "0"]);
    assert_refused(&["stream", "udp", &none.address, "--seconds", "1"], 2, &["--max-bandwidth"]);
    let some = Server::start(&["--max-bandwidth", "1M"]);
    assert_refused(&["stream", "udp", &some.address, "--seconds", "1", "--bandwidth", "2M"], 2, &["--max-bandwidth"]);
}

#[test]
fn a_killed_receiver_keeps_what_was_measured() {
    let server = Server::start(&[]);
    let child =
        support::windhover(&["stream", "udp", &server.address, "--rate", "1k", "--seconds", "20", "--format", "json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(3500));
    drop(server);
    let output = child.wait_with_output().unwrap();
    assert_code(&output, 1);
    let document = documents(&output).remove(0);
    let flow = &flows(&document)[0];
    assert!(flow["received"].as_u64() > Some(500), "{flow}");
    assert_eq!(document["verdict"]["invalid"][0]["id"], "peer-vanished", "{}", document["verdict"]);
    assert_eq!(stderr(&output).lines().filter(|line| line.starts_with("windhover:")).count(), 1);
}

#[test]
fn a_link_that_loses_repeats_and_reorders() {
    let test = "a_link_that_loses_repeats_and_reorders";
    if !support::can_make_namespaces(test) {
        return;
    }
    let name = format!("s{}", std::process::id());
    assert_code(&run(&["lab", "up", &name]), 0);
    let result = std::panic::catch_unwind(|| lossy(test, &name));
    assert_code(&run(&["lab", "down", &name]), 0);
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

fn lossy(test: &str, name: &str) {
    let listed: Value = serde_json::from_str(&stdout(&run(&["lab", "list", "--json"]))).unwrap();
    let lab = listed.as_array().unwrap().iter().find(|lab| lab["name"] == name).unwrap().clone();
    let address = lab["hosts"][1]["ipv4"].as_str().unwrap().to_owned();
    let (a, b) = (format!("{name}/a"), format!("{name}/b"));
    let links = stdout(&run(&["lab", "exec", &a, "--", "ip", "-o", "route", "get", &address]));
    let device = links.split_whitespace().skip_while(|word| *word != "dev").nth(1).unwrap().to_owned();
    let netem = ["loss", "5%", "duplicate", "5%", "delay", "2ms", "reorder", "20%"];
    let add = ["lab", "exec", &a, "--", "tc", "qdisc", "add", "dev", &device, "root", "netem"];
    let shaped = run(&[&add[..], &netem].concat());
    if shaped.status.code() != Some(0) {
        eprintln!("SKIPPED {test}: this kernel has no netem ({})", stderr(&shaped).trim());
        return;
    }
    let bind = format!("{address}:7415");
    let mut serve = support::windhover(&["lab", "exec", &b, "--"])
        .args([env!("CARGO_BIN_EXE_windhover"), "--quiet", "serve", "--bind", &bind])
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let output = run(&[
        "lab",
        "exec",
        &a,
        "--",
        env!("CARGO_BIN_EXE_windhover"),
        "stream",
        "udp",
        &bind,
        "--rate",
        "5k",
        "--seconds",
        "2",
        "--bidir",
        "--format",
        "json",
    ]);
    let _ = serve.kill();
    let _ = serve.wait();
    assert_code(&output, 0);
    let document = documents(&output).remove(0);
    let count = |flow: &Value, what: &str| flow[what].as_u64().unwrap();
    let (up, down) = (&flows(&document)[0], &flows(&document)[1]);
    for flow in [up, down] {
        assert_eq!(count(flow, "sent"), count(flow, "received") + count(flow, "lost"), "{flow}");
    }
    // Only what leaves the first host passes the bad link.
    let sent = count(up, "sent");
    assert!((sent / 50..sent / 10).contains(&count(up, "lost")), "{up}");
    assert!((sent / 50..sent / 10).contains(&count(up, "duplicated")), "{up}");
    assert!(count(up, "reordered") > sent / 50, "{up}");
    assert!(up["rfc3550_jitter_ns"].as_f64() > Some(10_000.0), "{up}");
    assert_eq!((count(down, "duplicated"), count(down, "reordered")), (0, 0), "{down}");
    let lost: f64 = document["series"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|series| series["quantity"] == "lost" && series["host"] == "reflector")
        .flat_map(|series| series["values"].as_array().unwrap())
        .map(|value| {
            assert!(value.as_f64() >= Some(0.0), "loss is never negative: {document}");
            value.as_f64().unwrap()
        })
        .sum();
    assert!((lost - count(up, "lost") as f64).abs() < 0.5, "{lost} {up}");
    let found: Vec<&str> =
        document["verdict"]["disturbed"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert!(found.contains(&"loss") && found.contains(&"order"), "{found:?}");
}

#[test]
fn a_campaign_of_streams() {
    let folder = Folder::new("stream-campaign");
    let plan = folder.file(
        "plan.toml",
        "name = \"streams\"\nrepetitions = 1\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
         [measure]\nseconds = 0.2\ndirection = \"both\"\nflows = 2\nbandwidth_bps = 5000000\n\
         [[grid]]\nprobe = [\"stream\"]\nprotocol = [\"udp\", \"tcp\"]\n",
    );
    let into = folder.0.join("runs");
    let output = run(&["campaign", "run", &plan, "--output", into.to_str().unwrap()]);
    assert_code(&output, 0);
    let text = stdout(&output) + &stderr(&output);
    let cells = std::process::Command::new("find")
        .args([folder.path(), "-name", "*.json", "-path", "*cells*"])
        .output()
        .unwrap();
    let files: Vec<String> = stdout(&cells).lines().map(str::to_owned).collect();
    assert_eq!(files.len(), 2, "{text}");
    for file in files {
        let document: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        assert_eq!(flows(&document).len(), 2);
        assert!(flows(&document).iter().all(|flow| flow["bytes"].as_u64() > Some(0)), "{document}");
        assert_eq!(document["factors"]["direction"], "both");
    }
}
