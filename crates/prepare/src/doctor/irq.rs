//! Interrupts: which come to the CPUs to measure on, and which can be kept away.

use super::check::{Answer, Check, bad, checks, count, found_or, note, ok, some_of, warning};
use super::subject::{Irq, Skip, Subject};
use host::irqs::irq_of_thread;
use host::tasks::Task;
use model::CpuList;

pub(super) const CHECKS: &[Check] = checks![
    "irq.on-shield" by Once(on_shield),
        reads "/proc/irq/*/{smp,effective}_affinity_list, counts in /proc/interrupts",
        when "interrupts of other devices come to the CPUs to measure on",
        why "an interrupt stops whatever runs, real-time tasks too",
        on [Measured("counted by /proc/interrupts while spinning"), Kernel("core-api/irq/irq-affinity.rst"), Papers];
    "irq.managed" by Once(managed),
        reads "whether /proc/irq/*/smp_affinity_list may be written",
        when "interrupts that nobody can move come to the CPUs to measure on",
        why "drivers of disks spread one queue over each CPU and keep its interrupt there",
        on [Measured("virtio-blk: the file's mode is 0444, writing it gives EPERM"),
            Kernel("admin-guide/kernel-parameters, isolcpus=managed_irq")];
    "irq.effective" by Once(effective),
        reads "smp_affinity_list against effective_affinity_list",
        when "an interrupt goes elsewhere than asked for",
        why "a new affinity holds only from the interrupt's next move, so the mask alone proves nothing",
        on [Measured("after writing 0 the effective CPU stayed 1")];
    "irq.default" by Once(default_mask),
        reads "/proc/irq/default_smp_affinity",
        when "interrupts yet to come may use the CPUs to measure on",
        why "a device that is opened later gets its interrupts by this mask",
        on [Measured("read and written here")];
    "irq.balance" by Once(balance),
        reads "running processes: irqbalance; IRQBALANCE_BANNED_CPU*",
        when "it runs and may use the CPUs to measure on",
        why "it moves interrupts every 10 s, also back onto a shield",
        on [Papers];
    "irq.threads" by Once(threads),
        reads "policy, priority and CPUs of irq/N-* threads",
        when "a thread may run elsewhere than its interrupt, or is outranked by our real-time tasks",
        why "with threaded interrupts (PREEMPT_RT, threadirqs) the NIC's work is done by these threads",
        on [Measured("moving them as tasks widened their CPUs until set by hand")];
];

/// The interrupts of the named device: they belong onto the CPUs to measure on.
fn invited(s: &Subject<'_>) -> Vec<u32> {
    s.scope.nic.as_deref().map(|nic| s.irqs_of(nic).iter().map(|irq| irq.number).collect()).unwrap_or_default()
}

fn seen<'a>(s: &'a Subject<'_>) -> Result<&'a [Irq], Skip> {
    s.text("/proc/interrupts")?;
    let all = s.irqs();
    if all.is_empty() { Err(Skip::not_here("no interrupt in /proc/irq has an affinity")) } else { Ok(all) }
}

fn named(irqs: &[&Irq]) -> String {
    some_of(irqs.iter().map(|irq| format!("{} {}", irq.number, irq.action)), 4)
}

fn on_shield(s: &Subject<'_>) -> Answer {
    let cpus = s.cpus()?;
    let invited = invited(s);
    let all = seen(s)?;
    let redhawk = s.redhawk("irqs");
    if !redhawk.is_empty() && cpus.is_within(&redhawk) {
        return Ok(vec![ok("RedHawk's shield keeps interrupts off").read("/proc/shield/irqs", &redhawk)]);
    }
    let came: Vec<&Irq> = all
        .iter()
        .filter(|irq| !irq.managed && !invited.contains(&irq.number) && irq.total > 0)
        .filter(|irq| irq.cpus().meets(cpus) && irq.asked.meets(cpus))
        .collect();
    let mut found = Vec::new();
    if let Some(measured) = s.snapshot.measured.as_ref().filter(|measured| cpus.contains(measured.cpu)) {
        let others: Vec<String> = measured
            .interrupts
            .iter()
            .filter_map(|(name, times)| {
                let number = name.parse::<u32>().ok().filter(|number| !invited.contains(number))?;
                let irq = all.iter().find(|irq| irq.number == number);
                let action = irq.map(|irq| irq.action.as_str()).unwrap_or_default();
                // Those that cannot be moved have a check of their own.
                (!irq.is_some_and(|irq| irq.managed)).then(|| format!("{number} {action} ×{times}"))
            })
            .collect();
        if !others.is_empty() {
            let text = format!(
                "interrupts came to CPU {} in {:.1} s: {}",
                measured.cpu,
                measured.seconds(),
                some_of(&others, 4)
            );
            found.push(warning(text).read("/proc/interrupts", some_of(&others, 8)).shield(cpus, ""));
        }
    }
    if let Some(first) = came.first().filter(|_| found.is_empty()) {
        let text =
            format!("{} of other devices may come to CPU {cpus}: {}", count(came.len(), "interrupt"), named(&came));
        found.push(warning(text).read(first.path(), first.cpus()).shield(cpus, ""));
    }
    found_or(found, || ok(format!("no interrupt that can be moved comes to CPU {cpus}")))
}

fn managed(s: &Subject<'_>) -> Answer {
    let cpus = s.cpus()?;
    let stuck: Vec<&Irq> =
        seen(s)?.iter().filter(|irq| irq.managed && irq.total > 0 && irq.cpus().meets(cpus)).collect();
    Ok(vec![match stuck.first() {
        None => ok(format!("no fixed interrupt comes to CPU {cpus}")),
        Some(first) => {
            let text =
                format!("{} that cannot be moved, on CPU {cpus}: {}", count(stuck.len(), "interrupt"), named(&stuck));
            note(text)
                .read(first.asked_path(), format!("{} (read-only)", first.asked))
                .boot(format!("isolcpus=managed_irq,{cpus}"))
        }
    }])
}

fn effective(s: &Subject<'_>) -> Answer {
    let all = seen(s)?;
    if all.iter().all(|irq| irq.effective.is_none()) {
        return Err(Skip::not_here("this kernel does not show effective affinities"));
    }
    let differs = |irq: &&Irq| irq.effective.as_ref().is_some_and(|cpus| !cpus.is_within(&irq.asked));
    let wrong: Vec<&Irq> = all.iter().filter(differs).collect();
    Ok(vec![match wrong.first() {
        None => ok("all interrupts go where they were asked to"),
        Some(first) => {
            let text = format!("not yet where asked for: {}: {}", count(wrong.len(), "interrupt"), named(&wrong));
            let here = wrong.iter().any(|irq| !s.is_scoped() || irq.cpus().meets(&s.scope.cpus));
            let answer = if here { warning(text) } else { note(text) };
            answer
                .read(first.asked_path(), &first.asked)
                .read(format!("/proc/irq/{}/effective_affinity_list", first.number), first.cpus())
                .advice("the next interrupt moves it; watch the counts in /proc/interrupts, not the mask")
        }
    }])
}

fn default_mask(s: &Subject<'_>) -> Answer {
    let path = "/proc/irq/default_smp_affinity";
    let mask = s.mask(path)?;
    let cpus = s.cpus()?;
    let inside = mask.common(cpus);
    Ok(vec![if inside.is_empty() {
        ok(format!("new interrupts stay off CPU {cpus}")).read(path, mask.to_mask())
    } else {
        warning(format!("new interrupts may use CPU {inside}")).read(path, mask.to_mask()).shield(cpus, "")
    }])
}

fn balance(s: &Subject<'_>) -> Answer {
    s.processes()?;
    let Some(task) = s.running("irqbalance") else { return Ok(vec![ok("irqbalance does not run")]) };
    let places = [
        format!("/proc/{}/environ", task.process),
        "/etc/default/irqbalance".to_owned(),
        "/etc/sysconfig/irqbalance".to_owned(),
    ];
    let ban = places.iter().find_map(|path| {
        let text = s.maybe(path)?;
        text.split(['\0', '\n']).find_map(|line| {
            let line = line.trim();
            let list = line.strip_prefix("IRQBALANCE_BANNED_CPULIST=");
            let mask = line.strip_prefix("IRQBALANCE_BANNED_CPUS=");
            let bare = |text: &str| text.trim_matches(['"', '\'']).to_owned();
            let cpus: Option<CpuList> = list
                .and_then(|list| bare(list).parse().ok())
                .or_else(|| mask.and_then(|mask| CpuList::from_mask(&bare(mask))));
            cpus.filter(|cpus| !cpus.is_empty()).map(|cpus| (path.clone(), cpus))
        })
    });
    let banned = ban.as_ref().map(|(_, cpus)| cpus.clone()).unwrap_or_default();
    // It leaves isolated CPUs and those without a tick alone by itself.
    let list = |file: &str| s.list(&format!("/sys/devices/system/cpu/{file}")).unwrap_or_default();
    let open = s.scope.cpus.without(&banned).without(&list("isolated")).without(&list("nohz_full"));
    let read = ban.map_or_else(
        || ("IRQBALANCE_BANNED_CPULIST".to_owned(), "not set".to_owned()),
        |(path, cpus)| (path, cpus.to_string()),
    );
    Ok(vec![if !s.is_scoped() {
        note("irqbalance runs and moves interrupts").read_name(task).tune("service.irqbalance", "stopped")
    } else if open.is_empty() {
        ok(format!("irqbalance runs and leaves CPU {} alone", s.scope.cpus)).read(read.0, read.1)
    } else {
        bad(format!("irqbalance runs and may put interrupts on CPU {open}"))
            .read_name(task)
            .read(read.0, read.1)
            .tune("service.irqbalance", "stopped")
    }])
}

fn threads(s: &Subject<'_>) -> Answer {
    let threads: Vec<&Task> = s.tasks().iter().filter(|task| task.handles_interrupt()).collect();
    let irq_of = |task: &Task| {
        let number = irq_of_thread(&task.key.name)?;
        s.irqs().iter().find(|irq| irq.number == number)
    };
    let mut found = Vec::new();
    let ours = s.tasks().iter().filter(|task| !task.kernel && task.is_real_time()).map(|task| task.priority).max();
    // Where a device was named, the priority of its threads is what counts.
    let invited = invited(s);
    let of_nic = |task: &&Task| irq_of(task).is_some_and(|irq| invited.contains(&irq.number));
    let own: Vec<&Task> = threads.iter().copied().filter(of_nic).collect();
    let ranked = if own.is_empty() { &threads } else { &own };
    let Some(lowest) = ranked.iter().min_by_key(|task| task.priority) else {
        return Err(Skip::not_here("no interrupt has a thread"));
    };
    // It follows the interrupt, which may not have moved yet.
    let is_wide = |task: &Task, irq: &Irq| !task.allowed.is_within(&irq.asked.union(irq.cpus()));
    let wide: Vec<(&Task, &Irq)> = threads
        .iter()
        .filter_map(|task| Some((*task, irq_of(task)?)))
        .filter(|(task, irq)| is_wide(task, irq))
        .collect();
    if let Some((task, irq)) = wide.first() {
        let text = format!(
            "{} may run where the interrupt may not: {}",
            count(wide.len(), "interrupt thread"),
            some_of(wide.iter().map(|(task, _)| &task.key.name), 3)
        );
        found.push(
            warning(text)
                .read_allowed(task)
                .command(format!("echo {} > {}", irq.asked, irq.asked_path()))
                .advice("the thread follows when its interrupt next comes; never move it as a task"),
        );
    }
    if let Some(ours) = ours.filter(|ours| *ours > lowest.priority) {
        let priority = lowest.priority;
        let text = format!("a real-time task of priority {ours} outranks interrupt threads of priority {priority}");
        let answer = note(text).read_policy(lowest);
        found.push(match (&s.scope.nic, ours) {
            (Some(nic), ..99) => answer.tune_nic(nic, "nic.thread-policy", format!("fifo:{}", ours + 1)),
            _ => answer.advice("give the NIC's interrupt threads the higher priority, or the application a lower one"),
        });
    }
    found_or(found, || {
        let of = s.scope.nic.as_ref().filter(|_| !own.is_empty()).map_or_else(String::new, |nic| format!(" of {nic}"));
        let what = count(ranked.len(), "interrupt thread");
        ok(format!("{what}{of}, the lowest with {}", lowest.policy_words())).read_policy(lowest)
    })
}
