//! An isolated partition of control group version 2 (Documentation/admin-guide/cgroup-v2.rst, "cpuset.cpus.partition").
//!
//! One group directly below the root. It is threaded, so that single threads of a process can be in it: those of a
//! process that lives in the root group at once, others when their process has moved there first. The kernel itself moves
//! everything else away, kernel threads and unbound workqueues too.

use super::layout::{Cpusets, Foreign};
use super::steps::{Steps, SweepKind};
use super::view::View;
use super::{ShieldError, names};
use host::knob::{Form, Knob, TaskKey};
use host::tasks::Task;
use host::undo::Change;
use std::path::Path;

pub(super) const ISOLATED: &str = "isolated";

pub(super) fn partition_knob(v2: &Cpusets) -> Knob {
    Knob::text(v2.shield().join("cpuset.cpus.partition"))
}

pub(super) fn is_partition(knob: &Knob) -> bool {
    matches!(knob, Knob::File { path, .. } if path.ends_with("cpuset.cpus.partition"))
}

/// What to do about a partition that the kernel took and did not isolate.
pub(super) fn remedy(found: &str) -> &'static str {
    if found.contains("distribute") {
        "leave at least one CPU to everything else"
    } else if found.contains("housekeeping") {
        "these CPUs, or others, were isolated at boot: boot without isolcpus="
    } else if found.contains("exclusive") {
        "another group was given one of these CPUs: see cpuset.cpus and cpuset.cpus.exclusive of the groups beside it"
    } else {
        "another backend (--backend affinity) may do"
    }
}

/// Refuses CPUs that another has for himself.
pub(super) fn check(view: &View<'_>, root: &Path) -> Result<(), ShieldError> {
    let below = |group: &&Foreign| group.path.starts_with(root);
    let alone = view.foreign.iter().filter(below).find(|group| group.alone && group.cpus.meets(&view.spec.processes));
    match alone {
        Some(group) => ShieldError::refused(format!(
            "CPU {} belongs to {}, which is not ours: choose other CPUs, or remove that first",
            group.cpus.common(&view.spec.processes),
            group.path.display()
        )),
        None => Ok(()),
    }
}

pub(super) fn steps(v2: &Cpusets, out: &mut Steps<'_>) {
    let view = out.view;
    let shielded = &view.spec.processes;
    let shield = v2.shield();
    let control = Knob::file(v2.root.join("cgroup.subtree_control"), Form::Controllers);
    let now = view.value(&control).unwrap_or_default();
    if !now.split_ascii_whitespace().any(|name| name == "cpuset") {
        out.require(control, format!("{now} cpuset").trim(), "groups below the root get cpusets");
    }
    // Another's plain list of CPUs that shares one with a partition makes that partition invalid.
    for group in view.foreign.iter().filter(|group| group.path.starts_with(&v2.root) && group.depth == 1) {
        let left = group.cpus.without(shielded);
        if group.cpus.meets(shielded) && !left.is_empty() {
            let knob = Knob::file(group.path.join("cpuset.cpus"), Form::CpuList);
            out.require(knob, left.to_string(), "another's group: the shielded CPUs leave it");
        } else if group.cpus.meets(shielded) {
            out.note(format!(
                "{} was given shielded CPUs only: the partition takes them, and what is in it goes elsewhere",
                group.path.display()
            ));
        }
    }
    memory(v2, out);
    out.group(shield.clone(), "what belongs on the shielded CPUs");
    out.wish_in(&shield, "cgroup.type", Form::Text, "threaded", "single threads may enter it");
    let cpus = Knob::file(shield.join("cpuset.cpus"), Form::CpuList);
    out.require(cpus, shielded.to_string(), "the shielded CPUs");
    residents(v2, out);
    if view.value(&partition_knob(v2)).as_deref() != Some(ISOLATED) {
        out.sweep(SweepKind::Remember, remembered(view));
    }
    out.require(partition_knob(v2), ISOLATED, "the kernel closes these CPUs to everything else");
    stuck(out);
    out.note(
        "backend v2: a task gets onto these CPUs by `windhover run -b`, which joins the partition; a plain taskset(1) from outside is refused by the kernel",
    );
}

/// Tasks with a default mask below all CPUs: kernel threads except those of interrupts, and tasks on isolated systems.
pub(super) fn remembered(view: &View<'_>) -> Vec<Change> {
    let online = &view.topology.online;
    let at_boot = online.without(&view.topology.isolated);
    let told = |task: &&Task| {
        let allowed = view.allowed(task);
        let narrow = !allowed.is_empty() && !online.is_within(&allowed);
        let of_boot = at_boot != *online && allowed == at_boot;
        !task.fixed && narrow && (task.kernel || of_boot)
    };
    let change = |task: &Task| {
        let why = "the kernel is told the CPUs that it has, so that it gives them back";
        Change::new(Knob::Affinity { task: task.key.clone() }, view.allowed(task).to_string(), why)
    };
    view.tasks.iter().filter(told).map(change).collect()
}

/// Version 2 moves the memory in use too when a group's nodes change.
fn memory(v2: &Cpusets, out: &mut Steps<'_>) {
    let view = out.view;
    let nodes = view.topology.nodes_of(&view.spec.memory);
    if nodes.is_empty() {
        return;
    }
    let all = view.topology.nodes.keys().copied().collect::<model::CpuList>();
    let left = all.without(&nodes);
    for name in view.machine().names(&v2.root).unwrap_or_default() {
        let group = v2.root.join(&name);
        let ours = name == super::layout::SHIELD;
        if !ours && view.machine().is_directory(&group) {
            let why = "the memory of shielded nodes is left to the shield";
            out.wish(Knob::file(group.join("cpuset.mems"), Form::CpuList), left.to_string(), why);
        }
    }
    out.note("memory: tasks of the root group and of groups made later may still use the shielded nodes");
}

/// Tasks that may run on shielded CPUs only, and stay: the partition would push them off.
fn residents(v2: &Cpusets, out: &mut Steps<'_>) {
    let view = out.view;
    let shield = v2.shield();
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let mut moved: Vec<TaskKey> = Vec::new();
    for task in view.tasks.iter().filter(|task| !task.kernel && !task.fixed && task.process != own) {
        let allowed = view.allowed(task);
        let path = v2.root.join(task.group("").unwrap_or("/").trim_start_matches('/'));
        if allowed.is_empty() || !allowed.is_within(&view.spec.processes) || path == shield {
            continue;
        }
        let leader = view.tasks.iter().find(|leader| leader.key.tid == task.process).unwrap_or(task);
        if path != v2.root && !moved.contains(&leader.key) {
            let knob = Knob::Member { hierarchy: v2.root.clone(), task: leader.key.clone() };
            let why = "one of its threads belongs on the shielded CPUs: the process has to leave its group first";
            out.wish(knob, v2.root.display().to_string(), why);
            out.note(format!("{} leaves {}: limits of that group hold no more for it", leader.key, path.display()));
            moved.push(leader.key.clone());
        }
        let knob = Knob::Member { hierarchy: v2.root.clone(), task: task.key.clone() };
        out.wish(knob, shield.display().to_string(), "it may run on shielded CPUs only: it stays");
    }
}

fn stuck(out: &mut Steps<'_>) {
    let view = out.view;
    let on = |task: &&Task| task.fixed && view.allowed(task).meets(&view.spec.processes);
    // Workers of unbound queues and rescuers follow the partition; those bound to a CPU stay with it.
    let fixed: Vec<&Task> =
        view.tasks.iter().filter(on).filter(|task| view.allowed(task).is_within(&view.spec.processes)).collect();
    if !fixed.is_empty() {
        out.note(format!("{} kernel threads are bound to these CPUs and stay: {}", fixed.len(), names(&fixed)));
    }
}
