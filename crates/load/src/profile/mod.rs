//! What the loads do. Each profile makes the jobs of a crew; the engine gives each job a thread.

mod build;
mod compile;
mod context;
mod cpu;
mod disk;
mod memory;
mod net;

pub use compile::unit;

use crate::LoadError;
use crate::engine::WorkerTask;
use crate::sampler::Measure;
use model::{CpuList, LoadProfile, LoadSpec};
use task::OwnFolder;

pub(crate) struct Workers {
    pub(crate) jobs: Vec<WorkerTask>,
    pub(crate) measure: Measure,
    /// How it works, in a few words.
    pub(crate) method: String,
    pub(crate) scratch: Option<OwnFolder>,
}

impl Workers {
    fn of_threads(jobs: Vec<WorkerTask>, method: String) -> Self {
        Self { jobs, measure: Measure::Work, method, scratch: None }
    }
}

/// The crew for a spec with `count` jobs.
pub(crate) fn workers(spec: &LoadSpec, count: u32, cpus: &CpuList) -> Result<Workers, LoadError> {
    match spec.profile {
        LoadProfile::Build => build::workers(spec, count, cpus),
        LoadProfile::Cpu => Ok(cpu::workers(count)),
        LoadProfile::Memory => Ok(memory::workers(count)),
        LoadProfile::Disk => disk::workers(spec, count),
        LoadProfile::Net => net::workers(count),
        LoadProfile::Context => context::workers(count),
    }
}
