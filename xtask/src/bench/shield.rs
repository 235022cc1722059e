//! What a shield is worth: `campaigns/shield.toml`, and the ratios of its figures without and with the shield.

use super::{Output, column};
use crate::files::create;
use crate::{packages, process};
use anyhow::{Context as _, Result, bail, ensure};
use stats::Histogram;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The campaign.
    #[arg(long, default_value = "campaigns/shield.toml")]
    plan: String,
    /// Evaluate this run directory instead of measuring.
    #[arg(long, value_name = "RUN")]
    measured: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// What may make a repetition invalid: the hypervisor's doing, which the table leaves out. All else is a fault.
const MAY_BE_INVALID: [&str; 1] = ["clock-unfit"];

/// RTT of a stall by throttling, in ns.
const STALL_NS: std::ops::RangeInclusive<f64> = 45e6..=55e6;

/// One repetition; RTT/2 in µs, the histogram RTT in ns.
#[derive(Debug, Clone)]
struct Figure {
    mean: f64,
    stdev: f64,
    max: f64,
    histogram: Histogram,
}

type Key = (String, String, String);

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let binary = process::release_binary()?;
    let run = match &arguments.measured {
        Some(run) => run.clone(),
        None => measure(&arguments.plan, &binary)?,
    };
    let text = process::output(&binary.to_string_lossy(), &["report", &run.to_string_lossy(), "--format", "json"])?;
    let documents: Vec<serde_json::Value> = serde_json::from_str(&text).context("windhover report --format json")?;
    arguments.output.publish(&table(&figures(&documents)?, &backend(&documents)))?;
    println!("run directory: {}", run.display());
    let wrong: BTreeSet<&str> = invalid(&documents).filter(|id| !MAY_BE_INVALID.contains(id)).collect();
    ensure!(wrong.is_empty(), "repetitions are invalid for another reason than {MAY_BE_INVALID:?}: {wrong:?}");
    Ok(())
}

fn invalid(documents: &[serde_json::Value]) -> impl Iterator<Item = &str> {
    let found = documents.iter().filter_map(|document| document["verdict"]["invalid"].as_array());
    found.flatten().map(|finding| finding["id"].as_str().unwrap_or("a finding without a word"))
}

/// Runs a campaign; where its run directory is.
pub(super) fn measure(plan: &str, binary: &Path) -> Result<PathBuf> {
    ensure!(process::is_root(), "shields and labs need root");
    packages::ensure(&["iproute2", "gcc", "libc6-dev"], "for the lab and the load")?;
    let folder = process::target().join("bench-campaign").join(std::process::id().to_string());
    create(&folder)?;
    let status = Command::new(binary)
        .args(["campaign", "run", plan, "--output"])
        .arg(&folder)
        .current_dir(process::root())
        .status()
        .context("windhover campaign run")?;
    // 4: some repetition is invalid. For what reason is looked at behind the table, which says how many are left.
    ensure!(matches!(status.code(), Some(0 | 4)), "the campaign ended with {status}");
    let runs = crate::files::listed(&folder)?;
    runs.into_iter().find(|path| path.join("run.json").is_file()).context("the campaign left no run directory")
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
        let text = document["histogram"].as_str().context("a result without histogram")?;
        let figure = Figure { mean, stdev, max, histogram: Histogram::from_base64_v2(text)? };
        all.entry((factor("load"), factor("shield"), factor("policy"))).or_default().push(figure);
    }
    Ok(all)
}

/// p99.99 of RTT/2 over all repetitions together, in µs: one alone may have too few messages for it.
fn tail(figures: &[Figure]) -> Option<f64> {
    let mut all = figures.first()?.histogram.clone();
    for figure in figures.get(1..).unwrap_or_default() {
        all.merge(&figure.histogram);
    }
    all.quantile_if_supported(0.9999, Histogram::BEYOND).map(|ns| ns as f64 / 2e3)
}

/// What kept others away, as the results say it.
fn backend(documents: &[serde_json::Value]) -> String {
    let reports = documents.iter().flat_map(|document| document["prepared"].as_array().into_iter().flatten());
    let found = reports.filter_map(|prepared| prepared["shield"]["backend"].as_str()).next();
    found.unwrap_or("none").to_owned()
}

fn medians(figures: &[Figure], pick: fn(&Figure) -> f64) -> Option<f64> {
    (!figures.is_empty()).then(|| stats::median(&column(figures, pick)))
}

fn stalls(figures: &[Figure]) -> usize {
    figures.iter().filter(|figure| STALL_NS.contains(&(figure.max * 2e3))).count()
}

fn table(all: &BTreeMap<Key, Vec<Figure>>, backend: &str) -> String {
    let mut text = format!(
        "UDP, 32 bytes, both ends on one CPU; RTT/2 in µs, medians over the repetitions, p99.99 over all of them together; the shield is {backend}. A stall is a \
         repetition whose longest round trip took 45 to 55 ms.\n\n\
         | load | shield | policy | repetitions | mean | stdev | p99.99 | max | stalls |\n|---|---|---|---|---|---|---|---|---|\n"
    );
    let word = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |us| format!("{us:.2}"));
    for ((load, shield, policy), figures) in all {
        let _ = writeln!(
            text,
            "| {load} | {shield} | {policy} | {} | {} | {} | {} | {} | {} |",
            figures.len(),
            word(medians(figures, |figure| figure.mean)),
            word(medians(figures, |figure| figure.stdev)),
            word(tail(figures)),
            word(medians(figures, |figure| figure.max)),
            stalls(figures)
        );
    }
    let head = "load | policy | p99.99 without / with | stdev without / with | stalls without, with";
    let _ = writeln!(text, "\n| {head} |\n|---|---|---|---|---|");
    for ((load, _, policy), with) in all.iter().filter(|((_, shield, _), _)| shield != "off") {
        let Some(without) = all.get(&(load.clone(), "off".to_owned(), policy.clone())) else { continue };
        let ratio = |of: fn(&[Figure]) -> Option<f64>| -> String {
            match (of(without), of(with)) {
                (Some(a), Some(b)) if a < b => format!("{:.2}", a / b),
                (Some(a), Some(b)) if b > 0.0 => format!("{:.1}", a / b),
                _ => "–".to_owned(),
            }
        };
        let _ = writeln!(
            text,
            "| {load} | {policy} | {} | {} | {} of {}, {} of {} |",
            ratio(tail),
            ratio(|figures| medians(figures, |figure| figure.stdev)),
            stalls(without),
            without.len(),
            stalls(with),
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
    fn ratios_and_stalls() {
        let document = |shield: &str, policy: &str, stdev: f64, rtt: u64, max: u64| {
            let mut histogram = Histogram::new();
            histogram.record_n(rtt, 100_000);
            json!({ "verdict": { "trusted": true, "invalid": [] }, "cell": "c",
                    "histogram": histogram.to_base64_v2().unwrap(),
                    "factors": { "load": "build", "shield": shield, "policy": policy },
                    "prepared": if shield == "off" { json!([]) } else { json!([{ "shield": { "backend": "v1" } }]) },
                    "latency": { "kind": "rtt_half", "mean_ns": 3000.0, "stdev_ns": stdev, "max_ns": max } })
        };
        let documents = [
            document("off", "fifo:50", 60_000.0, 6_000_000, 25_400_000),
            document("off", "fifo:50", 60_000.0, 6_000_000, 8_000_000),
            document("auto", "fifo:50", 2_000.0, 20_000, 700_000),
        ];
        let all = figures(&documents).unwrap();
        assert_eq!(backend(&documents), "v1");
        let text = table(&all, "v1");
        assert!(text.contains("| build | fifo:50 | 299.8 | 30.0 | 1 of 2, 0 of 1 |"), "{text}");
        assert_eq!(invalid(&documents).count(), 0);
        let late = json!({ "verdict": { "trusted": false, "invalid": [{ "id": "migrated" }] } });
        assert_eq!(invalid(&[late]).collect::<Vec<_>>(), ["migrated"]);
    }
}
