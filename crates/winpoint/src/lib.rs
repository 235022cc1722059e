//! Both ends of a measurement for systems without Linux calls: Windows, above all.
//!
//! The control session, the data header and the figures are those of Windhover itself (`wire`, `record`, `model`), so that an
//! unmodified `windhover` is the other end, and `windhover report` reads the run directory. Sockets (but that of PGM, which
//! is `socket2`'s), threads and files are the standard library's. What only Windows has is in `platform/windows.rs` and
//! `platform/completion.rs`; their twin for other systems has no system call of its own, so that tests on Linux run everything else.
#![expect(missing_docs, reason = "what has no comment is what its name says")]

mod client;
mod data;
pub mod doctor;
mod document;
mod error;
mod pace;
mod pgm;
mod pingpong;
pub mod platform;
mod reflector;
mod server;

pub use client::resolve;
pub use document::{Labels, now_ns, substrate, try_run, write_run};
pub use error::WinpointError;
pub use server::Server;

use model::worker::Measured;
use model::{Probe, ProbeSpec, Protocol, Receive};
use platform::PlatformError;
use std::net::SocketAddr;
use wire::Key;

/// What the initiator is asked for beside the measurement itself.
#[derive(Debug, Clone)]
pub struct Task {
    /// The measurement: `pingpong` over UDP or TCP, or `pace` over these or PGM. Rates of `pace` are measured one after the other.
    pub spec: ProbeSpec,
    /// Where the reflector listens.
    pub control: SocketAddr,
    pub key: Option<Key>,
}

/// What carries messages at ends on Windows.
pub const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Pgm];

/// Measures all sizes (of `pace` all rates of each) with the calling thread, which [`platform::place`] may have placed
/// before. Each result is given to `give` before the next one is measured. Errors: [`WinpointError`], one line with the
/// remedy. Results that were given before stay.
pub fn measure(task: &Task, give: &mut dyn FnMut(Measured)) -> Result<(), WinpointError> {
    task.spec.check()?;
    match task.spec.initiator.receive {
        Receive::Block | Receive::Spin => {}
        Receive::Completion if cfg!(windows) => {}
        Receive::Completion => return Err(PlatformError::OnlyWindows("--receive iocp").into()),
        other => return Err(WinpointError::Receive(other)),
    }
    match task.spec.probe() {
        Probe::Pingpong => pingpong::measure(task, give),
        Probe::Pace => pace::measure(task, give),
        other => Err(WinpointError::Probe(other)),
    }
}
