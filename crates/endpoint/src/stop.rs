//! The wish that a server ends, in a form that poll(2) can wait for: the write end of a socket pair is closed once, and all
//! read ends are at end of file. So nobody wakes up to look, which would disturb what is measured.

use crate::EndpointError;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

struct Inner {
    write: Mutex<Option<UnixStream>>,
    read: UnixStream,
}

/// Ends an [`crate::Endpoint`] from any thread. Copies refer to the same wish.
#[derive(Clone)]
pub struct Stop(Arc<Inner>);

impl Stop {
    /// A stop request that is not set. Errors: [`EndpointError::System`] when no socket pair can be made.
    pub fn new() -> Result<Self, EndpointError> {
        let (write, read) = UnixStream::pair().map_err(EndpointError::system("making a socket pair"))?;
        Ok(Self(Arc::new(Inner { write: Mutex::new(Some(write)), read })))
    }

    /// Ends the server. It ends its sessions, then returns.
    pub fn stop(&self) {
        drop(self.0.write.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    pub fn is_stopped(&self) -> bool {
        self.0.write.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl AsFd for Stop {
    /// Readable once the server is to end.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.read.as_fd()
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stop({})", self.is_stopped())
    }
}
