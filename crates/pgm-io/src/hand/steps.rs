//! How long each step of a repair took.

use pgm::receiver::Repair;
use stats::Histogram;

/// Times of repairs, step by step, in ns.
#[derive(Debug, Default)]
pub struct RepairSteps([Histogram; 4]);

impl RepairSteps {
    const NAMES: [(&str, &str); 4] = [
        ("gap to NAK", "gap_to_nak"),
        ("NAK to NCF", "nak_to_ncf"),
        ("NCF to repair", "ncf_to_repair"),
        ("gap to repair", "gap_to_repair"),
    ];

    pub fn add(&mut self, repair: &Repair) {
        let (gap, data) = (Some(repair.gap_ns), Some(repair.data_ns));
        let steps = [(gap, repair.nak_ns), (repair.nak_ns, repair.ncf_ns), (repair.ncf_ns, data), (gap, data)];
        for ((from, to), times) in steps.into_iter().zip(&mut self.0) {
            if let (Some(from), Some(to)) = (from, to) {
                times.record(to.saturating_sub(from));
            }
        }
    }

    /// Each step: its name in text, its name in JSON, and its times.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &'static str, &Histogram)> {
        Self::NAMES.into_iter().zip(&self.0).map(|((text, json), times)| (text, json, times))
    }
}
