//! What a capture costs the measurement beside it: the same ping-pong with and without `--pcap`, in turns.

use super::lab::Lab;
use super::{Options, column, document, interleaved, number, ratio_text};
use anyhow::Result;
use std::fmt::Write as _;

pub(crate) type Arguments = Options<20, 1>;

/// RTT in ns, and messages that the capture lost.
struct Figure {
    p50: f64,
    p99: f64,
    lost: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let lab = Lab::up(&arguments.binary()?)?;
    let file = std::env::temp_dir().join(format!("windhover-bench-{}.pcapng", std::process::id()));
    let address = format!("{}:7498", lab.address());
    let server = lab.serve(&format!("windhover --quiet serve --bind {address}"))?;
    // Whoever is first has the caches of whoever was last.
    let measured = interleaved(arguments.rounds, [1, 2], |_, captures| {
        once(&lab, &address, arguments.seconds, (captures == 1).then_some(&file)).map(Some)
    });
    let _ = std::fs::remove_file(&file);
    drop((server, lab));
    let measured = measured?;
    let [without, with] = [0, 1].map(|captures| &measured[0][captures]);
    let mut text = String::new();
    for (name, of) in [("p50", (|figure| figure.p50) as fn(&Figure) -> f64), ("p99", |figure: &Figure| figure.p99)] {
        let [plain, captured] = [without, with].map(|figures| column(figures, of));
        let (before, after) = (stats::median(&plain) / 1e3, stats::median(&captured) / 1e3);
        let ratio = ratio_text(&captured, &plain);
        let _ = writeln!(text, "RTT {name}: {before:.2} us without, {after:.2} us with a capture; ratio {ratio}");
    }
    let lost = with.iter().filter(|figure| figure.lost).count();
    let _ = writeln!(text, "{lost} of {} captures lost packets", arguments.rounds);
    arguments.output.publish(&text)
}

fn once(lab: &Lab, address: &str, seconds: u32, capture: Option<&std::path::PathBuf>) -> Result<Figure> {
    let line = "--rtt --cpu 0 --remote-cpu 1 --format json";
    let line = format!("windhover pingpong udp {address} {line} --seconds {seconds}");
    let mut command = lab.command("a", "0,1", &line);
    if let Some(file) = capture {
        command.arg("--pcap").arg(file);
    }
    let arm = if capture.is_some() { "with a capture" } else { "without" };
    let document = document(arm, &mut command)?;
    let disturbed = document["verdict"]["disturbed"].as_array();
    let lost = disturbed.is_some_and(|all| all.iter().any(|finding| finding["id"] == "capture-incomplete"));
    Ok(Figure { p50: number(&document, "latency/p50_ns")?, p99: number(&document, "latency/p99_ns")?, lost })
}
