//! A caller who never waits serves its receivers all the same.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests panic")]

use pgm::packet::{Body, Nak, Options, Packet};
use pgm::{Gsi, Sqn, Tsi};
use pgm_io::{Carrier, EventKind, Incoming, PgmSocket, PgmSocketOptions};
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

const GROUP: &str = "239.192.88.1";
const LIMIT: Duration = Duration::from_secs(60);

fn options(port: u16) -> PgmSocketOptions {
    PgmSocketOptions::new(Carrier::Udp { port }, "127.0.0.1".parse().unwrap())
}

fn nak(tsi: Tsi, sqn: Sqn, source: IpAddr, group: IpAddr) -> Vec<u8> {
    let body = Body::Nak(Nak { sqn, source, group });
    let mut bytes = vec![0; 400];
    let length = Packet { tsi, data_port: 7500, body, options: Options::default() }.write(&mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

#[test]
fn naks_are_served_while_messages_are_sent_one_after_the_other() {
    let me = Tsi { gsi: Gsi([1, 2, 3, 4, 5, 6]), port: 9 };
    let group: IpAddr = GROUP.parse().unwrap();
    let mut way = PgmSocket::open(&options(30_881).publish(me, 7500, group)).unwrap();
    way.send(&[1; 64]).unwrap();
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.send_to(&nak(me, Sqn(0), way.local(), group), (way.local(), 30_881)).unwrap();
    let begin = Instant::now();
    while way.counts().source.rdata == 0 {
        way.send(&[2; 64]).unwrap();
        assert!(begin.elapsed() < LIMIT, "no repair: {:?}", way.counts().source);
    }
    assert_eq!((way.counts().source.naks, way.counts().source.ncfs), (1, 1));
}

#[test]
fn a_receiver_that_does_not_wait_looks_at_its_sockets() {
    let me = Tsi { gsi: Gsi([6, 5, 4, 3, 2, 1]), port: 9 };
    let group = "239.192.88.2".parse().unwrap();
    let mut source = PgmSocket::open(&options(30_882).publish(me, 7500, group)).unwrap();
    let mut receiver = PgmSocket::open(&options(30_882).subscribe(7500, group)).unwrap();
    source.send(b"hello").unwrap();
    let (begin, mut buffer) = (Instant::now(), [0; 100]);
    loop {
        if let Incoming::Message(message) = receiver.receive(&mut buffer, Duration::ZERO).unwrap() {
            assert_eq!(&buffer[..message.bytes], b"hello");
            return;
        }
        assert!(begin.elapsed() < LIMIT, "nothing came: {:?}", receiver.counts());
    }
}

#[test]
fn a_nak_is_told_with_the_peer_that_sent_it() {
    let tsi = |last| Tsi { gsi: Gsi([7, 7, 7, 7, 7, last]), port: 9 };
    let [group, back]: [IpAddr; 2] = ["239.192.88.3", "239.192.88.4"].map(|text| text.parse().unwrap());
    let mut here = PgmSocket::open(&options(30_883).publish(tsi(0), 7500, group).subscribe(7500, back)).unwrap();
    let mut peers = [1, 2].map(|last| PgmSocket::open(&options(30_883).publish(tsi(last), 7500, back)).unwrap());
    here.set_peers(&[tsi(1), tsi(2)]).unwrap();
    here.send(&[1; 64]).unwrap();
    let (begin, mut buffer, mut heard) = (Instant::now(), [0; 100], [false; 2]);
    while heard != [true; 2] {
        for peer in &mut peers {
            peer.send(&[2; 64]).unwrap();
        }
        if let Incoming::Message(message) = here.receive(&mut buffer, Duration::from_millis(5)).unwrap() {
            heard[usize::from(message.from)] = true;
        }
        assert!(begin.elapsed() < LIMIT, "{:?}", here.counts());
    }
    // The second peer, the first, and somebody of whom nothing was heard; one NAK of each, the next when that is answered.
    let stranger: IpAddr = "127.0.0.99".parse().unwrap();
    for (asked, from) in (1..).zip([peers[1].local(), peers[0].local(), stranger]) {
        let receiver = UdpSocket::bind((from, 0)).unwrap();
        receiver.send_to(&nak(tsi(0), Sqn(0), here.local(), group), (here.local(), 30_883)).unwrap();
        while here.counts().source.naks < asked {
            here.drive(Duration::from_millis(1)).unwrap();
            assert!(begin.elapsed() < LIMIT, "{:?}", here.counts());
        }
    }
    let naks = here.events().into_iter().filter(|note| matches!(note.what, EventKind::NakReceived { .. }));
    assert_eq!(naks.map(|note| note.from).collect::<Vec<_>>(), [1, 0, u16::MAX]);
}
