//! What is true at the moment, CPU by CPU: what the files say, not what was asked for.

use super::backend::{Availability, all};
use super::layout::{Cpusets, Layout};
use super::topology::Topology;
use super::view::View;
use super::{irqs, v2};
use crate::Kernel;
use host::knob::{Knob, Settings};
use host::tasks::Task;
use host::undo::{SetId, StateDir};
use model::{CpuList, ShieldBackend, ShieldSpec};
use std::path::Path;

#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Status {
    pub format: u32,
    /// What keeps others away, while a shield of Windhover is up.
    pub backend: Option<ShieldBackend>,
    pub set: Option<SetId>,
    pub spec: Option<ShieldSpec>,
    /// The content of the backend's own file: `isolated` of a partition.
    pub state: Option<String>,
    /// Whom it goes with, where it does not stay.
    pub owner: Option<String>,
    pub cpus: Vec<CpuStatus>,
    /// What could be used here, the best first.
    pub backends: Vec<Availability>,
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct CpuStatus {
    pub cpu: u32,
    pub online: bool,
    /// Whether no process runs there that was not placed there.
    pub procs: bool,
    /// Whether no device interrupt that can be moved goes there.
    pub irqs: bool,
    /// Whether its local timer stops.
    pub ltmrs: bool,
    /// Whether the memory of its node is closed to others.
    pub mem: bool,
    /// The other threads of its core.
    pub siblings: CpuList,
    pub node: Option<u32>,
    /// Whether everything else runs here.
    pub housekeeping: bool,
    /// Exclusive owner: `windhover`, `isolcpus`, the path of another program's group; empty: none.
    pub partition: String,
    /// Tasks that may run there although it is shielded from processes, and could be moved.
    pub leaking_tasks: Vec<String>,
    /// Device interrupts that may go there although it is shielded from them.
    pub leaking_irqs: Vec<String>,
}

/// What is true at the moment. Needs no privilege.
pub fn status(kernel: &Kernel, state: &StateDir) -> Status {
    let machine = kernel.machine();
    let topology = Topology::read(machine);
    let layout = Layout::read(machine);
    let backends = all(&layout, &topology);
    let mut notes = Vec::new();
    let none = ShieldSpec::default();
    let current = host::shield::current(state);
    let spec = current.as_ref().map_or(&none, |shield| &shield.spec);
    let view = match View::read(kernel, state, spec) {
        Ok(view) => view,
        Err(error) => {
            notes.push(error.to_string());
            return Status { format: 1, backends, notes, ..Status::default() };
        }
    };
    // A set without its announcement is one that was never finished, or whose undoing was not.
    for (id, header) in view.sets.iter().filter(|(id, _)| current.as_ref().is_none_or(|shield| shield.set != *id)) {
        notes.push(format!(
            "change set {id} ({}) was never finished: `windhover shield --reset` puts it back",
            header.command
        ));
    }
    let owner = current.as_ref().and_then(|shield| {
        let (_, header) = view.sets.iter().find(|(id, _)| *id == shield.set)?;
        Some(header.owner.as_ref()?.to_string())
    });
    let held = held(&view, current.as_ref().map(|shield| shield.backend));
    let cpus = view.topology.present.iter().map(|cpu| row(&view, &held, cpu)).collect();
    Status {
        format: 1,
        backend: current.as_ref().map(|shield| shield.backend),
        set: current.as_ref().map(|shield| shield.set.clone()),
        spec: current.as_ref().map(|shield| shield.spec.clone()),
        state: held.word,
        owner,
        cpus,
        backends,
        notes,
    }
}

#[derive(Default)]
struct CpusetState {
    /// CPUs that it keeps others off, as its files say.
    cpus: CpuList,
    nodes: CpuList,
    word: Option<String>,
    /// Directory of the group of those who may.
    group: Option<std::path::PathBuf>,
}

fn held(view: &View<'_>, backend: Option<ShieldBackend>) -> CpusetState {
    let spec = view.spec;
    let mut held = CpusetState::default();
    match (backend, backend.and_then(|backend| view.layout.of(backend))) {
        (Some(ShieldBackend::V2), Some(v2)) => hold_v2(view, v2, &mut held),
        (Some(_), Some(v1)) => hold_v1(view, v1, &mut held),
        (Some(ShieldBackend::Affinity), _) => held.cpus = spec.processes.clone(),
        (Some(ShieldBackend::Isolcpus), _) => held.cpus = spec.processes.common(&view.topology.isolated),
        _ => {}
    }
    held
}

fn hold_v2(view: &View<'_>, v2: &Cpusets, held: &mut CpusetState) {
    let word = view.kernel.read(&v2::partition_knob(v2)).unwrap_or_else(|_| "gone".to_owned());
    if word == v2::ISOLATED {
        let effective = view.machine().cpu_list(v2.shield().join("cpuset.cpus.effective"));
        held.cpus = effective.filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| view.spec.processes.clone());
    }
    held.word = Some(word);
    held.group = Some(v2.shield());
    held.nodes = view.topology.nodes_of(&view.spec.memory);
}

fn hold_v1(view: &View<'_>, v1: &Cpusets, held: &mut CpusetState) {
    let list = |group: &Path, file: &str| view.machine().cpu_list(group.join(file));
    let ours = list(&v1.shield(), "cpuset.cpus").unwrap_or_default();
    let system = list(&v1.system(), "cpuset.cpus");
    held.word = Some(if system.is_some() { "up".to_owned() } else { "gone".to_owned() });
    held.cpus = system.map(|system| ours.without(&system)).unwrap_or_default();
    held.group = Some(v1.shield());
    let mems = list(&v1.system(), "cpuset.mems").unwrap_or_default();
    held.nodes = view.topology.nodes_of(&view.spec.memory).without(&mems);
}

fn row(view: &View<'_>, held: &CpusetState, cpu: u32) -> CpuStatus {
    let topology = &view.topology;
    let online = topology.online.contains(cpu);
    let foreign = view.foreign.iter().find(|group| group.alone && group.cpus.contains(cpu));
    let isolated = topology.isolated.contains(cpu);
    let partition = if held.cpus.contains(cpu) {
        "windhover".to_owned()
    } else if let Some(group) = foreign {
        group.path.display().to_string()
    } else if isolated {
        "isolcpus".to_owned()
    } else {
        String::new()
    };
    let procs = online && (held.cpus.contains(cpu) || isolated);
    let node = topology.nodes.iter().find(|(_, cpus)| cpus.contains(cpu)).map(|(node, _)| *node);
    let mut leaking_irqs = Vec::new();
    let mut open = false;
    if online {
        for irq in host::irqs::list(view.machine()) {
            let cpus = irqs::cpus(view, &irq);
            // Those that were given shielded CPUs only belong there: the NIC that was invited.
            let refused = !irq.movable || view.was_tried(&irq.knob());
            if !refused && cpus.contains(cpu) && !cpus.is_within(&view.spec.interrupts) {
                open = true;
                if view.spec.interrupts.contains(cpu) {
                    leaking_irqs.push(irq.to_string());
                }
            }
        }
        let default = Knob::file("/proc/irq/default_smp_affinity", host::knob::Form::CpuMask);
        let mask = view.value(&default).and_then(|text| CpuList::from_mask(&text)).unwrap_or_default();
        open |= mask.contains(cpu);
    }
    CpuStatus {
        cpu,
        online,
        procs,
        irqs: online && !open,
        ltmrs: topology.nohz_full.contains(cpu),
        mem: node.is_some_and(|node| held.nodes.contains(node)),
        siblings: topology.core_of(cpu).without(&[cpu].into_iter().collect()),
        node,
        housekeeping: view.housekeeping.contains(cpu),
        partition,
        leaking_tasks: if held.cpus.contains(cpu) { leaks(view, held, cpu) } else { Vec::new() },
        leaking_irqs,
    }
}

/// Movable tasks that may run on a shielded CPU without having been placed there.
fn leaks(view: &View<'_>, held: &CpusetState, cpu: u32) -> Vec<String> {
    let inside = |task: &Task| {
        held.group.as_ref().is_some_and(|group| {
            let name = group.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let path = format!("/{name}");
            task.group("cpuset") == Some(path.as_str()) || task.group("") == Some(path.as_str())
        })
    };
    let may = |task: &&Task| {
        let allowed = view.allowed(task);
        allowed.contains(cpu) && !allowed.is_within(&view.spec.processes)
    };
    view.tasks
        .iter()
        .filter(may)
        .filter(|task| super::is_movable(task) && !inside(task))
        .map(|task| format!("{} ({})", task.key.name, task.key.tid))
        .collect()
}

/// What `-a` can have besides processes and interrupts: CPUs without a tick, CPUs whose memory can be closed, and notes.
pub fn attainable(cpus: &CpuList, kernel: &Kernel) -> (CpuList, CpuList, Vec<String>) {
    let topology = Topology::read(kernel.machine());
    let layout = Layout::read(kernel.machine());
    let mut notes = Vec::new();
    let missing = cpus.without(&topology.nohz_full);
    if !missing.is_empty() {
        notes.push(format!(
            "the local timer of CPU {missing} goes on: stopping it needs this on the kernel's command line: {}",
            super::plan::tickless_words(&topology, &missing)
        ));
    }
    let whole: CpuList = topology
        .nodes
        .values()
        .filter(|members| !members.is_empty() && members.common(&topology.online).is_within(cpus))
        .flat_map(|members| members.iter().collect::<Vec<_>>())
        .collect();
    let left = topology.nodes_of(&whole).len() < topology.nodes.len();
    let closable = left && (layout.v1.is_ok() || layout.v2.is_ok());
    let memory = if closable { whole.common(cpus) } else { CpuList::default() };
    (cpus.common(&topology.nohz_full), memory, notes)
}
