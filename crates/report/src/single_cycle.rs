//! The result of `cycle` typed by hand: its deadlines, the round trip from due and from the send, and how late the publisher was.

use crate::parts::{KEYS, Part, cpu};
use crate::result_tables::{Shape, named, rows};
use crate::units::{commas, counted, span};
use model::ResultDocument;

const DEADLINES: [&str; 5] = ["cycle.cycles", "cycle.missed", "cycle.misses", "cycle.longest-run", "cycle.skipped"];
const DUE: [&str; 6] =
    ["intended.p50", "intended.p99", "intended.p99.9", "intended.max", "lateness.p99", "lateness.max"];
const SENT: [&str; 8] = ["count", "mean", "stdev", "p50", "p99", "p99.9", "max", "lost"];

pub(crate) fn sentences(results: &[ResultDocument]) -> Vec<String> {
    let of = |result: &ResultDocument| {
        let cycle = result.cycle.as_ref()?;
        let (deadline, interval) = (span(cycle.deadline_ns as f64), span(cycle.interval_ns as f64));
        let runs = counted(usize::try_from(cycle.runs).unwrap_or(usize::MAX), "run");
        Some(match cycle.missed {
            0 => format!(
                "All {} echoes came within {deadline} of their cycle, one each {interval}.",
                commas(cycle.cycles)
            ),
            missed => format!(
                "{} of {} cycles, one each {interval}, missed the deadline of {deadline}, in {runs} of at most {}.",
                commas(missed),
                commas(cycle.cycles),
                commas(cycle.longest_run)
            ),
        })
    };
    results.iter().filter_map(of).collect()
}

pub(crate) fn parts(results: &[ResultDocument]) -> Vec<Part> {
    let part = |title, ids: &[&'static str]| Part::new(title, rows(results, KEYS, Shape::WHOLE, &named(ids)));
    vec![
        part("Deadlines", &DEADLINES),
        part("From when a cycle was due: RTT, and how late the publisher woke up", &DUE),
        part("RTT from the actual send", &SENT),
        Part::new("CPU", cpu(results, ["machine", "demand", "process", "softirq"])),
    ]
}
