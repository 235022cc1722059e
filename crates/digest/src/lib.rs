//! Stored runs as cells: combinations of factors with their figures, names and boots; and which cells of two sides belong
//! together and how far apart these are.
//!
//! Pure: takes documents, reads no file. No layout, and no sentence but titles, reasons for an exclusion, findings and errors.
//! Times are nanoseconds. A group of modules uses the groups before it (`cargo xtask arrows` checks it).

#![expect(missing_docs, reason = "what has no comment is what its name says")]

pub mod combine;
mod input;
mod metric;
pub mod text;

mod info;
pub mod names;

pub mod boots;
pub mod causes;
pub mod cells;

pub mod compare;

pub use info::{CellInfo, Figure, Figures, FindingCount, Mark, ReflectorInfo, is_trusted, message};
pub use input::RunInput;
pub use metric::{Metric, UnknownMetric};
