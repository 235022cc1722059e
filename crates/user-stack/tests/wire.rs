//! An engine against the kernel's own UDP and TCP, at the two ends of a virtual wire in namespaces that the test makes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, missing_docs, reason = "a test")]

use nix::sched::{CloneFlags, unshare};
use stack::{Error, Shutdown, TcpOptions, TcpSocket, UdpOptions};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use user_stack::{Engine, Refresh, Route, Sending, now};
use xsk::Backend;

const PATIENCE: Duration = Duration::from_secs(60);
const BACKENDS: [Backend; 3] = [Backend::Generic, Backend::Native, Backend::Packet];

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Runs `near` on an engine at one end of a wire, and `far` in the namespace of its other end.
fn with_wire(
    name: &str,
    backend: Backend,
    near: impl FnOnce(&mut Engine) + Send + 'static,
    far: impl FnOnce() + Send + 'static,
) {
    let name = name.to_owned();
    let thread = std::thread::spawn(move || {
        if let Err(errno) = unshare(CloneFlags::CLONE_NEWNET) {
            eprintln!("SKIPPED {name}: no network namespace of its own: {errno}: run as root");
            return;
        }
        for command in ["link set lo up", "link add near type veth peer name far"] {
            ip(command);
        }
        let ((tell_thread, thread_id), (tell_moved, moved), (tell_up, up)) = (channel(), channel(), channel());
        let (near_lasts, near_ended) = channel::<()>();
        let far = std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            tell_thread.send(nix::unistd::gettid()).unwrap();
            let () = moved.recv().unwrap();
            for command in [
                "address add 10.9.0.2/24 dev far",
                "address add fd09::2/64 dev far nodad",
                "link set far up",
                "link set lo up",
            ] {
                ip(command);
            }
            tell_up.send(()).unwrap();
            far();
            // With the last thread of its namespace the wire would go.
            let _ = near_ended.recv();
        });
        ip(&format!("link set far netns {}", thread_id.recv().unwrap()));
        for command in ["address add 10.9.0.1/24 dev near", "address add fd09::1/64 dev near nodad", "link set near up"]
        {
            ip(command);
        }
        tell_moved.send(()).unwrap();
        let () = up.recv().unwrap();
        // Nobody names it: it is the only one that is up.
        let mut engine = Engine::open(None, Some(backend)).unwrap();
        assert_eq!((engine.interface().name.as_str(), engine.backend()), ("near", backend));
        near(&mut engine);
        drop((engine, near_lasts));
        far.join().unwrap();
    });
    thread.join().unwrap();
}

/// Polls until `attempt` has a result.
fn until<T>(engine: &mut Engine, what: &str, mut attempt: impl FnMut(&mut Engine) -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        engine.poll();
        while engine.event().is_some() {}
        if let Some(done) = attempt(engine) {
            engine.flush();
            return done;
        }
        assert!(Instant::now() < end, "too late: {what}");
    }
}

/// Waits for what a call would have to wait for.
fn ready<T>(engine: &mut Engine, what: &str, mut call: impl FnMut(&mut Engine) -> Result<T, Error>) -> T {
    until(engine, what, |engine| match call(engine) {
        Err(Error::WouldBlock) => None,
        done => Some(done.unwrap()),
    })
}

fn local(remote: SocketAddr, port: u16) -> SocketAddr {
    let address: IpAddr = if remote.is_ipv4() { "10.9.0.1" } else { "fd09::1" }.parse().unwrap();
    SocketAddr::new(address, port)
}

fn remotes(port: u16) -> [SocketAddr; 2] {
    [SocketAddr::new("10.9.0.2".parse().unwrap(), port), SocketAddr::new("fd09::2".parse().unwrap(), port)]
}

/// Catches: checksums that the other end drops, neighbours that are never resolved, datagrams that lose bytes, one that does
/// not fit and is not left to the kernel, routes of other interfaces that are taken.
#[test]
fn datagrams_are_echoed() {
    for backend in BACKENDS {
        let echo = || {
            let threads = remotes(7000).map(|address| {
                let socket = UdpSocket::bind(address).unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                std::thread::spawn(move || {
                    let mut bytes = [0; 2000];
                    for _ in 0..200 {
                        let (length, from) = socket.recv_from(&mut bytes).unwrap();
                        socket.send_to(&bytes[..length], from).unwrap();
                    }
                })
            });
            for thread in threads {
                thread.join().unwrap();
            }
        };
        with_wire("datagrams_are_echoed", backend, near_udp, echo);
    }
}

fn near_udp(engine: &mut Engine) {
    for remote in remotes(7000) {
        let socket = engine.bind(local(remote, 6000), false, None, UdpOptions::default()).unwrap();
        assert_eq!(engine.send_datagram(socket, Some(remote), b"too early"), Err(Sending::ByKernel));
        engine.want(remote.ip());
        until(engine, "the neighbour", |engine| (engine.route(remote.ip()) == Route::Here).then_some(()));
        let mut bytes = [0; 2000];
        for round in 0..200_usize {
            let sent: Vec<u8> = (0..round * 7).map(|at| u8::try_from((at + round) % 251).unwrap()).collect();
            assert_eq!(engine.send_datagram(socket, Some(remote), &sent), Ok(()));
            let got = ready(engine, "the answer", |engine| engine.stack().udp_receive(socket, &mut bytes));
            assert_eq!((got.source, &bytes[..got.length]), (remote, &sent[..]), "round {round}");
        }
        assert_eq!(engine.send_datagram(socket, Some(remote), &[0; 1600]), Err(Sending::ByKernel));
        engine.unbind(socket, 6000);
    }
    for elsewhere in ["10.9.0.1", "127.0.0.1", "203.0.113.1", "224.0.0.1", "::1"] {
        assert_eq!(engine.route(elsewhere.parse().unwrap()), Route::Elsewhere, "{elsewhere}");
    }
    assert_eq!(engine.route("10.9.0.77".parse().unwrap()), Route::Unresolved);
}

/// A kernel socket on a port: listening, so that the kernel sends no reset, and deaf.
fn quiet(address: SocketAddr) -> TcpListener {
    let listener = TcpListener::bind(address).unwrap();
    let mut code = [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 }];
    let program = libc::sock_fprog { len: 1, filter: code.as_mut_ptr() };
    attach(&listener, &program);
    listener
}

#[allow(unsafe_code, reason = "the standard library has no filters")]
fn attach(listener: &TcpListener, program: &libc::sock_fprog) {
    use std::os::fd::AsRawFd as _;
    let length = u32::try_from(size_of::<libc::sock_fprog>()).unwrap();
    // SAFETY: pointer and length describe the program, which lives through the call.
    let done = unsafe {
        let start = std::ptr::from_ref(program).cast();
        libc::setsockopt(listener.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, start, length)
    };
    assert_eq!(done, 0);
}

fn pattern(seed: u32) -> Vec<u8> {
    (0..300_000_u32).map(|at| (at.wrapping_mul(31).wrapping_add(at >> 8).wrapping_add(seed) & 0xff) as u8).collect()
}

/// Catches: resets by the kernel, a handshake that never ends, lost or repeated bytes, an end that is not reported, in both
/// directions.
#[test]
fn streams_are_carried_in_both_directions() {
    for backend in BACKENDS {
        let far = || {
            for (seed, remote) in (0..).zip(remotes(7000)) {
                let (stream, _) = TcpListener::bind(remote).unwrap().accept().unwrap();
                exchange(stream, seed);
            }
            for (seed, remote) in (2..).zip(remotes(7000)) {
                let end = Instant::now() + PATIENCE;
                let stream = loop {
                    match TcpStream::connect(local(remote, 6001)) {
                        Ok(stream) => break stream,
                        Err(error) => assert!(Instant::now() < end, "{error}"),
                    }
                    std::thread::sleep(Duration::from_millis(5));
                };
                exchange(stream, seed);
            }
        };
        with_wire("streams_are_carried_in_both_directions", backend, near_tcp, far);
    }
}

/// The kernel's end: sends the pattern, and expects its complement.
fn exchange(mut stream: TcpStream, seed: u32) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        writer.write_all(&pattern(seed)).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert!(got.iter().map(|byte| !byte).eq(pattern(seed)), "{} bytes came", got.len());
    writing.join().unwrap();
}

/// The engine's end: sends back the complement of what comes.
fn complement(engine: &mut Engine, socket: TcpSocket, seed: u32) {
    let mut got = Vec::new();
    let mut bytes = [0; 5000];
    loop {
        let length = ready(engine, "data", |engine| engine.stack().tcp_receive(socket, &mut bytes));
        if length == 0 {
            break;
        }
        got.extend_from_slice(&bytes[..length]);
        let back: Vec<u8> = bytes[..length].iter().map(|byte| !byte).collect();
        let mut rest = &back[..];
        while !rest.is_empty() {
            let sent = ready(engine, "room", |engine| engine.stack().tcp_send(socket, rest, false));
            rest = &rest[sent..];
        }
    }
    assert!(got == pattern(seed), "{} bytes came", got.len());
    engine.stack().tcp_shutdown(socket, Shutdown::Write).unwrap();
    engine.flush();
    engine.stack().tcp_close(now(), socket).unwrap();
    until(engine, "the end", |engine| (engine.stack().tcp_pending() == 0).then_some(()));
}

fn near_tcp(engine: &mut Engine) {
    let mut guards = Vec::new();
    for (seed, remote) in (0..).zip(remotes(7000)) {
        let from = local(remote, 6000);
        guards.push(quiet(from));
        engine.hold(6000).unwrap();
        // The other end may not listen yet.
        let socket = until(engine, "the connection", |engine| {
            let socket = engine.connect(from, remote, TcpOptions::default()).unwrap();
            let end = Instant::now() + Duration::from_secs(2);
            while Instant::now() < end {
                engine.flush();
                engine.poll();
                while engine.event().is_some() {}
                let ready = engine.stack().tcp_readiness(socket).unwrap();
                if ready.error {
                    break;
                }
                if ready.writable {
                    return Some(socket);
                }
            }
            engine.stack().tcp_abort(socket).unwrap();
            None
        });
        complement(engine, socket, seed);
    }
    for (seed, remote) in (2..).zip(remotes(7000)) {
        let at = local(remote, 6001);
        guards.push(quiet(at));
        let listener = engine.listen(at, false, 5, TcpOptions::default(), &[]).unwrap();
        let socket = ready(engine, "a connection", |engine| engine.stack().tcp_accept(listener));
        complement(engine, socket, seed);
        engine.unlisten(listener);
        engine.withdraw(6001);
    }
}

/// Catches: a neighbour with another MAC address that is not noticed, or one that is forgotten though nothing changed.
#[test]
fn what_the_kernel_changes_is_noticed() {
    let remote: IpAddr = "10.9.0.2".parse().unwrap();
    // The other end stays as long.
    let (stays, gone) = channel::<()>();
    let near = move |engine: &mut Engine| {
        engine.want(remote);
        until(engine, "a neighbour", |engine| (engine.route(remote) == Route::Here).then_some(()));
        let refresh = Refresh::open().unwrap();
        let mut refreshed = || {
            let answers = refresh.ask(&engine.known());
            engine.refreshed(answers);
            (engine.stack().hop(remote).map(|hop| hop.mac), engine.has_address([10, 9, 0, 7].into()))
        };
        let (before, has_address) = refreshed();
        assert!(before.is_some() && before == refreshed().0 && !has_address);
        ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:00:77 dev near nud permanent");
        ip("address add 10.9.0.7/24 dev near");
        assert_eq!(refreshed(), (Some([2, 0, 0, 0, 0, 0x77]), true));
        ip("route add 10.9.0.2 dev lo");
        assert_eq!(refreshed(), (None, true));
        assert_eq!(engine.route([10, 9, 0, 255].into()), Route::Elsewhere, "broadcast");
        drop(stays);
    };
    with_wire("what_the_kernel_changes_is_noticed", Backend::Generic, near, move || _ = gone.recv());
}
