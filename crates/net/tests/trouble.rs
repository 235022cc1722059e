//! What a path returns when the peer has ended, a signal comes, nothing arrives, or another socket sends.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, unsafe_code, reason = "tests")]

mod common;

use common::{NEVER, PATIENCE, end, ends, interrupted, loopback, options};
use model::{EndSpec, Protocol, Receive, SocketSpec};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use windhover_net::{DataListener, DataSocket, NetError, Path, PathError, PathVisitor, Received, with_path};

/// In a process of its own, which may open few descriptors.
#[test]
fn a_lack_of_descriptors_is_no_lack_of_an_interface_or_a_route() {
    const TEST: &str = "a_lack_of_descriptors_is_no_lack_of_an_interface_or_a_route";
    if std::env::var_os("WINDHOVER_TEST_INNER").is_none() {
        let done = std::process::Command::new("sh")
            .args(["-c", "ulimit -n 64; exec \"$0\" --exact \"$1\" --nocapture"])
            .arg(std::env::current_exe().unwrap())
            .arg(TEST)
            .env("WINDHOVER_TEST_INNER", "1")
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        return;
    }
    let held: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    assert!(held.len() < 64, "{}", held.len());
    let mtu = windhover_net::interface::mtu("lo").unwrap_err();
    let source = windhover_net::route::source_for(loopback(false)).unwrap_err();
    for error in [mtu, source] {
        assert!(matches!(error, NetError::Socket { .. }), "{error}");
    }
}

/// One receive into a buffer of this many bytes.
struct Once(usize);

impl PathVisitor for Once {
    type Output = Result<Received, PathError>;

    fn visit<P: Path>(self, path: &mut P) -> Self::Output {
        path.receive(&mut vec![0; self.0])
    }
}

fn both(protocol: Protocol, receive: Receive) -> (DataSocket, DataSocket) {
    ends(&SocketSpec::new(protocol), &end(receive), &end(Receive::Block), false)
}

#[test]
fn a_stream_whose_peer_vanished_is_closed() {
    for protocol in [Protocol::Tcp, Protocol::UnixStream, Protocol::Pipe] {
        for mode in Receive::LINUX {
            let (mut here, there) = both(protocol, mode);
            drop(there);
            let error = with_path(&mut here, &options(mode, &NEVER), Once(4)).unwrap().unwrap_err();
            assert_eq!(error, PathError::Closed, "{protocol} {mode}");
            assert!(error.peer_is_gone());
        }
    }
}

#[test]
fn a_stream_that_ends_within_a_message_is_closed() {
    for mode in Receive::LINUX {
        let (mut here, mut there) = both(Protocol::Tcp, mode);
        there.send_once(b"half", PATIENCE).unwrap();
        drop(there);
        assert_eq!(with_path(&mut here, &options(mode, &NEVER), Once(8)).unwrap(), Err(PathError::Closed), "{mode}");
    }
}

#[test]
fn sending_to_a_vanished_peer_fails_without_a_signal() {
    struct Send;
    impl PathVisitor for Send {
        type Output = PathError;
        fn visit<P: Path>(self, path: &mut P) -> PathError {
            loop {
                // The first sends to a closed TCP peer still succeed, until its reset is here.
                if let Err(error) = path.send(b"x", false) {
                    return error;
                }
            }
        }
    }
    for protocol in [Protocol::Tcp, Protocol::UnixStream, Protocol::Pipe, Protocol::UnixDgram, Protocol::Udp] {
        let (mut here, there) = both(protocol, Receive::Block);
        drop(there);
        let error = with_path(&mut here, &options(Receive::Block, &NEVER), Send).unwrap();
        assert!(error.peer_is_gone(), "{protocol}: {error}");
    }
}

#[test]
fn a_refused_datagram_says_that_the_peer_is_gone() {
    struct SendThenReceive;
    impl PathVisitor for SendThenReceive {
        type Output = Result<Received, PathError>;
        fn visit<P: Path>(self, path: &mut P) -> Self::Output {
            path.send(b"x", false)?;
            path.receive(&mut [0; 8])
        }
    }
    for mode in Receive::LINUX {
        let (mut here, there) = both(Protocol::Udp, mode);
        drop(there);
        let result = with_path(&mut here, &options(mode, &NEVER), SendThenReceive).unwrap();
        assert_eq!(result, Err(PathError::Refused), "{mode}");
    }
}

#[test]
fn a_spinning_wait_ends_at_its_deadline_and_no_sooner() {
    for protocol in [Protocol::Udp, Protocol::Tcp, Protocol::Pipe] {
        let (mut here, _there) = both(protocol, Receive::Spin);
        let mut options = options(Receive::Spin, &NEVER);
        options.timeout_ns = 3_000_000;
        let clock = common::clock();
        let began = clock.now();
        let result = with_path(&mut here, &options, Once(4)).unwrap();
        assert_eq!(result, Ok(Received::TimedOut), "{protocol}");
        assert!(clock.ns(clock.now() - began) >= 3_000_000, "{protocol}");
    }
}

#[test]
fn a_spinning_wait_sees_the_stop_flag() {
    let stop = AtomicBool::new(true);
    let (mut here, _there) = both(Protocol::Udp, Receive::Spin);
    assert_eq!(with_path(&mut here, &options(Receive::Spin, &stop), Once(4)).unwrap(), Ok(Received::Stopped));
}

#[test]
fn a_signal_ends_every_wait() {
    let stop = AtomicBool::new(true);
    for protocol in [Protocol::Udp, Protocol::Tcp, Protocol::UnixDgram, Protocol::Pipe] {
        for mode in Receive::LINUX.into_iter().filter(|mode| *mode != Receive::Spin) {
            let (mut here, _there) = both(protocol, mode);
            for (flag, wanted) in [(&NEVER, Received::Interrupted), (&stop, Received::Stopped)] {
                let work = || with_path(&mut here, &options(mode, flag), Once(4)).unwrap();
                assert_eq!(interrupted(work, || {}), Ok(wanted), "{protocol} {mode}");
            }
        }
    }
}

#[test]
fn a_message_interrupted_halfway_is_not_lost() {
    struct Halves {
        buffer: [u8; 8],
    }
    impl PathVisitor for Halves {
        type Output = ([u8; 8], u32);
        fn visit<P: Path>(mut self, path: &mut P) -> Self::Output {
            let mut interruptions = 0;
            loop {
                match path.receive(&mut self.buffer).unwrap() {
                    Received::Bytes(8) => return (self.buffer, interruptions),
                    Received::Interrupted => interruptions += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    for protocol in [Protocol::Tcp, Protocol::UnixStream, Protocol::Pipe] {
        for mode in [Receive::Block, Receive::Poll, Receive::EpollAdddel] {
            let (mut here, mut there) = both(protocol, mode);
            there.send_once(b"good", PATIENCE).unwrap();
            let work = || {
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        std::thread::sleep(Duration::from_millis(30));
                        there.send_once(b"luck", PATIENCE).unwrap();
                    });
                    with_path(&mut here, &options(mode, &NEVER), Halves { buffer: [0; 8] }).unwrap()
                })
            };
            let (bytes, interruptions) = interrupted(work, || {});
            assert_eq!(&bytes, b"goodluck", "{protocol} {mode}");
            assert!(interruptions > 0, "{protocol} {mode}: no signal came in between");
        }
    }
}

#[test]
fn a_send_that_nobody_takes_can_be_interrupted() {
    struct Fill;
    impl PathVisitor for Fill {
        type Output = PathError;
        fn visit<P: Path>(self, path: &mut P) -> PathError {
            loop {
                if let Err(error) = path.send(&[0; 65_536], false) {
                    return error;
                }
            }
        }
    }
    for protocol in [Protocol::Tcp, Protocol::UnixStream, Protocol::UnixDgram, Protocol::Pipe] {
        let (mut here, _there) = both(protocol, Receive::Block);
        let error = interrupted(|| with_path(&mut here, &options(Receive::Block, &NEVER), Fill).unwrap(), || {});
        assert_eq!(error, PathError::Interrupted, "{protocol}");
    }
}

#[test]
fn a_datagram_longer_than_the_buffer_shows_its_length() {
    for connected in [true, false] {
        let mut spec = SocketSpec::new(Protocol::Udp);
        spec.connected = connected;
        let (mut here, mut there) = ends(&spec, &end(Receive::Block), &end(Receive::Block), false);
        there.send_once(&[7; 100], PATIENCE).unwrap();
        let result = with_path(&mut here, &options(Receive::Block, &NEVER), Once(10)).unwrap();
        assert_eq!(result, Ok(Received::Bytes(100)));
    }
}

#[test]
fn a_datagram_too_long_to_send_is_named() {
    struct Send;
    impl PathVisitor for Send {
        type Output = Result<(), PathError>;
        fn visit<P: Path>(self, path: &mut P) -> Self::Output {
            path.send(&[0; 65_508], false)
        }
    }
    let (mut here, _there) = both(Protocol::Udp, Receive::Block);
    let result = with_path(&mut here, &options(Receive::Block, &NEVER), Send).unwrap();
    assert_eq!(result, Err(PathError::TooLarge { bytes: 65_508 }));
}

#[test]
fn only_the_peer_is_heard() {
    struct Hear;
    impl PathVisitor for Hear {
        type Output = ([u8; 8], u64);
        fn visit<P: Path>(self, path: &mut P) -> Self::Output {
            let mut buffer = [0; 8];
            assert_eq!(path.receive(&mut buffer), Ok(Received::Bytes(8)));
            (buffer, path.foreign())
        }
    }
    for connected in [true, false] {
        let mut spec = SocketSpec::new(Protocol::Udp);
        spec.connected = connected;
        let (mut here, mut there) = ends(&spec, &end(Receive::Block), &end(Receive::Block), false);
        let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        stranger.send_to(b"stranger", here.local_address().unwrap()).unwrap();
        there.send_once(b"my peer!", PATIENCE).unwrap();
        let (bytes, foreign) = with_path(&mut here, &options(Receive::Block, &NEVER), Hear).unwrap();
        assert_eq!(&bytes, b"my peer!");
        assert_eq!(foreign, u64::from(!connected));
    }
}

#[test]
fn what_came_before_the_peer_was_known_is_dropped() {
    let spec = SocketSpec::new(Protocol::Udp);
    let mut there = DataSocket::bind(&spec, &EndSpec::default(), loopback(false)).unwrap();
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.send_to(b"stranger", there.local_address().unwrap()).unwrap();
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    there.set_peer(peer.local_addr().unwrap()).unwrap();
    peer.send_to(b"peer", there.local_address().unwrap()).unwrap();
    let mut buffer = [0; 16];
    let (bytes, _) = there.receive_once(&mut buffer, PATIENCE).unwrap().unwrap();
    assert_eq!(&buffer[..bytes], b"peer");
}

#[test]
fn draining_drops_what_waits() {
    struct Drain;
    impl PathVisitor for Drain {
        type Output = u64;
        fn visit<P: Path>(self, path: &mut P) -> u64 {
            path.drain(&mut [0; 4]).unwrap()
        }
    }
    for connected in [true, false] {
        let mut spec = SocketSpec::new(Protocol::Udp);
        spec.connected = connected;
        let (mut here, mut there) = ends(&spec, &end(Receive::Block), &end(Receive::Block), false);
        for _ in 0..5 {
            there.send_once(b"late one", PATIENCE).unwrap();
        }
        assert_eq!(with_path(&mut here, &options(Receive::Block, &NEVER), Drain).unwrap(), 5);
        assert_eq!(with_path(&mut here, &options(Receive::Block, &NEVER), Drain).unwrap(), 0);
    }
}

#[test]
fn drops_of_the_socket_are_counted() {
    let mut reflector = end(Receive::Block);
    reflector.receive_buffer_bytes = Some(4096);
    let (mut here, there) = ends(&SocketSpec::new(Protocol::Udp), &end(Receive::Block), &reflector, false);
    assert_eq!(there.dropped(), Some(0));
    for _ in 0..100 {
        here.send_once(&[0; 1000], PATIENCE).unwrap();
    }
    let dropped = there.dropped().unwrap();
    assert!((50..100).contains(&dropped), "{dropped}");
}

#[test]
fn options_are_set_and_refused_ones_are_named() {
    let spec = SocketSpec { ttl: Some(3), ..SocketSpec::new(Protocol::Udp) };
    let mut asked = end(Receive::Block);
    asked.send_buffer_bytes = Some(20_000);
    asked.receive_buffer_bytes = Some(30_000);
    asked.device = Some("lo".to_owned());
    asked.bind = Some("127.0.0.5".parse().unwrap());
    let (here, _there) = ends(&spec, &asked, &end(Receive::Block), false);
    assert_eq!(here.buffers(), Some((40_000, 60_000)));
    assert_eq!(here.local_address().unwrap().ip(), asked.bind.unwrap());
    let found = socket2::SockRef::from(&here);
    assert_eq!(found.ttl_v4().unwrap(), 3);
    assert_eq!(found.device().unwrap().as_deref(), Some(&b"lo"[..]));

    let open = |end: &EndSpec| DataSocket::bind(&spec, end, loopback(false)).unwrap_err();
    let error = open(&EndSpec { device: Some("nosuch0".to_owned()), ..EndSpec::default() });
    assert!(error.to_string().contains("nosuch0"), "{error}");
    let error = open(&EndSpec { receive_buffer_bytes: Some(2_000_000_000), ..EndSpec::default() });
    assert!(error.to_string().contains("net.core.rmem_max"), "{error}");
    let error = open(&EndSpec { bind: Some("203.0.113.9".parse().unwrap()), ..EndSpec::default() });
    assert!(matches!(error, NetError::Bind { .. }), "{error}");
}

#[test]
fn tcp_options() {
    let (here, there) = both(Protocol::Tcp, Receive::Block);
    assert!(socket2::SockRef::from(&here).tcp_nodelay().unwrap());
    assert!(socket2::SockRef::from(&there).tcp_nodelay().unwrap());
    assert_eq!(windhover_net::bulk::tcp_figures(&here).unwrap().retransmits, 0);
    let spec = SocketSpec { nodelay: false, ..SocketSpec::new(Protocol::Tcp) };
    let (here, there) = ends(&spec, &end(Receive::Block), &end(Receive::Block), false);
    assert!(!socket2::SockRef::from(&here).tcp_nodelay().unwrap());
    assert!(!socket2::SockRef::from(&there).tcp_nodelay().unwrap());
}

#[test]
fn tcp_comes_from_the_address_and_device_asked_for() {
    for (v6, bind) in [(false, "127.0.0.3"), (true, "::1")] {
        if v6 && !common::has_v6() {
            eprintln!("SKIPPED tcp_comes_from_the_address_and_device_asked_for: no IPv6 on the loopback interface");
            return;
        }
        let mut asked = end(Receive::Block);
        asked.bind = Some(bind.parse().unwrap());
        asked.device = Some("lo".to_owned());
        let (here, there) = ends(&SocketSpec::new(Protocol::Tcp), &asked, &end(Receive::Block), v6);
        assert_eq!(here.local_address().unwrap().ip(), asked.bind.unwrap());
        assert_eq!(there.peer_address(), here.local_address());
    }
    let asked = EndSpec { bind: Some("::1".parse().unwrap()), ..EndSpec::default() };
    let error = DataSocket::connect(&SocketSpec::new(Protocol::Tcp), &asked, loopback(false), PATIENCE).unwrap_err();
    assert!(matches!(error, NetError::FamilyMismatch { .. }), "{error}");
}

#[test]
fn connecting_ends_in_time() {
    if !common::own_namespace("connecting_ends_in_time") {
        return;
    }
    // A neighbour that does not answer: no host is at the other end of the cable.
    common::ip(&["link", "add", "here", "type", "veth", "peer", "name", "there"]);
    common::ip(&["address", "add", "198.18.9.1/24", "dev", "here"]);
    common::ip(&["link", "set", "here", "up"]);
    common::ip(&["link", "set", "there", "up"]);
    let target = "198.18.9.2:7412".parse().unwrap();
    let error = windhover_net::tcp::connect(target, None, None, Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, NetError::ConnectTimeout { milliseconds: 50, .. }), "{error}");
}

#[test]
fn busy_polling_is_set_or_the_capability_is_named() {
    let asked = EndSpec { busy_poll_us: Some(50), ..EndSpec::default() };
    match DataSocket::bind(&SocketSpec::new(Protocol::Udp), &asked, loopback(false)) {
        Ok(_) => {}
        Err(error) => assert!(error.to_string().contains("CAP_NET_ADMIN"), "{error}"),
    }
}

#[test]
fn ports_in_use_and_closed_ones_are_named() {
    let spec = SocketSpec::new(Protocol::Tcp);
    let listener = DataListener::bind(&spec, &EndSpec::default(), loopback(false)).unwrap();
    let taken = listener.local_address();
    assert!(matches!(DataListener::bind(&spec, &EndSpec::default(), taken), Err(NetError::InUse { .. })));
    drop(listener);
    let error = DataSocket::connect(&spec, &EndSpec::default(), taken, PATIENCE).unwrap_err();
    assert!(matches!(error, NetError::Refused { .. }), "{error}");
    assert!(matches!(windhover_net::tcp::connect(taken, None, None, PATIENCE), Err(NetError::Refused { .. })));
}

#[test]
fn nobody_to_accept_or_to_hear_ends_in_time() {
    let listener = DataListener::bind(&SocketSpec::new(Protocol::Tcp), &EndSpec::default(), loopback(false)).unwrap();
    assert!(listener.accept(Duration::from_millis(5)).unwrap().is_none());
    let mut there = DataSocket::bind(&SocketSpec::new(Protocol::Udp), &EndSpec::default(), loopback(false)).unwrap();
    assert!(there.receive_once(&mut [0; 4], Duration::from_millis(5)).unwrap().is_none());
    assert!(matches!(there.send_once(b"x", PATIENCE), Err(NetError::NoPeer)));
    assert!(matches!(with_path(&mut there, &options(Receive::Block, &NEVER), Once(1)), Err(NetError::NoPeer)));
}

#[test]
fn wrong_descriptors_are_not_inherited() {
    let (here, _there) = both(Protocol::UnixStream, Receive::Block);
    let (socket, none) = here.into_fds();
    assert!(none.is_none());
    let again = socket.try_clone().unwrap();
    assert!(matches!(
        DataSocket::inherit(Protocol::UnixDgram, again, None),
        Err(NetError::Inherited { protocol: Protocol::UnixDgram, .. })
    ));
    let again = socket.try_clone().unwrap();
    assert!(matches!(DataSocket::inherit(Protocol::Pipe, again, None), Err(NetError::Inherited { .. })));
    assert!(matches!(
        DataSocket::inherit(Protocol::Tcp, socket.try_clone().unwrap(), None),
        Err(NetError::Unsupported { .. })
    ));
    assert!(DataSocket::inherit(Protocol::UnixStream, socket, None).is_ok());
}

/// A link that goes down loses datagrams; it does not break the path at either end.
#[test]
fn a_link_that_flaps_loses_datagrams_and_no_more() {
    /// Sends one datagram while the link is down and one after it came back.
    struct Flap;
    impl PathVisitor for Flap {
        type Output = Result<(), PathError>;
        fn visit<P: Path>(self, path: &mut P) -> Self::Output {
            path.send(b"before", false)?;
            common::ip(&["link", "set", "here", "down"]);
            path.send(b"lost", false)?;
            common::ip(&["link", "set", "here", "up"]);
            path.send(b"after", false)
        }
    }
    if !common::own_namespace("a_link_that_flaps_loses_datagrams_and_no_more") {
        return;
    }
    common::ip(&["link", "add", "here", "type", "veth", "peer", "name", "there"]);
    common::ip(&["link", "set", "there", "up"]);
    common::ip(&["link", "set", "here", "up"]);
    common::ip(&["address", "add", "198.18.9.1/24", "dev", "here"]);
    for connected in [true, false] {
        // Nobody has that address: what counts is that sending goes on.
        let spec = SocketSpec { connected, ..SocketSpec::new(Protocol::Udp) };
        let to = "198.18.9.2:9".parse().unwrap();
        let mut socket = DataSocket::connect(&spec, &end(Receive::Block), to, PATIENCE).unwrap();
        assert_eq!(with_path(&mut socket, &options(Receive::Block, &NEVER), Flap).unwrap(), Ok(()), "{connected}");
    }
}
