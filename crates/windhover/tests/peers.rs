//! Ends of other tools: their stock servers and clients against ours.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Server, Watchdog, assert_code, assert_measured, assert_refused, documents, run, stderr, stdout, until};

/// Whether sockperf is there.
fn has_sockperf(test: &str) -> bool {
    let found = Command::new("sockperf").arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED {test}: there is no sockperf");
    }
    found
}

/// A stock `sockperf server`, killed at the end.
struct Stock(Child);

impl Drop for Stock {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stock {
    /// At a port that was free a moment ago.
    fn start(protocol: &str) -> (Self, String) {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("sockperf");
        command.args(["server", "-i", "127.0.0.1", "-p", &port.to_string()]);
        command.args((protocol == "tcp").then_some("--tcp"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let table = format!("/proc/{}/net/{protocol}", child.id());
        let listens = format!("0100007F:{port:04X}");
        until("sockperf listens", || {
            assert!(child.try_wait().unwrap().is_none(), "sockperf ended: port {port} was taken");
            std::fs::read_to_string(&table).unwrap().contains(&listens)
        });
        (Self(child), format!("127.0.0.1:{port}"))
    }
}

/// Catches: a header that sockperf does not take, answers that are not matched, a report that nobody made.
#[test]
fn we_measure_a_stock_server() {
    if !has_sockperf("we_measure_a_stock_server") {
        return;
    }
    for protocol in ["udp", "tcp"] {
        let (_server, address) = Stock::start(protocol);
        let fixed = ["pingpong", protocol, &address, "--peer", "sockperf", "--size", "14,32,1400"];
        let output = run(&[&fixed[..], &["--count", "2000", "--warmup", "20", "--format", "json"]].concat());
        assert_measured(&output);
        let found = documents(&output);
        assert_eq!(
            found.iter().map(|one| one["factors"]["size"].as_u64().unwrap()).collect::<Vec<_>>(),
            [14, 32, 1400]
        );
        for document in found {
            let messages = &document["messages"];
            assert_eq!((&messages["sent"], &messages["received"]), (&2000.into(), &2000.into()), "{document}");
            assert_eq!(document["factors"]["peer"], "sockperf");
            assert_eq!(document["ends"]["reflector"]["address"], address);
            assert_eq!(document["ends"]["reflector"]["usage"]["elapsed_ns"], 0, "it reports nothing");
        }
        let output = run(&["pingpong", protocol, &address, "--peer", "sockperf", "--count", "200"]);
        assert!(stdout(&output).contains(", answered by sockperf: RTT/2"), "{}", stdout(&output));
    }
}

/// Catches: a setting of this end that is refused because it were the other one's, too.
#[test]
fn settings_are_those_of_this_end() {
    let server = Server::start(&["--as", "sockperf"]);
    let own = ["--receive", "spin", "--cpu", "0", "--receive-buffer", "100000", "--idle-pipes", "2"];
    let fixed = ["pingpong", "udp", &server.address, "--peer", "sockperf", "--count", "300", "--format", "json"];
    let output = run(&[&fixed[..], &own].concat());
    assert_measured(&output);
    let ends = &documents(&output)[0]["ends"];
    assert_eq!((&ends["initiator"]["receive"], &ends["initiator"]["cpu"]), (&"spin".into(), &0.into()), "{ends}");
    assert!(ends["reflector"]["cpu"].is_null() && ends["reflector"]["receive"] == "block", "{ends}");
}

/// Catches: answers that the stock client counts as dropped, doubled or out of order, and one after another client.
#[test]
fn a_stock_client_measures_us() {
    if !has_sockperf("a_stock_client_measures_us") {
        return;
    }
    let server = Server::start(&["--as", "sockperf"]);
    let port = server.address.rsplit(':').next().unwrap();
    for protocol in [&[][..], &["--tcp"], &[], &["--tcp"]] {
        // Fewer datagrams in all than a socket holds by default: a server that gets its CPU late loses none.
        for mode in [&["ping-pong"][..], &["under-load", "--mps", "200", "--reply-every", "5"]] {
            let place = ["-i", "127.0.0.1", "-p", port, "-t", "1", "-m", "64"];
            let output = Command::new("sockperf").args(mode).args(place).args(protocol).output().unwrap();
            let text = stdout(&output);
            assert!(output.status.success(), "{text}{}", stderr(&output));
            for count in ["# dropped messages = 0", "# duplicated messages = 0", "# out-of-order messages = 0"] {
                assert!(text.contains(count), "{mode:?} {protocol:?}: {text}");
            }
        }
    }
}

/// Catches: a hostile or stuck client that ends the server or keeps others waiting, and an answer to what wants none.
#[test]
fn clients_that_break_the_rules_disturb_no_other() {
    let mut server = Server::start(&["--as", "sockperf"]);
    let mut stuck = TcpStream::connect(&server.address).unwrap();
    let many: Vec<u8> = std::iter::repeat_n(message(3, 64), 2000).flatten().collect();
    stuck.set_nonblocking(true).unwrap();
    // It reads no answer: until nothing has moved for a while, so that the server could not send its answers.
    let (mut sent, mut moved) = (0, Instant::now());
    while moved.elapsed() < Duration::from_millis(300) {
        if let Ok(bytes) = stuck.write(&many[sent..]) {
            (sent, moved) = ((sent + bytes) % many.len(), Instant::now());
        }
    }
    let mut broken = TcpStream::connect(&server.address).unwrap();
    broken.write_all(&[0xff; 64]).unwrap();
    assert_eq!(broken.read(&mut [0; 64]).unwrap_or(0), 0, "hung up on");
    // More than it serves at once: none of them keeps a later one out.
    let crowd: Vec<TcpStream> = (0..80).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(&server.address).unwrap();
    // Too short, an answer, one that wants none, a wrong length; then one that is right.
    for bad in [vec![1; 5], message(2, 14), message(1, 14), [message(3, 14), vec![0; 3]].concat()] {
        socket.send(&bad).unwrap();
    }
    socket.send(&message(3, 20)).unwrap();
    let mut answer = [0; 64];
    assert_eq!(socket.recv(&mut answer).unwrap(), 20);
    assert_eq!(answer[..10], [0, 0, 0, 0, 0, 0, 0, 9, 0, 2]);
    for protocol in ["udp", "tcp"] {
        let output = run(&["pingpong", protocol, &server.address, "--peer", "sockperf", "--count", "500"]);
        assert_measured(&output);
    }
    drop(crowd);
    assert!(server.is_alive());
}

/// Catches: a server that takes a whole CPU as long as it cannot take a connection, and one that never takes one again.
#[test]
fn a_server_without_descriptors_waits_for_them() {
    let mut command = Command::new("sh");
    let words = [env!("CARGO_BIN_EXE_windhover"), "serve", "--as", "sockperf", "--bind", "127.0.0.1:0"];
    command.args(["-c", "ulimit -n 24; exec \"$@\"", "sh"]).args(words).stdin(Stdio::null());
    let server = Server::started(command);
    let crowd: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    let ticks = || {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap();
        let fields: Vec<u64> =
            text.rsplit(") ").next().unwrap().split(' ').map(|word| word.parse().unwrap_or(0)).collect();
        fields[11] + fields[12]
    };
    // Ticks of 10 ms.
    let before = ticks();
    std::thread::sleep(Duration::from_secs(1));
    assert!(ticks() - before < 30, "{} ticks in a second", ticks() - before);
    drop(crowd);
    for protocol in ["udp", "tcp"] {
        let output = run(&["pingpong", protocol, &server.address, "--peer", "sockperf", "--count", "300"]);
        assert_measured(&output);
    }
}

/// Number 9 with these flags and this length.
fn message(flags: u8, bytes: u8) -> Vec<u8> {
    let mut message = vec![0; usize::from(bytes)];
    (message[7], message[9], message[13]) = (9, flags, bytes);
    message
}

/// Catches: a refusal without its remedy, a wait for a server that is not there, a port that is open to others unasked.
#[test]
fn what_cannot_be_is_said_in_a_line() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let of = |more: &[&'static str]| [&["pingpong", "udp", "127.0.0.1", "--peer"], more].concat();
    assert_refused(&of(&["netperf"]), 2, &["--peer", "windhover or sockperf"]);
    assert_refused(&of(&["sockperf", "--size", "13"]), 2, &["14 to 65507 bytes"]);
    assert_refused(&of(&["sockperf", "--remote-cpu", "1"]), 2, &["where it is started"]);
    assert_refused(&of(&["sockperf", "--fork-both"]), 2, &["sockperf server"]);
    assert_refused(&["serve", "--as", "windhover"], 2, &["use sockperf"]);
    assert_refused(&["serve", "--as", "sockperf", "--bind", "0.0.0.0:0"], 2, &["--open"]);
    assert_refused(&["serve", "--as", "sockperf", "--max-rate", "5"], 2, &["--max-rate"]);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for (protocol, address) in [("udp", &silent), ("udp", &closed), ("tcp", &closed)] {
        let line = ["pingpong", protocol, address, "--peer", "sockperf", "--count", "3", "--timeout", "50"];
        let child = support::windhover(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _watchdog = Watchdog::new(&child, Duration::from_secs(60));
        let output = child.wait_with_output().unwrap();
        assert_code(&output, 1);
        assert!(stderr(&output).contains("answered nothing as sockperf does"), "{line:?} {}", stderr(&output));
    }
}
