//! What a capture costs the measurement beside it: the same ping-pong with and without `--pcap`, in turns.

use super::lab::Lab;
use crate::{process, stats};
use anyhow::{Context as _, Result};
use std::path::Path;

/// RTT in ns, and messages that the capture lost.
#[derive(Debug, Clone, Copy)]
struct Figure {
    p50: f64,
    p99: f64,
    lost: bool,
}

pub(crate) fn run(rounds: u32, seconds: u32) -> Result<()> {
    let windhover = process::release_binary()?;
    let lab = Lab::up(&windhover, "benchcap")?;
    let file = std::env::temp_dir().join(format!("windhover-bench-{}.pcapng", std::process::id()));
    let measured = measure(&lab, &windhover, &file, rounds, seconds);
    let _ = std::fs::remove_file(&file);
    drop(lab);
    let (without, with) = measured?;
    for (name, of) in [("p50", (|figure| figure.p50) as fn(&Figure) -> f64), ("p99", |figure: &Figure| figure.p99)] {
        let (plain, captured): (Vec<f64>, Vec<f64>) = (without.iter().map(of).collect(), with.iter().map(of).collect());
        let (ratio, low, high) = stats::ratio(&captured, &plain);
        println!(
            "RTT {name}: {:.2} us without, {:.2} us with a capture; ratio {ratio:.3} ({low:.3} to {high:.3})",
            stats::median(&plain) / 1e3,
            stats::median(&captured) / 1e3,
        );
    }
    println!("{} of {rounds} captures lost packets", with.iter().filter(|figure| figure.lost).count());
    Ok(())
}

fn measure(lab: &Lab, windhover: &Path, file: &Path, rounds: u32, seconds: u32) -> Result<(Vec<Figure>, Vec<Figure>)> {
    let exe = windhover.to_string_lossy();
    let address = format!("{}:7498", lab.address());
    let _server = lab.serve(&[&exe, "--quiet", "serve", "--bind", &address])?;
    let mut measured = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // Whoever is first has the caches of whoever was last.
        for turn in 0..2 {
            let capture = (round + turn) % 2 == 1;
            let figure = once(lab, &exe, &address, seconds, capture.then_some(file))?;
            if capture { measured.1.push(figure) } else { measured.0.push(figure) }
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    Ok(measured)
}

fn once(lab: &Lab, exe: &str, address: &str, seconds: u32, capture: Option<&Path>) -> Result<Figure> {
    let mut command = lab.command("a", "0,1", &[exe]);
    command.args(["pingpong", "udp", address, "--rtt", "--cpu", "0", "--remote-cpu", "1", "--format", "json"]);
    command.args(["--seconds", &seconds.to_string()]);
    if let Some(file) = capture {
        command.arg("--pcap").arg(file);
    }
    let output = command.output().context("windhover pingpong")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let document: serde_json::Value = serde_json::from_str(text.trim()).context("result document")?;
    let ns = |name: &str| document["latency"][name].as_f64().with_context(|| format!("no {name} in the result"));
    let disturbed = document["verdict"]["disturbed"].as_array();
    let lost = disturbed.is_some_and(|all| all.iter().any(|finding| finding["id"] == "capture-incomplete"));
    Ok(Figure { p50: ns("p50_ns")?, p99: ns("p99_ns")?, lost })
}
