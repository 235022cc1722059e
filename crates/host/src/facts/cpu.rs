//! /proc/cpuinfo, and the CPUs' idle states.

use super::read;
use crate::knob::Machine;
use model::CpuList;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuInfo {
    pub model: Option<String>,
    /// Whether the TSC ticks at one rate in all states (constant_tsc, nonstop_tsc); absent where there are no such flags.
    pub tsc_invariant: Option<bool>,
    /// The CPU's hypervisor flag; absent where it has no flags.
    pub hypervisor: Option<bool>,
}

/// Reads the text of /proc/cpuinfo. x86 has `model name` and `flags`; ARM often has neither.
pub fn parse_cpuinfo(text: &str) -> CpuInfo {
    let mut info = CpuInfo::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match name.trim() {
            "model name" | "Model" | "cpu model" | "cpu" if info.model.is_none() && !value.is_empty() => {
                info.model = Some(value.to_owned());
            }
            "flags" if info.hypervisor.is_none() => {
                let has = |flag: &str| value.split_ascii_whitespace().any(|word| word == flag);
                info.tsc_invariant = Some(has("constant_tsc") && has("nonstop_tsc"));
                info.hypervisor = Some(has("hypervisor"));
            }
            _ => {}
        }
    }
    info
}

/// The idle states of CPU 0, each with the time to leave it and the CPUs that may not use it.
pub(crate) fn idle_states(machine: &Machine) -> Vec<String> {
    const FOLDER: &str = "/sys/devices/system/cpu";
    let cpus = machine.numbers(FOLDER, "cpu");
    let state = |number: u32| {
        let of = |cpu: u32, file: &str| read(machine, &format!("{FOLDER}/cpu{cpu}/cpuidle/state{number}/{file}"));
        let off: CpuList = cpus.iter().copied().filter(|cpu| of(*cpu, "disable").as_deref() == Some("1")).collect();
        let latency = of(0, "latency").map(|us| format!(" {us} µs")).unwrap_or_default();
        let off = match off.len() {
            0 => String::new(),
            all if all == cpus.len() => " off".to_owned(),
            _ => format!(" off on CPU {off}"),
        };
        Some(format!("{}{latency}{off}", of(0, "name")?))
    };
    machine.numbers(format!("{FOLDER}/cpu0/cpuidle"), "state").into_iter().filter_map(state).collect()
}
