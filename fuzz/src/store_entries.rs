//! The files of a run directory that crates read by what they make public: each entry takes any bytes.

use model::{Plan, ResultDocument};
use stats::interval_log::{Lines, Units};

pub fn result_document(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(result) = ResultDocument::read("0001.json", text) {
        let _ = store::csv([store::CsvRow::of(&result)]);
        let _ = store::json([store::CsvRow::of(&result)]);
    }
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
