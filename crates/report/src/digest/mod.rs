//! Stored runs as cells: combinations of factors, their figures, names and boots. No layout, no comparison, no sentence.

pub(crate) mod boots;
pub(crate) mod cells;
pub(crate) mod combine;
pub(crate) mod info;
pub(crate) mod input;
pub(crate) mod metric;
pub(crate) mod names;
