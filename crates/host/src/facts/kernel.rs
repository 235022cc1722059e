//! The operating system's name and the kernel's preemption model.

use super::read;
use crate::knob::Machine;
use model::CpuList;
use model::facts::is_preempt_rt;
use std::collections::BTreeMap;
use std::io::Read as _;

/// PRETTY_NAME from the text of os-release(5), else NAME.
pub fn parse_os_release(text: &str) -> Option<String> {
    let value = |wanted: &str| {
        text.lines().find_map(|line| {
            let value = line.trim().strip_prefix(wanted)?.strip_prefix('=')?.trim();
            let bare = ['"', '\''].iter().find_map(|&quote| value.strip_prefix(quote)?.strip_suffix(quote));
            Some(bare.unwrap_or(value).replace("\\\"", "\"")).filter(|value| !value.is_empty())
        })
    };
    value("PRETTY_NAME").or_else(|| value("NAME"))
}

pub fn parse_config_hz(config: &str) -> Option<u32> {
    config.lines().find_map(|line| line.trim().strip_prefix("CONFIG_HZ=")?.parse().ok())
}

/// The value of a word of the kernel's command line; the last one counts.
pub fn boot_value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().filter_map(|word| word.strip_prefix(name)?.strip_prefix('=')).next_back()
}

/// Where distributions keep the configuration of a kernel; `*` is its release.
const CONFIGS: [&str; 4] =
    ["/boot/config-*", "/lib/modules/*/config", "/usr/lib/modules/*/config", "/lib/modules/*/build/.config"];

pub(crate) fn config(machine: &Machine) -> Option<String> {
    let release = read(machine, "/proc/sys/kernel/osrelease").filter(|release| !release.contains('/'))?;
    let packed = || {
        let mut text = String::new();
        let file = std::fs::File::open(machine.path("/proc/config.gz".as_ref())).ok()?;
        // A configuration has some 300 KB.
        flate2::read::GzDecoder::new(file).take(16 << 20).read_to_string(&mut text).ok()?;
        Some(text)
    };
    CONFIGS.iter().find_map(|path| read(machine, &path.replace('*', &release))).or_else(packed)
}

/// Whether interrupts are handled in threads; `None` where that is not known.
pub(crate) fn threadirqs(preemption: Option<&str>, command_line: Option<&str>) -> Option<bool> {
    let asked = || Some(command_line?.split_ascii_whitespace().any(|word| word == "threadirqs"));
    if is_preempt_rt(preemption) { Some(true) } else { asked() }
}

/// What the fair server may take on each CPU, in ns, with the CPUs where these differ.
pub(crate) fn fair_server(machine: &Machine) -> Option<String> {
    const FOLDER: &str = "/sys/kernel/debug/sched/fair_server";
    let mut by_runtime: BTreeMap<u64, CpuList> = BTreeMap::new();
    for cpu in machine.numbers(FOLDER, "cpu") {
        if let Some(ns) = read(machine, &format!("{FOLDER}/cpu{cpu}/runtime")).and_then(|text| text.parse().ok()) {
            let cpus = by_runtime.entry(ns).or_default();
            *cpus = cpus.union(&[cpu].into_iter().collect());
        }
    }
    let words = |(ns, cpus): (&u64, &CpuList)| format!("{ns} on CPU {cpus}");
    match by_runtime.len() {
        0 => None,
        1 => by_runtime.keys().next().map(u64::to_string),
        _ => Some(by_runtime.iter().rev().map(words).collect::<Vec<_>>().join(", ")),
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct PreemptionEvidence<'a> {
    /// uname version (`#1 SMP PREEMPT_DYNAMIC Debian …`).
    pub version: &'a str,
    /// Whether /sys/kernel/realtime is 1.
    pub real_time: bool,
    /// /sys/kernel/debug/sched/preempt (`none voluntary (full)`).
    pub dynamic: Option<&'a str>,
    pub command_line: Option<&'a str>,
    pub config: Option<&'a str>,
}

/// Names the preemption model: `PREEMPT_RT`, `PREEMPT_RT (lazy)`, `PREEMPT_DYNAMIC (full)`, `PREEMPT`, `PREEMPT_VOLUNTARY` or `none`.
///
/// The version names what was compiled in. A dynamic kernel's mode comes from debugfs, else from the command line, else
/// from the configuration's default, else it is left out. A version that names nothing is voluntary or none, which only
/// the configuration tells apart.
pub fn preemption(evidence: &PreemptionEvidence<'_>) -> String {
    let configured = |option: &str| {
        evidence.config.is_some_and(|config| config.lines().any(|line| line.trim() == format!("{option}=y")))
    };
    let version = evidence.version;
    let active = |text: &str| Some(text.split_once('(')?.1.split_once(')')?.0.to_owned());
    // The patches before the merge wrote "PREEMPT RT", RedHawk and RHEL's RT kernels write as the mainline does.
    if evidence.real_time || version.contains("PREEMPT_RT") || version.contains("PREEMPT RT") {
        // Since 6.12 its models are full and lazy. Before, the file is not there, and `preempt=` has no meaning.
        return evidence
            .dynamic
            .and_then(active)
            .map_or_else(|| "PREEMPT_RT".to_owned(), |mode| format!("PREEMPT_RT ({mode})"));
    }
    if version.contains("PREEMPT_DYNAMIC") {
        let booted = |line: &str| boot_value(line, "preempt").map(str::to_owned);
        let default = [
            ("CONFIG_PREEMPT_NONE", "none"),
            ("CONFIG_PREEMPT_VOLUNTARY", "voluntary"),
            ("CONFIG_PREEMPT_LAZY", "lazy"),
            ("CONFIG_PREEMPT", "full"),
        ];
        let mode =
            evidence.dynamic.and_then(active).or_else(|| evidence.command_line.and_then(booted)).or_else(|| {
                default.into_iter().find(|(option, _)| configured(option)).map(|(_, mode)| mode.to_owned())
            });
        return mode.map_or_else(|| "PREEMPT_DYNAMIC".to_owned(), |mode| format!("PREEMPT_DYNAMIC ({mode})"));
    }
    if version.split_ascii_whitespace().any(|word| word == "PREEMPT") {
        return "PREEMPT".to_owned();
    }
    if version.contains("PREEMPT_LAZY") || configured("CONFIG_PREEMPT_LAZY") {
        return "PREEMPT_LAZY".to_owned();
    }
    match evidence.config {
        Some(_) if configured("CONFIG_PREEMPT_VOLUNTARY") => "PREEMPT_VOLUNTARY".to_owned(),
        Some(_) => "none".to_owned(),
        None => "none or PREEMPT_VOLUNTARY".to_owned(),
    }
}

pub(crate) fn architecture(machine: &Machine) -> Option<String> {
    // The file came with Linux 6.1.
    read(machine, "/proc/sys/kernel/arch").or_else(|| {
        let uname = machine.is_running().then(nix::sys::utsname::uname)?.ok()?;
        Some(uname.machine().to_string_lossy().into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_the_kernels_of_the_papers_and_of_today_are() {
        let of = |version: &str| preemption(&PreemptionEvidence { version, ..Default::default() });
        assert_eq!(of("#1 SMP PREEMPT_RT Debian 6.1.119-1 (2024-11-22)"), "PREEMPT_RT");
        assert_eq!(of("#1 SMP PREEMPT RT Thu Jan 5 2012"), "PREEMPT_RT");
        assert_eq!(of("#1 SMP PREEMPT Tue Mar 6 2012"), "PREEMPT");
        assert_eq!(of("#1 SMP PREEMPT_DYNAMIC Debian 6.1.119-1"), "PREEMPT_DYNAMIC");
        assert_eq!(of("#1 SMP Fri Nov 22 2011"), "none or PREEMPT_VOLUNTARY");
    }

    #[test]
    fn a_dynamic_mode_is_what_runs_not_what_was_asked_for() {
        let evidence = PreemptionEvidence {
            version: "#1 SMP PREEMPT_DYNAMIC",
            dynamic: Some("none voluntary (full)"),
            command_line: Some("quiet preempt=none"),
            config: Some("CONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_PREEMPT_DYNAMIC=y"),
            ..Default::default()
        };
        assert_eq!(preemption(&evidence), "PREEMPT_DYNAMIC (full)");
        let unseen = PreemptionEvidence { dynamic: None, ..evidence };
        assert_eq!(preemption(&unseen), "PREEMPT_DYNAMIC (none)");
        let plain = PreemptionEvidence { command_line: Some("quiet"), ..unseen };
        assert_eq!(preemption(&plain), "PREEMPT_DYNAMIC (voluntary)");
    }

    /// Catches: of the models that a real-time kernel has since 6.12, which the axis `kernel = "preempt:lazy"` switches, the
    /// record had none.
    #[test]
    fn a_real_time_kernel_has_models_too() {
        let of = |dynamic| {
            let version = "#1 SMP PREEMPT_RT Debian 6.12.95-1~bpo12+1 (2026-07-19)";
            let command_line = Some("quiet preempt=full");
            preemption(&PreemptionEvidence { version, dynamic, command_line, ..Default::default() })
        };
        assert_eq!(of(Some("full (lazy) laziest")), "PREEMPT_RT (lazy)");
        assert_eq!(of(Some("(full) lazy laziest")), "PREEMPT_RT (full)");
        // 6.1
        assert_eq!(of(None), "PREEMPT_RT");
        let kernel = of(Some("full (lazy) laziest"));
        assert_eq!(threadirqs(Some(&kernel), Some("quiet")), Some(true));
    }

    #[test]
    fn only_the_configuration_tells_voluntary_from_none() {
        let of = |config| {
            preemption(&PreemptionEvidence { version: "#1 SMP x", config: Some(config), ..Default::default() })
        };
        assert_eq!(of("CONFIG_PREEMPT_VOLUNTARY=y"), "PREEMPT_VOLUNTARY");
        assert_eq!(of("# CONFIG_PREEMPT_VOLUNTARY is not set\nCONFIG_PREEMPT_NONE=y"), "none");
    }

    #[test]
    fn os_release_quotes() {
        assert_eq!(parse_os_release("NAME=x\nPRETTY_NAME=\"Debian 12\"\n").as_deref(), Some("Debian 12"));
        assert_eq!(parse_os_release("NAME='RedHawk Linux'").as_deref(), Some("RedHawk Linux"));
        assert_eq!(parse_os_release("ID=x"), None);
        assert_eq!(parse_config_hz("# CONFIG_HZ_100 is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n"), Some(250));
    }
}
