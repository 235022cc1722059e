//! The result of `wake` typed by hand: its figures, each thread by itself, and the latest wake-ups.

use crate::parts::{Part, figures};
use crate::result_tables::{About, Keys, Shape, named, rows};
use crate::units::{commas, counted, span};
use model::ResultDocument;

const WHOLE: [&str; 11] = ["count", "mean", "stdev", "min", "p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max"];

const KEYS: Keys = (Vec::new, |_| Vec::new());

pub(crate) fn sentences(results: &[ResultDocument]) -> Vec<String> {
    let Some(wake) = results.first().and_then(|result| result.wake.as_ref()) else { return Vec::new() };
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

/// The histogram of wake-up latency of all threads together, in the form of cyclictest -h: a line a µs below `end_us`,
/// then how many were later. Errors: when the document's histogram is damaged.
pub fn wake_histogram(result: &ResultDocument, end_us: u32) -> Result<String, stats::StatsError> {
    let text = result.histogram.as_deref();
    let histogram = text.map_or_else(|| Ok(stats::Histogram::new()), stats::Histogram::from_base64_v2)?;
    let mut counts = vec![0; end_us as usize];
    let mut later = 0;
    for bucket in histogram.iter_recorded() {
        let us = usize::try_from(bucket.low_ns / 1000).unwrap_or(usize::MAX);
        *counts.get_mut(us).unwrap_or(&mut later) += bucket.count;
    }
    let mut out = String::from("\n# Histogram (µs, wake-ups of all threads)\n");
    out.extend(counts.iter().enumerate().map(|(us, count)| format!("{us:06} {count:06}\n")));
    Ok(out + &format!("# Histogram Overflows: {later:05}\n"))
}
