//! From kernel events to who touched a CPU, how often, and whether a shield forbids it. Pure, but for [`look_up`].

use super::{CpuEvidence, Gap};
use model::ShieldSpec;
use std::collections::BTreeMap;
use trace::{EventKind, TraceEvent};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VisitorKind {
    Process,
    /// A kernel thread that may run elsewhere.
    KernelThread,
    /// A kernel thread that belongs to this CPU (PF_NO_SETAFFINITY: workers, ksoftirqd, migration).
    BoundKernelThread,
    Interrupt,
    Timer,
    CrossCall,
    Softirq,
}

impl VisitorKind {
    pub fn words(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::KernelThread => "kernel thread",
            Self::BoundKernelThread => "bound kernel thread",
            Self::Interrupt => "device interrupt",
            Self::Timer => "local timer",
            Self::CrossCall => "cross-CPU interrupt",
            Self::Softirq => "softirq",
        }
    }
}

/// Somebody that touched a CPU.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Visitor {
    pub kind: VisitorKind,
    /// Its name: of the task, of the interrupt's action with its number, of the softirq or vector.
    pub name: String,
    pub count: u64,
    pub per_second: f64,
}

/// A visitor that a shield should have kept away.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Leak {
    pub cpu: u32,
    pub visitor: Visitor,
}

/// Counts who touched the CPU. `own` are the threads that spin; `kind_of` gives what a task is by its id and name.
pub fn visitors(
    events: &[TraceEvent],
    own: &[i32],
    spun_ns: u64,
    kind_of: impl Fn(i32, &str) -> VisitorKind,
) -> Vec<Visitor> {
    let mut kinds: BTreeMap<i32, VisitorKind> = BTreeMap::new();
    let mut counts: BTreeMap<(VisitorKind, String), u64> = BTreeMap::new();
    for event in events {
        let key = match &event.kind {
            EventKind::Switch { next_tid, .. } if *next_tid == 0 || own.contains(next_tid) => continue,
            EventKind::Switch { next_tid, next, .. } => {
                let kind = *kinds.entry(*next_tid).or_insert_with(|| kind_of(*next_tid, next));
                (kind, family(next))
            }
            EventKind::Interrupt { irq, name } => (VisitorKind::Interrupt, format!("{irq} {name}")),
            EventKind::Vector { name } if name == "local_timer" => (VisitorKind::Timer, "local timer".to_owned()),
            EventKind::Vector { name } => (VisitorKind::CrossCall, name.replace('_', " ")),
            EventKind::Softirq { name } => (VisitorKind::Softirq, name.clone()),
            EventKind::Other { .. } => continue,
        };
        *counts.entry(key).or_default() += 1;
    }
    let seconds = spun_ns as f64 / 1e9;
    let mut visitors: Vec<Visitor> = counts
        .into_iter()
        .map(|((kind, name), count)| Visitor { kind, name, count, per_second: count as f64 / seconds })
        .collect();
    visitors.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| (a.kind, &a.name).cmp(&(b.kind, &b.name))));
    visitors
}

/// Names that differ only by a number of the kernel's choosing are one visitor: `kworker/u9:3` and `kworker/u9:7`.
fn family(name: &str) -> String {
    match name.split_once("kworker/") {
        Some(("", rest)) => {
            let pool = rest.split([':', '-', '+']).next().unwrap_or(rest);
            format!("kworker/{pool}")
        }
        _ => name.to_owned(),
    }
}

/// Who ran in a gap, in order, each once.
pub(super) fn within(events: &[TraceEvent], own: &[i32], gap: Gap) -> Vec<String> {
    // ftrace prints whole µs, so the edges are widened by one.
    let window = gap.at_raw_ns.saturating_sub(1_000)..=gap.at_raw_ns + gap.ns + 1_000;
    let mut seen: Vec<String> = Vec::new();
    for event in events.iter().filter(|event| window.contains(&event.at_ns)) {
        let name = match &event.kind {
            EventKind::Switch { next_tid, .. } if own.contains(next_tid) => continue,
            EventKind::Switch { next_tid: 0, .. } => "idle".to_owned(),
            EventKind::Switch { next, .. } => family(next),
            EventKind::Interrupt { irq, name } => format!("interrupt {irq} {name}"),
            EventKind::Vector { name } => name.replace('_', " "),
            EventKind::Softirq { name } => format!("softirq {name}"),
            EventKind::Other { .. } => continue,
        };
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

/// Seen although shielded. Bound kernel threads, softirqs, calls of other CPUs are no leaks; timers only if promised.
pub fn leaks(seen: &CpuEvidence, spec: &ShieldSpec) -> Vec<Leak> {
    let forbidden = |visitor: &&Visitor| match visitor.kind {
        VisitorKind::Process | VisitorKind::KernelThread => spec.processes.contains(seen.cpu),
        VisitorKind::Interrupt => spec.interrupts.contains(seen.cpu),
        // A CPU without a tick still gets one now and then (the kernel's residual tick is at most 1 Hz).
        VisitorKind::Timer => spec.timers.contains(seen.cpu) && visitor.per_second > 10.0,
        VisitorKind::BoundKernelThread | VisitorKind::CrossCall | VisitorKind::Softirq => false,
    };
    seen.visitors.iter().filter(forbidden).map(|visitor| Leak { cpu: seen.cpu, visitor: visitor.clone() }).collect()
}

/// What a task is; one that has ended is judged by its name.
pub(super) fn look_up(tid: i32, name: &str) -> VisitorKind {
    match host::tasks::of(&host::knob::Machine::running(), tid) {
        Some(task) if !task.kernel => VisitorKind::Process,
        Some(task) if !task.fixed => VisitorKind::KernelThread,
        Some(_) => of_kernel(name),
        None if ["kworker/", "ksoftirqd/", "migration/", "cpuhp/"].iter().any(|start| name.starts_with(start)) => {
            of_kernel(name)
        }
        None => VisitorKind::Process,
    }
}

/// Workers of unbound queues (`kworker/u…`) may not be moved one by one, but the queues' mask moves them all.
fn of_kernel(name: &str) -> VisitorKind {
    if name.starts_with("kworker/u") { VisitorKind::KernelThread } else { VisitorKind::BoundKernelThread }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at_us: u64, kind: EventKind) -> TraceEvent {
        TraceEvent { cpu: 1, at_ns: at_us * 1000, tid: 7, task: "spin-1".to_owned(), kind }
    }

    fn switch(at_us: u64, next_tid: i32, next: &str) -> TraceEvent {
        event(at_us, EventKind::Switch { next_tid, next: next.to_owned(), next_priority: 120 })
    }

    fn kind_of(tid: i32, name: &str) -> VisitorKind {
        if tid < 100 { of_kernel(name) } else { VisitorKind::Process }
    }

    fn seen() -> CpuEvidence {
        let events = [
            switch(10, 200, "cc1"),
            switch(20, 7, "spin-1"),
            switch(30, 200, "cc1"),
            switch(31, 0, "swapper/1"),
            switch(40, 20, "kworker/1:2"),
            switch(50, 21, "kworker/u4:1-events"),
            switch(51, 22, "kworker/u4:3"),
            event(60, EventKind::Interrupt { irq: 24, name: "eth0-rx".to_owned() }),
            event(70, EventKind::Vector { name: "local_timer".to_owned() }),
            event(80, EventKind::Vector { name: "call_function".to_owned() }),
            event(90, EventKind::Softirq { name: "RCU".to_owned() }),
        ];
        CpuEvidence {
            cpu: 1,
            spun_ns: 500_000_000,
            stolen_ns: 0,
            gaps: 0,
            longest_ns: 0,
            longest_held_by: within(&events, &[7], Gap { at_raw_ns: 30_000, ns: 10_500 }),
            visitors: visitors(&events, &[7], 500_000_000, kind_of),
        }
    }

    #[test]
    fn visitors_are_counted_by_name_and_kind() {
        let seen = seen();
        let find = |name: &str| seen.visitors.iter().find(|visitor| visitor.name == name);
        let cc1 = find("cc1").unwrap();
        assert_eq!((cc1.kind, cc1.count), (VisitorKind::Process, 2));
        assert!((cc1.per_second - 4.0).abs() < 1e-9);
        assert_eq!(find("kworker/1").unwrap().kind, VisitorKind::BoundKernelThread);
        let unbound = find("kworker/u4").unwrap();
        assert_eq!((unbound.kind, unbound.count), (VisitorKind::KernelThread, 2));
        assert!(find("spin-1").is_none() && find("swapper/1").is_none());
        assert_eq!(seen.longest_held_by, ["cc1", "idle", "kworker/1"]);
    }

    #[test]
    fn a_shield_forbids_what_it_names_and_no_more() {
        let cpus = |list: &str| list.parse::<model::CpuList>().unwrap();
        let names = |spec: &ShieldSpec| {
            leaks(&seen(), spec).into_iter().map(|leak| leak.visitor.name).collect::<std::collections::BTreeSet<_>>()
        };
        let processes = ShieldSpec { processes: cpus("1"), ..ShieldSpec::default() };
        assert_eq!(names(&processes).into_iter().collect::<Vec<_>>(), ["cc1", "kworker/u4"]);
        let interrupts = ShieldSpec { interrupts: cpus("1"), ..ShieldSpec::default() };
        assert_eq!(names(&interrupts).into_iter().collect::<Vec<_>>(), ["24 eth0-rx"]);
        let elsewhere = ShieldSpec { processes: cpus("0"), interrupts: cpus("0"), ..ShieldSpec::default() };
        assert!(names(&elsewhere).is_empty());
    }
}
