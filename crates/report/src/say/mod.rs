//! What the data say, in sentences. A sentence claims nothing that no comparison, no finding and no figure shows.

pub(crate) mod answer;
mod facts;
mod known;
pub(crate) mod notes;
pub(crate) mod summary;
mod summary_floors;
mod summary_kernels;
pub(crate) mod summary_pace;

pub(crate) use facts::Facts;
