//! Memory: what makes a page fault or a compaction in the middle of a measurement.

use super::check::{Answer, Check, Evidence, note, ok, some_of, warning};
use super::cpu::common;
use super::parse;
use super::subject::{Skip, Subject};
use model::CpuList;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "mem.thp",
        reads: "transparent_hugepage/enabled",
        when: "always",
        why: "khugepaged and compaction stop tasks to make huge pages",
        evidence: &[Evidence::Tuned],
        make: thp,
    },
    Check {
        id: "mem.ksm",
        reads: "ksm/run",
        when: "1",
        why: "ksmd scans memory, and a merged page faults when it is written",
        evidence: &[Evidence::Tuned],
        make: ksm,
    },
    Check {
        id: "mem.swap",
        reads: "SwapTotal in /proc/meminfo, vm.swappiness",
        when: "there is swap and swappiness is over 10",
        why: "a page that was swapped out costs a disk access when it is touched",
        evidence: &[Evidence::Tuned],
        make: swap,
    },
    Check {
        id: "mem.vmstat",
        reads: "vm.stat_interval",
        when: "under 10 s",
        why: "each CPU that touched memory runs vmstat_update once per interval",
        evidence: &[Evidence::Measured("vmstat_update seen on a shielded CPU"), Evidence::Tuned],
        make: vmstat,
    },
    Check {
        id: "mem.compaction",
        reads: "vm.compact_unevictable_allowed",
        when: "1",
        why: "compaction moves locked pages too, and a task that touches one meanwhile faults and waits",
        evidence: &[Evidence::Measured(
            "page faults in 2 of 20 runs of 20,000 messages, memory locked, while the kernel compacted all the time",
        )],
        make: compaction,
    },
    Check {
        id: "mem.numa",
        reads: "the NIC's numa_node, node*/cpulist",
        when: "the CPUs to measure on are on another node than the NIC",
        why: "every packet then crosses between the nodes",
        evidence: &[Evidence::Practice],
        make: numa,
    },
];

fn thp(s: &Subject<'_>) -> Answer {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = s.text(path)?;
    let value = parse::chosen(&text);
    Ok(vec![if value == "always" {
        warning("transparent huge pages are made for all").read(path, &text).tune("memory.thp", "madvise")
    } else {
        ok(format!("transparent huge pages: {value}")).read(path, &text)
    }])
}

fn ksm(s: &Subject<'_>) -> Answer {
    let path = "/sys/kernel/mm/ksm/run";
    let value = s.number(path)?;
    Ok(vec![if value == 1 {
        warning("same pages are merged").read(path, value).tune("memory.ksm", 0)
    } else {
        ok("no pages are merged").read(path, value)
    }])
}

fn swap(s: &Subject<'_>) -> Answer {
    let memory = s.text("/proc/meminfo")?;
    let kb = |name: &str| parse::field(&memory, name).and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let total = kb("SwapTotal").unwrap_or(0);
    let used = total.saturating_sub(kb("SwapFree").unwrap_or(total));
    let path = "/proc/sys/vm/swappiness";
    let swappiness = s.number(path)?;
    Ok(vec![if total == 0 {
        ok("there is no swap").read("/proc/meminfo SwapTotal", total)
    } else if swappiness > 10 {
        let answer =
            warning(format!("{} of {} MiB of swap in use, swappiness {swappiness}", used / 1024, total / 1024));
        answer.read(path, swappiness).tune("sysctl.vm.swappiness", 10)
    } else {
        ok(format!("{} MiB of swap, used reluctantly", total / 1024)).read(path, swappiness)
    }])
}

fn vmstat(s: &Subject<'_>) -> Answer {
    let path = "/proc/sys/vm/stat_interval";
    let value = s.number(path)?;
    Ok(vec![if value >= 10 {
        ok(format!("memory is counted every {value} s")).read(path, value)
    } else {
        let text = format!("memory is counted every {value} s on each CPU");
        let answer = if s.is_scoped() { warning(text) } else { note(text) };
        answer.read(path, value).tune("sysctl.vm.stat_interval", 10)
    }])
}

fn compaction(s: &Subject<'_>) -> Answer {
    let path = "/proc/sys/vm/compact_unevictable_allowed";
    let value = s.number(path)?;
    Ok(vec![if value == 0 {
        ok("compaction leaves locked pages where they are").read(path, value)
    } else {
        warning("compaction may move locked pages").read(path, value).tune("sysctl.vm.compact_unevictable_allowed", 0)
    }])
}

fn numa(s: &Subject<'_>) -> Answer {
    let root = "/sys/devices/system/node";
    let nodes: Vec<(i32, CpuList)> = s
        .names(root)
        .into_iter()
        .filter_map(|name| {
            let node = name.strip_prefix("node")?.parse().ok()?;
            Some((node, s.list(&format!("{root}/{name}/cpulist")).ok()?))
        })
        .collect();
    if nodes.len() < 2 {
        return Err(Skip::not_here("there is one memory node"));
    }
    let cpus = s.cpus()?;
    let mut found = Vec::new();
    for nic in s.nics()? {
        let Some((node, near)) = nodes.iter().find(|(node, _)| nic.numa_node == Some(*node)) else { continue };
        let inside = common(cpus, near);
        let path = format!("/sys/class/net/{}/device/numa_node", nic.name);
        found.push(if inside.len() == cpus.len() {
            ok(format!("{} and CPU {cpus} are both on node {node}", nic.name)).read(path, node)
        } else {
            warning(format!("{} is on node {node} (CPU {near}), CPU {cpus} is not", nic.name))
                .read(path, node)
                .advice(format!("measure on CPUs near it: {}", some_of([near], 1)))
        });
    }
    if found.is_empty() {
        return Err(Skip::not_here("no device says on which memory node it is"));
    }
    Ok(found)
}
