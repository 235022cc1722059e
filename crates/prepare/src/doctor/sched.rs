//! What the scheduler does with real-time tasks, and whether they may be at all.

use super::check::{Answer, Check, Observation, bad, checks, found_or, note, ok, warning};
use super::cpu::may_stray;
use super::document::SkipKind;
use super::parse;
use super::subject::{Skip, Subject};
use host::tasks::parse_capabilities;
use model::facts::is_preempt_rt;

/// CAP_SYS_NICE and CAP_IPC_LOCK of capability.h.
const SYS_NICE: u32 = 23;
const IPC_LOCK: u32 = 14;

pub(super) const CHECKS: &[Check] = checks![
    "sched.rt-throttle" by Once(throttle),
        reads "kernel.sched_rt_runtime_us, sched_rt_period_us",
        when "real-time tasks are stopped after part of each second",
        why "a pair of FIFO ends that keeps its CPU busy is stopped for 50 ms in every second: a maximum of 25 or 50 ms comes from here",
        on [Measured("25 to 27 ms RTT/2 at 950000, none with a shield and -1"), Kernel("scheduler/sched-rt-group.rst")];
    "sched.fair-server" by Once(fair_server),
        reads "sched/fair_server/cpu*/runtime in debugfs; Linux 6.12 and later",
        when "ordinary tasks are given part of a CPU that a real-time task keeps busy",
        why "since 6.12 the fair server takes 50 ms a second for starving ordinary tasks, also with sched_rt_runtime_us = -1",
        on [Measured("stalls of 52 ms at sched_rt_runtime_us = -1 without a shield, none with it")];
    "sched.rt-group" by Once(rt_group),
        reads "cpu.rt_runtime_us of the own control group",
        when "it is 0",
        why "SCHED_FIFO is then refused (EPERM), also to root",
        on [Measured("chrt -f in a child group with 0: EPERM"), Kernel("scheduler/sched-rt-group.rst")];
    "sched.rtprio-limit" by Once(rtprio_limit),
        reads "RLIMIT_RTPRIO, CAP_SYS_NICE",
        when "real-time policies may not be used",
        why "`--policy fifo` and `run -s fifo` fail without this right",
        on [Measured("with CAP_SYS_NICE alone, SCHED_FIFO works for any user")];
    "sched.preempt" by Once(preemption),
        reads "uname version, sched/preempt in debugfs, /sys/kernel/realtime",
        when "the kernel's own code is not preempted",
        why "a woken task waits until the system call or softirq of another is over",
        on [Practice];
    "sched.autogroup" by Once(autogroup),
        reads "kernel.sched_autogroup_enabled",
        when "1",
        why "ordinary tasks are weighed by session, so nice values do not mean what they say",
        on [Tuned];
    "sched.timer-migration" by Once(timer_migration),
        reads "kernel.timer_migration",
        when "1",
        why "timers of idle CPUs move to busy ones, also to the measured one",
        on [Tuned];
    "sched.numa-balancing" by Once(numa_balancing),
        reads "kernel.numa_balancing",
        when "1 on a machine with several nodes",
        why "pages are unmapped to see who uses them: page faults in the middle of a measurement",
        on [Tuned];
    "sched.stalld" by Once(stalld),
        reads "running processes: stalld, rtkit-daemon",
        when "one runs",
        why "stalld gives starving tasks real-time time against the measured one; rtkit demotes real-time tasks that run long",
        on [Practice];
    "sched.tuned" by Once(tuned),
        reads "running processes: tuned, its active profile",
        when "it runs",
        why "it sets knobs again when its profile changes or its daemon restarts",
        on [Tuned];
];

fn throttle(s: &Subject<'_>) -> Answer {
    let path = "/proc/sys/kernel/sched_rt_runtime_us";
    let runtime = s.number(path)?;
    let period = s.number("/proc/sys/kernel/sched_rt_period_us").unwrap_or(1_000_000);
    if let Some(probe) = s.snapshot.measured.as_ref().and_then(|measured| measured.throttle.as_ref()) {
        let text = format!(
            "a FIFO thread that spun {:.1} s on CPU {} was kept off it for {:.1} ms at a stretch",
            probe.seconds(),
            probe.cpu,
            probe.longest_ns as f64 / 1e6
        );
        let answer = match (probe.is_throttled(), runtime == -1) {
            (false, _) => ok(text),
            (true, false) => unthrottle(s, bad(text)),
            // The limit is off, so it is the other one that only a shield keeps away.
            (true, true) => {
                let cpus = if s.is_scoped() { s.scope.cpus.clone() } else { [probe.cpu].into_iter().collect() };
                bad(format!("{text}, though its time is not limited: the fair server ran ordinary tasks"))
                    .shield(&cpus, " --unlimited-rt")
            }
        };
        return Ok(vec![
            answer.read(path, runtime).read("throttle probe, longest", format!("{} ns", probe.longest_ns)),
        ]);
    }
    Ok(vec![if runtime == -1 || runtime >= period {
        ok("real-time tasks are not throttled").read(path, runtime)
    } else {
        let stall = period.saturating_sub(runtime) as f64 / 1000.0;
        let text = format!(
            "a real-time task that keeps a CPU busy is stopped for {stall:.0} ms in every {:.0} ms",
            period as f64 / 1000.0
        );
        unthrottle(s, warning(text).read(path, runtime))
    }])
}

/// The limit and the fair server go together: only a shield keeps ordinary tasks from starving.
fn unthrottle(s: &Subject<'_>, answer: Observation) -> Observation {
    if s.is_scoped() {
        answer.shield(&s.scope.cpus, " --unlimited-rt")
    } else {
        answer.tune("sysctl.kernel.sched_rt_runtime_us", -1)
    }
}

fn fair_server(s: &Subject<'_>) -> Answer {
    if s.machine.kernel_version().is_some_and(|version| version < (6, 12)) {
        return Err(Skip::not_here("the fair server came with Linux 6.12"));
    }
    let cpu = s.cpus_or_all().iter().next().unwrap_or(0);
    let path = format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime");
    let runtime = s.number(&path)?;
    let user = || s.tasks().iter().filter(|task| !task.kernel);
    let emptied = s.is_scoped() && user().next().is_some() && !user().any(|task| may_stray(task, &s.scope.cpus));
    Ok(vec![if runtime == 0 {
        ok(format!("the fair server is off on CPU {cpu}")).read(path, runtime)
    } else if emptied {
        ok(format!("the fair server has nobody to serve on CPU {}: no other task may run there", s.scope.cpus))
            .read(path, runtime)
    } else {
        let answer =
            warning(format!("the fair server may take {} ms a second from a busy real-time task", runtime / 1_000_000))
                .read(path.clone(), runtime);
        if s.is_scoped() { answer.shield(&s.scope.cpus, "") } else { answer.command(format!("echo 0 > {path}")) }
    }])
}

fn rt_group(s: &Subject<'_>) -> Answer {
    let Some(mount) = s.version1("cpu") else {
        return Err(Skip::not_here("no cpu controller of version 1: real-time time is not shared out to groups"));
    };
    let groups = s.text("/proc/self/cgroup")?;
    let own = groups
        .lines()
        .find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let controllers = parts.next()?;
            controllers.split(',').any(|name| name == "cpu").then(|| parts.next()).flatten()
        })
        .unwrap_or("/");
    let path = format!("{}{}/cpu.rt_runtime_us", mount.trim_end_matches('/'), own.trim_end_matches('/'));
    let runtime = s.number(&path).map_err(|skip| match skip.kind {
        SkipKind::NotHere => Skip::not_here("built without CONFIG_RT_GROUP_SCHED: no group limits real-time tasks"),
        _ => skip,
    })?;
    Ok(vec![if runtime == 0 {
        bad("this control group has no real-time time: SCHED_FIFO is refused here, also to root")
            .read(path.clone(), runtime)
            .command(format!("echo 950000 > {path}"))
            .advice("or start Windhover from the root of the cpu hierarchy")
    } else {
        ok("this control group may run real-time tasks").read(path, runtime)
    }])
}

fn has(s: &Subject<'_>, capability: u32) -> Result<bool, Skip> {
    let status = s.text("/proc/self/status")?;
    let mask = parse_capabilities(&status).ok_or_else(|| Skip::not_here("/proc/self/status shows no CapEff"))?;
    Ok(mask >> capability & 1 == 1)
}

/// A limit of the own process, and where it was read.
fn limit(s: &Subject<'_>, name: &str) -> Result<(u64, String), Skip> {
    let limits = s.text("/proc/self/limits")?;
    Ok((parse::soft_limit(&limits, name).unwrap_or(0), format!("/proc/self/limits {name}")))
}

fn rtprio_limit(s: &Subject<'_>) -> Answer {
    let (limit, path) = limit(s, "Max realtime priority")?;
    Ok(vec![if has(s, SYS_NICE)? {
        ok("real-time policies may be used (CAP_SYS_NICE)").read("/proc/self/status CapEff", "CAP_SYS_NICE")
    } else if limit == 0 {
        warning("real-time policies may not be used: no CAP_SYS_NICE, and RLIMIT_RTPRIO is 0")
            .read(path, limit)
            .advice("run as root, or give the user 'rtprio 50' in /etc/security/limits.d and log in again")
    } else {
        ok(format!("real-time policies may be used up to priority {limit}")).read(path, limit)
    }])
}

fn preemption(s: &Subject<'_>) -> Answer {
    let Some(model) = s.facts.preemption.as_deref() else {
        return Err(Skip::not_here("no /proc/sys/kernel/version here"));
    };
    let version = s.facts.kernel_version.as_deref().unwrap_or_default();
    let path = "/proc/sys/kernel/version";
    let dual = s.variants.iter().find(|name| name.starts_with("Xenomai 3 Cobalt") || *name == "EVL" || *name == "RROS");
    let answer = match model {
        model if is_preempt_rt(Some(model)) => ok(format!("the kernel is fully preemptible ({model})")),
        "PREEMPT" | "PREEMPT_DYNAMIC (full)" => ok(format!("the kernel's own code is preempted ({model})")),
        "PREEMPT_DYNAMIC (lazy)" | "PREEMPT_LAZY" => {
            note("lazy preemption: real-time tasks preempt at once, ordinary ones at the next tick")
        }
        "PREEMPT_DYNAMIC" => {
            note("preemption can be chosen at boot, and what was chosen cannot be seen here").boot("preempt=full")
        }
        dynamic if dynamic.starts_with("PREEMPT_DYNAMIC") => {
            warning(format!("the kernel's own code is not preempted ({model})")).boot("preempt=full")
        }
        _ if dual.is_some() => {
            note(format!("the Linux half of the dual kernel is not preempted ({model}); its real-time half is"))
        }
        _ => warning(format!("the kernel's own code is not preempted ({model})"))
            .advice("take a kernel built with CONFIG_PREEMPT or CONFIG_PREEMPT_RT"),
    };
    Ok(vec![answer.read(path, version)])
}

fn autogroup(s: &Subject<'_>) -> Answer {
    let other = note("ordinary tasks are weighed by session").tune("sysctl.kernel.sched_autogroup_enabled", 0);
    let path = "/proc/sys/kernel/sched_autogroup_enabled";
    s.judge(path, |value| value == 0, "ordinary tasks are weighed one by one", other)
}

fn timer_migration(s: &Subject<'_>) -> Answer {
    let other = s.scoped("timers of idle CPUs move to busy ones").tune("sysctl.kernel.timer_migration", 0);
    s.judge("/proc/sys/kernel/timer_migration", |value| value == 0, "timers stay on their CPU", other)
}

fn numa_balancing(s: &Subject<'_>) -> Answer {
    let path = "/proc/sys/kernel/numa_balancing";
    let value = s.number(path)?;
    let nodes = s.facts.numa_nodes.unwrap_or(1);
    let answer = if value == 0 {
        ok("pages stay where they are")
    } else if nodes < 2 {
        ok("automatic NUMA balancing is on, and there is one node only")
    } else {
        warning(format!("the kernel moves pages between {nodes} nodes")).tune("sysctl.kernel.numa_balancing", 0)
    };
    Ok(vec![answer.read(path, value)])
}

fn stalld(s: &Subject<'_>) -> Answer {
    s.processes()?;
    let mut found = Vec::new();
    for (name, unit) in [("stalld", "service.stalld"), ("rtkit-daemon", "service.rtkit-daemon")] {
        if let Some(task) = s.running(name) {
            found.push(warning(format!("{name} runs")).read_name(task).tune(unit, "stopped"));
        }
    }
    found_or(found, || ok("neither stalld nor rtkit runs"))
}

fn tuned(s: &Subject<'_>) -> Answer {
    s.processes()?;
    let profile = s.maybe("/etc/tuned/active_profile").unwrap_or_default();
    Ok(vec![match s.running("tuned") {
        None => ok("tuned does not run"),
        Some(task) => {
            let text = format!("tuned runs (profile {profile}) and may set what Windhover sets");
            note(text).read_name(task).read("/etc/tuned/active_profile", &profile)
        }
    }])
}

pub(super) fn locks_memory(s: &Subject<'_>) -> Answer {
    const ENOUGH: u64 = 64 << 20;
    let (limit, path) = limit(s, "Max locked memory")?;
    Ok(vec![if has(s, IPC_LOCK)? {
        ok("memory may be locked (CAP_IPC_LOCK)").read("/proc/self/status CapEff", "CAP_IPC_LOCK")
    } else if limit < ENOUGH {
        warning(format!("only {} KiB of memory may be locked", limit / 1024))
            .read(path, limit)
            .advice("run as root, or give the user 'memlock unlimited' in /etc/security/limits.d and log in again")
    } else {
        ok("memory may be locked").read(path, limit)
    }])
}
