//! Cpusets of control group version 1: one set for everything, one for the shielded CPUs. The sweep moves each task
//! that can come back unchanged, PID 1 and our ancestors too: what they start must stay away.

use super::layout::{Cpusets, Foreign};
use super::steps::{Steps, SweepKind};
use super::view::View;
use host::knob::{Form, Knob};
use host::tasks::Task;
use host::undo::Change;
use model::CpuList;

/// The steps that keep processes away, before anything else is done.
pub(super) fn steps(v1: &Cpusets, out: &mut Steps<'_>) {
    let view = out.view;
    let shielded = &view.spec.processes;
    let (system, shield) = (v1.system(), v1.shield());
    let mems = mems(view, v1);
    out.group(system.clone(), "everything else");
    out.require(file(&system, "cpuset.mems"), mems.system.to_string(), "memory of everything else");
    out.require(file(&system, "cpuset.cpus"), view.housekeeping.to_string(), "CPUs of everything else");
    out.group(shield.clone(), "what belongs on the shielded CPUs");
    out.require(file(&shield, "cpuset.mems"), mems.all.to_string(), "memory of what belongs there");
    out.require(file(&shield, "cpuset.cpus"), shielded.to_string(), "the shielded CPUs");

    // A kernel that forgets a task's own mask could not restore it: it stays in the root set, which has all CPUs.
    let joins = |task: &&Task| belongs_there(view, v1, task) && comes_back(view, task);
    for task in view.tasks.iter().filter(joins) {
        let knob = Knob::Member { hierarchy: v1.root.clone(), task: task.key.clone() };
        out.wish(knob, shield.display().to_string(), "it may run on shielded CPUs only: it stays");
    }
    let (inside, others): (Vec<&Foreign>, Vec<&Foreign>) =
        foreign(view, v1).filter(|group| group.cpus.meets(shielded)).partition(|group| group.cpus.is_within(shielded));
    // A set's CPUs hold those of the sets in it: the innermost goes first.
    let mut others = others;
    others.sort_by_key(|group| std::cmp::Reverse(group.depth));
    for group in others {
        let left = group.cpus.without(shielded);
        out.require(file(&group.path, "cpuset.cpus"), left.to_string(), "another's cpuset: the shielded CPUs leave it");
    }
    for group in &inside {
        out.note(format!("{} has shielded CPUs only: what is in it stays", group.path.display()));
    }
    let moves = moves(view, v1);
    told(&moves, out);
    out.sweep(SweepKind::Cpuset, moves);
    if inside.is_empty() {
        let why = "no other cpuset may be made with these CPUs";
        out.wish_in(&shield, "cpuset.cpu_exclusive", Form::Text, "1", why);
    }
    let why = "the scheduler balances nothing onto the shielded CPUs";
    out.wish_in(&shield, "cpuset.sched_load_balance", Form::Text, "0", why);
    out.wish(Knob::text(v1.root.join("cpuset.sched_load_balance")), "0", why);
    narrow(v1, out);
    stuck(v1, out);
}

/// Says that the processes everything else descends from are moved as well.
fn told(moves: &[Change], out: &mut Steps<'_>) {
    let view = out.view;
    let moved = |task: &&Task| {
        let knob = |change: &Change| matches!(&change.knob, Knob::Member { task: moved, .. } if *moved == task.key);
        view.is_protected(task) && moves.iter().any(knob)
    };
    let protected: Vec<&Task> = view.tasks.iter().filter(moved).collect();
    if !protected.is_empty() {
        out.note(format!(
            "PID 1 and this command's own ancestors leave too, because what they start has to: {} (--keep PID leaves one where it is)",
            super::names(&protected)
        ));
    }
}

fn file(group: &std::path::Path, name: &str) -> Knob {
    Knob::file(group.join(name), Form::CpuList)
}

struct Mems {
    all: CpuList,
    system: CpuList,
}

fn mems(view: &View<'_>, v1: &Cpusets) -> Mems {
    let root = view.value(&file(&v1.root, "cpuset.mems")).and_then(|text| text.parse::<CpuList>().ok());
    let all = root.unwrap_or_else(|| [0].into_iter().collect());
    let system = all.without(&view.topology.nodes_of(&view.spec.memory));
    Mems { system: if system.is_empty() { all.clone() } else { system }, all }
}

fn foreign<'v>(view: &'v View<'_>, v1: &'v Cpusets) -> impl Iterator<Item = &'v Foreign> {
    view.foreign.iter().filter(|group| group.path.starts_with(&v1.root))
}

/// Whether a task may run on shielded CPUs only, and can be moved: it stays there.
fn belongs_there(view: &View<'_>, v1: &Cpusets, task: &Task) -> bool {
    let allowed = view.allowed(task);
    !task.kernel
        && !allowed.is_empty()
        && allowed.is_within(&view.spec.processes)
        && i32::try_from(std::process::id()) != Ok(task.process)
        && group_of(view, v1, task) != TaskGroup::Shield
        // Whoever was put into a set of its own by another keeps it.
        && !foreign(view, v1).any(|group| group.cpus.is_within(&view.spec.processes) && is_in(v1, task, &group.path))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskGroup {
    Root,
    System,
    Shield,
    Other,
}

fn group_of(view: &View<'_>, v1: &Cpusets, task: &Task) -> TaskGroup {
    let path = match task.group("cpuset") {
        Some("/") => return TaskGroup::Root,
        Some(path) => v1.root.join(path.trim_start_matches('/')),
        None => return TaskGroup::Other,
    };
    // A group of ours that the replaced shield's end removes gives its tasks to the root.
    let ours = path == v1.shield() || path == v1.system();
    if ours && view.after.get(&Knob::Group { path: path.clone() }).is_some_and(|value| value == "absent") {
        return TaskGroup::Root;
    }
    if path == v1.shield() {
        TaskGroup::Shield
    } else if path == v1.system() {
        TaskGroup::System
    } else {
        TaskGroup::Other
    }
}

fn is_in(v1: &Cpusets, task: &Task, group: &std::path::Path) -> bool {
    task.group("cpuset").is_some_and(|path| v1.root.join(path.trim_start_matches('/')).starts_with(group))
}

/// Whether a task is as before after a cpuset: one that never asked for CPUs; others where the kernel remembers theirs.
fn comes_back(view: &View<'_>, task: &Task) -> bool {
    let all = view.topology.online.is_within(&view.allowed(task));
    all || (!task.kernel && view.remembers_masks() && view.topology.isolated.is_empty())
}

/// The tasks of the root set that go to the system's.
pub(super) fn moves(view: &View<'_>, v1: &Cpusets) -> Vec<Change> {
    let system = v1.system().display().to_string();
    view.tasks
        .iter()
        .filter(|task| group_of(view, v1, task) == TaskGroup::Root)
        .filter(|task| super::is_movable(task) && comes_back(view, task) && !view.is_kept(task))
        .filter(|task| !belongs_there(view, v1, task))
        .filter(|task| !task.kernel || !view.allowed(task).is_within(&view.spec.processes))
        .map(|task| {
            let knob = Knob::Member { hierarchy: v1.root.clone(), task: task.key.clone() };
            Change::new(knob, &system, "everything leaves the shielded CPUs")
        })
        .collect()
}

/// Tasks that a cpuset would not give back as they were keep their set and lose the shielded CPUs by name.
fn narrow(v1: &Cpusets, out: &mut Steps<'_>) {
    let view = out.view;
    for task in &view.tasks {
        let allowed = view.allowed(task);
        let stays = group_of(view, v1, task) == TaskGroup::Root && super::is_movable(task) && !comes_back(view, task);
        let left = allowed.without(&view.spec.processes);
        if stays && allowed.meets(&view.spec.processes) && !left.is_empty() && !view.is_kept(task) {
            let knob = Knob::Affinity { task: task.key.clone() };
            out.wish(knob, left.to_string(), "a cpuset would not give its CPUs back as they are");
        }
    }
}

/// Names what stays on the shielded CPUs.
fn stuck(v1: &Cpusets, out: &mut Steps<'_>) {
    let view = out.view;
    let on =
        |task: &&Task| group_of(view, v1, task) == TaskGroup::Root && view.allowed(task).meets(&view.spec.processes);
    let fixed: Vec<&Task> = view.tasks.iter().filter(on).filter(|task| !super::is_movable(task)).collect();
    super::say_stuck(out, &fixed);
    let kept: Vec<&Task> = view.tasks.iter().filter(on).filter(|task| view.is_kept(task)).collect();
    if !kept.is_empty() {
        out.note(format!("kept as asked, and so may what they start: {}", super::names(&kept)));
    }
}
