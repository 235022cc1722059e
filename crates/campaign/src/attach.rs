//! What a campaign knows about a result beyond what its worker measured.

use crate::PlannedCell;
use crate::cell::CellLoads;
use crate::participants::Participants;
use model::worker::Measured;
use model::{Finding, FindingId, ResultDocument, Role};

/// A load is uneven when its work per 100 ms varies by more than this share of its mean: one that stops and starts.
const UNEVEN: f64 = 0.5;

/// Adds cell, repetition, factors, host names and load to a result, and the findings of the load.
pub(crate) fn attach(measured: &mut Measured, step: &PlannedCell, participants: &Participants, loads: &CellLoads) {
    let result = &mut measured.result;
    result.cell = Some(step.cell.key.clone());
    result.repetition = Some(step.repetition);
    for (name, value) in &step.cell.factors {
        result.factors.insert(name.clone(), value.clone());
    }
    let reflectors = participants.reflectors.iter().map(|(host, _)| host);
    for (role, hosts) in [(Role::Initiator, vec![&participants.initiator]), (Role::Reflector, reflectors.collect())] {
        result.ends.of_mut(role).zip(hosts).for_each(|(end, host)| end.host = Some(host.clone()));
    }
    judge_loads(result, loads);
    // The document holds one report: that of the machine whose clock measured, which comes first.
    result.load = loads.reports.first().map(|(_, report)| report.clone());
}

fn judge_loads(result: &mut ResultDocument, loads: &CellLoads) {
    for (host, report) in &loads.reports {
        let profile = report.spec.profile;
        if !report.steady {
            let detail = format!(
                "the {profile} load on host '{host}' was not steady when the measurement began ({} ms after its start)",
                report.steady_after_ns / 1_000_000
            );
            result.verdict.add(Finding::new(FindingId::LoadUneven, detail));
        }
        if let Some(cv) = report.work_cv.filter(|&cv| cv > UNEVEN) {
            let detail = format!(
                "the work of the {profile} load on host '{host}' varied by {:.0} % per 100 ms (coefficient of variation): \
                 use longer cells or fewer jobs",
                cv * 100.0
            );
            result.verdict.add(Finding::new(FindingId::LoadUneven, detail));
        }
    }
}
