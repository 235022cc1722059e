//! What differs between systems: the clock, priorities, CPUs, and what a person may ask about the machine.

#[cfg(windows)]
mod completion;
#[cfg(not(windows))]
mod portable;
#[cfg(windows)]
mod windows;

#[cfg(not(windows))]
use portable as system;
#[cfg(windows)]
use windows as system;

use crate::doctor::Reader;
use model::TickRate;
use std::io;
use std::net::Ipv4Addr;

/// A request that the system refused or does not know.
#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    #[error("{0} is for Windows: leave it out on this system")]
    OnlyWindows(&'static str),
    #[error("CPU {0} cannot be named by an affinity mask: use 0 to 63, in the first processor group")]
    NoSuchCpu(u32),
    #[error("{call}: {cause}: {remedy}")]
    Call { call: &'static str, cause: io::Error, remedy: &'static str },
}

/// The priority class of the process (SetPriorityClass).
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PriorityClass {
    /// NORMAL_PRIORITY_CLASS.
    Normal,
    /// HIGH_PRIORITY_CLASS.
    High,
    /// REALTIME_PRIORITY_CLASS, which needs the privilege to increase priorities.
    Realtime,
}

/// Where and how the measuring thread runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// Priority class of the process; absent: as it was started.
    pub class: Option<PriorityClass>,
    /// The one CPU of the thread, 0 to 63 of the first processor group.
    pub cpu: Option<u32>,
    /// The task of the Multimedia Class Scheduler Service that the thread joins, such as `Pro Audio`.
    pub mmcss: Option<String>,
}

/// What is known of the system, for the record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemFacts {
    /// Its name and version, for people.
    pub os: String,
    /// Version number of the Windows interfaces.
    pub release: Option<String>,
    /// Version of Wine, where that is what runs this program.
    pub wine: Option<String>,
    pub hostname: Option<String>,
}

/// A clock for short times, in ticks: QueryPerformanceCounter on Windows.
#[inline]
pub fn ticks() -> u64 {
    system::ticks()
}

pub fn tick_rate() -> TickRate {
    match system::ticks_per_second() {
        1_000_000_000 => TickRate::NANOSECONDS,
        hz => TickRate::from_hz(hz as f64),
    }
}

#[cfg(windows)]
pub(crate) use completion::Completion;
#[cfg(not(windows))]
pub(crate) use portable::Completion;

/// The clock's name.
pub const CLOCK: &str = system::CLOCK;

/// Places the process and the calling thread. Errors: [`PlatformError`] for the first wish that is not granted.
pub fn place(placement: &Placement) -> Result<(), PlatformError> {
    if let Some(class) = placement.class {
        system::set_priority_class(class)?;
    }
    if let Some(cpu) = placement.cpu {
        system::pin(cpu)?;
    }
    placement.mmcss.as_deref().map_or(Ok(()), system::join_mmcss)
}

/// The MTU in bytes of the interface that has this address, where the system tells it.
pub fn mtu(address: Ipv4Addr) -> Option<u32> {
    system::mtu(address).filter(|mtu| *mtu > 0)
}

pub fn facts() -> SystemFacts {
    system::facts()
}

/// What the doctor reads with; absent on a system without a registry.
pub fn reader() -> Option<Reader> {
    system::reader()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_as_long_as_the_rate_says() {
        // A rate in the wrong unit, or a clock that stands still.
        let (began, first) = (std::time::Instant::now(), ticks());
        std::thread::sleep(std::time::Duration::from_millis(50));
        let inner_ns = tick_rate().ns(ticks() - first);
        let outer_ns = u64::try_from(began.elapsed().as_nanos()).unwrap();
        assert!((50_000_000..=outer_ns).contains(&inner_ns), "{inner_ns} of {outer_ns}");
    }
}
