//! Carrying a plan out, and putting everything back.

use super::error::undone;
use super::layout::Layout;
use super::plan::{ShieldPlan, plan};
use super::steps::{SetStep, ShieldStep, SweepKind, SweepStep};
use super::view::View;
use super::{ShieldError, WHAT, affinity, task_of, v1, v2};
use crate::Kernel;
use crate::keeper::{self, Keeper};
use host::knob::{Knob, KnobError, Settings, TaskKey};
use host::shield::ShieldState;
use host::undo::{
    BUSY_WAIT, Change, ChangeOutcome, Changes, LOCK_WAIT, Lock, SetHeader, SetId, StateDir, UndoError, UndoReport,
    fault_point,
};
use model::{CpuList, ShieldBackend, ShieldReport};
use std::collections::HashMap;
use std::time::Instant;

/// capabilities(7)
const SYS_NICE: u32 = 23;
/// How often all tasks are looked through at least.
const LEAST_PASSES: u32 = 8;
/// How often a task is moved: one that has just been started may set its CPUs itself. But the sweep ends.
const MOST_TRIES: u32 = 3;

#[derive(Debug)]
pub struct ActiveShield {
    pub report: ShieldReport,
    pub set: Option<SetId>,
    /// Whether this call made it; otherwise it was up already, and its maker undoes it.
    pub made: bool,
    /// The process that undoes it when this one vanishes. Dropping it undoes the shield.
    pub keeper: Option<Keeper>,
}

impl ActiveShield {
    /// Takes down the shield that this call made; `None` when there is nothing to do. Knobs that resist are in the report.
    pub fn end(self, kernel: &Kernel, state: &StateDir) -> Result<Option<UndoReport>, ShieldError> {
        let Some(set) = self.set.filter(|_| self.made) else { return Ok(None) };
        let lock = lock(state)?;
        let undone = state.undo(&lock, kernel, &set, false, BUSY_WAIT);
        // The keeper needs the lock to see that nothing is left to do.
        drop(lock);
        drop(self.keeper);
        match undone {
            Ok(report) => Ok(Some(report)),
            // Somebody has reset it.
            Err(UndoError::NoSuchSet { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Plans again and applies under the lock; failures are undone. It ends with `owner`, which must be this process.
pub fn apply(
    planned: &ShieldPlan,
    kernel: &Kernel,
    state: &StateDir,
    owner: Option<TaskKey>,
    command: &str,
) -> Result<ActiveShield, ShieldError> {
    make(planned, kernel, state, owner, Some(command))
}

/// `command` is what asks for a shield; without one the shield that is up, whosever it is, is made as it was.
pub(super) fn make(
    planned: &ShieldPlan,
    kernel: &Kernel,
    state: &StateDir,
    owner: Option<TaskKey>,
    command: Option<&str>,
) -> Result<ActiveShield, ShieldError> {
    permitted(planned, kernel, state)?;
    // With plain affinity this process is the first to be swept, for as long as the shield is up.
    let guard = (planned.backend != ShieldBackend::Affinity).then(|| leave_cpus(&planned.housekeeping));
    let lock = lock(state)?;
    let mut fresh = plan(&planned.spec, kernel, state)?;
    not_anothers(&fresh, state, owner.as_ref(), command.is_none())?;
    let mut notes = Vec::new();
    if !fresh.replaces.is_empty() {
        for set in &fresh.replaces {
            let report = state.undo(&lock, kernel, set, false, BUSY_WAIT)?;
            notes.extend(report.conflicts.iter().map(ToString::to_string));
            if let Some(why) = report.failed.first() {
                return Err(ShieldError::Failed(format!(
                    "the shield that is up (change set {set}) cannot be put back: {why}; see `windhover shield --reset --force`"
                )));
            }
        }
        fresh = plan(&planned.spec, kernel, state)?;
    }
    if fresh.is_done() {
        return Ok(ActiveShield { report: report(&fresh, 0, notes), set: fresh.extends, made: false, keeper: None });
    }
    let owned = owner.is_some();
    let mut changes = match &fresh.extends {
        Some(set) => state.reopen(&lock, set)?,
        None => {
            let mut header = SetHeader::new(WHAT, command.unwrap_or(WHAT), owner);
            header.details = serde_json::to_value(&fresh.spec).unwrap_or_default();
            state.begin(&lock, &header).map_err(|error| log_failed(error, state))?
        }
    };
    let set = changes.id().clone();
    let made = fresh.extends.is_none();
    let keeper = (owned && made).then(|| keeper::start(&set, state.path())).transpose();
    let keeper = keeper.map_err(|error| {
        let what = "the process that would undo the shield when this one vanishes cannot be started";
        ShieldError::Failed(format!("{what}: {error}; nothing was changed"))
    })?;
    let mut run = Run { kernel, state, plan: &fresh, changed: 0, notes };
    let done = run.all(&mut changes).and_then(|()| announce(&fresh, &set, kernel, state));
    match done {
        Ok(()) => {
            let report = report(&fresh, run.changed, run.notes);
            drop(lock);
            drop(guard);
            Ok(ActiveShield { report, set: Some(set), made, keeper })
        }
        Err(cause) => {
            let words = if !made {
                "what was up before is still up".to_owned()
            } else if changes.is_empty() {
                "nothing was changed".to_owned()
            } else {
                undone(&state.undo(&lock, kernel, &set, false, BUSY_WAIT))
            };
            // The keeper needs the lock to see that nothing is left to do.
            drop(lock);
            drop(keeper);
            Err(ShieldError::Step { cause: Box::new(cause), undone: words })
        }
    }
}

fn report(plan: &ShieldPlan, changed: u32, notes: Vec<String>) -> ShieldReport {
    ShieldReport {
        backend: plan.backend,
        processes: plan.spec.processes.to_string(),
        interrupts: plan.spec.interrupts.to_string(),
        changed,
        notes: plan.lacks.iter().cloned().chain(notes).chain(plan.notes.iter().cloned()).collect(),
    }
}

fn announce(plan: &ShieldPlan, set: &SetId, kernel: &Kernel, state: &StateDir) -> Result<(), ShieldError> {
    if plan.extends.is_some() {
        return Ok(());
    }
    // Whether single threads may enter a group of version 2 is known when the kernel has agreed to it.
    let kind = plan.group.as_ref().and_then(|group| kernel.read(&Knob::text(group.join("cgroup.type"))).ok());
    let shield = ShieldState {
        format: 1,
        set: set.clone(),
        spec: plan.spec.clone(),
        backend: plan.backend,
        group: plan.group.clone(),
        by_thread: plan.by_thread && kind.is_none_or(|kind| kind == "threaded"),
    };
    fault_point();
    host::shield::announce(state, &shield)?;
    fault_point();
    Ok(())
}

/// Refuses to replace the shield of another living process, or one that stays by one that does not.
fn not_anothers(
    plan: &ShieldPlan,
    state: &StateDir,
    owner: Option<&TaskKey>,
    repairs: bool,
) -> Result<(), ShieldError> {
    let machine = host::knob::Machine::running();
    let current = host::shield::current(state);
    for (id, header) in state.sets()? {
        let is_up = current.as_ref().is_some_and(|shield| shield.set == id);
        // One that is as wanted already is no less its owner's: it would go in the middle of our work.
        if !plan.replaces.contains(&id) && (repairs || !is_up) {
            continue;
        }
        let theirs = header.owner.as_ref().filter(|other| Some(*other) != owner && other.lives(&machine));
        let cpus = current.as_ref().map(|shield| shield.spec.processes.clone()).unwrap_or_default();
        if let Some(other) = theirs.filter(|_| is_up) {
            return ShieldError::refused(format!(
                "the shield of CPU {cpus} goes with {other}, which is running (`{}`): wait for its end, end it, or use its shield meanwhile with `windhover run -b {cpus}`",
                header.command
            ));
        }
        if is_up && owner.is_some() && header.owner.is_none() && plan.replaces.contains(&id) {
            let remedy = "`windhover shield --reset` takes it down first";
            return ShieldError::refused(format!("another shield, of CPU {cpus}, is up and is to stay: {remedy}"));
        }
    }
    Ok(())
}

struct Run<'a> {
    kernel: &'a Kernel,
    state: &'a StateDir,
    plan: &'a ShieldPlan,
    changed: u32,
    notes: Vec<String>,
}

impl Run<'_> {
    fn all(&mut self, changes: &mut Changes) -> Result<(), ShieldError> {
        for step in &self.plan.steps {
            match step {
                ShieldStep::Set(step) => self.set(step, changes)?,
                ShieldStep::Sweep(step) => self.sweep(step, changes)?,
            }
        }
        Ok(())
    }

    fn set(&mut self, step: &SetStep, changes: &mut Changes) -> Result<(), ShieldError> {
        match changes.set(self.kernel, &step.change) {
            Ok(ChangeOutcome::Changed { .. }) => self.changed += 1,
            Ok(ChangeOutcome::Already) => {}
            Err(UndoError::Knob(KnobError::Absent(knob))) if task_of(&knob).is_some() => {}
            Err(UndoError::ReadBack { knob, found, .. }) if v2::is_partition(&knob) => {
                let Knob::File { path, .. } = *knob else { return Ok(()) };
                let (path, remedy) = (path.display(), v2::remedy(&found));
                return ShieldError::refused(format!("{path} reads back '{found}' and not 'isolated': {remedy}"));
            }
            Err(UndoError::Knob(error)) if step.tolerated => self.notes.push(format!("left as it is: {error}")),
            Err(error @ UndoError::ReadBack { .. }) if step.tolerated => {
                self.notes.push(format!("left as it is: {error}"));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn sweep(&mut self, step: &SweepStep, changes: &mut Changes) -> Result<(), ShieldError> {
        let deadline = Instant::now() + BUSY_WAIT;
        let mut view = View::read(self.kernel, self.state, &self.plan.spec)?;
        let mut tries: HashMap<TaskKey, u32> = HashMap::new();
        for pass in 0_u32.. {
            let mut moves = match (step.kind, &view.layout) {
                (SweepKind::Cpuset, Layout { v1, .. }) => v1.iter().flat_map(|v1| v1::moves(&view, v1)).collect(),
                (SweepKind::Affinity, _) => affinity::moves(&view),
                (SweepKind::Remember, _) => v2::remembered(&view),
            };
            let is_left = |task: &TaskKey| tries.get(task).is_none_or(|tries| *tries < MOST_TRIES);
            moves.retain(|change| task_of(&change.knob).is_some_and(is_left));
            if moves.is_empty() {
                return Ok(());
            }
            // Where the first pass took all of the time, the next ones find what was started meanwhile, and are short.
            if pass >= LEAST_PASSES && Instant::now() >= deadline {
                let (left, seconds) = (moves.len(), BUSY_WAIT.as_secs());
                let keys = moves.iter().filter_map(|change| task_of(&change.knob)).take(3);
                let names: Vec<String> = keys.map(|task| format!("{} ({})", task.name, task.tid)).collect();
                let why = format!("{left} were left after {seconds} s, as {}", names.join(", "));
                return Err(ShieldError::Failed(format!("tasks are started faster than they can be moved ({why})")));
            }
            fault_point();
            for change in &moves {
                let done = match step.kind {
                    SweepKind::Cpuset | SweepKind::Remember => self.kernel.write(&change.knob, &change.wanted),
                    SweepKind::Affinity => match changes.set(self.kernel, change) {
                        Ok(_) | Err(UndoError::ReadBack { .. }) => Ok(()),
                        Err(UndoError::Knob(error)) => Err(error),
                        Err(error) => return Err(error.into()),
                    },
                };
                let is_done = matches!(done, Ok(()) | Err(KnobError::Absent { .. }));
                match done {
                    Ok(()) => self.changed += u32::from(step.kind != SweepKind::Remember),
                    Err(KnobError::Absent { .. }) => {}
                    Err(error) => self.notes.push(format!("left where it is: {error}")),
                }
                let once = !is_done || step.kind == SweepKind::Remember;
                if let Some(task) = task_of(&change.knob) {
                    *tries.entry(task.clone()).or_insert(0) += if once { MOST_TRIES } else { 1 };
                }
            }
            fault_point();
            view.tasks = host::tasks::list(self.kernel.machine());
        }
        Ok(())
    }
}

/// Undoes all shields of this boot, newest first. `force`: also what others changed, and unknown groups.
pub fn reset(kernel: &Kernel, state: &StateDir, force: bool) -> Result<UndoReport, ShieldError> {
    let is_shield = |(id, header): (SetId, SetHeader)| (header.what == WHAT).then_some(id);
    let sets: Vec<SetId> = state.sets()?.into_iter().filter_map(is_shield).collect();
    let mut whole = UndoReport::default();
    if !sets.is_empty() {
        let lock = lock(state)?;
        for set in sets.iter().rev() {
            match state.undo(&lock, kernel, set, force, BUSY_WAIT) {
                Ok(report) => whole.add(report),
                // Its keeper was faster.
                Err(UndoError::NoSuchSet { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    if force {
        let _lock = lock(state)?;
        remove_left_over(kernel, &mut whole);
    }
    Ok(whole)
}

/// Removes groups of Windhover that no log knows: their tasks go to the root.
fn remove_left_over(kernel: &Kernel, whole: &mut UndoReport) {
    let layout = Layout::read(kernel.machine());
    for path in layout.v2.iter().chain(&layout.v1).flat_map(|cpusets| [cpusets.shield(), cpusets.system()]) {
        if !kernel.machine().is_directory(&path) {
            continue;
        }
        let partition = Knob::text(path.join("cpuset.cpus.partition"));
        if kernel.read(&partition).is_ok() {
            let _ = kernel.write(&partition, "member");
        }
        match kernel.write(&Knob::Group { path }, "absent") {
            Ok(()) => whole.restored += 1,
            Err(error) => whole.failed.push(error.to_string()),
        }
    }
}

/// Keeps the calling thread off shielded CPUs until it is dropped.
#[derive(Debug)]
pub struct AffinityGuard {
    before: Option<CpuList>,
}

/// Moves the calling thread to other CPUs, until the guard is dropped: whoever makes a shield must not work on it.
pub fn leave_cpus(housekeeping: &CpuList) -> AffinityGuard {
    let before = task::allowed_cpus().ok();
    let mine = before.as_ref().map(|cpus| cpus.common(housekeeping)).filter(|cpus| !cpus.is_empty());
    // Where even that is not allowed, the sweep will do it.
    let moved = task::set_affinity(mine.as_ref().unwrap_or(housekeeping)).is_ok();
    AffinityGuard { before: before.filter(|_| moved) }
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // Behind a shield the kernel gives what is left of them.
            let _ = task::set_affinity(before);
        }
    }
}

/// Finds out before anything is changed what this user may not do.
fn permitted(plan: &ShieldPlan, kernel: &Kernel, state: &StateDir) -> Result<(), ShieldError> {
    let mut denied: Vec<&Knob> = Vec::new();
    let mut tasks = false;
    for step in &plan.steps {
        let ShieldStep::Set(SetStep { change: Change { knob, .. }, .. }) = step else {
            tasks = true;
            continue;
        };
        let is_denied = match knob {
            Knob::File { path, .. } => kernel.denies(path),
            Knob::Group { path } => kernel.denies(&path.with_file_name("cgroup.procs")),
            _ => false,
        };
        tasks |= task_of(knob).is_some();
        denied.extend(is_denied.then_some(knob));
    }
    let tasks = tasks && kernel.machine().is_running() && !kernel.may(SYS_NICE);
    let files = denied.first().map(|knob| match denied.len() - 1 {
        0 => format!("{knob} cannot be written"),
        more => format!("{knob} cannot be written (and {more} more)"),
    });
    let Some(what) = files.clone().or_else(|| tasks.then(|| "other users' tasks cannot be written".to_owned())) else {
        return Ok(());
    };
    let files = files.map(|_| "CAP_DAC_OVERRIDE (files of root)");
    let tasks = tasks.then_some("CAP_SYS_NICE (other users' tasks)");
    let needed = files.into_iter().chain(tasks).collect::<Vec<_>>().join(" and ");
    Err(not_permitted(&what, &format!("{needed}, and "), state))
}

fn not_permitted(what: &str, needed: &str, state: &StateDir) -> ShieldError {
    let state = state.path().display();
    ShieldError::Failed(format!(
        "not permitted: {what}: run it as root, or give windhover {needed}write access to {state}"
    ))
}

/// An error of the undo log in words for who may not write to it.
fn log_failed(error: UndoError, state: &StateDir) -> ShieldError {
    match error {
        UndoError::Log { path, cause, .. } if cause.kind() == std::io::ErrorKind::PermissionDenied => {
            not_permitted(&format!("{} cannot be written", path.display()), "", state)
        }
        error => ShieldError::Undo(error),
    }
}

fn lock(state: &StateDir) -> Result<Lock, ShieldError> {
    state.lock(LOCK_WAIT).map_err(|error| log_failed(error, state))
}
