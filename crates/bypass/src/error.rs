//! What can fail, with operand, cause and remedy.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages tell what each field is")]
pub enum BypassError {
    /// A profile that is none, or whose file cannot be read.
    #[error(transparent)]
    Layers(#[from] host::layers::LayerError),
    /// A profile's content that is wrong.
    #[error("profile {profile}: {why}")]
    Profile { profile: String, why: String },
    /// A variable that overrides nothing, or with a value that cannot be.
    #[error("variable {variable}: {why}")]
    Variable { variable: String, why: String },
    /// The library cannot be put where the loader finds it.
    #[error("the preload library cannot be written to {path}: {cause}")]
    Library { path: PathBuf, cause: io::Error },
    /// No such program behind the library.
    #[error(
        "{wanted} does not run behind `windhover bypass run`, or has no socket yet: `windhover bypass stat` lists those that do"
    )]
    NotBehind { wanted: String },
    /// The page is in the other user's folder.
    #[error("process {pid} belongs to user {user}: use this command as that user")]
    OtherUser { pid: u32, user: u32 },
    #[error("several programs fit: name one by its process id: {}", names.join(", "))]
    Several { names: Vec<String> },
    /// The kernel carries its packets.
    #[error(
        "{name} (process {pid}) has no socket on --stack xdp: the kernel carries its packets, and tcpdump sees them"
    )]
    NoStack { name: String, pid: u32 },
    /// One capture at a time.
    #[error("{name} (process {pid}) is captured already, by process {by}: end that one first")]
    Captured { name: String, pid: u32, by: u64 },
    /// The program could not open the ring.
    #[error(
        "{name} (process {pid}) cannot open the ring for its frames: {cause}: capture it as its own user, in its own container"
    )]
    CaptureRefused { name: String, pid: u32, cause: io::Error },
    /// The program's thread that begins captures does not run.
    #[error("{name} (process {pid}) does not begin the capture: is it stopped, or does it run with an older library?")]
    Silent { name: String, pid: u32 },
    /// There is no memory for the ring.
    #[error("no memory for a ring of {mib} MiB: {cause}: use a smaller --buffer")]
    NoRing { mib: u32, cause: io::Error },
    /// The ring holds what cannot be.
    #[error(transparent)]
    Ring(#[from] xsk::DamagedRing),
}
