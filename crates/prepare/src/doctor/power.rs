//! How fast a CPU runs, and how long it takes to wake.

use super::check::{Answer, Check, checks, found_or, note, ok, warning};
use super::subject::{Skip, Subject};
use host::facts::boot_value;
use model::CpuList;
use std::collections::BTreeMap;

pub(super) const CHECKS: &[Check] = checks![
    "cpu.freq" by Once(frequency),
        reads "cpufreq/scaling_governor, scaling_min_freq, scaling_max_freq",
        when "the governor is not 'performance'",
        why "a CPU that waits for messages looks idle and is clocked down",
        on [Papers, Tuned];
    "cpu.epp" by Once(energy_preference),
        reads "cpufreq/energy_performance_preference, power/energy_perf_bias",
        when "it prefers to save energy",
        why "the hardware chooses its clock by this hint",
        on [Tuned];
    "cpu.turbo" by Once(turbo),
        reads "intel_pstate/no_turbo, cpufreq/boost",
        when "always recorded",
        why "with boost the clock depends on temperature and on the other cores: fix it either way and say so",
        on [Tuned, Practice];
    "cpu.cstate" by Once(idle_states),
        reads "cpuidle/state*/{name,latency,disable,usage}, /dev/cpu_dma_latency, pm_qos_resume_latency_us",
        when "idle states with an exit latency over 10 µs are allowed",
        why "a CPU in a deep idle state needs that long to begin with the interrupt that wakes it",
        on [Kernel("admin-guide/pm/cpuidle.rst"), Tuned];
    "cpu.idle-driver" by Once(idle_driver),
        reads "cpuidle/current_driver",
        when "there is none",
        why "without a driver, holding /dev/cpu_dma_latency changes nothing: the hypervisor or the firmware decides how deep to sleep",
        on [Measured("no effect of PM QoS on a guest without driver")];
];

const CPU: &str = "/sys/devices/system/cpu";

/// The values of a file of each CPU, with the CPUs that have it; the first CPU's error where none has it.
fn by_value(s: &Subject<'_>, file: &str) -> Result<BTreeMap<String, CpuList>, Skip> {
    let mut values: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut error = Skip::not_here("no CPU is online");
    for cpu in s.cpus_or_all().iter() {
        match s.text(&format!("{CPU}/cpu{cpu}/{file}")) {
            Ok(value) => values.entry(value).or_default().push(cpu),
            Err(skip) => error = skip,
        }
    }
    if values.is_empty() {
        return Err(error);
    }
    Ok(values.into_iter().map(|(value, cpus)| (value, cpus.into_iter().collect())).collect())
}

fn frequency(s: &Subject<'_>) -> Answer {
    let governors = by_value(s, "cpufreq/scaling_governor").map_err(|skip| {
        if s.is_guest() { Skip::not_here("a guest without cpufreq: the host sets the clock") } else { skip }
    })?;
    let mut found = Vec::new();
    for (governor, cpus) in &governors {
        let first = cpus.iter().next().unwrap_or(0);
        let folder = format!("{CPU}/cpu{first}/cpufreq");
        let driver = s.maybe(&format!("{folder}/scaling_driver")).unwrap_or_default();
        let text = format!("governor {governor} on CPU {cpus} ({driver})");
        let is_good = governor == "performance";
        let answer = if is_good { ok(text) } else { warning(text).tune("cpufreq.governor", "performance") };
        let mut answer = answer.read(format!("{folder}/scaling_governor"), governor);
        let limit = |which: &str| s.maybe(&format!("{folder}/scaling_{which}_freq"));
        if let (true, Some(min), Some(max)) = (is_good, limit("min"), limit("max")) {
            answer = answer.read(format!("{folder}/scaling_{{min,max}}_freq"), format!("{min} {max}"));
        }
        found.push(answer);
    }
    Ok(found)
}

fn energy_preference(s: &Subject<'_>) -> Answer {
    let mut found = Vec::new();
    let (of_driver, of_cpu) = ("cpufreq/energy_performance_preference", "power/energy_perf_bias");
    let (preference, bias) = (by_value(s, of_driver), by_value(s, of_cpu));
    if let (Err(skip), Err(_)) = (&preference, &bias) {
        return Err(skip.clone());
    }
    let is_good = |value: &str| value == "performance" || value == "0";
    let path = |cpus: &CpuList, file| format!("{CPU}/cpu{}/{file}", cpus.iter().next().unwrap_or(0));
    for (value, cpus) in preference.unwrap_or_default() {
        let text = format!("energy preference {value} on CPU {cpus}");
        let answer = if is_good(&value) { ok(text) } else { warning(text).tune("cpufreq.epp", "performance") };
        found.push(answer.read(path(&cpus, of_driver), value));
    }
    for (value, cpus) in bias.unwrap_or_default().into_iter().filter(|(value, _)| !is_good(value)) {
        let path = path(&cpus, of_cpu);
        let answer = warning(format!("energy bias {value} (0 is performance) on CPU {cpus}"));
        found.push(answer.read(path.clone(), value).command(format!("echo 0 > {path}")));
    }
    found_or(found, || ok("energy bias is performance"))
}

fn turbo(s: &Subject<'_>) -> Answer {
    let intel = format!("{CPU}/intel_pstate/no_turbo");
    let (path, value_on) = if s.machine.exists(&intel) { (intel, "0") } else { (format!("{CPU}/cpufreq/boost"), "1") };
    let value = s.text(&path)?;
    let answer = if value == value_on {
        note("boost is on: the clock depends on temperature and on the other cores").tune("cpufreq.boost", 0)
    } else {
        ok("boost is off: the clock is steady")
    };
    Ok(vec![answer.read(path, value)])
}

fn idle_states(s: &Subject<'_>) -> Answer {
    /// A state is deep when leaving it takes longer than this, in µs.
    const DEEP_US: i64 = 10;
    let line = s.command_line();
    if boot_value(line, "idle") == Some("poll") {
        return Ok(vec![ok("idle=poll: no CPU sleeps").read("/proc/cmdline", line)]);
    }
    let first = s.cpus_or_all().iter().next().unwrap_or(0);
    let folder = format!("{CPU}/cpu{first}/cpuidle");
    let states = s.names(&folder);
    if states.is_empty() {
        return Err(Skip::not_here(format!("no {folder} here: no idle driver")));
    }
    // Reading the device gives what all holders together ask for, in µs (pm_qos_interface.rst).
    let held = s.bytes("/dev/cpu_dma_latency").map(|bytes| i64::from(i32::from_ne_bytes(bytes)));
    let mut deep: BTreeMap<String, (i64, Vec<u32>, String)> = BTreeMap::new();
    for cpu in s.cpus_or_all().iter() {
        let folder = format!("{CPU}/cpu{cpu}/cpuidle");
        let own = s.maybe(&format!("{CPU}/cpu{cpu}/power/pm_qos_resume_latency_us"));
        let own = match own.as_deref() {
            Some("n/a") => Some(0),
            Some(text) => text.parse::<i64>().ok().filter(|latency| *latency > 0),
            None => None,
        };
        for state in s.names(&folder).into_iter().filter(|name| name.starts_with("state")) {
            let latency = s.number(&format!("{folder}/{state}/latency")).unwrap_or(0);
            let disabled = s.maybe(&format!("{folder}/{state}/disable")).is_some_and(|text| text != "0");
            let forbidden = [held, own].into_iter().flatten().any(|most| latency > most);
            if latency > DEEP_US && !disabled && !forbidden {
                let name = s.maybe(&format!("{folder}/{state}/name")).unwrap_or(state.clone());
                let entry = deep.entry(name).or_insert((latency, Vec::new(), format!("{folder}/{state}/latency")));
                entry.1.push(cpu);
            }
        }
    }
    let others = if deep.len() > 1 { format!(" and {} shallower ones", deep.len() - 1) } else { String::new() };
    let deepest = deep.into_iter().max_by_key(|(_, (latency, ..))| *latency);
    let Some((name, (latency, cpus, path))) = deepest else {
        return Ok(vec![ok("no idle state takes longer than 10 µs to leave")]);
    };
    let cpus: CpuList = cpus.into_iter().collect();
    Ok(vec![
        warning(format!("CPU {cpus} may sleep in {name}{others}, which takes {latency} µs to leave"))
            .read(path, latency)
            .tune("cpuidle.latency-us", 2)
            .command("windhover run --cpu-dma-latency 0 -- COMMAND"),
    ])
}

fn idle_driver(s: &Subject<'_>) -> Answer {
    let path = "/sys/devices/system/cpu/cpuidle/current_driver";
    let driver = s.text(path)?;
    let answer = if driver == "none" || driver.is_empty() {
        note("no idle driver: settings of C-states have no effect here")
    } else {
        ok(format!("idle driver {driver}"))
    };
    Ok(vec![answer.read(path, driver)])
}
