//! Policies of the kernel's threads that handle interrupts and packets.

use crate::knob::Machine;
use crate::tasks::{kernel_threads, policy_words};
use std::collections::{BTreeMap, BTreeSet};

/// How the names of such threads begin, and what they are called here, before what is the same on each boot of their name.
const KINDS: [(&str, &str); 6] = [
    ("irq/", "irq"),
    ("napi/", "napi"),
    ("ksoftirqd/", "ksoftirqd"),
    ("ktimers/", "ktimers"),
    ("rcuc/", "rcuc"),
    ("rcub/", "rcub"),
];

/// A thread's name without numbers of the boot: `irq eth0-rx-0`, `napi eth0`, `ksoftirqd`; `None` of other threads.
fn stable_name(name: &str) -> Option<String> {
    let (kind, rest) = KINDS.iter().find_map(|(start, kind)| Some((*kind, name.strip_prefix(start)?)))?;
    let of = match kind {
        "irq" => rest.split_once('-').map(|(_, of)| of),
        "napi" => rest.rsplit_once('-').map(|(of, _)| of),
        _ => None,
    };
    Some(of.map_or_else(|| kind.to_owned(), |of| format!("{kind} {of}")))
}

/// The policies of these threads, by name; several of one name whose policies differ are joined. Empty where /proc shows none.
pub(crate) fn policies(machine: &Machine) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for stat in kernel_threads(machine, |name| stable_name(name).is_some()) {
        if let Some(name) = stable_name(&stat.name) {
            found.entry(name).or_default().insert(policy_words(stat.policy, stat.priority));
        }
    }
    found.into_iter().map(|(name, policies)| (name, policies.into_iter().collect::<Vec<_>>().join(" "))).collect()
}
