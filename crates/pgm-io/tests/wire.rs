//! Ways between two hosts that lose multicast: everything is delivered once and in order, by both carriers, both families
//! and all waits.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    unsafe_code,
    missing_docs,
    reason = "tests panic, and say what they skip; privileges of one thread are dropped by a system call"
)]

mod support;

use model::Receive;
use net::{Arrival, DuplexVisitor, Inbox, Outbox};
use pgm::receiver::{NakPath, SessionEvent};
use pgm_io::{Carrier, EventKind, PgmIoError, PgmSocket, PgmSocketOptions};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{RAW, UDP, clock, ends, one_host, open, tsi, two_hosts, waiting};

const PATIENCE: Duration = Duration::from_secs(60);
const WAITS: [Receive; 7] = Receive::LINUX;

/// A numbered message whose bytes follow from its number.
fn message(number: u64, bytes: usize) -> Vec<u8> {
    let fill = |at: u64| u8::try_from((number * 31 + at) % 251).unwrap();
    let mut message: Vec<u8> = (0..bytes as u64).map(fill).collect();
    message[..8].copy_from_slice(&number.to_be_bytes());
    message
}

fn number(message: &[u8]) -> u64 {
    u64::from_be_bytes(*message.first_chunk().unwrap())
}

/// Sends on one thread, receives on another what the other end sends back.
struct Initiator<'a> {
    messages: u64,
    bytes: usize,
    gap: Duration,
    /// Ends the own wait, and the reflector's.
    here: &'a AtomicBool,
    stop: &'a AtomicBool,
}

impl DuplexVisitor for Initiator<'_> {
    type Output = u64;

    fn visit<O: Outbox, I: Inbox>(self, outbox: &mut O, inbox: &mut I) -> u64 {
        let begin = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..self.messages {
                    let due = begin + self.gap * u32::try_from(number).unwrap();
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    outbox.send(0, &message(number, self.bytes)).unwrap();
                }
            });
            // What does not come ends the wait all the same.
            scope.spawn(|| {
                while !self.here.load(Ordering::Relaxed) && begin.elapsed() < PATIENCE {
                    std::thread::sleep(Duration::from_millis(5));
                }
                self.here.store(true, Ordering::Relaxed);
            });
            let mut buffer = vec![0; self.bytes + 1];
            let mut next = 0;
            while next < self.messages {
                match inbox.wait(&mut buffer).unwrap() {
                    Arrival::Message(got) => {
                        assert_eq!((got.from, got.bytes), (0, self.bytes));
                        assert!(got.stack_ns > 0);
                        if number(&buffer) != next {
                            eprintln!("answer {next} did not come, {} did", number(&buffer));
                            break;
                        }
                        assert!(buffer[..got.bytes] == message(next, self.bytes), "answer {next} is another");
                        next += 1;
                    }
                    Arrival::Stopped => break,
                    Arrival::Interrupted | Arrival::Nothing => {}
                }
            }
            self.here.store(true, Ordering::Relaxed);
            self.stop.store(true, Ordering::Relaxed);
            next
        })
    }
}

/// Sends back what comes, on one thread, until it is stopped.
struct Reflector;

impl DuplexVisitor for Reflector {
    type Output = u64;

    fn visit<O: Outbox, I: Inbox>(self, outbox: &mut O, inbox: &mut I) -> u64 {
        let mut buffer = vec![0; 20_000];
        let mut next = 0;
        loop {
            match inbox.wait(&mut buffer).unwrap() {
                Arrival::Message(got) => {
                    if number(&buffer) != next {
                        eprintln!("message {next} did not come, {} did", number(&buffer));
                        return next;
                    }
                    outbox.send(0, &buffer[..got.bytes]).unwrap();
                    next += 1;
                }
                Arrival::Stopped => return next,
                Arrival::Interrupted | Arrival::Nothing => {}
            }
        }
    }
}

/// Messages there and back, over ways that may lose. Both ways afterwards.
fn round_trips(here: &mut PgmSocket, there: &mut PgmSocket, waits: [Receive; 2], messages: u64, bytes: usize) {
    here.set_peers(&[tsi(2)]).unwrap();
    there.set_peers(&[tsi(1)]).unwrap();
    let (stop, stop_here) = (AtomicBool::new(false), AtomicBool::new(false));
    let initiator = Initiator { messages, bytes, gap: Duration::from_micros(150), here: &stop_here, stop: &stop };
    let (answered, reflected) = std::thread::scope(|scope| {
        let reflector = scope.spawn(|| there.with_duplex(&waiting(waits[1], &stop), Reflector).unwrap());
        let answered = here.with_duplex(&waiting(waits[0], &stop_here), initiator).unwrap();
        (answered, reflector.join().unwrap())
    });
    let counts = (here.counts(), there.counts());
    if answered != messages {
        for (end, way) in [("here", &*here), ("there", &*there)] {
            let events = way.events();
            eprintln!("{end}, the last events: {:?}", events.get(events.len().saturating_sub(60)..));
        }
    }
    assert_eq!((answered, reflected), (messages, messages), "{waits:?} {counts:?}");
    for counts in [counts.0, counts.1] {
        assert_eq!((counts.receiver.lost, counts.foreign, counts.unsent), (0, 0, 0), "{counts:?}");
        // The own socket hears what is sent to it alone.
        assert_eq!((counts.source.ignored, counts.receiver.ignored), (0, 0), "{counts:?}");
    }
}

fn lossy(test: &str, carrier: Carrier, v6: bool) {
    let Some((a, b)) = two_hosts(test) else { return };
    a.lose();
    b.lose();
    for (at, wait) in WAITS.into_iter().enumerate() {
        let (here, there) = ends(carrier, v6);
        let mut here = a.run(move || open(&here));
        let mut there = b.run(move || open(&there));
        // One of them with messages of several packets.
        let bytes = if at == 2 { 4000 } else { 64 };
        round_trips(&mut here, &mut there, [wait, WAITS[(at + 1) % WAITS.len()]], 1000, bytes);
        for way in [&here, &there] {
            let counts = way.counts();
            let (repairs, events) = (way.repairs(), way.events());
            let repaired = repairs.iter().filter(|note| note.repair.is_some()).count() as u64;
            assert!(counts.receiver.recovered > 0 && repaired > 0, "{wait}: {counts:?}");
            assert!(repaired <= counts.receiver.recovered);
            // What shows a gap waits for its repair.
            assert!(repairs.iter().any(|note| note.repair.is_none()));
            for note in repairs {
                assert!(number(&note.head) < 1000 && note.bytes as usize == bytes && note.from == 0);
                assert!(note.delivered_ns >= note.received_ns);
                let Some(repair) = note.repair else { continue };
                assert!(repair.data_ns >= repair.gap_ns && note.received_ns >= repair.data_ns);
                assert!(repair.nak_ns.is_none_or(|nak| nak >= repair.gap_ns));
            }
            let has = |wanted: fn(&EventKind) -> bool| events.iter().any(|event| wanted(&event.what));
            assert!(has(|what| matches!(what, EventKind::NakSent { .. })));
            assert!(has(|what| matches!(what, EventKind::NakReceived { .. })));
            assert!(has(|what| matches!(what, EventKind::NcfSent { .. })));
            assert!(has(|what| matches!(what, EventKind::RepairSent { .. })));
            assert!(has(|what| matches!(what, EventKind::RepairReceived { .. })));
            assert!(has(|what| matches!(what, EventKind::Session(SessionEvent::Found))));
            assert!(events.iter().all(|event| event.at_ns <= way.now_ns()));
            assert!(events.is_sorted_by_key(|event| event.at_ns));
        }
    }
    assert!(a.lost() > 0 && b.lost() > 0, "nothing was lost: the test says nothing");
}

#[test]
fn udp_ipv4() {
    lossy("udp_ipv4", UDP, false);
}

#[test]
fn udp_ipv6() {
    lossy("udp_ipv6", UDP, true);
}

#[test]
fn raw_ipv4() {
    lossy("raw_ipv4", RAW, false);
}

#[test]
fn raw_ipv6() {
    lossy("raw_ipv6", RAW, true);
}

/// Appendix A of RFC 3208: whole groups are repaired, some of them before anybody asks.
#[test]
fn parity_repairs_too() {
    let Some((a, b)) = two_hosts("parity_repairs_too") else { return };
    a.lose();
    b.lose();
    let (mut here, mut there) = ends(UDP, false);
    for options in [&mut here, &mut there] {
        options.source.as_mut().unwrap().fec = Some(pgm::fec::Config { proactive_packets: 1, ..Default::default() });
        options.receiver.as_mut().unwrap().parity = true;
    }
    let mut here = a.run(move || open(&here));
    let mut there = b.run(move || open(&there));
    round_trips(&mut here, &mut there, [Receive::Block, Receive::Poll], 1000, 64);
    for way in [&here, &there] {
        let counts = way.counts();
        assert!(counts.receiver.recovered_by_parity > 0 && counts.source.parity_odata > 0, "{counts:?}");
        assert!(way.repairs().iter().any(|note| note.repair.is_some_and(|repair| repair.parity)));
    }
    assert!(a.lost() > 0 && b.lost() > 0, "nothing was lost: the test says nothing");
}

/// A loop that only waits: the source is served all the same.
struct Waits<'a> {
    served: &'a AtomicU64,
}

impl DuplexVisitor for Waits<'_> {
    type Output = u64;

    fn visit<O: Outbox, I: Inbox>(self, outbox: &mut O, inbox: &mut I) -> u64 {
        outbox.send(0, b"the only one").unwrap();
        self.served.store(1, Ordering::Release);
        loop {
            match inbox.wait(&mut [0; 100]).unwrap() {
                Arrival::Stopped => return 0,
                Arrival::Message(_) => return 1,
                Arrival::Interrupted | Arrival::Nothing => {}
            }
        }
    }
}

#[test]
fn a_source_is_served_while_nobody_sends() {
    let Some((a, b)) = two_hosts("a_source_is_served_while_nobody_sends") else { return };
    let (here, there) = ends(UDP, false);
    let mut here = a.run(move || open(&here));
    let mut there = b.run(move || open(&PgmSocketOptions { source: None, ..there }));
    // Everything is lost until the message was sent; the heartbeats tell of it.
    b.ip("link set wire down");
    let (stop, served) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let loop_ = || here.with_duplex(&waiting(Receive::Block, &stop), Waits { served: &served }).unwrap();
        let thread = scope.spawn(loop_);
        while served.load(Ordering::Acquire) == 0 && !thread.is_finished() {
            std::thread::yield_now();
        }
        b.ip("link set wire up");
        let begin = Instant::now();
        let mut buffer = [0; 100];
        let mut heard = false;
        while !heard && begin.elapsed() < PATIENCE {
            heard =
                matches!(there.receive(&mut buffer, Duration::from_millis(50)).unwrap(), pgm_io::Incoming::Event(_));
        }
        stop.store(true, Ordering::Relaxed);
        assert!(heard, "no heartbeat came: {:?}", there.counts());
    });
    assert!(here.counts().source.spms > 1);
}

#[test]
fn the_rate_is_kept_and_naks_are_served_meanwhile() {
    let Some((a, b)) = two_hosts("the_rate_is_kept_and_naks_are_served_meanwhile") else { return };
    b.lose();
    let (mut here, there) = ends(UDP, false);
    let rate = 2_000_000;
    let source = here.source.as_mut().unwrap();
    source.max_bytes_per_second = rate;
    here.receiver = None;
    let mut here = a.run(move || open(&here));
    let mut there = b.run(move || open(&PgmSocketOptions { source: None, ..there }));
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let (mut next, mut buffer) = (0, [0; 2000]);
            let begin = Instant::now();
            while next < 500 && begin.elapsed() < PATIENCE {
                if let pgm_io::Incoming::Message(got) = there.receive(&mut buffer, Duration::from_millis(100)).unwrap()
                {
                    assert_eq!(&buffer[..got.bytes], message(next, 1000));
                    next += 1;
                }
            }
            next
        });
        let begin = Instant::now();
        for number in 0..500 {
            here.send(&message(number, 1000)).unwrap();
        }
        let (seconds, bytes) = (begin.elapsed().as_secs_f64(), here.counts().source.bytes as f64);
        // The bucket may be emptied at once.
        assert!(bytes - 65_536.0 <= seconds * rate as f64 * 1.05, "{bytes} bytes in {seconds} s");
        while !receiver.is_finished() {
            here.drive(Duration::from_millis(5)).unwrap();
        }
        assert_eq!(receiver.join().unwrap(), 500);
    });
    assert!(here.counts().source.rdata > 0 && there.counts().receiver.lost == 0);
}

#[test]
fn routers_are_alerted_as_the_protocol_says() {
    let Some((a, b)) = two_hosts("routers_are_alerted_as_the_protocol_says") else { return };
    for (v6, alerted) in [(false, true), (true, true), (false, false)] {
        for host in [&a, &b] {
            host.count_alerts();
        }
        b.lose();
        let (here, there) = ends(if alerted { RAW } else { UDP }, v6);
        let mut here = a.run(move || open(&PgmSocketOptions { receiver: None, ..here }));
        let mut there = b.run(move || open(&PgmSocketOptions { source: None, ..there }));
        let payload = here.packet_payload_bytes().unwrap();
        let mut buffer = [0; 2000];
        let (mut next, begin) = (0, Instant::now());
        while there.counts().receiver.recovered < 3 && begin.elapsed() < PATIENCE {
            // The longest that goes into one packet, so that a repair with its option is not cut in two.
            here.send(&message(next, payload)).unwrap();
            next += 1;
            let _ = there.receive(&mut buffer, Duration::from_millis(1)).unwrap();
            here.drive(Duration::from_millis(1)).unwrap();
        }
        assert!(there.counts().receiver.recovered >= 3, "{:?}", there.counts());
        here.drive(Duration::from_millis(20)).unwrap();
        let (source, naks) = (here.counts().source, there.counts().receiver.naks);
        let (from_there, from_here) = (a.alerts(), b.alerts());
        if alerted {
            assert_eq!(from_here, source.spms + source.ncfs + source.rdata, "{source:?}");
            assert!(naks > 0 && from_there >= 1 && from_there <= naks, "{from_there} {naks}");
        } else {
            assert_eq!((from_here, from_there), (0, 0));
        }
        a.lose_no_more();
        b.lose_no_more();
    }
}

#[test]
fn raw_sockets_are_refused_to_whoever_may_not() {
    let Some((a, _b)) = two_hosts("raw_sockets_are_refused_to_whoever_may_not") else { return };
    let error = a.run(|| {
        // SAFETY: no pointers; the call changes the credentials of this thread alone, unlike the C library's function.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) }, 0);
        let (raw, _) = ends(RAW, false);
        let error = PgmSocket::open(&raw).unwrap_err();
        // UDP needs no privilege, and takes the buffers that it gets.
        let (udp, _) = ends(UDP, false);
        drop(open(&udp));
        error
    });
    let text = error.to_string();
    assert!(matches!(error, PgmIoError::Net(net::NetError::RawNotPermitted { protocol: 113 })), "{text}");
    assert!(text.contains("CAP_NET_RAW") && text.contains("use UDP") && !text.contains('\n'), "{text}");
}

#[test]
fn ipv6_groups_on_the_loopback_interface() {
    let Some(host) = one_host("ipv6_groups_on_the_loopback_interface") else { return };
    let group = "ff08::79:3".parse().unwrap();
    let alone = |carrier| {
        let end = PgmSocketOptions::new(carrier, "::1".parse().unwrap());
        [end.clone().publish(tsi(1), 7500, group), end.subscribe(7500, group)]
    };
    // Linux makes no route for groups there: neither end may take that for a network on which nothing comes.
    for options in alone(UDP).into_iter().chain(alone(RAW)) {
        let error = host.run(move || PgmSocket::open(&options).unwrap_err()).to_string();
        assert!(error.contains("'ip -6 route add local ff00::/8 dev lo table local'"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    host.ip("-6 route add local ff00::/8 dev lo table local");
    for carrier in [UDP, RAW] {
        host.lose();
        let [source, receiver] = alone(carrier);
        let mut there = host.run(move || open(&receiver));
        let mut here = host.run(move || open(&source));
        let (mut buffer, mut next, begin) = ([0; 100], 0, Instant::now());
        for sent in 0..300 {
            here.send(&message(sent, 100)).unwrap();
            here.drive(Duration::from_micros(100)).unwrap();
        }
        while next < 300 && begin.elapsed() < PATIENCE {
            match there.receive(&mut buffer, Duration::from_millis(1)).unwrap() {
                pgm_io::Incoming::Message(_) => {
                    // Without OPT_JOIN what was lost before the first packet heard is not asked for.
                    assert!(number(&buffer) == next || next == 0, "{carrier:?}: {} for {next}", number(&buffer));
                    next = number(&buffer) + 1;
                }
                _ => here.drive(Duration::from_millis(1)).unwrap(),
            }
        }
        assert_eq!((next, there.counts().receiver.lost), (300, 0), "{carrier:?}: {:?}", there.counts());
        assert!(there.counts().receiver.recovered > 0 && host.lost() > 0, "{carrier:?}: {:?}", there.counts());
        host.lose_no_more();
    }
}

#[test]
fn a_clock_of_ones_own_is_used() {
    let Some((a, _b)) = two_hosts("a_clock_of_ones_own_is_used") else { return };
    let way = a.run(|| open(&ends(UDP, false).0));
    let before = clock().ns(clock().now());
    let now = way.now_ns();
    assert!(before <= now && now <= clock().ns(clock().now()));
}

/// Three forged packets: an SPM whose path is a broadcast address, which the kernel refuses to send to, and a gap. NAKs go to
/// where the data come from, unless routers are said to write paths.
#[test]
fn a_path_that_nothing_can_be_sent_to_ends_nobody() {
    use pgm::Sqn;
    use pgm::packet::{Body, Data, Options, Packet, Spm};
    let Some((a, b)) = two_hosts("a_path_that_nothing_can_be_sent_to_ends_nobody") else { return };
    let (_, there) = ends(UDP, false);
    let group = there.receiver.unwrap().group;
    // Only a subscriber, and one that publishes too, as a reflector does.
    for (publishes, nak_path) in [(false, NakPath::Spm), (true, NakPath::Spm), (true, NakPath::Data)] {
        let mut options = there.clone();
        if !publishes {
            options.source = None;
        }
        options.receiver.as_mut().unwrap().nak_path = nak_path;
        let mut way = b.run(move || open(&options));
        let forge = || {
            a.run(move || {
                let socket = std::net::UdpSocket::bind(("10.79.0.1", 0)).unwrap();
                let spm = Spm { sqn: Sqn(1), trail: Sqn(0), lead: Sqn(u32::MAX), path: "10.79.0.255".parse().unwrap() };
                let data = |sqn| Body::Odata(Data { sqn: Sqn(sqn), trail: Sqn(0), payload: b"x" });
                for body in [Body::Spm(spm), data(0), data(5)] {
                    let mut buffer = [0; 200];
                    let packet = Packet { tsi: tsi(9), data_port: 7500, body, options: Options::default() };
                    let length = packet.write(&mut buffer).unwrap();
                    socket.send_to(&buffer[..length], (group, 3056)).unwrap();
                }
            });
        };
        forge();
        let mut buffer = [0; 100];
        let (until, mut forged) = (Instant::now() + PATIENCE, Instant::now());
        let mut messages = 0;
        let refused = |way: &PgmSocket| if nak_path == NakPath::Spm { way.counts().naks_unsent } else { u64::MAX };
        while (refused(&way) < 3 || way.counts().receiver.naks < 3) && Instant::now() < until {
            if let pgm_io::Incoming::Message(_) = way.receive(&mut buffer, Duration::from_millis(20)).unwrap() {
                messages += 1;
            }
            // A new link drops what is sent before the kernel has noticed its carrier.
            if messages == 0 && forged.elapsed() > Duration::from_secs(1) {
                eprintln!("RETRIED forged packets: none came within a second");
                forge();
                forged = Instant::now();
            }
        }
        let counts = way.counts();
        assert!((counts.naks_unsent >= 3) == (nak_path == NakPath::Spm) && counts.receiver.naks >= 3, "{counts:?}");
        assert_eq!(messages, 1);
    }
}

/// The end of a measurement is announced, and nobody is waited for who might ask for repairs: SPMs beyond the announcing
/// ones would be those of such a wait.
#[test]
fn a_measurement_ends_with_its_announcement() {
    let Some(host) = one_host("a_measurement_ends_with_its_announcement") else { return };
    let mut spec = model::PgmSpec::new("239.192.79.1".parse().unwrap());
    spec.heartbeat_us = 50_000;
    let (closed, spms) = host.run(move || {
        let options = PgmSocketOptions::of(&pgm_io::Ends {
            spec: &spec,
            end: &model::EndSpec::default(),
            ttl: None,
            local: "127.0.0.1".parse().unwrap(),
            interface: None,
            publish: (tsi(1), spec.group),
            subscribe: (spec.reply_group(), 1),
            clock: clock(),
        });
        let mut way = open(&options.unwrap());
        way.send(b"x").unwrap();
        let before = way.counts().source.spms;
        let closed = way.close(PATIENCE).unwrap();
        (closed, way.counts().source.spms - before)
    });
    assert!(closed);
    assert_eq!(spms, 3);
}
