//! Two documents compared: the two ends of a measurement, or one machine before and after.

use super::document::{Document, Severity};
use model::{NicFacts, kconfig};
use std::collections::BTreeSet;

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Comparison {
    pub a: String,
    pub b: String,
    /// Whether both are of one boot of one machine.
    pub same_machine: bool,
    /// What each was examined for (`CPU 3 and eth0`), where that is not the same: then their findings cannot be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examined_for: Option<[String; 2]>,
    /// Differences; first those that should not be.
    pub differences: Vec<Difference>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Difference {
    /// Of what: `kernel_release`, `net.core.busy_poll`, `nic coalesce rx-usecs`, `finding cpu.freq`.
    pub what: String,
    pub a: Option<String>,
    pub b: Option<String>,
    /// Whether the two ends of a measurement should be alike in it.
    pub should_match: bool,
}

impl Comparison {
    /// Whether something differs that should not.
    pub fn differs(&self) -> bool {
        self.differences.iter().any(|difference| difference.should_match)
    }
}

#[derive(Default)]
struct Differences(Vec<Difference>);

impl Differences {
    fn add(&mut self, what: &str, a: Option<String>, b: Option<String>, should_match: bool) {
        if a != b {
            // What one end could not read cannot be compared.
            let both = a.is_some() && b.is_some();
            self.0.push(Difference { what: what.to_owned(), a, b, should_match: should_match && both });
        }
    }

    fn of_machines(&mut self, a: &Document, b: &Document) {
        /// Facts that are another's on each machine, or that only say where it is.
        const MAY_DIFFER: [&str; 5] = ["command_line", "memory_bytes", "product", "cpus_online", "tracers"];
        /// Facts that are compared in another place, or are never the same.
        const LEFT_OUT: [&str; 8] = [
            "boot_id",
            "sysctls",
            "mitigations",
            "services",
            "realtime_variant",
            "interrupt_threads",
            "kernel_config",
            "kernel_config_id",
        ];
        let (left, right) = (fields(&a.machine), fields(&b.machine));
        for name in left.keys().chain(right.keys()).collect::<BTreeSet<_>>() {
            if !LEFT_OUT.contains(&name.as_str()) {
                let of = |map: &Fields| map.get(name).filter(|value| !value.is_null()).map(word);
                self.add(name, of(&left), of(&right), !MAY_DIFFER.contains(&name.as_str()));
            }
        }
        for (kind, left, right) in [
            ("sysctl", &a.machine.sysctls, &b.machine.sysctls),
            ("sysctl", &a.host.sysctls, &b.host.sysctls),
            ("mitigation", &a.machine.mitigations, &b.machine.mitigations),
            ("thread", &a.machine.interrupt_threads, &b.machine.interrupt_threads),
        ] {
            for name in left.keys().chain(right.keys()).collect::<BTreeSet<_>>() {
                self.add(&format!("{kind} {name}"), left.get(name).cloned(), right.get(name).cloned(), true);
            }
        }
        let ids = [a, b].map(|document| document.machine.kernel_config_id.clone());
        match (&a.machine.kernel_config, &b.machine.kernel_config, ids) {
            (Some(left), Some(right), _) => {
                for [what, a, b] in kconfig::in_words(left, right) {
                    self.add(&format!("kernel {what}"), Some(a), Some(b), what.starts_with("CONFIG_"));
                }
            }
            // The one or the other was not saved with its options.
            (_, _, [left, right]) => self.add("kernel configuration", left, right, true),
        }
        let services = |document: &Document| Some(document.machine.services.join(", "));
        self.add("services", services(a), services(b), true);
    }

    fn of_devices(&mut self, a: &Document, b: &Document) {
        /// A device's own names and places.
        const OWN: [&str; 4] = ["name", "bus", "addresses", "numa_node"];
        let none = serde_json::Value::Null;
        for (left, right) in pairs(a, b) {
            let label =
                if left.name == right.name { left.name.clone() } else { format!("{}/{}", left.name, right.name) };
            let (left, right) = (fields(left), fields(right));
            let names: BTreeSet<_> = left.keys().chain(right.keys()).collect();
            for name in names.into_iter().filter(|name| !OWN.contains(&name.as_str())) {
                let (left, right) = (left.get(name).unwrap_or(&none), right.get(name).unwrap_or(&none));
                if let (Some(left), Some(right)) = (left.as_object(), right.as_object()) {
                    for key in left.keys().chain(right.keys()).collect::<BTreeSet<_>>() {
                        self.add(
                            &format!("{label} {name} {key}"),
                            left.get(key).map(word),
                            right.get(key).map(word),
                            true,
                        );
                    }
                } else {
                    let of = |value: &serde_json::Value| (!value.is_null()).then(|| word(value));
                    self.add(&format!("{label} {name}"), of(left), of(right), true);
                }
            }
        }
    }

    /// `alike`: the same was looked at on both.
    fn of_findings(&mut self, a: &Document, b: &Document, alike: bool) {
        let ids: BTreeSet<&String> = a.findings.iter().chain(&b.findings).map(|finding| &finding.id).collect();
        for id in ids {
            let worst = |document: &Document| document.of(id).max_by_key(|finding| finding.severity).cloned();
            let (left, right) = (worst(a), worst(b));
            let severity = |finding: &Option<super::Finding>| finding.as_ref().map(|finding| finding.severity);
            if severity(&left) != severity(&right) {
                let matters =
                    alike && [&left, &right].into_iter().filter_map(severity).max() >= Some(Severity::Warning);
                let shown = |finding: Option<super::Finding>| {
                    finding.map(|finding| format!("{}: {}", finding.severity, finding.text))
                };
                self.add(&format!("finding {id}"), shown(left), shown(right), matters);
            }
        }
    }
}

fn word(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub fn compare(a: &Document, b: &Document) -> Comparison {
    let mut found = Differences::default();
    let substrate = |document: &Document| Some(document.substrate.word().to_owned());
    found.add("substrate", substrate(a), substrate(b), true);
    let variants = |document: &Document| {
        let names: Vec<&str> = document.realtime.iter().map(|variant| variant.name.as_str()).collect();
        Some(if names.is_empty() { "none".to_owned() } else { names.join(", ") })
    };
    found.add("real-time variant", variants(a), variants(b), true);
    found.of_machines(a, b);
    found.of_devices(a, b);
    let same_machine = !a.machine.boot_id.is_empty() && a.machine.boot_id == b.machine.boot_id;
    let alike = examined_alike(a, b, same_machine);
    found.of_findings(a, b, alike);
    let Differences(mut differences) = found;
    differences.sort_by_key(|difference| !difference.should_match);
    let name = |document: &Document| {
        document.host.hostname.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown host".to_owned())
    };
    Comparison {
        a: name(a),
        b: name(b),
        same_machine,
        examined_for: (!alike).then(|| [scope(a), scope(b)]),
        differences,
    }
}

/// Whether the same was examined. Two machines have CPUs and devices of their own, one has not.
fn examined_alike(a: &Document, b: &Document, same_machine: bool) -> bool {
    let (a, b) = (&a.scope, &b.scope);
    a.only == b.only && (!same_machine || (&a.cpus, &a.nic) == (&b.cpus, &b.nic))
}

fn scope(document: &Document) -> String {
    let scope = &document.scope;
    let mut parts = Vec::new();
    if !scope.cpus.is_empty() {
        parts.push(format!("CPU {}", scope.cpus));
    }
    parts.extend(scope.nic.as_ref().map(|nic| format!("device {nic}")));
    if !scope.only.is_empty() {
        parts.push(format!("{} alone", scope.only.join(", ")));
    }
    if parts.is_empty() { "the machine as a whole".to_owned() } else { parts.join(" and ") }
}

type Fields = serde_json::Map<String, serde_json::Value>;

fn fields<T: serde::Serialize>(value: &T) -> Fields {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::Object(map)) => map,
        _ => Fields::new(),
    }
}

/// The devices to compare: the ones that were named, else those with hardware, in order.
fn pairs<'a>(a: &'a Document, b: &'a Document) -> Vec<(&'a NicFacts, &'a NicFacts)> {
    let real = |document: &'a Document| -> Vec<&'a NicFacts> {
        let named =
            document.scope.nic.as_ref().and_then(|name| document.host.nics.iter().find(|nic| nic.name == *name));
        if let Some(nic) = named {
            return vec![nic];
        }
        let hardware = |nic: &&NicFacts| nic.bus.as_ref().is_some_and(|bus| !bus.is_empty());
        document.host.nics.iter().filter(hardware).collect()
    };
    real(a).into_iter().zip(real(b)).collect()
}
