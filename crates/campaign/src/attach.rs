//! What a campaign knows about a result beyond what its worker measured.

use crate::Step;
use crate::cell::{Cast, CellLoads};
use model::worker::Measured;
use model::{Finding, FindingId, ResultDocument};
use std::net::IpAddr;

/// A load is called uneven when its work per 100 ms varies by more than this share of its mean: one that stops and
/// starts, as a build between two targets does. Loads of independent jobs stay below it.
const UNEVEN: f64 = 0.5;

/// Adds cell, repetition, factors, host names and load to a result, and what the load says about it.
pub(crate) fn attach(measured: &mut Measured, step: &Step, cast: &Cast, loads: &CellLoads) {
    let reflectors = cast.reflectors_of(&step.cell);
    name_reflectors(measured, reflectors);
    name_ends(measured, reflectors);
    let result = &mut measured.result;
    result.cell = Some(step.cell.key.clone());
    result.repetition = Some(step.repetition);
    for (name, value) in &step.cell.factors {
        result.factors.insert(name.clone(), value.clone());
    }
    result.ends.initiator.host = Some(cast.initiator.clone());
    if let (Some(end), Some((host, _))) = (&mut result.ends.reflector, cast.reflectors.first()) {
        end.host = Some(host.clone());
    }
    judge_loads(result, loads);
    // The document holds one report: that of the machine whose clock measured, which comes first.
    result.load = loads.reports.first().map(|(_, report)| report.clone());
}

/// A worker knows several reflectors by what it was told of them; people know them by the plan's names. The worker lists
/// them in the order that it was given them.
fn name_reflectors(measured: &mut Measured, reflectors: &[(String, IpAddr)]) {
    if measured.result.reflectors.len() != reflectors.len() {
        return;
    }
    let named: Vec<(String, &String)> = measured
        .result
        .reflectors
        .iter_mut()
        .zip(reflectors)
        .map(|(report, (host, _))| (std::mem::replace(&mut report.host, host.clone()), host))
        .collect();
    let name = |host: &str| named.iter().find(|(before, _)| before == host).map(|(_, now)| (*now).clone());
    for outlier in &mut measured.outliers {
        outlier.host = outlier.host.take().map(|host| name(&host).unwrap_or(host));
    }
    let lines = measured.hlog.split_inclusive('\n').map(|line| {
        let tagged = line.strip_prefix("Tag=").and_then(|rest| rest.split_once(','));
        let renamed = tagged.and_then(|(tag, rest)| {
            let (quantity, host) = tag.split_once('@')?;
            Some(format!("Tag={quantity}@{},{rest}", name(host)?))
        });
        renamed.unwrap_or_else(|| line.to_owned())
    });
    measured.hlog = lines.collect();
}

/// The same for what PGM tells: the reflectors are its ends behind the initiator.
fn name_ends(measured: &mut Measured, reflectors: &[(String, IpAddr)]) {
    let Some(pgm) = &mut measured.result.pgm else { return };
    if pgm.ends.len() != reflectors.len() + 1 {
        return;
    }
    let before = |(end, (host, _)): (&mut model::PgmEnd, &(String, IpAddr))| {
        (std::mem::replace(&mut end.host, host.clone()), host.clone())
    };
    let named: Vec<(String, String)> = pgm.ends.iter_mut().skip(1).zip(reflectors).map(before).collect();
    let rename = |host: &mut Option<String>| {
        if let Some((_, now)) = named.iter().find(|(before, _)| host.as_ref() == Some(before)) {
            *host = Some(now.clone());
        }
    };
    pgm.fates.iter_mut().for_each(|fate| rename(&mut fate.host));
    pgm.steps.iter_mut().for_each(|steps| rename(&mut steps.host));
    measured.events.iter_mut().for_each(|event| rename(&mut event.host));
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
