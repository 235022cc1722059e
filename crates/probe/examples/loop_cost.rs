//! What the loop measures over loopback and what it costs itself: one line a mode.
//!
//! `cargo run --release -p windhover-probe --example loop_cost [SECONDS]`. The ends are put on the first and the last
//! CPU that this process may use.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example for people to run")]

use model::worker::{EndpointTask, ProbeTask, Target};
use model::{Limits, Probe, ProbeSpec, Protocol, Receive};

fn main() {
    let seconds: f64 = std::env::args().nth(1).map_or(1.0, |text| text.parse().unwrap());
    let bind = EndpointTask { bind: "127.0.0.1:0".to_owned(), key: None, limits: Limits::trusted() };
    let endpoint = endpoint::Endpoint::bind(&bind).unwrap();
    let address = endpoint.local_address();
    let stop = endpoint::Stop::new().unwrap();
    let cpus: Vec<u32> = task::allowed_cpus().unwrap().iter().collect();
    println!(
        "protocol receive  count    p50_us  p99_us  p99.9_us  mean_us  sd_us | clock_ns loop_ns record_ns (RTT/2)"
    );
    std::thread::scope(|scope| {
        scope.spawn(|| endpoint.serve(&stop).unwrap());
        for protocol in [Protocol::Udp, Protocol::Tcp] {
            for receive in [Receive::Block, Receive::Spin] {
                let mut spec = ProbeSpec::new(Probe::Pingpong, protocol);
                (spec.initiator.receive, spec.reflector.receive) = (receive, receive);
                (spec.initiator.cpu, spec.reflector.cpu) = (cpus.first().copied(), cpus.last().copied());
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seconds")]
                let milliseconds = (seconds * 1000.0) as u32;
                spec.stop.max_ms = milliseconds;
                let target = Target { control: address.to_string(), key: None, host: None };
                let task = ProbeTask::new(spec, target);
                let context = windhover_probe::Context::new("/proc/self/exe".into(), "loop_cost");
                let outcome = windhover_probe::run(&task, &context, &mut |measured| {
                    let result = &measured.result;
                    let latency = result.latency.as_ref().unwrap();
                    let us = |ns: Option<u64>| ns.map_or(f64::NAN, |ns| ns as f64 / 1000.0);
                    let fraction = |ns: Option<f64>| ns.unwrap_or(f64::NAN) / 1000.0;
                    let cost = &result.self_cost;
                    println!(
                        "{protocol:<8} {receive:<7} {:>7} {:>8.2} {:>7.2} {:>9.2} {:>8.2} {:>6.2} | {:>8.1} {:>7.1} {:>9.1}",
                        latency.count,
                        us(latency.p50_ns),
                        us(latency.p99_ns),
                        us(latency.p99_9_ns),
                        fraction(latency.mean_ns),
                        fraction(latency.stdev_ns),
                        cost.clock_read_ns,
                        cost.loop_ns,
                        cost.record_ns,
                    );
                    for finding in result.verdict.iter() {
                        println!("    {} {}", finding.id.word(), finding.detail);
                    }
                });
                if let Err(error) = outcome {
                    println!("{protocol} {receive}: {error}");
                }
            }
        }
        stop.stop();
    });
}
