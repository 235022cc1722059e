//! Frames between two ends of a virtual wire, in a network namespace that each test makes for itself.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, missing_docs, reason = "a test")]

use nix::sched::{CloneFlags, unshare};
use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};
use windhover_xsk::{Addresses, Backend, Interface, Port, Protocol, XskError};

/// Runs `test` on a thread with a namespace of its own that has two ends of a wire, `left` and `right`.
fn with_wire(name: &str, test: impl FnOnce(&Interface, &Interface) + Send + 'static) {
    let name = name.to_owned();
    let thread = std::thread::spawn(move || {
        if let Err(errno) = unshare(CloneFlags::CLONE_NEWNET) {
            eprintln!("SKIPPED {name}: no network namespace of its own: {errno}: run as root");
            return;
        }
        for command in [
            "link set lo up",
            "link add left type veth peer name right",
            "address add 10.9.0.1/24 dev left",
            "address add 10.9.0.2/24 dev right",
            "link set left up",
            "link set right up",
        ] {
            let done = Command::new("ip").args(command.split(' ')).output().unwrap();
            assert!(done.status.success(), "ip {command}: {}", String::from_utf8_lossy(&done.stderr));
        }
        test(&Interface::read("left").unwrap(), &Interface::read("right").unwrap());
    });
    thread.join().unwrap();
}

/// An Ethernet frame with a UDP packet from 10.9.0.7 (the kernel drops what claims to come from itself) over IPv4 without a UDP
/// checksum (RFC 768 permits that).
fn frame(from: &Interface, to: &Interface, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [to.mac.as_slice(), &from.mac, &[8, 0]].concat();
    let length = u16::try_from(28 + payload.len()).unwrap();
    let mut header = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 7, 10, 9, 0, 2];
    header[2..4].copy_from_slice(&length.to_be_bytes());
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    header[10..12].copy_from_slice(&folded.to_be_bytes());
    bytes.extend(header);
    for number in [4000, port, length - 20, 0] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(payload);
    bytes
}

fn send(port: &mut Port, frames: &[Vec<u8>]) {
    let mut left = frames.iter();
    let until = Instant::now() + Duration::from_secs(60);
    while !left.as_slice().is_empty() || port.has_unsent() {
        port.transmit(|room| {
            let frame = left.next()?;
            room[..frame.len()].copy_from_slice(frame);
            Some(frame.len())
        });
        assert!(Instant::now() < until, "the frames were not sent");
    }
}

fn receive(port: &mut Port, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let until = Instant::now() + Duration::from_secs(60);
    while frames.len() < count && Instant::now() < until {
        port.receive(64, |frame| frames.push(frame.to_vec()));
    }
    frames
}

fn has_program(interface: &str) -> bool {
    let shown = Command::new("ip").args(["-details", "link", "show", interface]).output().unwrap();
    String::from_utf8(shown.stdout).unwrap().contains("xdp")
}

/// Catches: a filter that takes other ports or misses served ones, frames that are damaged, out of order or lost in a burst
/// longer than a wake-up's batch, a program that stays attached.
#[test]
fn served_ports_are_taken_whole_and_in_order_and_all_others_reach_the_kernel() {
    for backend in [Backend::Native, Backend::Generic, Backend::Packet] {
        with_wire("served_ports", move |left, right| {
            let mut far = Port::open(left, Backend::Packet).unwrap();
            let mut near = Port::open(right, backend).unwrap();
            assert_eq!(near.backend(), backend);
            near.set_addresses(&[IpAddr::from([10, 9, 0, 2])]).unwrap();
            let kernel = UdpSocket::bind("10.9.0.2:6000").unwrap();
            kernel.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            near.serve(Protocol::Udp, 5000, &[Addresses::All]).unwrap();

            let frames: Vec<_> = (0..300_u16)
                .map(|n| frame(left, right, 5000, &n.to_be_bytes().repeat(1 + usize::from(n) * 2)))
                .collect();
            for burst in frames.chunks(100) {
                send(&mut far, &[burst, &[frame(left, right, 6000, b"for the kernel")]].concat());
                assert_eq!(receive(&mut near, burst.len()), burst, "{backend:?}");
                let mut bytes = [0; 32];
                let (length, _) = kernel.recv_from(&mut bytes).unwrap();
                assert_eq!(&bytes[..length], b"for the kernel", "{backend:?}");
            }
            assert_eq!(near.receive(64, |_| ()), 0, "{backend:?}: nothing else was taken");
            assert_eq!(near.counters().received, 300, "{backend:?}");

            near.withdraw(Protocol::Udp, 5000).unwrap();
            near.serve(Protocol::Tcp, 5000, &[Addresses::All]).unwrap();
            send(&mut far, &frames[..1]);
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(near.receive(64, |_| ()), 0, "{backend:?}: the port is no longer served for UDP");

            assert_eq!(has_program("right"), backend != Backend::Packet, "{backend:?}");
            drop(near);
            assert!(!has_program("right"), "{backend:?}: the program is detached");
        });
    }
}

/// Catches: a filter whose jumps miss when many ports are served, one that takes all frames then, and dropped frames that are
/// forgotten when counters are read twice.
#[test]
fn as_many_ports_as_the_filter_lists_are_served_and_one_more_is_refused() {
    with_wire("as_many_ports", |left, right| {
        let mut far = Port::open(left, Backend::Packet).unwrap();
        let mut near = Port::open(right, Backend::Packet).unwrap();
        for port in 5000..5200 {
            near.serve(Protocol::Udp, port, &[Addresses::All]).unwrap();
        }
        let refused = near.serve(Protocol::Udp, 5200, &[Addresses::All]).unwrap_err().to_string();
        assert!(refused.contains("at most 200 ports"), "{refused}");
        let of = |port| frame(left, right, port, b"x");
        send(&mut far, &[of(4999), of(5000), of(5200), of(5100), of(5199)]);
        assert_eq!(receive(&mut near, 3), [of(5000), of(5100), of(5199)]);

        send(&mut far, &vec![of(5000); 400]);
        std::thread::sleep(Duration::from_millis(50));
        let full = near.counters().ring_full;
        assert!(full >= 100, "{full} of 400 frames found no place in a ring of 256");
        assert_eq!(near.counters().ring_full, full, "the second reading forgets none");
    });
}

/// Catches: frames that a back-end sends damaged, or not at all when more are built than its ring holds.
#[test]
fn all_that_was_built_is_sent() {
    for backend in [Backend::Native, Backend::Generic, Backend::Packet] {
        with_wire("all_that_was_built", move |left, right| {
            let mut near = Port::open(left, backend).unwrap();
            let mut far = Port::open(right, Backend::Packet).unwrap();
            far.serve(Protocol::Udp, 5000, &[Addresses::All]).unwrap();
            let frames: Vec<_> = (0..2500_u16).map(|n| frame(left, right, 5000, &n.to_be_bytes().repeat(40))).collect();
            for burst in frames.chunks(125) {
                send(&mut near, burst);
                assert_eq!(receive(&mut far, burst.len()), burst, "{backend:?}");
            }
            assert_eq!(near.counters().sent, 2500, "{backend:?}");
        });
    }
}

/// Catches: a frame of a local sender that is longer than a page (segmentation is left to the interface) and is lost.
#[test]
fn a_frame_of_several_pages_comes_as_one() {
    with_wire("several_pages", |left, right| {
        let mut far = Port::open(left, Backend::Packet).unwrap();
        for interface in ["left", "right"] {
            let done = Command::new("ip").args(["link", "set", interface, "mtu", "9000"]).status().unwrap();
            assert!(done.success());
        }
        drop(far);
        far = Port::open(&Interface::read("left").unwrap(), Backend::Packet).unwrap();
        let mut near = Port::open(&Interface::read("right").unwrap(), Backend::Generic).unwrap();
        near.set_addresses(&[IpAddr::from([10, 9, 0, 2])]).unwrap();
        near.serve(Protocol::Udp, 5000, &[Addresses::All]).unwrap();
        let long: Vec<u8> = (0..8900_u32).flat_map(|n| n.to_be_bytes()).take(8900).collect();
        let frames = [frame(left, right, 5000, &long), frame(left, right, 5000, b"short")];
        send(&mut far, &frames);
        assert!(receive(&mut near, 2) == frames, "both frames, whole");
    });
}

/// Catches: a refusal that does not name what is in the way, or an interface that is left changed by it.
#[test]
fn what_cannot_be_opened_says_why() {
    with_wire("refusals", |left, right| {
        assert!(matches!(Port::open(left, Backend::ZeroCopy), Err(XskError::Unsupported { .. })));
        assert!(!has_program("left"));
        let first = Port::open(right, Backend::Generic).unwrap();
        let second = Port::open(right, Backend::Generic).map(|_| ()).unwrap_err();
        assert!(matches!(second, XskError::QueueTaken { .. } | XskError::OtherProgram { .. }), "{second}");
        assert!(second.to_string().contains("right"), "{second}");
        assert!(has_program("right"), "the first one's program stays");
        drop(first);
        // The queue of a dead owner is free again after a moment.
        drop(Port::open(right, Backend::Native).unwrap());
        assert!(matches!(Interface::read("nothing"), Err(XskError::NoInterface { .. })));
        assert!(matches!(Interface::read("../left"), Err(XskError::NoInterface { .. })));
    });
}
