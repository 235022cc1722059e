//! `windhover exchange`: nodes on loopback as processes, their tables, and what bad input is answered by.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use serde_json::Value;
use std::net::UdpSocket;
use std::process::{Child, Stdio};
use support::{Folder, assert_code, assert_refused, documents, run, stderr, stdout, until, windhover};

/// The example of the documents with free ports, and node names of this process alone: in a folder that ends with the value.
struct Exchange {
    folder: Folder,
    text: String,
    controller: String,
    plant: String,
}

fn example() -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/exchange/exchange.toml");
    std::fs::read_to_string(path).unwrap()
}

/// A UDP port that is free for now.
fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Exchange {
    fn new(name: &str) -> Self {
        let named = |node: &str| format!("{name}-{node}-{}", std::process::id());
        let (controller, plant) = (named("controller"), named("plant"));
        let text = example()
            .replace("7421", &free_port().to_string())
            .replace("id = 1\naddress", &format!("id = 1\nport = {}\naddress", free_port()))
            .replace("id = 2\naddress", &format!("id = 2\nport = {}\naddress", free_port()))
            .replace("\"controller\"", &format!("\"{controller}\""))
            .replace("\"plant\"", &format!("\"{plant}\""));
        Self { folder: Folder::new(&format!("exchange-{name}")), text, controller, plant }
    }

    /// All topics are carried over TCP.
    fn over_tcp(mut self) -> Self {
        for id in ["id = 1\nperiod_us", "id = 2\nperiod_us"] {
            assert!(self.text.contains(id));
            self.text = self.text.replacen(id, &format!("transport = \"tcp\"\n{id}"), 1);
        }
        self.text =
            self.text.lines().filter(|line| !line.starts_with("group")).map(|line| format!("{line}\n")).collect();
        self
    }

    /// All topics are carried over PGM, to groups with ports of their own.
    fn over_pgm(mut self) -> Self {
        let group = |port: u16| format!("transport = \"pgm\"\ngroup = \"239.255.26.3:{port}\"\n");
        self.text =
            self.text.lines().filter(|line| !line.starts_with("group")).map(|line| format!("{line}\n")).collect();
        for id in ["id = 1\nperiod_us", "id = 2\nperiod_us"] {
            assert!(self.text.contains(id));
            self.text = self.text.replacen(id, &format!("{}{id}", group(free_port())), 1);
        }
        self
    }

    fn file(&self) -> String {
        self.folder.file("exchange.toml", &self.text)
    }

    /// Runs one node until it is ended.
    fn start(&self, node: &str) -> Node {
        let mut command = windhover(&["exchange", "run", &self.file(), "--node", node, "--format", "json"]);
        Node(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    /// The newest sequence number at a node, once there is one.
    fn sequence(&self, node: &str, topic: &str) -> u64 {
        let mut found = None;
        until(&format!("a value of {topic} at {node}"), || {
            let row = self.images().into_iter().find(|row| row["node"] == node && row["topic"] == topic);
            found = row.and_then(|row| row["sequence"].as_u64());
            found.is_some()
        });
        found.unwrap()
    }

    /// The images of this exchange.
    fn images(&self) -> Vec<Value> {
        let output = run(&["exchange", "top", "--once", "--interval", "0.1", "--format", "json"]);
        assert_code(&output, 0);
        let rows = documents(&output).remove(0);
        let is_own = |row: &&Value| row["node"] == self.controller.as_str() || row["node"] == self.plant.as_str();
        rows.as_array().unwrap().iter().filter(is_own).cloned().collect()
    }
}

/// A process that is killed with its test.
struct Node(Option<Child>);

impl Node {
    fn signal(&self, signal: &str) {
        let id = self.0.as_ref().unwrap().id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    fn ended(mut self) -> std::process::Output {
        support::ended(self.0.take().unwrap(), std::time::Duration::from_secs(60))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn the_example_runs_and_counts() {
    let exchange = Exchange::new("run");
    let output = run(&["exchange", "run", &exchange.file(), "--seconds", "1", "--format", "json"]);
    assert_code(&output, 0);
    let reports: Value = serde_json::from_str(&stdout(&output)).unwrap();
    for (at, from, topic) in [(0, 1, "state"), (1, 0, "setpoint")] {
        let (sent, got) = (&reports[from]["published"][0], &reports[at]["subscribed"][0]);
        assert_eq!((got["topic"].as_str(), got["deadline_by"].as_str()), (Some(topic), Some("schedule")));
        let sent = sent["sent"].as_u64().unwrap();
        // The last frame has no value.
        assert!(sent > 10 && got["received"] == sent + 1 && got["fresh"] == sent && got["missing"] == 0, "{reports}");
        assert_eq!(got["age_ns"]["count"].as_u64(), Some(sent));
    }
    let output = run(&["exchange", "run", &exchange.file(), "--seconds", "0.2"]);
    assert_code(&output, 0);
    for words in
        ["published", "subscribed", "wake-up", "interval", "the file says that clocks differ by at most 0.0 µs"]
    {
        assert!(stdout(&output).contains(words), "'{words}' is not in: {}", stdout(&output));
    }
    assert_eq!(exchange.images(), Vec::<Value>::new(), "no image is left");
}

#[test]
fn what_a_framing_does_not_carry_is_a_dash() {
    let mut exchange = Exchange::new("framing");
    for (framing, dashes) in [("sdn", 0), ("raw", 4)] {
        let framed = format!("id = 1\nframing = \"{framing}\"\nperiod_us");
        let text = std::mem::take(&mut exchange.text);
        exchange.text = text.replacen("id = 1\nperiod_us", &framed, 1);
        assert_ne!(exchange.text, text);
        let mut command = windhover(&["exchange", "run", &exchange.file(), "--seconds", "0.3"]);
        let output = command.env("COLUMNS", "200").output().unwrap();
        exchange.text = text;
        assert_code(&output, 0);
        let text = stdout(&output);
        let row = text.lines().find(|line| line.contains(&exchange.plant) && line.contains(" setpoint "));
        let row = row.unwrap_or_else(|| panic!("{text}"));
        let counts: Vec<&str> = row.split_whitespace().skip(2).take(7).collect();
        assert_eq!(counts[1..5].iter().filter(|count| **count == "-").count(), dashes, "{text}");
        assert_ne!((counts[0], counts[5]), ("-", "-"), "{text}");
        assert!(!text.contains("setpoint: deadline first missed at"), "{text}");
    }
}

#[test]
fn a_killed_node_is_seen_and_joins_again() {
    let exchange = Exchange::new("kill");
    let plant = exchange.start(&exchange.plant);
    let image = |node: &str, topic: &str| {
        exchange.images().into_iter().find(|row| row["node"] == node && row["topic"] == topic)
    };
    let has = |node: &str, topic: &str, key: &str, value: &str| {
        until(&format!("{key} {value} of {node} {topic}"), || {
            image(node, topic).is_some_and(|row| row[key].to_string().trim_matches('"') == value)
        });
    };
    for _ in 0..2 {
        let controller = exchange.start(&exchange.controller);
        has(&exchange.controller, "setpoint", "quality", "GOOD");
        has(&exchange.plant, "setpoint", "quality", "GOOD");
        controller.signal("-KILL");
        drop(controller);
        has(&exchange.controller, "setpoint", "is_writer_alive", "false");
        // The topic says that the last value is held.
        has(&exchange.plant, "setpoint", "quality", "SUBSTITUTED");
    }
    let controller = exchange.start(&exchange.controller);
    has(&exchange.plant, "setpoint", "quality", "GOOD");
    controller.signal("-TERM");
    assert_code(&controller.ended(), 0);
    plant.signal("-INT");
    let output = plant.ended();
    assert_code(&output, 0);
    let counted = &serde_json::from_str::<Value>(&stdout(&output)).unwrap()[0]["subscribed"][0];
    assert!(counted["restarts"] == 2 && counted["misses"].as_u64() > Some(100), "{counted}");
    assert!(counted["longest_run"].as_u64() > Some(50), "{counted}");
    assert_eq!(exchange.images(), Vec::<Value>::new());
}

#[test]
fn values_arrive_over_tcp() {
    let exchange = Exchange::new("tcp-run").over_tcp();
    let output = run(&["exchange", "run", &exchange.file(), "--seconds", "1", "--format", "json"]);
    assert_code(&output, 0);
    let reports: Value = serde_json::from_str(&stdout(&output)).unwrap();
    for (at, from) in [(0, 1), (1, 0)] {
        let (sent, got) = (&reports[from]["published"][0], &reports[at]["subscribed"][0]);
        let figure = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{reports}"));
        assert_eq!((sent["transport"].as_str(), figure(&sent["connections"][0]["connects"])), (Some("tcp"), 1));
        // The last frame has no value.
        assert_eq!(figure(&got["received"]) + figure(&sent["lost"]), figure(&sent["sent"]) + 1, "{reports}");
        assert!(figure(&got["fresh"]) > 10 && got["reordered"] == 0 && got["duplicates"] == 0, "{reports}");
        assert_eq!(figure(&reports[at]["addresses"][0]["connections"]), 1);
    }
    let output = windhover(&["exchange", "run", &exchange.file(), "--seconds", "0.3"]).output().unwrap();
    assert_code(&output, 0);
    assert!(stdout(&output).contains("over TCP: 1 connections"), "{}", stdout(&output));
    let output = run(&["exchange", "check", &exchange.file()]);
    // 2 bytes of length and 24 of headers more than with UDP.
    for words in ["tcp", "164", "173", "an acknowledgement of 90 bytes"] {
        assert!(stdout(&output).contains(words), "'{words}' is not in: {}", stdout(&output));
    }
}

#[test]
fn values_arrive_over_pgm() {
    let exchange = Exchange::new("pgm-run").over_pgm();
    let output = run(&["exchange", "run", &exchange.file(), "--seconds", "1", "--format", "json"]);
    assert_code(&output, 0);
    let reports: Value = serde_json::from_str(&stdout(&output)).unwrap();
    for (at, from) in [(0, 1), (1, 0)] {
        let (sent, got) = (&reports[from]["published"][0], &reports[at]["subscribed"][0]);
        assert!(sent["transport"] == "pgm" && sent["lost"] == 0 && got["missing"] == 0, "{reports}");
        // A subscriber that starts later gets what is sent from then on.
        let (sent, fresh) = (sent["sent"].as_u64(), got["fresh"].as_u64());
        assert!(fresh > Some(10) && fresh <= sent, "{reports}");
    }
}

/// The controller publishes `setpoint` over TCP and, for comparison, `tick` over UDP to the same node.
#[test]
fn a_stopped_reader_delays_no_cycle_and_gets_the_newest_value() {
    let mut exchange = Exchange::new("tcp-stop").over_tcp();
    let field = "[[topic.field]]\nname = \"n\"\ntype = \"u64\"\n";
    exchange.text += &format!("[[topic]]\nname = \"tick\"\nid = 3\nperiod_us = 1000\n{field}");
    exchange.text = exchange
        .text
        .replace("publish = [{ topic = \"setpoint\"", "publish = [{ topic = \"tick\" }, { topic = \"setpoint\"")
        .replace("subscribe = [\"setpoint\"", "subscribe = [\"tick\", \"setpoint\"")
        .replace("unit = \"N\"", "unit = \"N\"\ncount = 100");
    let plant = exchange.start(&exchange.plant);
    let controller = exchange.start(&exchange.controller);
    let sent = |topic: &str| exchange.sequence(&exchange.controller, topic);
    until("values", || exchange.sequence(&exchange.plant, "setpoint") > 100);
    plant.signal("-STOP");
    let (ticks, values) = (sent("tick"), sent("setpoint"));
    until("cycles beside a stopped reader", || sent("setpoint") > values + 3000);
    let (values, ticks) = (sent("setpoint") - values, sent("tick") - ticks);
    assert!(values > ticks / 2, "{values} values and {ticks} ticks");
    let newest = sent("setpoint");
    plant.signal("-CONT");
    until("the newest value", || exchange.sequence(&exchange.plant, "setpoint") > newest);
    controller.signal("-TERM");
    let output = controller.ended();
    assert_code(&output, 0);
    let published = serde_json::from_str::<Value>(&stdout(&output)).unwrap()[0]["published"].clone();
    let of = |topic: &str, key: &str| {
        let row = published.as_array().unwrap().iter().find(|row| row["topic"] == topic).unwrap();
        row[key].as_u64().unwrap_or_else(|| panic!("{key} in {published}"))
    };
    let row = published.as_array().unwrap().iter().find(|row| row["topic"] == "setpoint").unwrap();
    assert!(row["connections"][0]["replaced"].as_u64() > Some(0), "{published}");
    // What other work does to the machine, it does to both.
    for key in ["skipped", "overruns"] {
        assert!(of("setpoint", key) <= 2 * of("tick", key) + of("tick", "sent") / 10, "{key}: {published}");
    }
    plant.signal("-TERM");
    assert_code(&plant.ended(), 0);
}

#[test]
fn a_killed_reader_joins_again_over_tcp() {
    let exchange = Exchange::new("tcp-kill").over_tcp();
    let controller = exchange.start(&exchange.controller);
    let joins = || {
        let before = exchange.sequence(&exchange.controller, "setpoint");
        let plant = exchange.start(&exchange.plant);
        until("new values", || exchange.sequence(&exchange.plant, "setpoint") > before);
        until("an answer", || {
            let images = exchange.images();
            images.iter().any(|row| {
                row["node"] == exchange.controller.as_str() && row["topic"] == "state" && row["quality"] == "GOOD"
            })
        });
        plant
    };
    for _ in 0..2 {
        joins().signal("-KILL");
    }
    let plant = joins();
    controller.signal("-TERM");
    let output = controller.ended();
    assert_code(&output, 0);
    let report = &serde_json::from_str::<Value>(&stdout(&output)).unwrap()[0];
    let connection = &report["published"][0]["connections"][0];
    assert!(connection["connects"] == 3 && connection["unsent"].as_u64() > Some(0), "{report}");
    assert_eq!(report["subscribed"][0]["restarts"], 2, "{report}");
    plant.signal("-TERM");
    assert_code(&plant.ended(), 0);
    assert_eq!(exchange.images(), Vec::<Value>::new());
}

#[test]
fn costs_on_paper() {
    let exchange = Exchange::new("check");
    let output = run(&["exchange", "check", &exchange.file()]);
    assert_code(&output, 0);
    // 8 bytes of data, 64 of header, 28 of IP and UDP, 38 of Ethernet; 17 of data.
    for words in ["setpoint", "138", "147", "1.104", "CPU time is 10 µs a frame"] {
        assert!(stdout(&output).contains(words), "'{words}' is not in: {}", stdout(&output));
    }
    let output = run(&["exchange", "check", &exchange.file(), "--format", "json"]);
    let budget: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(budget["nodes"][0]["topics"][0]["wire_bytes"], 138);
}

#[test]
fn bad_input_is_one_line_and_2() {
    let exchange = Exchange::new("bad");
    let with = |from: &str, to: &str| {
        assert!(exchange.text.contains(from), "{from}");
        exchange.folder.file("bad.toml", &exchange.text.replacen(from, to, 1))
    };
    for (from, to, words) in [
        ("type = \"f64\"", "type = \"f80\"", &["bad.toml: line ", "unknown variant `f80`"][..]),
        ("count = 2", "count = 2\noffset = 3", &["field 'position' at offset 3 is not aligned"]),
        ("count = 2", "count = 200", &["1601 bytes of data do not fit into a datagram"]),
        ("id = 2", "id = 1", &["topic 'state': id 1 is that of topic 'setpoint'"]),
        ("period_us = 1000", "period_us = 10", &["period_us = 10 is outside of 50 (20 kHz)"]),
    ] {
        let file = with(from, to);
        assert_refused(&["exchange", "check", &file], 2, words);
        assert_refused(&["exchange", "run", &file], 2, words);
    }
    let file = with("127.0.0.2", "198.51.100.7");
    assert_refused(&["exchange", "run", &file], 2, &["198.51.100.7 is a public address", "--allow-public"]);
    let good = exchange.file();
    assert_refused(&["exchange", "run", &good, "--node", "x"], 2, &["there is no node 'x'", &exchange.plant]);
    assert_refused(&["exchange", "check", "/nonexistent.toml"], 2, &["/nonexistent.toml", "No such file"]);
    let slow = with(
        "publish = [{ topic = \"setpoint\", wait = \"hybrid\" }]",
        "link_mbps = 1\npublish = [{ topic = \"setpoint\" }]",
    );
    let faults = slow.replace("bad.toml", "slow.toml");
    let text =
        std::fs::read_to_string(&slow).unwrap().replace("127.0.0.1", "10.99.0.1").replace("127.0.0.2", "10.99.0.2");
    std::fs::write(&faults, text).unwrap();
    let output = run(&["exchange", "check", &faults]);
    assert_code(&output, 2);
    assert!(stderr(&output).contains("110 % of its link of 1 Mbit/s out"), "{}", stderr(&output));
}

#[test]
fn the_bench_has_all_figures() {
    let output = run(&["exchange", "bench", "--seconds", "0.3", "--format", "json"]);
    assert_code(&output, 0);
    let figures: Value = serde_json::from_str(&stdout(&output)).unwrap();
    for key in ["image_rtt_ns", "raw_udp_rtt_ns", "exchange_rtt_ns"] {
        assert!(figures[key]["count"].as_u64() > Some(0), "{figures}");
    }
    assert!(figures["image_write_ns"].as_f64() > Some(0.0), "{figures}");
}

/// From its first to its last frame a thread makes no call but those that send, receive and sleep.
#[test]
fn a_cycle_makes_no_other_system_call() {
    calls_of_a_cycle(&Exchange::new("calls"), "recvmmsg", &[]);
    calls_of_a_cycle(&Exchange::new("tcp-calls").over_tcp(), "recvfrom", &["epoll_wait", "epoll_pwait"]);
    // A publisher receives requests for repairs, too.
    calls_of_a_cycle(
        &Exchange::new("pgm-calls").over_pgm(),
        "ppoll",
        &["recvmmsg", "sendto", "sendmmsg", "clock_nanosleep"],
    );
}

fn calls_of_a_cycle(exchange: &Exchange, receives: &str, waits: &[&str]) {
    let log = exchange.folder.0.join("calls");
    let file = exchange.file();
    let plain = windhover(&["exchange", "run", &file, "--seconds", "1"]);
    let mut traced = std::process::Command::new("strace");
    traced.args(["-f", "-o"]).arg(&log).arg(plain.get_program()).args(plain.get_args());
    match traced.output() {
        Ok(output) if output.status.success() => {}
        _ => return eprintln!("SKIPPED a_cycle_makes_no_other_system_call: strace is not here or may not trace"),
    }
    let text = std::fs::read_to_string(&log).unwrap();
    let mut threads = std::collections::BTreeMap::<&str, Vec<&str>>::new();
    for line in text.lines().filter(|line| !line.contains(" resumed>")) {
        let (thread, rest) = line.split_once(' ').unwrap();
        let call = rest.trim_start().split('(').next().unwrap_or_default();
        threads.entry(thread).or_default().push(call);
    }
    let mut seen = [0, 0];
    for calls in threads.values() {
        let sleeps = if receives == "ppoll" {
            &["clock_nanosleep", "ppoll", "recvmmsg", "sendmmsg"][..]
        } else {
            &["clock_nanosleep"]
        };
        for (at, (data, others)) in [("sendto", sleeps), (receives, waits)].into_iter().enumerate() {
            let places: Vec<usize> = (0..calls.len()).filter(|at| calls[*at] == data).collect();
            if let [first, .., last] = places.as_slice()
                && places.len() > 20
            {
                seen[at] += 1;
                let strange = calls[*first..=*last].iter().find(|call| **call != data && !others.contains(call));
                assert_eq!(strange, None, "beside {data}");
            }
        }
    }
    let receiving = if receives == "ppoll" { 4 } else { 2 };
    assert_eq!(seen, [2, receiving], "two threads that publish and two that receive: {threads:?}");
}
