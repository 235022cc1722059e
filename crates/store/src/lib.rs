//! The run directory: write, read, merge, export.
//!
//! One execution of a plan is one directory (format 1):
//!
//! ```text
//! <name>-<UTC time>/
//!   plan.toml                   the campaign as given
//!   run.json                    model::RunDocument: seed, order, machines, hosts, substrate, start and end
//!   kernels/RELEASE-ID.config   the configuration of a kernel: the lines that set something; where a host could read it
//!   journal.jsonl               model::JournalLine, one a step, fsynced; its file lock marks a live runner
//!   cells/NNNN.json             model::ResultDocument of one repetition, in execution order
//!   cells/NNNN.hlog             HdrHistogram interval log (V2)
//!   cells/NNNN.outliers.jsonl   model::result::Outlier, one a line
//!   cells/NNNN.windows.jsonl    model::EventWindow, one a line; only of cells that were explained
//!   cells/NNNN.series.jsonl     one line an interval of each end
//!   cells/NNNN.events.jsonl     model::Event, one a line; only when there are any
//!   cells/NNNN.raw.gz          raw samples, gzip; only when asked for and while the disk has room for them
//!   cells/NNNN.pcapng          packets; only when asked for and while the disk has room for them
//! ```
//!
//! A line of `series.jsonl` is one interval of one end, quantities by name:
//! `{"host":"initiator","at_ns":0,"interval_ns":1000000000,"received":41234,"rtt_max_ns":61000}`. `at_ns` counts from the
//! first timed message; a quantity that was not counted in an interval is null, one that ended earlier is absent.
//!
//! A cell counts as done only when its files are on disk and its `done` line is fsynced. A kill leaves at most a torn last
//! journal line and incomplete files of the cell in flight. This crate reads no clock, prints nothing, overwrites no run.

#![expect(missing_docs, reason = "what has no comment is what its name says")]

mod cell;
mod csv;
mod error;
pub mod exercise;
mod folder;
pub mod hlog;
mod journal;
mod json;
mod list;
mod read;
mod rundir;
mod samples;
mod schema;
mod time;
mod trace;
mod whole;

pub use cell::{CellFiles, events, explained, outliers, windows};
pub use csv::{CsvColumns, CsvRow, csv, csv_line};
pub use error::StoreError;
pub use folder::Folder;
pub use json::json;
pub use list::{RunState, RunSummary, list};
pub use read::{Run, load_many, one_substrate};
pub use rundir::{RunDir, kernel_config_file};
pub use samples::{check_samples, write_samples};
pub use schema::schemas;
pub use time::utc_text;
pub use trace::{TracedMessage, chrome_trace, trace_text};
pub use whole::{WholeRun, write_whole};
