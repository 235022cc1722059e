//! The result of `wake` typed by hand: its figures, each thread by itself, and the latest wake-ups.

use crate::result_tables::{About, Keys, Shape, named, rows};
use crate::single::{Part, figures};
use crate::units::{commas, counted, span};
use model::ResultDocument;

const WHOLE: [&str; 11] = ["count", "mean", "stdev", "min", "p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max"];

/// There is one result.
const KEYS: Keys = (Vec::new, |_| Vec::new());

/// The deadlines in words.
pub(crate) fn sentences(result: &ResultDocument) -> Vec<String> {
    let Some(wake) = &result.wake else { return Vec::new() };
    let (Some(deadlines), Some(interval_ns)) = (wake.deadlines, wake.interval_ns) else { return Vec::new() };
    let slack = match wake.timer_slack_ns {
        None => "timer slack not known".to_owned(),
        Some(0) => "no timer slack (real-time policy)".to_owned(),
        Some(ns) => format!("timer slack {}", span(ns as f64)),
    };
    let threads = counted(wake.threads.len().max(1), "thread");
    let missed = wake.missed.filter(|missed| *missed > 0).map_or_else(|| "none".to_owned(), commas);
    vec![format!(
        "{} deadlines of {threads}, one each {}, {slack}; {missed} missed.",
        commas(deadlines),
        span(interval_ns as f64)
    )]
}

/// The figures of all threads, and of each where there are several.
pub(crate) fn parts(results: &[ResultDocument]) -> Vec<Part> {
    let each = Shape { about: About::Reflectors, heading: "thread", zeros: true, marked: false };
    vec![figures(results, KEYS, &WHOLE), Part::new("Each thread", rows(results, KEYS, each, &named(&WHOLE)))]
}
