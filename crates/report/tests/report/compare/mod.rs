//! What a comparison says of synthetic runs, and what it must never say.

mod kernels;
mod pgm;

use crate::sample;
use crate::sample::{Chance, Recipe, Shape};
use digest::compare::{CompareError, CompareOptions, Comparisons, Outcome, Sample};
use digest::{Metric, RunInput};
use model::{
    CellBoot, Fate, Finding, FindingId, PgmCounts, PgmEnd, PgmFate, PgmFec, PgmReport, Probe, ResultDocument, Substrate,
};
use windhover_report::compare::{self, ComparisonWriter as _, csv_columns};
use windhover_report::{Options, Report};

const EMPTY: Recipe = Recipe {
    name: "a-20261121T214304Z",
    substrate: Substrate::Netns,
    protocols: &[],
    loads: &[],
    policies: &[],
    sizes: &[],
    repetitions: 0,
    messages: 100,
    rr: false,
    ping: false,
};

/// One repetition whose median, p99, mean and deviation are scaled together, with a little noise of their own.
fn result(
    base: &ResultDocument,
    policy: &str,
    size: u64,
    repetition: u32,
    by: f64,
    noise: &mut Chance,
) -> ResultDocument {
    let mut result = base.clone();
    result.factors.insert("policy".into(), policy.into());
    result.factors.insert("size".into(), size.into());
    result.repetition = Some(repetition);
    let common = by * (1.0 + 0.02 * noise.normal());
    let latency = result.latency.as_mut().unwrap();
    let mut scaled = |ns: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
        let ns = (ns * common * (1.0 + 0.005 * noise.normal())) as u64;
        ns
    };
    latency.p50_ns = Some(scaled(5_000.0));
    latency.p99_ns = Some(scaled(9_000.0));
    latency.p99_9_ns = None;
    latency.max_ns = Some(scaled(40_000.0));
    latency.mean_ns = Some(scaled(5_200.0) as f64);
    latency.stdev_ns = Some(scaled(800.0) as f64);
    result
}

fn base() -> ResultDocument {
    let shape = Shape {
        probe: Probe::Pingpong,
        protocol: "udp",
        load: "none",
        policy: "other",
        size: 32,
        repetition: 1,
        messages: 2000,
    };
    sample::result(&shape)
}

/// A run whose cells are sizes; `by` scales each.
fn run(name: &str, repetitions: u32, cells: &[(&str, u64, f64)], seed: u64) -> RunInput {
    let (base, mut noise) = (base(), Chance::new(seed));
    let mut run = sample::run(&EMPTY);
    run.name = name.to_owned();
    for repetition in 1..=repetitions {
        for (policy, size, by) in cells {
            run.results.push(result(&base, policy, *size, repetition, *by, &mut noise));
        }
    }
    run
}

/// The same as runs of one repetition each, which is what two sides that were not interleaved are compared by.
fn runs(name: &str, count: u32, cells: &[(&str, u64, f64)], seed: u64) -> Vec<RunInput> {
    apart(&run(name, count, cells, seed))
}

/// Each repetition of a run as a run of its own.
fn apart(run: &RunInput) -> Vec<RunInput> {
    let mut out: Vec<RunInput> = Vec::new();
    for result in &run.results {
        let place = result.repetition.unwrap_or(1);
        let name = format!("{}{place}", run.name);
        match out.iter_mut().find(|run| run.name == name) {
            Some(run) => run.results.push(result.clone()),
            None => out.push(RunInput { name, results: vec![result.clone()], ..run.clone() }),
        }
    }
    out
}

fn options() -> CompareOptions {
    CompareOptions::default()
}

fn gated(gates: &[&str]) -> CompareOptions {
    CompareOptions { gates: gates.iter().map(|gate| gate.parse().unwrap()).collect(), ..options() }
}

fn claims(made: &Comparisons) -> usize {
    let cells = made.comparisons.iter().flat_map(|one| &one.cells).flat_map(|cell| &cell.metrics);
    let overall = made.comparisons.iter().flat_map(|one| &one.overall).flat_map(|overall| &overall.metrics);
    cells.chain(overall).filter(|figure| matches!(figure.outcome, Outcome::Higher | Outcome::Lower)).count()
}

const SIZES: [(&str, u64, f64); 3] = [("other", 32, 1.0), ("other", 256, 1.1), ("other", 1024, 1.3)];

fn by(factor: f64) -> Vec<(&'static str, u64, f64)> {
    SIZES.iter().map(|(policy, size, own)| (*policy, *size, own * factor)).collect()
}

#[test]
fn a_run_with_itself_never_differs() {
    for repetitions in [1, 3, 5, 8] {
        let own = run("a", repetitions, &SIZES, u64::from(repetitions));
        let made =
            compare::of(std::slice::from_ref(&own), std::slice::from_ref(&own), &gated(&["p99 > +0%", "p99 < -0%"]))
                .unwrap();
        assert_eq!(claims(&made), 0);
        assert!(!made.broken());
        let text = made.text(100, true);
        assert!(text.contains("A side's figure is the geometric mean over its repetitions"), "{text}");
        assert!(text.contains("Both sides are the same results"), "{text}");
        assert!(!text.contains("slower") && !text.contains("faster"), "{text}");
    }
}

#[test]
fn what_does_not_differ_is_seldom_said_to() {
    // Two runs of the same three cells with six repetitions each, 200 times: at most 5 % of the comparisons may claim
    // anything at all. 10 are the most that are expected, and six deviations of a binomial are 18 more.
    let wrong = (0..200)
        .filter(|seed| {
            let (a, b) = (runs("a", 6, &SIZES, 2 * seed), runs("b", 6, &SIZES, 2 * seed + 1));
            claims(&compare::of(&a, &b, &options()).unwrap()) > 0
        })
        .count();
    assert!(wrong <= 28, "{wrong} of 200 comparisons of equals claim a difference");
}

#[test]
fn what_differs_is_said_with_its_evidence() {
    let (a, b) = (runs("a", 7, &SIZES, 1), runs("b", 7, &by(1.12), 2));
    let made = compare::of(&a, &b, &options()).unwrap();
    let comparison = &made.comparisons[0];
    let figure = comparison.overall[0].metrics.iter().find(|figure| figure.metric == "p99").unwrap();
    assert_eq!(figure.outcome, Outcome::Higher);
    let [low, high] = figure.ratio_ci95.unwrap();
    assert!(low < 1.12 && high > 1.12 && low > 1.05, "{low} {high}");
    insta::assert_snapshot!(made.text(100, false));
    assert_eq!(made.text(100, true), compare::of(&a, &b, &options()).unwrap().text(100, true));
}

#[test]
fn three_repetitions_cannot_tell_and_it_is_said_why() {
    // Twice as slow in every repetition, and still 3 against 3 is one dealing in ten.
    let (a, b) = (runs("a", 3, &SIZES[..1], 1), runs("b", 3, &by(2.0)[..1], 2));
    let made = compare::of(&a, &b, &options()).unwrap();
    assert_eq!(claims(&made), 0);
    let figure = &made.comparisons[0].cells[0].metrics[0];
    assert_eq!(figure.outcome, Outcome::TooFew);
    assert!((figure.smallest_p - 0.1).abs() < 1e-12 && figure.p_corrected.unwrap() >= 0.1 - 1e-12);
    let text = made.text(100, false);
    assert!(text.contains("cannot bring p below 0.10, 4 each could"), "{text}");
    // Four can.
    let (a, b) = (runs("a", 4, &SIZES[..1], 1), runs("b", 4, &by(2.0)[..1], 2));
    assert!(claims(&compare::of(&a, &b, &options()).unwrap()) > 0);
}

#[test]
fn one_repetition_has_no_interval_unless_asked_for() {
    let (mut a, mut b) = (runs("a", 1, &SIZES[..1], 1), runs("b", 1, &by(2.0)[..1], 2));
    for side in [&mut a, &mut b] {
        let latency = side[0].results[0].latency.as_mut().unwrap();
        let p50 = latency.p50_ns.unwrap();
        latency.p50_ci95_ns = Some([p50 - 50, p50 + 50]);
    }
    let of = |batches: bool| {
        let options = CompareOptions { batches, ..options() };
        compare::of(&a, &b, &options).unwrap().comparisons[0].cells[0].metrics[0].clone()
    };
    assert_eq!((of(false).ratio_ci95, of(false).interval_over), (None, None));
    let figure = of(true);
    assert_eq!((figure.outcome, figure.interval_over.as_deref()), (Outcome::TooFew, Some("batches")));
    assert!(figure.ratio_ci95.is_some() && figure.sentence.contains("over the batches of one repetition each"));
}

#[test]
fn cells_that_cannot_be_trusted_are_named_and_claim_nothing() {
    let (a, mut b) = (runs("a", 6, &SIZES, 1), runs("b", 6, &by(3.0), 2));
    for result in b.iter_mut().flat_map(|run| &mut run.results).filter(|result| result.size() == Some(32)) {
        result.verdict.add(Finding::at(FindingId::ClockUnfit, "initiator", "the clock jumped"));
    }
    for result in b
        .iter_mut()
        .flat_map(|run| &mut run.results)
        .filter(|result| result.size() == Some(256) && result.repetition == Some(2))
    {
        result.verdict.add(Finding::at(FindingId::Migrated, "initiator", "it moved"));
    }
    let made = compare::of(&a, &b, &options()).unwrap();
    let comparison = &made.comparisons[0];
    let excluded = comparison.cells.iter().find(|cell| cell.excluded.is_some()).unwrap();
    assert!(excluded.metrics.iter().all(|figure| figure.outcome == Outcome::Untrusted));
    let text = made.text(100, true).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("Excluded from claims: pingpong udp 32 B: B has no repetition that can be trusted"),
        "{text}"
    );
    assert!(text.contains("1 repetition of B left out") && text.contains("clock-unfit only in B"), "{text}");
    let whole = &comparison.overall[0];
    assert_eq!((whole.cells, whole.metrics[0].b_values.len()), (2, 5), "rounds that a cell lacks do not count");
    // A gate that is about nothing else than such cells is no pass.
    let error = compare::of(&a, &b, &gated(&["p99 > +10% @ size=32"])).unwrap_err();
    assert_eq!(error.exit_code(), 4, "{error}");
}

#[test]
fn sizes_and_probes_are_never_mixed_silently() {
    let a = runs("a", 4, &SIZES[..1], 1);
    let b = runs("b", 4, &[("other", 64, 1.0)], 2);
    let error = compare::of(&a, &b, &options()).unwrap_err();
    assert!(matches!(&error, CompareError::Apart { factor, .. } if factor == "size"), "{error}");
    assert!(error.to_string().contains("--where size=") && error.exit_code() == 2);
    let wheres = |size: &str| vec![("size".to_owned(), size.to_owned())];
    let named = CompareOptions { wheres: wheres("32"), wheres_b: wheres("64"), ..options() };
    let text = compare::of(&a, &b, &named).unwrap().text(100, false);
    assert!(text.contains("Different messages are compared, as asked for: size 32 with size 64"), "{text}");
}

#[test]
fn substrates_are_never_mixed_silently() {
    let (a, mut b) = (runs("a", 4, &SIZES, 1), runs("b", 4, &by(1.5), 2));
    for run in &mut b {
        run.document.substrate = Substrate::Metal;
        run.document.labels.insert("site".into(), "elsewhere".into());
    }
    let made = compare::of(&a, &b, &options()).unwrap();
    let text = made.text(100, false).replace("\n  ", " ");
    assert!(
        text.contains("The sides are of different substrates: A was measured between network namespaces"),
        "{text}"
    );
    assert!(text.contains("substrate: netns | metal") && text.contains("label site: not known | elsewhere"), "{text}");
    assert!(text.contains("not interleaved"), "{text}");
}

#[test]
fn comparisons_in_simulated_time_say_so_at_each_figure() {
    let (mut a, mut b) = (runs("a", 4, &SIZES, 1), runs("b", 4, &by(1.5), 2));
    for run in a.iter_mut().chain(&mut b) {
        run.document.substrate = Substrate::SimulatedTime;
    }
    let made = compare::of(&a, &b, &options()).unwrap();
    let text = made.text(400, true);
    assert!(text.contains("in simulated time, by counted instructions"), "{text}");
    assert!(made.csv().lines().skip(1).all(|line| line.contains("simulated-time")), "{}", made.csv());
}

#[test]
fn options_of_the_kernel_that_differ_stand_beside_the_effect() {
    let (mut a, mut b) = (runs("a", 4, &SIZES, 1), runs("b", 4, &by(1.5), 2));
    let set = |runs: &mut [RunInput], text: Option<&str>, id: &str| {
        for machine in runs.iter_mut().flat_map(|run| run.document.machines.values_mut()) {
            machine.kernel_config = text.map(str::to_owned);
            machine.kernel_config_id = Some(id.to_owned());
        }
    };
    set(&mut a, Some("CONFIG_HZ=250\nCONFIG_VETH=m\nCONFIG_ACPI=y\n"), "a");
    set(&mut b, Some("CONFIG_HZ=250\nCONFIG_PREEMPT_RT=y\nCONFIG_VETH=y\nCONFIG_ACPI=y\n"), "b");
    let lines = |a: &[RunInput], b: &[RunInput]| -> Vec<String> {
        let made = compare::of(a, b, &options()).unwrap();
        let all = made.comparisons[0].differences.iter().filter(|one| one.what.contains("kernel "));
        all.map(|one| format!("{}: {:?} {:?}", one.what, one.a, one.b)).collect()
    };
    let found = lines(&a, &b);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].contains("initiator: CONFIG_PREEMPT_RT (") && found[0].ends_with("Some(\"not set\") Some(\"y\")"),
        "{found:?}"
    );
    assert!(found[1].contains("further options") && found[1].contains("1 differ, 0 set here only"), "{found:?}");
    // Without the options, only that they differ is known.
    set(&mut b, None, "b");
    let found = lines(&a, &b);
    assert!(found.len() == 1 && found[0].starts_with("kernel configuration of the initiator"), "{found:?}");
    set(&mut b, None, "a");
    assert!(lines(&a, &b).is_empty());
}

#[test]
fn a_report_compares_runs_of_one_substrate_alone() {
    let (mut a, b) = (run("a", 4, &SIZES, 1), run("b", 4, &SIZES, 2));
    assert_eq!(compare::for_report(&[a.clone(), b.clone()], false)[0].comparisons.len(), 1);
    a.document.substrate = Substrate::Metal;
    assert_eq!(compare::for_report(&[a, b], false), []);
}

#[test]
fn cells_of_one_run() {
    let cells =
        [("other", 32, 1.0), ("fifo:50", 32, 0.5), ("other", 64, 1.0), ("fifo:50", 64, 0.5), ("rr:50", 32, 0.5)];
    let own = run("a", 5, &cells, 1);
    let axis = |axis: &str| CompareOptions { axis: Some(axis.to_owned()), ..options() };
    let made = compare::of(std::slice::from_ref(&own), &[], &axis("policy")).unwrap();
    let names: Vec<String> = made.comparisons.iter().map(|one| format!("{} / {}", one.a.name, one.b.name)).collect();
    assert_eq!(names, ["policy other / fifo:50", "policy other / rr:50", "fifo:50 / rr:50"]);
    assert!(made.comparisons[0].interleaved && made.comparisons[1].unmatched[0].contains("64 B"));
    let wheres = |value: &str| vec![("policy".to_owned(), value.to_owned())];
    let two = CompareOptions { wheres: wheres("other"), wheres_b: wheres("fifo:50"), ..options() };
    let made = compare::of(std::slice::from_ref(&own), &[], &two).unwrap();
    assert_eq!((made.comparisons.len(), made.comparisons[0].cells.len()), (1, 2));
    assert!(made.text(100, false).contains("fifo:50 is faster than policy other by"), "{}", made.text(100, false));
    let error =
        |options: &CompareOptions| compare::of(std::slice::from_ref(&own), &[], options).unwrap_err().to_string();
    assert!(error(&axis("colour")).contains("no factor 'colour'"));
    assert!(error(&axis("load")).contains("only one value of load (none)"));
    assert!(error(&options()).contains("--axis"));
    let wrong = CompareOptions { wheres: wheres("idle"), wheres_b: wheres("other"), ..options() };
    assert!(error(&wrong).contains("fifo:50, other, rr:50"));
}

/// A plan says `shield = ["off", "auto"]`; the cells are named by the backend that `auto` chose.
#[test]
fn a_filter_takes_the_word_of_the_plan() {
    let mut own = run("a", 5, &[("other", 32, 1.0), ("fifo:50", 32, 0.5)], 1);
    for result in &mut own.results {
        let shielded = result.factor("policy").as_deref() == Some("fifo:50");
        result.factors.insert("policy".into(), "other".into());
        result.factors.insert("shield".into(), if shielded { "auto" } else { "off" }.into());
        let shield = model::ShieldReport { backend: model::ShieldBackend::V1, ..model::ShieldReport::default() };
        let prepared = model::Prepared { shield: Some(shield), ..model::Prepared::default() };
        result.prepared = if shielded { vec![prepared] } else { Vec::new() };
    }
    let compared = |shield: &str, gate: &str| {
        let wheres = |value: &str| vec![("shield".to_owned(), value.to_owned())];
        let options = CompareOptions { wheres: wheres("off"), wheres_b: wheres(shield), ..gated(&[gate]) };
        compare::of(std::slice::from_ref(&own), &[], &options)
    };
    let (recorded, plan) = ("auto (v1)", "auto");
    for word in [recorded, plan] {
        let made = compared(word, &format!("p99 < -10% @ shield={word}")).unwrap();
        let text = made.text(100, true);
        assert!(text.contains(&format!("shield {word} is faster than no shield by 5")), "{text}");
        assert!(made.broken(), "a gate takes {word}");
    }
    let error = compared("v1", "p99 > +10%").unwrap_err().to_string();
    assert!(error.contains("shield=v1: it has auto, auto (v1), off"), "{error}");
    assert!(compared("aut", "p99 > +10%").is_err());
}

#[test]
fn gates_break_on_the_estimate_and_tell_the_evidence() {
    let (a, b) = (runs("a", 6, &SIZES, 1), runs("b", 6, &by(1.3), 2));
    let broken = |gates: &[&str], significant: bool| {
        let options = CompareOptions { significant, ..gated(gates) };
        compare::of(&a, &b, &options).unwrap()
    };
    assert!(broken(&["p99 > +10%"], false).broken() && broken(&["p99 > +10%"], true).broken());
    assert!(!broken(&["p99 > +50%"], false).broken());
    assert!(broken(&["p99 > +1us"], false).broken() && !broken(&["p99 > 50us"], false).broken());
    assert!(broken(&["p50 > 5us @ size=1024"], true).broken() && !broken(&["p99 < -5%"], false).broken());
    // Improvement asked for and not there: broken however small the difference is.
    assert!(broken(&["p99 > -20%"], true).broken());
    let text = broken(&["p99 > +10%", "p99 > +50%"], false).text(100, false).replace("\n  ", " ");
    assert!(
        text.contains("gate 'p99 > +10%': BROKEN, judged in 3 pairs") && text.contains("'p99 > +50%': kept"),
        "{text}"
    );
    assert!(text.contains("the evidence is significant"), "{text}");
    // Few runs: the estimate breaks it; evidence cannot, and that is no pass.
    let (a, b) = (runs("a", 3, &SIZES, 1), runs("b", 3, &by(1.3), 2));
    let of =
        |significant: bool| compare::of(&a, &b, &CompareOptions { significant, ..gated(&["p99 > +10%"]) }).unwrap();
    assert!(of(false).broken() && !of(true).broken() && of(true).undecided() && !of(false).undecided());
    let text = of(true).text(100, false).replace("\n  ", " ");
    assert!(text.contains("gate 'p99 > +10%': UNDECIDED") && text.contains("5 runs a side would decide"), "{text}");
    // What judges nothing is an error and no pass.
    for (gate, word) in [("p99.9 > +10%", "p99.9"), ("p99 > +10% @ load=cpu", "load=none"), ("bits < 1Mbit/s", "bits")]
    {
        let error = compare::of(&a, &b, &gated(&[gate])).unwrap_err();
        assert!(error.to_string().contains(word) && error.exit_code() == 2, "{error}");
    }
}

#[test]
fn every_form_tells_the_same() {
    let (a, b) = (runs("a", 5, &SIZES, 1), runs("b", 5, &by(1.3), 2));
    let made = compare::of(&a, &b, &gated(&["loss > 1%"])).unwrap();
    let csv = made.csv();
    let lines: Vec<&str> = csv.split("\r\n").filter(|line| !line.is_empty()).collect();
    assert_eq!(lines[0], csv_columns().join(","));
    assert!(lines.iter().all(|line| line.split(',').count() == csv_columns().len()), "{csv}");
    let figures: usize = made.comparisons[0].cells.iter().map(|cell| cell.metrics.len()).sum();
    assert_eq!(lines.len() - 1, figures + made.comparisons[0].overall[0].metrics.len());
    let json: serde_json::Value = serde_json::from_str(&made.json().unwrap()).unwrap();
    assert_eq!(json["comparisons"][0]["cells"].as_array().unwrap().len(), 3);
    assert_eq!(json["gates"][0]["broken"], false);
    let markdown = made.markdown();
    assert!(markdown.contains("| p99 |") && markdown.contains("## B against A"), "{markdown}");
    let only = CompareOptions { metrics: vec!["p99".parse::<Metric>().unwrap()], ..options() };
    let made = compare::of(&a, &b, &only).unwrap();
    assert!(made.comparisons[0].cells.iter().all(|cell| cell.metrics.len() == 1));
}

#[test]
fn what_a_report_compares_by_itself() {
    let cells = [("other", 32, 1.0), ("fifo:50", 32, 0.5), ("other", 64, 1.0), ("fifo:50", 64, 0.5)];
    let own = run("a", 5, &cells, 1);
    let of_one = compare::for_report(std::slice::from_ref(&own), false);
    let titles: Vec<&str> = of_one.iter().map(|one| one.title.as_str()).collect();
    assert_eq!(titles, ["The primary comparisons", "What policy is worth: measured, not tested"]);
    let other = run("b", 5, &cells, 2);
    let of_two = compare::for_report(&[own, other], false);
    assert_eq!((of_two.len(), of_two[0].comparisons[0].cells.len()), (1, 4));
    assert!(compare::for_report(&[], false).is_empty());
}

#[test]
fn a_figure_that_a_short_repetition_lacks_asks_for_longer_ones() {
    // Six repetitions a side can show a difference; one of them was too short to have a p99.
    let mut own = run("a", 6, &[("other", 32, 1.0), ("fifo:1", 32, 2.0), ("other", 256, 1.0), ("fifo:1", 256, 2.0)], 5);
    own.results[0].latency.as_mut().unwrap().p99_ns = None;
    let options = CompareOptions {
        axis: Some("policy".to_owned()),
        metrics: vec!["p99".parse().unwrap()],
        gates: vec!["p99 > +10%".parse().unwrap()],
        significant: true,
        ..options()
    };
    let made = compare::of(std::slice::from_ref(&own), &[], &options).unwrap();
    let cell = made.comparisons[0].cells.iter().find(|cell| cell.label.contains("32 B")).unwrap();
    let figure = &cell.metrics[0];
    assert_eq!(figure.outcome, Outcome::TooFew);
    assert!(
        figure.sentence.contains("not every repetition has this figure (5 and 6 repetitions have p99): measure longer"),
        "{}",
        figure.sentence
    );
    let text = made.text(400, true);
    assert!(text.contains("(1 as not every repetition has p99: measure longer (seconds))"), "{text}");
    assert!(!text.contains("for too few repetitions") && !text.contains("cannot bring p below"), "{text}");
    assert!(text.contains("repetitions that all have the figure would decide"), "{text}");
}

/// Catches: the only significant difference, of one cell among many, that no sentence says and no table of the first screen has.
#[test]
fn what_is_significant_in_one_cell_alone_is_said_first() {
    let mut run = run("r", 8, &[("other", 32, 1.0), ("fifo:1", 32, 1.0)], 1);
    for result in run.results.iter_mut().filter(|result| result.factor("policy").as_deref() == Some("fifo:1")) {
        let latency = result.latency.as_mut().unwrap();
        latency.stdev_ns = latency.stdev_ns.map(|ns| ns / 50.0);
    }
    // The others have too few repetitions, and so has what all have together.
    for size in [64, 128, 256] {
        run.results.extend(self::run("r", 2, &[("other", size, 1.0), ("fifo:1", size, 1.0)], size).results);
    }
    let made = compare::of(&[run], &[], &CompareOptions { axis: Some("policy".to_owned()), ..options() }).unwrap();
    let said = made.comparisons[0].summary[1..3].join(" ");
    assert!(said.starts_with("Pingpong udp 32 B: ") && said.contains("jitter"), "{said}");
    let text = made.text(120, false);
    let first_table = text.lines().position(|line| line == "pingpong udp 32 B (RTT/2)");
    assert!(first_table.is_some_and(|line| line < 5), "{text}");
}
