//! What a campaign tells whoever watches it.

use model::run::RunStep;
use model::{LiveInterval, Prepared, ResultDocument, Substrate};
use std::path::Path;

/// One thing that happened.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    /// All hosts answered with their facts.
    HostsReady {
        /// Their names.
        hosts: &'a [String],
        /// What they are.
        substrate: Substrate,
    },
    /// The run directory is there.
    RunOpened {
        /// Its path.
        path: &'a Path,
        /// Steps in all.
        steps: usize,
        /// Of them done by an earlier part of the run.
        done: usize,
        /// Estimate until the end.
        eta_ns: u64,
    },
    /// What takes long before the first cell.
    Note(&'a str),
    /// Something worth a line on stderr that does not stop the run.
    Warning(&'a str),
    /// A machine or host was prepared for the cells that follow.
    Prepared {
        /// What was changed.
        prepared: &'a Prepared,
    },
    /// A machine or host was put back as it was.
    Restored {
        /// The agent that did it.
        agent: &'a str,
    },
    /// Hosts are brought to a kernel.
    Booting {
        /// Which.
        kernel: &'a model::KernelChoice,
        /// Which attempt of this visit, from 1.
        attempt: u32,
        /// Of how many.
        attempts: u32,
    },
    /// They run it.
    Booted {
        /// Which.
        kernel: &'a model::KernelChoice,
        /// How long it took, in ns.
        took_ns: u64,
    },
    /// A cell begins.
    CellStarted {
        /// Which.
        step: &'a RunStep,
        /// Estimate until the end, this cell included.
        eta_ns: u64,
    },
    /// An interval of the cell that is measured is over.
    Interval {
        /// The cell.
        step: &'a RunStep,
        /// The interval.
        interval: &'a LiveInterval,
    },
    /// A cell is measured and on disk.
    CellDone {
        /// Which.
        step: &'a RunStep,
        /// Its result.
        result: &'a ResultDocument,
        /// Estimate until the end.
        eta_ns: u64,
    },
    /// A cell failed; the run goes on.
    CellFailed {
        /// Which.
        step: &'a RunStep,
        /// Why, on one line.
        why: &'a str,
        /// Estimate until the end.
        eta_ns: u64,
    },
}

/// Watches a campaign. Called between cells, and while one is measured only with [`Progress::Interval`], which has to be
/// asked for.
pub trait Observer {
    /// Whether it wants [`Progress::Interval`]: they travel over the agents' pipes while a cell is measured, which are quiet
    /// otherwise.
    fn wants_intervals(&self) -> bool {
        false
    }

    /// Told of each thing as it happens.
    fn observe(&mut self, progress: &Progress<'_>);
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn observe(&mut self, _: &Progress<'_>) {}
}

impl<F: FnMut(&Progress<'_>)> Observer for F {
    fn observe(&mut self, progress: &Progress<'_>) {
        self(progress);
    }
}
