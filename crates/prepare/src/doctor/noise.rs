//! What is taken from a CPU below the kernel, and what the kernel pays for the CPU's faults.

use super::check::{Answer, Check, Observation, checks, note, ok, some_of, warning};
use super::subject::{Skip, Subject};
use host::facts::boot_value;

pub(super) const CHECKS: &[Check] = checks![
    "cpu.steal-noise" by Once(steal),
        reads "steal in /proc/stat, gaps of a spinning thread",
        when "gaps over 64 µs, more than 1000 gaps a second, or stolen time",
        why "what the hypervisor or the firmware takes cannot be shielded from: it is the floor of every figure here",
        on [Measured("1200 to 1500 gaps a second and 0.35 to 0.9 ms at most in a shielded guest")];
    "cpu.smi" by Once(smi),
        reads "MSR 0x34 before and after a spin",
        when "the firmware interrupted the system",
        why "a system management interrupt stops all CPUs and no kernel can see or prevent it",
        on [Kernel("trace/hwlat_detector.rst")];
    "cpu.mitigations" by Once(mitigations),
        reads "cpu/vulnerabilities/*, mitigations=",
        when "always recorded",
        why "mitigations make every system call dearer, so both ends and all rows must have the same",
        on [Practice];
];

fn steal(s: &Subject<'_>) -> Answer {
    let mut found = Vec::new();
    let virtual_machine = s.is_guest();
    if let Some(measured) = &s.snapshot.measured {
        let rate = measured.per_second(measured.gaps);
        let longest = measured.longest_ns / 1000;
        let text = format!(
            "a thread spinning on CPU {} lost {:.2} % of its time: {rate:.0} gaps a second over {} µs, the longest {longest} µs",
            measured.cpu,
            measured.lost_percent(),
            measured.threshold_ns / 1000
        );
        let tasks: u64 =
            measured.visitors.iter().filter(|visitor| visitor.kind == "process").map(|visitor| visitor.count).sum();
        let path = format!("spin of {:.1} s on CPU {}", measured.seconds(), measured.cpu);
        let read = |answer: Observation| {
            let answer = answer.read(path, format!("{} gaps, longest {} ns", measured.gaps, measured.longest_ns));
            if measured.longest_held_by.is_empty() {
                answer
            } else {
                answer.read("recorded, longest gap", some_of(&measured.longest_held_by, 4))
            }
        };
        found.push(read(if tasks > 0 {
            // Other tasks had the CPU meanwhile, so this is not the machine below.
            note(format!("{text}; other tasks ran there, so this is no floor"))
                .advice("shield the CPU and measure again")
        } else if longest <= 64 && rate <= 1000.0 {
            ok(text)
        } else if virtual_machine {
            warning(text).advice("a guest keeps this floor: compare rows of one machine, or measure on metal")
        } else {
            warning(text).advice("look at cpu.smi, cpu.tick and the trace of windhover shield --verify for who took it")
        }));
    }
    let stat = s.text("/proc/stat")?;
    let fields: Vec<u64> = stat
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))
        .map(|line| line.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect())
        .unwrap_or_default();
    let all: u64 = fields.iter().take(8).fold(0, |sum, ticks| sum.saturating_add(*ticks));
    let stolen = fields.get(7).copied().unwrap_or(0);
    // As f64: shares of time need no more digits.
    let percent = if all == 0 { 0.0 } else { stolen as f64 * 100.0 / all as f64 };
    if percent >= 0.1 {
        found.push(
            warning(format!("the hypervisor took {percent:.1} % of the CPUs' time since boot"))
                .read("/proc/stat cpu steal", stolen)
                .advice("measure on metal, or give the guest CPUs of its own"),
        );
    } else if found.is_empty() && virtual_machine {
        found.push(
            note("a guest: the hypervisor takes time that no guest setting gives back")
                .read("/proc/stat cpu steal", stolen)
                .command("windhover doctor --measure"),
        );
    } else if found.is_empty() {
        found.push(ok("no time was stolen since boot").read("/proc/stat cpu steal", stolen));
    }
    Ok(found)
}

fn smi(s: &Subject<'_>) -> Answer {
    let Some(measured) = &s.snapshot.measured else { return Err(Skip::not_asked("needs --measure")) };
    let Some(count) = measured.smi else {
        return Err(Skip::not_here("the count of system management interrupts (MSR 0x34) cannot be read here"));
    };
    let answer = if count > 0 {
        warning(format!("the firmware interrupted the system {count} times in {:.1} s", measured.seconds())).advice(
            "switch off what makes them in the firmware's setup: power capping, legacy USB, memory patrol reports",
        )
    } else {
        ok("no system management interrupt came")
    };
    Ok(vec![answer.read(format!("MSR 0x34 of CPU {}", measured.cpu), format!("+{count}"))])
}

fn mitigations(s: &Subject<'_>) -> Answer {
    if s.facts.mitigations.is_empty() {
        return Err(Skip::not_here("no /sys/devices/system/cpu/vulnerabilities here"));
    }
    let mitigated: Vec<&String> =
        s.facts.mitigations.iter().filter(|(_, state)| state.starts_with("Mitigation")).map(|(name, _)| name).collect();
    let open: Vec<&String> =
        s.facts.mitigations.iter().filter(|(_, state)| state.starts_with("Vulnerable")).map(|(name, _)| name).collect();
    let booted = boot_value(s.command_line(), "mitigations").unwrap_or("auto");
    let text = if mitigated.is_empty() && open.is_empty() {
        "this CPU needs no mitigations".to_owned()
    } else {
        format!(
            "{} mitigated, {} open: {}",
            mitigated.len(),
            open.len(),
            some_of(mitigated.iter().chain(open.iter()), 4)
        )
    };
    Ok(vec![note(text).read("/proc/cmdline mitigations", booted)])
}
