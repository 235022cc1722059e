//! Two ends on the loopback interface.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, missing_docs, reason = "tests")]

use pgm::receiver::{Event, SessionEvent};
use pgm::{Gsi, Tsi};
use pgm_io::{Carrier, EventKind, Incoming, PgmIoError, PgmSocket, PgmSocketOptions};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn tsi(last: u8) -> Tsi {
    Tsi { gsi: Gsi([9, 8, 7, 6, 5, last]), port: 4321 }
}

fn options(port: u16) -> PgmSocketOptions {
    PgmSocketOptions::new(Carrier::Udp { port }, "127.0.0.1".parse().unwrap())
}

/// The next message as text; events are passed over.
fn text(way: &mut PgmSocket, other: &mut PgmSocket) -> String {
    let mut buffer = [0; 20_000];
    for _ in 0..1000 {
        match way.receive(&mut buffer, Duration::from_millis(5)).unwrap() {
            Incoming::Message(message) => return String::from_utf8_lossy(&buffer[..message.bytes]).into_owned(),
            Incoming::Event(_) | Incoming::Interrupted => {}
            Incoming::TimedOut => other.drive(Duration::from_millis(1)).unwrap(),
        }
    }
    panic!("no message came: {:?} {:?}", way.counts(), other.counts());
}

#[test]
fn both_ways_on_one_host() {
    let (there, back) = ("239.192.77.1".parse().unwrap(), "239.192.77.2".parse().unwrap());
    let mut here = PgmSocket::open(&options(30_561).publish(tsi(1), 7500, there).subscribe(7500, back)).unwrap();
    let mut far = PgmSocket::open(&options(30_561).publish(tsi(2), 7500, back).subscribe(7500, there)).unwrap();
    assert_eq!(here.local().to_string(), "127.0.0.1");
    assert_ne!(far.local(), here.local(), "NAKs must find the right end");
    here.set_peers(&[tsi(2)]).unwrap();
    far.set_peers(&[tsi(1)]).unwrap();
    for number in 0..50 {
        let message = format!("message {number}");
        here.send(message.as_bytes()).unwrap();
        assert_eq!(text(&mut far, &mut here), message);
        far.send(message.as_bytes()).unwrap();
        assert_eq!(text(&mut here, &mut far), message);
    }
    let long = "long ".repeat(2000);
    here.send(long.as_bytes()).unwrap();
    assert_eq!(text(&mut far, &mut here), long);
    let counts = (here.counts(), far.counts());
    assert_eq!((counts.0.source.odata, counts.1.source.odata), (50 + 8, 50), "10,000 bytes are 8 fragments");
    assert_eq!((counts.0.foreign, counts.1.foreign, counts.1.receiver.lost), (0, 0, 0));
}

#[test]
fn an_end_is_announced_and_told() {
    let group = "239.192.77.3".parse().unwrap();
    let mut source = PgmSocket::open(&options(30_562).publish(tsi(1), 7500, group)).unwrap();
    let mut receiver = PgmSocket::open(&options(30_562).subscribe(7500, group)).unwrap();
    source.send(b"only").unwrap();
    let closer = std::thread::spawn(move || (source.close(5 * SECOND).unwrap(), source));
    let mut buffer = [0; 100];
    let (mut messages, mut found, mut finished) = (0, false, false);
    for _ in 0..100 {
        match receiver.receive(&mut buffer, SECOND).unwrap() {
            Incoming::Message(message) => {
                messages += 1;
                assert_eq!((&buffer[..message.bytes], message.tsi, message.from), (&b"only"[..], tsi(1), 0));
                assert!(message.stack_ns > 0 && message.received_ns <= receiver.now_ns());
            }
            Incoming::Event(Event { what: SessionEvent::Found, .. }) => found = true,
            Incoming::Event(Event { what: SessionEvent::Finished, .. }) => finished = true,
            other => panic!("{other:?}"),
        }
        if finished {
            break;
        }
    }
    assert_eq!((messages, found, finished), (1, true, true));
    let (closed, source) = closer.join().unwrap();
    assert!(closed && source.counts().source.spms >= 3);
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let group = "239.192.77.4".parse().unwrap();
    let line = |error: PgmIoError| {
        let text = error.to_string();
        assert!(!text.contains('\n'), "{text}");
        text
    };
    assert!(matches!(PgmSocket::open(&options(30_563)), Err(PgmIoError::Nothing)));
    let mut six = options(30_563);
    six.network.local = "::1".parse().unwrap();
    let error = PgmSocket::open(&six.subscribe(7500, group)).unwrap_err();
    assert!(line(error).contains("different families"));
    let mut wrong = options(30_563).publish(tsi(1), 7500, group);
    wrong.source.as_mut().unwrap().window_packets = 3;
    assert!(line(PgmSocket::open(&wrong).unwrap_err()).contains("window_packets"));
    let mut deaf = PgmSocket::open(&options(30_563).publish(tsi(1), 7500, group)).unwrap();
    assert!(matches!(deaf.receive(&mut [], SECOND), Err(PgmIoError::NoReceiver)));
    assert!(matches!(deaf.set_peers(&[tsi(2)]), Err(PgmIoError::TooManyPeers { peers: 1, most: 0 })));
    let mut mute = PgmSocket::open(&options(30_563).subscribe(7500, group)).unwrap();
    assert!(matches!(mute.send(b"x"), Err(PgmIoError::NoSource)));
    // All 64 addresses of the loopback interface that are tried, from the last one.
    let mut last = options(30_563);
    last.network.local = "127.0.0.64".parse().unwrap();
    let _first = PgmSocket::open(&last.clone().publish(tsi(3), 7500, group)).unwrap();
    let error = PgmSocket::open(&last.publish(tsi(4), 7500, group)).unwrap_err();
    assert!(matches!(error, PgmIoError::AddressInUse { port: 30_563, .. }), "{error}");
    assert!(line(error).contains("127.0.0.64 port 30563"));
}

#[test]
fn one_group_for_all_and_strangers_on_it() {
    let group = "239.192.77.5".parse().unwrap();
    let end = |last| options(30_564).publish(tsi(last), 7500, group).subscribe(7500, group);
    let (mut one, mut two) = (PgmSocket::open(&end(1)).unwrap(), PgmSocket::open(&end(2)).unwrap());
    let mut stranger = PgmSocket::open(&options(30_564).publish(tsi(3), 7500, group)).unwrap();
    one.set_peers(&[tsi(4), tsi(2)]).unwrap();
    two.set_peers(&[tsi(1)]).unwrap();
    for number in 0..20 {
        let message = format!("message {number}");
        stranger.send(b"for somebody else").unwrap();
        one.send(message.as_bytes()).unwrap();
        two.send(message.as_bytes()).unwrap();
        assert_eq!(text(&mut two, &mut one), message);
        assert_eq!(text(&mut one, &mut two), message);
    }
    for way in [&one, &two] {
        let counts = way.counts();
        assert_eq!((counts.receiver.messages, counts.receiver.lost), (20, 0), "nobody hears himself: {counts:?}");
        assert!(counts.foreign >= 20, "{counts:?}");
    }
    // A number is the place among the peers.
    let found = EventKind::Session(SessionEvent::Found);
    assert!(one.events().iter().any(|event| (event.from, event.what) == (1, found)));
}

#[test]
fn what_the_kernel_drops_is_counted_and_repaired() {
    let group = "239.192.77.6".parse().unwrap();
    let mut source = PgmSocket::open(&options(30_565).publish(tsi(1), 7500, group)).unwrap();
    let mut small = options(30_565);
    small.network.receive_buffer_bytes = Some(8192);
    let mut receiver = PgmSocket::open(&small.subscribe(7500, group)).unwrap();
    source.send(b"message 0").unwrap();
    assert_eq!(text(&mut receiver, &mut source), "message 0");
    // More than its buffer holds, while it does not look.
    for number in 1..300 {
        source.send(format!("message {number}").as_bytes()).unwrap();
    }
    for number in 1..300 {
        assert_eq!(text(&mut receiver, &mut source), format!("message {number}"));
    }
    let counts = receiver.counts();
    assert!(counts.overflowed > 0 && counts.receiver.recovered > 0, "{counts:?}");
    assert_eq!(counts.receiver.lost, 0);
    assert!(receiver.repairs().iter().all(|note| note.head.starts_with(b"message ")));
}
