//! Whether a figure can be trusted, and what disturbed it.

use crate::Evidence;
use model::Verdict;

/// Judges the evidence.
#[must_use]
pub fn verdict(evidence: &Evidence<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    for finding in evidence.found {
        verdict.add(finding.clone());
    }
    verdict
}
