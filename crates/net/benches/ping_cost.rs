//! What the generic path costs beside a loop written by hand: UDP and TCP ping-pong over loopback between two pinned
//! threads, block and spin, in alternating rounds. Prints the median of RTT/2 in ns of each, and their ratio.
//!
//! `cargo bench -p windhover-net --bench ping_cost`
#![allow(clippy::unwrap_used, clippy::print_stdout, unsafe_code, reason = "a program for the developer's eyes")]

use clock::Clock;
use model::{EndSpec, IdleDescriptors, Protocol, Receive, SocketSpec};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use windhover_net::{DataListener, DataSocket, Path, PathOptions, PathVisitor, Received, with_path};

const SIZE: usize = 32;
const WARMUP: usize = 2_000;
const ROUNDS: usize = 20_000;
const PAIRS: usize = 15;

static NEVER: AtomicBool = AtomicBool::new(false);

struct Ping<'a> {
    clock: Clock,
    ticks: &'a mut Vec<u64>,
}

impl PathVisitor for Ping<'_> {
    type Output = ();

    fn visit<P: Path>(self, path: &mut P) {
        let message = [1; SIZE];
        let mut buffer = [0; SIZE];
        for round in 0..WARMUP + ROUNDS {
            let sent = self.clock.now();
            path.send(&message, false).unwrap();
            assert_eq!(path.receive(&mut buffer).unwrap(), Received::Bytes(SIZE));
            let received = self.clock.now();
            if round >= WARMUP {
                self.ticks.push(received - sent);
            }
        }
    }
}

struct Pong;

impl PathVisitor for Pong {
    type Output = ();

    fn visit<P: Path>(self, path: &mut P) {
        let mut buffer = [0; SIZE];
        for _ in 0..WARMUP + ROUNDS {
            assert_eq!(path.receive(&mut buffer).unwrap(), Received::Bytes(SIZE));
            path.send(&buffer, false).unwrap();
        }
    }
}

fn receive_by_hand(fd: i32, buffer: &mut [u8; SIZE], flags: i32) {
    // SAFETY: the buffer has SIZE bytes and lives through the call.
    while unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), SIZE, flags) } < 0 {}
}

fn send_by_hand(fd: i32, buffer: &[u8; SIZE]) {
    // SAFETY: as above.
    assert!(unsafe { libc::send(fd, buffer.as_ptr().cast(), SIZE, libc::MSG_NOSIGNAL) } > 0);
}

fn ping_by_hand(fd: i32, flags: i32, clock: Clock, ticks: &mut Vec<u64>) {
    let message = [1; SIZE];
    let mut buffer = [0; SIZE];
    for round in 0..WARMUP + ROUNDS {
        let sent = clock.now();
        send_by_hand(fd, &message);
        receive_by_hand(fd, &mut buffer, flags);
        let received = clock.now();
        if round >= WARMUP {
            ticks.push(received - sent);
        }
    }
}

fn pong_by_hand(fd: i32, flags: i32) {
    let mut buffer = [0; SIZE];
    for _ in 0..WARMUP + ROUNDS {
        receive_by_hand(fd, &mut buffer, flags);
        send_by_hand(fd, &buffer);
    }
}

fn pin(cpu: usize) {
    let mut set = nix::sched::CpuSet::new();
    set.set(cpu).unwrap();
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).unwrap();
}

fn ends(protocol: Protocol) -> (DataSocket, DataSocket) {
    let (spec, end) = (SocketSpec::new(protocol), EndSpec::default());
    let (local, patience) = ("127.0.0.1:0".parse().unwrap(), Duration::from_secs(5));
    if protocol == Protocol::Tcp {
        let listener = DataListener::bind(&spec, &end, local).unwrap();
        let here = DataSocket::connect(&spec, &end, listener.local_address(), patience).unwrap();
        return (here, listener.accept(patience).unwrap().unwrap());
    }
    let mut there = DataSocket::bind(&spec, &end, local).unwrap();
    let here = DataSocket::connect(&spec, &end, there.local_address().unwrap(), patience).unwrap();
    there.set_peer(here.local_address().unwrap()).unwrap();
    (here, there)
}

fn once(protocol: Protocol, receive: Receive, by_hand: bool, clock: Clock, ticks: &mut Vec<u64>) {
    let (mut here, mut there) = ends(protocol);
    let options =
        PathOptions { receive, idle: IdleDescriptors::default(), clock, timeout_ns: 5_000_000_000, stop: &NEVER };
    let flags = if receive == Receive::Spin { libc::MSG_DONTWAIT } else { 0 };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            if by_hand {
                pong_by_hand(there.as_fd().as_raw_fd(), flags);
            } else {
                with_path(&mut there, &options, Pong).unwrap();
            }
        });
        pin(0);
        if by_hand {
            ping_by_hand(here.as_fd().as_raw_fd(), flags, clock, ticks);
        } else {
            with_path(&mut here, &options, Ping { clock, ticks }).unwrap();
        }
    });
}

fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

fn main() {
    let clock = Clock::calibrate().unwrap();
    println!("protocol wait   by hand ns   path ns   median ratio of {PAIRS} pairs   lowest   highest");
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        for receive in [Receive::Block, Receive::Spin] {
            let (mut hand, mut path, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            let mut ticks = Vec::with_capacity(ROUNDS);
            for pair in 0..PAIRS {
                let mut medians = [0; 2];
                // Which comes first changes, so that a drift of the machine does not favour one.
                for turn in 0..2 {
                    let by_hand = (pair + turn) % 2 == 0;
                    ticks.clear();
                    once(protocol, receive, by_hand, clock, &mut ticks);
                    medians[usize::from(by_hand)] = clock.ns(median(&mut ticks)) / 2;
                }
                path.push(medians[0]);
                hand.push(medians[1]);
                ratios.push(medians[0] as f64 / medians[1] as f64);
            }
            ratios.sort_by(f64::total_cmp);
            println!(
                "{:8} {:6} {:10} {:9} {:20.3} {:18.3} {:8.3}",
                protocol.word(),
                receive.word(),
                median(&mut hand),
                median(&mut path),
                ratios[PAIRS / 2],
                ratios[0],
                ratios[PAIRS - 1]
            );
        }
    }
}
