//! `windhover explain --live`: what keeps messages of a running program waiting gets its name, and bad input.
//! Loading BPF programs needs CAP_BPF and CAP_PERFMON, which the tests have as root.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and print what they retry")]
#![allow(clippy::cast_precision_loss, reason = "shares")]

mod support;

use load::{Disturbance, Disturber};
use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{AT_ONCE, Server, assert_code, assert_refused, disturbs_alone, run, stderr, stdout, windhover};

/// What is seen of the server while a client sends to it.
fn followed(server: &Server, over: &str, [near, far]: [u32; 2]) -> serde_json::Value {
    let [near, far] = [near, far].map(|cpu| cpu.to_string());
    let client = ["pingpong", "udp", &server.address, "--seconds", "60", "--cpu", &near, "--remote-cpu", &far];
    let mut client = server.measured_by(windhover(&[&client[..], &AT_ONCE].concat()));
    let process = server.id().to_string();
    let output = run(&["explain", "--live", &process, "--seconds", "2", "--over", over, "--json"]);
    client.kill().unwrap();
    client.wait().unwrap();
    assert_code(&output, 0);
    serde_json::from_str(&stdout(&output)).unwrap()
}

/// Catches: programs that do not load, data that are not counted, a wake-up or a wait that is not seen, a wrong name.
#[test]
fn a_thread_that_takes_the_cpu_of_a_server_is_named() {
    let _alone = disturbs_alone();
    let cpus: Vec<u32> = task::allowed_cpus().unwrap().iter().collect();
    assert!(cpus.len() > 1, "needs two CPUs");
    let server = Server::start(&[]);
    let hog = Disturber::start(Disturbance::Hog(300), cpus[0], clock::monotonic_ns()).unwrap();
    let seen = followed(&server, "150us", [cpus[1], cpus[0]]);
    assert!(hog.finish().unwrap().len() > 50);
    let causes = seen["explanation"]["causes"].as_array().unwrap();
    let by_hog = |cause: &&serde_json::Value| cause["name"] == Disturbance::Hog(300).thread();
    let late: u64 = causes.iter().filter(by_hog).map(|cause| cause["messages"].as_u64().unwrap()).sum();
    // A disturbance each 12 ms, of which a busy machine leaves some.
    assert!(late >= 20, "{seen}");
    let waited = &causes.iter().find(by_hog).unwrap()["class"];
    assert!(waited == "run-queue" || waited == "preempted", "{waited}");
    // What causes took is not more than the wait, and segments are those of the receiving end.
    let messages = seen["messages"].as_array().unwrap();
    assert!(!messages.is_empty());
    for message in messages {
        let sum = |list: &str, field: &str| -> u64 {
            message[list].as_array().unwrap().iter().map(|one| one[field].as_u64().unwrap()).sum()
        };
        let wait_ns = message["wait_ns"].as_u64().unwrap();
        assert!(wait_ns > 150_000 && sum("segments", "ns") == wait_ns && sum("causes", "ns") <= wait_ns, "{message}");
    }
}

/// Catches: datagrams that are matched with the arrival of others, waits of data that lie in a busy program's socket.
#[test]
fn waits_are_those_that_the_program_itself_sees() {
    const LATE: Duration = Duration::from_millis(5);
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = receiver.local_addr().unwrap();
    let ends = Arc::new(AtomicBool::new(false));
    let (sends, started) = (Arc::clone(&ends), Instant::now());
    let sender = std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        while !sends.load(Ordering::Acquire) {
            let now = u64::try_from(started.elapsed().as_nanos()).unwrap();
            socket.send_to(&now.to_ne_bytes(), address).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        socket.send_to(&[], address).unwrap();
    });
    // Each 300 datagrams it is busy with something else, so that a part of them waits.
    let program = std::thread::spawn(move || {
        let (mut received, mut late, mut buffer) = (0_u64, 0_u64, [0; 8]);
        while receiver.recv(&mut buffer).unwrap() > 0 {
            received += 1;
            late +=
                u64::from(started.elapsed().saturating_sub(Duration::from_nanos(u64::from_ne_bytes(buffer))) > LATE);
            let busy = Instant::now();
            while received.is_multiple_of(300) && busy.elapsed() < Duration::from_millis(100) {}
        }
        late as f64 / received as f64
    });
    let process = std::process::id().to_string();
    let output = run(&["explain", "--live", &process, "--seconds", "4", "--over", "5ms", "--json"]);
    ends.store(true, Ordering::Release);
    sender.join().unwrap();
    let share = program.join().unwrap();
    assert_code(&output, 0);
    let seen: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let count = |field: &str| seen["explanation"][field].as_f64().unwrap();
    let ratio = count("late") / count("messages") / share;
    assert!(count("messages") > 500.0 && (0.5..2.0).contains(&ratio), "{ratio} of {share}: {}", seen["explanation"]);
    let causes = seen["explanation"]["causes"].as_array().unwrap();
    assert!(causes.iter().any(|cause| cause["class"] == "application"), "{causes:?}");
}

/// Catches: an end of the program that is not seen, an answer that is missing where nothing was received.
#[test]
fn it_ends_with_the_program() {
    let mut child = Command::new("sleep").arg("2").spawn().unwrap();
    let process = child.id().to_string();
    let follower = std::thread::spawn(move || run(&["explain", "--live", &process]));
    child.wait().unwrap();
    let output = follower.join().unwrap();
    assert_code(&output, 0);
    assert!(stderr(&output).contains("ended"), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("No message of sleep"), "{}", stdout(&output));
}

/// Catches: a wrong process that is followed, a name that is taken for a process, a message without the remedy.
#[test]
fn what_names_no_process_or_several_is_refused() {
    let servers = [Server::start(&[]), Server::start(&[])];
    let ids: Vec<String> = servers.iter().map(|server| server.id().to_string()).collect();
    assert_refused(&["explain", "--live", "windhover"], 2, &[&ids[0], &ids[1], "give the id of one"]);
    assert_refused(&["explain", "--live", "no-such-program"], 2, &["no-such-program"]);
    assert_refused(&["explain", "--live", "2147483647"], 2, &["there is no process 2147483647"]);
    assert_refused(&["explain", "--live", &ids[0], "--over", "soon"], 2, &["soon", "100us"]);
    assert_code(&run(&["explain", "RUN", "--live", &ids[0]]), 2);
    assert_code(&run(&["explain", "RUN", "--seconds", "1"]), 2);
}
