//! From a setting to the knobs of this machine that it means: CPUs, memory, sysctls and services.

use super::{Key, hold, nic};
use crate::Kernel;
use host::knob::{Form, Knob, Settings as _};
use host::undo::Change;
use std::path::{Path, PathBuf};

/// What a setting means on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// These changes, those among them that change nothing included.
    Changes(Vec<Change>),
    /// Nothing, for this reason.
    Nothing(String),
}

const CPU: &str = "/sys/devices/system/cpu";

/// What a setting means. The value is one that [`Key::value`] has made.
pub(super) fn meaning(kernel: &Kernel, device: Option<&nic::Device>, key: &Key, value: &str, why: &str) -> Meaning {
    let change =
        |knob: Knob, wanted: &str| Change { knob, wanted: wanted.to_owned(), why: why.to_owned(), exact: true };
    let one = |knob: Knob| Meaning::Changes(vec![change(knob, value)]);
    match key {
        Key::Sysctl(name) => match shared(kernel, name) {
            Some(reason) => Meaning::Nothing(reason),
            None => one(Knob::sysctl(name)),
        },
        Key::Thp => one(Knob::file("/sys/kernel/mm/transparent_hugepage/enabled", Form::Choice)),
        Key::ThpDefrag => one(Knob::file("/sys/kernel/mm/transparent_hugepage/defrag", Form::Choice)),
        Key::Ksm => one(Knob::text("/sys/kernel/mm/ksm/run")),
        Key::Service(name) => service(kernel, name, value, &change),
        Key::LatencyUs => match hold::useless(kernel) {
            Some(reason) => Meaning::Nothing(reason),
            None => one(Knob::CpuLatency),
        },
        Key::Governor => listed(kernel, value, "scaling_governor", "scaling_available_governors", &change),
        Key::Epp => preference(kernel, value, &change),
        Key::MinPerfPercent => least_clock(kernel, value, &change),
        Key::Boost => boost(kernel, value, &change),
        _ => match device {
            Some(device) => nic::meaning(kernel, device, key, value, why),
            None => Meaning::Nothing("no device was named: --nic IF".to_owned()),
        },
    }
}

type Making<'a> = &'a dyn Fn(Knob, &str) -> Change;

/// Two pairs of sysctls share a place each: setting one clears the other, which could not be put back.
fn shared(kernel: &Kernel, name: &str) -> Option<String> {
    let (twin, must_be_clear) = match name {
        "vm.dirty_ratio" => ("vm.dirty_bytes", true),
        "vm.dirty_background_ratio" => ("vm.dirty_background_bytes", true),
        "vm.dirty_bytes" => ("vm.dirty_bytes", false),
        "vm.dirty_background_bytes" => ("vm.dirty_background_bytes", false),
        _ => return None,
    };
    let clear = kernel.read(&Knob::sysctl(twin)).ok()? == "0";
    (clear != must_be_clear).then(|| {
        let given = if must_be_clear { "bytes" } else { "percent" };
        format!("this machine has that limit in {given}: the other one would be cleared, and could not be put back")
    })
}

fn service(kernel: &Kernel, name: &str, value: &str, change: Making<'_>) -> Meaning {
    let unit = if name.contains('.') { name.to_owned() } else { format!("{name}.service") };
    if value == "ban-cpus" {
        let remedy = "irqbalance takes its banned CPUs at its start only: `windhover tune emit --systemd` writes that down; \
                      or use service.irqbalance=stopped";
        return Meaning::Nothing(remedy.to_owned());
    }
    if !kernel.machine().is_directory("/run/systemd/system") {
        return Meaning::Nothing(match process(kernel, name) {
            Some(pid) => format!("it runs as process {pid}, but no systemd runs here: stop it by hand"),
            None => "no systemd runs here, and no process of that name".to_owned(),
        });
    }
    let wanted = if value == "stopped" { "inactive" } else { "active" };
    Meaning::Changes(vec![change(Knob::Service { unit }, wanted)])
}

/// A process by its name, which /proc cuts after 15 bytes.
fn process(kernel: &Kernel, name: &str) -> Option<u32> {
    let name = name.get(..15).unwrap_or(name);
    let machine = kernel.machine();
    machine
        .names("/proc")
        .ok()?
        .into_iter()
        .filter_map(|pid| pid.parse().ok())
        .find(|pid: &u32| machine.text(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name))
}

/// Folders of cpufreq policies: one for the CPUs that share a clock.
fn policies(kernel: &Kernel) -> Vec<PathBuf> {
    let numbered = |folder: &str, prefix: &str| {
        let names = kernel.machine().names(folder).unwrap_or_default();
        let mut found: Vec<u32> = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        found.sort_unstable();
        found
    };
    let base = Path::new(CPU);
    let policies = numbered(&format!("{CPU}/cpufreq"), "policy");
    if !policies.is_empty() {
        return policies.iter().map(|number| base.join(format!("cpufreq/policy{number}"))).collect();
    }
    let folders = numbered(CPU, "cpu").into_iter().map(|number| base.join(format!("cpu{number}/cpufreq")));
    folders.filter(|folder| kernel.machine().is_directory(folder)).collect()
}

fn text(kernel: &Kernel, path: &Path) -> Option<String> {
    kernel.machine().text(path).ok().map(|text| text.trim().to_owned())
}

const NO_CPUFREQ: &str = "no cpufreq driver: the firmware or a hypervisor has the CPUs' clocks";

/// A word for each policy, one of those that it lists.
fn listed(kernel: &Kernel, value: &str, file: &str, list: &str, change: Making<'_>) -> Meaning {
    let policies = policies(kernel);
    if policies.is_empty() {
        return Meaning::Nothing(NO_CPUFREQ.to_owned());
    }
    for policy in &policies {
        if let Some(offered) = text(kernel, &policy.join(list))
            && !offered.split_ascii_whitespace().any(|word| word == value)
        {
            return Meaning::Nothing(format!("the driver offers only: {offered}"));
        }
    }
    Meaning::Changes(policies.iter().map(|policy| change(Knob::text(policy.join(file)), value)).collect())
}

/// The preference of each policy, or the older bias of each CPU.
fn preference(kernel: &Kernel, value: &str, change: Making<'_>) -> Meaning {
    let file = "energy_performance_preference";
    if policies(kernel).iter().any(|policy| kernel.machine().exists(policy.join(file))) {
        return listed(kernel, value, file, "energy_performance_available_preferences", change);
    }
    // As the kernel's own words for it (arch/x86/kernel/cpu/intel_epb.c).
    let bias = match value {
        "performance" => "0",
        "balance_performance" | "balance-performance" => "4",
        "normal" | "default" => "6",
        "balance_power" | "balance-power" => "8",
        "power" => "15",
        number => number,
    };
    let names = kernel.machine().names(CPU).unwrap_or_default();
    let mut cpus: Vec<u32> = names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).collect();
    cpus.sort_unstable();
    let files = cpus.into_iter().map(|cpu| Path::new(CPU).join(format!("cpu{cpu}/power/energy_perf_bias")));
    let changes: Vec<Change> =
        files.filter(|file| kernel.machine().exists(file)).map(|file| change(Knob::text(file), bias)).collect();
    if changes.is_empty() {
        return Meaning::Nothing("the CPUs take no such preference here".to_owned());
    }
    Meaning::Changes(changes)
}

fn least_clock(kernel: &Kernel, value: &str, change: Making<'_>) -> Meaning {
    let pstate = Path::new(CPU).join("intel_pstate/min_perf_pct");
    if kernel.machine().exists(&pstate) {
        // The driver raises it to what the CPU can do at least.
        return Meaning::Changes(vec![Change { exact: false, ..change(Knob::text(pstate), value) }]);
    }
    let percent: u64 = value.parse().unwrap_or(100);
    let changes: Vec<Change> = policies(kernel)
        .iter()
        .filter_map(|policy| {
            let number = |file: &str| text(kernel, &policy.join(file))?.parse::<u64>().ok();
            let (least, most) = (number("cpuinfo_min_freq")?, number("cpuinfo_max_freq")?);
            let wanted = (most * percent / 100).clamp(least, most).to_string();
            Some(Change { exact: false, ..change(Knob::text(policy.join("scaling_min_freq")), &wanted) })
        })
        .collect();
    if changes.is_empty() { Meaning::Nothing(NO_CPUFREQ.to_owned()) } else { Meaning::Changes(changes) }
}

fn boost(kernel: &Kernel, value: &str, change: Making<'_>) -> Meaning {
    let on = value == "on";
    let base = Path::new(CPU);
    // The one is true where the other is false.
    for (file, wanted) in [("intel_pstate/no_turbo", !on), ("cpufreq/boost", on)] {
        if kernel.machine().exists(base.join(file)) {
            let knob = Knob::file(base.join(file), Form::Switch);
            return Meaning::Changes(vec![change(knob, if wanted { "1" } else { "0" })]);
        }
    }
    Meaning::Nothing("no switch for it: the driver, the firmware or a hypervisor decides".to_owned())
}
