//! What recording costs: ns a sample for batches of 1024, as the ping-pong loop hands them over, and what it takes to
//! make and to finish a recorder. Run with `cargo run --release -p windhover-record --example ingest_cost`.
#![expect(clippy::print_stdout, reason = "an example that prints its measurement")]

use model::{LatencyKind, Sample, SampleFlags, TickRate};
use std::time::Instant;
use windhover_record::{Recorder, RecorderConfig};

/// Samples a batch.
const BATCH: u64 = 1024;
const BATCHES: u64 = 4000;

/// Round trips around 10 µs with a tail, and now and then a slow one.
fn rtt_ticks(random: &mut u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let bits = *random >> 32;
    let slow = if bits.is_multiple_of(20_011) { 4_000_000 } else { 0 };
    18_000 + bits % 4096 + (bits >> 12) % 4096 + ((bits >> 24) % 256) * 40 + slow
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// How often the kernel displaced this thread so far (proc_pid_status(5)); 0 where that cannot be read.
fn displaced() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let count = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

fn main() {
    let rate = TickRate::from_hz(2.1e9);
    let begun = Instant::now();
    let mut recorder = Recorder::new(RecorderConfig::new(rate, LatencyKind::RttHalf, 60_000));
    let made = begun.elapsed();
    let mut random = 1;
    let mut tick = 1_000_000;
    let mut batch = [Sample::default(); 1024];
    let mut costs = Vec::new();
    for number in 0..BATCHES {
        for (at, sample) in (0..).zip(&mut batch) {
            let rtt = rtt_ticks(&mut random);
            *sample = Sample {
                seq: number * BATCH + at,
                intended: tick,
                sent: tick,
                received: tick + rtt,
                flags: if at == 0 { SampleFlags::WARMUP } else { SampleFlags::default() },
                ..Sample::default()
            };
            tick += rtt + 200;
        }
        let before = displaced();
        let begun = Instant::now();
        recorder.ingest(std::hint::black_box(&batch));
        let cost = begun.elapsed().as_nanos() as f64;
        // A batch during which others ran says nothing about ours.
        if displaced() == before {
            costs.push(cost / BATCH as f64);
        }
    }
    let asked = Instant::now();
    let percent = recorder.interval_percent();
    let asked = asked.elapsed();
    let ended = Instant::now();
    let recorded = recorder.finish(None);
    let ended = ended.elapsed();
    let (batches, mean) = (costs.len(), costs.iter().sum::<f64>() / costs.len() as f64);
    println!(
        "ingest: {mean:.1} ns a sample (mean of {batches} undisturbed batches of {BATCHES}), {:.1} (median)",
        median(costs)
    );
    println!("make: {made:?}, interval: {asked:?} ({percent:?} %), finish: {ended:?}");
    println!("{} messages, p50 {:?} ns", recorded.messages.received, recorded.latency.p50_ns);
}
