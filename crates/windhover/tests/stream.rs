//! Bulk data end to end: over loopback, through a relay that loses, repeats and reorders, and between namespaces.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;
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
    let mut child =
        support::windhover(&["stream", "udp", &server.address, "--rate", "1k", "--seconds", "60", "--jsonl"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    let lines = support::first_interval(&mut child);
    drop(server);
    let last = lines.map(Result::unwrap).last().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_code(&output, 5);
    let document: Value = serde_json::from_str(&last).unwrap();
    let flow = &flows(&document)[0];
    assert!(flow["received"].as_u64() > Some(0), "{flow}");
    assert_eq!(document["verdict"]["invalid"][0]["id"], "peer-vanished", "{}", document["verdict"]);
    assert_eq!(stderr(&output).lines().filter(|line| line.starts_with("windhover:")).count(), 1);
}

/// Between an initiator and an endpoint on loopback: passes everything on but what it is told to spoil of the datagrams
/// that go up. A word of the control connection never overtakes a datagram that was sent before it, so that the counts are
/// exact however long a busy machine keeps a thread of it waiting.
struct Relay {
    address: String,
    spoiled: Arc<Mutex<Spoiled>>,
}

#[derive(Default)]
struct Spoiled {
    lost: u64,
    twice: u64,
    late: u64,
}

/// Its own address of the loopback network, so that it can have the endpoint's ports.
const RELAY: &str = "127.0.0.9";

impl Relay {
    fn start(server: &str) -> Self {
        let listener = TcpListener::bind((RELAY, 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let spoiled = Arc::default();
        let relay = Self { address, spoiled: Arc::clone(&spoiled) };
        let server = server.to_owned();
        std::thread::spawn(move || {
            let (near, _) = listener.accept().unwrap();
            let far = TcpStream::connect(server).unwrap();
            let (up, to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            let ways = Arc::new(Ways::default());
            let going_up = Arc::clone(&ways);
            std::thread::spawn(move || {
                pass_on(up, &to, &going_up.up, |_| ());
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
            let mut heard = String::new();
            let mut open = true;
            pass_on(far, &near, &ways.down, |part| {
                heard.push_str(&String::from_utf8_lossy(part));
                if let Some((ports, _)) = heard.split_once("\"ports\":[").and_then(|(_, rest)| rest.split_once(']'))
                    && std::mem::take(&mut open)
                {
                    ways.open(ports, &spoiled);
                }
            });
        });
        relay
    }
}

/// A socket that datagrams come in by.
struct Inlet {
    socket: UdpSocket,
    /// Held from taking a datagram out until it is passed on.
    passing: Mutex<()>,
}

impl Inlet {
    fn new(socket: UdpSocket) -> Arc<Self> {
        use nix::sys::socket::{setsockopt, sockopt::RcvBuf};
        setsockopt(&socket, RcvBuf, &ROOM).unwrap();
        Arc::new(Self { socket, passing: Mutex::new(()) })
    }

    fn take_all(&self, mut each: impl FnMut(&[u8])) {
        let mut datagram = [0; 2048];
        while self.socket.peek_from(&mut [0; 1]).is_ok() {
            let _passing = self.passing.lock().unwrap();
            let (bytes, _) = self.socket.recv_from(&mut datagram).unwrap();
            each(&datagram[..bytes]);
        }
    }

    /// Waits until nothing that came in is still to be passed on.
    fn drained(&self) {
        loop {
            let passing = self.passing.lock().unwrap();
            if !waiting(&self.socket) {
                return;
            }
            drop(passing);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The inlets of each direction.
#[derive(Default)]
struct Ways {
    up: Mutex<Vec<Arc<Inlet>>>,
    down: Mutex<Vec<Arc<Inlet>>>,
}

impl Ways {
    /// Opens the ports that the endpoint names; the first flow goes up.
    fn open(&self, ports: &str, spoiled: &Arc<Mutex<Spoiled>>) {
        for (number, port) in ports.split(',').enumerate() {
            let port: u16 = port.parse().unwrap();
            let spoil = (number == 0).then(|| Arc::clone(spoiled));
            let near = Inlet::new(UdpSocket::bind((RELAY, port)).unwrap());
            let far = Inlet::new(UdpSocket::bind("127.0.0.1:0").unwrap());
            far.socket.connect(("127.0.0.1", port)).unwrap();
            self.up.lock().unwrap().push(Arc::clone(&near));
            self.down.lock().unwrap().push(Arc::clone(&far));
            std::thread::spawn(move || pass(&near, &far, spoil.as_deref()));
        }
    }
}

/// Passes one side's words on, each behind the datagrams before it, after `look` has seen them.
fn pass_on(mut from: TcpStream, mut to: &TcpStream, inlets: &Mutex<Vec<Arc<Inlet>>>, mut look: impl FnMut(&[u8])) {
    let mut part = [0; 65_536];
    while let Ok(bytes @ 1..) = from.read(&mut part) {
        look(&part[..bytes]);
        inlets.lock().unwrap().iter().for_each(|inlet| inlet.drained());
        if to.write_all(&part[..bytes]).is_err() {
            break;
        }
    }
}

/// Bytes that a socket is asked to keep. The kernel doubles it, and counts less than 1280 for a short datagram, so that it has room
/// for 300 of them.
const ROOM: usize = 200_000;

fn waiting(socket: &UdpSocket) -> bool {
    use nix::sys::socket::{MsgFlags, recv};
    recv(socket.as_raw_fd(), &mut [0; 1], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT).is_ok()
}

/// Passes datagrams on, both ways.
fn pass(near: &Arc<Inlet>, far: &Arc<Inlet>, spoil: Option<&Mutex<Spoiled>>) {
    let (_, client) = near.socket.peek_from(&mut [0; 1]).unwrap();
    let (down, back) = (Arc::clone(far), Arc::clone(near));
    std::thread::spawn(move || {
        down.take_all(|message| drop(back.socket.send_to(message, client)));
    });
    let (mut count, mut held) = (0_u64, None::<Vec<u8>>);
    let far = &far.socket;
    near.take_all(|message| {
        let send = |message: &[u8]| drop(far.send(message));
        // Proofs are short.
        let Some(spoil) = spoil.filter(|_| message.len() > 100) else { return send(message) };
        count += 1;
        let mut spoiled = spoil.lock().unwrap();
        match count % 20 {
            3 | 13 => return spoiled.lost += 1,
            // It goes after the next one.
            6 | 16 => return held = Some(message.to_vec()),
            9 => {
                spoiled.twice += 1;
                send(message);
            }
            _ => {}
        }
        send(message);
        if let Some(late) = held.take() {
            spoiled.late += 1;
            send(&late);
        }
    });
}

/// 250 messages each way, for which every socket on the way has room: nothing but the relay loses any, also where a thread gets no
/// CPU all the while.
#[test]
fn a_path_that_loses_repeats_and_reorders() {
    let server = Server::start(&[]);
    let relay = Relay::start(&server.address);
    let document = measure(&[
        "stream",
        "udp",
        &relay.address,
        "--rate",
        "125",
        "--size",
        "200",
        "--seconds",
        "2",
        "--bidir",
        "--receive-buffer",
        "200000",
    ]);
    let count = |flow: &Value, what: &str| flow[what].as_u64().unwrap();
    let (up, down) = (&flows(&document)[0], &flows(&document)[1]);
    for flow in [up, down] {
        assert_eq!(count(flow, "sent"), count(flow, "received") + count(flow, "lost"), "{flow}");
    }
    let spoiled = relay.spoiled.lock().unwrap();
    let sent = count(up, "sent");
    assert!((20..=251).contains(&sent) && spoiled.lost >= sent / 10, "{up}");
    assert!(spoiled.late >= sent / 10 - 1 && spoiled.twice >= sent / 20, "{up}");
    // The one that waits for its successor at the very end never comes.
    assert!(count(up, "lost") - spoiled.lost <= 1, "{} {up}", spoiled.lost);
    assert_eq!((count(up, "duplicated"), count(up, "reordered")), (spoiled.twice, spoiled.late), "{up}");
    assert_eq!((count(down, "lost"), count(down, "duplicated"), count(down, "reordered")), (0, 0, 0), "{down}");
    let lost: f64 = document["series"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|series| series["quantity"] == "lost" && series["host"] == "reflector")
        .flat_map(|series| series["values"].as_array().unwrap())
        .map(|value| value.as_f64().unwrap())
        .inspect(|value| assert!(*value >= 0.0, "loss is never negative: {document}"))
        .sum();
    assert!((lost - count(up, "lost") as f64).abs() < 0.5, "{lost} {up}");
    let found: Vec<&str> =
        document["verdict"]["disturbed"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert!(found.contains(&"loss") && found.contains(&"order"), "{found:?}");
}

#[test]
fn between_two_hosts_over_both_families() {
    let test = "between_two_hosts_over_both_families";
    if !support::can_make_namespaces(test) {
        return;
    }
    let name = format!("s{}", std::process::id());
    assert_code(&run(&["lab", "up", &name]), 0);
    let result = std::panic::catch_unwind(|| in_a_lab(&name));
    assert_code(&run(&["lab", "down", &name]), 0);
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

fn in_a_lab(name: &str) {
    let listed: Value = serde_json::from_str(&stdout(&run(&["lab", "list", "--json"]))).unwrap();
    let lab = listed.as_array().unwrap().iter().find(|lab| lab["name"] == name).unwrap().clone();
    let (a, b) = (format!("{name}/a"), format!("{name}/b"));
    for (key, size) in [("ipv4", 1472), ("ipv6", 1452)] {
        let address = lab["hosts"][1][key].as_str().unwrap();
        let bind = if key == "ipv6" { format!("[{address}]:7415") } else { format!("{address}:7415") };
        let serve = ["lab", "exec", &b, "--", env!("CARGO_BIN_EXE_windhover"), "serve", "--bind", &bind];
        // It listens until it is killed; its own namespace command ends with it.
        let _server = Server::started(support::windhover(&serve));
        for protocol in ["udp", "tcp"] {
            let rest = ["--bandwidth", "10M", "--seconds", "0.3", "--bidir", "--format", "json"];
            let head = ["lab", "exec", &a, "--", env!("CARGO_BIN_EXE_windhover"), "stream", protocol, &bind];
            let output = run(&[&head[..], &rest].concat());
            assert_code(&output, 0);
            let document = documents(&output).remove(0);
            // The size follows from the route's MTU of 1500.
            let expected = if protocol == "udp" { size } else { 131_072 };
            assert_eq!(document["factors"]["size"], expected, "{key} {protocol}");
            assert!(flows(&document).iter().all(|flow| flow["bytes"].as_u64() > Some(10_000)), "{document}");
            assert_eq!(document["verdict"]["trusted"], true, "{}", document["verdict"]);
        }
    }
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
