//! How many packets a second the simulator carries: sockets, clocks and threads have no part in it, so this is what the
//! engines and the simulated network cost.
//!
//! `cargo bench -p windhover-pgm --bench sim_rate -- [seconds each [row]]`: one row of the table only, for profilers.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use pgm::sim::{Keep, Link, Network, Station};
use pgm::{ReceiverConfig, SourceConfig, Tsi};
use std::error::Error;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// One setting: bytes a message, receivers, share of packets lost on each receiver's link.
const SETTINGS: [(usize, usize, f64); 6] =
    [(64, 1, 0.0), (64, 1, 0.01), (64, 4, 0.0), (64, 4, 0.01), (1448, 1, 0.0), (1448, 4, 0.01)];
/// Messages between two looks at the wall clock.
const ROUND: u32 = 10_000;
/// A message each 2 µs of virtual time.
const EVERY_NS: u64 = 2_000;

struct Outcome {
    packets: u64,
    messages: u64,
    took: Duration,
    cpu: Option<Duration>,
}

/// CPU time of this thread so far, where the system tells it (Linux, proc(5): schedstat): a busy machine stretches the wall
/// clock, but not this.
fn cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn measure(bytes: usize, receivers: usize, lost: f64, seconds: f64) -> Result<Outcome, Box<dyn Error>> {
    let group: IpAddr = "239.192.0.1".parse()?;
    let address = |number: usize| format!("192.0.2.{number}").parse::<IpAddr>();
    // A link that is never the limit: 100 Gbit/s.
    let link = Link { bytes_per_second: 12_500_000_000, ..Link::default() };
    let mut network = Network::new(1);
    let config = SourceConfig {
        max_bytes_per_second: 10_000_000_000,
        peak_bytes_per_second: 12_500_000_000,
        ..SourceConfig::new(Tsi::default(), 7500, group, address(1)?)
    };
    let source = network.add(address(1)?, link, Station::source(config)?);
    let mut nodes = Vec::new();
    for number in 0..receivers {
        let config = ReceiverConfig { max_sources: 1, ..ReceiverConfig::new(7500, group, number as u64) };
        let mut station = Station::receiver(config)?;
        station.keep = Keep::Nothing;
        let node = network.add(address(number + 2)?, Link { lost, ..link }, station);
        network.join(node, group);
        nodes.push(node);
    }
    network.run_for(10_000_000)?;
    let message = vec![7; bytes];
    let before = network.arrived();
    let (begin, cpu_before) = (Instant::now(), cpu());
    while begin.elapsed().as_secs_f64() < seconds {
        for _ in 0..ROUND {
            network.node_mut(source).publish(&message)?;
            network.run_for(EVERY_NS)?;
        }
    }
    let (took, packets) = (begin.elapsed(), network.arrived() - before);
    let cpu = cpu().zip(cpu_before).map(|(after, before)| after.saturating_sub(before));
    let messages = nodes.iter().map(|node| network.node(*node).counts().messages).sum();
    let lost: u64 = nodes.iter().map(|node| network.node(*node).counts().lost).sum();
    if lost > 0 {
        return Err(format!("{lost} messages were lost for good").into());
    }
    Ok(Outcome { packets, messages, took, cpu })
}

fn main() -> Result<(), Box<dyn Error>> {
    // cargo adds a flag of its own.
    let argument = |at: usize| std::env::args().filter(|word| word != "--bench").nth(at);
    let seconds: f64 = argument(1).map_or(Ok(1.0), |text| text.parse())?;
    let only: Option<usize> = argument(2).map(|text| text.parse()).transpose()?;
    println!(
        "| bytes | receivers | loss | packets a second | packets a second of CPU | ns of CPU a packet | messages delivered |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (row, (bytes, receivers, lost)) in SETTINGS.into_iter().enumerate() {
        if only.is_some_and(|only| only != row + 1) {
            continue;
        }
        let outcome = measure(bytes, receivers, lost, seconds)?;
        let rate = |took: Duration| outcome.packets as f64 / took.as_secs_f64();
        let of_cpu = rate(outcome.cpu.unwrap_or(outcome.took));
        println!(
            "| {bytes} | {receivers} | {} % | {:.0} | {of_cpu:.0} | {:.0} | {} |",
            lost * 100.0,
            rate(outcome.took),
            1e9 / of_cpu,
            outcome.messages
        );
    }
    Ok(())
}
