//! From a setting to the knobs of this machine that it means: CPUs, memory, sysctls and services.

use super::{Key, hold, nic};
use crate::Kernel;
use host::knob::{Form, Knob, Settings as _};
use host::undo::Change;
use std::path::{Path, PathBuf};

/// The changes that a setting means on this machine, those among them that change nothing included; or why there are none.
pub(super) type Meaning = Result<Vec<Change>, String>;

const CPU: &str = "/sys/devices/system/cpu";

pub(super) struct SettingRequest<'a> {
    pub(super) kernel: &'a Kernel,
    /// One that [`Key::value`] has made.
    pub(super) value: &'a str,
    pub(super) why: &'a str,
}

impl SettingRequest<'_> {
    fn change(&self, knob: Knob, wanted: &str) -> Change {
        Change::new(knob, wanted, self.why)
    }

    pub(super) fn one(&self, knob: Knob) -> Meaning {
        Ok(vec![self.change(knob, self.value)])
    }
}

pub(super) fn meaning(asked: &SettingRequest<'_>, device: Option<&nic::Device>, key: &Key) -> Meaning {
    match key {
        Key::Sysctl(name) => shared(asked.kernel, name).map_or_else(|| asked.one(Knob::sysctl(name)), Err),
        Key::Service(name) => service(asked, name),
        Key::Machine(setting) => (setting.row().means)(asked),
        Key::Ethtool(..) | Key::Napi(_) | Key::Queues(_) => match device {
            Some(device) => nic::meaning(asked, device, key),
            None => Err("no device was named: --nic IF".to_owned()),
        },
    }
}

pub(super) fn preempt(asked: &SettingRequest<'_>) -> Meaning {
    match crate::boot::preempt(asked.kernel, asked.value) {
        Ok(_) => asked.one(Knob::file(crate::boot::PREEMPT, Form::Choice)),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn latency(asked: &SettingRequest<'_>) -> Meaning {
    hold::useless(asked.kernel).map_or_else(|| asked.one(Knob::CpuLatency), Err)
}

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

fn service(asked: &SettingRequest<'_>, name: &str) -> Meaning {
    let (kernel, value) = (asked.kernel, asked.value);
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
    Ok(vec![asked.change(Knob::Service { unit }, wanted)])
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
pub(super) fn listed(asked: &SettingRequest<'_>, file: &str, list: &str) -> Meaning {
    let (kernel, value) = (asked.kernel, asked.value);
    let policies = policies(kernel);
    for policy in &policies {
        if let Ok(offered) = kernel.machine().trimmed(policy.join(list))
            && !offered.split_ascii_whitespace().any(|word| word == value)
        {
            return Err(format!("the driver offers only: {offered}"));
        }
    }
    let changes = policies.iter().map(|policy| asked.change(Knob::text(policy.join(file)), value));
    some(changes.collect(), NO_CPUFREQ)
}

/// The preference of each policy, or the older bias of each CPU.
pub(super) fn preference(asked: &SettingRequest<'_>) -> Meaning {
    let (kernel, value) = (asked.kernel, asked.value);
    let file = "energy_performance_preference";
    if policies(kernel).iter().any(|policy| kernel.machine().exists(policy.join(file))) {
        return listed(asked, file, "energy_performance_available_preferences");
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
        files.filter(|file| kernel.machine().exists(file)).map(|file| asked.change(Knob::text(file), bias)).collect();
    some(changes, "the CPUs take no such preference here")
}

fn some(changes: Vec<Change>, otherwise: &str) -> Meaning {
    if changes.is_empty() { Err(otherwise.to_owned()) } else { Ok(changes) }
}

pub(super) fn least_clock(asked: &SettingRequest<'_>) -> Meaning {
    let (kernel, value) = (asked.kernel, asked.value);
    let pstate = Path::new(CPU).join("intel_pstate/min_perf_pct");
    if kernel.machine().exists(&pstate) {
        // The driver raises it to what the CPU can do at least.
        return Ok(vec![Change { exact: false, ..asked.change(Knob::text(pstate), value) }]);
    }
    let percent: u64 = value.parse().unwrap_or(100);
    let changes: Vec<Change> = policies(kernel)
        .iter()
        .filter_map(|policy| {
            let number = |file: &str| kernel.machine().trimmed(policy.join(file)).ok()?.parse::<u64>().ok();
            let (least, most) = (number("cpuinfo_min_freq")?, number("cpuinfo_max_freq")?);
            let wanted = (most * percent / 100).clamp(least, most).to_string();
            Some(Change { exact: false, ..asked.change(Knob::text(policy.join("scaling_min_freq")), &wanted) })
        })
        .collect();
    some(changes, NO_CPUFREQ)
}

pub(super) fn boost(asked: &SettingRequest<'_>) -> Meaning {
    let (kernel, value) = (asked.kernel, asked.value);
    let on = value == "on";
    let base = Path::new(CPU);
    // The one is true where the other is false.
    for (file, wanted) in [("intel_pstate/no_turbo", !on), ("cpufreq/boost", on)] {
        if kernel.machine().exists(base.join(file)) {
            let knob = Knob::file(base.join(file), Form::Switch);
            return Ok(vec![asked.change(knob, if wanted { "1" } else { "0" })]);
        }
    }
    Err("no switch for it: the driver, the firmware or a hypervisor decides".to_owned())
}
