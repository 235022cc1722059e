//! Interrupts: their counts per CPU; of devices also who handles them, where they may go, and if that can be changed.

mod counts;

pub use counts::{Counts, InterruptCount, Kind, Row};

use crate::knob::{Form, Knob, Machine};
use model::CpuList;
use nix::fcntl::OFlag;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Irq {
    pub number: u32,
    /// Names of what handles it (`eth0-rx-0`); empty without a handler.
    pub actions: Vec<String>,
    /// CPUs that it may go to.
    pub cpus: Option<CpuList>,
    /// CPUs that it goes to. The kernel moves it at its next occurrence only.
    pub effective: Option<CpuList>,
    /// Whether its CPUs can be set: the kernel takes the write bits from those that a driver spread over all CPUs (managed).
    pub movable: bool,
}

impl Irq {
    pub fn of(machine: &Machine, number: u32) -> Self {
        let folder = format!("/proc/irq/{number}");
        let mask = Path::new(&folder).join("smp_affinity_list");
        let actions = machine.trimmed(format!("/sys/kernel/irq/{number}/actions")).unwrap_or_default();
        let mut actions: Vec<String> =
            actions.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if actions.is_empty() {
            // Its handlers have folders here.
            actions = machine.names(&folder).unwrap_or_default();
            actions.retain(|name| machine.is_directory(format!("{folder}/{name}")));
        }
        let movable = machine.open(&mask, OFlag::O_PATH).and_then(|file| file.metadata());
        Self {
            number,
            actions,
            cpus: machine.cpu_list(&mask),
            effective: machine.cpu_list(format!("{folder}/effective_affinity_list")),
            movable: movable.is_ok_and(|data| !data.permissions().readonly()),
        }
    }

    /// Its mask, to be set through the undo log.
    pub fn knob(&self) -> Knob {
        Knob::file(format!("/proc/irq/{}/smp_affinity_list", self.number), Form::CpuList)
    }
}

impl fmt::Display for Irq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.actions.as_slice() {
            [] => write!(f, "{}", self.number),
            names => write!(f, "{} {}", self.number, names.join("+")),
        }
    }
}

/// All interrupts that have a mask, ascending.
pub fn list(machine: &Machine) -> Vec<Irq> {
    let all = machine.numbers("/proc/irq", "").into_iter().map(|number| Irq::of(machine, number));
    all.filter(|irq| irq.cpus.is_some()).collect()
}

/// A thread that handles an interrupt (`irq/24-eth0`).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Thread {
    pub tid: i32,
    pub name: String,
    /// Its policy with its priority: `fifo:50`.
    pub policy: String,
}

/// The threads that handle interrupts (PREEMPT_RT, `threadirqs`, or the driver's wish), by the interrupt's number.
pub fn threads(machine: &Machine) -> BTreeMap<u32, Vec<Thread>> {
    let mut found: BTreeMap<u32, Vec<Thread>> = BTreeMap::new();
    for stat in crate::tasks::kernel_threads(machine, |name| irq_of_thread(name).is_some()) {
        let Some(number) = irq_of_thread(&stat.name) else { continue };
        let policy = crate::tasks::policy_words(stat.policy, stat.priority);
        found.entry(number).or_default().push(Thread { tid: stat.tid, name: stat.name, policy });
    }
    found
}

/// The number of the interrupt that a thread of this name handles (`irq/25-eth0-rx-0`).
pub fn irq_of_thread(name: &str) -> Option<u32> {
    name.strip_prefix("irq/")?.split('-').next()?.parse().ok()
}
