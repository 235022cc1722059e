//! What the preload library (`shim`) and its starter and reader (`bypass`) agree on: the settings and how they are handed
//! over, and the layout of the status page.
//!
//! Floor 0. The library is loaded into programs of others, so this crate has no dependencies, and [`Start::parse`] neither
//! allocates nor panics.

pub mod page;
mod settings;

pub use settings::{Key, SETTINGS, Setting, Start, VARIABLE, Values};
