//! Start of the process to the first message, as the tool itself reports it.

use crate::{process, stats};
use anyhow::{Context as _, Result};
use std::process::Stdio;

pub(crate) fn run(rounds: u32) -> Result<()> {
    let binary = process::release_binary()?;
    let mut serve = std::process::Command::new(&binary);
    serve.args(["--quiet", "serve", "--bind", "127.0.0.1:7499"]).stderr(Stdio::null());
    let server = super::lab::Server(serve.spawn().context("windhover serve")?);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let milliseconds = (0..rounds).map(|_| once(&binary)).collect::<Result<Vec<f64>>>()?;
    drop(server);
    let worst = milliseconds.iter().copied().fold(0.0, f64::max);
    println!(
        "start to first message, without warm-up: median {:.1} ms, worst {worst:.1} ms of {rounds}",
        stats::median(&milliseconds)
    );
    Ok(())
}

fn once(binary: &std::path::Path) -> Result<f64> {
    let arguments = ["pingpong", "udp", "127.0.0.1:7499", "--count", "1000", "--format", "json"];
    let document = super::document(std::process::Command::new(binary).args(arguments))?;
    let ns = super::number(&document, "self_cost/startup_ns")?;
    Ok(ns / 1e6)
}
