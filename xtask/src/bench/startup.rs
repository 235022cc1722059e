//! Start of the process to the first message, as the tool itself reports it.

use crate::{process, stats};
use anyhow::{Context as _, Result};
use std::process::Stdio;

pub(crate) fn run(rounds: u32) -> Result<()> {
    let binary = process::release_binary()?;
    let mut serve = std::process::Command::new(&binary)
        .args(["--quiet", "serve", "--bind", "127.0.0.1:7499"])
        .stderr(Stdio::null())
        .spawn()
        .context("windhover serve")?;
    std::thread::sleep(std::time::Duration::from_millis(300));
    let measured = (0..rounds).map(|_| once(&binary)).collect::<Result<Vec<f64>>>();
    serve.kill().context("windhover serve")?;
    serve.wait().context("windhover serve")?;
    let milliseconds = measured?;
    let worst = milliseconds.iter().copied().fold(0.0, f64::max);
    println!(
        "start to first message, without warm-up: median {:.1} ms, worst {worst:.1} ms of {rounds}",
        stats::median(&milliseconds)
    );
    Ok(())
}

fn once(binary: &std::path::Path) -> Result<f64> {
    let arguments = ["pingpong", "udp", "127.0.0.1:7499", "--count", "1000", "--format", "json"];
    let output = std::process::Command::new(binary).args(arguments).output().context("windhover pingpong")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let document: serde_json::Value = serde_json::from_str(text.trim()).context("result document")?;
    let ns = document["self_cost"]["startup_ns"].as_f64().context("no startup_ns in the result")?;
    Ok(ns / 1e6)
}
