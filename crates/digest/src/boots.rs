//! How far boots of a kernel lie apart, and repetitions within a boot: what a difference of two kernels has to exceed.

use crate::combine::mean;
use crate::info::message;
use crate::names::{label_word, varying};
use crate::text::by_key;
use crate::{Metric, RunInput, cells};
use model::{CellBoot, LatencyKind, ResultDocument, Role, Substrate};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The boots of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BootSpread {
    /// The run it is from.
    pub run: String,
    /// The kernel, as the plan has it.
    pub kernel: String,
    /// The cell without its kernel: `pingpong udp 32 B · load build`.
    pub label: String,
    /// What the figures are.
    pub kind: LatencyKind,
    /// Each boot in the order of its visit.
    pub boots: Vec<BootFigures>,
    /// How p50 scatters between boots: the standard deviation of the boots' logarithms in percent; `null` with one boot.
    pub p50_between_percent: Option<f64>,
    /// How p50 scatters between repetitions of one boot, pooled over the boots; `null` with one repetition each.
    pub p50_within_percent: Option<f64>,
    /// Where p50 lies at two places far apart and not around one: then its mean over few boots is a draw. `null` otherwise.
    pub p50_modes: Option<[BootMode; 2]>,
    /// As `p50_between_percent`, of p99.9.
    pub p99_9_between_percent: Option<f64>,
    /// As `p50_within_percent`, of p99.9.
    pub p99_9_within_percent: Option<f64>,
    /// What a boot is called.
    #[serde(skip)]
    pub unit: &'static str,
}

/// One of the places at which a figure lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct BootMode {
    /// Median of its boots.
    pub ns: f64,
    /// How many boots have it.
    pub boots: usize,
    /// By how much of the time `ksoftirqd` ran in them, the median of the boots.
    pub ksoftirqd: Option<f64>,
}

/// Two places of values, the lower one first: two values each at least, the gap four times as wide as either, and 2 % at least.
fn modes(boots: &[BootFigures]) -> Option<[BootMode; 2]> {
    const LEAST_GAP: f64 = 1.02;
    const WIDTHS: f64 = 4.0;
    let mut sorted: Vec<(f64, Option<f64>)> =
        boots.iter().filter_map(|boot| Some((boot.p50_ns?, boot.ksoftirqd))).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ratio = |of: &[(f64, Option<f64>)]| of.last().zip(of.first()).map_or(1.0, |(last, first)| last.0 / first.0);
    let widest = sorted.windows(2).map(ratio).enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (low, high) = sorted.split_at(widest.0 + 1);
    let is_far = |of: &[_]| widest.1.ln() >= WIDTHS * ratio(of).ln();
    let are_two = low.len() > 1 && high.len() > 1 && widest.1 >= LEAST_GAP && is_far(low) && is_far(high);
    let mode = |of: &[(f64, Option<f64>)]| {
        let mut shares: Vec<f64> = of.iter().filter_map(|boot| boot.1).collect();
        shares.sort_by(f64::total_cmp);
        let ksoftirqd = shares.get(shares.len() / 2).copied();
        Some(BootMode { ns: of.get(of.len() / 2)?.0, boots: of.len(), ksoftirqd })
    };
    if are_two { Some([mode(low)?, mode(high)?]) } else { None }
}

/// The figures of a cell in one boot: geometric means over its trusted repetitions, of the maximum the largest, of shares the mean.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BootFigures {
    /// Which visit of the kernel it was, from 1.
    pub visit: u32,
    /// Boot ids by host.
    pub ids: BTreeMap<String, String>,
    /// Repetitions in it.
    pub repetitions: usize,
    /// Median.
    pub p50_ns: Option<f64>,
    /// 99.9th percentile.
    pub p99_9_ns: Option<f64>,
    /// Largest.
    pub max_ns: Option<f64>,
    /// CPU time of the `ksoftirqd` threads of a machine by wall time, the larger of both ends.
    pub ksoftirqd: Option<f64>,
}

/// The boots of all cells of some runs; none of runs that name no kernels.
pub fn of(inputs: &[RunInput], rtt: bool) -> Vec<BootSpread> {
    inputs.iter().flat_map(|run| of_run(run, rtt)).collect()
}

fn of_run(run: &RunInput, rtt: bool) -> Vec<BootSpread> {
    let groups = cells::group(run);
    let varying = varying(groups.keys().map(|key| &key.factors));
    let unit = unit(run.results.iter().map(|result| (result.factor("kernel"), result.boot.as_ref())));
    let mut out = Vec::new();
    for (key, places) in &groups {
        let results: Vec<&ResultDocument> = places.iter().filter_map(|place| run.results.get(*place)).collect();
        let any = results.iter().any(|result| result.verdict.trusted);
        let used = results.iter().copied().filter(|result| !any || result.verdict.trusted);
        let boots = by_key(used.filter_map(|result| Some((result.boot.as_ref()?, result))));
        let Some(kernel) = key.factors.get("kernel").filter(|_| !boots.is_empty()) else { continue };
        let own = key.factors.iter().filter(|(name, _)| name.as_str() != "kernel" && varying.contains(*name));
        let mut label = vec![message(key.probe, &key.protocol, key.size)];
        label.extend(own.map(|(name, value)| label_word(name, value)));
        let substrate = run.document.substrate;
        label.extend((substrate == Substrate::SimulatedTime).then(|| substrate.word().to_owned()));
        let spread = |name: &str| spread(boots.values(), name, rtt);
        let ([p50_between, p50_within], [p99_9_between, p99_9_within]) = (spread("p50"), spread("p99.9"));
        let boots: Vec<BootFigures> = boots.iter().map(|(boot, results)| figures(boot, results, rtt)).collect();
        out.push(BootSpread {
            run: run.name.clone(),
            kernel: kernel.clone(),
            label: label.join(" · "),
            kind: cells::kind_of(&results, rtt),
            p50_modes: modes(&boots),
            boots,
            p50_between_percent: p50_between,
            p50_within_percent: p50_within,
            p99_9_between_percent: p99_9_between,
            p99_9_within_percent: p99_9_within,
            unit,
        });
    }
    out.sort_by(|a, b| (&a.run, &a.label, &a.kernel).cmp(&(&b.run, &b.label, &b.kernel)));
    out
}

fn figures(boot: &CellBoot, results: &[&ResultDocument], rtt: bool) -> BootFigures {
    let centre = |name: &str| mean(&logarithms(results, name, rtt)).map(f64::exp);
    let largest = values(results, "max", rtt).into_iter().reduce(f64::max);
    let (visit, ids, repetitions) = (boot.visit, boot.ids.clone(), results.len());
    let share = |end| mean(&values(results, &format!("{end}.ksoftirqd"), rtt));
    let ksoftirqd = Role::ALL.into_iter().filter_map(share).reduce(f64::max);
    let (p50_ns, p99_9_ns) = (centre("p50"), centre("p99.9"));
    BootFigures { visit, ids, repetitions, p50_ns, p99_9_ns, max_ns: largest, ksoftirqd }
}

fn values(results: &[&ResultDocument], name: &str, rtt: bool) -> Vec<f64> {
    let metric: Option<Metric> = name.parse().ok();
    results.iter().filter_map(|result| metric?.of(result, rtt)).collect()
}

fn logarithms(results: &[&ResultDocument], name: &str, rtt: bool) -> Vec<f64> {
    values(results, name, rtt).into_iter().filter(|value| *value > 0.0).map(f64::ln).collect()
}

/// The spread between boots and within them, in percent.
fn spread<'a>(boots: impl Iterator<Item = &'a Vec<&'a ResultDocument>>, name: &str, rtt: bool) -> [Option<f64>; 2] {
    let boots: Vec<Vec<f64>> =
        boots.map(|results| logarithms(results, name, rtt)).filter(|boot| !boot.is_empty()).collect();
    let squares = |all: &[f64]| {
        let mean = mean(all).unwrap_or_default();
        all.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    };
    let deviation = |squares: f64, freedom: usize| (freedom > 0).then(|| 100.0 * (squares / freedom as f64).sqrt());
    let centres: Vec<f64> = boots.iter().filter_map(|boot| mean(boot)).collect();
    let freedom = boots.iter().map(|boot| boot.len() - 1).sum();
    let within = boots.iter().map(|boot| squares(boot)).sum();
    [deviation(squares(&centres), centres.len().saturating_sub(1)), deviation(within, freedom)]
}

/// What stands for a boot where nothing was booted between two of them: kernels that are switched while they run.
pub const VISIT: &str = "visit";

/// What the observations of kernels are called: of each result its kernel and its boot.
pub fn unit<'b>(results: impl Iterator<Item = (Option<String>, Option<&'b CellBoot>)>) -> &'static str {
    let boots = results.filter_map(|(kernel, boot)| Some((kernel, boot?)));
    let (visits, ids): (BTreeSet<_>, BTreeSet<_>) =
        boots.map(|(kernel, boot)| ((kernel, boot.visit), &boot.ids)).unzip();
    match (visits.len(), ids.len()) {
        (0, _) => "repetition",
        (visits, ids) if ids < visits => VISIT,
        _ => "boot",
    }
}

#[cfg(test)]
mod tests {
    use super::{BootFigures, modes};
    use std::collections::BTreeMap;

    fn boots(of: &[(f64, f64)]) -> Vec<BootFigures> {
        let boot = |(p50, share): &(f64, f64)| BootFigures {
            visit: 1,
            ids: BTreeMap::new(),
            repetitions: 1,
            p50_ns: Some(*p50),
            p99_9_ns: None,
            max_ns: None,
            ksoftirqd: Some(*share),
        };
        of.iter().map(boot).collect()
    }

    /// Catches: two modes that pass for a scatter around one, one boot that is far off as a mode, and a scatter as two.
    #[test]
    fn figures_at_two_places_are_two_modes() {
        let two = [23.0, 26.9, 23.1, 26.8, 23.0, 26.9];
        assert_eq!(
            modes(&boots(&two.map(|p50| (p50, 0.0)))).unwrap().map(|mode| (mode.ns, mode.boots)),
            [(23.0, 3), (26.9, 3)]
        );
        for one in
            [&[23.0, 23.1, 23.05, 26.9][..], &[23.0, 24.0, 25.0, 26.0], &[10.0, 10.01, 10.1, 10.11], &[23.0, 26.9], &[]]
        {
            let one: Vec<_> = one.iter().map(|p50| (*p50, 0.0)).collect();
            assert_eq!(modes(&boots(&one)), None, "{one:?}");
        }
    }
}
