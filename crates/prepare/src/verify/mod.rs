//! Proves a shield: a thread spins on each CPU and sees each gap; a private tracing instance shows who took it.

mod spin;
mod visitors;

pub use spin::{Gap, Spin, SpinError, spin};
pub use visitors::{Leak, Visitor, VisitorKind, leaks, visitors};

use clock::{Clock, ClockError};
use model::{CpuList, Policy, ShieldSpec};
use std::time::Duration;
use trace::{Instance, Options, TraceError};

/// Shortest time taken from a spinning thread that counts, in ns: a read of the clock and a loop take far less.
pub const GAP_NS: u64 = 3_000;

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CpuEvidence {
    pub cpu: u32,
    pub spun_ns: u64,
    /// Time taken from it in gaps of [`GAP_NS`] or more, in ns.
    pub stolen_ns: u64,
    pub gaps: u64,
    pub longest_ns: u64,
    /// What ran in the longest one, in order; empty without a trace or when nothing was seen (a hypervisor took it).
    pub longest_held_by: Vec<String>,
    /// Everything that touched the CPU, the most frequent first.
    pub visitors: Vec<Visitor>,
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Evidence {
    pub format: u32,
    pub policy: Policy,
    pub cpus: Vec<CpuEvidence>,
    /// Why there is no trace, where there is none.
    pub no_trace: Option<String>,
    /// Trace events that this kernel does not have.
    pub missing_events: Vec<String>,
    /// Trace events that were lost because a buffer was full.
    pub lost_events: u64,
}

/// Why nothing was proven, one variant a step.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error(transparent)]
    Clock(#[from] ClockError),
    #[error(transparent)]
    Spin(#[from] SpinError),
    #[error("there is no CPU to verify: name some, or put up a shield first")]
    NoCpu,
}

/// Spins on each CPU for `time` and finds what touched it; without tracefs gaps alone. Call it from another CPU.
pub fn run(cpus: &CpuList, time: Duration, policy: Policy) -> Result<Evidence, VerifyError> {
    if cpus.is_empty() {
        return Err(VerifyError::NoCpu);
    }
    let clock = Clock::calibrate()?;
    let (instance, no_trace) = match Instance::start(&Options::visitors(cpus.clone())) {
        Ok(instance) => (Some(instance), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let missing_events = instance.as_ref().map(|instance| instance.missing().to_vec()).unwrap_or_default();
    let spins = spin::on_each(clock, cpus, time, policy)?;
    let (events, lost_events, no_trace) = match instance.map(Instance::finish) {
        Some(Ok((events, lost))) => (events, lost, no_trace),
        Some(Err(error)) => (Vec::new(), 0, Some(read_failed(&error))),
        None => (Vec::new(), 0, no_trace),
    };
    let own: Vec<i32> = spins.iter().map(|spin| spin.tid).collect();
    let cpus = spins.iter().map(|spin| evidence(spin, &events, &own)).collect();
    Ok(Evidence { format: model::FORMAT, policy, cpus, no_trace, missing_events, lost_events })
}

fn read_failed(error: &TraceError) -> String {
    format!("the trace could not be read: {error}")
}

fn evidence(spin: &Spin, events: &[trace::TraceEvent], own: &[i32]) -> CpuEvidence {
    // Only what fell into the spin: the instance starts before it and ends after it.
    let window = spin.from_raw_ns..=spin.to_raw_ns;
    let events: Vec<_> =
        events.iter().filter(|event| event.cpu == spin.cpu && window.contains(&event.at_ns)).cloned().collect();
    let visitors = visitors(&events, own, spin.spun_ns, visitors::look_up);
    let longest_held_by = spin.longest.map(|gap| visitors::within(&events, own, gap)).unwrap_or_default();
    CpuEvidence {
        cpu: spin.cpu,
        spun_ns: spin.spun_ns,
        stolen_ns: spin.stolen_ns,
        gaps: spin.gaps,
        longest_ns: spin.longest.map_or(0, |gap| gap.ns),
        longest_held_by,
        visitors,
    }
}

impl Evidence {
    /// What contradicts a shield of these CPUs.
    pub fn leaks(&self, spec: &ShieldSpec) -> Vec<Leak> {
        self.cpus.iter().flat_map(|cpu| leaks(cpu, spec)).collect()
    }
}
