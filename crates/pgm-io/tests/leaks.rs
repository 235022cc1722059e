//! Nothing is allocated while messages flow, also when they are lost and repaired, and nothing stays open afterwards. One
//! test in a process of its own, because descriptors are counted.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    reason = "tests panic, and say what they skip"
)]

mod support;

use model::Receive;
use net::{Arrival, DuplexVisitor, Inbox, Outbox};
use pgm_io::PgmSocket;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use support::{UDP, clock, ends, open, tsi, two_hosts, waiting};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Sends and receives on one thread, and counts what is allocated meanwhile.
struct Counted {
    messages: u32,
}

impl DuplexVisitor for Counted {
    type Output = (u32, u64);

    fn visit<O: Outbox, I: Inbox>(self, outbox: &mut O, inbox: &mut I) -> Self::Output {
        let mut buffer = vec![0; 100];
        let begin = Instant::now();
        let mut received = 0;
        let info = allocation_counter::measure(|| {
            for _ in 0..self.messages {
                outbox.send(0, &[7; 64]).unwrap();
                if let Arrival::Message(_) = inbox.look(&mut buffer).unwrap() {
                    received += 1;
                }
            }
            while received < self.messages && begin.elapsed() < Duration::from_secs(60) {
                if let Arrival::Message(_) = inbox.look(&mut buffer).unwrap() {
                    received += 1;
                }
            }
        });
        (received, info.count_total)
    }
}

struct Echo;

impl DuplexVisitor for Echo {
    type Output = u64;

    fn visit<O: Outbox, I: Inbox>(self, outbox: &mut O, inbox: &mut I) -> u64 {
        let mut buffer = vec![0; 100];
        let info = allocation_counter::measure(|| {
            loop {
                match inbox.wait(&mut buffer).unwrap() {
                    Arrival::Message(got) => outbox.send(0, &buffer[..got.bytes]).unwrap(),
                    Arrival::Stopped => break,
                    Arrival::Interrupted | Arrival::Nothing => {}
                }
            }
        });
        info.count_total
    }
}

#[test]
fn nothing_is_allocated_and_nothing_stays_open() {
    let Some((a, b)) = two_hosts("nothing_is_allocated_and_nothing_stays_open") else { return };
    a.lose();
    b.lose();
    let (here, there) = ends(UDP, false);
    let _ = clock();
    let before = descriptors();
    let none = None;
    let parity = Some(pgm::fec::Config { group_packets: 8, proactive_packets: 1, ..pgm::fec::Config::default() });
    for (receive, fec) in
        [(Receive::Block, none), (Receive::Epoll, none), (Receive::Spin, none), (Receive::Block, parity)]
    {
        let (mut here, mut there) = (here.clone(), there.clone());
        for end in [&mut here, &mut there] {
            end.source.as_mut().unwrap().fec = fec;
            end.receiver.as_mut().unwrap().parity = fec.is_some();
        }
        let mut here = a.run(move || open(&here));
        let mut there = b.run(move || open(&there));
        here.set_peers(&[tsi(2)]).unwrap();
        there.set_peers(&[tsi(1)]).unwrap();
        assert!(descriptors() > before);
        let stop = AtomicBool::new(false);
        let (counted, echoed) = std::thread::scope(|scope| {
            let echo = scope.spawn(|| there.with_duplex(&waiting(receive, &stop), Echo).unwrap());
            let counted = here.with_duplex(&waiting(Receive::Spin, &stop), Counted { messages: 2000 }).unwrap();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            (counted, echo.join().unwrap())
        });
        assert!(here.counts().receiver.recovered > 0 && there.counts().receiver.recovered > 0, "nothing was repaired");
        assert_eq!((counted, echoed), ((2000, 0), 0), "{receive} {fec:?}");
        let rebuilt = [&here, &there].map(|end| end.counts().receiver.recovered_by_parity > 0);
        assert_eq!(rebuilt, [fec.is_some(); 2]);
    }
    // Also of ways that did not open: the group is of the other family, the address is not ours, another end has it.
    let mut refused = [here.clone(), here.clone(), here.clone(), here.clone()];
    let [wrong, foreign, index, _same] = &mut refused;
    *wrong = wrong.clone().subscribe(7500, "ff15::1".parse().unwrap());
    foreign.network.local = "10.79.0.77".parse().unwrap();
    index.network.interface = 4_000_000;
    a.run(move || {
        let _first = PgmSocket::open(&here).unwrap();
        for options in refused {
            let error = PgmSocket::open(&options).unwrap_err().to_string();
            assert!(!error.contains('\n'), "{error}");
        }
    });
    assert_eq!(descriptors(), before);
}
