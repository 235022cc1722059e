//! Network devices: where their interrupts and queues go, and what they do to each packet.

use super::check::{Answer, Check, Evidence, Observation, bad, note, ok, some_of, warning};
use super::cpu::{common, count};
use super::snapshot::Device;
use super::subject::{Skip, Subject, plain};
use model::{CpuList, NicFacts};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "nic.irq-cpu",
        reads: "device/msi_irqs, /proc/irq/*/effective_affinity_list",
        when: "the device's interrupts do not go to the CPUs to measure on",
        why: "the papers route the NIC's interrupts onto the shielded CPUs, so that a message never crosses between CPUs",
        evidence: &[Evidence::Papers],
        make: irq_cpu,
    },
    Check {
        id: "nic.queues",
        reads: "ethtool -l, queues/rx-*",
        when: "there are more receive queues than CPUs to measure on",
        why: "a flow is hashed to one of the queues, and its interrupt may be on any CPU",
        evidence: &[Evidence::Tuned, Evidence::Kernel("networking/scaling.rst")],
        make: queues,
    },
    Check {
        id: "nic.coalesce",
        reads: "ethtool -c: adaptive-rx, rx-usecs",
        when: "the device waits before it interrupts",
        why: "the wait is added to every message",
        evidence: &[Evidence::Papers],
        make: coalesce,
    },
    Check {
        id: "nic.ring",
        reads: "ethtool -g",
        when: "receive rings hold more than 1024 packets",
        why: "long rings do not fit the cache and hide overload as latency; short ones drop",
        evidence: &[Evidence::Practice],
        make: ring,
    },
    Check {
        id: "nic.offload",
        reads: "ethtool -k: large-receive-offload, generic-receive-offload",
        when: "LRO is on (GRO is noted)",
        why: "packets wait to be merged with the next",
        evidence: &[Evidence::Practice],
        make: offload,
    },
    Check {
        id: "nic.steering",
        reads: "queues/*/{rps_cpus,xps_cpus}, rps_sock_flow_entries, ntuple, flow rules",
        when: "a packet can be handled by another CPU than those to measure on",
        why: "each hand-over between CPUs costs an inter-processor interrupt and a wake-up",
        evidence: &[Evidence::Kernel("networking/scaling.rst")],
        make: steering,
    },
    Check {
        id: "nic.napi-threaded",
        reads: "netlink napi-get, threaded, napi/IF-N threads",
        when: "packets are polled by a thread of ordinary policy, or on another CPU",
        why: "the thread then competes with the load, or two inter-processor interrupts are added",
        evidence: &[
            Evidence::Measured(
                "p99.99 3970 µs in ordinary policy under load, 16 µs at FIFO 60; mean 9.4 µs on another CPU, 3.3 µs on the same",
            ),
            Evidence::Kernel("networking/napi.rst"),
        ],
        make: napi_threaded,
    },
    Check {
        id: "nic.busy-poll",
        reads: "net.core.busy_poll, net.core.busy_read",
        when: "it does not fit the placement of the ends",
        why: "busy polling helps when each end has a CPU of its own and hurts when they share one",
        evidence: &[
            Evidence::Measured("mean RTT/2 54.8 instead of 3.5 µs on one CPU, 2.1 instead of 6.0 µs on two"),
            Evidence::Papers,
        ],
        make: busy_poll,
    },
    Check {
        id: "nic.defer",
        reads: "napi_defer_hard_irqs, gro_flush_timeout, irq-suspend-timeout",
        when: "polls are put off and nobody polls instead",
        why: "deferred interrupts without a busy poller only delay packets",
        evidence: &[Evidence::Kernel("networking/napi.rst")],
        make: defer,
    },
    Check {
        id: "nic.link",
        reads: "carrier, speed, duplex",
        when: "there is no link, or half duplex",
        why: "speed is part of every figure, and half duplex waits for the other side",
        evidence: &[Evidence::Practice],
        make: link,
    },
    Check {
        id: "nic.pause",
        reads: "ethtool -a",
        when: "pause frames are obeyed",
        why: "a busy receiver elsewhere on the switch can then stop this sender",
        evidence: &[Evidence::Practice],
        make: pause,
    },
    Check {
        id: "nic.eee",
        reads: "ethtool --show-eee",
        when: "Energy-Efficient Ethernet is on",
        why: "the link sleeps between packets and takes microseconds to wake",
        evidence: &[Evidence::Practice],
        make: eee,
    },
    Check {
        id: "nic.pcie",
        reads: "current_link_{speed,width} against max_link_*, pcie_aspm policy",
        when: "the slot is slower than the card, or the link may sleep",
        why: "a sleeping or narrow PCIe link delays every descriptor",
        evidence: &[Evidence::Practice],
        make: pcie,
    },
    Check {
        id: "nic.ipoib",
        reads: "type, mode, mtu, driver",
        when: "always recorded on InfiniBand and Omni-Path",
        why: "datagram and connected mode differ in MTU, offloads and latency: both ends must have the same",
        evidence: &[Evidence::Kernel("infiniband/ipoib.rst")],
        make: ipoib,
    },
];

/// What one device gives; the last reason when no device gives anything.
fn each(s: &Subject<'_>, look: impl Fn(&NicFacts) -> Result<Vec<Observation>, Skip>) -> Answer {
    let mut found = Vec::new();
    let mut reason = None;
    for nic in s.nics()? {
        match look(nic) {
            Ok(more) => found.extend(more),
            Err(skip) => reason = Some(skip),
        }
    }
    match reason {
        Some(skip) if found.is_empty() => Err(skip),
        _ => Ok(found),
    }
}

fn folder(nic: &NicFacts) -> String {
    format!("/sys/class/net/{}", plain(&nic.name))
}

fn device<'a>(s: &'a Subject<'_>, nic: &NicFacts) -> Option<&'a Device> {
    s.snapshot.devices.get(&nic.name)
}

fn irq_cpu(s: &Subject<'_>) -> Answer {
    let one = |nic: &NicFacts| {
        let irqs = s.irqs_of(&nic.name);
        // Vectors for configuration and faults never count; before the first packet none has.
        let busy: Vec<_> = irqs.iter().copied().filter(|irq| irq.total() > 0).collect();
        let used = if busy.is_empty() { irqs } else { busy };
        let Some(first) = used.first() else {
            return Err(Skip::not_here(format!("{} has no interrupts of its own", nic.name)));
        };
        let on: CpuList = used.iter().flat_map(|irq| irq.cpus().iter()).collect();
        let read = |answer: Observation| answer.read(first.path(), first.cpus());
        if !s.is_scoped() {
            return Ok(vec![read(note(format!("{} of {} go to CPU {on}", count(used.len(), "interrupt"), nic.name)))]);
        }
        let cpus = &s.scope.cpus;
        let inside = common(&on, cpus);
        Ok(vec![if inside.len() == on.len() {
            read(ok(format!("the interrupts of {} go to CPU {on}", nic.name)))
        } else if s.scope.nic.as_ref() == Some(&nic.name) {
            let text = format!("interrupts of {} go to CPU {on}, not to CPU {cpus} alone", nic.name);
            read(warning(text)).shield(cpus, &format!(" --nic {}", nic.name))
        } else {
            read(note(format!(
                "interrupts of {} go to CPU {on}; name the device with --nic to have them judged",
                nic.name
            )))
        }])
    };
    each(s, one)
}

fn queues(s: &Subject<'_>) -> Answer {
    let one = |nic: &NicFacts| {
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
    };
    each(s, one)
}

fn coalesce(s: &Subject<'_>) -> Answer {
    let one = |nic: &NicFacts| {
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
        if found.is_empty() {
            found.push(ok(format!("{} interrupts at once", nic.name)).read(format!("{path} rx-usecs"), 0));
        }
        Ok(found)
    };
    each(s, one)
}

fn ring(s: &Subject<'_>) -> Answer {
    let one = |nic: &NicFacts| {
        let Some(length) = nic.rings.get("rx").copied().filter(|length| *length > 0) else {
            return Err(Skip::not_here(format!("{} does not tell its rings (ethtool -g)", nic.name)));
        };
        let path = format!("{} ring rx", nic.name);
        Ok(vec![if length > 1024 {
            note(format!("{} holds {length} packets in each receive ring", nic.name)).read(path, length).tune_nic(
                &nic.name,
                "nic.ring.rx",
                512,
            )
        } else {
            ok(format!("{} holds {length} packets in each receive ring", nic.name)).read(path, length)
        }])
    };
    each(s, one)
}

fn offload(s: &Subject<'_>) -> Answer {
    /// As the kernel names them: first the one, then the long one's other spelling.
    const LRO: [&str; 2] = ["large-receive-offload", "rx-lro"];
    const GRO: [&str; 2] = ["generic-receive-offload", "rx-gro"];
    let one = |nic: &NicFacts| {
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
        if found.is_empty() {
            found.push(ok(format!("{} merges no packets", nic.name)));
        }
        Ok(found)
    };
    each(s, one)
}

fn steering(s: &Subject<'_>) -> Answer {
    let cpus = s.cpus()?;
    let entries = s.number("/proc/sys/net/core/rps_sock_flow_entries").unwrap_or(0);
    let one = |nic: &NicFacts| {
        let folder = format!("{}/queues", folder(nic));
        let queues = s.names(&folder);
        if queues.is_empty() {
            return Err(Skip::not_here(format!("{} shows no queues", nic.name)));
        }
        let mut found = Vec::new();
        let outside = |mask: &CpuList| mask.iter().any(|cpu| !cpus.contains(cpu));
        for (file, words, key) in [
            ("rps_cpus", "received packets are handed to CPU", "nic.rps-cpus"),
            ("xps_cpus", "the queues to send by are those of CPU", "nic.xps-cpus"),
        ] {
            let masks: Vec<(String, CpuList)> = queues
                .iter()
                .filter_map(|queue| {
                    let path = format!("{folder}/{queue}/{file}");
                    s.mask(&path).ok().map(|mask| (path, mask))
                })
                .filter(|(_, mask)| !mask.is_empty())
                .collect();
            let all: CpuList = masks.iter().flat_map(|(_, mask)| mask.iter()).collect();
            // With XPS each CPU has its queue, and only one queue has to be left for these.
            let wrong = if file == "xps_cpus" { masks.len() > cpus.len() && outside(&all) } else { outside(&all) };
            if let Some((path, mask)) = masks.first().filter(|_| wrong) {
                let text = format!("{}: {words} {all}", nic.name);
                let answer = if file == "rps_cpus" { warning(text) } else { note(text) };
                found.push(answer.read(path.clone(), mask).tune_nic(&nic.name, key, cpus));
            }
        }
        if entries > 0 {
            found.push(
                note(format!("{entries} flows follow the CPU of their reader (RFS)"))
                    .read("/proc/sys/net/core/rps_sock_flow_entries", entries),
            );
        }
        let ntuple = nic.offloads.get("rx-ntuple-filter").or_else(|| nic.offloads.get("ntuple-filters")).copied();
        let rules = device(s, nic).and_then(|device| device.flow_rules.as_ref()).map(Vec::len);
        match (ntuple, rules) {
            (Some(true), Some(rules)) => found.push(
                note(format!("{} has {}", nic.name, count(rules, "flow rule")))
                    .read(format!("{} flow rules", nic.name), rules),
            ),
            (Some(true), None) => found.push(
                note(format!("{} can steer flows by rule (ntuple)", nic.name))
                    .read(format!("{} feature ntuple", nic.name), "on"),
            ),
            _ => {}
        }
        if found.is_empty() {
            found.push(ok(format!("no packet of {} is handed to another CPU", nic.name)));
        }
        Ok(found)
    };
    each(s, one)
}

fn napi_threaded(s: &Subject<'_>) -> Answer {
    let one = |nic: &NicFacts| {
        let path = format!("{}/threaded", folder(nic));
        let told = device(s, nic).map(|device| device.napi.iter().any(|napi| napi.threaded == Some(true)));
        let file = s.text(&path);
        let head = format!("napi/{}-", nic.name);
        // A name is cut at 15 bytes.
        let head: String = head.chars().take(15).collect();
        let threads: Vec<_> =
            s.tasks().iter().filter(|task| task.is_kernel() && task.name().starts_with(&head)).collect();
        let on = told.unwrap_or(false) || file.as_deref().is_ok_and(|text| text != "0") || !threads.is_empty();
        if !on {
            return file.map(|text| vec![ok(format!("{} is polled in softirq context", nic.name)).read(path, text)]);
        }
        let mut found = Vec::new();
        for task in &threads {
            let status = format!("/proc/{}/stat policy", task.pid);
            if !task.is_real_time() {
                found.push(
                    warning(format!("{} polls in ordinary policy", task.name()))
                        .read(status, task.policy())
                        .command(format!("chrt -f -p 60 {}", task.tid)),
                );
            }
            if s.is_scoped() && task.cpus.iter().any(|cpu| !s.scope.cpus.contains(cpu)) {
                found.push(
                    warning(format!("{} may run on CPU {}, not on CPU {} alone", task.name(), task.cpus, s.scope.cpus))
                        .read(format!("/proc/{}/status Cpus_allowed_list", task.pid), &task.cpus)
                        .shield(&s.scope.cpus, &format!(" --nic {}", nic.name)),
                );
            }
        }
        if found.is_empty() {
            let text = format!("{} is polled by {}", nic.name, count(threads.len(), "thread"));
            found.push(
                if threads.is_empty() { note(text) } else { ok(text) }
                    .read(path, file.unwrap_or_else(|_| "on".to_owned())),
            );
        }
        Ok(found)
    };
    each(s, one)
}

fn busy_poll(s: &Subject<'_>) -> Answer {
    let (path, other) = ("/proc/sys/net/core/busy_poll", "/proc/sys/net/core/busy_read");
    let poll = s.number(path)?;
    let read = s.number(other)?;
    let both = |answer: Observation| answer.read(path, poll).read(other, read);
    Ok(vec![if poll == 0 && read == 0 {
        both(note("sockets do not busy poll: right when the ends share a CPU; with a CPU for each, try 50"))
            .command("windhover tune try network-latency")
    } else if s.scope.cpus.len() == 1 {
        both(warning(format!(
            "sockets busy poll for {} µs: if both ends are on CPU {}, each keeps the other from running",
            poll.max(read),
            s.scope.cpus
        )))
        .tune("sysctl.net.core.busy_poll", 0)
        .tune("sysctl.net.core.busy_read", 0)
    } else {
        both(note(format!(
            "sockets busy poll for {} µs: right only when each end has a CPU of its own",
            poll.max(read)
        )))
    }])
}

fn defer(s: &Subject<'_>) -> Answer {
    let polled =
        ["busy_poll", "busy_read"].iter().any(|name| s.number(&format!("/proc/sys/net/core/{name}")).unwrap_or(0) > 0);
    let one = |nic: &NicFacts| {
        let path = format!("{}/gro_flush_timeout", folder(nic));
        let flush = s.number(&path)?;
        let defer = s.number(&format!("{}/napi_defer_hard_irqs", folder(nic))).unwrap_or(0);
        let own = device(s, nic).map(|device| device.napi.as_slice()).unwrap_or_default();
        let put_off = own.iter().filter(|napi| napi.gro_flush_timeout_ns.is_some_and(|ns| ns > 0)).count();
        let read = |answer: Observation| {
            answer.read(path.clone(), flush).read(format!("{}/napi_defer_hard_irqs", folder(nic)), defer)
        };
        Ok(vec![if (flush > 0 || put_off > 0) && !polled {
            read(warning(format!("polls of {} are put off by {} µs, and no socket busy polls", nic.name, flush / 1000)))
                .tune_nic(&nic.name, "nic.napi.gro-flush-timeout", 0)
                .tune_nic(&nic.name, "nic.napi.defer-hard-irqs", 0)
        } else if defer > 0 && flush == 0 {
            read(warning(format!("{} defers interrupts without a time to poll at", nic.name))).tune_nic(
                &nic.name,
                "nic.napi.defer-hard-irqs",
                0,
            )
        } else if flush > 0 {
            read(note(format!("{} leaves polling to applications for {} µs at a time", nic.name, flush / 1000)))
        } else {
            read(ok(format!("{} interrupts for each poll", nic.name)))
        }])
    };
    each(s, one)
}

fn link(s: &Subject<'_>) -> Answer {
    let one = |nic: &NicFacts| {
        let carrier = s.maybe(&format!("{}/carrier", folder(nic)));
        let down = nic.link == Some(false) || carrier.as_deref() == Some("0");
        let path = format!("{}/carrier", folder(nic));
        if down {
            return Ok(vec![
                bad(format!("{} has no link", nic.name))
                    .read(path, carrier.unwrap_or_else(|| "0".to_owned()))
                    .advice("check the cable, and: ip link set up"),
            ]);
        }
        let duplex = s.maybe(&format!("{}/duplex", folder(nic))).unwrap_or_default();
        if duplex == "half" {
            return Ok(vec![
                bad(format!("{} runs at half duplex", nic.name))
                    .read(format!("{}/duplex", folder(nic)), duplex)
                    .advice("let both sides negotiate the speed"),
            ]);
        }
        let speed = nic.speed_mbps.map_or_else(|| "speed unknown".to_owned(), |speed| format!("{speed} Mbit/s"));
        let driver = nic.driver.clone().unwrap_or_else(|| "no driver known".to_owned());
        Ok(vec![
            ok(format!("{}: {speed}, {driver}", nic.name)).read(path, carrier.unwrap_or_else(|| "unknown".to_owned())),
        ])
    };
    each(s, one)
}

fn pause(s: &Subject<'_>) -> Answer {
    let one = |nic: &NicFacts| {
        let Some(told) = device(s, nic).map(|device| &device.pause).filter(|told| !told.is_empty()) else {
            return Err(Skip::not_here(format!(
                "{} does not tell whether it obeys pause frames (ethtool -a)",
                nic.name
            )));
        };
        let on = told.get("rx") == Some(&true);
        let path = format!("{} pause rx", nic.name);
        Ok(vec![if on {
            note(format!("{} stops sending when a pause frame comes", nic.name)).read(path, "on").tune_nic(
                &nic.name,
                "nic.pause.rx",
                "off",
            )
        } else {
            ok(format!("{} obeys no pause frames", nic.name)).read(path, "off")
        }])
    };
    each(s, one)
}

fn eee(s: &Subject<'_>) -> Answer {
    let one = |nic: &NicFacts| {
        let Some(on) = device(s, nic).and_then(|device| device.eee) else {
            return Err(Skip::not_here(format!("{} does not tell about Energy-Efficient Ethernet", nic.name)));
        };
        let path = format!("{} eee", nic.name);
        Ok(vec![if on {
            warning(format!("the link of {} sleeps between packets", nic.name))
                .read(path, "on")
                .tune_nic(&nic.name, "nic.eee", "off")
        } else {
            ok(format!("the link of {} does not sleep", nic.name)).read(path, "off")
        }])
    };
    each(s, one)
}

fn pcie(s: &Subject<'_>) -> Answer {
    let policy_path = "/sys/module/pcie_aspm/parameters/policy";
    let policy = s.maybe(policy_path);
    let policy = policy.as_deref().map(super::parse::chosen).unwrap_or_default().to_owned();
    let one = |nic: &NicFacts| {
        let device = format!("{}/device", folder(nic));
        let device = if s.exists(&format!("{device}/current_link_speed")) { device } else { format!("{device}/..") };
        let speed = s.text(&format!("{device}/current_link_speed"))?;
        let most = s.text(&format!("{device}/max_link_speed"))?;
        let width = s.number(&format!("{device}/current_link_width"))?;
        let widest = s.number(&format!("{device}/max_link_width"))?;
        let gigatransfers =
            |text: &str| text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
        let mut found = Vec::new();
        if width < widest || gigatransfers(&speed) < gigatransfers(&most) {
            found.push(
                warning(format!("{} runs at PCIe {speed} x{width}, it could at {most} x{widest}", nic.name))
                    .read(format!("{device}/current_link_speed"), &speed)
                    .read(format!("{device}/current_link_width"), width)
                    .advice("put the card into a slot of its width and generation"),
            );
        }
        if policy.starts_with("powersave") || policy.starts_with("powersuper") {
            found.push(
                warning(format!("the PCIe link of {} may sleep", nic.name))
                    .read(policy_path, &policy)
                    .boot("pcie_aspm=off"),
            );
        }
        if found.is_empty() {
            found.push(
                ok(format!("{} runs at PCIe {speed} x{width}", nic.name))
                    .read(format!("{device}/current_link_width"), width),
            );
        }
        Ok(found)
    };
    each(s, one)
}

fn ipoib(s: &Subject<'_>) -> Answer {
    /// ARPHRD_INFINIBAND of if_arp.h.
    const INFINIBAND: &str = "32";
    let nics: Vec<&NicFacts> = s
        .nics()?
        .into_iter()
        .filter(|nic| s.maybe(&format!("{}/type", folder(nic))).as_deref() == Some(INFINIBAND))
        .collect();
    if nics.is_empty() {
        return Err(Skip::not_here("no InfiniBand or Omni-Path device in question"));
    }
    let mut found = Vec::new();
    for nic in nics {
        let path = format!("{}/mode", folder(nic));
        let mode = s.maybe(&path).unwrap_or_else(|| "unknown".to_owned());
        let driver = nic.driver.clone().unwrap_or_default();
        let mtu = nic.mtu.map(|mtu| format!(", MTU {mtu}")).unwrap_or_default();
        let fabric = if s.names("/sys/class/infiniband").iter().any(|name| name.starts_with("hfi1")) {
            "Omni-Path"
        } else {
            "InfiniBand"
        };
        found.push(note(format!("{}: IP over {fabric}, {mode} mode{mtu} ({driver})", nic.name)).read(path, mode));
    }
    let fabric = s.names("/sys/class/infiniband");
    Ok(found.into_iter().map(|answer| answer.read("/sys/class/infiniband", some_of(&fabric, 4))).collect())
}
