//! `windhover serve` as a process: for one client, and in the background.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use support::{Folder, Server, assert_code, assert_measured, ended, run, stderr, until, windhover};

/// A port that was free a moment ago.
fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[track_caller]
fn measures(address: &str, more: &[&str]) {
    let output = run(&[&["pingpong", "udp", address, "--count", "100", "--format", "json"], more].concat());
    assert_measured(&output);
}

/// Ends a process that may be nobody's child any more, and waits until it is gone.
fn terminate(process: &str) {
    assert!(Command::new("kill").arg(process).status().unwrap().success());
    until("the end of the daemon", || !std::path::Path::new(&format!("/proc/{process}/status")).exists());
}

#[test]
fn once_serves_one_client_and_ends() {
    let mut server = Server::start(&["--once"]);
    // Neither a connection without a handshake nor one with a wrong key is a session.
    drop(std::net::TcpStream::connect(&server.address).unwrap());
    std::thread::sleep(Duration::from_millis(1500));
    assert!(server.is_alive(), "it ended before its first session");
    // A sweep of a stream opens a session a size.
    let sweep = run(&["stream", "tcp", &server.address, "--size", "1000,2000", "--seconds", "0.3", "--format", "json"]);
    assert_eq!(support::documents(&sweep).len(), 2, "{}", stderr(&sweep));
    // Who knocks after the session keeps no server alive.
    until("the end of the server", || {
        drop(std::net::TcpStream::connect(&server.address));
        !server.is_alive()
    });
    let refused = run(&["pingpong", "udp", &server.address, "--count", "10"]);
    assert!(stderr(&refused).contains("nothing listens"), "{}", stderr(&refused));
}

#[test]
fn once_ends_with_0() {
    let address = free_port();
    let mut serve = windhover(&["serve", "--bind", &address, "--once"]);
    let child = serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("listening", || std::net::TcpStream::connect(&address).is_ok());
    measures(&address, &[]);
    let output = ended(child, Duration::from_secs(30));
    assert_code(&output, 0);
    assert!(stderr(&output).contains("it ends after the first client"), "{}", stderr(&output));
}

/// Starts a daemon in a folder, with the files `pid` and `log`.
fn daemon(folder: &Folder, address: &str) -> Output {
    let arguments = ["serve", "--bind", address, "--daemon", "--pid-file", "pid", "--log", "log"];
    windhover(&arguments).current_dir(&folder.0).output().unwrap()
}

#[test]
fn a_daemon_listens_when_its_starter_ends() {
    let folder = Folder::new("serve-daemon");
    let address = free_port();
    // All of its output is read to its end here, so that what holds it open would hold this up.
    let started = daemon(&folder, &address);
    assert_code(&started, 0);
    let process = std::fs::read_to_string(folder.0.join("pid")).unwrap().trim().to_owned();
    let tried = std::panic::catch_unwind(|| {
        let words = format!("serving on {address} in the background, process {process}");
        assert!(stderr(&started).contains(&words), "{}", stderr(&started));
        measures(&address, &[]);
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        let session = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap().to_owned();
        assert_eq!(session, process, "it has a session of its own");
        assert_eq!(std::fs::read_link(format!("/proc/{process}/cwd")).unwrap(), std::path::Path::new("/"));
        let log = std::fs::read_to_string(folder.0.join("log")).unwrap();
        assert!(log.contains(&format!("serving on {address}")) && log.contains("SIGTERM ends it"), "{log}");

        // The second one says here what keeps it from listening, and leaves the file of the first alone.
        let second = daemon(&folder, &address);
        assert_code(&second, 1);
        assert!(
            stderr(&second).contains("in use") && stderr(&second).trim_end().lines().count() == 1,
            "{}",
            stderr(&second)
        );
        assert_eq!(std::fs::read_to_string(folder.0.join("pid")).unwrap().trim(), process);
        // So does one on another port.
        let third = daemon(&folder, "127.0.0.1:0");
        assert_code(&third, 1);
        let said = stderr(&third);
        assert!(said.contains("--pid-file pid") && said.contains(&format!("process {process}")), "{said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
        assert_eq!(std::fs::read_to_string(folder.0.join("pid")).unwrap().trim(), process);
    });
    terminate(&process);
    tried.unwrap();
    assert!(!folder.0.join("pid").exists(), "the file is left");
    // The file of a server that was killed is free.
    std::fs::write(folder.0.join("pid"), format!("{process}\n")).unwrap();
    assert_code(&daemon(&folder, "127.0.0.1:0"), 0);
    let next = std::fs::read_to_string(folder.0.join("pid")).unwrap().trim().to_owned();
    assert_ne!(next, process);
    terminate(&next);
}

#[test]
fn a_daemon_that_cannot_start_is_refused_here() {
    let folder = Folder::new("serve-daemon-refused");
    for (more, code, words) in [
        (&["--bind", "192.0.2.1", "--key-file", "nowhere"][..], 2, "nowhere"),
        (&["--bind", "0.0.0.0:0"], 2, "key"),
        (&["--bind", "127.0.0.1:0", "--log", "no/such/folder/log"], 2, "no/such/folder/log"),
        (&["--bind", "127.0.0.1:0", "--pid-file", "no/such/folder/pid"], 1, "no/such/folder/pid"),
    ] {
        let output = windhover(&[&["serve", "--daemon"], more].concat()).current_dir(&folder.0).output().unwrap();
        assert_code(&output, code);
        assert!(stderr(&output).contains(words), "{more:?}: {}", stderr(&output));
        assert_eq!(stderr(&output).trim_end().lines().count(), 1, "{}", stderr(&output));
    }
    assert_code(&run(&["serve", "--log", "log"]), 2);
}
