//! A reflector that was started as a child: its control connection and its data descriptors come from the parent.

use crate::server::Shared;
use crate::{EndpointError, Stop, session};
use model::{Limits, Protocol};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// Data descriptors made by the parent before it started this process.
#[derive(Debug)]
pub enum InheritedData {
    /// One end of a pair of UNIX sockets (`unix-stream`, `unix-dgram`).
    Socket(OwnedFd),
    /// A descriptor for each direction: ends of two pipes (`pipe`), or two memory files (`shm`).
    Pair {
        /// Requests come from here.
        read: OwnedFd,
        /// Answers go here.
        write: OwnedFd,
    },
}

impl InheritedData {
    pub(crate) fn fits(&self, protocol: Protocol) -> bool {
        match self {
            Self::Socket(_) => matches!(protocol, Protocol::UnixStream | Protocol::UnixDgram),
            Self::Pair { .. } => matches!(protocol, Protocol::Pipe | Protocol::Shm),
        }
    }

    /// The descriptor to read, and the one to write where that is another.
    pub(crate) fn into_fds(self) -> (OwnedFd, Option<OwnedFd>) {
        match self {
            Self::Socket(fd) => (fd, None),
            Self::Pair { read, write } => (read, Some(write)),
        }
    }
}

/// No run takes 30 days; a reflector that was forgotten all the same ends then.
const LONGEST_S: u32 = 30 * 86_400;

/// Serves one session over inherited descriptors until the parent closes the control socket. The parent is trusted: no key, no
/// limits but the protocol's; it gets and reports a refusal. Errors: the session failed.
pub fn serve_inherited(control: UnixStream, data: InheritedData) -> Result<(), EndpointError> {
    let stop = Stop::new()?;
    let limits = Limits { max_rate_pps: u32::MAX, max_session_s: LONGEST_S, ..Limits::trusted() };
    let shared = Shared::new(limits, None, &[])?;
    match session::run_inherited(control, data, &shared, &stop) {
        Err(EndpointError::Refused { .. }) => Ok(()),
        other => other,
    }
}
