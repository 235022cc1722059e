//! Captures on loopback: what is followed, what is not, and how they end.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

use net::NetError;
use net::capture::{Capture, CaptureCounts, CaptureSpec, Direction, Entry, Flow, Live, Reader, Record};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};
use windhover_net as net;

fn spec(path: &Path) -> CaptureSpec {
    CaptureSpec {
        path: path.to_owned(),
        payload_bytes: 64,
        application: "test".to_owned(),
        comment: "a test".to_owned(),
        most_bytes: None,
    }
}

/// A capture and its thread; nothing where capturing is not permitted.
fn start(test: &str, path: &Path) -> Option<(Capture, std::thread::JoinHandle<CaptureCounts>)> {
    start_as(test, spec(path))
}

fn start_as(test: &str, spec: CaptureSpec) -> Option<(Capture, std::thread::JoinHandle<CaptureCounts>)> {
    match Capture::create(spec) {
        Ok((capture, work)) => Some((capture, std::thread::spawn(move || work.run()))),
        Err(NetError::CaptureNotPermitted) => {
            eprintln!("SKIPPED {test}: capturing needs CAP_NET_RAW");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

fn packets(path: &Path) -> Vec<Record> {
    let bytes = std::fs::read(path).unwrap();
    let mut reader = Reader::new(bytes.as_slice()).unwrap();
    let mut packets = Vec::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        if let Entry::Packet(record) = entry {
            packets.push(record);
        }
    }
    packets
}

fn socket() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[test]
fn only_what_is_followed_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pcapng");
    let Some((capture, thread)) = start("only_what_is_followed_is_in_the_file", &path) else { return };
    let ((near, near_address), (far, far_address), (other, _)) = (socket(), socket(), socket());
    // Nothing yet.
    near.send_to(&[1; 10], far_address).unwrap();
    let flow = Flow { number: 17, far: far_address, near_port: None, group: None };
    capture.follow(flow.clone(), None).unwrap();
    near.send_to(&[2; 200], far_address).unwrap();
    other.send_to(&[3; 10], far_address).unwrap();
    // Narrowed to our own port.
    capture.follow(Flow { near_port: Some(near_address.port()), ..flow }, None).unwrap();
    other.send_to(&[4; 10], far_address).unwrap();
    far.send_to(&[5; 10], near_address).unwrap();
    capture.stop();
    let counts = thread.join().unwrap();
    let kept = packets(&path);
    let marks: Vec<(u8, Option<bool>)> = kept.iter().map(|record| (record.frame[42], record.leaving)).collect();
    let both = |mark| [(mark, Some(true)), (mark, Some(false))];
    assert_eq!(marks, [both(2), both(3), both(5)].concat());
    assert_eq!(counts, CaptureCounts { written: 6, dropped: 0, failed: None });
    // Ethernet, IPv4, UDP and 64 bytes of 200.
    assert_eq!((kept[0].frame.len(), kept[0].sent_bytes), (14 + 20 + 8 + 64, 14 + 20 + 8 + 200));
    assert!(kept.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let age = now - Duration::from_nanos(kept[0].time_ns.unwrap());
    assert!(age < Duration::from_secs(60), "{age:?}");
}

/// Catches: a capture that fills the memory of a host, and a file that ends amid a packet.
#[test]
fn a_capture_ends_at_its_largest_size() {
    const MOST: u64 = 600 << 10;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pcapng");
    let limited = CaptureSpec { most_bytes: Some(MOST), payload_bytes: 1000, ..spec(&path) };
    let Some((capture, thread)) = start_as("a_capture_ends_at_its_largest_size", limited) else { return };
    let ((near, _), (_far, far_address)) = (socket(), socket());
    capture.follow(Flow { number: 17, far: far_address, near_port: None, group: None }, None).unwrap();
    for _ in 0..1000 {
        near.send_to(&[7; 1000], far_address).unwrap();
    }
    capture.stop();
    let counts = thread.join().unwrap();
    assert!(counts.failed.as_ref().is_some_and(|why| why.contains("largest size")), "{counts:?}");
    assert!(std::fs::metadata(&path).unwrap().len() <= MOST);
    assert_eq!(packets(&path).len() as u64, counts.written);
    assert!(counts.written > 100 && counts.dropped > 0, "{counts:?}");
}

#[test]
fn a_capture_that_nobody_holds_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pcapng");
    let Some((capture, thread)) = start("a_capture_that_nobody_holds_ends", &path) else { return };
    drop(capture);
    assert_eq!(thread.join().unwrap(), CaptureCounts::default());
    assert!(packets(&path).is_empty());
}

#[test]
fn what_cannot_be_followed_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pcapng");
    let Some((capture, thread)) = start("what_cannot_be_followed_is_said", &path) else { return };
    let flow = Flow { number: 6, far: "127.0.0.1:9".parse().unwrap(), near_port: None, group: None };
    let refused = capture.follow(flow.clone(), Some("nosuch0")).unwrap_err();
    assert!(refused.to_string().contains("nosuch0"), "{refused}");
    capture.follow(flow, Some("127.0.0.1")).unwrap();
    assert_eq!(capture.counts(), CaptureCounts::default());
    capture.stop();
    // It takes no more orders and keeps no one waiting.
    thread.join().unwrap();
    let flow = Flow { number: 6, far: "127.0.0.1:10".parse().unwrap(), near_port: None, group: None };
    capture.follow(flow, None).unwrap();
    assert_eq!(capture.counts(), CaptureCounts::default());
}

#[test]
fn an_interface_gives_what_passes() {
    let mut live = match Live::open("127.0.0.1") {
        Ok(live) => live,
        Err(NetError::CaptureNotPermitted) => {
            eprintln!("SKIPPED an_interface_gives_what_passes: capturing needs CAP_NET_RAW");
            return;
        }
        Err(other) => panic!("{other}"),
    };
    assert_eq!((live.link().name.as_str(), live.link().link), ("lo", 1));
    let ((near, _), (_far, far_address)) = (socket(), socket());
    near.send_to(b"a rather odd payload", far_address).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let mut ways = Vec::new();
    while ways.len() < 2 {
        assert!(Instant::now() < end, "{ways:?}");
        live.wait(Duration::from_millis(100), &mut |taken| {
            if taken.frame.ends_with(b"a rather odd payload") {
                ways.push(taken.way);
            }
        });
    }
    assert_eq!(ways, [Direction::Out, Direction::In]);
    assert!(matches!(Live::open("nosuch0"), Err(NetError::NoInterface { .. })));
}
