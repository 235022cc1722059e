//! What can go wrong with a run directory. Each message is one line that names the path and the remedy.

use model::ModelError;
use std::io;
use std::path::{Path, PathBuf};

/// A run directory that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("run directory {} exists: give another --output or name, or go on with 'windhover campaign resume {}'", .0.display(), .0.display())]
    Exists(PathBuf),
    /// The file system is full, or the user's quota is used up. What was written before stays valid.
    #[error("disk full while writing {}: free some space; a run that had begun goes on with 'windhover campaign resume'", .0.display())]
    DiskFull(PathBuf),
    #[error("cannot write {}: {cause}", .path.display())]
    Write { path: PathBuf, cause: io::Error },
    #[error("cannot write {}: {kept} of {all} raw samples are in it, and the figures hold all of them: {cause}: free some space, or name another --raw", .path.display())]
    SamplesCut { path: PathBuf, kept: usize, all: usize, cause: io::Error },
    #[error("raw samples cannot be read: {0}: measure again with both ends of one build")]
    Samples(String),
    #[error("--raw {}: there is no folder {}: make it first", .prefix.display(), .folder.display())]
    NoFolder { prefix: PathBuf, folder: PathBuf },
    /// What is written to a run stays in it.
    #[error("{} is a symbolic link, and a run is not written through one: put the folder or file itself in its place", .0.display())]
    Link(PathBuf),
    #[error("{} is no regular file: put a file in its place, or name another run", .0.display())]
    NoFile(PathBuf),
    #[error("{} has more than {most_mib} MiB, as no file of a run has: put the file back from a copy, or name another run", .path.display())]
    TooLarge { path: PathBuf, most_mib: u64 },
    #[error("cannot read {}: {cause}", .path.display())]
    Read { path: PathBuf, cause: io::Error },
    #[error("{} is no run directory (it has no run.json): name one that 'windhover campaign list' shows", .0.display())]
    NotARun(PathBuf),
    /// There is no `plan.toml`, which only a resume needs.
    #[error("{} is missing, so the run cannot go on: put the plan back as plan.toml; 'windhover show' still works", .0.display())]
    NoPlan(PathBuf),
    #[error("run {} is being written by another windhover: wait until it ends", .0.display())]
    Busy(PathBuf),
    /// A document is damaged or of a newer format; the text names the file.
    #[error(transparent)]
    Document(#[from] ModelError),
    /// A line of the journal, other than a torn last one, cannot be read.
    #[error("{}: line {line} is damaged ({why}): put the file back from a copy, or measure again", .path.display())]
    DamagedLine { path: PathBuf, line: usize, why: String },
    /// A line of the journal has a step that this version does not know.
    #[error("{}: line {line} (step '{step}') was written by a newer windhover: use that one", .path.display())]
    NewerLine { path: PathBuf, line: usize, step: String },
    #[error("cannot encode {what}: {why}")]
    Encode { what: String, why: String },
    #[error("run name '{0}': use letters, digits, '-', '_' and '.', and do not begin with '.'")]
    Name(String),
    #[error(
        "these runs are of different substrates: {who}: what differs between those would be part of every figure; to put them side by side all the same, give --mix-substrates {all}"
    )]
    Substrates { who: String, all: String },
}

impl StoreError {
    /// Sorts an error of a writing call: a full disk (ENOSPC, EDQUOT) gets its own name.
    pub(crate) fn writing(path: &Path, cause: io::Error) -> Self {
        let path = path.to_owned();
        match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(path),
            _ => Self::Write { path, cause },
        }
    }

    pub(crate) fn reading(path: &Path, cause: io::Error) -> Self {
        Self::Read { path: path.to_owned(), cause }
    }

    /// What became no text, `what` it was to be.
    pub(crate) fn encoding(what: impl Into<String>, why: &impl std::fmt::Display) -> Self {
        Self::Encode { what: what.into(), why: why.to_string() }
    }

    /// The design's exit code: 2 for what a person named wrongly, also a run that is damaged or of a newer format, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Exists { .. }
            | Self::NotARun { .. }
            | Self::Busy { .. }
            | Self::Name { .. }
            | Self::Link(_)
            | Self::NoFolder { .. }
            | Self::NoFile(_)
            | Self::TooLarge { .. }
            | Self::NoPlan { .. }
            | Self::DamagedLine { .. }
            | Self::NewerLine { .. }
            | Self::Substrates { .. }
            | Self::Document(_) => 2,
            _ => 1,
        }
    }
}
