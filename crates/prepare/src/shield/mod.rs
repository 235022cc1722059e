//! Keeps everything off chosen CPUs that was not placed there, as RedHawk's shield(1) does.
//!
//! [`plan`] looks at the machine and says what would be changed, or why a shield is refused; it changes nothing and needs
//! no privilege. [`apply`] carries a plan out through the undo log, [`reset`] puts everything back, [`status`] tells what is
//! true at the moment, [`Guard`] keeps it true.

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

pub use apply::{Aside, Shielded, apply, reset, step_aside};
pub use backend::Availability;
pub use error::ShieldError;
pub use guard::{Drift, Guard};
pub use list::{CpuListError, cpus};
pub use plan::{ShieldPlan, plan};
pub use status::{CpuStatus, Status, attainable, status};
pub use steps::{SetStep, Step, SweepKind, SweepStep};

use host::tasks::Task;

/// What a change set of a shield is called in its header.
pub const WHAT: &str = "shield";

/// Names of tasks for people: each once, with how many there are.
fn names(tasks: &[&Task]) -> String {
    const MOST: usize = 12;
    let mut counted: Vec<(String, usize)> = Vec::new();
    for task in tasks {
        match counted.iter_mut().find(|(name, _)| *name == task.key.name) {
            Some((_, count)) => *count += 1,
            None => counted.push((task.key.name.clone(), 1)),
        }
    }
    let more = counted.len().saturating_sub(MOST);
    let word = |(name, count): &(String, usize)| if *count == 1 { name.clone() } else { format!("{name} ({count})") };
    let mut words: Vec<String> = counted.iter().take(MOST).map(word).collect();
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    words.join(", ")
}

/// Whether a task may be moved at all: not what belongs to a CPU, what follows an interrupt, and what makes the kernel's
/// threads, which would inherit its CPUs.
fn is_movable(task: &Task) -> bool {
    let makes_threads = task.kernel && task.key.name == "kthreadd";
    !(task.fixed || task.handles_interrupt() || makes_threads)
}

/// The name of the task that a knob is a property of.
fn task_name(knob: &host::knob::Knob) -> Option<&str> {
    use host::knob::Knob::{Affinity, Member, Scheduling};
    match knob {
        Member { task, .. } | Affinity { task } | Scheduling { task } => Some(&task.name),
        _ => None,
    }
}

/// Tells of tasks that nobody can move away.
fn say_stuck(out: &mut steps::Steps<'_>, fixed: &[&Task]) {
    let shielded = &out.view.spec.processes;
    let (handlers, others): (Vec<&Task>, Vec<&Task>) = fixed.iter().partition(|task| task.handles_interrupt());
    let (makers, bound): (Vec<&Task>, Vec<&Task>) = others.iter().partition(|task| !task.fixed);
    let bound: Vec<&Task> =
        bound.into_iter().filter(|task| task.allowed.as_ref().is_some_and(|cpus| cpus.is_within(shielded))).collect();
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
