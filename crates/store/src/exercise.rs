//! Entry points for fuzzing: each takes any bytes and must neither panic nor hang. Not part of the public interface.
#![doc(hidden)]

use crate::{cell, journal, read};
use model::result::{Outlier, Series};
use model::{Event, EventWindow, Plan, ResultDocument};
use stats::interval_log::{Lines, Units};
use std::path::Path;

pub fn run_json(bytes: &[u8]) {
    let _ = read::parse_run("run.json", bytes);
}

pub fn result_document(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(result) = ResultDocument::read("0001.json", text) {
        let _ = crate::csv([crate::CsvRow::of(&result)]);
        let _ = crate::json([crate::CsvRow::of(&result)]);
    }
}

pub fn journal(bytes: &[u8]) {
    let _ = journal::parse(Path::new("journal.jsonl"), bytes);
}

/// `plan.toml`, cells included.
pub fn plan(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(plan) = Plan::parse("plan.toml", text) {
        let _ = plan.cells();
    }
}

pub fn hlog(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for interval in Lines::new(text, 0, Units::of_head(text)).flatten() {
        let _ = stats::Histogram::from_base64_v2(interval.histogram);
    }
}

/// `cells/NNNN.outliers.jsonl`, `.windows.jsonl`, `.events.jsonl`, and series as documents have them: what is read is written and read the same.
pub fn cell_lines(bytes: &[u8]) {
    fn one<T: serde::de::DeserializeOwned + serde::Serialize>(bytes: &[u8]) {
        let path = Path::new("0001.jsonl");
        for item in cell::parse_lines::<T>(path, bytes, true).unwrap_or_default() {
            let text = serde_json::to_vec(&item).unwrap_or_default();
            assert_eq!(cell::parse_lines::<T>(path, &text, true).map(|items| items.len()).ok(), Some(1));
        }
    }
    one::<Outlier>(bytes);
    one::<EventWindow>(bytes);
    one::<Event>(bytes);
    one::<Series>(bytes);
}
