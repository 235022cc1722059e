//! Kernels in words: which of them keeps its tail under load, what that costs without load, and what the policy does to it.

use crate::say::Facts;
use crate::units::{capital, counted, list, span, three_digits};
use digest::cells::{self, Key, kind_of};
use digest::combine::centre;
use digest::names::{is_baseline, label_word, rank, varying};
use digest::{Metric, RunInput, boots};
use model::quantity::Unit;
use model::{LatencyKind, Policy, ResultDocument, Substrate};
use stats::Ratio;
use std::collections::{BTreeMap, BTreeSet};

/// What the tail is read from: the first that all cells have.
const TAILS: [&str; 3] = ["p99.9", "p99", "max"];
/// Boots from which the interval of a ratio is one of 95 %; of fewer it is their range.
const FEWEST: usize = 6;
/// Below this ratio a tail is kept, and below it two kernels are not told apart: less is often chance, and seldom matters.
const KEPT: f64 = 2.0;
/// Causes at most that a sentence names.
const CAUSES: usize = 2;
/// Sentences of a run at most.
const MOST: usize = 5;

/// Results of one kernel under one load.
#[derive(Default)]
struct OfLoad<'a> {
    /// Those that can be trusted, by boot.
    boots: BTreeMap<u32, Vec<&'a ResultDocument>>,
    /// Why another one cannot be.
    untrusted: Option<String>,
}

/// Results of one kernel by load.
type OfKernel<'a> = BTreeMap<&'a str, OfLoad<'a>>;

/// Everything but kernel and load.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Context {
    probe: model::Probe,
    protocol: String,
    size: u64,
    others: BTreeMap<String, String>,
}

/// At most [`MOST`] sentences for each run with several kernels, and one for those that have no result.
pub(crate) fn sentences(facts: &Facts<'_>) -> Vec<String> {
    let rtt = facts.document.kind == LatencyKind::Rtt;
    facts.runs.iter().flat_map(|run| of_run(run, rtt)).collect()
}

fn of_run(run: &RunInput, rtt: bool) -> Vec<String> {
    let groups = cells::group(run);
    let mut contexts: BTreeMap<Context, BTreeMap<&str, OfKernel<'_>>> = BTreeMap::new();
    for (key, places) in &groups {
        let (Some(kernel), Some(load)) = (key.factors.get("kernel"), key.factors.get("load")) else { continue };
        let of_context = contexts.entry(context(key)).or_default();
        let of_load = of_context.entry(kernel).or_default().entry(load).or_default();
        for result in places.iter().filter_map(|place| run.results.get(*place)) {
            if !result.verdict.trusted {
                of_load.untrusted = result.verdict.invalid.first().map(|finding| finding.id.to_string());
                continue;
            }
            let boot = result.boot.as_ref().map(|boot| boot.visit).or(result.repetition).unwrap_or_default();
            of_load.boots.entry(boot).or_default().push(result);
        }
    }
    let unit = boots::unit(run.results.iter().map(|result| (result.factor("kernel"), result.boot.as_ref())));
    let sentences = contexts.iter().filter_map(|(context, kernels)| {
        let alike = contexts.keys().filter(|other| other.probe == context.probe).map(|other| &other.others);
        sentence(context, &varying(alike), kernels, unit, rtt)
    });
    let mut sentences: Vec<(bool, String)> = sentences.collect();
    // What a policy for real time does comes first: there kernels differ.
    sentences.sort_by_key(|(is_real_time, _)| !is_real_time);
    let mut out: Vec<String> = sentences.into_iter().map(|(_, text)| text).collect();
    let more = out.len().saturating_sub(MOST);
    out.truncate(MOST);
    out.extend((more > 0).then(|| {
        let what = counted(more, "further combination");
        format!("{what} of the other factors: see the tables.")
    }));
    out.extend(without_result(run));
    if let (Some(first), Substrate::SimulatedTime) = (out.first_mut(), run.document.substrate) {
        *first =
            format!("In simulated time (instructions are counted; this is no performance of any hardware): {first}");
    }
    out
}

/// The kernels of the plan that no cell was measured on, with the reason of the first one.
fn without_result(run: &RunInput) -> Option<String> {
    let measured: BTreeSet<String> = run.results.iter().filter_map(|result| result.factor("kernel")).collect();
    let mut missing: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for step in &run.document.order {
        let kernel = step.factors.get("kernel").and_then(serde_json::Value::as_str);
        let Some(kernel) = kernel.filter(|kernel| !measured.contains(*kernel)) else { continue };
        let why = run.failed.iter().find(|(cell, _)| *cell == step.cell).map(|(_, why)| why.as_str());
        let known = missing.entry(kernel).or_default();
        *known = known.or(why);
    }
    let words = |(kernel, why): (&str, Option<&str>)| {
        crate::units::plain(&format!("{kernel} ({})", why.unwrap_or("it was not its turn yet")))
    };
    let words: Vec<String> = missing.into_iter().map(words).collect();
    (!words.is_empty()).then(|| format!("No cell was measured on {}.", list(&words)))
}

fn context(key: &Key) -> Context {
    let mut others = key.factors.clone();
    others.retain(|name, _| name != "kernel" && name != "load");
    Context { probe: key.probe, protocol: key.protocol.clone(), size: key.size, others }
}

/// The tail of each kernel under load by that without, and its median without load by the fastest's. `varying`: the factors
/// that name this context; `unit`: what a boot is called.
fn sentence(
    context: &Context,
    varying: &BTreeSet<String>,
    kernels: &BTreeMap<&str, OfKernel<'_>>,
    unit: &'static str,
    rtt: bool,
) -> Option<(bool, String)> {
    let loads: BTreeSet<&str> = kernels.values().flat_map(|loads| loads.keys().copied()).collect();
    let idle = loads.iter().copied().find(|load| is_baseline("load", load))?;
    let load = loads.iter().copied().filter(|load| !is_baseline("load", load)).min_by_key(|load| rank("load", load))?;
    let figure = |of: &OfKernel<'_>, load: &str, name: &str| by_boot(of.get(load), name, rtt);
    let is_whole = |of: &OfKernel<'_>| ratio(&figure(of, load, "max"), &figure(of, idle, "max")).is_some();
    let whole: Vec<(&str, &OfKernel<'_>)> =
        kernels.iter().filter(|(_, of)| is_whole(of)).map(|(name, of)| (*name, of)).collect();
    let left_out: Vec<String> = kernels
        .iter()
        .filter(|(_, of)| !is_whole(of))
        .map(|(name, of)| format!("{name} is left out: {}.", absence(of, [idle, load])))
        .collect();
    let left_out = left_out.into_iter().fold(String::new(), |all, one| format!("{all} {one}"));
    let all_have =
        |name: &&&str| whole.iter().all(|(_, of)| [idle, load].iter().all(|load| !figure(of, load, name).is_empty()));
    let tail = TAILS.iter().find(all_have)?;
    let growth = |of: &OfKernel<'_>| ratio(&figure(of, load, tail), &figure(of, idle, tail));
    let grown: Option<Vec<_>> = whole.iter().map(|(name, of)| Some((*name, growth(of)?))).collect();
    let mut grown = grown?;
    let words = |ratio: &(Ratio, usize)| times(ratio, unit);
    grown.sort_by(|(_, (a, _)), (_, (b, _))| a.typical.total_cmp(&b.typical));
    let any = kernels.values().flat_map(BTreeMap::values).flat_map(|of| of.boots.values().flatten()).copied();
    let kind = kind_of(&any.collect::<Vec<_>>(), rtt).title();
    let (conditions, is_real_time) = conditions(context, varying);
    let what = format!("{}: under load {load},", capital(&format!("{kind}{conditions}")));
    let [(best, least), .., (worst, most)] = grown.as_slice() else {
        return (!left_out.is_empty() && kernels.len() > 1)
            .then(|| (is_real_time, format!("{what} kernels cannot be compared.{left_out}")));
    };
    let from_to =
        || format!("{tail} is {} times ({best}) to {} times ({worst}) that without load.", words(least), words(most));
    let ((low, boots), (high, _)) = (least, most);
    let text = if high.typical / low.typical >= KEPT && low.high < high.low {
        let middle = |of: &OfKernel<'_>| {
            centre(&figure(of, idle, "p50").into_values().collect::<Vec<_>>(), Unit::Ns).unwrap_or(1.0)
        };
        let (fastest, quick) = whole.iter().min_by(|a, b| middle(a.1).total_cmp(&middle(b.1)))?;
        let of_best = whole.iter().find(|(name, _)| name == best)?.1;
        let cost = match ratio(&figure(of_best, idle, "p50"), &figure(quick, idle, "p50")) {
            Some(cost) if fastest != best => {
                format!("Without load the p50 of {best} is {} times that of {fastest}, the fastest.", words(&cost))
            }
            _ => format!("Without load {best} has the smallest p50, too."),
        };
        let others: Vec<_> = grown.iter().skip(1).filter(|(_, (ratio, _))| ratio.typical < KEPT).collect();
        let is_alone = others.iter().all(|(_, (ratio, _))| low.high < ratio.low);
        let keeps = if is_alone { "keeps its tail best" } else { "keeps its tail" };
        let others: Vec<String> = others.iter().map(|(name, ratio)| format!("{name} with {}", words(ratio))).collect();
        let others = if others.is_empty() { String::new() } else { format!(" So do {}.", list(&others)) };
        let of_worst = whole.iter().find(|(name, _)| name == worst)?.1;
        let because = because([of_best, of_worst], load, best);
        let once =
            if *boots == 1 { format!(" One {unit} each shows no spread between {unit}s.") } else { String::new() };
        format!(
            "{what} {best} {keeps}: {tail} is {} times that without load.{others} The worst is {worst} with {} times.{because} {cost}{once}",
            words(least),
            words(most)
        )
    } else if high.typical < KEPT {
        format!("{what} every kernel keeps its tail: {}", from_to())
    } else if low.typical >= KEPT {
        format!("{what} no kernel keeps its tail: {}", from_to())
    } else {
        format!("{what} no kernel stands out: {}", from_to())
    };
    Some((is_real_time, text + &left_out))
}

/// Which causes take more from the messages of the worst kernel than from those of the best one; empty where one is not explained.
fn because(kernels: [&OfKernel<'_>; 2], load: &str, best: &str) -> String {
    let results = kernels.map(|of| {
        let all = of.get(load).into_iter().flat_map(|of| of.boots.values().flatten());
        all.copied().collect::<Vec<_>>()
    });
    let changes = digest::causes::changes(&results[0], &results[1]);
    let classes = changes.iter().flat_map(|changes| &changes.classes);
    let more = classes.filter(|one| one.difference_ns > 0.0 && one.class.is_known()).take(CAUSES);
    let words = more.map(|one| format!("{} takes {} ({} on {best})", one.class, span(one.b_ns), span(one.a_ns)));
    let words: Vec<String> = words.collect();
    if words.is_empty() {
        return String::new();
    }
    format!(" There {} from a message on average.", list(&words))
}

/// Why a kernel has no figure under both loads.
fn absence(of: &OfKernel<'_>, loads: [&str; 2]) -> String {
    let place = |load: &str| match is_baseline("load", load) {
        true => "without load".to_owned(),
        false => format!("under load {load}"),
    };
    let empty = loads.into_iter().find(|load| of.get(load).is_none_or(|of| of.boots.is_empty()));
    let Some(load) = empty else { return "its results with and without load are of different boots".to_owned() };
    match of.get(load).and_then(|of| of.untrusted.as_ref()) {
        Some(id) => format!("no result {} can be trusted ({id})", place(load)),
        None => format!("it has no result {}", place(load)),
    }
}

/// What was measured under which conditions, and whether the policy is one for real time.
fn conditions(context: &Context, varying: &BTreeSet<String>) -> (String, bool) {
    let message = if context.probe.has_peer() {
        format!(" of {} at {} bytes", context.protocol.to_uppercase(), context.size)
    } else {
        String::new()
    };
    let (policy, is_real_time) = policy(context);
    let others = context.others.iter().filter(|(name, _)| *name != "policy" && varying.contains(*name));
    let others = others.fold(String::new(), |all, (name, value)| format!("{all}, {}", label_word(name, value)));
    (format!("{message}{policy}{others}"), is_real_time)
}

/// The policy in words, and whether it is one for real time.
fn policy(context: &Context) -> (String, bool) {
    let Some(policy) = context.others.get("policy") else { return (String::new(), false) };
    let near = policy.split(';').next().unwrap_or(policy);
    let is_real_time = near.parse().is_ok_and(|policy: Policy| policy.is_real_time());
    (format!(", policy {}", crate::units::plain(policy)), is_real_time)
}

/// A figure of each boot: the geometric mean of its repetitions.
fn by_boot(of: Option<&OfLoad<'_>>, name: &str, rtt: bool) -> BTreeMap<u32, f64> {
    let Ok(metric) = name.parse::<Metric>() else { return BTreeMap::new() };
    let boots = of.map(|of| &of.boots);
    let figure = |results: &Vec<&ResultDocument>| {
        let values = results.iter().filter_map(|result| metric.of(result, rtt)).filter(|value| *value > 0.0);
        let values: Vec<f64> = values.collect();
        centre(&values, Unit::Ns)
    };
    boots.into_iter().flatten().filter_map(|(boot, results)| Some((*boot, figure(results)?))).collect()
}

/// The ratio of two kernels' or loads' figures of the same boots, and how many boots there are; `None`: none in common.
fn ratio(first: &BTreeMap<u32, f64>, second: &BTreeMap<u32, f64>) -> Option<(Ratio, usize)> {
    let both = first.iter().filter_map(|(boot, value)| Some((*value, *second.get(boot)?)));
    let (first, second): (Vec<f64>, Vec<f64>) = both.unzip();
    let ratio = stats::ratio(&first, &second);
    ratio.typical.is_finite().then_some((ratio, first.len()))
}

fn times((ratio, boots): &(Ratio, usize), unit: &str) -> String {
    let [typical, low, high] = [ratio.typical, ratio.low, ratio.high].map(three_digits);
    match *boots {
        1 => typical,
        boots if boots < FEWEST => format!("{typical} ({low} to {high} over {})", counted(boots, unit)),
        _ => format!("{typical} ({low} to {high})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Blame, CauseClass, Explanation, Latency, Probe};

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

    /// Results of p50 and p99 in ns, in as many boots as there are pairs of them.
    type Figures<'a> = (&'a str, &'a [[u64; 2]], &'a [[u64; 2]]);

    fn told_of(policy: &str, varying: &[&str], figures: &[Figures<'_>]) -> Option<(bool, String)> {
        let made = |all: &[[u64; 2]]| all.iter().map(|one| result(one[0], one[1])).collect::<Vec<_>>();
        let results: Vec<_> = figures.iter().map(|(name, idle, load)| (*name, [made(idle), made(load)])).collect();
        fn of_boots(all: &[ResultDocument]) -> OfLoad<'_> {
            OfLoad {
                boots: (1..).zip(all.iter().map(|one| vec![one])).collect(),
                untrusted: all.is_empty().then(|| "interval-too-short".to_owned()),
            }
        }
        let kernels = results
            .iter()
            .map(|(name, [idle, load])| (*name, OfKernel::from([("none", of_boots(idle)), ("build", of_boots(load))])))
            .collect();
        let others = [("policy", policy), ("shield", "v2")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let context = Context {
            probe: Probe::Pingpong,
            protocol: "udp".to_owned(),
            size: 32,
            others: others.into_iter().collect(),
        };
        let varying = varying.iter().map(|name| (*name).to_owned()).collect();
        sentence(&context, &varying, &kernels, "boot", false)
    }

    fn told(policy: &str, figures: &[(&str, [u64; 2], [u64; 2])]) -> Option<(bool, String)> {
        let thrice: Vec<_> = figures.iter().map(|(name, idle, load)| (*name, [*idle; 3], [*load; 3])).collect();
        let figures: Vec<Figures<'_>> = thrice.iter().map(|(name, idle, load)| (*name, &idle[..], &load[..])).collect();
        told_of(policy, &[], &figures)
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
             times that without load. The worst is plain with 80.0 (80.0 to 80.0 over 3 boots) times. Without load the p50 of rt is 1.20 \
             (1.20 to 1.20 over 3 boots) times that of plain, the fastest."
        );
        let third = [fifo[0], fifo[1], ("full", [27_000, 30_000], [60_000, 33_000])];
        let (_, text) = told("fifo:50", &third).unwrap();
        let kept = "times that without load. So do full with 1.10 (1.10 to 1.10 over 3 boots). The worst is plain";
        assert!(text.contains("rt keeps its tail best") && text.contains(kept), "{text}");
        // As good as the first one within their boots.
        let twins = [fifo[0], fifo[1], ("full", [27_000, 36_000], [60_000, 36_000])];
        let (_, text) = told("fifo:50", &twins).unwrap();
        assert!(text.contains(" keeps its tail: p99 is 1.00") && !text.contains("best"), "{text}");
        let other = [("plain", [26_000, 30_000], [60_000, 2_400_000]), ("rt", [31_200, 36_000], [90_000, 3_600_000])];
        let (is_real_time, text) = told("other", &other).unwrap();
        assert!(!is_real_time && text.contains("no kernel keeps its tail: p99 is 80.0"), "{text}");
        assert!(told("fifo:50", &fifo[..1]).is_none(), "one kernel is no comparison");
    }

    /// Catches: a cause of the best kernel that is blamed for the worst one's tail, what is not known given as a cause, and sums in place
    /// of means.
    #[test]
    fn the_causes_that_the_best_kernel_lacks_are_named() {
        let explained = |losses: &[(CauseClass, u64)]| {
            let blame = |&(class, lost_ns)| Blame {
                class,
                name: None,
                host: "initiator".to_owned(),
                messages: 10,
                lost_ns,
                share: 0.0,
                worst_ns: lost_ns,
                p99_without_ns: None,
                p99_9_without_ns: None,
            };
            let causes = losses.iter().map(blame).collect();
            let explanation = Some(Explanation { messages: 1000, causes, ..Explanation::default() });
            ResultDocument { explanation, ..ResultDocument::default() }
        };
        use CauseClass::{LowerTask, Preempted, Softirq, Unknown};
        let best = explained(&[(Softirq, 100_000), (Preempted, 4_000_000)]);
        let worst =
            explained(&[(Softirq, 6_000_000), (LowerTask, 3_000_000), (Preempted, 1_000_000), (Unknown, 9_000_000)]);
        let of = |result| OfLoad { boots: BTreeMap::from([(1, vec![result])]), untrusted: None };
        let [best, worst] = [&best, &worst].map(|result| OfKernel::from([("build", of(result))]));
        assert_eq!(
            because([&best, &worst], "build", "rt"),
            " There softirq takes 6.00 µs (100 ns on rt) and lower-task takes 3.00 µs (0 ns on rt) from a message on average."
        );
        assert_eq!(because([&OfKernel::new(), &worst], "build", "rt"), "", "one is not explained");
    }

    /// Catches: a winner among twins, and among kernels whose boots lie as far apart as the kernels do.
    #[test]
    fn no_kernel_wins_by_chance() {
        let twins = [("a", [26_000, 30_000], [27_000, 31_000]), ("b", [26_000, 30_000], [27_000, 33_000])];
        let (_, text) = told("fifo:50", &twins).unwrap();
        assert!(text.contains("every kernel keeps its tail: p99 is 1.03"), "{text}");
        let idle = [[26_000, 30_000]; 3];
        let quiet = [[26_000, 30_000], [26_000, 36_000], [26_000, 200_000]];
        let loud = [[26_000, 90_000], [26_000, 150_000], [26_000, 180_000]];
        let (_, text) = told_of("fifo:50", &[], &[("a", &idle, &quiet), ("b", &idle, &loud)]).unwrap();
        assert!(text.contains("no kernel stands out: p99 is ") && !text.contains("best"), "{text}");
        let (_, text) =
            told_of("fifo:50", &[], &[("a", &idle[..1], &idle[..1]), ("b", &idle[..1], &loud[..1])]).unwrap();
        assert!(
            text.contains("a keeps its tail best") && text.ends_with("One boot each shows no spread between boots."),
            "{text}"
        );
    }

    /// Catches: the kernel with the worst tail of all dropped without a word, and two conditions under the same words.
    #[test]
    fn what_is_left_out_and_what_else_differs_is_said() {
        let (idle, kept, grown) = ([[26_000, 30_000]; 3], [[26_000, 31_000]; 3], [[26_000, 300_000]; 3]);
        let figures: [Figures<'_>; 3] = [("a", &idle, &kept), ("b", &idle, &grown), ("c", &idle, &[])];
        let (_, text) = told_of("fifo:50", &["shield"], &figures).unwrap();
        assert!(
            text.starts_with("RTT/2 of UDP at 32 bytes, policy fifo:50, shield v2: under load build, a keeps"),
            "{text}"
        );
        let why = " c is left out: no result under load build can be trusted (interval-too-short).";
        assert!(text.ends_with(why), "{text}");
        let (_, text) = told_of("fifo:50", &[], &figures[1..]).unwrap();
        assert!(text.ends_with(&format!("under load build, kernels cannot be compared.{why}")), "{text}");
    }
}
