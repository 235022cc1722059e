//! What reports say of why messages were late, where cells were explained.

use super::evidence::flat;
use super::forms::{SMALL, report};
use crate::sample::paced::{Cell, write};
use crate::sample::{self, Recipe};
use digest::RunInput;
use digest::compare::CompareOptions;
use model::result::Outlier;
use model::{Blame, Cause, CauseClass, Explanation, PathSegment, SegmentTime};
use windhover_report::compare::{self, ComparisonWriter};
use windhover_report::{Options, Report};

fn blame(class: CauseClass, name: &str, host: &str, lost_us: u64, p99_without_us: Option<u64>) -> Blame {
    Blame {
        class,
        name: Some(name.to_owned()).filter(|name| !name.is_empty()),
        host: host.to_owned(),
        messages: 9,
        lost_ns: lost_us * 1000,
        share: lost_us as f64 / 1e6,
        worst_ns: lost_us * 500,
        p99_without_ns: p99_without_us.map(|us| us * 1000),
        p99_9_without_ns: p99_without_us.map(|us| us * 2000),
    }
}

fn explanation(p99_us: u64, causes: Vec<Blame>) -> Explanation {
    Explanation {
        over_ns: p99_us * 1000,
        messages: 1000,
        late: 10,
        explained: 1.0,
        p50_before_ns: Some(20_000),
        p50_ns: Some(21_000),
        p99_ns: Some(p99_us * 1000),
        p99_9_ns: Some(p99_us * 2000),
        causes,
        ..Explanation::default()
    }
}

/// Messages of an ordinary thread, which wait behind compilers, and those of a real-time one.
fn explained(repetitions: u32) -> RunInput {
    let (loads, policies, protocols) = (&["build"][..], &["other", "fifo:1"][..], &["udp"][..]);
    let recipe = Recipe { loads, policies, protocols, sizes: &[32], repetitions, rr: false, ..SMALL };
    let mut run = sample::run(&recipe);
    let timer = |lost_us| blame(CauseClass::Hardirq, "local_timer", "reflector", lost_us, Some(140));
    for result in &mut run.results {
        result.explanation = Some(match result.factor("policy").as_deref() {
            Some("other") => explanation(
                7400,
                vec![
                    blame(CauseClass::RunQueue, "cc1", "initiator", 600_000, Some(1200)),
                    blame(CauseClass::RunQueue, "rustc|x", "reflector", 200_000, Some(7000)),
                    timer(150_000),
                    blame(CauseClass::Unknown, "", "initiator", 50_000, None),
                ],
            ),
            _ => {
                explanation(150, vec![timer(9_000), blame(CauseClass::RunQueue, "cc1", "initiator", 1_000, Some(150))])
            }
        });
    }
    run
}

const WORST: &str = "Late messages of policy other: 80 % of the time lost is run-queue behind cc1 and rustc|x, 15 % hardirq \
                     of local_timer; without run-queue RTT p99 would be at most 1.20 ms instead of 7.40 ms.";
const COST: &str =
    "800 µs of the 1.00 ms that a message lost on average with policy other, 1.00 µs of 10.0 µs with fifo:1.";

/// Catches: causes of tasks with many names that are each too small to be named, and repetitions that count once.
#[test]
fn an_answer_names_what_made_messages_late() {
    let run = explained(8);
    let made = report(std::slice::from_ref(&run));
    let sentences = &made.document().answer.sentences;
    assert!(sentences.len() <= 5, "{sentences:#?}");
    assert!(sentences.iter().any(|one| one == WORST), "{sentences:#?}");
    assert!(sentences.contains(&format!("Fifo:1 removes run-queue: {COST}")), "{sentences:#?}");
    // What was not decided is no effect of the policy.
    let few = report(&[explained(2)]).document().answer.sentences.join("\n");
    assert!(few.contains(&format!("Run-queue: {COST}")) && !few.contains("removes"), "{few}");
    // Of one cause it is known what would be without it, and not only a bound.
    let mut one = run.clone();
    for result in &mut one.results {
        result.explanation.as_mut().unwrap().causes.retain(|blame| blame.name.as_deref() != Some("rustc|x"));
    }
    let text = report(&[one]).document().answer.sentences.join("\n");
    assert!(text.contains("run-queue behind cc1, 19 %") && text.contains("would be 1.20 ms instead"), "{text}");
    // A better side that counts fewer messages as late proves nothing.
    let mut other = run.clone();
    for result in &mut other.results {
        result.explanation.as_mut().unwrap().over_ns +=
            if result.factor("policy").as_deref() == Some("other") { 0 } else { 1 << 30 };
    }
    let text = report(&[other]).document().answer.sentences.join("\n");
    assert!(text.contains("Late messages of policy other") && !text.contains("run-queue: "), "{text}");
    // Without explanations nothing of it is there.
    let mut none = run;
    none.results.iter_mut().for_each(|result| result.explanation = None);
    let none = report(&[none]);
    let all =
        [none.table_text(120), none.cells_text(200), none.markdown(), none.json().unwrap(), none.page().unwrap().html];
    for word in ["Late messages", "mostly late by", "Why late", "explanation", "id=\"causes\""] {
        assert!(all.iter().all(|text| !text.contains(word)), "{word}");
    }
}

#[test]
fn tables_have_the_causes_of_all_repetitions() {
    let made = report(&[explained(3)]);
    let cells = made.cells_text(200);
    assert!(cells.contains("stdev  mostly late by") && cells.contains("  run-queue 80 %  "), "{cells}");
    assert!(cells.contains("  hardirq 90 %  "), "{cells}");
    let text = made.table_text(200);
    let title = "30 of 3,000 messages took longer than RTT 7.40 ms; of the 3.00 s that they lost";
    assert!(
        text.contains("policy other): 80 % of the time lost is run-queue behind ")
            && flat(&text).contains(title)
            && !text.contains(CauseClass::RunQueue.removal().hint().trim_start_matches(char::is_alphabetic)),
        "{text}"
    );
    let line = text.lines().find(|line| line.starts_with("run-queue") && line.contains("cc1")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["run-queue", "cc1", "initiator", "27", "1800000", "60.0", "300000", "1200", "2400"]);
    // In Markdown each class has its hint once, and a name from outside is no markup.
    let markdown = made.markdown();
    let hint = CauseClass::RunQueue.removal().hint().trim_start_matches('k');
    assert_eq!(markdown.matches(hint).count(), 2, "{markdown}");
    assert!(markdown.contains("| run-queue | rustc\\|x | reflector |"), "{markdown}");
    let json: serde_json::Value = serde_json::from_str(&made.json().unwrap()).unwrap();
    let stored =
        json["cells"].as_array().unwrap().iter().filter(|cell| cell["explanation"]["causes"][0]["class"].is_string());
    assert_eq!(stored.count(), 2);
}

/// The section of a page.
fn section(html: &str) -> &str {
    html.split_once("<section id=\"causes\">").unwrap().1.split_once("</section>").unwrap().0
}

/// A comparison names the classes that changed in every form, once a pair, and a page has the same table.
#[test]
fn a_comparison_names_the_causes_that_changed() {
    let run = explained(8);
    let options = CompareOptions { axis: Some("policy".to_owned()), ..CompareOptions::default() };
    let made = compare::of(std::slice::from_ref(&run), &[], &options).unwrap();
    let text = made.text(120, true);
    let (_, causes) = text.split_once("Why late: what each message lost on average").unwrap();
    assert!(causes.trim_start().starts_with("; late is over 7.40 ms | 150 µs; --explain-over"), "{text}");
    let row = |word: &str| {
        let line = causes.lines().find(|line| line.trim_start().starts_with(word)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().skip(word.split(' ').count()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("run-queue"), "800 µs 1.00 µs −799 µs");
    assert_eq!(row("hardirq"), "150 µs 9.00 µs −141 µs");
    assert_eq!(row("all causes"), "1.00 ms 10.0 µs −990 µs");
    assert!(!causes.contains("unknown"), "5 % of what changed: {text}");
    assert_eq!(text.matches("Why late").count(), made.comparisons[0].cells.len(), "{text}");
    assert!(made.markdown().contains("| run-queue | 800 µs | 1.00 µs | −799 µs |"), "{}", made.markdown());
    let json: serde_json::Value = serde_json::from_str(&made.json().unwrap()).unwrap();
    let first = &json["comparisons"][0]["cells"][0]["causes"];
    assert_eq!(
        (&first["a_over_ns"], &first["classes"][0]["class"]),
        (&7_400_000.into(), &"run-queue".into()),
        "{json}"
    );
    let page = report(std::slice::from_ref(&run)).page().unwrap().html;
    assert!(
        page.contains("<td class=\"word\">run-queue</td><td>800 µs</td><td>1.00 µs</td><td>−799 µs</td>"),
        "{page}"
    );
    // Where a side was not explained there is no such table.
    let mut half = run;
    half.results
        .iter_mut()
        .filter(|one| one.factor("policy").as_deref() == Some("other"))
        .for_each(|one| one.explanation = None);
    let none = compare::of(&[half], &[], &options).unwrap();
    assert!(!none.text(120, true).contains("Why late") && !none.json().unwrap().contains("a_over_ns"));
}

#[test]
fn a_page_draws_the_causes() {
    let html = report(&[explained(3)]).page().unwrap().html;
    let causes = section(&html);
    assert_eq!((causes.matches("class=\"bar\"").count(), causes.matches("<table").count()), (2, 2), "{causes}");
    assert!(html.contains("<a href=\"#causes\">"));
    // Bars are as long as the shares, and as wide together as the picture, gaps aside.
    let (bar, _) = causes.split_once("class=\"bar\"").unwrap().1.split_once("</svg>").unwrap();
    let widths: Vec<f64> =
        bar.split("width=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect();
    assert_eq!(widths, [799.0, 149.0, 49.0], "{bar}");
    for words in ["run-queue 80.0 % (2.40 s)", "rustc|x", ">hint</th>"] {
        assert!(causes.contains(words), "{words}: {causes}");
    }
    assert!(!causes.contains("The worst message"), "no run directory has its messages");
}

fn message(seq: u64, rtt_ns: u64) -> Outlier {
    let part = |segment, ns| SegmentTime { segment, host: "initiator".to_owned(), cpu: Some(1), ns, excess_ns: ns };
    let cause = |name: &str, ns| Cause {
        class: CauseClass::RunQueue,
        name: Some(name.to_owned()),
        pid: Some(7),
        host: "initiator".to_owned(),
        cpu: Some(1),
        segment: PathSegment::NearWakeUp,
        ns,
        evidence: String::new(),
    };
    Outlier {
        seq,
        rtt_ns,
        segments: vec![part(PathSegment::NearSend, rtt_ns / 4), part(PathSegment::NearWakeUp, 3 * rtt_ns / 4)],
        causes: vec![cause("<cc1>", rtt_ns / 2), cause("ld", rtt_ns / 8)],
        ..Outlier::default()
    }
}

/// The page of a run whose only cell has these explained messages.
fn page_of(messages: &[Outlier]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let cell = Cell { policy: "other", rate: 10_000, repetition: 1, seconds: 2 };
    let path = write(folder.path(), "explained", &[cell], |_, measured| {
        let causes = vec![blame(CauseClass::RunQueue, "cc1", "initiator", 900, Some(20))];
        measured.result.explanation = Some(explanation(700, causes));
        measured.outliers.extend_from_slice(messages);
    });
    let run = store::Run::load(&path).unwrap();
    Report::from_runs(vec![run], &Options::default()).page().unwrap().html
}

#[test]
fn the_worst_message_is_drawn_from_the_run_directory() {
    let html = page_of(&[message(41, 800_000), message(4711, 4_000_000)]);
    let causes = section(&html);
    assert!(!causes.contains("class=\"late\""), "it is not known when they were sent");
    assert!(causes.contains("The worst message: 4711, RTT 4.00 ms") && !causes.contains("<cc1>"), "{causes}");
    assert!(
        causes.contains("near-wake-up at the initiator 3.00 ms: run-queue &lt;cc1&gt; 2.00 ms, run-queue ld 500 µs"),
        "{causes}"
    );
    let (_, way) = causes.split_once("The worst message").unwrap();
    // A quarter is the first segment; the causes begin where the second one does.
    for rect in [
        "x=\"0\" y=\"20\" width=\"249\"",
        "x=\"250\" y=\"20\" width=\"749\"",
        "x=\"250\" y=\"0\" width=\"499\"",
        "x=\"750\" y=\"0\" width=\"124\"",
    ] {
        assert!(way.contains(rect), "{rect}: {way}");
    }
}

/// Catches: messages at one place that hide each other, and a place below the axis.
#[test]
fn late_messages_are_drawn_over_time_in_the_colours_of_their_causes() {
    let at = |seq, rtt_ns, at_ms: u64| Outlier {
        realtime_ns: Some(1_796_000_000_000_000_000 + at_ms * 1_000_000),
        ..message(seq, rtt_ns)
    };
    let mut stolen = at(8, 5_000_000, 1_500);
    stolen.causes[0].class = CauseClass::Steal;
    let html = page_of(&[at(41, 800_000, 20), at(7, 100_000, 500), at(42, 801_000, 21), stolen]);
    let causes = section(&html);
    let (_, drawn) = causes.split_once("class=\"late\"").unwrap();
    let (before, drawn) = drawn.split_once("class=\"wide\"").unwrap();
    let (drawn, _) = drawn.split_once("</svg>").unwrap();
    assert!(before.contains("run-queue 3</li>") && before.contains("steal 1</li>"), "{before}");
    assert_eq!(drawn.matches("<g class=\"series\">").count(), 2, "a class is a series: {drawn}");
    assert_eq!(drawn.matches("<rect").count(), 3, "two are at one place: {drawn}");
    let both = "At 0 ns: 2 late messages\n42 RTT 801 µs: near-wake-up run-queue &lt;cc1&gt; 400 µs, near-wake-up run-queue ld 100 µs\n41 RTT";
    assert!(drawn.contains(both) && !drawn.contains("<cc1>"), "{drawn}");
    let place = |axis: &str| -> Vec<f64> {
        let of =
            |rest: &str| rest.split_once(&format!("{axis}=\"")).unwrap().1.split('"').next().unwrap().parse().unwrap();
        drawn.split("<rect ").skip(1).map(of).collect()
    };
    let (x, y) = (place("x"), place("y"));
    // Both of run-queue, then the stolen one: 0, 480 and 1480 ms; 800, 100 and 5,000 µs.
    assert!(x[0] < x[1] && x[1] < x[2] && y[2] < y[0] && y[0] < y[1], "{drawn}");
    let base: f64 =
        drawn.split("<path d=\"M70 ").filter_map(|rest| rest.split('H').next()?.parse().ok()).fold(0.0, f64::max);
    assert!(y[1] + 8.0 <= base, "above the base line at {base}: {drawn}");
}
