//! One host's supervisor: workers and loads behind a byte pipe.
//!
//! Runs in ordinary policy and measures nothing: each endpoint, probe and load is a worker, a process of its own with
//! its task on stdin. When the pipe closes the agent stops its workers, restores the machine, and ends. While a probe
//! runs it sleeps and writes nothing to the pipe.

mod error;
mod events;
mod preparation;
mod supervisor;
mod worker;

pub use error::AgentError;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// Where lines for people go (a worker's stderr, and whatever is in its stdout that is not of the contract).
pub type LineSink = Arc<dyn Fn(&str) + Send + Sync>;

/// What an agent needs to know of its program.
#[derive(Clone)]
pub struct Context {
    /// The program that workers are: started as `PROGRAM worker`.
    pub program: PathBuf,
    /// Hash of this binary; the runner compares it with its own.
    pub build: String,
    /// Where lines for people go.
    pub lines: LineSink,
}

/// Serves one runner until it says good-bye, its pipe closes, or SIGTERM, SIGINT or SIGHUP comes; all of these are a
/// good end. Workers are stopped in each case, and killed when they do not stop.
///
/// Workers end with the thread that calls this (prctl(2), PR_SET_PDEATHSIG). `input` is read by a thread that lives on
/// until it closes.
pub fn serve(input: impl Read + Send + 'static, output: impl Write, context: &Context) -> Result<(), AgentError> {
    let (sender, events) = std::sync::mpsc::channel();
    let signals = events::Signals::watch(&sender)?;
    events::read_requests(input, sender.clone())?;
    let ended = supervisor::Supervisor::new(context, output, sender).run(&events);
    drop(signals);
    ended
}
