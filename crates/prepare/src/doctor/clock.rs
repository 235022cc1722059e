//! Clocks: what time is read from, and who bends it.

use super::check::{Answer, Check, bad, checks, note, ok, some_of, warning};
use super::subject::{Skip, Subject};

pub(super) const CHECKS: &[Check] = checks![
    "clock.source" by Once(source),
        reads "clocksource0/current_clocksource",
        when "it is not the CPU's own counter",
        why "reading HPET or the ACPI timer takes about a microsecond and a trip over the bus; every time stamp pays it",
        on [Tuned, Kernel("admin-guide/kernel-parameters, tsc=")];
    "clock.tsc" by Once(tsc),
        reads "constant_tsc and nonstop_tsc in /proc/cpuinfo",
        when "the time stamp counter changes its rate or stops",
        why "Windhover then reads the kernel's clock, which costs more",
        on [Practice];
    "clock.sync" by Once(sync),
        reads "running processes: chronyd, ntpd, ptp4l, phc2sys, systemd-timesyncd",
        when "always recorded",
        why "a step of the clock in the middle of a run breaks one-way times; round trips do not use it",
        on [Practice];
];

fn source(s: &Subject<'_>) -> Answer {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = s.text(path)?;
    Ok(vec![match source.as_str() {
        "tsc" | "arch_sys_counter" | "timebase" | "tod" | "stp" | "riscv_clocksource" => {
            ok(format!("the CPU's own counter ({source})")).read(path, &source)
        }
        "kvm-clock" | "hyperv_clocksource_tsc_page" | "xen" => warning(format!("the hypervisor's clock ({source})"))
            .read(path, &source)
            .boot("clocksource=tsc tsc=reliable"),
        _ => bad(format!("a slow clock ({source})"))
            .read(path, &source)
            .boot("clocksource=tsc tsc=reliable")
            .advice("look in the kernel's log why the counter was given up ('Marking clocksource tsc unstable')"),
    }])
}

fn tsc(s: &Subject<'_>) -> Answer {
    let Some(invariant) = s.facts.tsc_invariant else {
        return Err(Skip::not_here("this CPU has no time stamp counter flags"));
    };
    let path = "/proc/cpuinfo flags";
    Ok(vec![if invariant {
        ok("the time stamp counter ticks evenly in all states").read(path, "constant_tsc nonstop_tsc")
    } else {
        warning("the time stamp counter may change its rate or stop")
            .read(path, "without constant_tsc and nonstop_tsc")
            .advice("in a guest, pass the host's CPU through (-cpu host,+invtsc)")
    }])
}

fn sync(s: &Subject<'_>) -> Answer {
    s.processes()?;
    let found: Vec<&str> = ["chronyd", "ntpd", "ntpsec", "ptp4l", "phc2sys", "systemd-timesyncd"]
        .into_iter()
        .filter(|name| s.running(name).is_some())
        .collect();
    Ok(vec![if found.is_empty() {
        note("nobody keeps the wall clock: one-way times of two machines cannot be compared")
    } else {
        note(format!("the wall clock is kept by {}", some_of(&found, 4))).read("/proc/*/comm", some_of(&found, 8))
    }])
}
