//! Tables, plots and one-file HTML from stored runs.
//!
//! Floor 3. Reads only what it is handed, never the host, a clock or the network. Prints nothing; every function returns text.
//! The same input gives the same bytes.
//!
//! Two ways in:
//! - [`Report::from_runs`]: runs become one [`Document`], and that a text table, Markdown, CSV, JSON or HTML.
//! - [`single_text`], [`single_markdown`], [`single_csv`], [`sfnt_text`]: the result documents of one measurement.
//!
//! Every latency says whether it is RTT or RTT/2. Documents hold nanoseconds; people read microseconds.

#![expect(missing_docs, reason = "what has no comment is what its name says")]

mod beside;
mod boot_tables;
mod causes;
mod cell_tables;
pub mod charts;
mod columns;
pub mod compare;
mod csv;
mod document;
mod draw;
mod environment;
mod error;
mod html;
mod ladder;
mod layout;
mod live;
mod markdown;
mod options;
mod papers;
mod parts;
mod pgm;
mod reference;
mod report;
mod result_tables;
mod say;
mod sfnt;
mod sheet;
mod single;
mod single_closed;
mod single_cycle;
mod single_pace;
mod single_stream;
mod single_wake;
mod text;
mod units;
mod view;

pub use causes::{explained_text, message_text, messages_text};
pub use csv::csv_columns;
pub use document::{Answer, AnswerRow, Block, Document, FORMAT, Headline, Headlines, Note, RunInfo, TableRow, schemas};
pub use draw::heat;
pub use error::ReportError;
pub use ladder::ladder;
pub use live::{live_line, live_text};
pub use options::Options;
pub use report::{Page, Report, run_input};
pub use sfnt::{SfntFacts, sfnt_text};
pub use single::{single_csv, single_markdown, single_text};
pub use single_wake::wake_histogram;

pub use layout::{Band, Column, Columns, Grid, paragraph};
pub use units::commas;
