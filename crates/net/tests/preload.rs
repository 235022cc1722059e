//! A preloaded library sees every message, so user-space stacks can take the datapath over; and a message costs no
//! other calls than its own.
//!
//! The test starts itself again with the shim in LD_PRELOAD; that second process carries the messages.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, unsafe_code, reason = "tests")]

mod common;

use common::{NEVER, PingPong, end, ends, options};
use model::{Protocol, Receive, SocketSpec};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use windhover_net::with_path;

const ROUNDS: u32 = 500;
const SIZE: usize = 37;

/// Named in the second process's environment: what to carry.
const CARRY: &str = "WINDHOVER_TEST_CARRY";

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    protocol: Protocol,
    connected: bool,
    receive: Receive,
}

const CASES: [Case; 6] = [
    Case { name: "udp-block", protocol: Protocol::Udp, connected: true, receive: Receive::Block },
    Case { name: "udp-spin", protocol: Protocol::Udp, connected: true, receive: Receive::Spin },
    Case { name: "udp-unconnected", protocol: Protocol::Udp, connected: false, receive: Receive::Block },
    Case { name: "tcp-block", protocol: Protocol::Tcp, connected: true, receive: Receive::Block },
    Case { name: "tcp-epoll", protocol: Protocol::Tcp, connected: true, receive: Receive::Epoll },
    Case { name: "unix-stream", protocol: Protocol::UnixStream, connected: true, receive: Receive::Block },
];

fn carry(case: Case, rounds: u32) {
    let mut spec = SocketSpec::new(case.protocol);
    spec.connected = case.connected;
    let (mut here, mut there) = ends(&spec, &end(case.receive), &end(case.receive), false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let visitor = Exactly { rounds };
            with_path(&mut there, &options(case.receive, &NEVER), visitor).unwrap();
        });
        with_path(&mut here, &options(case.receive, &NEVER), PingPong { size: SIZE, rounds }).unwrap();
    });
}

/// Reflects this many messages, then ends by itself.
struct Exactly {
    rounds: u32,
}

impl windhover_net::PathVisitor for Exactly {
    type Output = ();

    fn visit<P: windhover_net::Path>(self, path: &mut P) {
        let mut buffer = [0; SIZE];
        for _ in 0..self.rounds {
            assert_eq!(path.receive(&mut buffer), Ok(windhover_net::Received::Bytes(SIZE)));
            path.send(&buffer, false).unwrap();
        }
    }
}

/// The second process; when it is not given what to carry, everything, without the shim.
#[test]
fn second_process() {
    let Ok(wanted) = std::env::var(CARRY) else {
        for case in CASES {
            carry(case, ROUNDS);
        }
        return;
    };
    let (name, rounds) = wanted.split_once(' ').unwrap();
    let case = CASES.into_iter().find(|case| case.name == name).unwrap();
    carry(case, rounds.parse().unwrap());
}

fn compile(folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shim/count.c");
    let library = folder.join("count.so");
    let compiler = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .output()
        .ok()?;
    assert!(compiler.status.success(), "{}", String::from_utf8_lossy(&compiler.stderr));
    Some(library)
}

/// What the shim saw of one case.
fn counts(folder: &Path, library: &Path, case: Case, rounds: u32) -> BTreeMap<String, u64> {
    let file = folder.join(case.name);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "second_process", "--test-threads=1"])
        .env(CARRY, format!("{} {rounds}", case.name))
        .env("LD_PRELOAD", library)
        .env("COUNT_FILE", &file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}: {}", case.name, String::from_utf8_lossy(&output.stdout));
    let text = std::fs::read_to_string(&file).unwrap();
    let pairs = text.lines().map(|line| line.split_once(' ').unwrap());
    pairs.map(|(name, count)| (name.to_owned(), count.parse().unwrap())).collect()
}

#[test]
fn every_message_passes_the_shim() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = compile(folder.path()) else {
        eprintln!("SKIPPED every_message_passes_the_shim: there is no C compiler called cc");
        return;
    };
    for case in CASES {
        // The difference of two runs: what is called once for setting up drops out.
        let few = counts(folder.path(), &library, case, 1);
        let many = counts(folder.path(), &library, case, 1 + ROUNDS);
        let more = |name: &str| many[name] - few[name];
        let messages = u64::from(2 * ROUNDS);
        let (sends, receives) = if case.connected { ("send", "recv") } else { ("sendto", "recvfrom") };
        // Exactly one send call a message, and one successful receive call.
        assert_eq!(more(sends), messages, "{}", case.name);
        assert_eq!(more(receives), messages, "{}", case.name);
        let bytes = u64::try_from(SIZE).unwrap();
        assert_eq!(more("bytes_sent"), messages * bytes, "{}", case.name);
        assert_eq!(more("socket"), 0, "{}", case.name);
        // Sockets are made and connected under the shim's eyes too.
        if case.protocol != Protocol::UnixStream {
            assert!(few["socket"] >= 2, "{}", case.name);
        }
        if case.protocol == Protocol::Tcp {
            assert_eq!((few["connect"], few["accept4"]), (1, 1), "{}", case.name);
        }
    }
}
