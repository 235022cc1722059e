//! Services that move interrupts, tasks, frequencies or clocks about.

use super::read;
use crate::knob::Machine;

/// Names as the kernel keeps them, cut at 15 bytes, and as people know them.
const KNOWN: [(&str, &str); 14] = [
    ("irqbalance", "irqbalance"),
    ("tuned", "tuned"),
    ("thermald", "thermald"),
    ("power-profiles-", "power-profiles-daemon"),
    ("auto-cpufreq", "auto-cpufreq"),
    ("numad", "numad"),
    ("ksmtuned", "ksmtuned"),
    ("chronyd", "chronyd"),
    ("ntpd", "ntpd"),
    ("systemd-timesyn", "systemd-timesyncd"),
    ("ptp4l", "ptp4l"),
    ("phc2sys", "phc2sys"),
    ("onload_cp_serve", "onload_cp_server"),
    ("cpuguard", "cpuguard"),
];

pub(crate) fn running(machine: &Machine) -> Vec<String> {
    let mut found: Vec<String> = crate::tasks::processes(machine)
        .filter_map(|(_, comm)| {
            let (_, name) = KNOWN.iter().find(|(cut, _)| *cut == comm)?;
            let profile = (*name == "tuned").then(|| read(machine, "/etc/tuned/active_profile")).flatten();
            Some(profile.map_or_else(|| (*name).to_owned(), |profile| format!("{name} ({profile})")))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}
