//! Kernels in words: which of them keeps its tail under load, what that costs without load, and what the policy does to it.

use crate::RunInput;
use crate::cells::{self, Key};
use crate::compare::{Metric, kind_of};
use crate::names::{is_baseline, rank};
use crate::units::{counted, three_digits};
use model::{Policy, Protocol, ResultDocument, Substrate};
use std::collections::{BTreeMap, BTreeSet};

/// What the tail is read from: the first that all cells have.
const TAILS: [&str; 3] = ["p99.9", "p99", "max"];
/// Boots from which the interval of a ratio is one of 95 %; of fewer it is their range.
const FEWEST: usize = 6;

/// Results of one kernel, by load and by boot.
type OfKernel<'a> = BTreeMap<&'a str, BTreeMap<u32, Vec<&'a ResultDocument>>>;

/// Everything but kernel and load.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Context {
    probe: model::Probe,
    protocol: String,
    size: u64,
    others: BTreeMap<String, String>,
}

/// None to five sentences for each run with several kernels.
pub(crate) fn sentences(runs: &[RunInput], rtt: bool) -> Vec<String> {
    runs.iter().flat_map(|run| of_run(run, rtt)).collect()
}

fn of_run(run: &RunInput, rtt: bool) -> Vec<String> {
    let groups = cells::group(run);
    let mut contexts: BTreeMap<Context, BTreeMap<&str, OfKernel<'_>>> = BTreeMap::new();
    for (key, places) in &groups {
        let (Some(kernel), Some(load)) = (key.factors.get("kernel"), key.factors.get("load")) else { continue };
        let results = places.iter().filter_map(|place| run.results.get(*place));
        for result in results.filter(|result| result.verdict.trusted) {
            let boot = result.boot.as_ref().map(|boot| boot.visit).or(result.repetition).unwrap_or_default();
            let of_context = contexts.entry(context(key)).or_default().entry(kernel).or_default();
            of_context.entry(load).or_default().entry(boot).or_default().push(result);
        }
    }
    let told = contexts.iter().filter_map(|(context, kernels)| sentence(context, kernels, rtt));
    let mut told: Vec<(bool, String)> = told.collect();
    // What a policy for real time does comes first: there kernels differ.
    told.sort_by_key(|(is_real_time, _)| !is_real_time);
    let mut out: Vec<String> = told.into_iter().map(|(_, text)| text).collect();
    if let (Some(first), Substrate::SimulatedTime) = (out.first_mut(), run.document.substrate) {
        *first =
            format!("In simulated time (instructions are counted; this is no performance of any hardware): {first}");
    }
    out
}

fn context(key: &Key) -> Context {
    let mut others = key.factors.clone();
    others.retain(|name, _| name != "kernel" && name != "load");
    Context { probe: key.probe, protocol: key.protocol.clone(), size: key.size, others }
}

/// The tail of each kernel under load by that without, and its median without load by that of the fastest one.
fn sentence(context: &Context, kernels: &BTreeMap<&str, OfKernel<'_>>, rtt: bool) -> Option<(bool, String)> {
    let loads: BTreeSet<&str> = kernels.values().flat_map(|loads| loads.keys().copied()).collect();
    let idle = loads.iter().copied().find(|load| is_baseline("load", load))?;
    let load = loads.iter().copied().filter(|load| !is_baseline("load", load)).min_by_key(|load| rank("load", load))?;
    let whole: Vec<(&str, &OfKernel<'_>)> = kernels
        .iter()
        .filter(|(_, of)| of.contains_key(idle) && of.contains_key(load))
        .map(|(name, of)| (*name, of))
        .collect();
    let figure = |of: &OfKernel<'_>, load: &str, name: &str| by_boot(of.get(load), name, rtt);
    let all_have =
        |name: &&&str| whole.iter().all(|(_, of)| [idle, load].iter().all(|load| !figure(of, load, name).is_empty()));
    let tail = TAILS.iter().find(all_have)?;
    let mut grown: Vec<(&str, Ratio)> = Vec::new();
    for (name, of) in &whole {
        grown.push((name, Ratio::of(&figure(of, load, tail), &figure(of, idle, tail))?));
    }
    grown.sort_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
    let [(best, least), .., (worst, most)] = grown.as_slice() else { return None };
    let middle = |of: &OfKernel<'_>| mean(&figure(of, idle, "p50").into_values().collect::<Vec<_>>());
    let (fastest, quick) = whole.iter().min_by(|a, b| middle(a.1).total_cmp(&middle(b.1)))?;
    let of_best = whole.iter().find(|(name, _)| name == best)?.1;
    let cost = match Ratio::of(&figure(of_best, idle, "p50"), &figure(quick, idle, "p50")) {
        Some(cost) if fastest != best => {
            format!("Without load its p50 is {} times that of {fastest}, the fastest", cost.words())
        }
        _ => "Without load it has the smallest p50, too".to_owned(),
    };
    let any = whole.first()?.1.get(idle)?.values().flatten().copied().collect::<Vec<_>>();
    let kind = kind_of(&any, rtt).title();
    let (policy, is_real_time) = policy(context);
    let message = if context.protocol == Protocol::Timer.word() {
        String::new()
    } else {
        format!(" of {} at {} bytes", context.protocol.to_uppercase(), context.size)
    };
    let what = format!("{kind}{message}{policy}");
    let text = if least.ratio < 2.0 || most.ratio / least.ratio >= 2.0 {
        format!(
            "{what}: under load {load}, {best} keeps its tail best: {tail} is {} times that without load; the worst is {worst} with {} \
             times. {cost}.",
            least.words(),
            most.words()
        )
    } else {
        format!(
            "{what}: under load {load} no kernel keeps its tail: {tail} is {} times ({best}) to {} times ({worst}) that without load.",
            least.words(),
            most.words()
        )
    };
    Some((is_real_time, text))
}

/// The policy in words, and whether it is one for real time.
fn policy(context: &Context) -> (String, bool) {
    let Some(policy) = context.others.get("policy") else { return (String::new(), false) };
    let near = policy.split(';').next().unwrap_or(policy);
    let is_real_time = near.parse().is_ok_and(|policy: Policy| policy.is_real_time());
    (format!(", policy {}", crate::units::plain(policy)), is_real_time)
}

/// A figure of each boot: the geometric mean of its repetitions.
fn by_boot(boots: Option<&BTreeMap<u32, Vec<&ResultDocument>>>, name: &str, rtt: bool) -> BTreeMap<u32, f64> {
    let Ok(metric) = name.parse::<Metric>() else { return BTreeMap::new() };
    let of = |results: &Vec<&ResultDocument>| {
        let values = results.iter().filter_map(|result| metric.of(result, rtt)).filter(|value| *value > 0.0);
        let values: Vec<f64> = values.collect();
        (!values.is_empty()).then(|| mean(&values))
    };
    boots.into_iter().flatten().filter_map(|(boot, results)| Some((*boot, of(results)?))).collect()
}

fn mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len().max(1) as f64).exp()
}

/// A ratio over boots.
struct Ratio {
    ratio: f64,
    low: f64,
    high: f64,
    boots: usize,
}

impl Ratio {
    /// Of the boots that both have.
    fn of(ours: &BTreeMap<u32, f64>, theirs: &BTreeMap<u32, f64>) -> Option<Self> {
        let both = ours.iter().filter_map(|(boot, value)| Some((*value, *theirs.get(boot)?)));
        let (ours, theirs): (Vec<f64>, Vec<f64>) = both.unzip();
        let (ratio, low, high) = stats::ratio(&ours, &theirs);
        ratio.is_finite().then_some(Self { ratio, low, high, boots: ours.len() })
    }

    fn words(&self) -> String {
        let [ratio, low, high] = [self.ratio, self.low, self.high].map(three_digits);
        match self.boots {
            1 => ratio,
            boots if boots < FEWEST => format!("{ratio} ({low} to {high} over {})", counted(boots, "boot")),
            _ => format!("{ratio} ({low} to {high})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Latency, LatencyKind, Probe};

    fn result(p50: u64, p99: u64) -> ResultDocument {
        let mut result = ResultDocument { probe: Probe::Pingpong, ..ResultDocument::default() };
        result.latency = Some(Latency {
            kind: LatencyKind::RttHalf,
            count: 1000,
            mean_ns: Some(p50 as f64),
            stdev_ns: Some(1.0),
            min_ns: Some(p50),
            p50_ns: Some(p50),
            p90_ns: Some(p50),
            p99_ns: Some(p99),
            p99_9_ns: None,
            p99_99_ns: None,
            p99_999_ns: None,
            max_ns: Some(p99),
            p50_ci95_ns: None,
            mean_ci95_ns: None,
        });
        result
    }

    fn told(policy: &str, figures: &[(&str, [u64; 2], [u64; 2])]) -> Option<(bool, String)> {
        let results: Vec<(&str, ResultDocument, ResultDocument)> = figures
            .iter()
            .map(|(name, idle, load)| (*name, result(idle[0], idle[1]), result(load[0], load[1])))
            .collect();
        let of = |idle, load| {
            let boots = |one| (1..=3).map(|boot| (boot, vec![one])).collect();
            OfKernel::from([("none", boots(idle)), ("build", boots(load))])
        };
        let kernels = results.iter().map(|(name, idle, load)| (*name, of(idle, load))).collect();
        let others = BTreeMap::from([("policy".to_owned(), policy.to_owned())]);
        let context = Context { probe: Probe::Pingpong, protocol: "udp".to_owned(), size: 32, others };
        sentence(&context, &kernels, false)
    }

    /// Catches: the wrong kernel praised, the cost taken under load, ratios upside down, and a policy under which none keeps its tail.
    #[test]
    fn the_kernel_that_keeps_its_tail_is_named_with_what_it_costs() {
        let fifo = [("plain", [26_000, 30_000], [60_000, 2_400_000]), ("rt", [31_200, 36_000], [31_300, 36_000])];
        let (is_real_time, text) = told("fifo:50", &fifo).unwrap();
        assert!(is_real_time);
        assert_eq!(
            text,
            "RTT/2 of UDP at 32 bytes, policy fifo:50: under load build, rt keeps its tail best: p99 is 1.00 (1.00 to 1.00 over 3 boots) \
             times that without load; the worst is plain with 80.0 (80.0 to 80.0 over 3 boots) times. Without load its p50 is 1.20 (1.20 \
             to 1.20 over 3 boots) times that of plain, the fastest."
        );
        let other = [("plain", [26_000, 30_000], [60_000, 2_400_000]), ("rt", [31_200, 36_000], [90_000, 3_600_000])];
        let (is_real_time, text) = told("other", &other).unwrap();
        assert!(!is_real_time && text.contains("no kernel keeps its tail: p99 is 80.0"), "{text}");
        assert!(told("fifo:50", &fifo[..1]).is_none(), "one kernel is no comparison");
    }
}
