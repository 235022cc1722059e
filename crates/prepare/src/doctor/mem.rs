//! Memory: what makes a page fault or a compaction in the middle of a measurement.

use super::check::{Answer, Check, checks, ok, warning};
use super::subject::{Skip, Subject};
use host::knob::Form;
use host::tasks::status_field;
use model::{CpuList, NicFacts};

pub(super) const CHECKS: &[Check] = checks![
    "mem.thp" by Once(thp),
        reads "transparent_hugepage/enabled",
        when "always",
        why "khugepaged and compaction stop tasks to make huge pages",
        on [Tuned];
    "mem.ksm" by Once(ksm),
        reads "ksm/run",
        when "1",
        why "ksmd scans memory, and a merged page faults when it is written",
        on [Tuned];
    "mem.swap" by Once(swap),
        reads "SwapTotal in /proc/meminfo, vm.swappiness",
        when "there is swap and swappiness is over 10",
        why "a page that was swapped out costs a disk access when it is touched",
        on [Tuned];
    "mem.vmstat" by Once(vmstat),
        reads "vm.stat_interval",
        when "under 10 s",
        why "each CPU that touched memory runs vmstat_update once per interval",
        on [Measured("vmstat_update seen on a shielded CPU"), Tuned];
    "mem.compaction" by Once(compaction),
        reads "vm.compact_unevictable_allowed",
        when "1",
        why "compaction moves locked pages too, and a task that touches one meanwhile faults and waits",
        on [Measured("page faults in 2 of 20 runs of 20,000 messages, memory locked, while the kernel compacted all the time")];
    "mem.numa" by EachNic(numa),
        reads "the NIC's numa_node, node*/cpulist",
        when "the CPUs to measure on are on another node than the NIC",
        why "every packet then crosses between the nodes",
        on [Practice];
];

fn thp(s: &Subject<'_>) -> Answer {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = s.text(path)?;
    let value = Form::Choice.value(&text);
    let answer = if value == "always" {
        warning("transparent huge pages are made for all").tune("memory.thp", "madvise")
    } else {
        ok(format!("transparent huge pages: {value}"))
    };
    Ok(vec![answer.read(path, &text)])
}

fn ksm(s: &Subject<'_>) -> Answer {
    let other = warning("same pages are merged").tune("memory.ksm", 0);
    s.judge("/sys/kernel/mm/ksm/run", |value| value != 1, "no pages are merged", other)
}

fn swap(s: &Subject<'_>) -> Answer {
    let memory = s.text("/proc/meminfo")?;
    let kb = |name: &str| status_field(&memory, name).and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
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
    let text = format!("each CPU counts its memory every {value} s");
    let other = s.scoped(&text).tune("sysctl.vm.stat_interval", 10);
    s.judge(path, |value| value >= 10, text, other)
}

fn compaction(s: &Subject<'_>) -> Answer {
    let other = warning("compaction may move locked pages").tune("sysctl.vm.compact_unevictable_allowed", 0);
    let path = "/proc/sys/vm/compact_unevictable_allowed";
    s.judge(path, |value| value == 0, "compaction leaves locked pages where they are", other)
}

fn numa(s: &Subject<'_>, nic: &NicFacts) -> Answer {
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
    let Some((node, near)) = nodes.iter().find(|(node, _)| nic.numa_node == Some(*node)) else {
        return Err(Skip::not_here("no device says on which memory node it is"));
    };
    let answer = if cpus.is_within(near) {
        ok(format!("{} and CPU {cpus} are both on node {node}", nic.name))
    } else {
        warning(format!("{} is on node {node} (CPU {near}), CPU {cpus} is not", nic.name))
            .advice(format!("measure on CPUs near it: {near}"))
    };
    Ok(vec![answer.read(format!("/sys/class/net/{}/device/numa_node", nic.name), node)])
}
