//! Every protocol with every receive mode and family, both roles in threads, over loopback.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, unsafe_code, reason = "tests")]

mod common;

use common::{PingPong, Reflect, end, ends, ends_at, has_v6, interrupted, multicast, options};
use model::{EndSpec, IdleDescriptors, Protocol, Receive, SocketSpec};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use windhover_net::{DataSocket, NetError, PathError, Received, with_path};

const NO_IDLE: IdleDescriptors =
    IdleDescriptors { pipes: 0, unix_datagrams: 0, unix_streams: 0, udp: 0, tcp_connected: 0, tcp_listening: 0 };

/// Written by the test that uses up all descriptors below 1024: a socket of another test made meanwhile would have a number that
/// select(2) does not take.
static DESCRIPTORS: RwLock<()> = RwLock::new(());

/// A ping-pong of `rounds`; the reflector must have seen each, and must end when it is asked to.
fn pingpong(spec: &SocketSpec, (here, there): (Receive, Receive), v6: bool, size: usize, rounds: u32) {
    let _few = DESCRIPTORS.read().unwrap();
    let pair = ends(spec, &end(here), &end(there), v6);
    pingpong_between(pair, spec, (here, there), size, rounds, NO_IDLE);
}

fn pingpong_between(
    (mut initiator, mut reflector): (DataSocket, DataSocket),
    spec: &SocketSpec,
    (here, there): (Receive, Receive),
    size: usize,
    rounds: u32,
    idle: IdleDescriptors,
) {
    let local = initiator.local_address();
    let what = format!("{} {here}/{there} {local:?} connected={} size {size}", spec.protocol, spec.connected);
    let stop = AtomicBool::new(false);
    let reflect = || {
        let mut options = options(there, &stop);
        options.idle = idle;
        with_path(&mut reflector, &options, Reflect { size }).unwrap()
    };
    let (count, last) = interrupted(reflect, || {
        let mut options = options(here, &common::NEVER);
        options.idle = idle;
        assert_eq!(with_path(&mut initiator, &options, PingPong { size, rounds }).unwrap(), rounds, "{what}");
        stop.store(true, Ordering::Release);
    });
    assert_eq!(count, u64::from(rounds), "{what}");
    assert!(matches!(last, Ok(Received::Stopped)), "{what}: {last:?}");
    assert_eq!(initiator.dropped().unwrap_or(0), 0, "{what}");
}

fn all_modes(spec: &SocketSpec) {
    let families: &[bool] = if spec.protocol.is_local() || !has_v6() { &[false] } else { &[false, true] };
    for &v6 in families {
        for mode in Receive::LINUX {
            pingpong(spec, (mode, mode), v6, 32, 200);
        }
        // Two ends that wait differently.
        pingpong(spec, (Receive::Spin, Receive::Block), v6, 1, 200);
        pingpong(spec, (Receive::Block, Receive::Epoll), v6, 1, 200);
    }
}

#[test]
fn udp_connected() {
    all_modes(&SocketSpec::new(Protocol::Udp));
}

#[test]
fn udp_unconnected() {
    let mut spec = SocketSpec::new(Protocol::Udp);
    spec.connected = false;
    all_modes(&spec);
}

#[test]
fn mptcp() {
    if !std::fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|enabled| enabled.trim() == "1") {
        eprintln!("SKIPPED mptcp: this kernel has no MPTCP, or net.mptcp.enabled is 0");
        return;
    }
    all_modes(&SocketSpec::new(Protocol::Mptcp));
}

#[test]
fn udp_sizes() {
    for connected in [true, false] {
        let mut spec = SocketSpec::new(Protocol::Udp);
        spec.connected = connected;
        for size in [0, 1, 1472, 1473, 65_507] {
            pingpong(&spec, (Receive::Block, Receive::Block), false, size, 20);
            pingpong(&spec, (Receive::Spin, Receive::Poll), false, size, 20);
        }
    }
}

#[test]
fn udp_multicast() {
    let spec = multicast("239.192.74.12", "lo");
    for mode in Receive::LINUX {
        pingpong(&spec, (mode, mode), false, 32, 100);
    }
}

#[test]
fn udp_multicast_v6() {
    if !common::own_namespace("udp_multicast_v6") {
        return;
    }
    let refused = |interface: &str, at: &str| {
        let end = EndSpec { device: Some(interface.to_owned()), ..end(Receive::Block) };
        let spec = multicast("ff15::7412", interface);
        DataSocket::bind(&spec, &end, at.parse().unwrap()).unwrap_err().to_string()
    };
    let error = refused("lo", "[::1]:0");
    assert!(error.contains("ip -6 route add local ff00::/8 dev lo table local"), "{error}");
    // A route of the usual type takes what is sent and delivers nothing: the same remedy.
    common::ip(&["-6", "route", "add", "multicast", "ff00::/8", "dev", "lo", "table", "local"]);
    assert_eq!(refused("lo", "[::1]:0"), error);
    common::ip(&["-6", "route", "del", "multicast", "ff00::/8", "dev", "lo", "table", "local"]);
    common::ip(&["-6", "route", "add", "local", "ff00::/8", "dev", "lo", "table", "local"]);
    let on_lo = multicast("ff15::7412", "lo");
    let pair = ends_at(&on_lo, &end(Receive::Block), &end(Receive::Block), "[::1]:0".parse().unwrap());
    pingpong_between(pair, &on_lo, (Receive::Block, Receive::Block), 32, 100, NO_IDLE);
    common::ip(&["link", "add", "here", "type", "veth", "peer", "name", "there"]);
    common::ip(&["address", "add", "2001:db8::1/64", "dev", "here", "nodad"]);
    common::ip(&["link", "set", "here", "up"]);
    common::ip(&["link", "set", "there", "up"]);
    let spec = multicast("ff15::7412", "here");
    // The kernel notices the carrier, and with it the route for groups, a moment after the command.
    let deadline = std::time::Instant::now() + common::PATIENCE;
    while DataSocket::bind(&spec, &end(Receive::Block), "[2001:db8::1]:0".parse().unwrap()).is_err() {
        assert!(std::time::Instant::now() < deadline, "the devices do not come up");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    for mode in [Receive::Block, Receive::Spin, Receive::Epoll] {
        let at = "[2001:db8::1]:0".parse().unwrap();
        let pair = ends_at(&spec, &end(mode), &end(mode), at);
        pingpong_between(pair, &spec, (mode, mode), 32, 100, NO_IDLE);
    }
    // Without a route for groups on the interface, the error names the command that adds one.
    common::ip(&["-6", "route", "del", "multicast", "ff00::/8", "dev", "here", "table", "local"]);
    common::ip(&["-6", "route", "del", "multicast", "ff00::/8", "dev", "there", "table", "local"]);
    let error = refused("here", "[2001:db8::1]:0");
    assert!(error.contains("ip -6 route add multicast ff00::/8 dev here table local"), "{error}");
}

#[test]
fn tcp() {
    all_modes(&SocketSpec::new(Protocol::Tcp));
}

#[test]
fn tcp_large_messages_are_whole() {
    let spec = SocketSpec::new(Protocol::Tcp);
    for mode in Receive::LINUX {
        // More than the socket buffers hold, so both directions take several calls.
        pingpong(&spec, (mode, mode), false, 3 << 20, 3);
    }
}

#[test]
fn unix_stream() {
    let spec = SocketSpec::new(Protocol::UnixStream);
    all_modes(&spec);
    for mode in Receive::LINUX {
        pingpong(&spec, (mode, mode), false, 1 << 20, 3);
    }
}

#[test]
fn unix_dgram() {
    let spec = SocketSpec::new(Protocol::UnixDgram);
    all_modes(&spec);
    for size in [0, 106_496] {
        pingpong(&spec, (Receive::Block, Receive::Spin), false, size, 20);
    }
}

#[test]
fn pipe() {
    let spec = SocketSpec::new(Protocol::Pipe);
    all_modes(&spec);
    for mode in Receive::LINUX {
        pingpong(&spec, (mode, mode), false, 1 << 20, 3);
    }
}

/// Catches: a message that is damaged, taken twice or lost in shared memory, also when its ring has turned many times over; a
/// sleeper that is not woken.
#[test]
fn shm() {
    let spec = SocketSpec::new(Protocol::Shm);
    for modes in [
        (Receive::Block, Receive::Block),
        (Receive::Spin, Receive::Block),
        (Receive::Block, Receive::Spin),
        (Receive::Spin, Receive::Spin),
    ] {
        for size in [0, 32, 65_504] {
            pingpong(&spec, modes, false, size, 100);
        }
    }
}

#[test]
fn idle_descriptors_are_beside_the_data_socket() {
    let idle =
        IdleDescriptors { pipes: 9, unix_datagrams: 8, unix_streams: 7, udp: 6, tcp_connected: 5, tcp_listening: 4 };
    for mode in Receive::LINUX {
        let _few = DESCRIPTORS.read().unwrap();
        let spec = SocketSpec::new(Protocol::Udp);
        let pair = ends(&spec, &end(mode), &end(mode), false);
        pingpong_between(pair, &spec, (mode, mode), 32, 100, idle);
    }
}

#[test]
fn select_says_where_it_ends() {
    let _all = DESCRIPTORS.write().unwrap();
    let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap().0;
    let (mut here, _there) =
        ends(&SocketSpec::new(Protocol::UnixDgram), &end(Receive::Select), &end(Receive::Block), false);
    let mut options = options(Receive::Select, &common::NEVER);
    options.idle.pipes = 600;
    let error = with_path(&mut here, &options, PingPong { size: 1, rounds: 0 }).unwrap_err();
    if limit > 1300 {
        assert!(matches!(error, NetError::SelectLimit { fd: 1024.. }), "{error}");
    } else {
        // The limit of the process comes first; it must be named as well.
        assert!(matches!(error, NetError::Descriptors { .. }), "{error}");
    }
}

#[test]
fn more_is_passed_on() {
    // With MSG_MORE a datagram is held until a send without it: two sends make one datagram.
    struct Two;
    impl windhover_net::PathVisitor for Two {
        type Output = Result<(), PathError>;
        fn visit<P: windhover_net::Path>(self, path: &mut P) -> Self::Output {
            path.send(b"ab", true)?;
            path.send(b"cd", false)
        }
    }
    let (mut here, mut there) =
        ends(&SocketSpec::new(Protocol::Udp), &end(Receive::Block), &end(Receive::Block), false);
    with_path(&mut here, &options(Receive::Block, &common::NEVER), Two).unwrap().unwrap();
    let mut buffer = [0; 16];
    let (bytes, _) = there.receive_once(&mut buffer, common::PATIENCE).unwrap().unwrap();
    assert_eq!(&buffer[..bytes], b"abcd");
}
