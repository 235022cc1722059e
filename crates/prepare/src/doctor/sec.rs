//! What watches, audits or locks the kernel.

use super::check::{Answer, Check, Observation, checks, note, ok, warning};
use super::subject::Subject;
use host::facts::boot_value;
use host::knob::Form;

pub(super) const CHECKS: &[Check] = checks![
    "sec.lockdown" by Once(lockdown),
        reads "security/lockdown",
        when "it is not 'none'",
        why "debugfs and other ways to look into the kernel are closed: the checks skipped for it are listed",
        on [Measured("with integrity, every read in debugfs sched/ gives EPERM, also to root")];
    "sec.audit" by Once(audit),
        reads "running processes: auditd; audit= at boot",
        when "system calls are audited",
        why "each audited system call pays for it, the measured ones too",
        on [Tuned];
    "sec.watchdogs" by Once(watchdogs),
        reads "kernel.watchdog, nmi_watchdog, watchdog_cpumask",
        when "a watchdog runs on the CPUs to measure on",
        why "the watchdog's timer and its highest-priority thread interrupt the measured task every few seconds",
        on [Tuned];
];

fn lockdown(s: &Subject<'_>) -> Answer {
    let path = "/sys/kernel/security/lockdown";
    let text = s.text(path)?;
    let mode = Form::Choice.value(&text);
    Ok(vec![if mode == "none" {
        ok("the kernel is not locked down").read(path, &text)
    } else {
        note(format!("the kernel is locked down ({mode}): some checks cannot be made")).read(path, &text)
    }])
}

fn audit(s: &Subject<'_>) -> Answer {
    if boot_value(s.command_line(), "audit") == Some("0") {
        return Ok(vec![ok("nothing is audited").read("/proc/cmdline", "audit=0")]);
    }
    s.processes()?;
    Ok(vec![match s.running("auditd") {
        None => ok("auditd does not run"),
        Some(task) => note("auditd runs: system calls may be audited").read_name(task).boot("audit=0"),
    }])
}

fn watchdogs(s: &Subject<'_>) -> Answer {
    let root = "/proc/sys/kernel";
    let names = ["nmi_watchdog", "watchdog"];
    let on: Vec<&str> =
        names.into_iter().filter(|name| s.number(&format!("{root}/{name}")).unwrap_or(0) != 0).collect();
    if on.is_empty() {
        // Without this file there is no watchdog in the kernel at all.
        s.number(&format!("{root}/watchdog"))?;
        return Ok(vec![ok("no watchdog runs").read(format!("{root}/watchdog"), 0)]);
    }
    let path = format!("{root}/watchdog_cpumask");
    let mask = s.list(&path).unwrap_or_else(|_| s.online());
    let inside = mask.common(&s.scope.cpus);
    let read = |answer: Observation| {
        on.iter().fold(answer, |answer, name| answer.read(format!("{root}/{name}"), 1)).read(path.clone(), &mask)
    };
    Ok(vec![if !s.is_scoped() {
        let answer = read(note(format!("watchdogs run on CPU {mask}")));
        if on.contains(&"nmi_watchdog") { answer.tune("sysctl.kernel.nmi_watchdog", 0) } else { answer }
    } else if inside.is_empty() {
        read(ok(format!("no watchdog runs on CPU {}", s.scope.cpus)))
    } else {
        let others = mask.without(&s.scope.cpus);
        let answer = read(warning(format!("watchdogs run on CPU {inside}")));
        if others.is_empty() {
            answer.tune("sysctl.kernel.watchdog", 0)
        } else {
            answer.tune("sysctl.kernel.watchdog_cpumask", others)
        }
    }])
}
