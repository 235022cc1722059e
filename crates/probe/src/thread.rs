//! Threads by name: started with an error that names them, and joined.

use crate::ProbeError;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};
use task::TaskError;

pub(crate) fn spawn<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, ProbeError> {
    let started = Builder::new().name(name.to_owned()).spawn(work);
    started.map_err(|cause| TaskError::Thread { name, cause }.into())
}

pub(crate) fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, ProbeError> {
    let started = Builder::new().name(name.to_owned()).spawn_scoped(scope, work);
    started.map_err(|cause| TaskError::Thread { name, cause }.into())
}

/// What a thread that has ended returned. Its panic goes on here.
pub(crate) fn joined<T>(ended: std::thread::Result<T>) -> T {
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
