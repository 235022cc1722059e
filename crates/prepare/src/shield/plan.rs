//! What would be changed, in order, or why a shield is refused. Pure over the system's files.

use super::layout::Cpusets;
use super::steps::{ShieldStep, Steps, SweepKind};
use super::view::{View, taken};
use super::{ShieldError, affinity, backend, irqs, nic, topology::Topology, v1, v2};
use crate::Kernel;
use host::knob::{Form, Knob};
use host::shield::ShieldState;
use host::undo::{SetId, StateDir};
use model::{CpuList, ShieldBackend, ShieldSpec};
use std::path::PathBuf;

/// A shield to put up: all that would be done.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ShieldPlan {
    pub spec: ShieldSpec,
    /// What will keep others away; never `auto`.
    pub backend: ShieldBackend,
    pub reasons: Vec<String>,
    /// Change sets that are put back first: another shield, or one that was never finished.
    pub replaces: Vec<SetId>,
    /// The change set of this very shield, which is up: what the steps repair is added to it.
    pub extends: Option<SetId>,
    /// Where everything else goes.
    pub housekeeping: CpuList,
    pub steps: Vec<ShieldStep>,
    /// What is worth knowing: one line each.
    pub notes: Vec<String>,
    /// What was asked for and cannot be had, with the remedy: one line each.
    pub lacks: Vec<String>,
    pub group: Option<PathBuf>,
    /// Whether single threads may enter it.
    pub by_thread: bool,
}

impl ShieldPlan {
    pub fn is_done(&self) -> bool {
        self.steps.is_empty() && self.replaces.is_empty()
    }

    /// How many settings and tasks are changed.
    pub fn changes(&self) -> usize {
        let of = |step: &ShieldStep| match step {
            ShieldStep::Set(_) => 1,
            ShieldStep::Sweep(sweep) if sweep.kind == SweepKind::Remember => 0,
            ShieldStep::Sweep(sweep) => sweep.moves.len(),
        };
        self.steps.iter().map(of).sum()
    }
}

/// What would be done for a shield; an error where a rule refuses it (exit code 2) or a fact cannot be read.
pub fn plan(spec: &ShieldSpec, kernel: &Kernel, state: &StateDir) -> Result<ShieldPlan, ShieldError> {
    let mut view = View::read(kernel, state, spec)?;
    let same = same(&view);
    let keep_set = same.as_ref().map(|shield| shield.set.clone());
    let replaces: Vec<SetId> =
        view.sets.iter().rev().map(|(id, _)| id.clone()).filter(|id| Some(id) != keep_set.as_ref()).collect();
    for set in &replaces {
        for held in state.changes(set)?.into_iter().rev() {
            view.after.insert(held.knob, held.before);
        }
    }
    rules(&view)?;
    let (backend, reasons) = match &same {
        Some(shield) => (shield.backend, vec!["it is up already".to_owned()]),
        None if spec.processes.is_empty() => {
            (ShieldBackend::Affinity, vec!["nothing is asked for processes".to_owned()])
        }
        None => backend::choose(spec, &view.layout, &view.topology)?,
    };
    backend_rules(&view, backend)?;
    let maps = nic::maps(&view)?;
    let mut out = Steps::new(&view);
    let cpusets = view.layout.of(backend).filter(|_| !spec.processes.is_empty());
    if !spec.processes.is_empty() {
        match (backend, cpusets) {
            (ShieldBackend::V2, Some(v2)) => v2::steps(v2, &mut out),
            (ShieldBackend::V1, Some(v1)) => v1::steps(v1, &mut out),
            (ShieldBackend::Affinity, _) => affinity::steps(&mut out),
            _ => out.note("the CPUs were isolated at boot: only interrupts and workqueues are looked after"),
        }
        workers(backend, &mut out);
    }
    irqs::steps(&mut out, &nic::invited(&maps));
    nic::steps(&maps, backend, &mut out);
    siblings(&mut out);
    timers(&mut out);
    real_time(&mut out);
    let Steps { steps, notes, lacks, .. } = out;
    Ok(ShieldPlan {
        spec: spec.clone(),
        backend,
        reasons,
        replaces,
        extends: keep_set,
        housekeeping: view.housekeeping.clone(),
        steps,
        notes,
        lacks,
        group: cpusets.map(Cpusets::shield),
        by_thread: cpusets.is_some(),
    })
}

/// The shield that is up, if it is the one asked for.
fn same(view: &View<'_>) -> Option<ShieldState> {
    let current = view.current.clone()?;
    let known = view.sets.iter().any(|(id, _)| *id == current.set);
    let as_asked = ShieldSpec { backend: view.spec.backend, ..current.spec.clone() } == *view.spec;
    let backend = [ShieldBackend::Auto, current.backend].contains(&view.spec.backend);
    (known && as_asked && backend).then_some(current)
}

fn rules(view: &View<'_>) -> Result<(), ShieldError> {
    let (spec, topology) = (view.spec, &view.topology);
    let lists = [&spec.processes, &spec.interrupts, &spec.timers, &spec.memory];
    let all = lists.into_iter().fold(CpuList::default(), |all, list| all.union(list));
    if all.is_empty() {
        return ShieldError::refused("no CPU is named: use -a LIST, or -p, -i, -l, -m for one attribute alone");
    }
    let online = &topology.online;
    let unknown = all.without(online);
    if !unknown.is_empty() {
        return ShieldError::refused(format!("CPU {unknown} does not exist here or is offline: use some of {online}"));
    }
    // Linux numbers the CPU that the machine booted on 0.
    if all.contains(0) && !spec.allow_boot_cpu {
        return ShieldError::refused(
            "CPU 0 is the boot CPU, which keeps duties that cannot be moved: choose another one, or add --allow-boot-cpu",
        );
    }
    let no_housekeeping = |whom: &str, asked: &CpuList, gone: &str| {
        ShieldError::refused(format!(
            "no CPU would be left for {whom}: {asked} is to be shielded{gone}; leave at least one of {online} out"
        ))
    };
    if view.housekeeping.is_empty() && !spec.processes.is_empty() {
        let mut gone = String::new();
        if !topology.isolated.is_empty() {
            gone.push_str(&format!(", {} is isolated at boot", topology.isolated));
        }
        let others = taken(&view.foreign);
        if !others.is_empty() {
            gone.push_str(&format!(", {others} belongs to partitions of others"));
        }
        let offline = topology.present.without(online);
        if !offline.is_empty() {
            gone.push_str(&format!(", {offline} is offline"));
        }
        return no_housekeeping("everything else", &spec.processes, &gone);
    }
    if online.is_within(&spec.interrupts) {
        return no_housekeeping("device interrupts", &spec.interrupts, "");
    }
    memory_rules(view)
}

fn memory_rules(view: &View<'_>) -> Result<(), ShieldError> {
    let (spec, topology) = (view.spec, &view.topology);
    if spec.memory.is_empty() {
        return Ok(());
    }
    let nodes = topology.nodes_of(&spec.memory);
    let left = topology.nodes.keys().filter(|node| !nodes.contains(**node)).count();
    if nodes.is_empty() || left == 0 {
        return ShieldError::refused(format!(
            "no memory node would be left for everything else: CPU {} belongs to node {nodes}, and there is no other; leave -m out",
            spec.memory
        ));
    }
    if !spec.memory.is_within(&spec.processes) {
        let alone = spec.memory.without(&spec.processes);
        let why = "memory is closed to others only together with its CPUs";
        return ShieldError::refused(format!("-m: {why}: add CPU {alone} to -p"));
    }
    Ok(())
}

fn backend_rules(view: &View<'_>, backend: ShieldBackend) -> Result<(), ShieldError> {
    let spec = view.spec;
    let grouped = matches!(backend, ShieldBackend::V2 | ShieldBackend::V1);
    if !spec.memory.is_empty() && !grouped {
        return backend::unusable(backend, "memory nodes are closed to others by cpusets alone");
    }
    if backend == ShieldBackend::V2 && !spec.keep.is_empty() {
        return ShieldError::refused(format!(
            "--keep {}: a v2 partition is closed to all but its members: use --backend v1 or affinity, or place it there by `windhover run -b`",
            spec.keep.join(", ")
        ));
    }
    let Some(cpusets) = view.layout.of(backend) else { return Ok(()) };
    v2::check(view, &cpusets.root)?;
    let ours = [cpusets.shield(), cpusets.system()];
    if view.sets.is_empty()
        && let Some(path) = ours.into_iter().find(|path| view.machine().is_directory(path))
    {
        return ShieldError::refused(format!(
            "{} is there, but no undo log in {} made it: use the state directory that it was made with, or `windhover shield --reset --force`, which removes it",
            path.display(),
            view.state.path().display()
        ));
    }
    Ok(())
}

/// Kernel work that may run on any CPU: unbound workqueues, the watchdog.
fn workers(backend: ShieldBackend, out: &mut Steps<'_>) {
    let view = out.view;
    let shielded = &view.spec.processes;
    let queues = "/sys/devices/virtual/workqueue";
    // Newer kernels take isolated partitions out of these masks themselves.
    let by_kernel = backend == ShieldBackend::V2 && view.machine().exists(format!("{queues}/cpumask_isolated"));
    for file in ["cpumask", "writeback/cpumask"] {
        let knob = Knob::file(format!("{queues}/{file}"), Form::CpuMask);
        let mask = view.value(&knob).and_then(|text| CpuList::from_mask(&text)).unwrap_or_default();
        let left = mask.without(shielded);
        if !by_kernel && mask.meets(shielded) && !left.is_empty() {
            out.wish(knob, left.to_mask(), "work that the kernel may do on any CPU leaves the shielded ones");
        }
    }
    let knob = Knob::file("/proc/sys/kernel/watchdog_cpumask", Form::CpuList);
    let watched = view.value(&knob).and_then(|text| text.parse::<CpuList>().ok()).unwrap_or_default();
    let left = watched.without(shielded);
    if watched.meets(shielded) && !left.is_empty() {
        out.wish(knob, left.to_string(), "the lockup watchdog's timer and thread leave the shielded CPUs");
    }
}

fn siblings(out: &mut Steps<'_>) {
    let view = out.view;
    for cpu in view.spec.processes.iter() {
        let open = view.topology.core_of(cpu).without(&view.spec.processes);
        if !open.is_empty() {
            out.note(format!(
                "CPU {cpu} shares its core with CPU {open}, which is not shielded and slows it down when busy: shield sibling:{cpu}, or take CPU {open} offline (echo 0 > /sys/devices/system/cpu/cpu{}/online)",
                open.iter().next().unwrap_or_default()
            ));
        }
    }
}

/// The words for the kernel's command line that stop the tick on some CPUs, beside those where it stops already.
pub(super) fn tickless_words(topology: &Topology, cpus: &CpuList) -> String {
    let all = topology.nohz_full.union(cpus);
    format!("nohz_full={all} rcu_nocbs={all}")
}

fn timers(out: &mut Steps<'_>) {
    let view = out.view;
    let missing = view.spec.timers.without(&view.topology.nohz_full);
    if !missing.is_empty() {
        out.lacks.push(format!(
            "the local timer of CPU {missing} cannot be stopped while the system runs: add this to the kernel's command line and boot: {}",
            tickless_words(&view.topology, &missing)
        ));
    }
    let have = view.spec.timers.common(&view.topology.nohz_full);
    if !have.is_empty() {
        out.note(format!(
            "the local timer of CPU {have} stops while a single task runs there (nohz_full); two tasks bring it back"
        ));
    }
}

/// The limit of real-time tasks, last; and the kernel's reserve for ordinary ones, which goes with it.
fn real_time(out: &mut Steps<'_>) {
    let view = out.view;
    if view.spec.processes.is_empty() {
        return;
    }
    let knob = Knob::sysctl("kernel.sched_rt_runtime_us");
    let limit = view.value(&knob);
    if view.spec.unlimited_realtime {
        out.wish(knob, "-1", "real-time tasks are never stopped for using too much time");
    } else if let Some(limit) = limit.filter(|limit| limit != "-1") {
        out.note(format!(
            "a real-time task that never sleeps is stopped after {limit} us of each period (kernel.sched_rt_runtime_us): --unlimited-rt takes that away"
        ));
    }
    let folder = "/sys/kernel/debug/sched/fair_server";
    let runtime = |cpu| Some((cpu, view.machine().trimmed(format!("{folder}/cpu{cpu}/runtime")).ok()?));
    let runtimes: Vec<(u32, String)> = view.spec.processes.iter().filter_map(runtime).collect();
    if runtimes.is_empty() {
        // It came with this version.
        if view.machine().kernel_version() >= Some((6, 12)) {
            out.note(format!(
                "whether the kernel reserves time for ordinary tasks under real-time ones (fair server) cannot be read ({folder}): it takes 50 ms a second where an ordinary task starves, and behind the shield none should"
            ));
        }
    } else if runtimes.iter().any(|(_, runtime)| runtime != "0") {
        let words: Vec<String> = runtimes.iter().map(|(cpu, runtime)| format!("CPU {cpu}: {runtime} ns")).collect();
        out.note(format!(
            "the kernel reserves time for ordinary tasks that starve under real-time ones (fair server, {}): it takes effect only while one is there, and behind the shield none should",
            words.join(", ")
        ));
    }
}
