//! Proves what a shield does: a thread spins on each CPU and sees every moment that is taken from it, while the flight recorder shows
//! who took it. Visitors have the classes and names of the causes that explanations have.

mod spin;
mod visitors;

pub use spin::{Gap, Spin, SpinError, spin};
pub use visitors::{Leak, Visitor, VisitorKind, leaks, visitors};

use clock::{Clock, ClockError};
use explain::Event;
use model::{CpuList, Policy, ShieldSpec};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use trace::recorder::BEHIND_NS;
use trace::{Recorder, Subject};

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
    /// Events that were lost because a buffer was full, or that came before the last 524,288 of a CPU.
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

/// How often what was recorded is read, before it is overwritten.
const PERIOD: Duration = Duration::from_millis(20);

/// Spins on each CPU for `time` and finds what touched it; where nothing can be recorded, gaps alone. Call it from another CPU.
pub fn run(cpus: &CpuList, time: Duration, policy: Policy) -> Result<Evidence, VerifyError> {
    if cpus.is_empty() {
        return Err(VerifyError::NoCpu);
    }
    let clock = Clock::calibrate()?;
    let (mut recorder, no_trace) = match Recorder::start(&Subject::Nothing) {
        Ok(recorder) => (Some(recorder), None),
        Err(error) => (None, Some(error.to_string())),
    };
    if let Some(recorder) = &mut recorder {
        recorder.keep_only(cpus.iter().filter_map(|cpu| u16::try_from(cpu).ok()).collect());
    }
    let missing_events = recorder.iter().flat_map(Recorder::missing).map(str::to_owned).collect();
    let over = AtomicBool::new(false);
    let spins = std::thread::scope(|scope| {
        if let Some(recorder) = &mut recorder {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    std::thread::sleep(PERIOD);
                    recorder.read(0);
                }
                // What was counted is read by the next call, and an interrupt is recorded at its end.
                std::thread::sleep(Duration::from_nanos(BEHIND_NS));
                recorder.read(0);
                recorder.read(0);
            });
        }
        let spins = spin::on_each(clock, cpus, time, policy);
        over.store(true, Ordering::Release);
        spins
    })?;
    let own: Vec<i32> = spins.iter().map(|spin| spin.tid).collect();
    let seen = spins.iter().map(|spin| {
        let cpu = u16::try_from(spin.cpu).unwrap_or(u16::MAX);
        let Some(recorder) = &recorder else { return evidence(spin, &[], spin.from_ns, &own) };
        // Of a long spin on a busy CPU only the last events are kept.
        let from_ns = recorder.known_from(cpu, u64::MAX).max(spin.from_ns);
        evidence(spin, &recorder.events(cpu, from_ns, spin.to_ns, 0), from_ns, &own)
    });
    let cpus = seen.collect();
    let lost_events = recorder.as_ref().map_or(0, |recorder| recorder.lost() + recorder.crowded_out());
    Ok(Evidence { format: model::FORMAT, policy, cpus, no_trace, missing_events, lost_events })
}

fn evidence(spin: &Spin, events: &[Event], from_ns: u64, own: &[i32]) -> CpuEvidence {
    // Recording starts before the spin and ends after it.
    let window = from_ns..=spin.to_ns;
    let events: Vec<Event> = events.iter().filter(|event| window.contains(&event.at_ns)).copied().collect();
    let visitors = visitors(&events, own, spin.to_ns.saturating_sub(from_ns), visitors::look_up);
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
