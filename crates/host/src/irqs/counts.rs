//! /proc/interrupts and /proc/softirqs: what came to each CPU, and how much of it since an earlier look.

use crate::knob::Machine;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// How often it came since boot, by CPU. The kernel counts in 32 bits and begins anew at 0.
    pub counts: BTreeMap<u32, u64>,
    /// The words behind the counts: chip, trigger and handlers of a device's interrupt.
    pub what: String,
}

impl Row {
    /// The rows of a file by name (`24`, `LOC`, `RCU`).
    pub fn table(text: &str) -> BTreeMap<String, Self> {
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
                    let Some(count) = words.next_if(|word| word.bytes().all(|byte| byte.is_ascii_digit())) else {
                        break;
                    };
                    counts.insert(*cpu, count.parse().unwrap_or(u64::MAX));
                }
                Some((name.trim().to_owned(), Self { counts, what: words.collect::<Vec<_>>().join(" ") }))
            })
            .collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Of a device: it has a number, and CPUs that it may go to.
    Device,
    /// The tick and the timers of a CPU (LOC).
    Timer,
    /// From another CPU, or from itself.
    Ipi,
    /// Another one of the CPU itself.
    Cpu,
    /// What the kernel does after an interrupt, by vector.
    Softirq,
}

impl Kind {
    /// Rows of interrupts that CPUs send (arch/x86/kernel/irq.c); those of ARM are called `IPI0` and so on.
    const IPIS: [&str; 4] = ["RES", "CAL", "TLB", "IWI"];

    fn of_interrupt(name: &str) -> Self {
        match name {
            "LOC" => Self::Timer,
            name if Self::IPIS.contains(&name) || name.starts_with("IPI") => Self::Ipi,
            name if name.bytes().all(|byte| byte.is_ascii_digit()) => Self::Device,
            _ => Self::Cpu,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Timer => "timer",
            Self::Ipi => "IPI",
            Self::Cpu => "CPU",
            Self::Softirq => "softirq",
        }
    }
}

/// How often an interrupt came in a span of time.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct InterruptCount {
    /// `36`, `LOC`, `NET_RX`.
    pub name: String,
    pub kind: Kind,
    pub what: String,
    /// How often, by CPU. Empty where the kernel counts for the whole machine (ERR, MIS).
    pub counts: BTreeMap<u32, u64>,
    /// How often, on all CPUs.
    pub total: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    pub interrupts: BTreeMap<String, Row>,
    pub softirqs: BTreeMap<String, Row>,
}

impl Counts {
    /// The counts now; no softirqs where /proc does not show them.
    pub fn read(machine: &Machine) -> io::Result<Self> {
        let interrupts = Row::table(&machine.text("/proc/interrupts")?);
        let softirqs = Row::table(&machine.text("/proc/softirqs").unwrap_or_default());
        Ok(Self { interrupts, softirqs })
    }

    /// What came since an earlier look, the busiest first. New rows are left out: their begin is unknown.
    pub fn since(&self, earlier: &Self) -> Vec<InterruptCount> {
        let rows = self.interrupts.iter().map(|row| (Kind::of_interrupt(row.0), row, &earlier.interrupts));
        let vectors = self.softirqs.iter().map(|row| (Kind::Softirq, row, &earlier.softirqs));
        let mut all: Vec<InterruptCount> = rows
            .chain(vectors)
            .filter_map(|(kind, (name, row), earlier)| Some(InterruptCount::of(name, kind, row, earlier.get(name)?)))
            .collect();
        all.sort_by_key(InterruptCount::order);
        all
    }
}

impl InterruptCount {
    fn of(name: &str, kind: Kind, row: &Row, earlier: &Row) -> Self {
        let more = |(cpu, count): (&u32, &u64)| Some((*cpu, grown(*earlier.counts.get(cpu)?, *count)));
        let mut counts: BTreeMap<u32, u64> = row.counts.iter().filter_map(more).collect();
        let total = counts.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
        if matches!(name, "ERR" | "MIS" | "Err") {
            counts.clear();
        }
        Self { name: name.to_owned(), kind, what: row.what.clone(), counts, total }
    }

    /// Busiest first; equal ones by kind and number.
    fn order(&self) -> (Reverse<u64>, Kind, u32, String) {
        (Reverse(self.total), self.kind, self.number().unwrap_or(u32::MAX), self.name.clone())
    }

    pub fn number(&self) -> Option<u32> {
        self.name.parse().ok().filter(|_| self.kind == Kind::Device)
    }

    /// How often it came to any of these CPUs.
    pub fn to(&self, cpus: &model::CpuList) -> u64 {
        cpus.iter().filter_map(|cpu| self.counts.get(&cpu)).fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The chip that a device's interrupt comes from, without the device's address: `PCI-MSIX`, `IO-APIC`.
    pub fn chip(&self) -> Option<&str> {
        let chip = self.what.split(' ').next().filter(|_| self.kind == Kind::Device)?;
        Some(chip.rsplit_once('-').filter(|(_, address)| address.contains(':')).map_or(chip, |(name, _)| name))
    }
}

/// Growth of a 32-bit counter. One that shrank passed its end, or counts another interrupt of the same number.
fn grown(before: u64, after: u64) -> u64 {
    const END: u64 = 1 << 32;
    match after.checked_sub(before) {
        Some(more) => more,
        None if (END / 2..END).contains(&before) => after + (END - before),
        None => after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOFTIRQS: &str = "      CPU0 CPU2\n NET_RX: 7 7\n RCU: 5 5\n";

    fn counts(interrupts: &str, softirqs: &str) -> Counts {
        Counts { interrupts: Row::table(interrupts), softirqs: Row::table(softirqs) }
    }

    /// Catches: counts taken for those of another CPU where numbers have gaps.
    #[test]
    fn rows_know_which_column_is_which_cpu() {
        let rows =
            Row::table("      CPU0 CPU2\n 24:  1  5  PCI-MSI 0-edge eth0-rx-0\nERR:  3\nLOC: 10 20 Local timer\n");
        assert_eq!(rows["24"].counts, BTreeMap::from([(0, 1), (2, 5)]));
        assert_eq!(rows["24"].what, "PCI-MSI 0-edge eth0-rx-0");
        assert_eq!(rows["ERR"].counts, BTreeMap::from([(0, 3)]));
        assert_eq!(rows["LOC"].counts[&2], 20);
        assert_eq!(Row::table(""), BTreeMap::new());
    }

    /// Catches: since boot in the place of since the earlier look, a wrong order, a kind mistaken, ERR given to CPU 0.
    #[test]
    fn what_came_between_two_looks_is_sorted_by_how_often() {
        let before = counts(
            "      CPU0 CPU2\n 9: 900 900 IO-APIC 9-fasteoi acpi\n 10: 1 5 PCI-MSIX-0000:00:02.0 0-edge eth0-rx-0\n \
             LOC: 10 20 Local timer interrupts\n RES: 4 4 Rescheduling interrupts\nNMI: 0 0 Non-maskable\nERR: 1\n",
            SOFTIRQS,
        );
        let after = counts(
            "      CPU0 CPU2\n 9: 900 900 IO-APIC 9-fasteoi acpi\n 10: 1 105 PCI-MSIX-0000:00:02.0 0-edge eth0-rx-0\n \
             11: 50 50 PCI-MSIX-0000:00:03.0 0-edge new\n LOC: 260 27 Local timer interrupts\n \
             RES: 6 4 Rescheduling interrupts\nNMI: 0 0 Non-maskable\nERR: 2\n",
            "      CPU0 CPU2\n NET_RX: 7 27\n RCU: 5 5\n",
        );
        let came = after.since(&before);
        let shown: Vec<(&str, Kind, u64)> = came.iter().map(|one| (one.name.as_str(), one.kind, one.total)).collect();
        let expected = [
            ("LOC", Kind::Timer, 257),
            ("10", Kind::Device, 100),
            ("NET_RX", Kind::Softirq, 20),
            ("RES", Kind::Ipi, 2),
            ("ERR", Kind::Cpu, 1),
            ("9", Kind::Device, 0),
            ("NMI", Kind::Cpu, 0),
            ("RCU", Kind::Softirq, 0),
        ];
        assert_eq!(shown, expected);
        assert_eq!(came[1].counts, BTreeMap::from([(0, 0), (2, 100)]));
        assert_eq!((came[1].chip(), came[5].chip(), came[0].chip()), (Some("PCI-MSIX"), Some("IO-APIC"), None));
        assert_eq!(came[0].to(&"2".parse().unwrap()), 7);
        assert!(came[4].counts.is_empty(), "it belongs to no CPU");
    }

    /// Catches: four thousand million interrupts where a counter passed its end, or its number changed hands.
    #[test]
    fn counters_pass_their_end() {
        assert_eq!(grown(10, 12), 2);
        assert_eq!(grown(4_294_967_290, 4), 10);
        assert_eq!(grown(1000, 3), 3);
        assert_eq!(grown(u64::MAX, 3), 3);
    }
}
