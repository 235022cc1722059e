//! After their start, source and receiver allocate nothing: neither for data, nor for repairs, nor for a new source.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use pgm::packet::{Body, Data, Fragment, Nak, NakList, Options, Packet, ParityParameters, Spm};
use pgm::receiver::SessionEvent;
use pgm::{Gsi, Receiver, ReceiverConfig, Source, SourceConfig, Sqn, Tsi, fec};
use std::net::IpAddr;

const MS: u64 = 1_000_000;

/// A source, a receiver, and a path between them that loses every Nth packet, in buffers that are there already.
struct LossyPath {
    source: Source,
    receiver: Receiver,
    now: u64,
    every: u32,
    passed: u32,
    datagram: Vec<u8>,
    message: Vec<u8>,
    messages: u64,
    lost: u64,
    ended: bool,
    sources: u32,
}

fn address() -> IpAddr {
    "192.0.2.1".parse().unwrap()
}

fn config(port: u16, parity: Option<fec::Config>) -> SourceConfig {
    let tsi = Tsi { gsi: Gsi([1, 2, 3, 4, 5, 6]), port };
    let config = SourceConfig::new(tsi, 7500, "239.192.0.1".parse().unwrap(), address());
    SourceConfig { window_packets: 256, join_packets: Some(10), fec: parity, ..config }
}

impl LossyPath {
    fn new(config: SourceConfig) -> Self {
        let to = ReceiverConfig {
            window_packets: 256,
            max_sources: 2,
            expiry_ns: 1000 * MS,
            parity: config.fec.is_some(),
            ..ReceiverConfig::new(7500, config.group, 1)
        };
        Self {
            source: Source::new(config, 0).unwrap(),
            receiver: Receiver::new(to).unwrap(),
            now: 0,
            every: 7,
            passed: 0,
            datagram: vec![0; 2000],
            message: vec![0; 70_000],
            messages: 0,
            lost: 0,
            ended: false,
            sources: 0,
        }
    }

    fn passes(&mut self) -> bool {
        self.passed += 1;
        !self.passed.is_multiple_of(self.every)
    }

    fn run(&mut self, until: u64) {
        while self.now < until {
            while let Some(out) = self.source.poll_transmit(self.now, &mut self.datagram) {
                // SPMs always pass, so that the end is not missed.
                let spm = matches!(Packet::parse(&self.datagram[..out.length]).unwrap().body, Body::Spm(_));
                if self.passes() || spm {
                    self.receiver.handle_datagram(self.now, address(), &self.datagram[..out.length]).unwrap();
                }
            }
            self.receiver.handle_timeout(self.now);
            while let Some(out) = self.receiver.poll_transmit(self.now, &mut self.datagram) {
                if self.passes() {
                    self.source.handle_datagram(self.now, &self.datagram[..out.length]).unwrap();
                }
            }
            while self.receiver.next_message(&mut self.message).is_some() {
                self.messages += 1;
            }
            while let Some(event) = self.receiver.poll_event() {
                match event.what {
                    SessionEvent::Lost { count, .. } => self.lost += u64::from(count),
                    SessionEvent::Finished => self.ended = true,
                    SessionEvent::Found => self.sources += 1,
                    _ => {}
                }
            }
            self.now += MS / 10;
        }
    }
}

fn exercise(way: &mut LossyPath, next: Source) {
    // What is no packet, and what is somebody else's.
    let _ = way.receiver.handle_datagram(0, address(), b"no packet at all");
    let _ = way.source.handle_datagram(0, &[0; 40]);
    way.run(MS);
    for number in 0..500_usize {
        // Every tenth is longer than a packet.
        let bytes = if number.is_multiple_of(10) { 5000 } else { 64 };
        way.source.send(&[7; 5000][..bytes]).unwrap();
        way.run(way.now + MS / 2);
    }
    // A silence that loses much at once: lists of NAKs.
    way.every = 1;
    for _ in 0..100 {
        way.source.send(b"nobody hears this at first").unwrap();
        way.run(way.now + MS / 10);
    }
    way.every = 7;
    way.run(way.now + 200 * MS);
    way.source.close();
    way.run(way.now + 200 * MS);
    // Another source on the place of the one that ended.
    way.source = next;
    way.run(way.now + 1500 * MS);
    for _ in 0..100 {
        way.source.send(b"again").unwrap();
        way.run(way.now + MS);
    }
    way.source.abort(1);
    way.run(way.now + 100 * MS);
}

fn nothing_is_allocated(parity: Option<fec::Config>) {
    let mut way = LossyPath::new(config(1, parity));
    let next = Source::new(config(2, parity), 0).unwrap();
    let info = allocation_counter::measure(|| exercise(&mut way, next));
    assert_eq!(info.count_total, 0, "{info:?}");
    let counts = way.receiver.counts();
    assert!(
        way.messages >= 690 && counts.recovered > 100 && way.ended && way.sources == 2,
        "{} {counts:?}",
        way.messages
    );
    // At least that much was asked for, or came unasked; without parity nothing of it.
    assert!(counts.numbers_asked + counts.parity_asked + counts.parity_packets > 100, "{counts:?}");
    let least = if parity.is_some() { 20 } else { 0 };
    assert!(counts.recovered_by_parity >= least && (least > 0) == (counts.parity_packets > 0), "{counts:?}");
}

#[test]
fn by_selective_repair() {
    nothing_is_allocated(None);
}

#[test]
fn by_parity() {
    nothing_is_allocated(Some(fec::Config::default()));
}

#[test]
fn by_unasked_parity_and_short_groups() {
    let parity =
        fec::Config { group_packets: 8, proactive_packets: 2, group_pause_ns: Some(10 * MS), ..fec::Config::default() };
    nothing_is_allocated(Some(parity));
}

#[test]
fn by_unasked_parity_and_single_packets() {
    let parity = fec::Config { proactive_packets: 1, on_demand: false, ..fec::Config::default() };
    nothing_is_allocated(Some(parity));
}

/// Numbers that look random (xorshift, Marsaglia 2003).
struct Dice {
    state: u64,
    /// Where most sequence numbers are.
    here: u32,
}

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        u32::try_from((self.state >> 32) % u64::from(sides)).unwrap()
    }

    /// Mostly near, sometimes anywhere.
    fn sqn(&mut self) -> Sqn {
        let anywhere = self.roll(2000) == 0;
        Sqn(if anywhere { self.roll(u32::MAX) } else { self.here + self.roll(300) })
    }
}

/// A packet that fits together as little as it can: its length.
fn nonsense(dice: &mut Dice, datagram: &mut [u8]) -> usize {
    let numbers: [Sqn; 62] = std::array::from_fn(|_| dice.sqn());
    let data = Data { sqn: dice.sqn(), trail: dice.sqn(), payload: &[9; 1448][..dice.roll(1449) as usize] };
    let nak = Nak { sqn: dice.sqn(), source: address(), group: address() };
    let (body, list) = match dice.roll(8) {
        0..=2 => (Body::Odata(data), 0),
        3 => (Body::Rdata(data), 0),
        4 => (Body::Nak(nak), dice.roll(63)),
        5 => (Body::Ncf(nak), dice.roll(63)),
        6 => (Body::Spmr, 0),
        _ => (Body::Spm(Spm { sqn: dice.sqn(), trail: dice.sqn(), lead: dice.sqn(), path: address() }), 0),
    };
    let fragment = Fragment { first: dice.sqn(), offset: dice.roll(5000), length: dice.roll(5000) };
    let parameters = ParityParameters { proactive: dice.roll(2) == 0, on_demand: dice.roll(2) == 0, group_size: 8 };
    let options = Options {
        parity: dice.roll(4) == 0,
        variable_length: dice.roll(4) == 0,
        fragment: (dice.roll(4) == 0).then_some(fragment),
        nak_list: NakList::Numbers(&numbers[..list as usize]),
        join: (dice.roll(8) == 0).then_some(numbers[0]),
        parity_parameters: (dice.roll(8) == 0).then_some(parameters),
        current_group_size: (dice.roll(8) == 0).then_some(dice.roll(10)),
        fin: dice.roll(50) == 0,
        ..Options::default()
    };
    // The source's own session, and more than there are places for.
    let port = u16::try_from(1 + dice.roll(4)).unwrap();
    let tsi = Tsi { gsi: Gsi([1, 2, 3, 4, 5, 6]), port };
    Packet { tsi, data_port: 7500, body, options }.write(datagram).unwrap()
}

/// Memory is bounded by the windows, whatever packets come.
fn nonsense_takes_no_memory(parity: Option<fec::Config>) {
    let config = config(1, parity);
    let to = ReceiverConfig {
        window_packets: 256,
        max_sources: 2,
        expiry_ns: 20 * MS,
        parity: parity.is_some(),
        ..ReceiverConfig::new(7500, config.group, 1)
    };
    let (mut source, mut receiver) = (Source::new(config, 0).unwrap(), Receiver::new(to).unwrap());
    let (mut datagram, mut message, mut dice) =
        (vec![0; 2000], vec![0; 70_000], Dice { state: 0x9e37_79b9_7f4a_7c15, here: 0 });
    let mut answers = 0;
    let info = allocation_counter::measure(|| {
        for step in 0..6000_u64 {
            let now = step * MS / 20;
            let _ = source.send(&message[..64]);
            dice.here = u32::try_from(step / 4).unwrap();
            let length = nonsense(&mut dice, &mut datagram);
            let _ = source.handle_datagram(now, &datagram[..length]);
            let _ = receiver.handle_datagram(now, address(), &datagram[..length]);
            receiver.handle_timeout(now);
            while source.poll_transmit(now, &mut datagram).is_some() {}
            while receiver.poll_transmit(now, &mut datagram).is_some() {
                answers += 1;
            }
            while step % 8 == 0 && receiver.next_message(&mut message).is_some() {}
        }
    });
    assert_eq!(info.count_total, 0, "{info:?}");
    let counts = receiver.counts();
    assert!(answers > 100 && counts.messages > 100 && counts.overflows + counts.doubted > 10, "{answers} {counts:?}");
}

#[test]
fn nonsense_without_parity() {
    nonsense_takes_no_memory(None);
}

#[test]
fn nonsense_with_parity() {
    nonsense_takes_no_memory(Some(fec::Config::default()));
}
