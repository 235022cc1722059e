//! `--stack xdp` in network namespaces that the tests make: what calls return.

use super::support::{self, Folder, assert_code, stderr, stdout};
use super::wire::{FAR, Network, REACHED, has_program, with_wire};
use super::{Started, assert_same, bypass, bypass_behind, stat};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What `ends.c` and `edges.c` talk to. Threads of this namespace, which end with the test.
pub(super) fn serve() {
    let link = nix::net::if_::if_nametoindex("far").unwrap();
    for address in FAR {
        let at = |port| match address.parse().unwrap() {
            IpAddr::V6(v6) if v6.is_unicast_link_local() => SocketAddrV6::new(v6, port, 0, link).into(),
            ip => SocketAddr::new(ip, port),
        };
        let socket = UdpSocket::bind(at(7000)).unwrap();
        std::thread::spawn(move || {
            let mut bytes = vec![0; 65_536];
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(&bytes[..length], from);
            }
        });
        for (port, answer) in [
            (7001, echo as fn(TcpStream)),
            (7002, leave_unread),
            (7003, in_two_parts),
            (7004, swallow),
            (7005, call_back),
            (7006, note_the_end),
            (7007, say_the_end),
        ] {
            let listener = TcpListener::bind(at(port)).unwrap();
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    std::thread::spawn(move || answer(stream));
                }
            });
        }
    }
}

fn echo(mut stream: TcpStream) {
    let mut bytes = vec![0; 65_536];
    while let Ok(length @ 1..) = stream.read(&mut bytes) {
        if stream.write_all(&bytes[..length]).is_err() {
            return;
        }
    }
}

fn leave_unread(stream: TcpStream) {
    let _ = stream.peek(&mut [0]);
    drop(stream);
}

fn in_two_parts(mut stream: TcpStream) {
    let _ = stream.write_all(b"abcde");
    std::thread::sleep(Duration::from_millis(100));
    let _ = stream.write_all(b"fghij");
}

fn swallow(mut stream: TcpStream) {
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
}

/// Connects to ports of the other end, as its lines `PORT COUNT` say, and echoes there.
fn call_back(stream: TcpStream) {
    let peer = stream.peer_addr().unwrap().ip();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let (port, count) = line.split_once(' ').unwrap();
        let to = SocketAddr::new(peer, port.parse().unwrap());
        for _ in 0..count.parse().unwrap() {
            std::thread::spawn(move || TcpStream::connect(to).map(echo));
        }
    }
}

/// How the last connection to 7006 ended; none while it has not.
static END: Mutex<Option<&str>> = Mutex::new(None);

fn note_the_end(mut stream: TcpStream) {
    *END.lock().unwrap() = None;
    let _ = stream.write_all(b"!");
    let end = std::io::copy(&mut stream, &mut std::io::sink()).map_or("reset", |_| "the end");
    *END.lock().unwrap() = Some(end);
}

fn say_the_end(mut stream: TcpStream) {
    let end = Instant::now() + Duration::from_secs(60);
    while END.lock().unwrap().is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = stream.write_all(END.lock().unwrap().unwrap_or("it goes on").as_bytes());
}

/// A program to its end, but not for longer than a minute.
pub(super) fn run(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    support::ended(child, Duration::from_secs(60))
}

/// Runs `near` with one of the programs beside this file and a folder, at one end of a wire; [`serve`] is at the other end.
pub(super) fn with_program(test: &str, name: &str, near: impl FnOnce(&Folder, &str) + Send + 'static) {
    let folder = Folder::new(&format!("bypass-stack-{test}"));
    if let Some(program) = super::compile(&folder, test, name, &[]) {
        with_wire(test, move || near(&folder, &program), serve);
    }
}

/// Starts `ends` on the stack; it talks to an address without end.
pub(super) fn start_on_stack(
    folder: &Folder,
    how: &[&str],
    [program, address, what]: [&str; 3],
    line: &str,
) -> Started {
    let line_of_command = [&["run", "--stack", "xdp", "--require"], how, &["--", program, address, what]].concat();
    Started::new(&mut bypass(folder, &line_of_command), line).0
}

/// Whether two texts first differ where the second has a datagram again that it had within the last lines: a known difference of `packet`
/// (docs/bypass.md).
fn has_one_twice(plain: &str, other: &str) -> bool {
    let values: Vec<&str> = other.lines().filter_map(|line| Some(line.split_once(": ")?.1)).collect();
    let expected = plain.lines().filter_map(|line| Some(line.split_once(": ")?.1));
    let differs = expected.zip(&values).position(|(plain, other)| plain != *other);
    differs.is_some_and(|at| values[at].contains('\'') && values[at.saturating_sub(8)..at].contains(&values[at]))
}

/// Compares what a program prints on the kernel's stack and on ours, with each back-end.
fn compare(test: &'static str, name: &'static str) {
    with_program(test, name, move |folder, program| {
        for address in REACHED {
            let plain = run(Command::new(program).arg(address));
            assert_code(&plain, 23);
            let plain = stdout(&plain);
            assert!(plain.lines().count() > 70 && !plain.contains("too "), "{plain}");
            // A signal that comes between a spin and its sleep does not interrupt it: the spin outlasts all signals.
            let spun = run(super::budget(&mut bypass(folder, &["run", "--", program, address]), 5_000_000));
            assert_same(&plain, &stdout(&spun), &format!("by spin: {}", stderr(&spun)));
            for (backend, us) in [("generic", "3000"), ("generic", "5000000"), ("native", "0"), ("packet", "3000")] {
                let arguments = ["run", "--stack", "xdp", "--backend", backend, "--", program, address];
                let started = || run(super::budget(&mut bypass(folder, &arguments), us.parse().unwrap()));
                let mut output = started();
                if backend == "packet" && has_one_twice(&plain, &stdout(&output)) {
                    println!("RETRIED {name} by packet: a datagram came twice when its socket came to the stack");
                    output = started();
                }
                let what = format!("by {backend} with a budget of {us} µs: {}", stderr(&output));
                assert_same(&plain, &stdout(&output), &what);
                assert_code(&output, 23);
                assert!(!has_program(), "{what}");
            }
        }
    });
}

/// Catches: a call that returns another value, errno or address than the kernel's, waits too long or too short, or misses an edge.
#[test]
fn every_call_returns_on_the_stack_what_the_kernel_returns() {
    compare("every_call_returns_on_the_stack_what_the_kernel_returns", "ends");
}

/// Catches: the same with threads, signals, options, accepted connections, instances of epoll in others, files and pipes.
#[test]
fn calls_at_the_edges_return_on_the_stack_what_the_kernel_returns() {
    compare("calls_at_the_edges_return_on_the_stack_what_the_kernel_returns", "edges");
}

/// What the pairings below start as the other end: it serves until its input ends.
#[test]
#[ignore = "not a test: the other end, which others start"]
fn the_other_end() {
    if std::env::var_os(OTHER_END).is_some() {
        serve();
        println!("\n{SERVES}");
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
    }
}

const OTHER_END: &str = "WINDHOVER_TEST_OTHER_END";
const SERVES: &str = "it serves";

/// Starts the other end: on the kernel's stack, or on ours with a back-end.
fn start_other_end(folder: &Folder, backend: Option<&str>) -> Started {
    let program = std::env::current_exe().unwrap();
    let mut command = match backend {
        None => Command::new(&program),
        Some(backend) => {
            bypass(folder, &["run", "--stack", "xdp", "--backend", backend, "--", program.to_str().unwrap()])
        }
    };
    command.args(["--ignored", "--nocapture", "--exact", "stack::the_other_end"]).env(OTHER_END, "1");
    Started::new(&mut command, SERVES).0
}

/// Catches: a call whose result depends on which stack the other end has.
#[test]
#[ignore = "cargo xtask test --bypass"]
fn calls_return_the_same_whichever_stack_the_other_end_has() {
    let test = "calls_return_the_same_whichever_stack_the_other_end_has";
    for name in ["ends", "edges", "turns"] {
        let folder = Arc::new(Folder::new(&format!("bypass-pairings-{name}")));
        let Some(program) = super::compile(&folder, test, name, &[]) else { return };
        let Some(network) = Network::new(test, false) else { return };
        let mut plain: Vec<String> = Vec::new();
        for backend in [None, Some("packet"), Some("generic")] {
            let shared = folder.clone();
            let far = network.far.run(move || start_other_end(&shared, backend));
            let (program, folder, before) = (program.clone(), folder.clone(), std::mem::take(&mut plain));
            plain = network.near.run(move || {
                let own = REACHED.map(|address| stdout(&run(Command::new(&program).arg(address))));
                for (at, address) in REACHED.into_iter().enumerate() {
                    let expected = before.get(at).unwrap_or(&own[at]);
                    assert_same(expected, &own[at], &format!("the kernel with {backend:?}"));
                    for stack in [&["--stack", "xdp", "--backend", "generic"][..], &[]] {
                        let line = [&["run"], stack, &["--", &program, address]].concat();
                        let us = if stack.is_empty() { 5_000_000 } else { 3000 };
                        let output = run(super::budget(&mut bypass(&folder, &line), us));
                        assert_same(
                            expected,
                            &stdout(&output),
                            &format!("{stack:?} with {backend:?}: {}", stderr(&output)),
                        );
                    }
                }
                if before.is_empty() { own.to_vec() } else { before }
            });
            drop(far);
        }
    }
}

/// Catches: a thread that waits for the kernel's sockets when one of them comes to the stack, or for the stack's when it leaves it, and
/// members of epoll instances that are lost on the way.
#[test]
fn sockets_come_to_the_stack_and_leave_it_while_threads_wait() {
    compare("sockets_come_to_the_stack_and_leave_it_while_threads_wait", "turns");
}

/// Catches: a connection that moves, or that another process cannot use, and nobody says so; a profile that does not help.
#[test]
fn a_connection_of_another_process_is_named_and_a_profile_helps() {
    let test = "a_connection_of_another_process_is_named_and_a_profile_helps";
    with_program(test, "edges", move |folder, program| {
        let profile = folder.file("own.toml", "extends = \"latency\"\n[program.edges]\nxdp = 0\n");
        let run = |before: &[&str], profile: &str, how: &str| {
            let arguments = ["run", "-v", "--stack", "xdp", "--profile", profile];
            let backend: &[&str] = if before.is_empty() { &[] } else { &["--backend", "packet"] };
            let line = [&arguments[..], backend, &["--", program, REACHED[0], "0", how]].concat();
            let (mut started, said) = Started::new(&mut bypass_behind(folder, before, &line), "shared");
            let page = stat(folder).into_iter().find(|page| page["pid"] == started.0.id()).unwrap();
            let mut errors = started.0.stderr.take().unwrap();
            assert_eq!(started.end(), Some(0));
            let mut text = String::new();
            errors.read_to_string(&mut text).unwrap();
            (said, page["fall_backs"].clone(), page["carrier"].clone(), text)
        };
        // TCP_REPAIR needs the capability.
        let bare = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"];
        for (before, how, reason, words) in [
            (&[][..], "fork", "handed-over", "the kernel has the connection"),
            (&[], "pass", "handed-over", "the kernel has the connection"),
            (&bare, "fork", "forked", "set xdp = 0"),
            (&bare, "pass", "passed", "set xdp = 0"),
        ] {
            let (said, reasons, carrier, text) = run(before, "latency", how);
            if !before.is_empty() && reasons.to_string().contains("no-filter") {
                println!("PARTLY {test}: this kernel has TCP filtered by CAP_NET_ADMIN only: it keeps the connection");
                assert!(how == "pass" || said.contains("send: 5\n"), "{said}");
                continue;
            }
            let times = reasons.as_array().unwrap().iter().find(|one| one["reason"] == reason).map(|one| &one["times"]);
            assert_eq!(times, Some(&1.into()), "{said}: {reasons}");
            assert!(!carrier.is_null() && text.contains(words), "{text}");
            assert!(how == "pass" || said.contains("send: 5\n") == before.is_empty(), "{said}");
        }
        let (said, reasons, carrier, text) = run(&[], &profile, "fork");
        assert!(said.contains("send: 5\n") && !reasons.to_string().contains("forked"), "{said}: {reasons}");
        assert!(carrier.is_null() && text.contains("xdp is 0 (profile own, program edges)"), "{carrier}: {text}");
        let arguments = ["run", "--stack", "xdp", "--require", "--profile", &profile, "--", program, REACHED[0]];
        let refused = bypass(folder, &arguments).output().unwrap();
        assert_code(&refused, 125);
        assert!(stderr(&refused).contains("xdp is 0"), "{}", stderr(&refused));
    });
}

/// Catches: a second socket of a poll that stays the kernel's until it is received from; multicast that is shown as past the kernel.
#[test]
fn each_datagram_socket_is_shown_as_it_is_carried() {
    let test = "each_datagram_socket_is_shown_as_it_is_carried";
    with_program(test, "edges", |folder, program| {
        for address in REACHED {
            let line = ["run", "--stack", "xdp", "--", program, address, "0", "show"];
            let (started, said) = Started::new(&mut bypass(folder, &line), "shown");
            let page = stat(folder).remove(0);
            let expected: Vec<_> = said
                .lines()
                .filter_map(|line| line.split_once(' '))
                .filter(|(word, _)| ["xdp", "kernel"].contains(word))
                .collect();
            assert_eq!(expected.len(), 4, "{said}");
            for (carrier, port) in expected {
                let sockets = page["sockets"].as_array().unwrap();
                let end = format!(":{port}");
                let shown = sockets.iter().find(|one| one["local"].as_str().is_some_and(|local| local.ends_with(&end)));
                let shown = shown.unwrap_or_else(|| panic!("no {port} in {page}"));
                let reason = if carrier == "kernel" { "option".into() } else { serde_json::Value::Null };
                assert_eq!((&shown["backend"], &shown["reason"]), (&carrier.into(), &reason), "{said}: {page}");
            }
            assert_eq!(started.end(), Some(0));
        }
    });
}

/// Catches: figures of a program that has gone idle and lack its last work for up to a second.
#[test]
fn figures_are_whole_soon_after_a_program_goes_idle() {
    let test = "figures_are_whole_soon_after_a_program_goes_idle";
    let folder = Folder::new("bypass-stack-idle");
    let Some(program) = super::compile(&folder, test, "flows", &[]) else { return };
    let near = move || {
        let run = ["run", "--stack", "xdp", "--require", "--", &program, FAR[0], "give"];
        let mut started = Started(bypass(&folder, &run).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        let figures = || {
            let carrier = stat(&folder).into_iter().find_map(|page| Some(page["carrier"].as_object()?.clone()))?;
            Some(["sent", "received"].map(|what| carrier[what].as_u64().unwrap()))
        };
        let input = started.0.stdin.as_mut().unwrap();
        let mut before = [0; 2];
        for megabytes in [1, 1, 1] {
            input.write_all(&vec![7; megabytes << 20]).unwrap();
            // Five times as long as the figures may be old; until now it was a second.
            std::thread::sleep(Duration::from_millis(500));
            let soon = figures().unwrap();
            std::thread::sleep(Duration::from_millis(1500));
            assert_eq!(Some(soon), figures(), "half a second after the work, and two");
            assert!(soon[0] > before[0] + 700 && soon[1] > before[1], "{soon:?} after {before:?}");
            before = soon;
        }
        drop(started.0.stdin.take());
        assert!(started.0.wait().unwrap().success());
    };
    with_wire(test, near, serve);
}

/// Catches: ports of connections that are over, for which AF_PACKET then has no room.
#[test]
fn short_connections_leave_room_for_more() {
    with_program("short_connections_leave_room_for_more", "edges", |folder, program| {
        let line =
            ["run", "--stack", "xdp", "--backend", "packet", "--require", "--", program, REACHED[0], "0", "short"];
        assert_code(&run(&mut bypass(folder, &line)), 0);
    });
}
