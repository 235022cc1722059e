//! UDP and TCP of one network interface in this process: frames by `xsk`, the protocols by `stack`, and addresses, routes and
//! neighbours as the kernel has them.
//!
//! Floor 1. An [`Engine`] is for one thread at a time; whoever shares it puts it into a lock. The kernel goes on to own the
//! ports: the caller holds a kernel socket on each port that it serves.
#![expect(missing_docs, reason = "what has no comment is what its name says")]
#![forbid(unsafe_code)]

mod engine;
mod error;
mod kernel;
mod listed;
mod probe;
mod refresh;

pub use engine::{Engine, Route, Sending, now};
pub use error::EngineError;
pub use listed::listed_end;
pub use probe::probe_peer;
pub use refresh::{Answers, Refresh, Snapshot};
