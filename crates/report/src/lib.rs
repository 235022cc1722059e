//! Tables, plots and one-file HTML from stored runs.
//!
//! Floor 3. Reads only what it is handed (stored runs, or the result documents of a measurement typed by hand): never
//! the host, never a clock, never the network. Prints nothing; every function returns text. The same input gives the
//! same bytes.
//!
//! Two ways in:
//! - [`Report::from_runs`]: one or several runs become one [`Document`], and that becomes a text table, Markdown, CSV,
//!   JSON or HTML.
//! - [`single_text`], [`single_markdown`], [`single_csv`], [`sfnt_text`]: the result documents of one measurement.
//!
//! Every latency says whether it is RTT or RTT/2. Documents hold nanoseconds; people read microseconds.

mod answer;
mod beside;
mod boots;
mod cell_tables;
mod cells;
mod chart;
pub mod charts;
mod combine;
pub mod compare;
mod csv;
mod document;
mod environment;
mod error;
#[doc(hidden)]
pub mod exercise;
mod figure;
pub mod heat;
mod html;
mod idle;
mod known;
mod ladder;
mod layout;
mod markdown;
mod names;
mod notes;
mod options;
mod papers;
mod pgm;
mod plots;
mod reference;
mod result_tables;
mod sfnt;
mod single;
mod single_pace;
mod single_stream;
mod single_wake;
mod summary;
mod summary_floors;
mod summary_kernels;
mod summary_pace;
mod text;
mod units;
mod view;

pub use answer::{Answer, AnswerRow};
pub use boots::{BootFigures, BootMode, BootSpread};
pub use csv::csv_columns;
pub use document::{
    Block, CellInfo, Document, FORMAT, Figure, Figures, FindingCount, Headline, Headlines, Mark, Note, ReflectorInfo,
    RunInfo, TableRow, schemas,
};
pub use error::ReportError;
pub use ladder::ladder;
pub use options::Options;
pub use sfnt::{SfntFacts, sfnt_text};
pub use single::{single_csv, single_markdown, single_text};
pub use single_wake::wake_histogram;

use model::run::RunStep;
use model::{ResultDocument, RunDocument};
use std::collections::BTreeSet;
use std::path::PathBuf;

pub use layout::{Band, Column, Grid, paragraph};
pub use units::commas;

/// One run as a report needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInput {
    /// The name of its run directory.
    pub name: String,
    /// `run.json`.
    pub document: RunDocument,
    /// The results that exist, in execution order.
    pub results: Vec<ResultDocument>,
    /// Steps that failed and have no result: the cell's key and why.
    pub failed: Vec<(String, String)>,
    /// What is damaged or missing in the run directory, one line each.
    pub problems: Vec<String>,
    /// The run directory, where there is one: HTML takes interval logs, worst messages and events from its files.
    pub folder: Option<PathBuf>,
    /// The step of each result, in the same order: its files are `cells/NNNN.*`. Empty without a run directory.
    pub steps: Vec<RunStep>,
}

impl RunInput {
    /// Whether another run measured the same: the same cells and labels, the same build of the tool, and hosts of the same
    /// names and roles on machines of the same hardware and kernel. What a run does not record is not compared.
    #[must_use]
    pub fn is_sibling(&self, other: &Self) -> bool {
        let (own, its) = (&self.document, &other.document);
        let cells = |document: &RunDocument| -> BTreeSet<String> {
            document.order.iter().map(|step| step.cell.clone()).collect()
        };
        let hosts = |document: &RunDocument| -> BTreeSet<[Option<String>; 7]> {
            let of = |(name, host): (&String, &model::run::RunHost)| {
                let machine = document.machines.get(&host.facts.boot_id).cloned().unwrap_or_default();
                let (model, kernel, line) = (machine.cpu_model, machine.kernel_release, machine.command_line);
                let hostname = host.facts.hostname.clone();
                [Some(name.clone()), Some(host.role.clone()), hostname, model, machine.cpus_online, kernel, line]
            };
            document.hosts.iter().map(of).collect()
        };
        own.name == its.name
            && own.labels == its.labels
            && own.lab == its.lab
            && own.substrate == its.substrate
            && (&own.tool_version, &own.build) == (&its.tool_version, &its.build)
            && cells(own) == cells(its)
            && hosts(own) == hosts(its)
    }
}

impl From<store::Run> for RunInput {
    fn from(run: store::Run) -> Self {
        let name = run.name();
        let with_factors = |(step, mut result): (RunStep, ResultDocument)| {
            for (axis, value) in &step.factors {
                result.factors.entry(axis.clone()).or_insert_with(|| value.clone());
            }
            (step, result)
        };
        let (steps, results) = run.results.into_iter().map(with_factors).unzip();
        Self {
            name,
            document: run.run,
            results,
            failed: run.failed.into_iter().map(|(step, why)| (step.cell, why)).collect(),
            problems: run.problems,
            folder: Some(run.path),
            steps,
        }
    }
}

/// A report as one HTML file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The file.
    pub html: String,
    /// What of the runs' interval logs, outliers and events is damaged or missing, one line each.
    pub problems: Vec<String>,
}

/// A digest of one or several runs, ready to be written in any form.
#[derive(Debug, Clone)]
pub struct Report {
    pub(crate) document: Document,
    pub(crate) cells: Vec<cells::Cell>,
    pub(crate) inputs: Vec<RunInput>,
    pub(crate) compared: Vec<compare::Comparisons>,
}

impl Report {
    /// Digests stored runs; see [`Report::from_inputs`].
    #[must_use]
    pub fn from_runs(runs: impl IntoIterator<Item = store::Run>, options: &Options) -> Self {
        Self::from_inputs(runs.into_iter().map(RunInput::from).collect(), options)
    }

    /// Digests runs. Several runs (two NICs, two kernels) stand in one table where their substrates agree and in
    /// separate blocks where they do not.
    #[must_use]
    pub fn from_inputs(inputs: Vec<RunInput>, options: &Options) -> Self {
        let compared = compare::Comparisons::for_report(&inputs, options.rtt);
        let (cells, document) = papers::digest(&inputs, options, &compared);
        Self { document, cells, inputs, compared }
    }

    /// The digest itself, which is also what [`Report::json`] writes.
    #[must_use]
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The message sizes in bytes that the papers' table can show: those of ping-pong, else of all cells.
    #[must_use]
    pub fn table_sizes(&self) -> BTreeSet<u64> {
        papers::table_sizes(&self.cells)
    }

    /// The [`Document`] as JSON.
    ///
    /// # Errors
    /// [`ReportError::Json`] when a figure has no JSON form.
    pub fn json(&self) -> Result<String, ReportError> {
        error::json_text(&self.document)
    }
}
