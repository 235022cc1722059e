//! Shows and changes tasks that run already.

use super::wanted::Wanted;
use crate::cli::launch::Run;
use crate::output::{Failure, Output};
use anyhow::{Context as _, anyhow};
use host::knob::{Knob, Machine, Settings as _};
use host::tasks::{self, Task};
use host::undo::StateDir;
use serde_json::json;
use std::collections::BTreeSet;
use task::{Attributes, Class};

/// Which tasks are meant: each word of the command line with the property of a task that it names.
#[derive(Debug)]
pub(super) struct Selection {
    named: Vec<(&'static str, String)>,
    all: bool,
}

impl Selection {
    /// `None` when no task is named.
    pub(super) fn of(arguments: &Run) -> Option<Self> {
        let numbers = [("process", &arguments.pid), ("thread", &arguments.tid), (GROUP, &arguments.group)];
        let words = [(USER, &arguments.user), ("task named", &arguments.name)];
        let of_number = |(what, all): (&'static str, &Vec<i32>)| -> Vec<_> {
            all.iter().map(|number| (what, number.to_string())).collect()
        };
        let of_word = |(what, all): (&'static str, &Vec<String>)| -> Vec<_> {
            all.iter().map(|word| (what, word.clone())).collect()
        };
        let named: Vec<_> =
            numbers.into_iter().flat_map(of_number).chain(words.into_iter().flat_map(of_word)).collect();
        (!named.is_empty() || arguments.all).then_some(Self { named, all: arguments.all })
    }

    /// The tasks meant among all, and what names none.
    fn pick(&self, all: &[Task], machine: &Machine) -> Result<(Vec<Task>, Vec<String>), Failure> {
        let wanted = |what| self.named.iter().any(|(named, _)| *named == what);
        let (by_group, by_user) = (wanted(GROUP), wanted(USER));
        // What each task is, in the words of the selection.
        let facts = |task: &Task| -> Vec<(&'static str, String)> {
            let of_process = |file: &str| machine.text(format!("/proc/{}/{file}", task.process)).ok();
            let group = by_group.then(|| of_process("stat")).flatten();
            let group = group.and_then(|stat| tasks::parse_stat(&stat)).map(|stat| stat.group);
            let user = by_user.then(|| of_process("status")).flatten().and_then(|status| owner(&status));
            let numbers = [("process", Some(task.process)), ("thread", Some(task.key.tid)), (GROUP, group)];
            let numbers = numbers.into_iter().filter_map(|(what, number)| Some((what, number?.to_string())));
            let user = user.map(|uid| (USER, uid.to_string()));
            numbers.chain(user).chain([("task named", task.key.name.clone())]).collect()
        };
        let mut asked = self.named.clone();
        for (_, user) in asked.iter_mut().filter(|(what, _)| *what == USER) {
            *user = uid(user, machine)?.to_string();
        }
        let (mut picked, mut used) = (Vec::new(), BTreeSet::new());
        for task in all {
            let facts = facts(task);
            let named: Vec<usize> = (0..asked.len()).filter(|&at| facts.contains(&asked[at])).collect();
            if !named.is_empty() || (self.all && !task.kernel) {
                picked.push(task.clone());
            }
            used.extend(named);
        }
        let unused = self.named.iter().enumerate().filter(|(at, _)| !used.contains(at));
        Ok((picked, unused.map(|(_, (what, word))| format!("{what} {word}")).collect()))
    }
}

const GROUP: &str = "process group";
const USER: &str = "user";

/// A user's number; names are looked up in passwd(5).
fn uid(user: &str, machine: &Machine) -> Result<u32, Failure> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    let passwd = machine.text("/etc/passwd").unwrap_or_default();
    let line = passwd.lines().find(|line| line.split(':').next() == Some(user));
    line.and_then(|line| line.split(':').nth(2)?.parse().ok())
        .ok_or_else(|| Failure::usage(anyhow!("user '{user}' is not known: use a name of /etc/passwd or a number")))
}

/// The effective user of /proc/PID/status.
fn owner(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_ascii_whitespace().nth(1)?.parse().ok()
}

pub(super) fn run(arguments: &Run, selection: &Selection, output: &Output) -> Result<u8, Failure> {
    let only_new = [
        ("--copies", arguments.copies.is_some()),
        ("--mlock", arguments.mlock.is_some()),
        ("--prefault-stack", arguments.prefault_stack.is_some()),
        ("--timer-slack", arguments.timer_slack.is_some()),
        ("--cpu-dma-latency", arguments.cpu_dma_latency.is_some()),
        ("--report", arguments.report),
    ];
    if let Some((flag, _)) = only_new.iter().find(|(_, given)| *given) {
        refuse!("{flag} is for a program that is started, not for running tasks");
    }
    let machine = Machine::running();
    let wanted = Wanted::of(arguments)?;
    let changes = wanted.changes_scheduling() || wanted.cpus.is_some();
    if !changes && !arguments.info {
        refuse!("nothing to do: say what to change (--policy, --cpus, --quantum), or --info");
    }
    if changes && selection.all {
        refuse!("--all changes nothing: it goes with --info; to keep all others off CPUs use `windhover shield`");
    }
    let (picked, unused) = selection.pick(&tasks::list(&machine), &machine)?;
    if picked.is_empty() {
        let what = if unused.is_empty() { "matching task".to_owned() } else { unused.join(", and no ") };
        return Err(Failure::new(
            1,
            anyhow!("there is no {what}: nothing was changed (see `windhover run --info --all`)"),
        ));
    }
    for what in &unused {
        output.warning(format_args!("there is no {what}"));
    }
    let mut failed = 0_usize;
    if changes {
        if let Some(task) = picked.iter().find(|task| task.handles_interrupt() && wanted.cpus.is_some()) {
            refuse!(
                "{} follows its interrupt: move that (windhover shield, or /proc/irq/N/smp_affinity_list)",
                task.key
            );
        }
        let keep = !arguments.inherit_policy;
        for task in &picked {
            if let Err(error) = change(task, &wanted, keep, &machine) {
                failed += 1;
                output.warning(format!("{}: {error:#}", task.key));
            }
        }
        let changed = picked.len() - failed;
        if !arguments.info {
            output.note(format_args!("changed {changed} of {} tasks", picked.len()));
        }
    }
    if arguments.info {
        output.result(&info(&picked, arguments.form.is_json()))?;
    }
    Ok(u8::from(failed > 0 || !unused.is_empty()))
}

/// CPUs first: a task that becomes real-time should be where it belongs already.
fn change(task: &Task, wanted: &Wanted, reset_on_fork: bool, machine: &Machine) -> anyhow::Result<()> {
    if !task.key.lives(machine) {
        return Err(anyhow!("it is gone"));
    }
    if let Some(cpus) = &wanted.cpus {
        admit(task, wanted, machine)?;
        task::set_affinity_of(task.key.tid, cpus)?;
        let got = task::allowed_cpus_of(task.key.tid)?;
        if &got != cpus {
            return Err(anyhow!("its cpuset allows only CPU {got} of {cpus}"));
        }
    }
    if wanted.changes_scheduling() {
        let now = task::attributes(task.key.tid)?;
        // A policy that only becomes another keeps what children inherit.
        let reset = if wanted.class.is_some() { reset_on_fork } else { now.is_some_and(|now| now.reset_on_fork) };
        task::set_attributes(task.key.tid, &wanted.over(now, reset))?;
    }
    Ok(())
}

/// Lets a task behind the shield when it is sent to shielded CPUs only.
fn admit(task: &Task, wanted: &Wanted, machine: &Machine) -> anyhow::Result<()> {
    let Some(shield) = host::shield::current(&StateDir::usual()) else { return Ok(()) };
    let Some(cpus) = &wanted.cpus else { return Ok(()) };
    let Some(group) = shield.group.filter(|_| cpus.iter().all(|cpu| shield.spec.processes.contains(cpu))) else {
        return Ok(());
    };
    let Some(hierarchy) = group.ancestors().find(|path| {
        path.join("cgroup.procs").exists() && path.parent().is_none_or(|parent| !parent.join("cgroup.procs").exists())
    }) else {
        return Ok(());
    };
    let knob = Knob::Member { hierarchy: hierarchy.to_owned(), task: task.key.clone() };
    machine.write(&knob, &group.display().to_string()).context("cannot enter the shield")
}

fn info(picked: &[Task], json: bool) -> String {
    let rows: Vec<_> = picked.iter().map(|task| (task, task::attributes(task.key.tid).ok().flatten())).collect();
    let online = task::online_cpus().unwrap_or_default();
    if json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(task, attributes)| {
                json!({
                    "pid": task.process,
                    "tid": task.key.tid,
                    "name": task.key.name,
                    "policy": attributes.map_or("not known".to_owned(), |attributes| policy(&attributes)),
                    "nice": attributes.map(|attributes| attributes.nice),
                    "reset_on_fork": attributes.map(|attributes| attributes.reset_on_fork),
                    "cpus": (!task.allowed.is_empty()).then(|| task.allowed.to_string()),
                    "cpu": task.cpu,
                    "kernel_thread": task.kernel,
                })
            })
            .collect();
        return format!("{}\n", json!({ "format": model::FORMAT, "tasks": rows }));
    }
    let mut text =
        format!("{:>8} {:>8}  {:<12} {:>4}  {:<12} {:>3}  NAME\n", "PID", "TID", "POLICY", "NICE", "BIAS", "CPU");
    for (task, attributes) in rows {
        let bias = match &task.allowed {
            cpus if cpus.is_empty() => "-".to_owned(),
            cpus if *cpus == online => "active".to_owned(),
            cpus => cpus.to_string(),
        };
        let nice = attributes
            .filter(|attributes| !attributes.is_real_time())
            .map_or_else(|| "-".to_owned(), |attributes| attributes.nice.to_string());
        let policy = attributes.map_or_else(|| "-".to_owned(), |attributes| policy(&attributes));
        let cpu = task.cpu.map_or_else(|| "-".to_owned(), |cpu| cpu.to_string());
        let name = if task.kernel { format!("[{}]", task.key.name) } else { task.key.name.clone() };
        let (pid, tid) = (task.process, task.key.tid);
        text.push_str(&format!("{pid:>8} {tid:>8}  {policy:<12} {nice:>4}  {bias:<12} {cpu:>3}  {name}\n"));
    }
    text
}

fn policy(attributes: &Attributes) -> String {
    match attributes.class {
        Class::Plain(policy) => policy.to_string(),
        Class::Deadline { runtime, deadline, period } => {
            format!("deadline:{}:{}:{}", runtime.as_micros(), deadline.as_micros(), period.as_micros())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc_files() {
        assert_eq!(owner("Name:\tx\nUid:\t1000\t1001\t1000\t1000\n"), Some(1001));
    }
}
