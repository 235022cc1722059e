//! A caller who never waits serves its receivers all the same.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests panic")]

use pgm::packet::{Body, Nak, Options, Packet};
use pgm::{Gsi, Sqn, Tsi};
use pgm_io::{Carrier, Incoming, Way, WayOptions};
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

const GROUP: &str = "239.192.88.1";
const LIMIT: Duration = Duration::from_secs(10);

fn options(port: u16) -> WayOptions {
    WayOptions::new(Carrier::Udp { port }, "127.0.0.1".parse().unwrap())
}

#[test]
fn naks_are_served_while_messages_are_sent_one_after_the_other() {
    let me = Tsi { gsi: Gsi([1, 2, 3, 4, 5, 6]), port: 9 };
    let group: IpAddr = GROUP.parse().unwrap();
    let mut way = Way::open(&options(30_881).publish(me, 7500, group)).unwrap();
    way.send(&[1; 64]).unwrap();
    let nak = Body::Nak(Nak { sqn: Sqn(0), source: way.local(), group });
    let nak = Packet { tsi: me, data_port: 7500, body: nak, options: Options::default() };
    let mut bytes = [0; 400];
    let length = nak.write(&mut bytes).unwrap();
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.send_to(&bytes[..length], (way.local(), 30_881)).unwrap();
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
    let mut source = Way::open(&options(30_882).publish(me, 7500, group)).unwrap();
    let mut receiver = Way::open(&options(30_882).subscribe(7500, group)).unwrap();
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
