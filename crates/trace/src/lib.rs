//! Sources of kernel events: who and what ran on a CPU, from a private tracing instance (Documentation/trace/ftrace.rst).
//!
//! Floor 1. An instance is a hold: it goes when its owner drops it, and one whose owner was killed is removed by the
//! next. The global trace buffer and its settings are never touched.
#![expect(missing_docs, reason = "what has no comment is what its name says")]
#![expect(unsafe_code, reason = "fsopen(2) and its relatives have no safe wrapper")]

mod calls;
mod error;
mod event;
mod instance;
pub mod recorder;
mod tracefs;

pub use calls::Calls;
pub use error::TraceError;
pub use event::{EventKind, TraceEvent, parse_line};
pub use instance::{Instance, Options};
pub use recorder::{Recorder, Subject};
