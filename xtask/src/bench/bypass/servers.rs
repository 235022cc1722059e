//! Programs with many connections or much data behind `windhover bypass run`.

use super::super::lab::Lab;
use super::super::{document, interleaved, ratio_text, unread};
use super::{Arm, Bench, Goal, real_time};
use crate::process;
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::path::Path;

/// These programs only block.
const ARMS: [Arm; 3] = [Arm::Block, Arm::Spin, Arm::Xdp];

pub(super) fn lab(windhover: &Path) -> Result<Lab> {
    let program = process::target().join("bypass-idle");
    process::run("cc", &["-O2", "-o", &program.to_string_lossy(), "xtask/src/bench/bypass/idle.c"])?;
    Ok(Lab::up(windhover)?.with_program("idle", program))
}

/// One busy TCP connection beside idle ones.
pub(super) fn idle(bench: &Bench<'_>, lab: &Lab) -> Result<String> {
    let options = bench.options();
    const IDLE: [u32; 2] = [0, 1000];
    let (address, start) = (lab.address(), real_time());
    let measured = interleaved(options.rounds, [ARMS.len(), IDLE.len()], |arm, idle| {
        if bench.cannot(ARMS[arm]).is_some() {
            return Ok(None);
        }
        let behind = bench.behind(ARMS[arm]);
        let _server = lab.serve(&format!("{start} {behind} idle server {address} 7700"))?;
        let words = format!("idle client {address} 7700 {} {}", IDLE[idle], options.seconds);
        let text = lab.client(&format!("timeout 60 {start} {behind} {words}"))?;
        let ns: f64 = text.trim().parse().map_err(|_| unread(&text)).with_context(|| format!("{:?}", ARMS[arm]))?;
        Ok(Some(ns / 1e3))
    })?;
    let mut text = format!(
        "\nOne TCP connection beside {} idle ones, p50:\n\n\
         | arm | alone | beside them | ratio (95 %) | goal | |\n|---|---|---|---|---|---|\n",
        IDLE[1]
    );
    for (arm, figures) in ARMS.iter().zip(&measured).filter(|(arm, _)| bench.cannot(**arm).is_none()) {
        let [alone, beside] = [0, 1].map(|at| figures[at].as_slice());
        let [alone_us, beside_us] = [alone, beside].map(stats::median);
        let judged = judge_xdp(*arm, &Goal::AtMost(1.05), stats::ratio(beside, alone).typical);
        let (name, ratio) = (arm.name(), ratio_text(beside, alone));
        let _ = writeln!(text, "| {name} | {alone_us:.3} | {beside_us:.3} | {ratio} | {judged} |");
    }
    Ok(text)
}

/// redis-benchmark, 50 connections. Both ends in SCHED_OTHER, because redis-server has other threads.
pub(super) fn redis(bench: &Bench<'_>, lab: &Lab) -> Result<String> {
    let options = bench.options();
    if ["redis-server", "redis-benchmark"].iter().any(|program| process::find(program).is_none()) {
        return Ok("\nredis-server and redis-benchmark are not on the PATH and are left out.\n".to_owned());
    }
    let address = lab.address();
    let measured = interleaved(options.rounds, [1, ARMS.len()], |_, arm| {
        if bench.cannot(ARMS[arm]).is_some() {
            return Ok(None);
        }
        let behind = bench.behind(ARMS[arm]);
        let server = format!("redis-server --port 7701 --protected-mode no --save --appendonly no --bind {address}");
        let _server = lab.serve(&format!("{behind} {server}"))?;
        let client = format!("redis-benchmark -h {address} -p 7701 -c 50 -n 50000 -t get --csv");
        let text = lab.client(&format!("timeout 60 {behind} {client}"))?;
        let line = text.lines().find(|line| line.starts_with("\"GET\""));
        let rate = line.and_then(|line| line.split(',').nth(1)?.trim_matches('"').parse::<f64>().ok());
        rate.map(Some).ok_or_else(|| unread(&text)).with_context(|| format!("redis {:?}", ARMS[arm]))
    })?;
    Ok(rates("redis-benchmark GET, 50 connections, SCHED_OTHER, requests a second", &measured[0], 1.3))
}

/// Bulk TCP against the kernel without segmentation offload.
pub(super) fn bulk(bench: &Bench<'_>, lab: &Lab) -> Result<String> {
    let options = bench.options();
    for (host, device) in ["a", "b"].into_iter().zip(lab.devices()) {
        let line = format!("ethtool -K {device} tso off gso off gro off");
        if !lab.command(host, "0", &line).status().is_ok_and(|status| status.success()) {
            return Ok("\nBulk TCP is left out: ethtool cannot switch segmentation offload off.\n".to_owned());
        }
    }
    let (address, seconds) = (lab.address(), options.seconds);
    let measured = interleaved(options.rounds, [1, ARMS.len()], |_, arm| {
        if bench.cannot(ARMS[arm]).is_some() {
            return Ok(None);
        }
        let behind = bench.behind(ARMS[arm]);
        let _server = lab.serve(&format!("{behind} windhover --quiet serve --bind {address}"))?;
        let flow =
            format!("stream tcp {address} --size 65536 --seconds {seconds} --cpu 0 --remote-cpu 1 --format json");
        let mut client = lab.command("a", "0", &format!("{behind} windhover --quiet {flow}"));
        let document = document(&format!("bulk tcp, {}", ARMS[arm].name()), &mut client);
        let bits = document.map(|document| document["stream"]["flows"][0]["bits_per_second"].as_f64());
        let bits = bits.with_context(|| format!("stream {:?}", ARMS[arm]))?.context("the result has no rate")?;
        Ok(Some(bits / 1e9))
    })?;
    Ok(rates("Bulk TCP without segmentation offload, SCHED_OTHER, Gbit/s", &measured[0], 0.5))
}

/// The last two cells of a row; the goals are those of `xdp`.
fn judge_xdp(arm: Arm, goal: &Goal, value: f64) -> String {
    if arm == Arm::Xdp { goal.judge(value) } else { "|".to_owned() }
}

fn rates(title: &str, figures: &[Vec<f64>], goal: f64) -> String {
    let mut text = format!("\n{title}:\n\n| arm | rate | to block (95 %) | goal | |\n|---|---|---|---|---|\n");
    for (arm, of_arm) in ARMS.into_iter().zip(figures).filter(|(_, of_arm)| !of_arm.is_empty()) {
        let (rate, ratio) = (stats::median(of_arm), ratio_text(of_arm, &figures[0]));
        let judged = judge_xdp(arm, &Goal::AtLeast(goal), stats::ratio(of_arm, &figures[0]).typical);
        let _ = writeln!(text, "| {} | {rate:.2} | {ratio} | {judged} |", arm.name());
    }
    text
}
