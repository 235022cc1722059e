//! Readers of the kernel's text files. Pure functions that no input makes panic.

use model::CpuList;
use std::collections::BTreeMap;

/// A line of /proc/interrupts or /proc/softirqs: counts per column, and what follows them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Row {
    pub(super) counts: BTreeMap<u32, u64>,
    pub(super) what: String,
}

/// /proc/interrupts and /proc/softirqs by name of the row (`24`, `LOC`, `RCU`).
pub(super) fn interrupts(text: &str) -> BTreeMap<String, Row> {
    let mut lines = text.lines();
    let columns: Vec<u32> = lines
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|word| word.strip_prefix("CPU")?.parse().ok())
        .collect();
    lines
        .filter_map(|line| {
            let (name, rest) = line.split_once(':')?;
            let mut words = rest.split_ascii_whitespace().peekable();
            let mut counts = BTreeMap::new();
            for cpu in &columns {
                let Some(count) = words.next_if(|word| word.bytes().all(|byte| byte.is_ascii_digit())) else { break };
                counts.insert(*cpu, count.parse().unwrap_or(u64::MAX));
            }
            Some((name.trim().to_owned(), Row { counts, what: words.collect::<Vec<_>>().join(" ") }))
        })
        .collect()
}

/// The soft limit of a row of /proc/PID/limits; `u64::MAX` for unlimited.
pub(super) fn soft_limit(text: &str, name: &str) -> Option<u64> {
    let row = text.lines().find_map(|line| line.strip_prefix(name))?;
    match row.split_ascii_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The flags and the CPUs of `isolcpus=` (`managed_irq,domain,1-3`). Without flags it means `domain`.
pub(super) fn isolcpus(value: &str) -> (Vec<String>, CpuList) {
    let mut flags = Vec::new();
    let mut rest = value;
    while let Some((word, more)) = rest.split_once(',') {
        if !word.starts_with(|c: char| c.is_ascii_alphabetic()) {
            break;
        }
        flags.push(word.to_owned());
        rest = more;
    }
    if flags.is_empty() {
        flags.push("domain".to_owned());
    }
    (flags, rest.parse().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::facts::boot_value;

    #[test]
    fn interrupts_know_which_column_is_which_cpu() {
        let rows =
            interrupts("      CPU0 CPU2\n 24:  1  5  PCI-MSI 0-edge eth0-rx-0\nERR:  3\nLOC: 10 20 Local timer\n");
        assert_eq!(rows["24"].counts, BTreeMap::from([(0, 1), (2, 5)]));
        assert_eq!(rows["24"].what, "PCI-MSI 0-edge eth0-rx-0");
        assert_eq!(rows["ERR"].counts, BTreeMap::from([(0, 3)]));
        assert_eq!(rows["LOC"].counts[&2], 20);
    }

    #[test]
    fn words_of_the_command_line() {
        assert_eq!(boot_value("a nohz_full=1 nohz_full=2-3", "nohz_full"), Some("2-3"));
        assert_eq!(boot_value("xnohz_full=1", "nohz_full"), None);
        assert_eq!(isolcpus("2-3"), (vec!["domain".to_owned()], "2-3".parse().unwrap()));
        assert_eq!(
            isolcpus("managed_irq,domain,1,3"),
            (vec!["managed_irq".to_owned(), "domain".to_owned()], "1,3".parse().unwrap())
        );
        let limits = "Limit                     Soft Limit           Hard Limit           Units\nMax locked memory         8388608              8388608              bytes\nMax realtime priority     unlimited            0\n";
        assert_eq!(soft_limit(limits, "Max locked memory"), Some(8_388_608));
        assert_eq!(soft_limit(limits, "Max realtime priority"), Some(u64::MAX));
    }
}
