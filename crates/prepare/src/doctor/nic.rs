//! Network devices: where their interrupts go, and what they do to each packet.

use super::check::{Answer, Check, Observation, checks, count, found_or, note, ok, warning};
use super::snapshot::Device;
use super::subject::{Irq, Skip, Subject, plain};
use model::{CpuList, NicFacts};

pub(super) const CHECKS: &[Check] = checks![
    "nic.irq-cpu" by EachNic(irq_cpu),
        reads "device/msi_irqs, /proc/irq/*/effective_affinity_list",
        when "the device's interrupts do not go to the CPUs to measure on",
        why "the papers route the NIC's interrupts onto the shielded CPUs, so that a message never crosses between CPUs",
        on [Papers];
    "nic.queues" by EachNic(queues),
        reads "ethtool -l, queues/rx-*",
        when "there are more receive queues than CPUs to measure on",
        why "a flow is hashed to one of the queues, and its interrupt may be on any CPU",
        on [Tuned, Kernel("networking/scaling.rst")];
    "nic.coalesce" by EachNic(coalesce),
        reads "ethtool -c: adaptive-rx, rx-usecs",
        when "the device waits before it interrupts",
        why "the wait is added to every message",
        on [Papers];
    "nic.ring" by EachNic(ring),
        reads "ethtool -g",
        when "receive rings hold more than 1024 packets",
        why "long rings do not fit the cache and hide overload as latency; short ones drop",
        on [Practice];
    "nic.offload" by EachNic(offload),
        reads "ethtool -k: large-receive-offload, generic-receive-offload",
        when "LRO is on (GRO is noted)",
        why "packets wait to be merged with the next",
        on [Practice];
];

pub(super) fn folder(nic: &NicFacts) -> String {
    format!("/sys/class/net/{}", plain(&nic.name))
}

pub(super) fn device<'a>(s: &'a Subject<'_>, nic: &NicFacts) -> Option<&'a Device> {
    s.snapshot.devices.get(&nic.name)
}

/// The CPUs that an interrupt goes to. What was asked for to be on the CPUs in question comes there with the next interrupt.
fn goes_to<'a>(s: &Subject<'_>, irq: &'a Irq) -> &'a CpuList {
    let asked = s.is_scoped() && !irq.asked.is_empty() && irq.asked.is_within(&s.scope.cpus);
    if asked { &irq.asked } else { irq.cpus() }
}

fn irq_cpu(s: &Subject<'_>, nic: &NicFacts) -> Answer {
    let irqs = s.irqs_of(&nic.name);
    // Vectors for configuration and faults never count; before the first packet none has.
    let busy: Vec<_> = irqs.iter().copied().filter(|irq| irq.total > 0).collect();
    let used = if busy.is_empty() { irqs } else { busy };
    let Some(first) = used.first() else {
        return Err(Skip::not_here(format!("{} has no interrupts of its own", nic.name)));
    };
    let on = used.iter().fold(CpuList::default(), |all, irq| all.union(goes_to(s, irq)));
    let read = |answer: Observation| answer.read(first.path(), first.cpus());
    if !s.is_scoped() {
        return Ok(vec![read(note(format!("{} of {} go to CPU {on}", count(used.len(), "interrupt"), nic.name)))]);
    }
    let cpus = &s.scope.cpus;
    Ok(vec![if on.is_within(cpus) {
        read(ok(format!("the interrupts of {} go to CPU {on}", nic.name)))
    } else if s.scope.nic.as_ref() == Some(&nic.name) {
        let text = format!("interrupts of {} go to CPU {on}, not to CPU {cpus} alone", nic.name);
        read(warning(text)).shield(cpus, &format!(" --nic {}", nic.name))
    } else {
        read(note(format!("interrupts of {} go to CPU {on}; name the device with --nic to have them judged", nic.name)))
    }])
}

fn queues(s: &Subject<'_>, nic: &NicFacts) -> Answer {
    let by_channels = nic.channels.get("combined").or_else(|| nic.channels.get("rx")).copied().filter(|n| *n > 0);
    let shown = s.names(&format!("{}/queues", folder(nic))).iter().filter(|name| name.starts_with("rx-")).count();
    let number = by_channels.unwrap_or_else(|| u64::try_from(shown).unwrap_or(0));
    if number == 0 {
        return Err(Skip::not_here(format!("{} shows no queues", nic.name)));
    }
    let path = format!("{} channels", nic.name);
    let cpus = u64::try_from(s.scope.cpus.len()).unwrap_or(u64::MAX);
    Ok(vec![if s.is_scoped() && number > cpus {
        let text = format!("{} has {number} receive queues for {}", nic.name, count(s.scope.cpus.len(), "CPU"));
        let answer = warning(text).read(path, number);
        if nic.channels.contains_key("combined") {
            answer.tune_nic(&nic.name, "nic.channels.combined", cpus)
        } else {
            answer.advice("steer the measured flow to one queue: windhover shield --nic")
        }
    } else {
        ok(format!("{} has {}", nic.name, count(usize::try_from(number).unwrap_or(usize::MAX), "receive queue")))
            .read(path, number)
    }])
}

fn coalesce(_: &Subject<'_>, nic: &NicFacts) -> Answer {
    let get = |name: &str| nic.coalesce.get(name).copied();
    let (adaptive, wait) = (get("adaptive-rx"), get("rx-usecs"));
    if adaptive.is_none() && wait.is_none() {
        return Err(Skip::not_here(format!("{} has no interrupt coalescing (ethtool -c)", nic.name)));
    }
    let path = format!("{} coalesce", nic.name);
    let mut found = Vec::new();
    if adaptive.is_some_and(|value| value > 0) {
        found.push(
            warning(format!("{} decides by itself how long to wait before it interrupts", nic.name))
                .read(format!("{path} adaptive-rx"), "on")
                .tune_nic(&nic.name, "nic.coalesce.adaptive-rx", "off"),
        );
    }
    if let Some(wait) = wait.filter(|wait| *wait > 0) {
        found.push(
            warning(format!("{} waits {wait} µs before it interrupts", nic.name))
                .read(format!("{path} rx-usecs"), wait)
                .tune_nic(&nic.name, "nic.coalesce.rx-usecs", 0),
        );
    }
    found_or(found, || ok(format!("{} interrupts at once", nic.name)).read(format!("{path} rx-usecs"), 0))
}

fn ring(_: &Subject<'_>, nic: &NicFacts) -> Answer {
    let Some(length) = nic.rings.get("rx").copied().filter(|length| *length > 0) else {
        return Err(Skip::not_here(format!("{} does not tell its rings (ethtool -g)", nic.name)));
    };
    let text = format!("{} holds {length} packets in each receive ring", nic.name);
    let answer = if length > 1024 { note(text).tune_nic(&nic.name, "nic.ring.rx", 512) } else { ok(text) };
    Ok(vec![answer.read(format!("{} ring rx", nic.name), length)])
}

fn offload(_: &Subject<'_>, nic: &NicFacts) -> Answer {
    /// As the kernel names them: first the one, then the long one's other spelling.
    const LRO: [&str; 2] = ["large-receive-offload", "rx-lro"];
    const GRO: [&str; 2] = ["generic-receive-offload", "rx-gro"];
    if nic.offloads.is_empty() {
        return Err(Skip::not_here(format!("{} does not tell its offloads (ethtool -k)", nic.name)));
    }
    let on = |names: [&str; 2]| names.iter().any(|name| nic.offloads.get(*name) == Some(&true));
    let mut found = Vec::new();
    if on(LRO) {
        found.push(
            warning(format!("{} merges received packets (LRO)", nic.name))
                .read(format!("{} feature large-receive-offload", nic.name), "on")
                .tune_nic(&nic.name, "nic.feature.large-receive-offload", "off"),
        );
    }
    if on(GRO) {
        found.push(
            note(format!(
                "packets received by {} are merged (GRO): good for streams, a little slower for single messages",
                nic.name
            ))
            .read(format!("{} feature generic-receive-offload", nic.name), "on")
            .tune_nic(&nic.name, "nic.feature.generic-receive-offload", "off"),
        );
    }
    found_or(found, || ok(format!("{} merges no packets", nic.name)))
}
