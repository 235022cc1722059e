//! What can fail, with operand, cause and remedy.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum BypassError {
    #[error(transparent)]
    Layers(#[from] host::layers::LayerError),
    #[error("profile {profile}: {why}")]
    Profile { profile: String, why: String },
    #[error("variable {variable}: {why}")]
    Variable { variable: String, why: String },
    #[error("the preload library cannot be written to {path}: {cause}")]
    Library { path: PathBuf, cause: io::Error },
    #[error(
        "{wanted} does not run behind `windhover bypass run`, or has no socket yet: `windhover bypass stat` lists those that do"
    )]
    NotBehind { wanted: String },
    #[error("process {pid} belongs to user {user}: use this command as that user")]
    OtherUser { pid: u32, user: u32 },
    #[error("several programs fit: name one by its process id: {}", names.join(", "))]
    Several { names: Vec<String> },
    #[error(
        "{name} (process {pid}) has no socket on --stack xdp: the kernel carries its packets, and tcpdump sees them"
    )]
    NoStack { name: String, pid: u32 },
    #[error("{name} (process {pid}) is captured already, by process {by}: end that one first")]
    Captured { name: String, pid: u32, by: u64 },
    #[error(
        "{name} (process {pid}) cannot open the ring for its frames: {cause}: capture it as its own user, in its own container"
    )]
    CaptureRefused { name: String, pid: u32, cause: io::Error },
    #[error("{name} (process {pid}) does not begin the capture: is it stopped, or does it run with an older library?")]
    Silent { name: String, pid: u32 },
    #[error("no memory for a ring of {mib} MiB: {cause}: use a smaller --buffer")]
    NoRing { mib: u32, cause: io::Error },
    #[error(transparent)]
    Ring(#[from] xsk::DamagedRing),
}
