//! Network devices that go *onto* the shield: their interrupts, polling threads, and the steering of packets.

use super::ShieldError;
use super::steps::Steps;
use crate::flows;
use host::knob::{EthtoolPart, FlowRule, Knob, TaskKey, features_of};
use host::nic::NicMap;
use model::{CpuList, ShieldBackend};
use std::collections::BTreeSet;

pub(super) fn maps(view: &super::view::View<'_>) -> Result<Vec<NicMap>, ShieldError> {
    let spec = view.spec;
    if let Some(device) = spec.nics.first()
        && target(spec).is_empty()
    {
        let why = "no CPU is shielded that it could go to: add -p or -a LIST";
        return ShieldError::refused(format!("--nic {device}: {why}"));
    }
    if let Some(rule) = spec.flows.first()
        && spec.nics.is_empty()
    {
        let why = "no device is on the shield that could steer it: add --nic IF";
        return ShieldError::refused(format!("--flow '{rule}': {why}"));
    }
    for rule in &spec.flows {
        with_queue(rule, 0)
            .map_err(|why| ShieldError::Refused(format!("--flow: {why}: write it as 'udp4 dst-port 7000'")))?;
    }
    spec.nics.iter().map(|device| Ok(NicMap::of(view.machine(), device)?)).collect()
}

/// The rule with the queue that it names, or else with this one.
fn with_queue(rule: &str, queue: u32) -> Result<FlowRule, String> {
    if rule.split_ascii_whitespace().any(|word| word == "queue") {
        return rule.parse();
    }
    format!("{} queue {queue}", rule.trim()).parse()
}

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
            let why = format!("the thread that polls {device} goes onto the shield");
            if let Some(cpusets) = view.layout.of(backend).filter(|_| !view.spec.processes.is_empty()) {
                let knob = Knob::Member { hierarchy: cpusets.root.clone(), task: task.clone() };
                out.wish(knob, cpusets.shield().display().to_string(), &why);
            }
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
        flows(map, &target, out);
        let receiving = map.queues.iter().filter(|queue| !queue.transmits).count();
        if receiving > cpus.len() {
            out.note(format!(
                "{device} has {receiving} receive queues for {} shielded CPUs: nic.channels.combined={} of `windhover tune` leaves one each; --flow 'udp4 dst-port 7000' puts one flow into one queue",
                cpus.len(),
                cpus.len()
            ));
        }
    }
}

/// The flows asked for go into a queue whose interrupt is on the shield.
fn flows(map: &NicMap, target: &CpuList, out: &mut Steps<'_>) {
    let device = &map.device;
    let view = out.view;
    if view.spec.flows.is_empty() {
        return;
    }
    let receives = |actions: &[String]| actions.first().is_none_or(|name| !name.to_ascii_lowercase().contains("-tx"));
    let on_shield = map.irqs.iter().enumerate().find(|(_, irq)| {
        receives(&irq.actions) && (irq.movable || irq.cpus.as_ref().is_some_and(|cpus| cpus.is_within(target)))
    });
    let queue = on_shield.map(|(place, irq)| queue_of(&irq.actions).unwrap_or(place));
    for rule in &view.spec.flows {
        let named = rule.split_ascii_whitespace().any(|word| word == "queue");
        let Some(queue) = queue.or_else(|| named.then_some(0)).and_then(|queue| u32::try_from(queue).ok()) else {
            out.lacks.push(format!("{device} has no receive queue on the shield for the flow '{rule}'"));
            continue;
        };
        // Both were looked at before any step was made.
        let Ok(rule) = with_queue(rule, queue) else { continue };
        let rule = rule.to_string();
        match flows::place(view.kernel, device, &rule, &mut out.locations) {
            Ok(knob) => {
                for name in features_of("ntuple") {
                    let feature = Knob::Ethtool { device: device.clone(), part: EthtoolPart::Feature, name };
                    out.wish(feature, "on", &format!("{device} steers flows by rules"));
                }
                out.require(knob, rule, &format!("this flow of {device} goes into a queue of the shield"));
            }
            Err(why) => out.lacks.push(format!("the flow '{rule}' cannot be steered: {why}")),
        }
    }
}

/// The queue in a name such as `eth0-rx-3` or `mlx5_comp3@pci:…`.
fn queue_of(actions: &[String]) -> Option<usize> {
    let name = actions.first()?.split('@').next()?;
    let digits: String = name.chars().rev().take_while(char::is_ascii_digit).collect();
    let digits: String = digits.chars().rev().collect();
    // The name of the device itself ends in a number too.
    let is_queue = ["rx", "tx", "Tx", "comp", "put"].iter().any(|part| name.contains(part));
    if is_queue { digits.parse().ok() } else { None }
}
