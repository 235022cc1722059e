//! Network devices that go *onto* the shield: their interrupts, the threads that poll them, and what steers packets to
//! CPUs.

use super::steps::Steps;
use super::{ShieldError, layout};
use host::knob::{Knob, TaskKey};
use host::nic::NicMap;
use model::{CpuList, ShieldBackend};
use std::collections::BTreeSet;

/// The devices asked for.
pub(super) fn maps(view: &super::view::View<'_>) -> Result<Vec<NicMap>, ShieldError> {
    let spec = view.spec;
    if let Some(device) = spec.nics.first()
        && target(spec).is_empty()
    {
        return Err(ShieldError::NicWithoutCpus { device: device.clone() });
    }
    spec.nics.iter().map(|device| Ok(NicMap::of(view.machine(), device)?)).collect()
}

/// The CPUs that a device goes to.
pub(super) fn target(spec: &model::ShieldSpec) -> CpuList {
    if spec.processes.is_empty() { spec.interrupts.clone() } else { spec.processes.clone() }
}

/// Numbers of the interrupts that are invited and not sent away.
pub(super) fn invited(maps: &[NicMap]) -> BTreeSet<u32> {
    maps.iter().flat_map(|map| map.irqs.iter().map(|irq| irq.number)).collect()
}

/// The steps, after those that send everything else away.
pub(super) fn steps(maps: &[NicMap], backend: ShieldBackend, out: &mut Steps<'_>) {
    let view = out.view;
    let target = target(view.spec);
    let cpus: Vec<u32> = target.iter().collect();
    for map in maps {
        let device = &map.device;
        let mut managed = Vec::new();
        for (place, irq) in map.irqs.iter().enumerate() {
            // One CPU each: a queue's interrupt that may go to several goes to one of them anyway.
            let cpu = queue_of(&irq.actions).unwrap_or(place) % cpus.len().max(1);
            let Some(cpu) = cpus.get(cpu) else { continue };
            if irq.movable {
                out.wish(irq.knob(), cpu.to_string(), &format!("interrupt of {device} goes onto the shield"));
            } else if irq.cpus.as_ref().is_some_and(|cpus| !cpus.is_within(&target)) {
                managed.push(irq.number.to_string());
            }
        }
        if map.irqs.is_empty() {
            out.note(format!(
                "{device} has no interrupts of its own (a virtual device): what it receives is handled where it is sent"
            ));
        }
        if !managed.is_empty() {
            out.note(format!(
                "{device}: interrupts {} are managed by the driver and cannot be moved: `windhover tune` has nic.channels to use fewer queues",
                managed.join(", ")
            ));
        }
        for tid in map.threads() {
            let Some(task) = TaskKey::of_at(view.machine(), tid) else { continue };
            if let Some((hierarchy, group)) = shield_group(view, backend) {
                let knob = Knob::Member { hierarchy, task: task.clone() };
                out.wish(
                    knob,
                    group.display().to_string(),
                    &format!("the thread that polls {device} goes onto the shield"),
                );
            }
            let why = format!("the thread that polls {device} goes onto the shield");
            out.wish(Knob::Affinity { task }, target.to_string(), &why);
        }
        for queue in &map.queues {
            let Some(now) = &queue.steering else { continue };
            // No mask at all means the CPU of the interrupt (receiving) or any queue (sending).
            if !now.is_empty() && !now.is_within(&target) {
                let way = if queue.transmits { "XPS" } else { "RPS" };
                out.wish(queue.knob(), target.to_mask(), &format!("{way} of {device} stays on the shield"));
            }
        }
        let receiving = map.queues.iter().filter(|queue| !queue.transmits).count();
        if receiving > cpus.len() {
            out.note(format!(
                "{device} has {receiving} receive queues for {} shielded CPUs: nic.channels.combined={} of `windhover tune` leaves one each; a flow rule (ethtool -N) would pin one flow to one queue",
                cpus.len(),
                cpus.len()
            ));
        }
    }
}

/// The queue in a name such as `eth0-rx-3` or `mlx5_comp3@pci:…`.
fn queue_of(actions: &[String]) -> Option<usize> {
    let name = actions.first()?.split('@').next()?;
    let digits: String = name.chars().rev().take_while(char::is_ascii_digit).collect();
    let digits: String = digits.chars().rev().collect();
    // The name of the device itself ends in a number too.
    let is_queue = name.contains("rx")
        || name.contains("tx")
        || name.contains("Tx")
        || name.contains("comp")
        || name.contains("put");
    if is_queue { digits.parse().ok() } else { None }
}

fn shield_group(
    view: &super::view::View<'_>,
    backend: ShieldBackend,
) -> Option<(std::path::PathBuf, std::path::PathBuf)> {
    match (backend, &view.layout) {
        _ if view.spec.processes.is_empty() => None,
        (ShieldBackend::V1, layout::Layout { v1: Ok(v1), .. }) => Some((v1.root.clone(), v1.shield())),
        (ShieldBackend::V2, layout::Layout { v2: Ok(v2), .. }) => Some((v2.root.clone(), v2.shield())),
        _ => None,
    }
}
