//! What a packet costs: two stacks in one thread hand each other frames, without driver and clock.
//!
//! `cargo bench -p windhover-stack --bench cost -- [ROUNDS]`. A leg is one message from one application to the other:
//! its send call, the frame written, the frame read, the receive call.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use stack::{Config, Hop, Instant, ReceiveChecksum, Stack, TcpOptions, TcpSocket, UdpOptions, UdpSocket};
use std::error::Error;
use std::hint::black_box;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant as Clock;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Nanoseconds of virtual time that a leg takes.
const LEG: u64 = 10_000;

struct Pair {
    stacks: [Stack; 2],
    now: Instant,
    frame: Vec<u8>,
}

fn ip(number: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, number + 1])
}

impl Pair {
    fn new(checksum: ReceiveChecksum) -> Self {
        let stack = |number: u8| {
            let config = Config::new([2, 0, 0, 0, 0, number], vec![ip(number)], [7; 16]);
            let mut stack = Stack::new(Config { receive_checksum: checksum, ..config });
            stack.set_hop(ip(1 - number), Hop { mac: [2, 0, 0, 0, 0, 1 - number], mtu: 1500, source: ip(number) });
            stack
        };
        Self { stacks: [stack(0), stack(1)], now: Instant(1_000_000_000), frame: vec![0; 2048] }
    }

    /// Carries all frames from one stack to the other; how many.
    #[inline(always)]
    fn carry(&mut self, from: usize) -> usize {
        let mut frames = 0;
        while let Some(length) = self.stacks[from].poll_transmit(self.now, &mut self.frame) {
            let _ = self.stacks[1 - from].handle_frame(self.now, &self.frame[..length]);
            frames += 1;
        }
        frames
    }

    fn exchange(&mut self) {
        while self.carry(0) + self.carry(1) > 0 {}
    }

    fn connect(&mut self, idle: u16, options: TcpOptions) -> Result<[TcpSocket; 2]> {
        let listener = self.stacks[1].tcp_listen(SocketAddr::new(ip(1), 80), false, 65_000, options)?;
        let mut last = None;
        for port in 0..=idle {
            let from = SocketAddr::new(ip(0), 1024 + port);
            last = Some(self.stacks[0].tcp_connect(self.now, from, SocketAddr::new(ip(1), 80), options)?);
            self.exchange();
        }
        let mut accepted = None;
        while let Ok(socket) = self.stacks[1].tcp_accept(listener) {
            accepted = Some(socket);
        }
        self.now = self.now.after(1_000_000_000);
        for stack in &mut self.stacks {
            stack.handle_timeout(self.now);
        }
        self.exchange();
        Ok([last.ok_or("no connection")?, accepted.ok_or("nothing accepted")?])
    }
}

/// Runs of which the fastest counts: other programs make runs longer, never shorter.
const RUNS: u32 = 30;

/// The fastest of some runs.
fn fastest(rounds: u32, mut run: impl FnMut(u32) -> Result<f64>) -> Result<f64> {
    (0..RUNS).try_fold(f64::INFINITY, |best, _| Ok(best.min(run(rounds / RUNS)?)))
}

/// Round trips of small messages; ns and frames a leg.
fn ping_pong(pair: &mut Pair, sockets: [TcpSocket; 2], bytes: usize, rounds: u32) -> Result<(f64, f64)> {
    let mut each = 0.0;
    let ns = fastest(rounds, |rounds| {
        let (ns, frames) = ping_pong_once(pair, sockets, bytes, rounds)?;
        each = frames;
        Ok(ns)
    })?;
    Ok((ns, each))
}

fn ping_pong_once(pair: &mut Pair, sockets: [TcpSocket; 2], bytes: usize, rounds: u32) -> Result<(f64, f64)> {
    let message = vec![7; bytes];
    let mut buffer = vec![0; bytes + 1];
    let (mut frames, begin) = (0, Clock::now());
    for _ in 0..rounds {
        for from in [0, 1] {
            pair.stacks[from].tcp_send(sockets[from], black_box(&message), false)?;
            frames += pair.carry(from);
            pair.now = pair.now.after(LEG);
            pair.stacks[1 - from].handle_timeout(pair.now);
            let got = pair.stacks[1 - from].tcp_receive(sockets[1 - from], &mut buffer)?;
            assert_eq!(black_box(got), bytes);
        }
    }
    let legs = f64::from(rounds) * 2.0;
    #[expect(clippy::cast_precision_loss, reason = "a count of frames")]
    let each = frames as f64 / legs;
    Ok((begin.elapsed().as_secs_f64() * 1e9 / legs, each))
}

/// The same, with the pieces of a leg timed apart, each over many legs: send, transmit, handle, receive.
fn pieces(pair: &mut Pair, sockets: [TcpSocket; 2], bytes: usize, rounds: u32) -> Result<[f64; 4]> {
    let message = vec![7; bytes];
    let mut buffer = vec![0; bytes + 1];
    let mut sums = [0.0; 4];
    let empty = {
        let begin = Clock::now();
        for _ in 0..1000 {
            black_box(Clock::now());
        }
        begin.elapsed().as_secs_f64() / 1000.0
    };
    for round in 0..rounds {
        let from = usize::from(round % 2 == 1);
        let (own, other) = (sockets[from], sockets[1 - from]);
        let start = Clock::now();
        pair.stacks[from].tcp_send(own, black_box(&message), false)?;
        let sent = Clock::now();
        let length = pair.stacks[from].poll_transmit(pair.now, &mut pair.frame).ok_or("nothing was sent")?;
        let written = Clock::now();
        let _ = pair.stacks[1 - from].handle_frame(pair.now, &pair.frame[..length]);
        let read = Clock::now();
        black_box(pair.stacks[1 - from].tcp_receive(other, &mut buffer)?);
        let received = Clock::now();
        for (sum, (early, late)) in
            sums.iter_mut().zip([(start, sent), (sent, written), (written, read), (read, received)])
        {
            *sum += (late - early).as_secs_f64() - empty;
        }
        pair.now = pair.now.after(LEG);
    }
    Ok(sums.map(|sum| sum * 1e9 / f64::from(rounds)))
}

fn udp(pair: &mut Pair, bytes: usize, rounds: u32) -> Result<f64> {
    let mut sockets: Vec<UdpSocket> = Vec::new();
    for number in [0, 1] {
        let at = SocketAddr::new(ip(number), 5000);
        sockets.push(pair.stacks[usize::from(number)].udp_bind(at, false, UdpOptions::default())?);
    }
    for number in [0, 1] {
        let to = SocketAddr::new(ip(1 - number), 5000);
        pair.stacks[usize::from(number)].udp_connect(sockets[usize::from(number)], Some(to))?;
    }
    let message = vec![7; bytes];
    let mut buffer = vec![0; bytes + 1];
    fastest(rounds, |rounds| {
        let begin = Clock::now();
        for _ in 0..rounds {
            for from in [0, 1] {
                let stack = &mut pair.stacks[from];
                let length = stack.udp_send_frame(sockets[from], None, black_box(&message), &mut pair.frame)?;
                let _ = pair.stacks[1 - from].handle_frame(pair.now, &pair.frame[..length]);
                let got = pair.stacks[1 - from].udp_receive(sockets[1 - from], &mut buffer)?;
                assert_eq!(black_box(got.length), bytes);
            }
        }
        Ok(begin.elapsed().as_secs_f64() * 1e9 / f64::from(rounds) / 2.0)
    })
}

/// Megabytes a second from one application to the other.
fn bulk(pair: &mut Pair, sockets: [TcpSocket; 2], seconds: f64) -> Result<f64> {
    let message = vec![7; 65_536];
    let mut buffer = vec![0; 65_536];
    let (begin, mut bytes) = (Clock::now(), 0_u64);
    while begin.elapsed().as_secs_f64() < seconds {
        for _ in 0..100 {
            let _ = pair.stacks[0].tcp_send(sockets[0], &message, false);
            pair.exchange();
            pair.now = pair.now.after(LEG);
            while let Ok(count) = pair.stacks[1].tcp_receive(sockets[1], &mut buffer) {
                bytes += count as u64;
            }
            for stack in &mut pair.stacks {
                stack.handle_timeout(pair.now);
            }
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "megabytes")]
    let megabytes = bytes as f64 / 1e6;
    Ok(megabytes / begin.elapsed().as_secs_f64())
}

fn main() -> Result<()> {
    let rounds: u32 =
        std::env::args().filter(|word| word != "--bench").nth(1).map_or(Ok(300_000), |text| text.parse())?;
    let nodelay = TcpOptions { nodelay: true, ..TcpOptions::default() };
    let small = TcpOptions { send_buffer: 16_384, receive_buffer: 16_384, ..nodelay };
    println!("| what | ns a leg | frames a leg |\n|---|---|---|");
    for (name, options, idle, bytes, checksum) in [
        ("TCP 32 B", nodelay, 0, 32, ReceiveChecksum::Verify),
        ("TCP 32 B, checksums not verified", nodelay, 0, 32, ReceiveChecksum::Skip),
        ("TCP 32 B, no time stamps", TcpOptions { timestamps: false, ..nodelay }, 0, 32, ReceiveChecksum::Verify),
        ("TCP 1400 B", nodelay, 0, 1400, ReceiveChecksum::Verify),
        ("TCP 32 B beside 1,000 idle connections", small, 1000, 32, ReceiveChecksum::Verify),
        ("TCP 32 B beside 20,000 idle connections", small, 20_000, 32, ReceiveChecksum::Verify),
    ] {
        let mut pair = Pair::new(checksum);
        let sockets = pair.connect(idle, options)?;
        let (ns, frames) = ping_pong(&mut pair, sockets, bytes, rounds)?;
        println!("| {name} | {ns:.0} | {frames:.2} |");
    }
    for bytes in [32, 1400] {
        println!("| UDP {bytes} B | {:.0} | 1.00 |", udp(&mut Pair::new(ReceiveChecksum::Verify), bytes, rounds)?);
    }
    let mut pair = Pair::new(ReceiveChecksum::Verify);
    let sockets = pair.connect(0, nodelay)?;
    let _ = ping_pong(&mut pair, sockets, 32, 1000)?;
    let [send, transmit, handle, receive] = pieces(&mut pair, sockets, 32, rounds)?;
    println!("\nTCP 32 B, ns: send {send:.0}, transmit {transmit:.0}, handle {handle:.0}, receive {receive:.0}");
    let mut pair = Pair::new(ReceiveChecksum::Verify);
    let sockets = pair.connect(0, nodelay)?;
    println!("TCP bulk: {:.0} MB/s", bulk(&mut pair, sockets, 1.0)?);
    Ok(())
}
