//! A report over one or several runs: what every form is written from.

use crate::document::Document;
use crate::draw::plots::Plotted;
use crate::error::json_text;
use crate::{Options, ReportError, compare, papers};
use digest::RunInput;
use digest::cells::Cell;
use digest::compare::Comparisons;
use model::ResultDocument;
use model::run::RunStep;
use std::collections::BTreeSet;

/// A stored run as a report takes it.
pub fn run_input(run: store::Run) -> RunInput {
    let name = run.name();
    let with_factors = |(step, mut result): (RunStep, ResultDocument)| {
        for (axis, value) in &step.factors {
            result.factors.entry(axis.clone()).or_insert_with(|| value.clone());
        }
        (step, result)
    };
    let (steps, results) = run.results.into_iter().map(with_factors).unzip();
    RunInput {
        name,
        document: run.run,
        results,
        failed: run.failed.into_iter().map(|(step, why)| (step.cell, why)).collect(),
        problems: run.problems,
        folder: Some(run.path),
        steps,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub html: String,
    /// What of the runs' interval logs, outliers and events is damaged or missing, one line each.
    pub problems: Vec<String>,
}

/// A digest of one or several runs, ready to be written in any form.
#[derive(Debug, Clone)]
pub struct Report {
    pub(crate) document: Document,
    pub(crate) cells: Vec<Cell>,
    pub(crate) inputs: Vec<RunInput>,
    pub(crate) compared: Vec<Comparisons>,
}

impl Report {
    /// Digests stored runs; see [`Report::from_inputs`].
    pub fn from_runs(runs: impl IntoIterator<Item = store::Run>, options: &Options) -> Self {
        Self::from_inputs(runs.into_iter().map(run_input).collect(), options)
    }

    /// Digests runs: in one table where their substrates agree, else in separate blocks.
    pub fn from_inputs(inputs: Vec<RunInput>, options: &Options) -> Self {
        let compared = compare::for_report(&inputs, options.rtt);
        let (cells, document) = papers::digest(&inputs, options, &compared);
        Self { document, cells, inputs, compared }
    }

    pub(crate) fn plotted(&self) -> Plotted<'_> {
        Plotted { cells: &self.cells, kind: self.document.kind, size_bytes: self.document.size_bytes }
    }

    /// The digest itself, which is also what [`Report::json`] writes.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The message sizes in bytes that the papers' table can show: those of ping-pong, else of all cells.
    pub fn table_sizes(&self) -> BTreeSet<u64> {
        papers::table_sizes(&self.cells)
    }

    /// The [`Document`] as JSON. Errors: [`ReportError::Json`] when a figure has no JSON form.
    pub fn json(&self) -> Result<String, ReportError> {
        json_text(&self.document)
    }
}
