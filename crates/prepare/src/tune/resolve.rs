//! From a setting to the knobs of this machine that it means: CPUs, memory, sysctls and services.

use super::{Key, hold, nic};
use crate::Kernel;
use host::knob::{Form, Knob, Settings as _};
use host::undo::Change;
use std::path::{Path, PathBuf};

/// The changes that a setting means on this machine, those among them that change nothing included; or why there are none.
pub(super) type Meaning = Result<Vec<Change>, String>;

const CPU: &str = "/sys/devices/system/cpu";

/// What a setting means. The value is one that [`Key::value`] has made.
pub(super) fn meaning(kernel: &Kernel, device: Option<&nic::Device>, key: &Key, value: &str, why: &str) -> Meaning {
    let change = |knob: Knob, wanted: &str| Change::new(knob, wanted, why);
    let one = |knob: Knob| Ok(vec![change(knob, value)]);
    match key {
        Key::Sysctl(name) => shared(kernel, name).map_or_else(|| one(Knob::sysctl(name)), Err),
        Key::Thp => one(Knob::file("/sys/kernel/mm/transparent_hugepage/enabled", Form::Choice)),
        Key::ThpDefrag => one(Knob::file("/sys/kernel/mm/transparent_hugepage/defrag", Form::Choice)),
        Key::Preempt => match crate::boot::preempt(kernel, value) {
            Ok(_) => one(Knob::file(crate::boot::PREEMPT, Form::Choice)),
            Err(error) => Err(error.to_string()),
        },
        Key::Ksm => one(Knob::text("/sys/kernel/mm/ksm/run")),
        Key::Service(name) => service(kernel, name, value, &change),
        Key::LatencyUs => hold::useless(kernel).map_or_else(|| one(Knob::CpuLatency), Err),
        Key::Governor => listed(kernel, value, "scaling_governor", "scaling_available_governors", &change),
        Key::Epp => preference(kernel, value, &change),
        Key::MinPerfPercent => least_clock(kernel, value, &change),
        Key::Boost => boost(kernel, value, &change),
        _ => match device {
            Some(device) => nic::meaning(kernel, device, key, value, why),
            None => Err("no device was named: --nic IF".to_owned()),
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
        return Err(remedy.to_owned());
    }
    if !kernel.machine().is_directory("/run/systemd/system") {
        // The kernel cuts names after 15 bytes.
        let cut = name.get(..15).unwrap_or(name);
        let process = host::tasks::processes(kernel.machine()).find(|(_, comm)| comm == cut);
        return Err(match process {
            Some((pid, _)) => format!("it runs as process {pid}, but no systemd runs here: stop it by hand"),
            None => "no systemd runs here, and no process of that name".to_owned(),
        });
    }
    let wanted = if value == "stopped" { "inactive" } else { "active" };
    Ok(vec![change(Knob::Service { unit }, wanted)])
}

/// Folders of cpufreq policies: one for the CPUs that share a clock.
fn policies(kernel: &Kernel) -> Vec<PathBuf> {
    let (base, machine) = (Path::new(CPU), kernel.machine());
    let policies = machine.numbers(base.join("cpufreq"), "policy");
    if !policies.is_empty() {
        return policies.iter().map(|number| base.join(format!("cpufreq/policy{number}"))).collect();
    }
    let folders = machine.numbers(base, "cpu").into_iter().map(|number| base.join(format!("cpu{number}/cpufreq")));
    folders.filter(|folder| machine.is_directory(folder)).collect()
}

const NO_CPUFREQ: &str = "no cpufreq driver: the firmware or a hypervisor has the CPUs' clocks";

/// A word for each policy, one of those that it lists.
fn listed(kernel: &Kernel, value: &str, file: &str, list: &str, change: Making<'_>) -> Meaning {
    let policies = policies(kernel);
    for policy in &policies {
        if let Ok(offered) = kernel.machine().trimmed(policy.join(list))
            && !offered.split_ascii_whitespace().any(|word| word == value)
        {
            return Err(format!("the driver offers only: {offered}"));
        }
    }
    let changes = policies.iter().map(|policy| change(Knob::text(policy.join(file)), value));
    some(changes.collect(), NO_CPUFREQ)
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
    let cpus = kernel.machine().numbers(CPU, "cpu").into_iter();
    let files = cpus.map(|cpu| Path::new(CPU).join(format!("cpu{cpu}/power/energy_perf_bias")));
    let changes: Vec<Change> =
        files.filter(|file| kernel.machine().exists(file)).map(|file| change(Knob::text(file), bias)).collect();
    some(changes, "the CPUs take no such preference here")
}

/// The changes, or why there are none.
fn some(changes: Vec<Change>, otherwise: &str) -> Meaning {
    if changes.is_empty() { Err(otherwise.to_owned()) } else { Ok(changes) }
}

fn least_clock(kernel: &Kernel, value: &str, change: Making<'_>) -> Meaning {
    let pstate = Path::new(CPU).join("intel_pstate/min_perf_pct");
    if kernel.machine().exists(&pstate) {
        // The driver raises it to what the CPU can do at least.
        return Ok(vec![Change { exact: false, ..change(Knob::text(pstate), value) }]);
    }
    let percent: u64 = value.parse().unwrap_or(100);
    let changes: Vec<Change> = policies(kernel)
        .iter()
        .filter_map(|policy| {
            let number = |file: &str| kernel.machine().trimmed(policy.join(file)).ok()?.parse::<u64>().ok();
            let (least, most) = (number("cpuinfo_min_freq")?, number("cpuinfo_max_freq")?);
            let wanted = (most * percent / 100).clamp(least, most).to_string();
            Some(Change { exact: false, ..change(Knob::text(policy.join("scaling_min_freq")), &wanted) })
        })
        .collect();
    some(changes, NO_CPUFREQ)
}

fn boost(kernel: &Kernel, value: &str, change: Making<'_>) -> Meaning {
    let on = value == "on";
    let base = Path::new(CPU);
    // The one is true where the other is false.
    for (file, wanted) in [("intel_pstate/no_turbo", !on), ("cpufreq/boost", on)] {
        if kernel.machine().exists(base.join(file)) {
            let knob = Knob::file(base.join(file), Form::Switch);
            return Ok(vec![change(knob, if wanted { "1" } else { "0" })]);
        }
    }
    Err("no switch for it: the driver, the firmware or a hypervisor decides".to_owned())
}
