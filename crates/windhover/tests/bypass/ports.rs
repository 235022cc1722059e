//! Ports that several listeners have: of one program, and of one after the other.

use super::support::Folder;
use super::wire::{FAR, NEAR, Network};
use super::{Started, bypass, compile, stat};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

fn near(family: usize, port: u16) -> SocketAddr {
    SocketAddr::new(NEAR[family].parse().unwrap(), port)
}

fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Which thread answers.
fn by_whom(to: SocketAddr, is_stream: bool) -> u8 {
    let mut byte = [0];
    if is_stream {
        connect(to).unwrap().read_exact(&mut byte).unwrap();
    } else {
        let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(b"x", to).unwrap();
        assert_eq!(socket.recv(&mut byte).unwrap(), 1);
    }
    byte[0]
}

/// How many sockets of a program the stack has.
fn on_stack(state: &Folder, program: &Started) -> usize {
    let page = stat(state).into_iter().find(|page| page["pid"] == program.0.id());
    let sockets = page.map(|page| page["sockets"].as_array().unwrap().clone()).unwrap_or_default();
    sockets.iter().filter(|socket| socket["backend"] == "xdp").count()
}

/// Catches: a socket with SO_REUSEPORT that stays the kernel's, or one of two that nobody comes to; threads that get an error from their
/// call because another one ends the process.
#[test]
fn sockets_that_share_a_port_share_its_peers() {
    let test = "sockets_that_share_a_port_share_its_peers";
    let folder = Arc::new(Folder::new("bypass-ports-share"));
    let Some(program) = compile(&folder, test, "ports", &[]) else { return };
    let Some(network) = Network::new(test, false) else { return };
    for (kind, port) in [("UDP", 7100), ("TCP", 7101)] {
        let (state, program) = (folder.clone(), program.clone());
        let started = network.near.run(move || {
            let line = ["run", "--stack", "xdp", "--backend", "generic", "--require", "--", &program, "share", kind];
            let port = port.to_string();
            let mut started = Started::new(&mut bypass(&state, &[&line[..], &[&port]].concat()), "ready").0;
            let mut shown = usize::MAX;
            super::support::until("two sockets on the stack", || {
                started.assert_alive(kind);
                let there = on_stack(&state, &started);
                if std::mem::replace(&mut shown, there) != there {
                    // For who reads of a failure.
                    eprintln!("{kind}: {there} on the stack: {:?}", stat(&state));
                }
                there == 2
            });
            started
        });
        let mut counts = BTreeMap::new();
        for family in [0, 1] {
            let answers =
                network.far.run(move || (0..20).map(|_| by_whom(near(family, port), kind == "TCP")).collect());
            let answers: Vec<u8> = answers;
            answers.into_iter().for_each(|byte| *counts.entry(char::from(byte)).or_insert(0) += 1);
        }
        // One of 40 at least: no more than one run in 10^11 has all with one.
        assert!(counts.len() == 2 && counts.values().sum::<i32>() == 40, "{kind}: {counts:?}");
        // Neither thread returned from its call: see `end_slowly`.
        assert_eq!(started.end(), Some(0), "{kind}");
    }
}

/// Catches: a connection of the stack that takes the frames of another one, of the kernel from the same port of another address: it was
/// reset.
#[test]
fn a_port_of_two_addresses_has_connections_of_the_stack_and_of_the_kernel() {
    let test = "a_port_of_two_addresses_has_connections_of_the_stack_and_of_the_kernel";
    let folder = Arc::new(Folder::new("bypass-ports-two"));
    let Some(program) = compile(&folder, test, "ports", &[]) else { return };
    let Some(network) = Network::new(test, false) else { return };
    let listen = |family: usize| TcpListener::bind((FAR[family], 7300)).unwrap();
    let listeners = network.far.run(move || [listen(0), listen(1)]);
    let mut kernels = network.near.run(|| connect(SocketAddr::new(FAR[0].parse().unwrap(), 7300)).unwrap());
    let mut peer = listeners[0].accept().unwrap().0;
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut exchange = || {
        let mut byte = [0];
        kernels.write_all(b"k").unwrap();
        peer.read_exact(&mut byte).unwrap();
        peer.write_all(b"p").unwrap();
        kernels.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"p");
        kernels.local_addr().unwrap().port()
    };
    let port = exchange();
    let state = folder.clone();
    let started = network.near.run(move || {
        let line = ["run", "--stack", "xdp", "--backend", "generic", "--require", "--", &program, "dial", "TCP"];
        Started::new(&mut bypass(&state, &[&line[..], &[&port.to_string()]].concat()), "ready").0
    });
    let mut stacks = listeners[1].accept().unwrap().0;
    stacks.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut word = [0; 4];
    stacks.read_exact(&mut word).unwrap();
    assert_eq!((&word, stacks.peer_addr().unwrap().port()), (b"dial", port));
    let sockets: Vec<_> = stat(&folder).iter().flat_map(|page| page["sockets"].as_array().unwrap().clone()).collect();
    assert!(sockets.iter().any(|socket| socket["backend"] == "xdp"), "{sockets:?}");
    exchange();
    stacks.write_all(b"x").unwrap();
    assert_eq!(started.end(), Some(0));
    exchange();
}

/// Catches: a program on the stack that closes its listener, and refuses connections for the next program on its port as long as one of
/// its own lives; one that leaves them unanswered.
#[test]
fn a_closed_listener_leaves_its_port_to_the_next_program() {
    let test = "a_closed_listener_leaves_its_port_to_the_next_program";
    let folder = Arc::new(Folder::new("bypass-ports-drain"));
    let Some(program) = compile(&folder, test, "ports", &[]) else { return };
    let Some(network) = Network::new(test, false) else { return };
    for (port, backend) in [(7200, "generic"), (7201, "native")] {
        let (state, program) = (folder.clone(), program.clone());
        let started = network.near.run(move || {
            let line = ["run", "--stack", "xdp", "--backend", backend, "--require", "--", &program, "drain"];
            Started::new(&mut bypass(&state, &[&line[..], &["TCP", &port.to_string()]].concat()), "ready").0
        });
        let echo = |stream: &mut TcpStream| {
            let mut bytes = [0; 4];
            stream.write_all(b"old!").unwrap();
            stream.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"old!");
        };
        let mut first = network.far.run(move || connect(near(0, port)).unwrap());
        echo(&mut first);
        // Nobody listens.
        let refused = network.far.run(move || connect(near(0, port)).unwrap_err().kind());
        assert_eq!(refused, std::io::ErrorKind::ConnectionRefused, "{backend}");
        let next = network.near.run(move || TcpListener::bind(("0.0.0.0", port)).unwrap());
        let mut second = network.far.run(move || connect(near(0, port)).unwrap());
        next.accept().unwrap().0.write_all(b"next").unwrap();
        let mut said = String::new();
        second.read_to_string(&mut said).unwrap();
        assert_eq!(said, "next", "{backend}");
        echo(&mut first);
        drop(first);
        assert_eq!(started.end(), Some(0), "{backend}");
    }
}

/// Catches: a server or UDP socket on the stack that takes the frames of another program, which serves the same port of another address: its
/// connections were reset and new ones refused, its datagrams lost. One that keeps the stack from its port because the kernel has
/// connections of another address.
#[test]
fn a_port_of_two_addresses_is_served_by_the_stack_and_by_the_kernel() {
    let test = "a_port_of_two_addresses_is_served_by_the_stack_and_by_the_kernel";
    let folder = Arc::new(Folder::new("bypass-ports-beside"));
    let Some(program) = compile(&folder, test, "ports", &[]) else { return };
    let Some(network) = Network::new(test, false) else { return };
    for (kind, port, backend) in
        [("TCP", 7400, "generic"), ("UDP", 7401, "generic"), ("TCP", 7402, "packet"), ("UDP", 7403, "packet")]
    {
        let is_stream = kind == "TCP";
        let kernels = network.near.run(move || (TcpListener::bind(near(0, port)), UdpSocket::bind(near(0, port))));
        let (listener, datagrams) = (kernels.0.unwrap(), kernels.1.unwrap());
        datagrams.set_read_timeout(Some(PATIENCE)).unwrap();
        let exchange = || {
            let far = network.far.run(move || {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.send_to(b"k", near(0, port)).unwrap();
                connect(near(0, port)).unwrap()
            });
            let mut byte = [0];
            let near = listener.accept().unwrap().0;
            near.set_read_timeout(Some(PATIENCE)).unwrap();
            assert_eq!(datagrams.recv(&mut byte).unwrap(), 1, "{kind} {backend}");
            (near, far)
        };
        let talk = |(near, far): &mut (TcpStream, TcpStream)| {
            let mut byte = [0];
            far.write_all(b"f").unwrap();
            near.read_exact(&mut byte).unwrap();
            near.write_all(b"n").unwrap();
            far.read_exact(&mut byte).unwrap();
        };
        let mut before = exchange();
        let (state, program) = (folder.clone(), program.clone());
        let started = network.near.run(move || {
            let line = ["run", "--stack", "xdp", "--backend", backend, "--require", "--", &program, "at", kind];
            let port = port.to_string();
            let started = Started::new(&mut bypass(&state, &[&line[..], &[&port]].concat()), "ready").0;
            super::support::until("a socket on the stack", || on_stack(&state, &started) == 1);
            started
        });
        for _ in 0..3 {
            talk(&mut exchange());
            talk(&mut before);
            assert_eq!(network.far.run(move || by_whom(near(1, port), is_stream)), b'0', "{kind} {backend}");
        }
        assert_eq!(started.end(), Some(0), "{kind} {backend}");
        talk(&mut before);
    }
}

/// Catches: a server that is started again while connections of its predecessor live, and stays the kernel's as long as they do; one that
/// takes their frames.
#[test]
fn a_listener_comes_to_the_stack_beside_connections_of_the_kernel() {
    let test = "a_listener_comes_to_the_stack_beside_connections_of_the_kernel";
    let folder = Arc::new(Folder::new("bypass-ports-again"));
    let Some(program) = compile(&folder, test, "ports", &[]) else { return };
    let Some(network) = Network::new(test, false) else { return };
    for (port, backend) in [(7500, "generic"), (7501, "packet")] {
        let listener = network.near.run(move || TcpListener::bind(near(1, port)).unwrap());
        let mut far = network.far.run(move || connect(near(1, port)).unwrap());
        let mut old = listener.accept().unwrap().0;
        drop(listener);
        let echo = std::thread::spawn(move || std::io::copy(&mut old.try_clone().unwrap(), &mut old).unwrap());
        let (told, ended) = std::sync::mpsc::channel::<()>();
        let talk = std::thread::spawn(move || {
            let mut rounds = 0;
            while rounds < 3 || ended.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                far.write_all(b"f").unwrap();
                far.read_exact(&mut [0]).unwrap();
                rounds += 1;
            }
        });
        let (state, program) = (folder.clone(), program.clone());
        let started = network.near.run(move || {
            let line = ["run", "--stack", "xdp", "--backend", backend, "--require", "--", &program, "at", "TCP"];
            let port = port.to_string();
            let started = Started::new(&mut bypass(&state, &[&line[..], &[&port]].concat()), "ready").0;
            super::support::until("a socket on the stack", || on_stack(&state, &started) == 1);
            started
        });
        // The page's figures of the interface may be a second old.
        std::thread::sleep(Duration::from_millis(1500));
        let page = stat(&folder).into_iter().find(|page| page["pid"] == started.0.id()).unwrap();
        if backend != "packet" {
            assert_eq!(page["carrier"]["received"], 0, "frames of the kernel's connection: {page}");
        }
        assert_eq!(network.far.run(move || by_whom(near(1, port), true)), b'0', "{backend}");
        drop(told);
        talk.join().unwrap();
        echo.join().unwrap();
        assert_eq!(started.end(), Some(0), "{backend}");
    }
}
