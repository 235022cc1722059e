use super::*;
use crate::context::LiveCursor;
use crate::rounds::Plan;
use model::{LatencyKind, Protocol, Receive};
use net::{DataSocket, PathOptions};
use record::RecorderConfig;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use task::Progress;

#[test]
fn a_span_leaves_late_and_double_answers_out() {
    let sample = |sent, received, flags| Sample { sent, received, flags, ..Sample::default() };
    let samples = [
        sample(1, 1, SampleFlags::DUPLICATE),
        sample(10, 20, SampleFlags::default()),
        sample(30, 90, SampleFlags::LOST),
        sample(30, 95, SampleFlags::LATE),
        sample(100, 110, SampleFlags::default()),
    ];
    assert_eq!(span(&samples), (2, 100));
    assert_eq!(span(&[]), (0, 0));
}

const BYTES: usize = 64;

/// Echoes datagrams, or the bytes of one connection, until an empty message or the end.
fn echo(protocol: Protocol) -> SocketAddr {
    if protocol == Protocol::Udp {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            while let Ok((bytes @ 1.., from)) = socket.recv_from(&mut buffer) {
                socket.send_to(&buffer[..bytes], from).unwrap();
            }
        });
        return address;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut buffer = [0; BYTES];
        while stream.read_exact(&mut buffer).is_ok() {
            stream.write_all(&buffer).unwrap();
        }
    });
    address
}

/// Runs the measured part alone, between the samplers, and counts what it allocates.
struct Counting<'r, 'a>(SizeLoop<'r, 'a>);

impl PathVisitor for Counting<'_, '_> {
    type Output = (Result<(), PassEnd>, u64);

    fn visit<P: Path>(mut self, path: &mut P) -> (Result<(), PassEnd>, u64) {
        assert_eq!(self.0.warm_up(path), Ok(()));
        let mut rates = Vec::with_capacity(stop::MAX_PASSES);
        let mut map = MapRecorder::new(self.0.clock);
        let mut usage = UsageSampler::start(None);
        let mut end = Err(PassEnd::Stopped);
        let counted = allocation_counter::measure(|| end = self.0.measure(path, &mut map, &mut usage, &mut rates));
        let _ = usage.finish();
        (end, counted.count_total)
    }
}

#[test]
fn the_measured_part_allocates_nothing() {
    for probe in [Probe::Pingpong, Probe::Rr] {
        for protocol in [Protocol::Udp, Protocol::Tcp] {
            for receive in Receive::LINUX {
                allocates_nothing(probe, protocol, receive);
            }
        }
    }
}

fn plan(protocol: Protocol) -> Plan {
    Plan { counts_losses: protocol.counts_losses(), timeout_ns: 5_000_000_000, ..crate::rounds::tests::plan(BYTES) }
}

fn allocates_nothing(probe: Probe, protocol: Protocol, receive: Receive) {
    let clock = Clock::calibrate().unwrap();
    let mut spec = ProbeSpec::new(probe, protocol);
    (spec.warmup.time_ms, spec.warmup.count) = (0, 10);
    // More than one batch, so that recording and the pause between batches are part of it.
    (spec.stop.max_ms, spec.stop.max_count) = (30_000, 2500);
    if probe == Probe::Pingpong {
        spec.stop.interval_percent = Some(1e-9);
    }
    let plan = plan(protocol);
    let address = echo(protocol);
    let mut socket =
        DataSocket::connect(spec.socket().unwrap(), &spec.initiator, address, Duration::from_secs(5)).unwrap();
    let (stop, progress) = (AtomicBool::new(false), Progress::new());
    let mut rounds = Rounds::new(clock, plan, 1, BATCH_ROUNDS, &stop, &progress);
    let mut config = RecorderConfig::new(clock.rate(), LatencyKind::RttHalf, spec.stop.max_ms);
    config.raw_capacity = 2500;
    let mut recorder = Recorder::new(config);
    let options = PathOptions {
        receive,
        idle: model::IdleDescriptors { pipes: 2, ..Default::default() },
        clock,
        timeout_ns: plan.timeout_ns,
        stop: &stop,
    };
    let mut peer_ended = || false;
    let live = LiveProgress::default();
    live.begin(32);
    let visitor = Counting(SizeLoop {
        spec: &spec,
        clock,
        rounds: &mut rounds,
        recorder: &mut recorder,
        live: Some(&live),
        size: 32,
        socket: None,
        observers: &mut flow::PassObservers::new(),
        began: 0,
        width_percent: None,
        peer_ended: &mut peer_ended,
    });
    let (end, allocations) = net::with_path(&mut socket, &options, visitor).unwrap();
    assert_eq!(end, Ok(()), "{probe} {protocol} {receive}");
    assert_eq!(recorder.received(), 2500);
    let told = live.since(&mut LiveCursor::default()).unwrap();
    assert_eq!((told.size, told.sent, told.received, told.lost), (32, 2500, 2500, 0));
    // Nothing is known before 100 ms are over, and both afterwards.
    assert_eq!(told.rtt_p50_ns.is_some(), recorder.latest_interval()[0] > 0);
    assert!(told.rtt_p99_ns >= told.rtt_p50_ns, "{told:?}");
    assert_eq!(allocations, 0, "{probe} {protocol} {receive}");
    if protocol == Protocol::Udp {
        socket.send_once(&[], Duration::from_secs(1)).unwrap();
    }
}

/// The live line shows percentiles of the size that is measured, never those of the size before.
#[test]
fn live_percentiles_are_of_the_present_size() {
    let live = LiveProgress::default();
    let mut before = LiveCursor::default();
    let mut told = |rtt_ns: [u64; 2], elapsed_ns| {
        live.percentiles(rtt_ns);
        live.update(10, 0, elapsed_ns);
        let interval = live.since(&mut before).unwrap();
        (interval.rtt_p50_ns, interval.rtt_p99_ns)
    };
    live.begin(32);
    assert_eq!(told([0, 0], 50), (None, None));
    assert_eq!(told([21_000, 48_000], 150), (Some(21_000), Some(48_000)));
    live.begin(64);
    live.update(10, 0, 50);
    let next = live.since(&mut before).unwrap();
    assert_eq!((next.size, next.rtt_p50_ns, next.rtt_p99_ns), (64, None, None));
}

/// Measures against a peer that closes its connection after 1500 answers.
#[test]
fn a_pass_that_the_peer_cut_short_still_has_a_rate() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; BYTES];
        for _ in 0..1500 {
            stream.read_exact(&mut buffer).unwrap();
            stream.write_all(&buffer).unwrap();
        }
    });
    let clock = Clock::calibrate().unwrap();
    let mut spec = ProbeSpec::new(Probe::Rr, Protocol::Tcp);
    (spec.warmup.time_ms, spec.warmup.count, spec.stop.max_ms) = (0, 10, 30_000);
    let mut socket =
        DataSocket::connect(spec.socket().unwrap(), &spec.initiator, address, Duration::from_secs(5)).unwrap();
    let (stop, progress) = (AtomicBool::new(false), Progress::new());
    let mut rounds = Rounds::new(clock, plan(Protocol::Tcp), 1, BATCH_ROUNDS, &stop, &progress);
    let mut recorder = Recorder::new(RecorderConfig::new(clock.rate(), LatencyKind::Rtt, spec.stop.max_ms));
    let idle = model::IdleDescriptors::default();
    let options = PathOptions { receive: Receive::Block, idle, clock, timeout_ns: 5_000_000_000, stop: &stop };
    let visitor = SizeLoop {
        spec: &spec,
        clock,
        rounds: &mut rounds,
        recorder: &mut recorder,
        live: None,
        size: 32,
        socket: None,
        observers: &mut flow::PassObservers::new(),
        began: 0,
        width_percent: None,
        peer_ended: &mut || false,
    };
    let done = net::with_path(&mut socket, &options, visitor).unwrap();
    assert_eq!(done.end, PassEnd::Broken(net::PathError::Closed));
    assert!(recorder.received() > 1000);
    assert!(done.rates.len() == 1 && done.rates[0] > 0.0, "{:?}", done.rates);
}

#[test]
fn the_counter_of_allocations_counts() {
    let counted = allocation_counter::measure(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(10))));
    assert_eq!(counted.count_total, 1);
}
