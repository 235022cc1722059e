//! What is said of a measurement at rates typed by hand.

use model::ResultDocument;
use serde_json::json;
use windhover_report::{single_csv, single_markdown, single_text};

fn latency(count: u64, scale: u64) -> serde_json::Value {
    json!({ "kind": "rtt", "count": count, "mean_ns": 12_345.6 * scale as f64, "stdev_ns": 2_345.6, "min_ns": 7_000 * scale,
            "p50_ns": 11_000 * scale, "p90_ns": 15_000 * scale, "p99_ns": 39_000 * scale, "p99_9_ns": 380_000 * scale,
            "p99_99_ns": null, "p99_999_ns": null, "max_ns": 1_740_000 * scale })
}

fn signed(middle: i64) -> serde_json::Value {
    json!({ "count": 100_000, "mean_ns": middle as f64, "stdev_ns": 900.0, "min_ns": middle - 3_000, "p50_ns": middle,
            "p99_ns": middle + 20_000, "p99_9_ns": middle + 90_000, "max_ns": middle + 900_000 })
}

fn document(rate: u64, intended: u64, lost: u64) -> ResultDocument {
    let sent = rate * 10;
    let value = json!({
        "format": 1, "probe": "pace", "started_ns": 5, "elapsed_ns": 10_000_000_000_u64,
        "factors": { "protocol": "udp", "size": 1000, "rate": rate, "pacer": "sleep", "receive_cpu": 1 },
        "ends": {
            "initiator": { "host": "a", "policy": "fifo:50", "cpu": 0, "receive": "block" },
            "reflector": { "host": "b", "address": "198.18.0.2:7000", "policy": "fifo:50", "cpu": 1, "receive": "block" }
        },
        "latency": latency(sent - lost, 1), "latency_intended": latency(sent - lost, intended),
        "lateness": latency(sent, intended),
        "rate": { "asked_pps": rate as f64, "achieved_pps": rate as f64 * 0.9999, "intended": sent, "behind": 17 * (intended - 1),
                  "most_behind": 9 * (intended - 1), "line_pps": null, "saturated": null },
        "messages": { "sent": sent, "received": sent - lost, "lost": lost, "duplicated": 0, "reordered": 2 },
        "verdict": { "trusted": true, "invalid": [], "disturbed": [] }
    });
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_sweep_in_sentences_and_tables() {
    let mut sweep = [document(10_000, 1, 0), document(20_000, 3, 0), document(40_000, 50, 1)];
    let saturated = json!({ "who": "reflector", "why": "it answered 31,000/s of 40,000/s with its CPU 100 % busy" });
    sweep[2].rate.as_mut().unwrap().saturated = serde_json::from_value(saturated).unwrap();
    let finding = json!({ "id": "rate-not-reached", "end": "reflector", "detail": "31,000/s of 40,000/s" });
    sweep[2].verdict.disturbed.push(serde_json::from_value(finding).unwrap());
    let text = single_text(&sweep, 100);
    insta::assert_snapshot!(text);
    assert!(text.contains("What could not keep up: the reflector"), "{text}");
    assert!(text.contains("rate-not-reached, reflector (40000/s)"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 110, "{line}");
    }
    insta::assert_snapshot!(single_markdown(&sweep));
    assert_eq!(single_csv(&sweep).unwrap().lines().count(), 4);
}

#[test]
fn one_way_times_segments_and_reflectors() {
    let mut one = document(20_000, 1, 0);
    let way = |method: &str, offset: i64, error: u64| {
        json!({ "out": signed(5_000 + offset), "back": signed(6_000), "method": method, "offset_ns": offset,
                "drift_ppm": 0.25, "error_ns": error })
    };
    one.one_way = serde_json::from_value(way("min-rtt", -7_000, 1_100)).unwrap();
    let segment = |name: &str| json!({ "name": name, "stamps": "kernel", "latency": latency(200_000, 1) });
    let names = ["send", "wire", "far-kernel", "far-application", "near-kernel"];
    one.segments = names.iter().map(|name| serde_json::from_value(segment(name)).unwrap()).collect();
    let reflector = |host: &str, lost: u64, one_way: serde_json::Value| {
        json!({ "host": host, "latency": latency(200_000, 1), "latency_intended": latency(200_000, 2), "one_way": one_way,
                "messages": { "sent": 200_000, "received": 200_000 - lost, "lost": lost, "duplicated": null, "reordered": null } })
    };
    one.reflectors = [reflector("b", 0, way("same-clock", 0, 0)), reflector("c\u{1b}[2J", 3, serde_json::Value::Null)]
        .map(|value| serde_json::from_value(value).unwrap())
        .to_vec();
    let text = single_text(std::slice::from_ref(&one), 100);
    insta::assert_snapshot!(text);
    assert!(!text.contains('\u{1b}'));
    assert!(text.contains("± 1.10 µs") && text.contains("-2.000"), "{text}");
    let mut by_nic = one.clone();
    let found = by_nic.one_way.as_mut().unwrap();
    found.stamps = model::StampSource::Hardware;
    found.clocks = serde_json::from_value(json!([
        { "stamps": "hardware", "relation": "PTP_SYS_OFFSET_EXTENDED of /dev/ptp0", "error_ns": 320 },
        { "stamps": "hardware", "relation": "PTP_SYS_OFFSET_PRECISE of /dev/ptp3", "error_ns": 301 }
    ]))
    .unwrap();
    let text = single_text(&[by_nic], 100);
    for words in [
        "between time stamps of the NICs",
        "PTP_SYS_OFFSET_EXTENDED of /dev/ptp0 (± 320 ns) and PTP_SYS_OFFSET_PRECISE",
    ] {
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(words), "{words}: {text}");
    }
    let mut exact = one;
    exact.one_way = serde_json::from_value(way("same-clock", 0, 0)).unwrap();
    assert!(single_text(&[exact], 100).contains("one-way times are exact"));
}

#[test]
fn a_share_that_is_not_all_does_not_look_like_all() {
    let mut one = document(10_000, 1, 0);
    one.rate.as_mut().unwrap().achieved_pps = 9_999.999_6;
    let text = single_text(std::slice::from_ref(&one), 100);
    assert!(text.contains("99.999996 %") && !text.contains("(100"), "{text}");
    one.latency = None;
    one.latency_intended = None;
    one.lateness = None;
    one.rate = None;
    let text = single_text(&[one], 100);
    assert!(text.contains("100,000 messages of 1000 B, none lost."), "{text}");
}
