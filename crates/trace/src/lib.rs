//! Kernel events: the flight recorder, whose BPF programs write what each CPU does and when messages pass.
//!
//! Floor 1. What records goes with its owner. Tracefs, its buffer and its settings are never touched.
#![expect(missing_docs, reason = "what has no comment is what its name says")]

mod calls;
mod error;
pub mod recorder;

pub use calls::Calls;
pub use error::TraceError;
pub use recorder::{Recorder, Subject};
