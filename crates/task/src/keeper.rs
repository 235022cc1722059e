//! A process that waits until its starter has ended, and then puts something back.

use crate::{Child, Launch, Stream, TaskError};
use std::io::Read as _;
use std::time::Duration;

/// How long the starter waits for its keeper when it asks for the outcome.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(60);
/// The same when it does not: then it may hold a lock that the keeper needs.
const DROP_TIMEOUT: Duration = Duration::from_secs(2);

/// The starter's end of a keeper. Dropping it lets the keeper finish, also when that outlasts this process.
#[derive(Debug)]
pub struct Keeper {
    child: Option<Child>,
}

impl Keeper {
    /// What a keeper prints on standard output once it keeps.
    pub const READY: &str = "ready\n";

    /// Starts one, in ordinary policy, and waits until it prints [`Self::READY`]: from then on no signal to the starter's
    /// group reaches it. `None` when it ended before. The end of its standard input is the starter's end.
    pub fn start(launch: Launch) -> Result<Option<Self>, TaskError> {
        let mut child = launch
            .env_remove("LD_PRELOAD")
            .policy(model::Policy::Other)
            .in_our_group()
            .stdin(Stream::Pipe)
            .stdout(Stream::Pipe)
            // Whoever reads the starter's words must not wait for the keeper's end.
            .stderr(Stream::Null)
            .start()?;
        let mut line = [0; Self::READY.len()];
        let read = child.take_stdout().map(|mut stdout| stdout.read_exact(&mut line));
        let is_ready = matches!(read, Some(Ok(()))) && line == *Self::READY.as_bytes();
        Ok(is_ready.then_some(Self { child: Some(child) }))
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::pid)
    }

    /// Lets the keeper finish and waits; whether it ended with exit code 0. A lock that it needs must not be held.
    pub fn release(mut self) -> Result<bool, TaskError> {
        self.end(RELEASE_TIMEOUT)
    }

    fn end(&mut self, patience: Duration) -> Result<bool, TaskError> {
        let Some(mut child) = self.child.take() else { return Ok(true) };
        // The end of its standard input is the sign.
        drop(child.take_stdin());
        match child.wait_timeout(patience)? {
            Some(status) => Ok(status.success()),
            None => {
                // It is still at work: that must not be killed.
                std::mem::forget(child);
                Ok(false)
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.end(DROP_TIMEOUT);
    }
}
