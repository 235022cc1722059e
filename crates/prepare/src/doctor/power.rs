//! How fast a CPU runs, and how long it takes to wake.

use super::check::{Answer, Check, Evidence, note, ok, warning};
use super::parse;
use super::subject::{Skip, Subject};
use model::CpuList;
use std::collections::BTreeMap;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "cpu.freq",
        reads: "cpufreq/scaling_governor, scaling_min_freq, scaling_max_freq",
        when: "the governor is not 'performance'",
        why: "a CPU that waits for messages looks idle and is clocked down",
        evidence: &[Evidence::Papers, Evidence::Tuned],
        make: frequency,
    },
    Check {
        id: "cpu.epp",
        reads: "cpufreq/energy_performance_preference, power/energy_perf_bias",
        when: "it prefers to save energy",
        why: "the hardware chooses its clock by this hint",
        evidence: &[Evidence::Tuned],
        make: energy_preference,
    },
    Check {
        id: "cpu.turbo",
        reads: "intel_pstate/no_turbo, cpufreq/boost",
        when: "always recorded",
        why: "with boost the clock depends on temperature and on the other cores: fix it either way and say so",
        evidence: &[Evidence::Tuned, Evidence::Practice],
        make: turbo,
    },
    Check {
        id: "cpu.cstate",
        reads: "cpuidle/state*/{name,latency,disable,usage}, /dev/cpu_dma_latency, pm_qos_resume_latency_us",
        when: "idle states with an exit latency over 10 µs are allowed",
        why: "a CPU in a deep idle state needs that long to begin with the interrupt that wakes it",
        evidence: &[Evidence::Kernel("admin-guide/pm/cpuidle.rst"), Evidence::Tuned],
        make: idle_states,
    },
    Check {
        id: "cpu.idle-driver",
        reads: "cpuidle/current_driver",
        when: "there is none",
        why: "without a driver, holding /dev/cpu_dma_latency changes nothing: the hypervisor or the firmware decides how deep to sleep",
        evidence: &[Evidence::Measured("no effect of PM QoS on a guest without driver")],
        make: idle_driver,
    },
];

/// The values of a file of each CPU, with the CPUs that have it; the first CPU's error where none has it.
fn by_value(s: &Subject<'_>, file: &str) -> Result<BTreeMap<String, CpuList>, Skip> {
    let mut values: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut error = Skip::not_here("no CPU is online");
    for cpu in s.cpus_or_all().iter() {
        match s.text(&format!("/sys/devices/system/cpu/cpu{cpu}/{file}")) {
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
        let folder = format!("/sys/devices/system/cpu/cpu{first}/cpufreq");
        let driver = s.maybe(&format!("{folder}/scaling_driver")).unwrap_or_default();
        let path = format!("{folder}/scaling_governor");
        if governor == "performance" {
            let (min, max) =
                (s.maybe(&format!("{folder}/scaling_min_freq")), s.maybe(&format!("{folder}/scaling_max_freq")));
            let mut answer = ok(format!("governor performance on CPU {cpus} ({driver})")).read(path, governor);
            if let (Some(min), Some(max)) = (min, max) {
                answer = answer.read(format!("{folder}/scaling_{{min,max}}_freq"), format!("{min} {max}"));
            }
            found.push(answer);
        } else {
            found.push(
                warning(format!("governor {governor} on CPU {cpus} ({driver})"))
                    .read(path, governor)
                    .tune("cpufreq.governor", "performance"),
            );
        }
    }
    Ok(found)
}

fn energy_preference(s: &Subject<'_>) -> Answer {
    let mut found = Vec::new();
    let preference = by_value(s, "cpufreq/energy_performance_preference");
    let bias = by_value(s, "power/energy_perf_bias");
    if let (Err(skip), Err(_)) = (&preference, &bias) {
        return Err(skip.clone());
    }
    for (value, cpus) in preference.unwrap_or_default() {
        let path = format!(
            "/sys/devices/system/cpu/cpu{}/cpufreq/energy_performance_preference",
            cpus.iter().next().unwrap_or(0)
        );
        found.push(if value == "performance" || value == "0" {
            ok(format!("energy preference {value} on CPU {cpus}")).read(path, value)
        } else {
            warning(format!("energy preference {value} on CPU {cpus}"))
                .read(path, value)
                .tune("cpufreq.epp", "performance")
        });
    }
    for (value, cpus) in bias.unwrap_or_default() {
        let path = format!("/sys/devices/system/cpu/cpu{}/power/energy_perf_bias", cpus.iter().next().unwrap_or(0));
        if value != "0" && value != "performance" {
            found.push(
                warning(format!("energy bias {value} (0 is performance) on CPU {cpus}"))
                    .read(path.clone(), value)
                    .command(format!("echo 0 > {path}")),
            );
        }
    }
    if found.is_empty() {
        found.push(ok("energy bias is performance"));
    }
    Ok(found)
}

fn turbo(s: &Subject<'_>) -> Answer {
    let root = "/sys/devices/system/cpu";
    let (path, on) = match s.text(&format!("{root}/intel_pstate/no_turbo")) {
        Ok(value) => (format!("{root}/intel_pstate/no_turbo"), value == "0"),
        Err(_) => (format!("{root}/cpufreq/boost"), s.text(&format!("{root}/cpufreq/boost"))? == "1"),
    };
    let value = s.text(&path)?;
    Ok(vec![if on {
        note("boost is on: the clock depends on temperature and on the other cores")
            .read(path, value)
            .tune("cpufreq.boost", 0)
    } else {
        ok("boost is off: the clock is steady").read(path, value)
    }])
}

fn idle_states(s: &Subject<'_>) -> Answer {
    /// A state is deep when leaving it takes longer than this, in µs.
    const DEEP_US: i64 = 10;
    let line = s.command_line();
    if parse::boot_value(line, "idle") == Some("poll") {
        return Ok(vec![ok("idle=poll: no CPU sleeps").read("/proc/cmdline", line)]);
    }
    let first = s.cpus_or_all().iter().next().unwrap_or(0);
    let folder = format!("/sys/devices/system/cpu/cpu{first}/cpuidle");
    let states = s.names(&folder);
    if states.is_empty() {
        return Err(Skip::not_here(format!("no {folder} here: no idle driver")));
    }
    // Reading the device gives what all holders together ask for, in µs (pm_qos_interface.rst).
    let held = s
        .bytes("/dev/cpu_dma_latency", 4)
        .and_then(|bytes| <[u8; 4]>::try_from(bytes).ok())
        .map(i32::from_ne_bytes)
        .map(i64::from);
    let mut found = Vec::new();
    let mut deep: BTreeMap<String, (i64, Vec<u32>, String)> = BTreeMap::new();
    for cpu in s.cpus_or_all().iter() {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
        let own = s.maybe(&format!("/sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us"));
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
    let mut deep: Vec<_> = deep.into_iter().collect();
    deep.sort_by_key(|(_, (latency, ..))| std::cmp::Reverse(*latency));
    if let Some((name, (latency, cpus, path))) = deep.first() {
        let cpus: CpuList = cpus.iter().copied().collect();
        let others = if deep.len() > 1 { format!(" and {} shallower ones", deep.len() - 1) } else { String::new() };
        found.push(
            warning(format!("CPU {cpus} may sleep in {name}{others}, which takes {latency} µs to leave"))
                .read(path.clone(), latency)
                .tune("cpuidle.latency-us", 2)
                .command("windhover run --cpu-dma-latency 0 -- COMMAND"),
        );
    } else {
        found.push(ok("no idle state takes longer than 10 µs to leave"));
    }
    Ok(found)
}

fn idle_driver(s: &Subject<'_>) -> Answer {
    let path = "/sys/devices/system/cpu/cpuidle/current_driver";
    let driver = s.text(path)?;
    Ok(vec![if driver == "none" || driver.is_empty() {
        note("no idle driver: settings of C-states have no effect here").read(path, driver)
    } else {
        ok(format!("idle driver {driver}")).read(path, driver)
    }])
}
