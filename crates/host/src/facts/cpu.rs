//! /proc/cpuinfo.

/// What is taken from /proc/cpuinfo.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuInfo {
    /// Model name of the first CPU.
    pub model: Option<String>,
    /// Whether the time stamp counter ticks at one rate in all states (constant_tsc and nonstop_tsc); absent where the
    /// CPU has no flags of this kind.
    pub tsc_invariant: Option<bool>,
    /// Whether the CPU says that it runs under a hypervisor; absent where it cannot say.
    pub hypervisor: Option<bool>,
}

/// Reads the text of /proc/cpuinfo. x86 has `model name` and `flags`; ARM often has neither.
#[must_use]
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
