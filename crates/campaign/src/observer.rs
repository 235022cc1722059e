//! What a campaign tells whoever watches it.

use model::run::RunStep;
use model::{LiveInterval, Prepared, ResultDocument, Substrate};
use std::path::Path;

/// One thing that happened. `eta_ns` is the estimate until the end, the present cell included; attempts count from 1.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    HostsReady {
        hosts: &'a [String],
        substrate: Substrate,
    },
    /// The run directory is there.
    RunOpened {
        path: &'a Path,
        steps: usize,
        done: usize,
        eta_ns: u64,
    },
    /// What takes long before the first cell.
    Note(&'a str),
    /// Something worth a line on stderr that does not stop the run.
    Warning(&'a str),
    /// A machine or host was prepared for the cells that follow.
    Prepared {
        prepared: &'a Prepared,
    },
    /// A machine or host was put back as it was.
    Restored {
        agent: &'a str,
    },
    /// Hosts are brought to a kernel.
    Booting {
        kernel: &'a model::KernelChoice,
        attempt: u32,
        attempts: u32,
    },
    /// They run it.
    Booted {
        kernel: &'a model::KernelChoice,
        took_ns: u64,
    },
    /// A cell begins.
    CellStarted {
        step: &'a RunStep,
        eta_ns: u64,
    },
    /// An interval of the cell that is measured is over.
    Interval {
        step: &'a RunStep,
        interval: &'a LiveInterval,
    },
    /// A cell is measured and on disk.
    CellDone {
        step: &'a RunStep,
        result: &'a ResultDocument,
        eta_ns: u64,
    },
    /// A cell failed; the run goes on.
    CellFailed {
        step: &'a RunStep,
        why: &'a str,
        eta_ns: u64,
    },
}

/// Watches a campaign: between cells, and while one is measured only with [`Progress::Interval`], on demand.
pub trait Observer {
    /// Whether it wants [`Progress::Interval`], which travel over the agents' pipes while a cell is measured.
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
