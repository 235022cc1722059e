//! Stored runs as cells: combinations of factors with their figures, names and boots; and which cells of two sides belong together and
//! how far apart these are.
//!
//! Pure: takes documents, reads no file. No layout, and no sentence but titles, reasons for an exclusion, and those of a finding or an error. Times are
//! nanoseconds.

pub mod boots;
pub mod cells;
pub mod combine;
pub mod compare;
mod info;
mod input;
mod metric;
pub mod names;
pub mod text;

pub use info::{CellInfo, Figure, Figures, FindingCount, Mark, ReflectorInfo, is_trusted, message};
pub use input::RunInput;
pub use metric::{Metric, UnknownMetric};
