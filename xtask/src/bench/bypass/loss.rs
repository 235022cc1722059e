//! TCP request and response over a switch that loses segments.

use super::super::lab::Lab;
use super::super::{column, interleaved};
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

pub(super) fn run(bench: &Bench<'_>, lab: &Lab) -> Result<String> {
    let measured = interleaved(bench.options().rounds, [1, ARMS.len()], |_, arm| {
        if bench.cannot(ARMS[arm]).is_some() {
            return Ok(None);
        }
        once(bench, lab, ARMS[arm]).map(Some).with_context(|| format!("loss {:?}", ARMS[arm]))
    })?;
    let mut text = format!(
        "\nTCP request and response, 32 bytes, SCHED_OTHER, {LOST_PERCENT} % of the segments lost in each direction by the switch \
         between the hosts, {MESSAGES} messages a round; RTT/2 in ms, p50 and p99 as medians of the rounds, p99.9 of all rounds together:\n\n\
         | arm | p50 | p99 | p99.9 | messages | segments | lost |\n|---|---|---|---|---|---|---|\n"
    );
    let [kernel, xdp] = [0, 1].map(|arm| measured[0][arm].as_slice());
    for (arm, rounds) in ARMS.into_iter().zip([kernel, xdp]).filter(|(_, rounds)| !rounds.is_empty()) {
        let p99_9 = tail_ms(rounds.iter()).map_or_else(|| "–".to_owned(), |ms| format!("{ms:.3}"));
        let [p50, p99] = [0.5, 0.99].map(|of| stats::median(&column(rounds, |one| one.ms(of))));
        let of = |pick: fn(&Figure) -> f64| -> f64 { rounds.iter().map(pick).sum() };
        let [messages, segments, lost] =
            [of(|one| one.histogram.count() as f64), of(|one| one.segments), of(|one| one.lost)];
        let _ = writeln!(
            text,
            "| {} | {p50:.3} | {p99:.3} | {p99_9} | {messages} | {segments} | {lost} ({:.2} %) |",
            arm.name(),
            100.0 * lost / segments
        );
    }
    if !xdp.is_empty() {
        let ratio = tail_ratio(xdp, kernel);
        let judged = Goal::AtMost(0.5).judge(ratio.map_or(f64::NAN, |ratio| ratio.typical));
        let ratio = ratio.map_or_else(|| "too few messages".to_owned(), |ratio| format!("{ratio:.3}"));
        let _ = writeln!(
            text,
            "\n| p99.9 of all rounds, ratio (95 %) | measured | goal | |\n|---|---|---|---|\n| bypass xdp / block | {ratio} | {judged} |"
        );
    }
    Ok(text)
}

/// p99.9 of RTT/2 in ms of all messages together; one round alone has too few for it.
fn tail_ms<'a>(rounds: impl Iterator<Item = &'a Figure>) -> Option<f64> {
    tail_of(rounds.flat_map(|one| buckets(&one.histogram)).collect())
}

/// RTT in ns, and how many messages.
fn buckets(histogram: &stats::Histogram) -> Vec<(u64, u64)> {
    histogram.iter_recorded().map(|bucket| (bucket.high_ns, bucket.count)).collect()
}

fn tail_of(mut buckets: Vec<(u64, u64)>) -> Option<f64> {
    buckets.sort_unstable();
    let count: u64 = buckets.iter().map(|(_, count)| count).sum();
    // Those above it; fewer say nothing.
    let beyond = Some(count / 1000).filter(|beyond| *beyond >= stats::Histogram::BEYOND)?;
    let mut above = 0;
    let found = buckets.iter().rev().find(|(_, count)| {
        above += count;
        above > beyond
    });
    found.map(|(ns, _)| *ns as f64 / 2e6)
}

/// The ratio of p99.9 of all rounds, with its 95 % interval: a bootstrap over the rounds, in which both arms have the same.
fn tail_ratio(ours: &[Figure], theirs: &[Figure]) -> Option<stats::Ratio> {
    const RESAMPLES: usize = 1000;
    let [ours, theirs] =
        [ours, theirs].map(|rounds| rounds.iter().map(|one| buckets(&one.histogram)).collect::<Vec<_>>());
    let count = ours.len().min(theirs.len());
    let ratio = |picked: &[usize]| {
        let of =
            |rounds: &[Vec<(u64, u64)>]| tail_of(picked.iter().flat_map(|at| rounds[*at].iter().copied()).collect());
        Some(of(&ours)? / of(&theirs)?)
    };
    let typical = ratio(&(0..count).collect::<Vec<_>>())?;
    let mut random = stats::SplitMix64::new(1);
    let mut below = |count: usize| usize::try_from(random.next_u64() % count as u64).unwrap_or(0);
    let mut drawn: Vec<f64> =
        (0..RESAMPLES).filter_map(|_| ratio(&(0..count).map(|_| below(count)).collect::<Vec<_>>())).collect();
    drawn.sort_by(f64::total_cmp);
    let at = |per_mille: usize| drawn.get(drawn.len() * per_mille / 1000).copied();
    Some(stats::Ratio { typical, low: at(25)?, high: at(975)? })
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
    let document = super::super::document(&format!("loss, {}", arm.name()), &mut lab.command("a", cpu, &client))?;
    let [segments, lost] = lab.counted()?;
    let histogram = stats::Histogram::from_base64_v2(document["histogram"].as_str().context("no histogram")?)?;
    ensure!(lost > 0.0, "the switch lost none of {segments} segments");
    Ok(Figure { histogram, segments, lost })
}

#[cfg(test)]
mod unit {
    use super::*;

    /// 2,500 messages of 100 µs, of which some take 400 ms.
    fn round(slow: u64) -> Figure {
        let mut histogram = stats::Histogram::new();
        histogram.record_n(100_000, 2500 - slow);
        histogram.record_n(400_000_000, slow);
        Figure { histogram, segments: 5000.0, lost: 50.0 }
    }

    /// Catches: a goal that is judged by the third-worst message of a round.
    #[test]
    fn the_tail_is_that_of_all_rounds_together() {
        let (quiet, noisy): (Vec<Figure>, Vec<Figure>) =
            ((0..20).map(|at| round(if at < 5 { 4 } else { 0 })).collect(), (0..20).map(|_| round(4)).collect());
        // 20 of 50,000 are no p99.9, though a quarter of the rounds says so.
        let stats::Ratio { typical, low, high } = tail_ratio(&quiet, &noisy).expect("messages enough");
        assert!((typical - 0.000_25).abs() < 1e-5 && low <= typical && typical <= high, "{typical} {low} {high}");
        assert!(tail_ratio(&quiet[..1], &noisy[..1]).is_none(), "2,500 messages have no p99.9");
    }
}
