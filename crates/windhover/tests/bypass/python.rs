//! CPython's own tests: each has the result behind the library that it has on the kernel.

use super::stat;
use super::support::{Folder, can_make_namespaces, stderr, stdout};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

const PYTHON: &str = "/usr/bin/python3";
/// It receives with MSG_OOB, which the stack does not have.
const OUT_OF_BAND: &str = "test_handle_expt";
const MODULES: [&str; 7] =
    ["test_socket", "test_selectors", "test_select", "test_poll", "test_epoll", "test_asyncore", "test_asyncio"];
/// What the tests of a module are compared by: `name result`.
type Results = Vec<String>;

/// Whether they can run.
fn are_installed(test: &str) -> bool {
    let found = Command::new(PYTHON).args(["-c", "import test.test_socket"]).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        eprintln!("SKIPPED python::{test}: CPython's tests are not installed (libpython3.N-testsuite)");
    }
    found
}

/// Runs a module in a network namespace of its own, whose loopback interface has the MTU of Ethernet.
fn module(folder: &Folder, name: &str, stack: &[&str]) -> Results {
    const START: &str = "ip link set lo up mtu 1500 && sysctl -qw net.ipv4.conf.lo.accept_local=1 net.ipv4.conf.lo.route_localnet=1 && exec \"$@\"";
    let windhover = env!("CARGO_BIN_EXE_windhover");
    let behind = if stack.is_empty() { Vec::new() } else { [&[windhover, "bypass", "run"], stack, &["--"]].concat() };
    // Sockets to virtual machines hang where there is no other machine.
    let python = ["timeout", "--signal=KILL", "550", PYTHON, "-m", "test", "-v", "-i", "*VSOCK*", name];
    let line = [&["-n", "sh", "-c", START, "sh"], &behind[..], &python].concat();
    // Each is heard of before others take it for one that hangs.
    println!("\npython: {name} {}", stack.join(" "));
    let output = Command::new("unshare")
        .args(&line)
        .env("WINDHOVER_STATE", folder.0.join("state"))
        .current_dir(&folder.0)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    results(name, &output)
}

fn results(name: &str, output: &Output) -> Results {
    let text = format!("{}{}", stdout(output), stderr(output));
    let results = of_text(&text);
    assert!(results.len() > 2 && output.status.code().is_some_and(|code| code != 137), "{name}: {text}");
    results
}

/// Sorted.
fn of_text(text: &str) -> Results {
    let mut name = "";
    let mut results = Vec::new();
    for line in text.lines() {
        if let Some((first, _)) = line.split_once(" (test.") {
            name = line.split_once(") ... ").map_or(first, |(whole, _)| whole);
        }
        let result = line.rsplit_once(" ... ").and_then(|(_, result)| result.split_whitespace().next());
        if let Some(word) = result.filter(|word| ["ok", "skipped", "FAIL", "ERROR"].contains(word)) {
            results.push(format!("{name} {word}"));
        }
    }
    results.sort();
    results
}

/// Results that the other list lacks.
fn missing(from: &Results, other: &Results) -> Results {
    let mut rest = other.clone();
    let is_missing = |one: &&String| match rest.iter().position(|same| same == *one) {
        Some(at) => {
            rest.swap_remove(at);
            false
        }
        None => true,
    };
    from.iter().filter(is_missing).cloned().collect()
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn on_spin() {
    if !can_make_namespaces("python::on_spin") || !are_installed("on_spin") {
        return;
    }
    let folder = Folder::new("bypass-python");
    for name in MODULES {
        let (plain, behind) = (module(&folder, name, &[]), module(&folder, name, &["--profile", "latency"]));
        let differ = (missing(&plain, &behind), missing(&behind, &plain));
        assert!(differ.0.is_empty() && differ.1.is_empty(), "{name}: on the kernel and behind: {differ:?}");
        let passed = plain.iter().filter(|result| result.ends_with(" ok")).count();
        println!("\nBYPASS python on spin: {name}: {} tests, {passed} passed, the same behind it", plain.len());
    }
}

/// What the stack carried while something ran, by its status pages.
#[derive(Default)]
struct Carried {
    frames: u64,
    fall_backs: BTreeMap<String, u64>,
}

impl Carried {
    fn look(&mut self, pages: &[Value]) {
        for page in pages {
            self.frames = self.frames.max(page["carrier"]["received"].as_u64().unwrap_or(0));
            for one in page["fall_backs"].as_array().into_iter().flatten() {
                let times = self.fall_backs.entry(one["reason"].as_str().unwrap().to_owned()).or_default();
                *times = one["times"].as_u64().unwrap().max(*times);
            }
        }
    }
}

/// The interface is the loopback interface: both ends of nearly every connection are in the stack of one process.
#[test]
#[ignore = "cargo xtask test --bypass"]
fn on_xdp() {
    if !can_make_namespaces("python::on_xdp") || !are_installed("on_xdp") {
        return;
    }
    let folder = Folder::new("bypass-python-xdp");
    for name in MODULES {
        let plain = module(&folder, name, &[]);
        let (tell, done) = channel::<()>();
        let (behind, carried) = std::thread::scope(|scope| {
            let (folder, done) = (&folder, done);
            let watch = scope.spawn(move || {
                let mut carried = Carried::default();
                while done.recv_timeout(Duration::from_millis(300)) == Err(RecvTimeoutError::Timeout) {
                    carried.look(&stat(folder));
                }
                carried
            });
            let behind = module(folder, name, &["--stack", "xdp", "--interface", "lo", "--profile", "latency"]);
            drop(tell);
            (behind, watch.join().unwrap())
        });
        let is_known = |result: &String| result.contains(OUT_OF_BAND);
        let differ = [missing(&plain, &behind), missing(&behind, &plain)].concat();
        let others: Vec<&String> = differ.iter().filter(|result| !is_known(result)).collect();
        assert!(others.is_empty(), "{name}: on the kernel and behind: {others:?}");
        assert!(
            !matches!(name, "test_socket" | "test_asyncio") || carried.frames > 100,
            "{} frames past the kernel",
            carried.frames
        );
        let left: Vec<String> = carried.fall_backs.iter().map(|(reason, times)| format!("{reason} {times}")).collect();
        println!(
            "\nBYPASS python on xdp: {name}: {} tests, the same but for {differ:?}; {} frames past the kernel; left to it: {}",
            plain.len(),
            carried.frames,
            left.join(", ")
        );
    }
}
