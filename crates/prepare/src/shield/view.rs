//! What a plan is made from: one look at the machine.

use super::ShieldError;
use super::layout::{Foreign, Layout, foreign};
use super::topology::Topology;
use crate::Kernel;
use host::knob::{Knob, Machine, Settings};
use host::shield::ShieldState;
use host::tasks::Task;
use host::undo::{SetHeader, SetId, StateDir};
use model::{CpuList, ShieldSpec};
use std::collections::{BTreeSet, HashMap};

pub(super) struct View<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) state: &'a StateDir,
    pub(super) spec: &'a ShieldSpec,
    pub(super) topology: Topology,
    pub(super) layout: Layout,
    pub(super) tasks: Vec<Task>,
    /// This process and those that it descends from.
    pub(super) ancestors: BTreeSet<i32>,
    /// Groups of others that were given CPUs, of the hierarchies that have cpusets.
    pub(super) foreign: Vec<Foreign>,
    pub(super) current: Option<ShieldState>,
    /// Change sets of shields, oldest first.
    pub(super) sets: Vec<(SetId, SetHeader)>,
    /// Where others may run once the shield is up.
    pub(super) housekeeping: CpuList,
    /// What knobs will be once the shield that is replaced is removed.
    pub(super) after: HashMap<Knob, String>,
    /// What the shield that is up made of knobs, also of those that the kernel would not change.
    pub(super) made: HashMap<Knob, String>,
}

impl<'a> View<'a> {
    pub(super) fn read(kernel: &'a Kernel, state: &'a StateDir, spec: &'a ShieldSpec) -> Result<Self, ShieldError> {
        let machine = kernel.machine();
        let topology = Topology::read(machine);
        let layout = Layout::read(machine);
        let mut groups = Vec::new();
        for cpusets in layout.v2.iter().chain(&layout.v1) {
            groups.extend(foreign(machine, &cpusets.root));
        }
        let tasks = host::tasks::list(machine);
        let ancestors = ancestors(&tasks);
        let sets = state.sets()?.into_iter().filter(|(_, header)| header.what == super::WHAT).collect();
        let taken = taken(&groups);
        let current = host::shield::current(state);
        let mut made = HashMap::new();
        if let Some(shield) = &current {
            // Its keeper may be undoing it at this moment.
            made.extend(state.changes(&shield.set).unwrap_or_default().into_iter().map(|held| (held.knob, held.ours)));
            made.extend(state.refused(&shield.set).unwrap_or_default());
        }
        Ok(Self {
            housekeeping: topology.online.without(&spec.processes).without(&topology.isolated).without(&taken),
            current,
            made,
            after: HashMap::new(),
            foreign: groups,
            kernel,
            state,
            spec,
            topology,
            layout,
            tasks,
            ancestors,
            sets,
        })
    }

    pub(super) fn machine(&self) -> &Machine {
        self.kernel.machine()
    }

    /// A knob's value as it will be when the plan begins; `None` when the system does not have it.
    pub(super) fn value(&self, knob: &Knob) -> Option<String> {
        if let Knob::File { path, .. } = knob
            && let Some(parent) = path.parent()
            && self.after.get(&Knob::Group { path: parent.to_owned() }).is_some_and(|value| value == "absent")
        {
            return None;
        }
        match self.after.get(knob) {
            Some(value) => Some(value.clone()),
            None => self.kernel.read(knob).ok(),
        }
    }

    /// Whether the shield in force tried a knob and its value is unchanged since: the kernel would refuse it again.
    pub(super) fn was_tried(&self, knob: &Knob) -> bool {
        let ours = self.made.get(knob).filter(|_| self.after.is_empty());
        ours.is_some_and(|ours| self.value(knob).is_some_and(|now| knob.same(&now, ours)))
    }

    /// The CPUs that a task may run on, as they will be when the plan begins.
    pub(super) fn allowed(&self, task: &Task) -> CpuList {
        if !self.after.is_empty()
            && let Some(value) = self.after.get(&Knob::Affinity { task: task.key.clone() })
        {
            return value.parse().unwrap_or_default();
        }
        task.allowed.clone()
    }

    /// Whether --keep names a task: by process id, name (of thread or process) or unit (a part of its group's path).
    pub(super) fn is_kept(&self, task: &Task) -> bool {
        self.spec.keep.iter().any(|kept| {
            let leader = || self.tasks.iter().find(|leader| leader.key.tid == task.process);
            kept.parse() == Ok(task.process)
                || *kept == task.key.name
                || leader().is_some_and(|leader| *kept == leader.key.name)
                || task.groups.iter().any(|line| {
                    line.path.split('/').any(|part| part == kept || part.strip_suffix(".service") == Some(kept))
                })
        })
    }

    /// Whether a task is PID 1 or one that this process descends from.
    pub(super) fn is_protected(&self, task: &Task) -> bool {
        task.process == 1 || self.ancestors.contains(&task.process)
    }

    /// Whether the kernel remembers the CPUs that a task asked for itself while a cpuset forbids them (since 6.2).
    pub(super) fn remembers_masks(&self) -> bool {
        self.machine().kernel_version() >= Some((6, 2))
    }
}

pub(super) fn taken(groups: &[Foreign]) -> CpuList {
    groups.iter().filter(|group| group.alone).fold(CpuList::default(), |all, group| all.union(&group.cpus))
}

/// This process and those that it descends from, but not PID 1.
fn ancestors(tasks: &[Task]) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut process = i32::try_from(std::process::id()).unwrap_or(0);
    while process > 1 && found.insert(process) {
        let task = tasks.iter().find(|task| task.process == process);
        process = task.map_or(0, |task| task.parent);
    }
    found
}
