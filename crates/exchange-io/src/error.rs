//! What can fail, with the operand, the cause and the remedy.

use std::io;
use std::path::PathBuf;

/// An image that cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("the image {} cannot be opened: {cause}", path.display())]
    Open { path: PathBuf, cause: io::Error },
    #[error("the image {} cannot be mapped: {cause}", path.display())]
    Map { path: PathBuf, cause: io::Error },
    #[error("the image {} belongs to user {owner}, not to this process's user {own}: nothing is read or written", path.display())]
    Owner { path: PathBuf, owner: u32, own: u32 },
    #[error("the image {} is written by process {pid}: end it, or use another node name", path.display())]
    InUse { path: PathBuf, pid: u64 },
    #[error("the image {} has {bytes} bytes where its header says {expected}", path.display())]
    Size { path: PathBuf, bytes: u64, expected: u64 },
    #[error("the image {} is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: &'static str },
    #[error("the image {} has another layout than the topic: both ends need the same file", path.display())]
    Layout { path: PathBuf },
}

/// A node that cannot start, or that ended early.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error("node '{node}': {cause}")]
    Net { node: String, cause: net::NetError },
    #[error("node '{node}': an exchange does not go over {protocol} yet: use udp")]
    Protocol { node: String, protocol: model::Protocol },
    #[error("node '{node}': {cause}")]
    Pgm { node: String, cause: pgm_io::PgmIoError },
    #[error("node '{node}': {cause}")]
    Task { node: String, cause: task::TaskError },
    #[error("node '{node}': no thread can be started: {cause}")]
    Thread { node: String, cause: io::Error },
    #[error("node '{node}': {what}: {cause}")]
    Path { node: String, what: String, cause: net::PathError },
    #[error("node '{node}': a thread ended without a result")]
    Panicked { node: String },
}
