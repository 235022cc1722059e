//! What a shield is worth: `campaigns/shield.toml`, and the ratios of its figures without and with the shield.

use crate::{packages, process, stats};
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// RTT that the hole of throttling leaves, in ns.
const HOLE_NS: std::ops::RangeInclusive<f64> = 45e6..=55e6;

/// One repetition; RTT/2 in µs.
#[derive(Debug, Clone, Copy)]
struct Figure {
    mean: f64,
    stdev: f64,
    p99_99: Option<f64>,
    max: f64,
}

/// Load, shield and policy.
type Key = (String, String, String);

pub(crate) fn run(plan: &str, output: Option<&Path>) -> Result<()> {
    ensure!(process::is_root(), "a shield needs root");
    packages::ensure(&["iproute2", "gcc", "libc6-dev"], "for the lab and the load")?;
    let binary = process::release_binary()?;
    let folder = process::target().join("bench-shield").join(std::process::id().to_string());
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let status = Command::new(&binary)
        .args(["campaign", "run", plan, "--output"])
        .arg(&folder)
        .current_dir(process::root())
        .status()
        .context("windhover campaign run")?;
    // 4: measured, and some repetition cannot be trusted; the table says how many are left.
    ensure!(matches!(status.code(), Some(0 | 4)), "the campaign ended with {status}");
    let run = std::fs::read_dir(&folder)
        .with_context(|| folder.display().to_string())?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.join("run.json").is_file())
        .context("the campaign left no run directory")?;
    let text = process::output(&binary.to_string_lossy(), &["report", &run.to_string_lossy(), "--format", "json"])?;
    let documents: Vec<serde_json::Value> = serde_json::from_str(&text).context("windhover report --format json")?;
    let text = table(&figures(&documents)?, &backend(&documents));
    println!("{text}");
    println!("run directory: {}", run.display());
    if let Some(file) = output {
        std::fs::write(file, &text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

fn figures(documents: &[serde_json::Value]) -> Result<BTreeMap<Key, Vec<Figure>>> {
    let mut all: BTreeMap<Key, Vec<Figure>> = BTreeMap::new();
    for document in documents.iter().filter(|document| document["verdict"]["trusted"] == true) {
        let factor = |name: &str| document["factors"][name].as_str().unwrap_or_default().to_owned();
        let latency = &document["latency"];
        if latency["kind"] != "rtt_half" {
            bail!("a result that is no RTT/2: {}", document["cell"]);
        }
        let us = |name: &str| latency[name].as_f64().map(|ns| ns / 1e3);
        let (Some(mean), Some(stdev), Some(max)) = (us("mean_ns"), us("stdev_ns"), us("max_ns")) else { continue };
        let figure = Figure { mean, stdev, p99_99: us("p99_99_ns"), max };
        all.entry((factor("load"), factor("shield"), factor("policy"))).or_default().push(figure);
    }
    Ok(all)
}

/// What kept others away, as the results say it.
fn backend(documents: &[serde_json::Value]) -> String {
    let reports = documents.iter().flat_map(|document| document["prepared"].as_array().into_iter().flatten());
    let found = reports.filter_map(|prepared| prepared["shield"]["backend"].as_str()).next();
    found.unwrap_or("none").to_owned()
}

fn medians(figures: &[Figure], pick: fn(&Figure) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = figures.iter().filter_map(pick).collect();
    (!values.is_empty()).then(|| stats::median(&values))
}

fn holes(figures: &[Figure]) -> usize {
    figures.iter().filter(|figure| HOLE_NS.contains(&(figure.max * 2e3))).count()
}

fn table(all: &BTreeMap<Key, Vec<Figure>>, backend: &str) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "UDP, 32 bytes, both ends on one CPU; RTT/2 in µs, medians over the repetitions; the shield is {backend}. A hole is a \
         repetition whose longest message took 45 to 55 ms there and back.\n"
    );
    let _ = writeln!(text, "| load | shield | policy | repetitions | mean | stdev | p99.99 | max | holes |");
    let _ = writeln!(text, "|---|---|---|---|---|---|---|---|---|");
    let word = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |us| format!("{us:.2}"));
    for ((load, shield, policy), figures) in all {
        let _ = writeln!(
            text,
            "| {load} | {shield} | {policy} | {} | {} | {} | {} | {} | {} |",
            figures.len(),
            word(medians(figures, |figure| Some(figure.mean))),
            word(medians(figures, |figure| Some(figure.stdev))),
            word(medians(figures, |figure| figure.p99_99)),
            word(medians(figures, |figure| Some(figure.max))),
            holes(figures)
        );
    }
    let _ = writeln!(text, "\n| load | policy | p99.99 without / with | stdev without / with | holes without, with |");
    let _ = writeln!(text, "|---|---|---|---|---|");
    for ((load, shield, policy), with) in all.iter().filter(|((_, shield, _), _)| shield != "off") {
        let Some(without) = all.get(&(load.clone(), "off".to_owned(), policy.clone())) else { continue };
        let _ = shield;
        let ratio = |pick: fn(&Figure) -> Option<f64>| -> String {
            match (medians(without, pick), medians(with, pick)) {
                (Some(a), Some(b)) if b > 0.0 => format!("{:.1}", a / b),
                _ => "–".to_owned(),
            }
        };
        let _ = writeln!(
            text,
            "| {load} | {policy} | {} | {} | {} of {}, {} of {} |",
            ratio(|figure| figure.p99_99),
            ratio(|figure| Some(figure.stdev)),
            holes(without),
            without.len(),
            holes(with),
            with.len()
        );
    }
    text
}

#[cfg(test)]
mod unit {
    use super::*;
    use serde_json::json;

    #[test]
    fn ratios_and_holes() {
        let document = |shield: &str, policy: &str, stdev: f64, p: u64, max: u64| {
            json!({ "verdict": { "trusted": true }, "cell": "c",
                    "factors": { "load": "build", "shield": shield, "policy": policy },
                    "prepared": if shield == "off" { json!([]) } else { json!([{ "shield": { "backend": "v1" } }]) },
                    "latency": { "kind": "rtt_half", "mean_ns": 3000.0, "stdev_ns": stdev, "p99_99_ns": p, "max_ns": max } })
        };
        let documents = [
            document("off", "fifo:50", 60_000.0, 6_000_000, 25_400_000),
            document("off", "fifo:50", 60_000.0, 6_000_000, 8_000_000),
            document("auto", "fifo:50", 2_000.0, 20_000, 700_000),
        ];
        let all = figures(&documents).unwrap();
        assert_eq!(backend(&documents), "v1");
        let text = table(&all, "v1");
        assert!(text.contains("| build | fifo:50 | 300.0 | 30.0 | 1 of 2, 0 of 1 |"), "{text}");
    }
}
