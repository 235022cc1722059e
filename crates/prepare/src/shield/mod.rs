//! Keeps everything off chosen CPUs that was not placed there, as RedHawk's shield(1) does.
//!
//! [`plan`] plans changes without privilege, or says why a shield is refused; [`apply`] makes them through the undo
//! log, [`reset`] undoes all, [`status`] shows the present state, [`Guard`] maintains it.

mod affinity;
mod apply;
mod backend;
mod error;
mod guard;
mod irqs;
mod layout;
mod list;
mod nic;
mod plan;
mod status;
mod steps;
mod topology;
mod v1;
mod v2;
mod view;

#[cfg(test)]
mod tests;

pub use apply::{ActiveShield, AffinityGuard, apply, leave_cpus, reset};
pub use backend::Availability;
pub use error::ShieldError;
pub use guard::{Drift, Guard};
pub use list::{CpuListError, cpus};
pub use plan::{ShieldPlan, plan};
pub use status::{CpuStatus, Status, attainable, status};
pub use steps::{SetStep, ShieldStep, SweepKind, SweepStep};

use host::knob::{Knob, TaskKey};
use host::tasks::Task;

/// What a change set of a shield is called in its header.
pub const WHAT: &str = "shield";

fn names(tasks: &[&Task]) -> String {
    crate::doctor::names_of(tasks, 12)
}

/// Whether a task may be moved: not one bound to a CPU, one of an interrupt, or the parent of kernel threads.
fn is_movable(task: &Task) -> bool {
    let makes_threads = task.kernel && task.key.name == "kthreadd";
    !(task.fixed || task.handles_interrupt() || makes_threads)
}

fn task_of(knob: &Knob) -> Option<&TaskKey> {
    match knob {
        Knob::Member { task, .. } | Knob::Affinity { task } | Knob::Policy { task } => Some(task),
        _ => None,
    }
}

fn say_stuck(out: &mut steps::Steps<'_>, fixed: &[&Task]) {
    let shielded = &out.view.spec.processes;
    let (handlers, others): (Vec<&Task>, Vec<&Task>) = fixed.iter().partition(|task| task.handles_interrupt());
    let (makers, bound): (Vec<&Task>, Vec<&Task>) = others.iter().partition(|task| !task.fixed);
    let is_inside = |task: &&Task| !task.allowed.is_empty() && task.allowed.is_within(shielded);
    let bound: Vec<&Task> = bound.into_iter().filter(is_inside).collect();
    if !bound.is_empty() {
        out.note(format!("{} kernel threads are bound to these CPUs and stay: {}", bound.len(), names(&bound)));
    }
    if !makers.is_empty() {
        out.note(format!("{} stays: the kernel threads that it makes would inherit its CPUs", names(&makers)));
    }
    if !handlers.is_empty() {
        out.note(format!("threads of interrupts follow their interrupt: {}", names(&handlers)));
    }
}
