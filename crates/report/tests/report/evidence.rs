//! What evidence a comparison needs: runs as samples, gates that cannot be decided, and corrections.

use crate::sample;
use crate::sample::{Chance, Recipe, Shape};
use digest::compare::{CompareOptions, Comparisons, MetricComparison, Outcome, Sample, Siblings};
use digest::{Metric, RunInput};
use model::{Probe, ResultDocument, Substrate};
use stats::Looks;
use windhover_report::compare::{self, ComparisonWriter as _, TwoSettings};

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

/// One result, made once: its figures are replaced.
fn base() -> ResultDocument {
    static BASE: std::sync::OnceLock<ResultDocument> = std::sync::OnceLock::new();
    BASE.get_or_init(made).clone()
}

fn made() -> ResultDocument {
    let shape = Shape {
        probe: Probe::Pingpong,
        protocol: "udp",
        load: "none",
        policy: "other",
        size: 32,
        repetition: 1,
        messages: 2000,
    };
    ResultDocument { histogram: None, ..sample::result(&shape) }
}

/// What a campaign of `cells` sizes finds: each run has a moment of its own (`between`, a share), which its repetitions share
/// and scatter about by 1 %.
#[derive(Clone, Copy)]
struct Campaign {
    cells: u64,
    repetitions: u32,
    between: f64,
    by: f64,
}

/// The figures that are compared where many comparisons are made.
fn two() -> Vec<Metric> {
    ["p50", "p99"].map(|word| word.parse().unwrap()).to_vec()
}

const ORDINARY: Campaign = Campaign { cells: 3, repetitions: 5, between: 0.03, by: 1.0 };

impl Campaign {
    fn run(self, name: &str, noise: &mut Chance) -> RunInput {
        let (base, mut run) = (base(), sample::run(&EMPTY));
        run.name = name.to_owned();
        let common = 1.0 + self.between * noise.normal();
        for repetition in 1..=self.repetitions {
            for cell in 0..self.cells {
                let own = self.by * common * (1.0 + 0.01 * noise.normal());
                let mut result = base.clone();
                result.factors.insert("size".into(), (32 << cell).into());
                result.repetition = Some(repetition);
                let mut scaled = |ns: f64| {
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
                    let ns = (ns * own * (1.0 + 0.003 * noise.normal())) as u64;
                    ns
                };
                let latency = result.latency.as_mut().unwrap();
                latency.p50_ns = Some(scaled(5_000.0));
                latency.p99_ns = Some(scaled(9_000.0));
                latency.p99_9_ns = None;
                latency.max_ns = Some(scaled(40_000.0));
                latency.mean_ns = Some(scaled(5_200.0) as f64);
                latency.stdev_ns = Some(scaled(800.0) as f64);
                run.results.push(result);
            }
        }
        run
    }

    fn runs(self, name: &str, count: u32, noise: &mut Chance) -> Vec<RunInput> {
        (1..=count).map(|place| self.run(&format!("{name}{place}"), noise)).collect()
    }
}

fn options(gates: &[&str], significant: bool) -> CompareOptions {
    let gates = gates.iter().map(|gate| gate.parse().unwrap()).collect();
    CompareOptions { gates, significant, ..CompareOptions::default() }
}

fn figures(made: &Comparisons) -> impl Iterator<Item = &MetricComparison> {
    let cells = made.comparisons.iter().flat_map(|one| &one.cells).flat_map(|cell| &cell.metrics);
    cells.chain(made.comparisons.iter().flat_map(|one| &one.overall).flat_map(|overall| &overall.metrics))
}

fn claims(made: &Comparisons) -> bool {
    figures(made).any(|figure| matches!(figure.outcome, Outcome::Higher | Outcome::Lower))
}

pub(crate) fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn identical_campaigns_seldom_differ_when_runs_are_the_samples() {
    // 100 pairs of sides of five identical campaigns: at most 5 % may claim anything, and the seeds decide which do.
    let wrong = |between: f64| {
        let campaign = Campaign { between, ..ORDINARY };
        (0..100)
            .filter(|seed| {
                let mut noise = Chance::new(*seed);
                let (a, b) = (campaign.runs("a", 5, &mut noise), campaign.runs("b", 5, &mut noise));
                claims(&compare::of(&a, &b, &options(&[], false)).unwrap())
            })
            .count()
    };
    for between in [0.0, 0.03, 0.2] {
        let wrong = wrong(between);
        assert!(wrong <= 8, "spread of {between}: {wrong} of 100 pairs of equals claim a difference");
    }
    // What differs is still found.
    let mut noise = Chance::new(1);
    let (a, b) = (ORDINARY.runs("a", 5, &mut noise), Campaign { by: 1.3, ..ORDINARY }.runs("b", 5, &mut noise));
    let made = compare::of(&a, &b, &options(&["p99 > +10%"], true)).unwrap();
    assert!(claims(&made) && made.broken() && made.comparisons[0].sample == Sample::Run);
    assert!(figures(&made).all(|figure| figure.a_values.len() == 5 && figure.b_values.len() == 5));
}

#[test]
fn one_run_a_side_claims_nothing_and_says_so_first() {
    let mut noise = Chance::new(7);
    let all = ORDINARY.runs("r", 12, &mut noise);
    for (at, a) in all.iter().enumerate() {
        for b in all.iter().skip(at + 1) {
            let (a, b) = (std::slice::from_ref(a), std::slice::from_ref(b));
            let made = compare::of(a, b, &options(&["p50 > +15%", "p99 > +15%"], false)).unwrap();
            assert!(!claims(&made) && !made.broken() && made.undecided());
        }
    }
    // However far apart they lie.
    let slow = Campaign { by: 4.0, ..ORDINARY }.run("slow", &mut noise);
    let made = compare::of(&all[..1], &[slow], &options(&["p50 > +15%", "p99 > 20us"], false)).unwrap();
    assert!(!claims(&made) && made.gates[0].undecided && !made.gates[0].broken);
    assert!(made.gates[1].broken, "a limit of the second side alone asks nothing of the first: {:?}", made.gates[1]);
    let text = flat(&made.text(100, false));
    let first = made.comparisons[0].summary.iter().find(|sentence| sentence.starts_with("One run a side")).unwrap();
    assert!(first.starts_with("One run a side: nothing is claimed"), "{first}");
    for words in [
        "--repeat-runs 5",
        "compare A1 A2 … --with B1 B2 …",
        "--axis FACTOR",
        "gate 'p50 > +15%': UNDECIDED",
        "5 runs a side would decide",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn siblings_widen_the_interval_of_one_run_a_side() {
    let mut noise = Chance::new(3);
    let all = ORDINARY.runs("r", 8, &mut noise);
    let of = |siblings: &[RunInput]| {
        let siblings = Siblings { groups: vec![siblings.to_vec()], place: "runs".to_owned() };
        let options = CompareOptions { siblings, ..options(&[], false) };
        compare::of(&all[..1], &all[1..2], &options).unwrap()
    };
    let width = |made: &Comparisons| {
        let figure = made.comparisons[0].cells[0].metrics.iter().find(|figure| figure.metric == "p50").unwrap();
        let [low, high] = figure.ratio_ci95.unwrap();
        (high - low, figure.interval_over.clone().unwrap())
    };
    let (alone, over) = width(&of(&[]));
    assert_eq!(over, "repetitions of one run each");
    let (wide, over) = width(&of(&all[2..]));
    assert_eq!(over, "one run each and its siblings");
    assert!(wide > 2.0 * alone, "{alone} {wide}");
    let text = of(&all[2..]).comparisons[0].summary.join(" ");
    assert!(
        text.contains("the spread between runs of this host, from 6 other runs of the same plan in runs"),
        "{text}"
    );
    assert!(
        of(&all[2..4]).comparisons[0].summary.concat().contains("is not known (2 other runs of the same plan in runs")
    );
}

#[test]
fn with_the_spread_between_runs_the_interval_covers_equality() {
    // Pairs of identical campaigns beside eight others: 95 % of the intervals hold "no difference"; of 300 at least 270.
    let held = (0..300)
        .filter(|seed| {
            let mut noise = Chance::new(1000 + seed);
            let all = Campaign { cells: 1, ..ORDINARY }.runs("r", 10, &mut noise);
            let siblings = Siblings { groups: vec![all[2..].to_vec()], place: "runs".to_owned() };
            let options = CompareOptions { siblings, metrics: two(), ..options(&[], false) };
            let made = compare::of(&all[..1], &all[1..2], &options).unwrap();
            let [low, high] = made.comparisons[0].cells[0].metrics[0].ratio_ci95.unwrap();
            low <= 1.0 && high >= 1.0
        })
        .count();
    assert!(held >= 270, "{held} of 300");
}

/// The second policy of one run, `by` times as slow, with other repetitions than the first.
fn interleaved(repetitions: [u32; 2], by: f64) -> RunInput {
    let mut noise = Chance::new(5);
    let of = |repetitions: u32, by: f64| Campaign { cells: 1, repetitions, between: 0.0, by };
    let mut run = of(repetitions[0], 1.0).run("r", &mut noise);
    for mut result in of(repetitions[1], by).run("r", &mut noise).results {
        result.factors.insert("policy".into(), "fifo:50".into());
        run.results.push(result);
    }
    run
}

#[test]
fn a_gate_that_cannot_decide_is_no_pass() {
    for (repetitions, needed) in [([3, 1], "4 repetitions a side"), ([3, 3], "4 repetitions a side")] {
        for (gate, by) in [("p50 > +15%", 3.3), ("p99 > +15%", 71.0), ("p50 > +1us", 3.0), ("p50 > +15%", 1.0)] {
            let run = interleaved(repetitions, by);
            let options = CompareOptions { axis: Some("policy".to_owned()), ..options(&[gate], true) };
            let made = compare::of(&[run], &[], &options).unwrap();
            assert!(made.undecided() && !made.broken(), "{gate} at {by} times: {:?}", made.gates);
            assert_eq!(made.gates[0].needed.as_deref(), Some(needed));
            // Who asks with a gate reads its answer first.
            let text = made.text(100, false);
            assert!(
                text.lines().nth(1).is_some_and(|line| line.starts_with("gate ") && line.contains("UNDECIDED")),
                "{text}"
            );
        }
    }
    // Enough of them decide, either way.
    for (by, broken) in [(3.3, true), (1.0, false)] {
        let options = CompareOptions { axis: Some("policy".to_owned()), ..options(&["p50 > +15%"], true) };
        let made = compare::of(&[interleaved([4, 4], by)], &[], &options).unwrap();
        assert_eq!((made.broken(), made.undecided()), (broken, false), "{:?}", made.gates);
    }
    // A limit of one side, too: a single repetition has no interval.
    let options = CompareOptions { axis: Some("policy".to_owned()), ..options(&["p50 > 6us"], true) };
    let made = compare::of(&[interleaved([3, 1], 3.3)], &[], &options).unwrap();
    assert!(made.undecided() && made.gates[0].needed.as_deref() == Some("3 repetitions a side"), "{:?}", made.gates);
}

#[test]
fn a_figure_that_a_repetition_lacks_is_said_to_be_lacking() {
    // Eight against eight could decide, but one of them has no p99.
    let mut run = interleaved([8, 8], 3.0);
    run.results[0].latency.as_mut().unwrap().p99_ns = None;
    let options = CompareOptions { axis: Some("policy".to_owned()), ..options(&["p99 > +15%"], true) };
    let gate = compare::of(&[run], &[], &options).unwrap().gates.remove(0);
    assert!(gate.undecided);
    assert_eq!(gate.needed.as_deref(), Some("repetitions that all have the figure"));
    assert!(gate.cells[0].sentence.contains("not every repetition has this figure"), "{}", gate.cells[0].sentence);
}

#[test]
fn absolute_gates_over_many_cells_are_corrected() {
    // Twelve cells at the limit, 300 times: with intervals of 95 % alone a quarter breaks. 5 % are expected (half of what
    // Holm allows, as half of the error lies below the limit); 15 and six deviations are 38.
    let campaign = Campaign { cells: 12, repetitions: 6, between: 0.0, by: 1.0 };
    let broken = (0..300)
        .filter(|seed| {
            let run = campaign.run("r", &mut Chance::new(*seed));
            let run = std::slice::from_ref(&run);
            let options = CompareOptions { metrics: two(), ..options(&["p50 > 5us"], true) };
            compare::of(run, run, &options).unwrap().broken()
        })
        .count();
    assert!(broken <= 24, "{broken} of 300 runs at the limit broke it");
    // What is beyond breaks it still.
    let run = Campaign { by: 1.1, ..campaign }.run("r", &mut Chance::new(1));
    let made = compare::of(std::slice::from_ref(&run), std::slice::from_ref(&run), &options(&["p50 > 5us"], true));
    assert!(made.unwrap().broken());
}

#[test]
fn intervals_have_one_unit() {
    for by in [2.2, 2.6, 2.9, 3.1, 5.0] {
        for repetitions in [3, 6] {
            let mut noise = Chance::new(9);
            let run =
                |by: f64, noise: &mut Chance| Campaign { cells: 1, repetitions: 1, between: 0.25, by }.run("r", noise);
            let mut sides = [1.0, by].map(|by| (0..repetitions).map(|_| run(by, &mut noise)).collect::<Vec<_>>());
            for (place, run) in sides.iter_mut().flatten().enumerate() {
                run.name = format!("r{place}");
            }
            let made = compare::of(&sides[0], &sides[1], &options(&["p50 > +15%"], false)).unwrap();
            let gates = made.gates.iter().flat_map(|gate| &gate.cells).map(|cell| cell.sentence.clone());
            for sentence in figures(&made).map(|figure| figure.sentence.clone()).chain(gates) {
                let body = sentence.replace("95 %", "");
                assert!(!(body.contains(" times") && body.contains(" %")), "two units in one sentence: {sentence}");
            }
        }
    }
}

/// A repetition of each of two settings: p50 scatters by 3 %, jitter and p99.9 by a factor of two, together; the second side
/// has `by` times the jitter.
fn round(run: &mut RunInput, repetition: u32, by: f64, noise: &mut Chance) {
    for (side, by) in [("a", 1.0), ("b", by)] {
        let mut result = base();
        result.factors.insert(TwoSettings::FACTOR.into(), side.into());
        result.repetition = Some(repetition);
        let common = 0.6 * noise.normal();
        let mut drawn = |ns: f64, spread: f64, common: f64| ns * (common + spread * noise.normal()).exp();
        let latency = result.latency.as_mut().unwrap();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
        let whole = |ns: f64| Some(ns as u64);
        latency.p50_ns = whole(drawn(5_000.0, 0.03, 0.0));
        latency.stdev_ns = Some(by * drawn(800.0, 0.3, common));
        latency.p99_9_ns = whole(drawn(20_000.0, 0.3, common));
        latency.max_ns = whole(drawn(90_000.0, 0.5, common));
        run.results.push(result);
    }
}

/// What `--against` comes to: it ends at the first look that decides.
fn answer(seed: u64, most: usize, by: f64) -> TwoSettings {
    let (looks, mut noise) = (Looks::up_to(most, 0.05).unwrap(), Chance::new(seed));
    let mut run = RunInput { results: Vec::new(), ..sample::run(&EMPTY) };
    let names = || ["without", "with --policy fifo:1"].map(str::to_owned);
    for repetition in 1.. {
        round(&mut run, repetition, by, &mut noise);
        let samples = repetition as usize;
        if !looks.is_due(samples) {
            continue;
        }
        let made = TwoSettings::new(&run, names(), looks.level()).unwrap();
        assert_eq!(made.untrusted(), None, "every look can decide");
        if made.is_decided() || samples == looks.last() {
            return made;
        }
    }
    unreachable!()
}

/// Of 100 comparisons of a setting with itself 5 may find a difference; two deviations of a binomial are 4.4.
#[test]
fn a_setting_against_itself_is_rarely_called_different_by_the_whole_engine() {
    let wrong = (0..100).filter(|seed| answer(*seed, 9, 1.0).is_decided()).count();
    assert!(wrong <= 9, "{wrong} of 100");
    let made = (0..100).map(|seed| answer(seed, 9, 1.0)).find(|made| !made.is_decided()).unwrap();
    let text = flat(&made.text(100));
    assert!(
        text.starts_with("No difference seen larger than ") && text.contains("9 repetitions each, interleaved."),
        "{text}"
    );
    assert!(text.contains(" % (p50)") && text.contains("jitter") && text.contains("--at-most"), "{text}");
}

#[test]
fn three_times_the_jitter_is_said_first_with_its_interval() {
    let found: Vec<TwoSettings> = (0..20).map(|seed| answer(seed, 14, 3.0)).collect();
    let right = found.iter().filter(|made| made.is_decided()).count();
    assert!(right >= 12, "{right} of 20");
    let said = |made: &TwoSettings| made.text(200).lines().next().unwrap().to_owned();
    let jitter = found.iter().map(said).filter(|line| line.starts_with("jitter of RTT/2: ")).collect::<Vec<_>>();
    assert!(jitter.len() + 2 >= right, "{jitter:?}");
    for line in jitter {
        assert!(line.contains(" with --policy fifo:1 against ") && line.contains(" without: "), "{line}");
        assert!(line.contains(" times higher (95 % ") && line.ends_with("repetitions each, interleaved."), "{line}");
    }
}

#[test]
fn what_cannot_be_trusted_decides_nothing() {
    let mut noise = Chance::new(1);
    let mut run = RunInput { results: Vec::new(), ..sample::run(&EMPTY) };
    (1..=8).for_each(|repetition| round(&mut run, repetition, 30.0, &mut noise));
    let made = |run: &RunInput| TwoSettings::new(run, ["without", "with x"].map(str::to_owned), 0.05).unwrap();
    assert!(made(&run).is_decided());
    // Of one side first one, then most, then all.
    let lines = [(1, None), (5, Some("5 of 8 repetitions with x")), (8, Some("no repetition with x can be trusted"))];
    for (left, why) in lines {
        let mut spoilt = run.clone();
        for result in spoilt.results.iter_mut().skip(1).step_by(2).take(left) {
            result.verdict.trusted = false;
        }
        let made = made(&spoilt);
        let found = made.untrusted();
        assert_eq!(found.is_some(), why.is_some(), "{left}: {found:?}");
        let text = flat(&made.text(100));
        match why {
            Some(why) => assert!(text.starts_with(&format!("Not decided: {why}")), "{text}"),
            None => assert!(text.contains("1 of 8 repetitions with x left out"), "{text}"),
        }
    }
}

/// Catches: a figure of which one repetition has too few messages, and which is left out without a word.
#[test]
fn a_figure_that_a_repetition_lacks_is_named() {
    let mut noise = Chance::new(1);
    let mut run = RunInput { results: Vec::new(), ..sample::run(&EMPTY) };
    (1..=8).for_each(|repetition| round(&mut run, repetition, 1.0, &mut noise));
    let text = |run: &RunInput| {
        let made = TwoSettings::new(run, ["without", "with x"].map(str::to_owned), 0.05).unwrap();
        flat(&made.text(100))
    };
    assert!(!text(&run).contains("is not compared"), "{}", text(&run));
    run.results[5].latency.as_mut().unwrap().p50_ns = None;
    assert!(text(&run).contains("p50 is not compared: each repetition needs 20 messages"), "{}", text(&run));
}
