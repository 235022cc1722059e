//! Device interrupts: off the shielded CPUs, new ones too; those that cannot be moved are named.

use super::steps::Steps;
use super::view::View;
use host::knob::{Form, Knob};
use model::CpuList;
use std::collections::BTreeSet;
use std::path::Path;

/// An interrupt of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Irq {
    pub(super) number: u32,
    /// Who handles it; empty when nobody does now.
    pub(super) names: Vec<String>,
    /// Whether its CPUs can be set: the kernel takes the write bits from those that it spread over all CPUs (managed).
    pub(super) movable: bool,
}

impl Irq {
    pub(super) fn knob(&self) -> Knob {
        Knob::file(format!("/proc/irq/{}/smp_affinity_list", self.number), Form::CpuList)
    }

    pub(super) fn cpus(&self, view: &View<'_>) -> CpuList {
        view.value(&self.knob()).and_then(|text| text.parse().ok()).unwrap_or_default()
    }
}

impl std::fmt::Display for Irq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.names.as_slice() {
            [] => write!(f, "{}", self.number),
            names => write!(f, "{} {}", self.number, names.join("+")),
        }
    }
}

/// All interrupts that have a mask.
pub(super) fn list(machine: &host::knob::Machine) -> Vec<Irq> {
    let mut irqs: Vec<Irq> = machine
        .names("/proc/irq")
        .unwrap_or_default()
        .iter()
        .filter_map(|name| {
            let number = name.parse().ok()?;
            let folder = format!("/proc/irq/{name}");
            let mask = std::fs::metadata(machine.path(Path::new(&format!("{folder}/smp_affinity_list")))).ok()?;
            let movable = !mask.permissions().readonly();
            let actions = machine.text(format!("/sys/kernel/irq/{name}/actions")).unwrap_or_default();
            let mut names: Vec<String> =
                actions.trim().split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            if names.is_empty() {
                // Its handlers have folders here.
                names = machine.names(&folder).unwrap_or_default();
                names.retain(|name| machine.is_directory(format!("{folder}/{name}")));
            }
            Some(Irq { number, names, movable })
        })
        .collect();
    irqs.sort_by_key(|irq| irq.number);
    irqs
}

/// The steps; interrupts of devices that go onto the shield are left out.
pub(super) fn steps(out: &mut Steps<'_>, invited: &BTreeSet<u32>) {
    let view = out.view;
    let closed = &view.spec.interrupts;
    if closed.is_empty() {
        return;
    }
    let (mut managed, mut bound) = (Vec::new(), Vec::new());
    for irq in list(view.machine()).iter().filter(|irq| !invited.contains(&irq.number)) {
        let cpus = irq.cpus(view);
        let left = cpus.without(closed);
        if !cpus.meets(closed) {
            continue;
        }
        if !irq.movable {
            managed.push(irq.to_string());
        } else if left.is_empty() {
            bound.push(irq.to_string());
        } else {
            let name = if irq.names.is_empty() { "nobody handles it now".to_owned() } else { irq.names.join(", ") };
            out.wish(irq.knob(), left.to_string(), &format!("device interrupt ({name}) leaves the shielded CPUs"));
        }
    }
    let default = Knob::file("/proc/irq/default_smp_affinity", Form::CpuMask);
    let mask = view.value(&default).and_then(|text| CpuList::from_mask(&text));
    if let Some(mask) = mask.filter(|mask| mask.meets(closed) && !mask.is_within(closed)) {
        out.wish(default, mask.without(closed).to_mask(), "interrupts that are requested later stay away too");
    }
    if !managed.is_empty() {
        out.note(format!(
            "interrupts that their driver spread over the CPUs cannot be moved (managed): {}; boot with isolcpus=managed_irq,{closed} to keep them away",
            managed.join(", ")
        ));
    }
    if !bound.is_empty() {
        out.note(format!("interrupts that were given shielded CPUs only stay: {}", bound.join(", ")));
    }
    let balancer = view.tasks.iter().find(|task| task.key.name == "irqbalance");
    if let Some(task) = balancer {
        out.note(format!(
            "{} moves interrupts by itself: `windhover tune apply --set service.irqbalance=ban-cpus` keeps it off these CPUs, --guard repairs",
            task.key
        ));
    }
}
