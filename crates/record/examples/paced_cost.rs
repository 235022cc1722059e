//! What recording `pace` costs: ns a message at 40,000 a second, and how long the log of an hour would be. Run with
//! `cargo run --release -p windhover-record --example paced_cost`.
#![expect(clippy::print_stdout, reason = "an example that prints its measurement")]

use model::{LatencyKind, PacedSample, Sample, TickRate};
use std::time::Instant;
use windhover_record::{Paced, PacedConfig, PacedPeer, PeerClock};

/// Messages a batch and batches: 30 s.
const BATCH: usize = 1024;
const BATCHES: u64 = 1172;
const RATE_PPS: f64 = 40_000.0;

fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 32
}

/// Around a value with a spread, and with a long tail once in a hundred.
fn ticks(random: &mut u64, around: u64) -> u64 {
    let bits = next(random);
    let tail = if bits.is_multiple_of(101) { (next(random) % 1024).pow(2) } else { 0 };
    around + bits % (around / 2) + (bits >> 16) % (around / 4) + tail
}

fn cost(name: &str, clock: PeerClock) {
    let rate = TickRate::from_hz(2.1e9);
    let mut config = PacedConfig::new(rate, LatencyKind::Rtt, RATE_PPS);
    config.peers = vec![PacedPeer { host: String::new(), clock }];
    let period = rate.ticks(config.period_ns);
    let begun = Instant::now();
    let mut paced = Paced::new(config);
    let made = begun.elapsed();
    paced.begin(1_000_000);
    let (mut random, mut seq) = (1, 0);
    let mut batch = [PacedSample::default(); BATCH];
    let mut costs = Vec::new();
    for _ in 0..BATCHES {
        for one in &mut batch {
            let intended = 1_000_000 + seq * period;
            let sent = intended + ticks(&mut random, 8_000);
            let rtt = ticks(&mut random, 20_000);
            one.sample = Sample {
                seq,
                intended,
                sent,
                received: sent + rtt,
                peer_rx: sent + rtt / 2 - 1000,
                peer_tx: sent + rtt / 2 + 1000,
                ..Sample::default()
            };
            seq += 1;
        }
        let begun = Instant::now();
        paced.ingest(std::hint::black_box(&batch));
        costs.push(begun.elapsed().as_nanos() as f64 / BATCH as f64);
        std::hint::black_box(paced.intervals());
    }
    let ended = Instant::now();
    let recorded = paced.finish(None);
    let ended = ended.elapsed();
    let mean = costs.iter().sum::<f64>() / costs.len() as f64;
    costs.sort_by(f64::total_cmp);
    let hour = recorded.hlog.len() as f64 / (seq as f64 / RATE_PPS) * 3600.0 / 1e6;
    println!(
        "{name}: {mean:.1} ns a message (mean), {:.1} (median batch), worst batch {:.0} µs; make {made:?}, finish {ended:?}; an hour's log {hour:.1} MB",
        costs.get(costs.len() / 2).copied().unwrap_or(f64::NAN),
        costs.last().copied().unwrap_or(f64::NAN) * BATCH as f64 / 1e3,
    );
}

fn main() {
    cost("no clock", PeerClock::Unknown);
    cost("same counter", PeerClock::SameCounter);
    cost("another clock", PeerClock::Other(TickRate::from_hz(2.1e9)));
}
