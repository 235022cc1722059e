//! Services that move interrupts, tasks, frequencies or clocks about.

use super::Tree;

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

pub(crate) fn running(tree: Tree<'_>) -> Vec<String> {
    let mut found: Vec<String> = tree
        .names("proc")
        .into_iter()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|pid| {
            let comm = tree.read(&format!("proc/{pid}/comm"))?;
            let (_, name) = KNOWN.iter().find(|(cut, _)| *cut == comm)?;
            let profile = (*name == "tuned").then(|| tree.read("etc/tuned/active_profile")).flatten();
            Some(profile.map_or_else(|| (*name).to_owned(), |profile| format!("{name} ({profile})")))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}
