//! The applications that run in real-time classes now, and what only a comparison or a run can tell.

use super::check::{Answer, Check, checks, note, ok, some_of, warning};
use super::sched;
use super::subject::{Skip, Subject};
use host::tasks::{Task, status_field};
use std::collections::BTreeMap;

pub(super) const CHECKS: &[Check] = checks![
    "app.memlock" by Once(sched::locks_memory),
        reads "RLIMIT_MEMLOCK, CAP_IPC_LOCK",
        when "memory may not be locked",
        why "`--mlock` fails, and pages that are not locked may be taken away",
        on [Kernel("mlock(2)")];
    "app.mlock" by Once(mlock),
        reads "VmLck of processes in a real-time class",
        when "such a process has locked no memory",
        why "its first touch of a page, or of one that was taken away, is a page fault",
        on [Kernel("mlock(2)")];
    "app.faults" by Once(faults),
        reads "page faults of processes in a real-time class while measuring",
        when "they have some",
        why "a page fault takes microseconds, a major one a disk access",
        on [Kernel("mlock(2)")];
    "peer.match" by Once(peer),
        reads "two saved documents",
        when "kernel, settings, NIC firmware or findings of the two ends differ",
        why "half of each round trip is the other end's: both must be prepared alike",
        on [Papers];
];

fn real_time<'a>(s: &'a Subject<'_>) -> Vec<&'a Task> {
    let mut processes: BTreeMap<i32, &Task> = BTreeMap::new();
    for task in s.tasks().iter().filter(|task| !task.kernel && task.is_real_time()) {
        processes.entry(task.process).or_insert(task);
    }
    processes.into_values().collect()
}

fn mlock(s: &Subject<'_>) -> Answer {
    let found = real_time(s);
    if found.is_empty() {
        return Err(Skip::not_here("no process runs in a real-time class now"));
    }
    let locked = |task: &Task| {
        let status = s.maybe(&format!("/proc/{}/status", task.process))?;
        status_field(&status, "VmLck").map(str::to_owned)
    };
    let loose: Vec<&Task> =
        found.into_iter().filter(|task| locked(task).is_some_and(|size| size.starts_with("0 "))).collect();
    Ok(vec![match loose.first() {
        None => ok("all processes in real-time classes have locked memory"),
        Some(first) => {
            let names =
                loose.iter().map(|task| format!("{} ({}, {})", task.key.name, task.process, task.policy_words()));
            warning(format!("in a real-time class without locked memory: {}", some_of(names, 3)))
                .read(format!("/proc/{}/status VmLck", first.process), "0 kB")
                .command("windhover run --mlock -s fifo -P 1 -- COMMAND")
        }
    }])
}

fn faults(s: &Subject<'_>) -> Answer {
    let Some(measured) = &s.snapshot.measured else { return Err(Skip::not_asked("needs --measure")) };
    if measured.faults.is_empty() {
        return Err(Skip::not_here("no process ran in a real-time class while measuring"));
    }
    let had: Vec<String> = measured
        .faults
        .iter()
        .filter(|(_, faults)| **faults > 0)
        .map(|(name, faults)| format!("{name}: {faults}"))
        .collect();
    Ok(vec![if had.is_empty() {
        ok("processes in real-time classes had no page fault")
    } else {
        note(format!("page faults in {:.1} s: {}", measured.seconds(), some_of(&had, 4)))
            .read("/proc/PID/stat minflt, majflt", some_of(&had, 8))
            .command("windhover run --mlock -s fifo -P 1 -- COMMAND")
    }])
}

fn peer(_: &Subject<'_>) -> Answer {
    Err(Skip::not_asked("compare the two ends: windhover doctor --save A at each, then windhover doctor diff A B"))
}
