//! Bare frames and `bypass probe` through the command line.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{
    Server, assert_code, assert_measured, assert_refused, can_make_namespaces, documents, stderr, stdout, windhover,
};

/// Runs the binary in a network namespace of its own, after these commands.
fn run_behind(commands: &str, arguments: &str) -> Output {
    let script = format!("ip link set lo up; {commands}; exec \"$0\" {arguments}");
    Command::new("unshare").args(["--net", "sh", "-ec", &script, env!("CARGO_BIN_EXE_windhover")]).output().unwrap()
}

/// Catches: frames that are lost or counted twice, an end that does not say what carried its frames, sizes that share
/// headers, and a finding that the frames of `packet` leave behind in the kernel's counters.
#[test]
fn pingpong_and_rr_over_the_loopback_interface() {
    let test = "pingpong_and_rr_over_the_loopback_interface";
    if !can_make_namespaces(test) {
        return;
    }
    for (probe, near, far) in [
        ("pingpong frame --fork-both --receive spin --size 32,1000,33", "generic", "packet"),
        ("pingpong frame -6 --fork-both --frame-backend packet --receive block", "packet", "packet"),
        ("rr frame --fork-both --frame-backend packet --response 1400", "packet", "packet"),
    ] {
        let output = run_behind("true", &format!("{probe} --count 300 --format json"));
        assert_measured(&output);
        let all = documents(&output);
        assert_eq!(all.len(), if probe.contains(',') { 3 } else { 1 }, "{probe}");
        for document in all {
            assert_eq!(document["factors"]["protocol"], "frame", "{probe}");
            let backends = ["initiator", "reflector"].map(|end| document["ends"][end]["frame_backend"].clone());
            assert_eq!(backends, [near, far], "{probe}");
            let messages = &document["messages"];
            assert_eq!(messages["lost"], 0, "{probe}: {messages}");
            assert!(messages["duplicated"].as_u64().unwrap_or(0) == 0, "{probe}: {messages}");
            assert!(messages["received"].as_u64().unwrap() >= 300, "{probe}: {messages}");
            let found = document["verdict"]["disturbed"].to_string();
            assert!(!found.contains("udp") && !found.contains("drop"), "{probe}: {found}");
        }
    }
}

#[test]
fn what_cannot_be_is_one_line() {
    assert_refused(&["pingpong", "frame", "--fork-both", "--receive", "epoll"], 2, &["frame", "--receive spin"]);
    assert_refused(&["pingpong", "frame", "--fork-both", "--size", "4000"], 2, &["4000"]);
    assert_refused(&["bypass", "probe", "nosuch0"], 2, &["nosuch0"]);
    let test = "what_cannot_be_is_one_line";
    if !can_make_namespaces(test) {
        return;
    }
    for (options, words) in [
        ("--frame-backend native", "lo: the driver has no native XDP"),
        ("--frame-backend generic", "lo, queue 0: another AF_XDP socket has it"),
    ] {
        let output = run_behind("true", &format!("pingpong frame --fork-both {options} --count 10"));
        let said = stderr(&output);
        assert_code(&output, 1);
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
        assert!(said.contains(words), "{said}");
    }
    // Without the rights, as another user.
    let script = "ip link set lo up; exec setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all \"$0\" \
                  pingpong frame --fork-both --count 10";
    let output = Command::new("unshare").args(["--net", "sh", "-ec", script, env!("CARGO_BIN_EXE_windhover")]).output();
    let output = output.unwrap();
    let said = stderr(&output);
    assert!(said.contains("CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF") || said.contains("Permission denied"), "{said}");
}

/// XDP programs on this thread's loopback interface, and packet sockets in its namespace.
fn attached() -> (usize, usize) {
    let shown = stdout(&Command::new("ip").args(["link", "show", "lo"]).output().unwrap());
    let sockets = std::fs::read_to_string("/proc/thread-self/net/packet").unwrap();
    (shown.matches("prog/xdp").count(), sockets.lines().count() - 1)
}

/// Waits for the program of the initiator and the packet socket of the reflector, or for none of them.
#[track_caller]
fn wait_attached(wanted: (usize, usize)) {
    let end = Instant::now() + Duration::from_secs(60);
    while attached() != wanted {
        assert!(Instant::now() < end, "{:?}, not {wanted:?}", attached());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Catches: two clients that share an interface's frames and spoil each other's figures, and a killed client after which a
/// program, a socket or the server's word that the interface is taken stays behind.
#[test]
fn a_server_gives_frames_to_one_client_and_takes_them_back_when_it_is_killed() {
    let test = "a_server_gives_frames_to_one_client_and_takes_them_back_when_it_is_killed";
    if let Err(errno) = unshare(CloneFlags::CLONE_NEWNET) {
        eprintln!("SKIPPED {test}: no network namespace of its own: {errno}");
        return;
    }
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    let server = Server::start(&[]);
    let client = |more: &[&str]| windhover(&[&["pingpong", "frame", &server.address], more].concat());
    let mut first = client(&["--seconds", "60"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_attached((1, 1));
    let second = client(&["--count", "100"]).output().unwrap();
    assert_code(&second, 1);
    let said = stderr(&second);
    let is_named = said.contains("lo: the frame session of 127.0.0.1:") && said.contains("wait for its end");
    assert!(is_named && said.trim_end().lines().count() == 1, "{said}");
    first.kill().unwrap();
    first.wait().unwrap();
    wait_attached((0, 0));
    let third = client(&["--count", "100", "--format", "json"]).output().unwrap();
    assert_measured(&third);
    wait_attached((0, 0));
}

fn way<'a>(document: &'a Value, word: &str) -> &'a Value {
    document["ways"].as_array().unwrap().iter().find(|way| way["way"] == word).unwrap()
}

/// The namespaces of the probe that this process made, and not those of another test's.
fn namespaces_of_probe(id: u32) -> usize {
    let name = format!("wh-probe-{id}-");
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name)).count()
}

/// Catches: a back-end that is not tried, figures of rounds that are not comparable, a floor that is none, a recommendation
/// that does not follow from the figures, and a lab that stays.
#[test]
fn probe_measures_every_backend_of_a_virtual_wire() {
    let test = "probe_measures_every_backend_of_a_virtual_wire";
    if !can_make_namespaces(test) {
        return;
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        eprintln!("SKIPPED {test}: two ends that spin need two CPUs");
        return;
    }
    let mut command = support::windhover(&["bypass", "probe", "lo", "--seconds", "1", "--json"]);
    let probe = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = probe.id();
    let output = probe.wait_with_output().unwrap();
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let zero_copy = way(&document, "zero-copy");
    assert!(zero_copy["why_not"].as_str().unwrap().contains("the driver has no zero-copy XDP"), "{zero_copy}");
    for word in ["kernel-block", "kernel-spin", "native", "generic", "packet", "shm"] {
        let way = way(&document, word);
        assert_eq!(way["opens"], true, "{way}");
        let counted = way["rounds"].as_u64().unwrap();
        assert!(counted >= 3 || !way["untrusted"].as_array().unwrap().is_empty(), "{way}");
        if counted >= 3 {
            assert!(way["p50_ns"].as_f64() > Some(0.0), "{way}");
        }
    }
    let measured = |word: &str| way(&document, word)["p50_ns"].as_f64();
    // Ends that spin wait for their CPUs, and not for each other, where other tasks have them most of the time.
    let had_cpus = |word: &str| {
        ["cpu_percent", "far_cpu_percent"].iter().all(|end| way(&document, word)[end].as_f64() > Some(90.0))
    };
    if had_cpus("shm") && had_cpus("generic") {
        assert!(measured("shm") < measured("generic"), "{document}");
    } else {
        eprintln!("PARTLY {test}: other tasks had the CPUs of two ends that spin, which are not compared");
    }
    assert_code(&output, if measured("kernel-block").is_some() { 0 } else { 4 });
    assert_eq!(namespaces_of_probe(id), 0);
}

#[test]
fn probe_without_a_peer_says_what_opens() {
    let test = "probe_without_a_peer_says_what_opens";
    if !can_make_namespaces(test) {
        return;
    }
    let made = "ip link add d0 type bridge; ip link set d0 up";
    let output = run_behind(made, "bypass probe d0");
    assert_code(&output, 0);
    let text = stdout(&output);
    for words in ["frame, native: does not open: d0: the driver has no native XDP", "frame, generic: opens", "--to"] {
        assert!(text.replace('\n', " ").contains(words), "{text}");
    }
}

/// Catches: namespaces, devices or processes that stay when the probe is interrupted or killed half way.
#[test]
fn an_ended_probe_leaves_nothing() {
    let test = "an_ended_probe_leaves_nothing";
    if !can_make_namespaces(test) {
        return;
    }
    for (signal, code) in [(Signal::SIGINT, Some(130)), (Signal::SIGKILL, None)] {
        let mut probe = support::windhover(&["bypass", "probe", "lo", "--seconds", "20"]);
        let mut probe = probe.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let id = probe.id();
        let namespaces = || namespaces_of_probe(id);
        support::until(&format!("both namespaces, {signal}"), || namespaces() == 2);
        std::thread::sleep(Duration::from_millis(500));
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(id.cast_signed()), signal).unwrap();
        assert_eq!(probe.wait().unwrap().code(), code, "{signal}");
        support::until(&format!("the end of its namespaces, {signal}"), || namespaces() == 0);
        let listed = stdout(&support::windhover(&["lab", "list"]).output().unwrap());
        assert!(!listed.contains(&format!("probe-{id}")), "{listed}");
    }
}
