//! Who polls a network device, and on which CPU.

use super::check::{Answer, Check, Observation, checks, count, found_or, note, ok, some_of, warning};
use super::nic::{device, folder};
use super::subject::{Skip, Subject};
use model::{CpuList, NicFacts};

pub(super) const CHECKS: &[Check] = checks![
    "nic.steering" by EachNic(steering),
        reads "queues/*/{rps_cpus,xps_cpus}, rps_sock_flow_entries, ntuple, flow rules",
        when "a packet can be handled by another CPU than those to measure on",
        why "each hand-over between CPUs costs an inter-processor interrupt and a wake-up",
        on [Kernel("networking/scaling.rst")];
    "nic.napi-threaded" by EachNic(napi_threaded),
        reads "netlink napi-get, threaded, napi/IF-N threads",
        when "packets are polled by a thread of ordinary policy, or on another CPU",
        why "the thread then competes with the load, or two inter-processor interrupts are added",
        on [Measured("p99.99 3970 µs in ordinary policy under load, 16 µs at FIFO 60; mean 9.4 µs on another CPU, 3.3 µs on the same"),
            Kernel("networking/napi.rst")];
    "nic.busy-poll" by Once(busy_poll),
        reads "net.core.busy_poll, net.core.busy_read",
        when "it does not fit the placement of the ends",
        why "busy polling helps when each end has a CPU of its own and hurts when they share one",
        on [Measured("mean RTT/2 54.8 instead of 3.5 µs on one CPU, 2.1 instead of 6.0 µs on two"), Papers];
    "nic.defer" by EachNic(defer),
        reads "napi_defer_hard_irqs, gro_flush_timeout, irq-suspend-timeout",
        when "polls are put off and nobody polls instead",
        why "deferred interrupts without a busy poller only delay packets",
        on [Kernel("networking/napi.rst")];
];

fn steering(s: &Subject<'_>, nic: &NicFacts) -> Answer {
    let cpus = s.cpus()?;
    let entries = s.number("/proc/sys/net/core/rps_sock_flow_entries").unwrap_or(0);
    let folder = format!("{}/queues", folder(nic));
    let queues = s.names(&folder);
    if queues.is_empty() {
        return Err(Skip::not_here(format!("{} shows no queues", nic.name)));
    }
    let mut found = Vec::new();
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
        let all = masks.iter().fold(CpuList::default(), |all, (_, mask)| all.union(mask));
        // With XPS each CPU has its queue, and only one queue has to be left for these.
        let wrong = !all.is_within(cpus) && (file != "xps_cpus" || masks.len() > cpus.len());
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
    found_or(found, || ok(format!("no packet of {} is handed to another CPU", nic.name)))
}

fn napi_threaded(s: &Subject<'_>, nic: &NicFacts) -> Answer {
    let path = format!("{}/threaded", folder(nic));
    let told = device(s, nic).map(|device| device.napi.iter().any(|napi| napi.threaded.is_some_and(|how| how != 0)));
    let file = s.text(&path);
    // A name is cut at 15 bytes.
    let head: String = format!("napi/{}-", nic.name).chars().take(15).collect();
    let threads: Vec<_> = s.tasks().iter().filter(|task| task.kernel && task.key.name.starts_with(&head)).collect();
    let on = told.unwrap_or(false) || file.as_deref().is_ok_and(|text| text != "0") || !threads.is_empty();
    if !on {
        return file.map(|text| vec![ok(format!("{} is polled in softirq context", nic.name)).read(path, text)]);
    }
    let mut found = Vec::new();
    let ordinary: Vec<_> = threads.iter().filter(|task| !task.is_real_time()).collect();
    if let Some(first) = ordinary.first() {
        let names = some_of(ordinary.iter().map(|task| &task.key.name), 3);
        let answer = warning(format!("{} in ordinary policy: {names}", count(ordinary.len(), "polling thread")));
        found.push(answer.read_policy(first).tune_nic(&nic.name, "nic.thread-policy", "fifo:60"));
    }
    for task in &threads {
        if s.is_scoped() && !task.allowed.is_within(&s.scope.cpus) {
            found.push(
                warning(format!(
                    "{} may run on CPU {}, not on CPU {} alone",
                    task.key.name, task.allowed, s.scope.cpus
                ))
                .read_allowed(task)
                .shield(&s.scope.cpus, &format!(" --nic {}", nic.name)),
            );
        }
    }
    if found.is_empty() {
        let text = format!("{} is polled by {}", nic.name, count(threads.len(), "thread"));
        found.push(
            if threads.is_empty() { note(text) } else { ok(text) }.read(path, file.unwrap_or_else(|_| "on".to_owned())),
        );
    }
    Ok(found)
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

fn defer(s: &Subject<'_>, nic: &NicFacts) -> Answer {
    let polled =
        ["busy_poll", "busy_read"].iter().any(|name| s.number(&format!("/proc/sys/net/core/{name}")).unwrap_or(0) > 0);
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
}
