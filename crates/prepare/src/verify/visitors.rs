//! From kernel events to who touched a CPU, how often, and whether a shield forbids it. Pure, but for [`look_up`].

use super::{CpuEvidence, Gap};
use explain::event::Vector;
use explain::timeline::Activity;
use explain::{Event, Name};
use model::{CauseClass, ShieldSpec};
use std::collections::BTreeMap;

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
    /// The class of cause that it is for a thread there.
    pub class: CauseClass,
    /// Its name, as causes have it.
    pub name: String,
    /// Of a device interrupt: its number.
    pub irq: Option<u32>,
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
    events: &[Event],
    own: &[i32],
    spun_ns: u64,
    kind_of: impl Fn(i32, &str) -> VisitorKind,
) -> Vec<Visitor> {
    let mut kinds: BTreeMap<i32, VisitorKind> = BTreeMap::new();
    let mut counts: BTreeMap<(VisitorKind, CauseClass, String, Option<u32>), u64> = BTreeMap::new();
    for activity in events.iter().filter_map(|event| Activity::of(&event.kind)) {
        let Some((class, name)) = activity.cause() else { continue };
        let (kind, irq) = match activity {
            Activity::Task { tid, .. } if own.contains(&tid) => continue,
            Activity::Task { tid, .. } => (*kinds.entry(tid).or_insert_with(|| kind_of(tid, &name.to_string())), None),
            Activity::Hardirq { irq, .. } => (VisitorKind::Interrupt, Some(irq)),
            Activity::Softirq { .. } => (VisitorKind::Softirq, None),
            Activity::Vector(Vector::LocalTimer) => (VisitorKind::Timer, None),
            Activity::Vector(_) => (VisitorKind::CrossCall, None),
            Activity::Unknown | Activity::Idle => continue,
        };
        *counts.entry((kind, class, family(name), irq)).or_default() += 1;
    }
    let seconds = spun_ns as f64 / 1e9;
    let mut visitors: Vec<Visitor> = counts
        .into_iter()
        .map(|((kind, class, name, irq), count)| Visitor {
            kind,
            class,
            name,
            irq,
            count,
            per_second: count as f64 / seconds,
        })
        .collect();
    visitors.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| (a.kind, &a.name).cmp(&(b.kind, &b.name))));
    visitors
}

/// Names that differ only by a number of the kernel's choosing are one visitor: `kworker/u9:3` and `kworker/u9:7`.
fn family(name: Name) -> String {
    let name = name.to_string();
    match name.strip_prefix("kworker/").and_then(|rest| rest.split([':', '-', '+']).next()) {
        Some(pool) => format!("kworker/{pool}"),
        None => name,
    }
}

/// Who ran in a gap, in order, each once.
pub(super) fn within(events: &[Event], own: &[i32], gap: Gap) -> Vec<String> {
    let window = gap.at_ns.saturating_sub(1_000)..=gap.at_ns + gap.ns + 1_000;
    let mut seen: Vec<String> = Vec::new();
    for activity in
        events.iter().filter(|event| window.contains(&event.at_ns)).filter_map(|one| Activity::of(&one.kind))
    {
        let name = match (activity, activity.cause()) {
            (Activity::Task { tid, .. }, _) if own.contains(&tid) => continue,
            (_, Some((class, name))) => format!("{class} {}", family(name)),
            (_, None) => "idle".to_owned(),
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
    use explain::EventKind;
    use explain::event::Vector;

    fn event(at_us: u64, kind: EventKind) -> Event {
        Event { cpu: 1, at_ns: at_us * 1000, kind }
    }

    fn switch(at_us: u64, to: i32, name: &str) -> Event {
        let kind =
            EventKind::Switch { from: 7, from_state: 0, throttled: false, to, to_priority: 120, to_name: name.into() };
        event(at_us, kind)
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
            event(60, EventKind::Hardirq { ns: 900, irq: 24, name: "eth0-rx".into() }),
            event(70, EventKind::Vector { ns: 900, vector: Vector::LocalTimer }),
            event(80, EventKind::Vector { ns: 900, vector: Vector::CallFunction }),
            event(90, EventKind::Softirq { ns: 900, vector: 9, since_raise_ns: 0 }),
        ];
        CpuEvidence {
            cpu: 1,
            spun_ns: 500_000_000,
            stolen_ns: 0,
            gaps: 0,
            longest_ns: 0,
            longest_held_by: within(&events, &[7], Gap { at_ns: 30_000, ns: 10_500 }),
            visitors: visitors(&events, &[7], 500_000_000, kind_of),
        }
    }

    #[test]
    fn visitors_are_counted_by_name_and_kind() {
        let seen = seen();
        let find = |name: &str| seen.visitors.iter().find(|visitor| visitor.name == name);
        let cc1 = find("cc1").unwrap();
        assert_eq!((cc1.kind, cc1.class, cc1.count), (VisitorKind::Process, CauseClass::Preempted, 2));
        for (name, kind, class, irq) in [
            ("eth0-rx", VisitorKind::Interrupt, CauseClass::Hardirq, Some(24)),
            ("local_timer", VisitorKind::Timer, CauseClass::Hardirq, None),
            ("call_function", VisitorKind::CrossCall, CauseClass::Ipi, None),
            ("RCU", VisitorKind::Softirq, CauseClass::Softirq, None),
        ] {
            let found = find(name).unwrap();
            assert_eq!((found.kind, found.class, found.irq), (kind, class, irq), "{name}");
        }
        assert!((cc1.per_second - 4.0).abs() < 1e-9);
        assert_eq!(find("kworker/1").unwrap().kind, VisitorKind::BoundKernelThread);
        let unbound = find("kworker/u4").unwrap();
        assert_eq!((unbound.kind, unbound.count), (VisitorKind::KernelThread, 2));
        assert!(find("spin-1").is_none() && find("swapper/1").is_none());
        assert_eq!(seen.longest_held_by, ["preempted cc1", "idle", "preempted kworker/1"]);
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
        assert_eq!(names(&interrupts).into_iter().collect::<Vec<_>>(), ["eth0-rx"]);
        let elsewhere = ShieldSpec { processes: cpus("0"), interrupts: cpus("0"), ..ShieldSpec::default() };
        assert!(names(&elsewhere).is_empty());
    }
}
