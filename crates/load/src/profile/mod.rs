//! What the loads do. Each profile makes the jobs of a crew; the engine gives each job a thread.

mod build;
mod compile;
mod context;
mod cpu;
mod disk;
mod memory;
mod net;

use crate::LoadError;
use crate::engine::Job;
use crate::sampler::Measure;
use crate::scratch::Scratch;
use model::{CpuList, LoadProfile, LoadSpec};

/// A load ready to start.
pub(crate) struct Crew {
    pub(crate) jobs: Vec<Job>,
    pub(crate) measure: Measure,
    /// How it works, in a few words.
    pub(crate) method: String,
    pub(crate) scratch: Option<Scratch>,
}

impl Crew {
    fn of_threads(jobs: Vec<Job>, method: String) -> Self {
        Self { jobs, measure: Measure::Work, method, scratch: None }
    }
}

/// The crew for a spec with `count` jobs.
pub(crate) fn crew(spec: &LoadSpec, count: u32, cpus: &CpuList) -> Result<Crew, LoadError> {
    match spec.profile {
        LoadProfile::Build => build::crew(spec, count, cpus),
        LoadProfile::Cpu => Ok(cpu::crew(count)),
        LoadProfile::Memory => Ok(memory::crew(count)),
        LoadProfile::Disk => disk::crew(spec, count),
        LoadProfile::Net => net::crew(count),
        LoadProfile::Context => context::crew(count),
    }
}
