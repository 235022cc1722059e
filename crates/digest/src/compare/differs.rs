//! What else differs between two sides, by their runs: machines, hosts, devices, findings of the doctor, what was prepared.

use super::Difference;
use crate::RunInput;
use crate::names::data_nic;
use crate::text::{each_once, plain};
use model::run::RunHost;
use model::{MachineFacts, ResultDocument, kconfig};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Facts that are never the same, or that say only where something is.
const OWN: [&str; 16] = [
    "boot_id",
    "hostname",
    "netns",
    "name",
    "bus",
    "addresses",
    "numa_node",
    "uid",
    "environment",
    "nics",
    "realtime_variant",
    "memory_bytes",
    "link",
    "netns_initial",
    "kernel_config",
    "kernel_config_id",
];

#[derive(Default)]
struct Differences(Vec<Difference>);

impl Differences {
    fn add(&mut self, what: impl Into<String>, a: Option<String>, b: Option<String>) {
        if a != b {
            let short = |text: Option<String>| text.map(|text| plain(&text));
            self.0.push(Difference { what: plain(&what.into()), a: short(a), b: short(b) });
        }
    }

    /// Every field of two objects; objects within are taken apart, lists are joined.
    fn fields(&mut self, what: &str, a: &Map<String, Value>, b: &Map<String, Value>) {
        let none = Value::Null;
        for name in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
            if OWN.contains(&name.as_str()) {
                continue;
            }
            let (left, right) = (a.get(name).unwrap_or(&none), b.get(name).unwrap_or(&none));
            match (left.as_object(), right.as_object()) {
                (None, None) => self.add(format!("{what}: {}", readable(name)), word(left), word(right)),
                (left, right) => {
                    let empty = Map::new();
                    let (left, right) = (left.unwrap_or(&empty), right.unwrap_or(&empty));
                    for key in left.keys().chain(right.keys()).collect::<BTreeSet<_>>() {
                        let of = |map: &Map<String, Value>| map.get(key).and_then(word);
                        self.add(
                            format!("{what}: {} {key}", readable(name).trim_end_matches('s')),
                            of(left),
                            of(right),
                        );
                    }
                }
            }
        }
    }
}

/// The keys of two maps with what each has.
fn both<'m, V>(
    a: &'m BTreeMap<String, V>,
    b: &'m BTreeMap<String, V>,
) -> impl Iterator<Item = (&'m String, Option<&'m V>, Option<&'m V>)> {
    a.keys().chain(b.keys()).collect::<BTreeSet<_>>().into_iter().map(|key| (key, a.get(key), b.get(key)))
}

fn readable(field: &str) -> String {
    field.replace('_', " ")
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(yes) => Some(if *yes { "yes" } else { "no" }.to_owned()),
        Value::Array(list) => Some(list.iter().filter_map(word).collect::<Vec<_>>().join(", ")),
        other => Some(other.to_string()),
    }
}

fn object(value: impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

pub(super) fn of_runs(a: &RunInput, b: &RunInput) -> Vec<Difference> {
    let mut found = Differences::default();
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (left, right) = (&a.document, &b.document);
    found.add("substrate", known(left.substrate.word()), known(right.substrate.word()));
    found.add("plan", known(&left.name), known(&right.name));
    found.add("version of the tool", known(&left.tool_version), known(&right.tool_version));
    found.add("build of the tool", left.build.clone(), right.build.clone());
    for (label, x, y) in both(&left.labels, &right.labels) {
        found.add(format!("label {label}"), x.cloned(), y.cloned());
    }
    found.fields("lab", &object(&left.lab), &object(&right.lab));
    let (first, second) = (by_role(a), by_role(b));
    let mut machines: BTreeSet<(&str, &str)> = BTreeSet::new();
    for role in first.keys().chain(second.keys()).collect::<BTreeSet<_>>() {
        let (Some(x), Some(y)) = (first.get(*role), second.get(*role)) else {
            let host = |host: Option<&&RunHost>| host.map(|_| "there".to_owned());
            found.add(format!("the {role}"), host(first.get(*role)), host(second.get(*role)));
            continue;
        };
        let (boot_a, boot_b) = (x.facts.boot_id.as_str(), y.facts.boot_id.as_str());
        if let (Some(p), Some(q)) = (left.machines.get(boot_a), right.machines.get(boot_b))
            && machines.insert((boot_a, boot_b))
        {
            machine(&mut found, role, p, q);
        }
        found.fields(&format!("the {role}"), &object(&x.facts), &object(&y.facts));
        if let (Some(p), Some(q)) = (data_nic(x), data_nic(y)) {
            found.fields(&format!("device of the {role}"), &object(p), &object(q));
        }
        doctor(&mut found, role, x.facts.environment.as_ref(), y.facts.environment.as_ref());
    }
    found.0
}

fn machine(found: &mut Differences, role: &str, a: &MachineFacts, b: &MachineFacts) {
    found.fields(&format!("machine of the {role}"), &object(a), &object(b));
    kernel_options(found, role, a, b);
}

/// What differs between the machines of two sets of results of one run, where these were booted: the first boot of each.
pub(super) fn of_boots(run: &RunInput, a: &[&ResultDocument], b: &[&ResultDocument]) -> Vec<Difference> {
    let booted = |results: &[&ResultDocument], host: &str| {
        results.iter().find_map(|result| run.document.machines.get(result.boot.as_ref()?.ids.get(host)?))
    };
    let mut found = Differences::default();
    let mut machines: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (name, host) in &run.document.hosts {
        if let (Some(p), Some(q)) = (booted(a, name), booted(b, name))
            && p.boot_id != q.boot_id
            && machines.insert((&p.boot_id, &q.boot_id))
        {
            machine(&mut found, &host.role, p, q);
        }
    }
    found.0
}

/// Options that the kernels of two machines set differently: those that matter for latency by name, the others counted.
fn kernel_options(found: &mut Differences, role: &str, a: &MachineFacts, b: &MachineFacts) {
    let (Some(left), Some(right)) = (&a.kernel_config, &b.kernel_config) else {
        return found.add(
            format!("kernel configuration of the {role}"),
            a.kernel_config_id.clone(),
            b.kernel_config_id.clone(),
        );
    };
    for [what, a, b] in kconfig::in_words(left, right) {
        found.add(format!("kernel of the {role}: {what}"), Some(a), Some(b));
    }
}

/// What differs between the runs of one side, which are to be repetitions of the same thing: the first against each other.
pub(super) fn within(runs: &[RunInput], side: &str) -> Vec<Difference> {
    let Some((first, rest)) = runs.split_first() else { return Vec::new() };
    let named = |one: Difference| Difference { what: format!("among the runs of {side}: {}", one.what), ..one };
    each_once(rest.iter().flat_map(|run| of_runs(first, run)).map(named))
}

fn by_role(run: &RunInput) -> BTreeMap<&str, &RunHost> {
    run.document.hosts.values().map(|host| (host.role.as_str(), host)).collect()
}

/// What `windhover doctor` found on the one and not on the other. Only documents that both sides have can differ.
fn doctor(found: &mut Differences, role: &str, a: Option<&Value>, b: Option<&Value>) {
    let (Some(a), Some(b)) = (a, b) else { return };
    let findings = |document: &Value| -> BTreeMap<String, (String, String)> {
        let list = document.get("findings").and_then(Value::as_array).cloned().unwrap_or_default();
        let text = |finding: &Value, name: &str| finding.get(name).and_then(word).unwrap_or_default();
        list.iter()
            .rev()
            .map(|finding| (text(finding, "id"), (text(finding, "severity"), text(finding, "text"))))
            .filter(|(id, (severity, _))| !id.is_empty() && severity != "ok")
            .collect()
    };
    let (left, right) = (findings(a), findings(b));
    for (id, x, y) in
        both(&left, &right).filter(|(_, x, y)| x.map(|(severity, _)| severity) != y.map(|(severity, _)| severity))
    {
        let shown = |one: Option<&(String, String)>| {
            one.map_or_else(|| "in order".to_owned(), |(severity, text)| format!("{severity}: {text}"))
        };
        found.add(format!("doctor on the {role}: {id}"), Some(shown(x)), Some(shown(y)));
    }
}

/// What was prepared for the cells of the one side and not for those of the other: shields and settings.
pub(super) fn of_results(a: &[&ResultDocument], b: &[&ResultDocument]) -> Vec<Difference> {
    let prepared = |results: &[&ResultDocument]| -> BTreeMap<String, BTreeSet<String>> {
        let mut out: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for prepared in results.iter().flat_map(|result| &result.prepared) {
            for setting in &prepared.settings {
                out.entry(format!("setting {} on {}", setting.key, prepared.host))
                    .or_default()
                    .insert(setting.value.to_string());
            }
            if let Some(shield) = &prepared.shield {
                out.entry(format!("shield on {}", prepared.host)).or_default().insert(shield.backend.to_string());
            }
        }
        out
    };
    let (left, right) = (prepared(a), prepared(b));
    let mut found = Differences::default();
    for (what, x, y) in both(&left, &right) {
        let of = |values: Option<&BTreeSet<String>>| {
            Some(values.map_or_else(|| "none".to_owned(), |all| all.iter().cloned().collect::<Vec<_>>().join(", ")))
        };
        found.add(what.clone(), of(x), of(y));
    }
    found.0
}
