//! The drawing of late messages lists those of a place, by pointer and by keys.

use super::*;
use model::result::Outlier;
use model::{Cause, CauseClass, Explanation, PathSegment, SegmentTime};

fn message(seq: u64, at_ms: u64, rtt_us: u64) -> Outlier {
    let host = || "initiator".to_owned();
    let segment = PathSegment::NearWakeUp;
    Outlier {
        seq,
        realtime_ns: Some(1_796_000_000_000_000_000 + at_ms * 1_000_000),
        rtt_ns: rtt_us * 1000,
        segments: vec![SegmentTime { segment, host: host(), cpu: Some(1), ns: rtt_us * 900, excess_ns: rtt_us * 800 }],
        causes: vec![Cause {
            class: CauseClass::RunQueue,
            name: Some("<b>cc1".to_owned()),
            pid: Some(7),
            host: host(),
            cpu: Some(1),
            segment,
            ns: rtt_us * 800,
            evidence: String::new(),
        }],
        ..Outlier::default()
    }
}

#[test]
fn late_messages_are_listed_by_pointer_and_keys() {
    let folder = tempfile::tempdir().unwrap();
    let cell = Cell { policy: "other", rate: 10_000, repetition: 1, seconds: 2 };
    let path = sample::paced::write(folder.path(), "late", &[cell], |_, measured| {
        measured.result.explanation = Some(Explanation { messages: 1000, late: 3, ..Explanation::default() });
        measured.outliers.extend([message(3, 900, 500), message(1, 0, 800), message(2, 0, 801)]);
    });
    let html = Report::from_runs([store::Run::load(&path).unwrap()], &Options::default()).page().unwrap().html;
    let script = r##"
      const figure = document.querySelector("figure.late"), list = figure.querySelector(".messages");
      const places = [...figure.querySelectorAll("g.series > g")];
      const seen = () => ({ head: list.querySelector("b").textContent, lines: [...list.querySelectorAll("li")].map((one) => one.textContent) });
      const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
      saw.stops = places.filter((place) => place.tabIndex === 0).length;
      saw.label = places[0].getAttribute("aria-label");
      places.at(-1).dispatchEvent(new MouseEvent("click", { bubbles: true }));
      saw.clicked = seen();
      press("ArrowLeft");
      saw.left = seen();
      press("ArrowLeft");
      saw.first = seen();
      press("End");
      saw.end = seen();
      saw.stops_after = places.filter((place) => place.tabIndex === 0).length;
      saw.bold = list.querySelectorAll("li b").length;
    "##;
    let Some(saw) = ask("late", &html, "", script) else {
        return skipped("late_messages_are_listed_by_pointer_and_keys");
    };
    assert_eq!((&saw["stops"], &saw["stops_after"]), (&1.into(), &1.into()), "one stop of the Tab key: {saw:#}");
    let last = serde_json::json!({
        "head": "At 900 ms: 1 late message", "lines": ["3 RTT 500 µs: near-wake-up run-queue <b>cc1 400 µs"]
    });
    assert_eq!((&saw["clicked"], &saw["end"]), (&last, &last), "{saw:#}");
    assert_eq!((&saw["left"]["head"], &saw["left"]), (&"At 0 ns: 2 late messages".into(), &saw["first"]), "{saw:#}");
    assert!(text(&saw["left"]["lines"][1]).starts_with("1 RTT 800 µs") && saw["bold"] == 0, "{saw:#}");
    assert!(text(&saw["label"]).starts_with("At 0 ns: 2 late messages"), "{saw:#}");
}
