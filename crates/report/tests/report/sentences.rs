//! What sentences of a report claim, and what they must never claim.

use super::forms::{SMALL, report, shape, small};
use crate::sample::{self, Recipe};
use digest::Mark;
use digest::compare::{CompareOptions, Outcome};
use model::{Finding, FindingId, LatencyKind, Probe, Role, Substrate};
use windhover_report::compare::{self, ComparisonWriter as _};
use windhover_report::{Options, Report};

#[test]
fn untrusted_repetitions_are_left_out_and_said() {
    let mut run = small();
    let wanted = |r: &model::ResultDocument| {
        r.probe == Probe::Pingpong
            && r.size() == Some(32)
            && r.factor("protocol").as_deref() == Some("udp")
            && r.factor("load").as_deref() == Some("build")
    };
    let first = run.results.iter_mut().find(|r| wanted(r)).unwrap();
    first.latency.as_mut().unwrap().mean_ns = Some(1e9);
    first.verdict.add(Finding::at(FindingId::Migrated, "initiator", "moved twice"));
    let one = report(std::slice::from_ref(&run));
    let cell = one.document().cells.iter().find(|info| info.mark == Mark::Invalid).unwrap();
    assert_eq!((cell.repetitions, cell.left_out), (2, 1));
    assert!(cell.value("mean").unwrap() < 1e6);
    let text = one.table_text(100);
    assert!(text.contains("!1") && text.contains("moved twice") && text.contains("left out"), "{text}");
    for result in run.results.iter_mut().filter(|r| wanted(r)) {
        result.verdict.add(Finding::at(FindingId::Migrated, "initiator", "moved twice"));
    }
    let all = report(std::slice::from_ref(&run));
    let cell = all.document().cells.iter().find(|info| info.mark == Mark::Invalid).unwrap();
    assert_eq!((cell.repetitions, cell.left_out), (3, 0));
    assert!(all.table_text(1000).contains("No repetition can be trusted"));
    assert!(
        !all.document().summary.iter().any(|s| s.contains("Under load build the median of UDP")),
        "{:?}",
        all.document().summary
    );
}

#[test]
fn substrates_never_share_a_block() {
    let metal = sample::run(&Recipe { name: "metal", substrate: Substrate::Metal, ..SMALL });
    let report = report(&[small(), metal]);
    let headings: Vec<&str> = report.document().blocks.iter().map(|block| block.heading.as_str()).collect();
    assert_eq!(
        headings,
        ["Measured between separate computers (metal)", "Measured between network namespaces of one machine (netns)"]
    );
    let said = report.document().answer.sentences.join(" ");
    assert!(said.contains("not compared"), "{said}");
}

#[test]
fn simulated_time_is_named_wherever_its_figures_are() {
    let plain = report(&[small()]);
    let report = report(&[sample::run(&Recipe { substrate: Substrate::SimulatedTime, ..SMALL })]);
    let place = "in simulated time, by counted instructions";
    let answer = &report.document().answer;
    assert!(answer.measured.contains(place), "{answer:?}");
    assert!(answer.sentences.concat().contains("no performance of any hardware"), "{answer:?}");
    for text in [report.table_text(120), report.markdown(), report.page().unwrap().html] {
        assert!(text.contains(place), "{text}");
    }
    assert!(report.cells_text(400).contains(place));
    let lines = |text: &str| text.lines().skip(1).map(|line| line.contains("simulated-time")).collect::<Vec<_>>();
    assert!(lines(&report.csv()).iter().all(|says| *says), "{}", report.csv());
    assert!(report.document().cells.iter().all(|info| info.label.contains("simulated-time")));
    assert!(!plain.table_text(120).contains("simulated"));
}

/// Catches: of an emulated guest, whose times mean nothing, effects were concluded and causes named.
#[test]
fn nothing_is_concluded_from_times_that_mean_nothing() {
    let made = |substrate| report(&[sample::run(&Recipe { substrate, repetitions: 8, ..SMALL })]);
    let (plain, simulated) = (made(Substrate::Netns), made(Substrate::Simulated));
    let said = |report: &Report| {
        let answer = &report.document().answer;
        (answer.sentences.join(" "), report.document().summary.join(" "), answer.next.clone())
    };
    assert!(said(&plain).0.contains("raises") || said(&plain).0.contains("lowers"), "{:?}", said(&plain));
    let (answer, summary, next) = said(&simulated);
    assert!(answer.contains("mean nothing"), "{answer}");
    for word in ["raises", "lowers", "because", "known change", "times (95 %"] {
        assert!(!answer.contains(word) && !summary.contains(word), "{word}: {answer} {summary}");
    }
    assert!(next.iter().all(|command| !command.contains("shield")), "{next:?}");
}

#[test]
fn a_known_change_of_the_kernel_is_quoted_where_version_and_symptom_fit() {
    let quoted = |release: &str, ksoftirqd_ns: Option<u64>, preemption: &str| {
        let mut run = sample::run(&Recipe { policies: &["other"], ..SMALL });
        for machine in run.document.machines.values_mut() {
            machine.kernel_release = Some(release.to_owned());
            machine.preemption = Some(preemption.to_owned());
        }
        for result in &mut run.results {
            let loaded = result.factor("load").is_some_and(|load| load != "none");
            let usage = &mut result.ends.of_mut(Role::Initiator).next().unwrap().usage;
            usage.elapsed_ns = 1_000_000_000;
            usage.ksoftirqd_ns = ksoftirqd_ns.filter(|_| loaded);
        }
        let summary = said(&report(&[run]));
        summary.lines().find(|line| line.contains("known change")).map(str::to_owned)
    };
    let some = quoted("6.1.0-49-amd64", Some(20_000_000), "PREEMPT_DYNAMIC (voluntary)").unwrap();
    for words in [
        "ksoftirqd ran 2.00 % of the time at the initiator",
        "d15121be7485",
        "on Linux 6.1.0-49-amd64",
        "may have the revert",
    ] {
        assert!(some.contains(words), "{some}");
    }
    for (release, ns, preemption) in [
        ("6.12.9", Some(20_000_000), "none"),
        ("6.1.0-49-amd64", Some(500_000), "none"),
        ("6.1.0-49-amd64", None, "none"),
        ("6.1.0-49-rt-amd64", Some(20_000_000), "PREEMPT_RT"),
    ] {
        assert_eq!(quoted(release, ns, preemption), None, "{release} {ns:?} {preemption}");
    }
}

/// What a report says in sentences, those of the first screen before the others.
pub(super) fn said(report: &Report) -> String {
    let document = report.document();
    document.answer.sentences.iter().chain(&document.summary).cloned().collect::<Vec<_>>().join("\n")
}

/// Catches: a claim without enough repetitions, one without its interval, and a page on which a quantity has two values.
#[test]
fn sentences_are_never_stronger_than_the_evidence() {
    let claims = |text: &str| text.contains("raises") || text.contains("lowers");
    for repetitions in [1, 3] {
        let few = report(&[sample::run(&Recipe { repetitions, ..SMALL })]);
        let text = said(&few);
        let first = text.lines().next().unwrap();
        assert!(
            first.starts_with(&format!("Measured, not tested ({repetitions} repetition")) && !claims(&text),
            "{text}"
        );
        assert!(few.markdown().contains("in µs, the geometric mean of the repetitions;"));
    }
    let run = sample::run(&Recipe { repetitions: 8, ..SMALL });
    let enough = report(std::slice::from_ref(&run));
    let text = said(&enough);
    let first = text.lines().next().unwrap();
    assert!(first.contains("load build raises jitter by ") && first.contains("(95 % "), "{text}");
    assert!(text.contains("comparisons are decided (p") && text.contains("after correction"), "{text}");
    // The values of a sentence are those of the comparison, and those of the table above it.
    let compared = compare::for_report(&[run], false);
    let jitter = compared[0].comparisons[0].cells[0].metrics.iter().find(|figure| figure.metric == "stdev").unwrap();
    let rows = &enough.document().answer.rows;
    let values = [jitter.a, jitter.b];
    for (row, wanted) in rows.iter().zip(values) {
        let shown = enough.document().cells[row.cell].value("stdev").unwrap();
        assert!((shown / wanted - 1.0).abs() < 1e-9, "{shown} {wanted}");
    }
    // The same distribution on both sides: no difference may be claimed, whatever the repetitions scatter.
    let mut same = sample::run(&Recipe { repetitions: 8, ..SMALL });
    let quiet: Vec<_> = same.results.iter().filter(|r| r.factor("load").as_deref() == Some("none")).cloned().collect();
    same.results.clone_from(&quiet);
    same.results.extend(quiet.into_iter().map(|mut result| {
        result.factors.insert("load".into(), "build".into());
        result
    }));
    let text = said(&report(&[same]));
    assert!(text.contains("no difference of jitter") && !claims(&text), "{text}");
}

/// Catches: a plan's own question that is not answered first, others that are tested with it, and a p where nothing is asked.
#[test]
fn what_a_plan_asks_is_answered_and_nothing_else_is_tested() {
    let mut run = sample::run(&Recipe { repetitions: 8, ..SMALL });
    run.results.retain(|result| result.factor("load").as_deref() == Some("none"));
    let quiet = std::mem::take(&mut run.results);
    for (stack, by) in [("xdp", 4), ("kernel", 1), ("spin", 1)] {
        run.results.extend(quiet.iter().cloned().map(|mut result| {
            result.factors.insert("stack".into(), stack.into());
            let latency = result.latency.as_mut().unwrap();
            latency.p50_ns = latency.p50_ns.map(|ns| ns / by);
            result
        }));
    }
    run.document.ask = vec![model::plan::Question {
        quantity: vec!["p50".to_owned()],
        filter: [("protocol", "udp"), ("probe", "pingpong"), ("size", "32")].map(|(a, b)| (a.into(), b.into())).into(),
        ..model::plan::Question::of_axis("stack")
    }];
    let made = report(std::slice::from_ref(&run));
    let answer = &made.document().answer;
    let bound = "Bypass spin against kernel: no difference of p50 seen larger than ";
    assert!(answer.sentences[0].starts_with(bound), "{answer:#?}");
    assert!(answer.sentences[1].starts_with("Bypass xdp lowers p50 by 75 % (95 % "), "{answer:#?}");
    assert_eq!(
        answer.rows.iter().map(|row| row.label.as_str()).collect::<Vec<_>>(),
        ["kernel", "bypass spin", "bypass xdp"]
    );
    assert!(answer.sentences.len() <= 5);
    // No p of the one that differs is said of the one that does not.
    assert!(answer.sentences.last().unwrap().starts_with("1 of 2 comparisons show a difference (p "), "{answer:#?}");
    assert_eq!(answer.next[0], "windhover bypass run --stack xdp PROGRAM");
    // What was cut short goes on first.
    let mut cut = run.clone();
    cut.document.order = sample::run(&Recipe { repetitions: 80, ..SMALL }).document.order;
    let answer = &report(&[cut]).document().answer.clone();
    assert!(answer.next[0].starts_with("windhover campaign resume "), "{answer:#?}");
    assert!(answer.measured.ends_with(" measurements done."), "{answer:#?}");
    // A figure that no repetition has is an open question.
    let mut lacking = run.clone();
    lacking.document.ask[0].quantity.push("p99.99".to_owned());
    for result in &mut lacking.results {
        result.latency.as_mut().unwrap().p99_99_ns = None;
    }
    let answer = &report(&[lacking]).document().answer.clone();
    assert!(answer.sentences[1].ends_with("; p99.99 not known: too few messages for it."), "{answer:#?}");
    assert!(answer.sentences.last().unwrap().contains("1 of 4 comparisons show a difference"), "{answer:#?}");
    let compared = compare::for_report(&[run], false);
    assert_eq!(compared[0].tests, 2, "one figure of two pairs of cells");
    let described = compared[1..].iter().flat_map(|all| &all.comparisons).flat_map(|one| &one.cells);
    let mut figures = described.flat_map(|cell| &cell.metrics).peekable();
    assert!(figures.peek().is_some());
    assert!(figures.all(|figure| figure.p.is_none() && !matches!(figure.outcome, Outcome::Higher | Outcome::Lower)));
}

/// Catches: a difference that is said of the load although the policy differs, too.
#[test]
fn a_value_that_differs_in_more_than_its_axis_is_not_tested() {
    let mut run = sample::run(&Recipe { repetitions: 8, ..SMALL });
    run.results.retain(|result| result.factor("load").as_deref() == Some("none"));
    let quiet = std::mem::take(&mut run.results);
    for (load, policy) in [("none", "other"), ("cpu", "other"), ("build", "fifo:1")] {
        run.results.extend(quiet.iter().cloned().map(|mut result| {
            result.factors.insert("load".into(), load.into());
            result.factors.insert("policy".into(), policy.into());
            result
        }));
    }
    run.document.ask = Vec::new();
    let compared = compare::for_report(&[run], false);
    let names: Vec<&str> = compared[0].comparisons.iter().map(|one| one.b.name.as_str()).collect();
    assert_eq!(names, ["load cpu"]);
}

#[test]
fn faster_under_load_names_the_sleeping_cpus() {
    // Both ends block; without load each message takes 33 µs, under load 8.
    let run = |virtualisation: Option<&str>, line: &str, receive: &str| {
        let mut run = small();
        for machine in run.document.machines.values_mut() {
            machine.virtualisation = virtualisation.map(str::to_owned);
            machine.cpuidle_driver = None;
            machine.command_line = Some(line.to_owned());
        }
        for result in &mut run.results {
            let by = if result.factor("load").as_deref() == Some("none") { 4 } else { 1 };
            result.factors.insert("receive".into(), receive.into());
            let latency = result.latency.as_mut().unwrap();
            latency.p50_ns = latency.p50_ns.map(|ns| ns * by);
        }
        let options = CompareOptions { axis: Some("load".into()), ..CompareOptions::default() };
        let compared = compare::of(std::slice::from_ref(&run), &[], &options).unwrap();
        [said(&report(&[run])), compared.text(120, false)]
    };
    // `compare --axis load` says the same.
    let texts = run(Some("kvm"), "quiet", "block").map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    for words in ["known artefact of sleeping CPUs", "virtual one (kvm)", "idle=poll", "spinning", "load that keeps"] {
        assert!(texts.iter().all(|text| text.contains(words)), "{words}: {texts:?}");
    }
    assert!(!texts.concat().contains("PM QoS"), "without a cpuidle driver it changes nothing: {texts:?}");
    for (guest, line, receive) in
        [(Some("kvm"), "quiet idle=poll", "block"), (Some("kvm"), "quiet", "spin"), (Some("none"), "quiet", "block")]
    {
        let texts = run(guest, line, receive);
        assert!(!texts.concat().contains("known artefact"), "{guest:?} {line} {receive}: {texts:?}");
    }
}

#[test]
fn an_empty_or_unfinished_run_is_said() {
    let mut run = small();
    run.results.clear();
    run.document.outcome = None;
    run.failed.push(("udp".into(), "the peer vanished".into()));
    let report = report(&[run]);
    let text = report.table_text(100);
    assert!(text.contains("0 of 36 steps") && text.contains("the peer vanished") && text.contains("No cell"), "{text}");
    let html = report.page().unwrap().html;
    assert!(
        html.contains("No cell has a result") && html.contains("the peer vanished") && !html.contains("id=\"table\"")
    );
    let none = Report::from_inputs(vec![], &Options::default());
    assert!(none.page().is_ok() && none.json().is_ok() && !none.table_text(80).is_empty());
}

/// A repetition of 1000 messages of `pace` of which some waited 10 ms for the sender; the others took 10 µs.
#[expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
pub(super) fn waited(repetition: u32, slow: u64, stored: bool) -> model::ResultDocument {
    let mut one = sample::result(&shape(Probe::Pingpong, "udp", 1000, 3000));
    (one.probe, one.repetition) = (Probe::Pace, Some(repetition));
    one.factors.insert("rate".into(), 20_000.into());
    let distribution = |quick_ns: u64, slow_ns: u64| {
        let mut histogram = stats::Histogram::new();
        histogram.record_n(quick_ns, 1000 - slow);
        histogram.record_n(slow_ns, slow);
        let latency = model::Latency {
            kind: LatencyKind::Rtt,
            count: 1000,
            p50_ns: histogram.quantile(0.5),
            p99_ns: histogram.quantile_if_supported(0.99, 10),
            p99_9_ns: None,
            ..one.latency.clone().unwrap()
        };
        (latency, histogram.to_base64_v2().unwrap())
    };
    let ((intended, of_intended), (lateness, of_lateness)) =
        (distribution(10_000, 10_000_000), distribution(1_000, 9_990_000));
    one.latency.as_mut().unwrap().kind = LatencyKind::Rtt;
    (one.latency_intended, one.lateness) = (Some(intended.clone()), Some(lateness));
    if stored {
        (one.histogram_intended, one.histogram_lateness) = (Some(of_intended), Some(of_lateness));
    }
    one.rate = Some(model::RateReport {
        asked_pps: 20_000.0,
        achieved_pps: 20_000.0,
        intended: 1000,
        behind: 0,
        most_behind: 0,
        gaps: Some(3),
        longest_gap: None,
        line_pps: None,
        saturated: None,
    });
    let signed = |p50: i64| model::Signed {
        count: 1000,
        mean_ns: p50 as f64,
        stdev_ns: Some(5.0),
        min_ns: p50 - 100,
        p50_ns: Some(p50),
        p99_ns: Some(p50 + 50),
        p99_9_ns: None,
        max_ns: p50 + 200,
    };
    let step = i64::from(repetition);
    one.one_way = Some(model::OneWay {
        out: signed(4000 + step),
        back: signed(6000 + step),
        method: model::OneWayMethod::MinRtt,
        offset_ns: 77,
        drift_ppm: 0.0,
        error_ns: 300 + u64::from(repetition),
        stamps: model::StampSource::Application,
        clocks: Vec::new(),
    });
    let latency = model::Latency { p50_ns: Some(2500), ..intended };
    let (name, stamps) = (model::SegmentName::FarKernel, model::StampSource::Kernel);
    one.segments = vec![model::Segment { name, stamps, latency }];
    one
}

#[test]
fn what_all_cells_of_a_probe_share_is_said_once() {
    let mut run = small();
    for repetition in 1..=3 {
        let mut one = waited(repetition, 0, true);
        one.factors.insert("pacer".into(), "sleep".into());
        (one.one_way, one.segments) = (None, waited(1, 0, true).segments);
        run.results.push(one);
    }
    let made = report(&[run]);
    let text = made.table_text(100).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Every cell:") && text.contains("pacer sleep (pace),"), "{text}");
    assert_eq!(text.matches("pacer").count(), 1, "{text}");
    assert!(text.contains("Parts of the round trip (p50) in µs, geometric mean of the repetitions"), "{text}");
    assert!(!text.contains("One-way") && !text.contains("One way"), "{text}");
}

#[test]
fn what_the_schedule_adds_is_of_each_repetition() {
    let of = |stored: [bool; 3]| {
        let mut run = sample::run(&Recipe { sizes: &[], rr: false, loads: &["none"], repetitions: 1, ..SMALL });
        run.results.extend((1..).zip([0, 0, 40]).zip(stored).map(|((at, slow), stored)| waited(at, slow, stored)));
        report(&[run])
    };
    let whole = of([true; 3]);
    let pace = |report: &Report| -> digest::CellInfo {
        report.document().cells.iter().find(|cell| cell.value("asked").is_some()).unwrap().clone()
    };
    // 40 of the last 1000 waited, and none of the others.
    let near = |ns: Option<f64>, wanted: f64| ns.is_some_and(|ns| (ns / wanted - 1.0).abs() < 1e-3);
    let cell = pace(&whole);
    assert!(near(cell.value("intended.p50"), 10_000.0) && near(cell.value("intended.p99"), 100_000.0), "{cell:?}");
    assert!(near(cell.value("lateness.p99"), 9_990_000_f64.cbrt() * 100.0), "{cell:?}");
    let [low, high] = cell.range("intended.p99").unwrap();
    assert!(near(Some(low), 10_000.0) && near(Some(high), 10_000_000.0), "{low} {high}");
    // A repetition of an older version has no distribution.
    let older = of([true, false, true]);
    assert!(near(pace(&older).value("intended.p99"), 100_000.0));
    // Charts of both, and of what is stored alone.
    let (html, old_html) = (whole.page().unwrap().html, older.page().unwrap().html);
    let titles = ["Tail", "Distribution function"].map(|what| format!("<title>{what} of RTT from the intended send, "));
    assert!(titles.iter().all(|title| html.contains(title) && !old_html.contains(title)));

    let known = ["out.p50", "out.p99", "back.min", "back.max", "one-way-error", "far-kernel.p50"];
    let wanted = [4002.0, 4052.0, 5901.0, 6203.0, 303.0, 2500.0];
    assert!(known.iter().zip(wanted).all(|(id, wanted)| near(cell.value(id), wanted)), "{cell:?}");
    assert_eq!(cell.words["one-way"], "min-rtt");
    let (text, markdown, csv) = (whole.table_text(120), whole.markdown(), whole.csv());
    for form in [&text, &markdown] {
        assert!(
            form.contains("One-way times (p50 and p99) and parts of the round trip (p50) in µs, geometric mean")
                && form.contains("far-kernel"),
            "{form}"
        );
    }
    assert!(text.lines().any(|line| ["4.00", "6.00", "0.30", "2.50"].iter().all(|word| line.contains(word))), "{text}");
    let mut lines = csv.split("\r\n");
    let heads: Vec<&str> = lines.next().unwrap().split(',').collect();
    let line: Vec<&str> = lines.find(|line| line.contains(",pace,")).unwrap().split(',').collect();
    let field = |name: &str| line[heads.iter().position(|head| *head == name).unwrap()];
    assert_eq!((field("out_p50_ns"), field("back_p99_ns"), field("one_way_error_ns")), ("4002", "6052", "303"));
    assert_eq!((field("far_kernel_p50_ns"), field("wire_p50_ns")), ("2500", ""));
    assert_eq!(heads.len(), line.len());
}

/// A run of fifo cells on one CPU: with stalls without a shield, and without stalls behind one.
#[test]
fn the_stall_by_throttling_is_explained_and_the_shield_is_named() {
    let recipe = sample::Recipe {
        name: "shield",
        substrate: Substrate::Netns,
        protocols: &["udp"],
        loads: &["build"],
        policies: &["fifo:1"],
        sizes: &[32],
        repetitions: 3,
        messages: 20_000,
        rr: false,
        ping: false,
    };
    let mut run = sample::run(&recipe);
    let mut behind = run.results.clone();
    for result in &mut run.results {
        result.factors.insert("shield".to_owned(), "off".into());
        let mut histogram = stats::Histogram::from_base64_v2(result.histogram.as_deref().unwrap()).unwrap();
        histogram.record(51_000_000);
        result.histogram = Some(histogram.to_base64_v2().unwrap());
        result.latency.as_mut().unwrap().max_ns = Some(25_500_000);
    }
    for result in &mut behind {
        result.factors.insert("shield".to_owned(), "auto".into());
        let shield = model::ShieldReport { backend: model::ShieldBackend::V1, ..model::ShieldReport::default() };
        result.prepared = vec![model::Prepared { shield: Some(shield), ..model::Prepared::default() }];
    }
    run.results.extend(behind);
    let report = Report::from_inputs(vec![run], &Options::default());
    let text = report.table_text(120).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("auto (v1)"), "what really kept others away:\n{text}");
    assert!(text.contains("throttled in") || text.contains("throttled ("), "{text}");
    assert!(text.contains("kernel.sched_rt_runtime_us = -1"), "{text}");
    assert!(text.contains("1 cell above has messages with an RTT of about 50 ms"), "{text}");
    let clean = report.document().cells.iter().find(|info| info.factors["shield"] == "auto (v1)").unwrap();
    assert!(clean.findings.iter().all(|finding| finding.id != "throttled"));
}
