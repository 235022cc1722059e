//! After a connection is set up, nothing allocates: neither data, nor losses and their repair, nor floods.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use stack::{Config, Event, Hop, Instant, Listener, Stack, TcpOptions, TcpSocket, UdpOptions, UdpSocket};
use std::net::{IpAddr, SocketAddr};

const MS: u64 = 1_000_000;

fn ip(number: usize) -> IpAddr {
    IpAddr::from([192, 0, 2, u8::try_from(number).unwrap() + 1])
}

/// Two stacks, and a way between them that loses every so manieth frame, in buffers that are there already.
struct Way {
    stacks: [Stack; 2],
    now: Instant,
    every: u32,
    passed: u32,
    /// Frames on the way, so that some arrive out of order.
    late: Vec<(usize, Vec<u8>)>,
    frame: Vec<u8>,
    buffer: Vec<u8>,
    bytes: u64,
    datagrams: u64,
}

impl Way {
    fn new() -> Self {
        let stack = |number: usize| {
            let mac = [2, 0, 0, 0, 0, u8::try_from(number).unwrap()];
            let mut stack = Stack::new(Config { max_half_open: 4, ..Config::new(mac, vec![ip(number)], [7; 16]) });
            let other = u8::try_from(1 - number).unwrap();
            let hop = Hop { mac: [2, 0, 0, 0, 0, other], mtu: 1500, source: ip(number) };
            stack.set_hop(ip(1 - number), hop);
            stack
        };
        Self {
            stacks: [stack(0), stack(1)],
            now: Instant(1_000 * MS),
            every: u32::MAX,
            passed: 0,
            late: (0..4).map(|_| (0, Vec::with_capacity(2000))).collect(),
            frame: vec![0; 2000],
            buffer: vec![0; 70_000],
            bytes: 0,
            datagrams: 0,
        }
    }

    fn carry(&mut self) {
        for _ in 0..50 {
            let before = self.passed;
            for from in [0, 1] {
                while let Some(length) = self.stacks[from].poll_transmit(self.now, &mut self.frame) {
                    self.passed += 1;
                    if self.passed.is_multiple_of(self.every) {
                        continue;
                    }
                    if self.every < u32::MAX && self.passed.is_multiple_of(5) {
                        let place = &mut self.late[from];
                        place.1.clear();
                        place.1.extend_from_slice(&self.frame[..length]);
                        place.0 = 1;
                        continue;
                    }
                    let _ = self.stacks[1 - from].handle_frame(self.now, &self.frame[..length]);
                }
                if std::mem::take(&mut self.late[from].0) == 1 {
                    let _ = self.stacks[1 - from].handle_frame(self.now, &self.late[from].1);
                }
            }
            if self.passed == before {
                break;
            }
        }
    }

    fn run(&mut self, sockets: [TcpSocket; 2], udp: [UdpSocket; 2], rounds: u32) {
        for _ in 0..rounds {
            for from in [0, 1] {
                let stack = &mut self.stacks[from];
                let _ = stack.tcp_send(sockets[from], &self.buffer[..20_000], false);
                let _ = stack.udp_send(self.now, udp[from], None, &self.buffer[..500]);
                let info = stack.tcp_info(sockets[from]).unwrap();
                assert!(info.send_mss > 0);
            }
            self.carry();
            for to in [0, 1] {
                let stack = &mut self.stacks[to];
                while let Ok(count) = stack.tcp_receive(sockets[to], &mut self.buffer) {
                    self.bytes += count as u64;
                }
                while stack.udp_receive(udp[to], &mut self.buffer).is_ok() {
                    self.datagrams += 1;
                }
                assert!(stack.tcp_readiness(sockets[to]).unwrap().read_edges > 0 || self.bytes == 0);
                while stack.poll_event().is_some() {}
            }
            self.now = self.now.after(MS);
            for stack in &mut self.stacks {
                stack.handle_timeout(self.now);
                let _ = stack.poll_timeout();
            }
        }
    }
}

fn connected(way: &mut Way) -> ([TcpSocket; 2], [UdpSocket; 2], Listener) {
    let options = TcpOptions { rto_min_ns: 5 * MS, ..TcpOptions::default() };
    let listener = way.stacks[1].tcp_listen(SocketAddr::new(ip(1), 80), false, 8, options).unwrap();
    let (from, to) = (SocketAddr::new(ip(0), 4000), SocketAddr::new(ip(1), 80));
    let client = way.stacks[0].tcp_connect(way.now, from, to, options).unwrap();
    way.carry();
    let server = way.stacks[1].tcp_accept(listener).unwrap();
    let mut udp = Vec::new();
    for number in [0, 1] {
        let at = SocketAddr::new(ip(number), 53);
        udp.push(way.stacks[number].udp_bind(at, false, UdpOptions::default()).unwrap());
        way.stacks[number].udp_connect(udp[number], Some(SocketAddr::new(ip(1 - number), 53))).unwrap();
    }
    ([client, server], [udp[0], udp[1]], listener)
}

#[test]
fn data_path_does_not_allocate() {
    let mut way = Way::new();
    let (sockets, udp, _) = connected(&mut way);
    let clean = allocation_counter::measure(|| way.run(sockets, udp, 200));
    assert!(way.bytes > 5_000_000 && way.datagrams == 400, "{} {}", way.bytes, way.datagrams);
    way.every = 13;
    let bad = allocation_counter::measure(|| way.run(sockets, udp, 2000));
    let info = way.stacks[0].tcp_info(sockets[0]).unwrap();
    assert!(info.retransmits > 50 && info.out_of_order_received > 50, "{info:?}");
    assert_eq!((clean.count_total, bad.count_total), (0, 0));
}

/// SYNs beyond what may be half open are answered without memory.
#[test]
fn a_flood_does_not_allocate() {
    let mut way = Way::new();
    let (_, _, listener) = connected(&mut way);
    let mut frames = Vec::new();
    for port in 5000..6000 {
        let mut stack = Stack::new(Config::new([2, 0, 0, 0, 0, 0], vec![ip(0)], [9; 16]));
        stack.set_hop(ip(1), Hop { mac: [2, 0, 0, 0, 0, 1], mtu: 1500, source: ip(0) });
        let from = SocketAddr::new(ip(0), port);
        stack.tcp_connect(way.now, from, SocketAddr::new(ip(1), 80), TcpOptions::default()).unwrap();
        let mut frame = vec![0; 200];
        let length = stack.poll_transmit(way.now, &mut frame).unwrap();
        frame.truncate(length);
        frames.push(frame);
    }
    let server = &mut way.stacks[1];
    for frame in &frames[..10] {
        let _ = server.handle_frame(way.now, frame);
    }
    let mut sent = vec![0; 200];
    while server.poll_transmit(way.now, &mut sent).is_some() {}
    let flood = allocation_counter::measure(|| {
        for frame in &frames[10..] {
            let _ = server.handle_frame(way.now, frame);
            while server.poll_transmit(way.now, &mut sent).is_some() {}
        }
    });
    assert_eq!((flood.count_total, server.counts().cookies_sent), (0, 996));
    assert!(server.tcp_accept(listener).is_err());
    let events: Vec<Event> = std::iter::from_fn(|| server.poll_event()).collect();
    assert!(events.len() < 5, "{events:?}");
}

/// Connections that are half open take little, and are given up; the next flood takes no more.
#[test]
fn ten_thousand_half_open_connections_are_bounded() {
    const MOST: usize = 10_000;
    let mut server = Stack::new(Config { max_half_open: MOST, ..Config::new([2; 6], vec![ip(1)], [7; 16]) });
    server.set_hop(ip(0), Hop { mac: [2, 0, 0, 0, 0, 9], mtu: 1500, source: ip(1) });
    let options = TcpOptions::default();
    server.tcp_listen(SocketAddr::new(ip(1), 80), false, 16, options).unwrap();
    let mut attacker = Stack::new(Config::new([2, 0, 0, 0, 0, 9], vec![ip(0)], [9; 16]));
    attacker.set_hop(ip(1), Hop { mac: [2; 6], mtu: 1500, source: ip(0) });
    let (mut frame, mut now) = (vec![0; 2000], Instant(1_000 * MS));
    let mut frames = Vec::new();
    for port in 10_000..30_000 {
        let from = SocketAddr::new(ip(0), port);
        let socket = attacker.tcp_connect(now, from, SocketAddr::new(ip(1), 80), options).unwrap();
        let length = attacker.poll_transmit(now, &mut frame).unwrap();
        frames.push(frame[..length].to_vec());
        attacker.tcp_abort(socket).unwrap();
        while attacker.poll_transmit(now, &mut frame).is_some() {}
    }
    let mut flood = |server: &mut Stack, now: Instant| {
        let taken = allocation_counter::measure(|| {
            for frame_in in &frames {
                let _ = server.handle_frame(now, frame_in);
                while server.poll_transmit(now, &mut frame).is_some() {}
                while server.poll_event().is_some() {}
            }
        });
        (taken.bytes_max, server.tcp_connections().count())
    };
    let (first, open) = flood(&mut server, now);
    assert_eq!(open, MOST);
    // Buffers come with the end of the handshake: 512 KiB each would be 5 GB.
    assert!(first < 2048 * MOST as u64, "{first} bytes for {MOST}");
    for _ in 0..400 {
        now = now.after(1_000 * MS);
        server.handle_timeout(now);
        let mut sent = [0; 2000];
        while server.poll_transmit(now, &mut sent).is_some() {}
        while server.poll_event().is_some() {}
    }
    assert_eq!(server.tcp_connections().count(), 0, "they are given up");
    let (second, open) = flood(&mut server, now);
    assert_eq!(open, MOST);
    assert!(second <= first, "{second} bytes, after {first}");
}
