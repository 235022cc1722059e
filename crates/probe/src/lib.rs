//! The measuring ends: one module for each probe.
//!
//! [`run`] makes one measurement: it opens a session with an endpoint (or starts a reflector as a child), warms up, and gives
//! its caller one [`Measured`] a size as soon as it is done. This crate prints nothing and stores nothing.
//!
//! `pingpong`, `rr` and `ping` are one closed loop (`rounds`) over different paths; `pace`, `stream`, `wake` and foreign
//! workers have loops of their own; those of `cycle` are a node's of `exchange-io`. A loop runs on a thread of its own, which alone gets the policy and the CPU asked for.
#![expect(missing_docs, reason = "what has no comment is what its name says")]

use model::worker::{Measured, ProbeTask};
use model::{ProbeOptions, ProbeSpec};

mod capture;
mod check;
mod closed_loop;
mod context;
mod cost;
mod cycle;
mod document;
mod driver;
mod echo;
mod error;
mod foreign;
mod framing;
mod local;
mod measuring_thread;
mod opening;
mod pace;
mod peer;
mod round_matcher;
mod rounds;
mod session;
mod size;
mod stop;
mod stream;
mod thread;
mod wake;

pub use capture::{PAYLOAD_BYTES, Recording};
pub use context::{Context, LiveSink, Outcome};
pub use error::ProbeError;

/// Measures what the task asks for and gives each size's result to `sink` as soon as it is done; with a capture in the task, when the
/// next one is done, and the last one when the capture has ended. Nothing is measured while `sink` works.
///
/// What was measured before a failure is always given to `sink` first: a size cut short by a vanished peer carries a
/// `peer-vanished` finding and is followed by the error.
///
/// The calling thread keeps its policy; while this runs it is kept off the measuring CPU. The process' memory is locked
/// and stays so, and its allocator keeps freed memory.
///
/// # Errors
/// [`ProbeError`], one line that names the thing and the remedy; [`ProbeError::exit_code`] is that of a program.
pub fn run(task: &ProbeTask, context: &Context, sink: &mut dyn FnMut(Measured)) -> Result<Outcome, ProbeError> {
    task.spec.check()?;
    check::here(&task.spec)?;
    check::pace(task)?;
    task::keep_heap();
    let clock = clock::Clock::calibrate()?;
    let (needs_thread, measure) = engine(&task.spec);
    let mut run = |context: &Context, sink: &mut dyn FnMut(Measured)| {
        if needs_thread {
            let give = |give: &mut dyn FnMut(Measured)| measure(task, context, clock, give);
            return measuring_thread::run_on_measuring_thread(&task.spec, context, sink, give);
        }
        measure(task, context, clock, sink)
    };
    if task.spec.capture { capture::kept(task, context, sink, &mut run) } else { run(context, sink) }
}

type Measure = fn(&ProbeTask, &Context, clock::Clock, &mut dyn FnMut(Measured)) -> Result<Outcome, ProbeError>;

/// What measures, and whether it needs a thread of its own for that: others start theirs, or a program, themselves.
fn engine(spec: &ProbeSpec) -> (bool, Measure) {
    match spec.options {
        _ if !spec.foreign.is_empty() => (false, foreign::measure),
        ProbeOptions::Pingpong | ProbeOptions::Rr(_) | ProbeOptions::Ping => (true, closed_loop::measure),
        ProbeOptions::Pace { .. } => (true, pace::measure),
        ProbeOptions::Stream { .. } => (false, stream::measure),
        ProbeOptions::Wake { .. } => (true, wake::measure),
        ProbeOptions::Cycle { .. } => (true, cycle::measure),
    }
}
