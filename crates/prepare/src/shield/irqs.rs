//! Device interrupts: off the shielded CPUs, new ones too; those that cannot be moved are named.

use super::steps::Steps;
use super::view::View;
use host::irqs::Irq;
use host::knob::{Form, Knob};
use model::CpuList;
use std::collections::BTreeSet;

/// The CPUs that an interrupt may go to, as they will be when the plan begins.
pub(super) fn cpus(view: &View<'_>, irq: &Irq) -> CpuList {
    view.value(&irq.knob()).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The steps; interrupts of devices that go onto the shield are left out.
pub(super) fn steps(out: &mut Steps<'_>, invited: &BTreeSet<u32>) {
    let view = out.view;
    let closed = &view.spec.interrupts;
    if closed.is_empty() {
        return;
    }
    let (mut managed, mut bound) = (Vec::new(), Vec::new());
    for irq in host::irqs::list(view.machine()).iter().filter(|irq| !invited.contains(&irq.number)) {
        let cpus = cpus(view, irq);
        let left = cpus.without(closed);
        if !cpus.meets(closed) {
            continue;
        }
        if !irq.movable {
            managed.push(irq.to_string());
        } else if left.is_empty() {
            bound.push(irq.to_string());
        } else {
            let name = if irq.actions.is_empty() { "nobody handles it now".to_owned() } else { irq.actions.join(", ") };
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
