//! What a capture costs the measurement beside it: the same ping-pong with and without `--pcap`, in turns.

use crate::{process, stats};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LAB: &str = "benchcap";

/// RTT in ns, and messages that the capture lost.
#[derive(Debug, Clone, Copy)]
struct Figure {
    p50: f64,
    p99: f64,
    lost: bool,
}

pub(crate) fn run(rounds: u32, seconds: u32) -> Result<()> {
    let windhover = process::release_binary()?;
    let exe = windhover.to_string_lossy().into_owned();
    process::run(&exe, &["lab", "up", LAB])?;
    let file = std::env::temp_dir().join(format!("windhover-bench-{}.pcapng", std::process::id()));
    let measured = measure(&windhover, &file, rounds, seconds);
    let _ = std::fs::remove_file(&file);
    process::run(&exe, &["lab", "down", LAB])?;
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

fn measure(windhover: &Path, file: &Path, rounds: u32, seconds: u32) -> Result<(Vec<Figure>, Vec<Figure>)> {
    let listed = Command::new(windhover).args(["lab", "list", "--json"]).output().context("windhover lab list")?;
    let labs: serde_json::Value = serde_json::from_slice(&listed.stdout).context("windhover lab list --json")?;
    let address = labs
        .as_array()
        .and_then(|labs| labs.iter().find(|lab| lab["name"] == LAB))
        .and_then(|lab| lab["hosts"][1]["ipv4"].as_str())
        .context("the lab has no address for its second host")?;
    let address = format!("{address}:7498");
    let _server = Server::start(windhover, &address)?;
    let mut measured = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // Whoever is first has the caches of whoever was last.
        for turn in 0..2 {
            let capture = (round + turn) % 2 == 1;
            let figure = once(windhover, &address, seconds, capture.then_some(file))?;
            if capture { measured.1.push(figure) } else { measured.0.push(figure) }
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    Ok(measured)
}

struct Server(Child);

impl Server {
    fn start(windhover: &Path, address: &str) -> Result<Self> {
        let child = on(windhover, "b")
            .args(["--quiet", "serve", "--bind", address])
            .stderr(Stdio::null())
            .spawn()
            .context("windhover serve")?;
        std::thread::sleep(Duration::from_millis(500));
        Ok(Self(child))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// The program on a host of the lab.
fn on(windhover: &Path, host: &str) -> Command {
    let mut command = Command::new(windhover);
    command.args(["lab", "exec", &format!("{LAB}/{host}"), "--"]).arg(PathBuf::from(windhover));
    command
}

fn once(windhover: &Path, address: &str, seconds: u32, capture: Option<&Path>) -> Result<Figure> {
    let mut command = on(windhover, "a");
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
