//! What can keep a load from running.

use std::io;
use std::path::Path;
use task::TaskError;

/// A load that could not start, or that broke off. Steps that differ only in their words share a variant.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// What was asked for cannot be: what, and the remedy.
    #[error("{0}")]
    Refused(String),
    /// A step of the load failed: which, why, and the remedy.
    #[error("{0}")]
    Failed(String),
    /// A thread or process that could not be set up.
    #[error(transparent)]
    Task(#[from] TaskError),
}

impl LoadError {
    /// The folder for the load's files cannot be used.
    pub(crate) fn folder(path: &Path, cause: &io::Error) -> Self {
        let remedy = "name another one that exists and is writable";
        Self::Refused(format!("folder {} cannot be used for the load: {cause}; {remedy}", path.display()))
    }

    pub(crate) fn writing(path: &Path) -> impl Fn(io::Error) -> Self {
        move |cause| {
            let remedy = "free space or name another folder";
            Self::Failed(format!("the load cannot write {}: {cause}; {remedy}", path.display()))
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    pub(crate) fn thread(cause: io::Error) -> Self {
        Self::Failed(format!("a thread of the load cannot be started: {cause}; use fewer jobs"))
    }

    /// A socket of the load that failed while it did `what`; `path` is "loopback" or "UNIX sockets".
    pub(crate) fn socket(what: &str, path: &str) -> impl Fn(io::Error) -> Self {
        move |cause| Self::Failed(format!("the load's {what} over {path} failed: {cause}"))
    }

    pub(crate) fn cpu_times(why: impl std::fmt::Display) -> Self {
        Self::Failed(format!("/proc/stat cannot be used: {why}; loads need procfs"))
    }

    pub(crate) fn broken() -> Self {
        Self::Failed("a thread of the load broke off; this is a defect, please report it".to_owned())
    }

    /// The design's exit code: 2 for what was asked for and cannot be, 1 for what failed on the way.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_)
            | Self::Task(TaskError::NoCpu | TaskError::NoSuchCpu { .. } | TaskError::CpuNotAllowed { .. }) => 2,
            _ => 1,
        }
    }
}
