//! What can keep a load from running.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use task::TaskError;

/// A load that could not start, or that broke off.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A number of jobs that cannot be meant.
    #[error("{jobs} jobs are out of range: use 1 to {most}")]
    Jobs {
        /// What was asked for.
        jobs: u32,
        /// The most that is accepted.
        most: u32,
    },
    /// A setting that the profile has no use for.
    #[error("load {0} takes no command: leave it out, or use load build")]
    Command(model::LoadProfile),
    /// The folder for the load's files cannot be used.
    #[error("folder {} cannot be used for the load: {cause}; name another one that exists and is writable", path.display())]
    Folder {
        /// Which folder.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// A file of the load cannot be written.
    #[error("the load cannot write {}: {cause}; free space or name another folder", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// A thread or process that could not be set up.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// A thread that could not be started.
    #[error("a thread of the load cannot be started: {0}; use fewer jobs")]
    Thread(io::Error),
    /// A socket of the load that failed.
    #[error("the load's {what} over {path} failed: {cause}")]
    Socket {
        /// What was being done.
        what: &'static str,
        /// "loopback" or "UNIX sockets".
        path: &'static str,
        /// The system's error.
        cause: io::Error,
    },
    /// The command given for `build`, or the compiler, failed.
    #[error("the load's command '{command}' failed ({status}): {said}")]
    Failed {
        /// The command as run.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The last line that it wrote to stderr.
        said: String,
    },
    /// The machine's CPU times cannot be read, so the load cannot be measured.
    #[error("/proc/stat cannot be used: {0}; loads need procfs")]
    CpuTimes(String),
    /// A thread of the load that panicked: a defect of this program.
    #[error("a thread of the load broke off; this is a defect, please report it")]
    Broken,
}

impl LoadError {
    /// The design's exit code: 2 for what was asked for and cannot be, 1 for what failed on the way.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Jobs { .. }
            | Self::Command { .. }
            | Self::Folder { .. }
            | Self::Task(TaskError::NoCpu | TaskError::NoSuchCpu { .. } | TaskError::CpuNotAllowed { .. }) => 2,
            _ => 1,
        }
    }
}
