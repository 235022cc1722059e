//! What SIGINT and SIGTERM do: the first asks for an orderly stop where there is one and ends the process elsewhere, the
//! second ends it at once.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use support::{
    ANOTHER_REQUEST, Folder, Server, assert_code, assert_run_measured, can_make_namespaces, computed, run,
    run_directory, until,
};

const INT: i32 = 2;
const TERM: i32 = 15;

/// Far longer than any end takes on a busy machine. That it was no orderly stop is seen by how the process ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program with signals as a terminal's shell leaves them: a shell's background job ignores SIGINT, and so does what is
/// started from there.
fn windhover(arguments: &[&str]) -> Command {
    let plain = support::windhover(arguments);
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,TERM,HUP").arg(plain.get_program()).args(plain.get_args()).stdin(Stdio::null());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn signal(process: u32, signal: i32) {
    let sent = Command::new("kill").args([format!("-{signal}"), process.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// How a process ended, which it must do soon; killed where it does not.
#[track_caller]
fn end_of(child: &mut Child, within: Duration) -> ExitStatus {
    let deadline = Instant::now() + within;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it did not end within {within:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts a ping-pong and waits until it measures, so the first signal no longer ends the process.
fn start_measuring(server: &Server, protocol: &str, stdout: Stdio) -> Child {
    let measure = ["pingpong", protocol, &server.address, "--seconds", "60", "--format", "json"];
    let mut client = windhover(&[&measure[..], &support::AT_ONCE].concat());
    client.stdout(stdout).stderr(Stdio::null());
    let child = server.measured_by(client);
    until("a handler", || catches(child.id(), INT));
    child
}

/// Whether a process has a handler for a signal.
fn catches(process: u32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
    u64::from_str_radix(caught, 16).unwrap() & (1 << (signal - 1)) != 0
}

/// A campaign of two short cells.
fn a_plan(folder: &Folder) -> String {
    let plan = "name = \"t\"\nrepetitions = 2\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
                [measure]\nseconds = 0.1\nwarmup_ms = 5\nwarmup_count = 10\n[[grid]]\nprotocol = [\"udp\"]\nsize = [32]\n";
    folder.file("plan.toml", plan)
}

/// Its run directory.
fn a_run(folder: &Folder) -> PathBuf {
    let output = run(&["campaign", "run", &a_plan(folder), "--output", folder.path()]);
    let run = run_directory(&folder.0);
    assert_run_measured(&output, &run);
    run
}

/// A pipe that is full: whoever writes to it waits. Its read end has to be kept.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut filling = writer.try_clone().unwrap();
    let filled = std::thread::spawn(move || while filling.write_all(&[b'x'; 4096]).is_ok() {});
    // It stands still when there is no more room, and ends with the test's process.
    until("a full pipe", || {
        let mut entry = [PollFd::new(writer.as_fd(), PollFlags::POLLOUT)];
        poll(&mut entry, PollTimeout::ZERO).unwrap() == 0
    });
    assert!(!filled.is_finished());
    (reader, writer)
}

/// Computes for a long time whatever the machine: copies of one run until a report of them takes long.
fn many_runs(folder: &Folder) -> Vec<String> {
    let run = a_run(folder);
    let document = std::fs::read_to_string(run.join("run.json")).unwrap();
    let id =
        serde_json::from_str::<serde_json::Value>(&document).unwrap()["id"].as_str().unwrap_or_default().to_owned();
    let copies = (0..400).map(|number| {
        let copy = folder.0.join(format!("copy{number:03}"));
        std::fs::create_dir_all(copy.join("cells")).unwrap();
        for part in ["", "cells"] {
            for entry in std::fs::read_dir(run.join(part)).unwrap().map(Result::unwrap) {
                if entry.path().is_file() && !entry.file_name().to_string_lossy().starts_with("report") {
                    std::fs::copy(entry.path(), copy.join(part).join(entry.file_name())).unwrap();
                }
            }
        }
        if !id.is_empty() {
            std::fs::write(copy.join("run.json"), document.replace(&id, &format!("{id}-{number}"))).unwrap();
        }
        copy.to_str().unwrap().to_owned()
    });
    copies.collect()
}

#[test]
fn a_report_that_computes_ends_at_the_first_signal() {
    let folder = Folder::new("signals-report");
    let runs = many_runs(&folder);
    let mut arguments = vec!["report", "--format", "html", "-o", "-"];
    let page = folder.0.join("page.html").display().to_string();
    arguments[4] = &page;
    arguments.extend(runs.iter().map(String::as_str));
    for sent in [INT, TERM] {
        let said = folder.0.join("stderr");
        let stderr = std::fs::File::create(&said).unwrap();
        let mut child = windhover(&arguments).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
        // It has begun to compute, and is not near its end.
        until("computing", || computed(child.id()) >= 10);
        signal(child.id(), sent);
        let status = end_of(&mut child, PATIENCE);
        assert_eq!(status.signal(), Some(sent), "{status}: {}", std::fs::read_to_string(&said).unwrap());
    }
}

#[test]
fn what_follows_a_campaign_ends_at_the_first_signal() {
    let folder = Folder::new("signals-campaign");
    let plan = a_plan(&folder);
    let (_reader, writer) = full_pipe();
    // When all cells are done, the report waits for somebody to read its table.
    let arguments = ["--quiet", "campaign", "run", &plan, "--output", folder.path()];
    let mut child = windhover(&arguments).stdout(writer).spawn().unwrap();
    until("waiting for the pipe", || {
        // The system call and its first argument: standard output.
        let call = std::fs::read_to_string(format!("/proc/{}/syscall", child.id())).unwrap_or_default();
        call.split_whitespace().nth(1) == Some("0x1")
    });
    signal(child.id(), TERM);
    assert_eq!(end_of(&mut child, PATIENCE).signal(), Some(TERM));
}

#[test]
fn the_first_signal_stops_in_order_and_the_second_at_once() {
    let server = Server::start(&[]);
    for (first, second) in [(INT, INT), (TERM, TERM)] {
        let mut child = start_measuring(&server, "tcp", Stdio::piped());
        signal(child.id(), first);
        let status = end_of(&mut child, PATIENCE);
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(status.code(), Some(130), "{text}");
        let document: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert!(document["messages"]["received"].as_u64().unwrap() > 0, "{document}");

        // A far end that stands still keeps it from stopping in order.
        let mut child = start_measuring(&server, "tcp", Stdio::null());
        signal(server.id(), 19);
        signal(child.id(), first);
        std::thread::sleep(ANOTHER_REQUEST);
        let waits = child.try_wait().unwrap().is_none();
        if waits {
            signal(child.id(), second);
        }
        let status = end_of(&mut child, PATIENCE);
        signal(server.id(), 18);
        assert!(waits, "it did not wait for its far end");
        assert_eq!(status.signal(), Some(second));
    }
}

/// A port whose connections nobody accepts any more: the kernel drops further SYNs, as a firewall does. To be kept.
fn full_port() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut connections = Vec::new();
    while let Ok(connection) = TcpStream::connect_timeout(&address, Duration::from_millis(500)) {
        connections.push(connection);
        assert!(connections.len() < 10_000, "the queue of connections has no end");
    }
    (listener, connections)
}

/// What is waited for took its whole time-out (10 s for a peer, 60 s for an agent) after Ctrl-C.
#[test]
fn a_handshake_ends_at_the_first_signal() {
    let folder = Folder::new("signals-handshake");
    let (full, _connections) = full_port();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (dropping, silent) = (full.local_addr().unwrap().to_string(), silent.local_addr().unwrap().to_string());
    let hosts = "[hosts.a]\nagent_command = [\"sleep\", \"60\"]\n[hosts.b]\nagent_command = [\"sleep\", \"60\"]\n";
    let plan = a_plan(&folder).replace("plan.toml", "hangs.toml");
    let text = std::fs::read_to_string(folder.0.join("plan.toml")).unwrap();
    std::fs::write(&plan, text.replace("[lab]\nkind = \"loopback\"\n", hosts)).unwrap();
    let waits: [&[&str]; 5] = [
        &["pingpong", "tcp", &dropping],
        &["pace", "udp", &silent],
        &["stream", "tcp", &silent],
        &["pingpong", "udp", &silent],
        &["campaign", "run", &plan, "--output", folder.path()],
    ];
    for (arguments, sent) in waits.into_iter().flat_map(|arguments| [(arguments, INT), (arguments, TERM)]) {
        let mut child = windhover(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("the signal's handler", || catches(child.id(), sent));
        std::thread::sleep(Duration::from_millis(300));
        assert!(child.try_wait().unwrap().is_none(), "{arguments:?} ended by itself");
        signal(child.id(), sent);
        let status = end_of(&mut child, PATIENCE);
        assert_eq!(status.code(), Some(130), "{arguments:?}: {status}");
    }
}

/// `timeout` signals the program and then the group that both are in: some results were lost to the second.
#[test]
fn two_signals_at_a_time_are_one_request() {
    let server = Server::start(&[]);
    let mut child = start_measuring(&server, "udp", Stdio::piped());
    let twice = format!("kill -INT {0}; kill -TERM {0}; kill -INT {0}", child.id());
    assert!(Command::new("sh").args(["-c", &twice]).status().unwrap().success());
    let status = end_of(&mut child, PATIENCE);
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!((status.code(), text.lines().count()), (Some(130), 1), "{status}");
}

/// A program that says when it is ready and what signals it gets; SIGTERM does not end it.
const STUBBORN: &str =
    "trap 'echo got TERM' TERM; trap 'echo got INT' INT; echo ready $$; while :; do sleep 0.05; done";

#[test]
fn a_program_gets_the_first_signal_and_dies_of_the_second() {
    let lab = format!("s{}", std::process::id());
    let has_lab = can_make_namespaces("lab exec in a_program_gets_the_first_signal_and_dies_of_the_second");
    if has_lab {
        assert_code(&run(&["lab", "up", &lab, "--hosts", "1"]), 0);
    }
    let host = format!("{lab}/a");
    let mut wrappers = vec![vec!["run", "--report", "--", "sh", "-c", STUBBORN]];
    if has_lab {
        wrappers.push(vec!["lab", "exec", &host, "--", "sh", "-c", STUBBORN]);
    }
    let tried = std::panic::catch_unwind(|| {
        for arguments in &wrappers {
            let mut child = windhover(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
            let program: u32 = lines.next().unwrap().strip_prefix("ready ").unwrap().parse().unwrap();
            signal(child.id(), TERM);
            assert_eq!(lines.next().unwrap(), "got TERM", "{arguments:?}");
            assert!(child.try_wait().unwrap().is_none(), "{arguments:?}");
            std::thread::sleep(ANOTHER_REQUEST);
            signal(child.id(), TERM);
            assert_eq!(end_of(&mut child, PATIENCE).signal(), Some(TERM), "{arguments:?}");
            until("end of the program", || lines.next().is_none());
            // Its new parent may take its time to read how it ended.
            let state = || std::fs::read_to_string(format!("/proc/{program}/stat")).unwrap_or_default();
            until("end of the program", || state().rsplit_once(')').is_none_or(|(_, rest)| rest.starts_with(" Z")));
        }
    });
    if has_lab {
        assert_code(&run(&["lab", "down", &lab]), 0);
    }
    tried.unwrap();
}

#[test]
fn a_hang_up_that_is_ignored_stays_so() {
    let script = "trap '' HUP; exec \"$0\" \"$@\"";
    let mut child = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_windhover"), "serve", "--bind", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("serving on"));
    signal(child.id(), 1);
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "it ended");
    signal(child.id(), TERM);
    assert_eq!(end_of(&mut child, PATIENCE).code(), Some(0));
}
