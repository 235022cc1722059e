//! No control groups: the CPUs of every task are rewritten, what a guard has to repeat. What the papers' cpuguard did.

use super::steps::{Steps, SweepKind};
use super::view::View;
use host::knob::Knob;
use host::tasks::Task;
use host::undo::Change;

pub(super) fn steps(out: &mut Steps<'_>) {
    let view = out.view;
    out.sweep(SweepKind::Affinity, moves(view));
    let on = |task: &&Task| view.allowed(task).meets(&view.spec.processes);
    let fixed: Vec<&Task> = view.tasks.iter().filter(on).filter(|task| !super::is_movable(task)).collect();
    super::say_stuck(out, &fixed);
    let stays = |task: &&Task| on(task) && super::is_movable(task) && leaves(view, task);
    let protected: Vec<&Task> =
        view.tasks.iter().filter(stays).filter(|task| is_spared(view, task) && !view.is_kept(task)).collect();
    if !protected.is_empty() {
        out.note(format!(
            "PID 1 and this command's own ancestors keep their CPUs, and so does what they start: {} (--include-ancestors moves them too)",
            super::names(&protected)
        ));
    }
    out.note(
        "backend affinity: nothing stops a task from coming back, and new ones inherit the CPUs of what started them: --guard repeats it; CPUs that were inherited meanwhile stay after a reset",
    );
}

/// Whether a task may run on a shielded CPU and elsewhere.
fn leaves(view: &View<'_>, task: &Task) -> bool {
    let allowed = view.allowed(task);
    allowed.meets(&view.spec.processes) && !allowed.is_within(&view.spec.processes)
}

fn is_spared(view: &View<'_>, task: &Task) -> bool {
    view.is_protected(task) && !view.spec.include_ancestors
}

/// The tasks whose CPUs are to be rewritten now. This process itself always goes.
pub(super) fn moves(view: &View<'_>) -> Vec<Change> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let mut tasks: Vec<&Task> = view
        .tasks
        .iter()
        .filter(|task| super::is_movable(task) && leaves(view, task) && !view.is_kept(task))
        .filter(|task| !is_spared(view, task) || task.process == own)
        .collect();
    // Whoever sweeps goes first.
    tasks.sort_by_key(|task| task.process != own);
    let change = |task: &Task| {
        let left = view.allowed(task).without(&view.spec.processes);
        Change::new(Knob::Affinity { task: task.key.clone() }, left.to_string(), "everything leaves the shielded CPUs")
    };
    tasks.into_iter().map(change).collect()
}
