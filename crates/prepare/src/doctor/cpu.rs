//! Who may run on a CPU.

use super::check::{Answer, Check, Observation, bad, checks, count, found_or, names_of, note, ok, some_of, warning};
use super::parse;
use super::subject::{Skip, Subject};
use host::facts::boot_value;
use host::tasks::Task;
use model::CpuList;

pub(super) const CHECKS: &[Check] = checks![
    "cpu.housekeeping" by Once(housekeeping),
        reads "cpu/{online,isolated}, cpuset.cpus.isolated, cpuset.cpus.effective of partitions",
        when "no CPU would be left for everything else, or a partition overlaps isolcpus=",
        why "everything that leaves the measured CPUs needs another to run on; a kernel whose last housekeeping CPU was isolated crashed",
        on [Measured("4 crashes in 4 boots of 6.12 with isolcpus= and the remaining CPUs isolated"),
            Kernel("admin-guide/cpu-isolation.rst")];
    "cpu.partition" by Once(partition),
        reads "cpuset.cpus.partition of every control group",
        when "one does not read exactly 'isolated', 'root' or 'member'",
        why "the kernel accepts the write and says only in the read-back that the partition does not hold",
        on [Measured("a sibling's change made a valid partition invalid without an error to us"),
            Kernel("admin-guide/cgroup-v2.rst")];
    "cpu.cgroup-version" by Once(cgroup_version),
        reads "/proc/mounts, /proc/cgroups, cgroup.controllers",
        when "the cpuset controller is nowhere",
        why "only a cpuset keeps new tasks off a CPU; without one a shield has to chase them",
        on [Measured("both hierarchies tried")];
    "cpu.foreign-tasks" by Once(foreign_tasks),
        reads "/proc/PID/task/*/status Cpus_allowed_list",
        when "processes that were not placed there may run on the CPUs to measure on",
        why "under load, p99.99 of a pinned ping-pong was 280 to 340 times higher without a shield",
        on [Measured("p99.99 7787 and 6301 µs without, 23 and 22 µs with a shield"), Papers];
    "cpu.kthreads" by Once(kthreads),
        reads "/proc/PID/status of kernel threads that may be moved",
        when "they may run on the CPUs to measure on",
        why "rcu, kswapd, kcompactd and their like run when they please",
        on [Measured("19 of about 60 kernel threads could be moved"), Kernel("admin-guide/kernel-per-CPU-kthreads.rst")];
    "cpu.workqueue" by Once(workqueue),
        reads "workqueue/cpumask and workqueue/writeback/cpumask",
        when "unbound kernel work may run on the CPUs to measure on",
        why "kworkers of unbound queues run wherever their mask allows",
        on [Measured("writing the mask moved all unbound workers"), Tuned];
    "cpu.tick" by Once(tick),
        reads "nohz_full, LOC in /proc/interrupts while spinning",
        when "the local timer still ticks on the CPUs to measure on",
        why "each tick takes 4 to 16 µs from whoever runs, 100 to 1000 times a second",
        on [Measured("721 ticks in 3 s in an isolated partition, 6 with nohz_full="), Kernel("timers/no_hz.rst")];
    "cpu.rcu" by Once(rcu),
        reads "rcu_nocbs=, rcuo threads, RCU in /proc/softirqs while spinning",
        when "RCU callbacks run on the CPUs to measure on",
        why "callbacks queued by a CPU run on it in softirq context unless they are offloaded",
        on [Measured("about 130 RCU softirqs a second on a shielded CPU"), Kernel("admin-guide/kernel-parameters, rcu_nocbs")];
    "cpu.smt" by Once(smt),
        reads "topology/thread_siblings_list, smt/active",
        when "a sibling thread of a CPU to measure on does other work",
        why "hardware threads of a core share its execution units and caches",
        on [Kernel("admin-guide/cpu-isolation.rst"), Papers];
];

fn housekeeping(s: &Subject<'_>) -> Answer {
    let online = s.list("/sys/devices/system/cpu/online")?;
    let isolated = s.list("/sys/devices/system/cpu/isolated").unwrap_or_default();
    let partitioned = s.partitioned();
    let left = online.without(&isolated).without(&partitioned).without(&s.scope.cpus);
    let mut found = Vec::new();
    let read_online = |answer: Observation| answer.read("/sys/devices/system/cpu/online", &online);
    // The root's list is no proof: since Linux 6.12 it has the CPUs isolated at boot, too.
    let held = partitions(s).into_iter().filter(|(_, value)| value == "isolated");
    let held = held.filter_map(|(folder, _)| s.list(&format!("{folder}/cpuset.cpus.effective")).ok());
    let held = held.fold(CpuList::default(), |all, one| all.union(&one));
    let both = isolated.common(&held);
    if !both.is_empty() {
        found.push(
            bad(format!("CPU {both} is isolated at boot and in an isolated partition too"))
                .read("/sys/devices/system/cpu/isolated", &isolated)
                .read("cpuset.cpus.effective of isolated partitions", &held)
                .advice("remove isolcpus= from the kernel's command line, or remove the partition"),
        );
    }
    let missing = s.scope.cpus.without(&online);
    if !missing.is_empty() {
        found.push(read_online(bad(format!("CPU {missing} is not online"))));
    }
    if online.len() == 1 {
        let answer = read_online(warning("there is one CPU: nothing can be kept off it"));
        found.push(answer.advice("measure on a machine with two CPUs or more"));
    } else if left.is_empty() {
        let answer = read_online(bad(format!("no CPU of {online} is left for everything else")));
        let answer = answer.read("/sys/devices/system/cpu/isolated", &isolated);
        found.push(answer.advice("leave out at least one CPU, best the boot CPU (0)"));
    }
    found_or(found, || read_online(ok(format!("CPU {left} of {online} runs everything else"))))
}

/// The control groups that are partitions, or should be, and what they say of it.
fn partitions(s: &Subject<'_>) -> Vec<(String, String)> {
    /// The most groups that are looked at, and how deep they may lie.
    const MOST_GROUPS: usize = 4096;
    const DEPTH: u32 = 6;
    let (mut found, mut seen) = (Vec::new(), 0);
    let mut waiting: Vec<(String, u32)> = s.unified().map(|root| (root.to_owned(), 0)).into_iter().collect();
    while let Some((folder, depth)) = waiting.pop().filter(|_| seen < MOST_GROUPS) {
        seen += 1;
        if depth < DEPTH {
            let below = s.names(&folder).into_iter().map(|name| format!("{folder}/{name}"));
            waiting.extend(
                below.filter(|path| s.machine.exists(format!("{path}/cgroup.procs"))).map(|path| (path, depth + 1)),
            );
        }
        let value = s.maybe(&format!("{folder}/cpuset.cpus.partition")).filter(|value| value != "member");
        found.extend(value.map(|value| (folder, value)));
    }
    found
}

fn partition(s: &Subject<'_>) -> Answer {
    if s.unified().is_none() {
        return Err(Skip::not_here("no unified control groups (version 2) are mounted"));
    }
    if !s.cpuset_is_unified() {
        return Err(Skip::not_here("the cpuset controller is not in the unified hierarchy: there are no partitions"));
    }
    let (mut found, mut valid) = (Vec::new(), 0_u32);
    for (folder, value) in partitions(s) {
        if value == "isolated" || value == "root" {
            valid += 1;
            continue;
        }
        let answer = bad(format!("the partition {folder} is not valid: {value}"));
        found.push(answer.read(format!("{folder}/cpuset.cpus.partition"), value).unshield().advice(
            "give the CPUs back to the other groups, or set cpuset.cpus.exclusive on the parents too, then shield again",
        ));
    }
    let booted = boot_value(s.command_line(), "isolcpus").map(parse::isolcpus);
    if let Some((flags, cpus)) = booted.filter(|(flags, _)| flags.iter().any(|flag| flag == "domain")) {
        found.push(
            note(format!("CPU {cpus} was isolated at boot: the kernel refuses a partition of it"))
                .read("/proc/cmdline isolcpus", format!("{} {cpus}", flags.join(",")))
                .command(format!("windhover shield --backend isolcpus -a {cpus}")),
        );
    }
    if found.is_empty() && valid == 0 {
        return Err(Skip::not_here("no control group is a partition"));
    }
    found_or(found, || ok(format!("{valid} partitions, all valid")).read("cpuset.cpus.isolated", s.partitioned()))
}

fn cgroup_version(s: &Subject<'_>) -> Answer {
    s.text("/proc/mounts")?;
    if let Some(folder) = s.unified().filter(|_| s.cpuset_is_unified()) {
        return Ok(vec![
            ok("cpusets of version 2: a shield can be an isolated partition")
                .read("/proc/mounts", format!("cgroup2 {folder}")),
        ]);
    }
    if let Some(folder) = s.version1("cpuset") {
        return Ok(vec![
            note("cpusets of version 1: a shield works, and does not cover unbound workqueues by itself")
                .read("/proc/mounts", format!("cpuset {folder}")),
        ]);
    }
    let listed = s.maybe("/proc/cgroups").is_some_and(|text| text.lines().any(|line| line.starts_with("cpuset")));
    let answer = warning("no cpuset controller is mounted: a shield can only move tasks away repeatedly");
    let answer = answer.read("/proc/cgroups", if listed { "cpuset is known" } else { "no cpuset" });
    Ok(vec![if listed {
        answer.advice("mount it: mount -t cgroup -o cpuset none /sys/fs/cgroup/cpuset")
    } else {
        answer.advice("take a kernel built with CONFIG_CPUSETS")
    }])
}

/// Whether a task may come to these CPUs without having been placed on them alone.
pub(super) fn may_stray(task: &Task, cpus: &CpuList) -> bool {
    task.allowed.meets(cpus) && !task.allowed.is_within(cpus)
}

fn foreign_tasks(s: &Subject<'_>) -> Answer {
    let cpus = s.cpus()?;
    let redhawk = s.redhawk("procs");
    let cpus = cpus.without(&redhawk);
    if cpus.is_empty() {
        return Ok(vec![ok("RedHawk's shield keeps processes off").read("/proc/shield/procs", &redhawk)]);
    }
    let user: Vec<&Task> = s.tasks().iter().filter(|task| !task.kernel).collect();
    if user.is_empty() {
        return Err(Skip::not_here("/proc shows no processes"));
    }
    let foreign: Vec<&Task> = user.iter().copied().filter(|task| may_stray(task, &cpus)).collect();
    let placed: Vec<&Task> = user.iter().copied().filter(|task| task.allowed.is_within(&cpus)).collect();
    let mut found = Vec::new();
    let came: Vec<String> = s
        .snapshot
        .measured
        .iter()
        .filter(|measured| cpus.contains(measured.cpu))
        .flat_map(|measured| &measured.visitors)
        .filter(|visitor| visitor.kind == "process")
        .map(|visitor| format!("{} ×{}", visitor.name, visitor.count))
        .collect();
    if !came.is_empty() {
        found.push(
            bad(format!("processes ran there while measuring: {}", some_of(&came, 4)))
                .read("recorded sched_switch", some_of(&came, 8))
                .shield(&cpus, ""),
        );
    }
    if let Some(first) = foreign.first() {
        // A group of tasks placed on all the CPUs in question looks the same as one that may go anywhere.
        found.push(
            bad(format!("{} may run on CPU {cpus}: {}", count(foreign.len(), "thread"), names_of(&foreign, 4)))
                .read_allowed(first)
                .shield(&cpus, ""),
        );
    }
    if !placed.is_empty() {
        let text = format!("{} placed on CPU {cpus}: {}", count(placed.len(), "thread"), names_of(&placed, 4));
        found.push(placed.iter().take(3).fold(note(text), |answer, task| answer.read_allowed(task)));
    }
    found_or(found, || ok(format!("no process may run on CPU {cpus} that was not placed there")))
}

fn kthreads(s: &Subject<'_>) -> Answer {
    let cpus = s.cpus()?;
    let kernel: Vec<&Task> = s.tasks().iter().filter(|task| task.kernel).collect();
    if kernel.is_empty() {
        return Err(Skip::not_here("/proc shows no kernel threads (a container's own process namespace)"));
    }
    // Threads of interrupts follow their interrupt. kthreadd stays: its children inherit its CPUs, and it does nothing.
    let movable: Vec<&Task> = kernel
        .into_iter()
        .filter(|task| {
            !task.fixed && !task.key.name.starts_with("irq/") && task.key.name != "kthreadd" && may_stray(task, cpus)
        })
        .collect();
    Ok(vec![match movable.first() {
        None => ok(format!("no kernel thread that could be elsewhere may run on CPU {cpus}")),
        Some(first) => {
            let text = format!(
                "{} that can be moved may run on CPU {cpus}: {}",
                count(movable.len(), "kernel thread"),
                names_of(&movable, 4)
            );
            warning(text).read_allowed(first).shield(cpus, "")
        }
    }])
}

fn workqueue(s: &Subject<'_>) -> Answer {
    let cpus = s.cpus()?;
    let root = "/sys/devices/virtual/workqueue";
    s.mask(&format!("{root}/cpumask"))?;
    let mut found = Vec::new();
    for (file, what) in [("cpumask", "unbound kernel work"), ("writeback/cpumask", "writeback")] {
        let path = format!("{root}/{file}");
        let Some(mask) = s.mask(&path).ok().filter(|mask| mask.meets(cpus)) else { continue };
        let text = format!("{what} may run on CPU {}", mask.common(cpus));
        found.push(warning(text).read(path, mask.to_mask()).shield(cpus, ""));
    }
    found_or(found, || ok(format!("unbound kernel work stays off CPU {cpus}")))
}

fn tick(s: &Subject<'_>) -> Answer {
    let cpus = s.cpus()?;
    let path = "/sys/devices/system/cpu/nohz_full";
    let line = || format!("nohz_full={cpus} rcu_nocbs={cpus}");
    let configured = s.facts.kernel_release.as_deref().and_then(|release| s.maybe(&format!("/boot/config-{release}")));
    let built = configured.map(|config| config.lines().any(|line| line.trim() == "CONFIG_NO_HZ_FULL=y"));
    let able = built != Some(false) && s.machine.exists(path);
    let mend = |answer: Observation| {
        if able {
            answer.boot(line())
        } else {
            answer.advice(format!("take a kernel built with CONFIG_NO_HZ_FULL and boot it with {}", line()))
        }
    };
    if let Some(measured) = &s.snapshot.measured
        && cpus.contains(measured.cpu)
    {
        let rate = measured.per_second(measured.local_timer);
        let text = format!("{rate:.0} timer ticks a second on CPU {} while one thread spins", measured.cpu);
        let answer = if rate > 20.0 { mend(warning(text)) } else { ok(text) };
        let value = format!("+{} in {:.1} s", measured.local_timer, measured.seconds());
        return Ok(vec![answer.read("/proc/interrupts LOC", value)]);
    }
    if !able && s.machine.exists("/sys/devices/system/cpu/online") {
        let answer = note("this kernel cannot switch the tick off (built without CONFIG_NO_HZ_FULL)");
        return Ok(vec![mend(answer.read(path, s.maybe(path).unwrap_or_else(|| "absent".to_owned())))]);
    }
    let full = s.list(path)?;
    let ticking = cpus.without(&full);
    Ok(vec![if ticking.is_empty() {
        ok(format!("CPU {cpus} has no tick while one thread runs")).read(path, &full)
    } else {
        let hz = s.facts.hz.map(|hz| format!(", {hz} times a second")).unwrap_or_default();
        mend(warning(format!("the timer ticks on CPU {ticking}{hz}")).read(path, &full))
    }])
}

fn rcu(s: &Subject<'_>) -> Answer {
    let cpus = s.cpus()?;
    let line = s.command_line();
    let booted = |name: &str| match boot_value(line, name) {
        Some("all") => s.online(),
        value => value.and_then(|list| list.parse().ok()).unwrap_or_default(),
    };
    let missing = cpus.without(&booted("rcu_nocbs")).without(&booted("nohz_full"));
    let mut found = Vec::new();
    if !missing.is_empty() {
        let measured = s.snapshot.measured.as_ref().filter(|measured| missing.contains(measured.cpu));
        let rate = measured.map(|measured| measured.per_second(measured.rcu));
        let boot = format!("rcu_nocbs={cpus}");
        found.push(match rate {
            Some(rate) => {
                let text = format!("{rate:.0} RCU softirqs a second on CPU {missing}");
                let answer = if rate > 100.0 { warning(text).boot(boot) } else { ok(text) };
                answer.read("/proc/softirqs RCU", format!("{rate:.0}/s"))
            }
            None => note(format!("RCU callbacks of CPU {missing} run on it")).read("/proc/cmdline", line).boot(boot),
        });
    }
    let strays: Vec<&Task> = s
        .tasks()
        .iter()
        .filter(|task| task.kernel && task.key.name.starts_with("rcuo") && may_stray(task, cpus))
        .collect();
    if let Some(first) = strays.first() {
        let text = format!("{} that run RCU callbacks may run on CPU {cpus}", count(strays.len(), "thread"));
        found.push(warning(text).read_allowed(first).shield(cpus, ""));
    }
    found_or(found, || ok(format!("RCU callbacks of CPU {cpus} run elsewhere")).read("/proc/cmdline", line))
}

fn smt(s: &Subject<'_>) -> Answer {
    if !s.is_scoped() {
        let path = "/sys/devices/system/cpu/smt/active";
        return Ok(vec![match s.text(path)?.as_str() {
            "1" => note("hardware threads are in use: shield both of a core, or switch one off").read(path, 1),
            value => ok("no hardware threads share a core").read(path, value),
        }]);
    }
    let cpus = s.cpus()?;
    let mut found = Vec::new();
    for cpu in cpus.iter() {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let siblings = s.list(&path)?;
        let others = siblings.common(&s.online()).without(cpus);
        if !others.is_empty() {
            found.push(
                warning(format!("CPU {others} is a hardware thread of the same core as CPU {cpu}"))
                    .read(path, siblings)
                    .shield(cpus, &format!(",sibling:{cpu}")),
            );
        }
    }
    found_or(found, || ok(format!("CPU {cpus} shares its cores with no other CPU")))
}
