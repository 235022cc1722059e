//! TCP request and response over a switch that loses segments.

use super::super::lab::Lab;
use super::super::{column, interleaved, ratio_text};
use super::{Arm, Bench, Goal};
use anyhow::{Context as _, Result, ensure};
use std::fmt::Write as _;

/// Both wait as the program does; what `spin` changes is no matter of losses.
const ARMS: [Arm; 2] = [Arm::Block, Arm::Xdp];
/// Of the segments in each direction.
const LOST_PERCENT: u32 = 1;
/// In a round: with both directions about 50 of them meet a loss, the same of these one more.
const MESSAGES: u32 = 2500;
/// What a round may take where each loss costs the kernel 200 ms.
const MOST_SECONDS: u32 = 60;

/// One measurement: RTT/2, and what the switch counted.
struct Figure {
    histogram: stats::Histogram,
    segments: f64,
    lost: f64,
}

impl Figure {
    /// RTT/2 in ms.
    fn ms(&self, quantile: f64) -> f64 {
        self.histogram.quantile(quantile).map_or(f64::NAN, |ns| ns as f64 / 2e6)
    }
}

/// All messages of an arm together.
fn together(rounds: &[Figure]) -> stats::Histogram {
    let mut all = stats::Histogram::new();
    rounds.iter().for_each(|one| all.merge(&one.histogram));
    all
}

pub(super) fn run(bench: &Bench<'_>, lab: &Lab) -> Result<String> {
    let measured = interleaved(bench.options().rounds, [1, ARMS.len()], |_, arm| {
        if bench.cannot(ARMS[arm]).is_some() {
            return Ok(None);
        }
        once(bench, lab, ARMS[arm]).map(Some).with_context(|| format!("loss {:?}", ARMS[arm]))
    })?;
    let mut text = format!(
        "\nTCP request and response, 32 bytes, SCHED_OTHER, {LOST_PERCENT} % of the segments lost in each direction by the switch \
         between the hosts, {MESSAGES} messages a round; RTT/2 in ms:\n\n\
         | arm | p50 | p99 | p99.9 | p99.9 of all rounds | messages | segments | lost |\n|---|---|---|---|---|---|---|---|\n"
    );
    let [kernel, xdp] = [0, 1].map(|arm| measured[0][arm].as_slice());
    for (arm, rounds) in ARMS.into_iter().zip([kernel, xdp]).filter(|(_, rounds)| !rounds.is_empty()) {
        let all = together(rounds);
        let of_all = all.quantile_if_supported(0.999, stats::Histogram::BEYOND);
        let of_all = of_all.map_or_else(|| "–".to_owned(), |ns| format!("{:.3}", ns as f64 / 2e6));
        let [p50, p99, p99_9] = [0.5, 0.99, 0.999].map(|of| stats::median(&column(rounds, |one| one.ms(of))));
        let [segments, lost] = [column(rounds, |one| one.segments), column(rounds, |one| one.lost)];
        let (segments, lost): (f64, f64) = (segments.iter().sum(), lost.iter().sum());
        let _ = writeln!(
            text,
            "| {} | {p50:.3} | {p99:.3} | {p99_9:.3} | {of_all} | {} | {segments} | {lost} ({:.2} %) |",
            arm.name(),
            all.count(),
            100.0 * lost / segments
        );
    }
    let [ours, theirs] = [xdp, kernel].map(|rounds| column(rounds, |one| one.ms(0.999)));
    if !ours.is_empty() {
        let judged = Goal::AtMost(0.5).judge(stats::ratio(&ours, &theirs).0);
        let _ = writeln!(
            text,
            "\n| p99.9, ratio (95 %) | measured | goal | |\n|---|---|---|---|\n| bypass xdp / block | {} | {judged} |",
            ratio_text(&ours, &theirs)
        );
    }
    Ok(text)
}

fn once(bench: &Bench<'_>, lab: &Lab, arm: Arm) -> Result<Figure> {
    let (behind, address) = (bench.behind(arm), lab.address());
    let _server = lab.serve(&format!("{behind} windhover --quiet serve --bind {address}"))?;
    let [cpu, remote_cpu] = lab.cpus();
    let client = format!(
        "{behind} windhover --quiet pingpong tcp {address} --size 32 --count {MESSAGES} --seconds {MOST_SECONDS} \
         --warmup 0 --warmup-count 100 --timeout 30000 --cpu {cpu} --remote-cpu {remote_cpu} --format json"
    );
    lab.lose(LOST_PERCENT)?;
    let document = super::super::document(&mut lab.command("a", cpu, &client))?;
    let [segments, lost] = lab.counted()?;
    let histogram = stats::Histogram::from_base64_v2(document["histogram"].as_str().context("no histogram")?)?;
    ensure!(lost > 0.0, "the switch lost none of {segments} segments");
    Ok(Figure { histogram, segments, lost })
}
