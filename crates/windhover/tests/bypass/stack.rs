//! `--stack xdp` in network namespaces that the tests make: what calls return, what goes over the wire, and what stays behind.

use super::support::{Folder, assert_code, stderr, stdout};
use super::{Started, assert_same, bypass, stat};
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The last ones are of the link alone.
const NEAR: [&str; 3] = ["10.9.0.1", "fd09::1", "fe80::1"];
pub(super) const FAR: [&str; 3] = ["10.9.0.2", "fd09::2", "fe80::2"];
/// Those that have a route.
const REACHED: [&str; 2] = [FAR[0], FAR[1]];

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {arguments}: {}", stderr(&done));
}

fn set_up(interface: &str, addresses: [&str; 3]) {
    ip(&format!("address add {}/24 dev {interface}", addresses[0]));
    ip(&format!("address add {}/64 dev {interface} nodad", addresses[1]));
    ip(&format!("link set {interface} up"));
    ip(&format!("address add {}/64 dev {interface} nodad", addresses[2]));
}

/// Runs `near` in a namespace with one end of a wire, and `far` before it on a thread in that of the other end.
pub(super) fn with_wire(name: &str, near: impl FnOnce() + Send + 'static, far: impl FnOnce() + Send + 'static) {
    let name = name.to_owned();
    let thread = std::thread::spawn(move || {
        if let Err(errno) = unshare(CloneFlags::CLONE_NEWNET) {
            eprintln!("SKIPPED {name}: no network namespace of its own: {errno}: run as root");
            return;
        }
        ip("link set lo up");
        ip("link add near type veth peer name far");
        let ((tell_thread, thread_id), (tell_moved, moved), (tell_ready, ready)) = (channel(), channel(), channel());
        std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            tell_thread.send(nix::unistd::gettid()).unwrap();
            let () = moved.recv().unwrap();
            set_up("far", FAR);
            far();
            tell_ready.send(()).unwrap();
        });
        ip(&format!("link set far netns {}", thread_id.recv().unwrap()));
        set_up("near", NEAR);
        tell_moved.send(()).unwrap();
        let () = ready.recv().unwrap();
        near();
    });
    thread.join().unwrap();
}

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
    std::thread::sleep(Duration::from_millis(50));
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
    let end = Instant::now() + Duration::from_secs(5);
    while END.lock().unwrap().is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = stream.write_all(END.lock().unwrap().unwrap_or("it goes on").as_bytes());
}

/// A program to its end, but not for longer than a minute.
pub(super) fn run(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    let (tell, done) = channel::<()>();
    let watch = std::thread::spawn(move || {
        if done.recv_timeout(Duration::from_secs(60)).is_err() {
            let _ = nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGKILL);
        }
    });
    let output = child.wait_with_output().unwrap();
    let _ = tell.send(());
    watch.join().unwrap();
    output
}

fn has_program() -> bool {
    let shown = Command::new("ip").args(["-details", "link", "show", "near"]).output().unwrap();
    stdout(&shown).contains("xdp")
}

/// Compares what a program prints on the kernel's stack and on ours, with each back-end.
fn compare(test: &'static str, name: &str) {
    let folder = Folder::new(&format!("bypass-stack-{name}"));
    let Some(program) = super::compile(&folder, test, name, &[]) else { return };
    let near = move || {
        for address in REACHED {
            let plain = run(Command::new(&program).arg(address));
            assert_code(&plain, 23);
            let plain = stdout(&plain);
            assert!(plain.lines().count() > 70 && !plain.contains("too "), "{plain}");
            for (backend, us) in [("generic", "3000"), ("generic", "5000000"), ("native", "0"), ("packet", "3000")] {
                let arguments = ["run", "--stack", "xdp", "--backend", backend, "--", &program, address];
                let mut command = bypass(&folder, &arguments);
                let output = run(super::budget(&mut command, us.parse().unwrap()));
                let what = format!("by {backend} with a budget of {us} µs: {}", stderr(&output));
                assert_same(&plain, &stdout(&output), &what);
                assert_code(&output, 23);
                assert!(!has_program(), "{what}");
            }
        }
    };
    with_wire(test, near, serve);
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

/// Catches: a connection that another process cannot use, and nobody says so; a profile that does not help.
#[test]
fn a_connection_of_another_process_is_named_and_a_profile_helps() {
    let test = "a_connection_of_another_process_is_named_and_a_profile_helps";
    let folder = Folder::new("bypass-stack-shared");
    let Some(program) = super::compile(&folder, test, "edges", &[]) else { return };
    let profile = folder.file("own.toml", "extends = \"latency\"\n[program.edges]\nxdp = 0\n");
    let near = move || {
        let run = |profile: &str, how: &str| {
            let arguments = ["run", "-v", "--stack", "xdp", "--profile", profile, "--", &program, REACHED[0], "0", how];
            let (mut started, said) = Started::new(&mut bypass(&folder, &arguments), "shared");
            let page = stat(&folder).into_iter().find(|page| page["pid"] == started.0.id()).unwrap();
            let mut errors = started.0.stderr.take().unwrap();
            assert_eq!(started.end(), Some(0));
            let mut text = String::new();
            errors.read_to_string(&mut text).unwrap();
            (said, page["fall_backs"].clone(), page["carrier"].clone(), text)
        };
        for (how, reason) in [("fork", "forked"), ("pass", "passed")] {
            let (said, reasons, carrier, text) = run("latency", how);
            let times = reasons.as_array().unwrap().iter().find(|one| one["reason"] == reason).map(|one| &one["times"]);
            assert_eq!(times, Some(&1.into()), "{said}: {reasons}");
            assert!(!carrier.is_null() && text.contains("set xdp = 0"), "{text}");
        }
        let (said, reasons, carrier, text) = run(&profile, "fork");
        assert!(said.contains("send: 5\n") && !reasons.to_string().contains("forked"), "{said}: {reasons}");
        assert!(carrier.is_null() && text.contains("xdp is 0 (profile own, program edges)"), "{carrier}: {text}");
        let arguments = ["run", "--stack", "xdp", "--require", "--profile", &profile, "--", &program, REACHED[0]];
        let refused = bypass(&folder, &arguments).output().unwrap();
        assert_code(&refused, 125);
        assert!(stderr(&refused).contains("xdp is 0"), "{}", stderr(&refused));
    };
    with_wire(test, near, serve);
}

/// Catches: a program that is said to be on the stack and is not, figures that do not move, a program, port or queue that stays
/// behind when a process is killed in the middle of a transfer.
#[test]
fn a_killed_program_leaves_nothing() {
    let test = "a_killed_program_leaves_nothing";
    let folder = Folder::new("bypass-stack-killed");
    let Some(program) = super::compile(&folder, test, "ends", &[]) else { return };
    let near = move || {
        for round in 0..10 {
            let backend = ["generic", "native", "packet"][round % 3];
            let arguments =
                ["run", "--stack", "xdp", "--backend", backend, "--require", "--", &program, FAR[round % 2], "flood"];
            let (mut started, _) = Started::new(&mut bypass(&folder, &arguments), "flooding: 0");
            assert_eq!(has_program(), backend != "packet", "round {round}");
            let end = Instant::now() + Duration::from_secs(20);
            let (mut sent, mut connection) = (0, Value::Null);
            while sent < 1000 || connection["state"] != "established" {
                assert!(Instant::now() < end, "round {round}: {sent} frames sent, {connection}");
                std::thread::sleep(Duration::from_millis(20));
                let page = stat(&folder).remove(0);
                sent = page["carrier"]["sent"].as_u64().unwrap_or(0);
                connection = page["sockets"][0].clone();
            }
            assert_eq!((&connection["backend"], &connection["protocol"]), (&"xdp".into(), &"tcp".into()));
            let remote = connection["remote"].as_str().unwrap().to_owned();
            assert!(remote.contains(FAR[round % 2]) && remote.ends_with(":7004"), "{connection}");
            started.0.kill().unwrap();
            started.0.wait().unwrap();
            assert!(!has_program(), "round {round}: the XDP program stayed");
            let tables =
                ["tcp", "tcp6"].map(|name| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap());
            // 7004 is 1B5C.
            assert!(!tables.iter().any(|table| table.contains(":1B5C ")), "round {round}: {tables:?}");
        }
    };
    with_wire(test, near, serve);
}
