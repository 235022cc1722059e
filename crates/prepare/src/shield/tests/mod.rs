//! Plans, refusals, states and whole lives of shields on trees of files.

mod life;
mod lists;
mod plans;
mod refusals;
mod tree;
