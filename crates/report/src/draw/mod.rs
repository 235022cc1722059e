//! Pictures. They know cells and their names, and nothing of comparisons and sentences.

pub(crate) mod chart;
pub(crate) mod figure;
pub mod heat;
pub(crate) mod palette;
pub(crate) mod plots;
