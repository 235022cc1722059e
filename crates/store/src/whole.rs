//! A run that is written at once, because all its results are there.

use crate::{CellFiles, RunDir, StoreError};
use model::run::RunStep;
use model::worker::Measured;
use model::{JournalLine, RunDocument};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct WholeRun<'a> {
    /// The run without its order and its end, which follow from the results.
    pub document: RunDocument,
    /// The results in the order in which they were measured. They get the key and the repetition of their cell.
    pub results: &'a mut [Measured],
    /// Text of `plan.toml`: a comment that says why there is no plan.
    pub plan: &'a str,
    /// Wall clock at the end, since 1970.
    pub ended_ns: u64,
    /// How it ended: `done`, `interrupted`, `failed`.
    pub outcome: &'a str,
}

/// Makes `<parent>/<name>-<UTC time of its start>/` with all results, and gives its path. Equal factors are repetitions of one cell.
/// Errors: as [`RunDir::create`] and [`RunDir::write_cell`]; half of a run is removed again.
pub fn write_whole(parent: &Path, run: WholeRun<'_>) -> Result<PathBuf, StoreError> {
    let mut dir = RunDir::create(parent, &run.document.name, run.document.started_ns)?;
    let path = dir.path().to_owned();
    let filled = fill(&mut dir, run);
    if filled.is_err() {
        let _ = dir.discard();
    }
    filled.map(|()| path)
}

fn fill(dir: &mut RunDir, run: WholeRun<'_>) -> Result<(), StoreError> {
    let WholeRun { mut document, results, plan, ended_ns, outcome } = run;
    let mut repetitions: BTreeMap<String, u32> = BTreeMap::new();
    document.order.clear();
    for (index, measured) in (1..).zip(results.iter_mut()) {
        let cell = key(measured);
        let repetition = repetitions.entry(cell.clone()).or_default();
        *repetition += 1;
        let result = &mut measured.result;
        (result.cell, result.repetition) = (Some(cell.clone()), Some(*repetition));
        document.order.push(RunStep { index, cell, repetition: *repetition, factors: result.factors.clone() });
    }
    let started_ns = document.started_ns;
    dir.write_plan(plan)?;
    dir.write_run(&document)?;
    dir.journal(&JournalLine::Begin { at_ns: started_ns, tool_version: document.tool_version.clone() })?;
    for (index, measured) in (1..).zip(results.iter()) {
        dir.journal(&JournalLine::Start { index, at_ns: started_ns })?;
        dir.write_cell(index, &CellFiles::of(measured, &measured.events), ended_ns)?;
    }
    (document.ended_ns, document.outcome) = (Some(ended_ns), Some(outcome.to_owned()));
    dir.write_run(&document)?;
    dir.journal(&JournalLine::End { at_ns: ended_ns, outcome: outcome.to_owned() })
}

/// A cell's key as campaigns write it.
fn key(measured: &Measured) -> String {
    let result = &measured.result;
    let factors = result.factors.keys().filter_map(|name| Some(format!("{name}={}", result.factor(name)?)));
    let words: Vec<String> = std::iter::once(format!("probe={}", result.probe)).chain(factors).collect();
    words.join(",")
}
