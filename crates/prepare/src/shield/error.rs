//! What a shield is refused for, and what goes wrong with one.

use super::list::CpuListError;
use host::knob::KnobError;
use host::nic::NicError;
use host::undo::{SetId, UndoError, UndoReport};
use model::{CpuList, ShieldBackend};
use std::path::PathBuf;

/// Why there is no shield, one variant a rule or step.
#[derive(Debug, thiserror::Error)]
pub enum ShieldError {
    /// Neither CPUs nor anything else was asked for.
    #[error("no CPU is named: use -a LIST, or -p, -i, -l, -m for one attribute alone")]
    NothingAsked,
    /// A list of CPUs that means nothing here.
    #[error(transparent)]
    List(#[from] CpuListError),
    /// A CPU that this machine does not have, or that is offline.
    #[error("CPU {cpus} does not exist here or is offline: use some of {online}")]
    UnknownCpu {
        /// Those that are unknown.
        cpus: CpuList,
        /// Those that are online.
        online: CpuList,
    },
    /// The boot CPU has duties that cannot be moved.
    #[error(
        "CPU {0} is the boot CPU, which keeps duties that cannot be moved: choose another one, or add --allow-boot-cpu"
    )]
    BootCpu(u32),
    /// Nothing else could run any more.
    #[error("no CPU would be left for {whom}: {asked} is to be shielded{gone}; leave at least one of {online} out")]
    NoHousekeeping {
        /// `everything else` or `device interrupts`.
        whom: &'static str,
        /// What was asked for.
        asked: CpuList,
        /// What is not available besides, with the reason; begins with a comma, or is empty.
        gone: String,
        /// The CPUs that are online.
        online: CpuList,
    },
    /// No memory node would be left for others.
    #[error(
        "no memory node would be left for everything else: CPU {asked} belongs to node {nodes}, and there is no other; leave -m out"
    )]
    NoMemoryLeft {
        /// What was asked for.
        asked: CpuList,
        /// Its nodes.
        nodes: CpuList,
    },
    /// Memory cannot be closed without its CPUs.
    #[error("-m: memory is closed to others only together with its CPUs: add CPU {0} to -p")]
    MemoryAlone(CpuList),
    /// Some CPUs were isolated at boot.
    #[error(
        "CPU {isolated} was isolated at boot (/sys/devices/system/cpu/isolated; isolcpus=), and backend {backend} must not be mixed with that: shield {isolated} alone with --backend isolcpus, or boot without isolcpus="
    )]
    BootIsolated {
        /// Those asked for that are.
        isolated: CpuList,
        /// What was asked for.
        backend: ShieldBackend,
    },
    /// `isolcpus` was asked for, and the boot did not do it.
    #[error(
        "backend isolcpus needs CPU {missing} isolated at boot, and /sys/devices/system/cpu/isolated says '{isolated}': boot with isolcpus=domain,managed_irq,{missing}, or use another backend"
    )]
    NotBootIsolated {
        /// Those that are missing.
        missing: CpuList,
        /// Those that are isolated.
        isolated: CpuList,
    },
    /// Another one has taken a CPU into its own partition or exclusive set.
    #[error("CPU {cpus} belongs to {path}, which is not ours: choose other CPUs, or remove that first")]
    ForeignPartition {
        /// Which CPUs.
        cpus: CpuList,
        /// Whose.
        path: PathBuf,
    },
    /// A set of ours is there, but no log of this boot says that we made it.
    #[error(
        "{path} is there, but no undo log in {state} made it: use the state directory that it was made with, or `windhover shield --reset --force`, which removes it"
    )]
    LeftOver {
        /// Which.
        path: PathBuf,
        /// The state directory.
        state: PathBuf,
    },
    /// The system does not have what a backend needs.
    #[error("backend {backend} cannot be used here: {why}")]
    Backend {
        /// Which.
        backend: ShieldBackend,
        /// With the evidence.
        why: String,
    },
    /// Nothing can be kept on a CPU that the kernel closes.
    #[error(
        "--keep {0}: a v2 partition is closed to all but its members: use --backend v1 or affinity, or place it there by `windhover run -b`"
    )]
    CannotKeep(String),
    /// A network device cannot be looked at.
    #[error("a network device cannot be put onto the shield: {0}")]
    Nic(#[from] NicError),
    /// A device is to go onto the shield, and no CPU is shielded.
    #[error("--nic {0}: no CPU is shielded that it could go to: add -p or -a LIST")]
    NicWithoutCpus(String),
    /// A flow is to go onto the shield, and no device is.
    #[error("--flow '{0}': no device is on the shield that could steer it: add --nic IF")]
    FlowWithoutNic(String),
    /// A flow rule that cannot be read.
    #[error("--flow: {0}: write it as 'udp4 dst-port 7000'")]
    FlowRule(String),
    /// The kernel took the partition's CPUs, and then did not isolate them.
    #[error("{path} reads back '{found}' and not 'isolated': {remedy}")]
    NotIsolated {
        /// Which file.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// Another process' shield is up.
    #[error(
        "the shield of CPU {cpus} goes with {owner}, which is running (`{command}`): wait for its end, end it, or use its shield meanwhile with `windhover run -b {cpus}`"
    )]
    Owned {
        /// What it shields.
        cpus: CpuList,
        /// Whose it is.
        owner: String,
        /// What that process was told.
        command: String,
    },
    /// A shield that stays would be lost by one that goes.
    #[error("another shield, of CPU {0}, is up and is to stay: `windhover shield --reset` takes it down first")]
    OtherIsUp(CpuList),
    /// The shield that is up cannot be taken down.
    #[error(
        "the shield that is up (change set {set}) cannot be put back: {why}; see `windhover shield --reset --force`"
    )]
    Resists {
        /// Its change set.
        set: SetId,
        /// The first reason.
        why: String,
    },
    /// This user may not do it.
    #[error("not permitted: {what} cannot be written{more}: run it as root, or give windhover {capability}")]
    NotPermitted {
        /// The first file or directory.
        what: String,
        /// How many more; or empty.
        more: String,
        /// What is missing.
        capability: String,
    },
    /// A step failed; what was done before it was put back.
    #[error("{cause}; {undone}")]
    Step {
        /// What failed.
        cause: Box<Self>,
        /// What became of the steps before.
        undone: String,
    },
    /// A fact that everything hangs on cannot be read.
    #[error("{path} cannot be read: {why}")]
    Fact {
        /// Which file.
        path: PathBuf,
        /// One line.
        why: String,
    },
    /// A sweep did not come to an end.
    #[error("tasks are started faster than they can be moved ({left} were left after {seconds} s)")]
    Restless {
        /// How many.
        left: usize,
        /// How long it was tried.
        seconds: u64,
    },
    /// The keeper, which undoes a shield when its owner vanishes, does not run.
    #[error(
        "the process that would undo the shield when this one vanishes cannot be started: {0}; nothing was changed"
    )]
    Keeper(String),
    /// The undo log.
    #[error(transparent)]
    Undo(#[from] UndoError),
    /// A knob.
    #[error(transparent)]
    Knob(#[from] KnobError),
}

impl ShieldError {
    /// The design's exit code: 2 for what is refused before anything is changed and for a partition that the kernel does
    /// not isolate, 1 for what fails.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Step { cause, .. } => cause.exit_code(),
            Self::NotPermitted { .. }
            | Self::Fact { .. }
            | Self::Restless { .. }
            | Self::Resists { .. }
            | Self::Keeper { .. }
            | Self::Undo(_)
            | Self::Knob(_) => 1,
            _ => 2,
        }
    }
}

/// Words for what an undo did.
pub(super) fn undone(result: &Result<UndoReport, UndoError>) -> String {
    match result {
        Ok(report) if report.is_clean() => "everything was put back".to_owned(),
        Ok(report) => format!(
            "{} settings could not be put back (see `windhover shield --reset`): {}",
            report.failed.len() + report.conflicts.len(),
            report
                .failed
                .iter()
                .cloned()
                .chain(report.conflicts.iter().map(|conflict| conflict.knob.to_string()))
                .collect::<Vec<_>>()
                .join(", ")
        ),
        Err(error) => format!("and putting back failed: {error}"),
    }
}
